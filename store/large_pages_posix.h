// Large pages of memory, which need fewer entries of the processor's address cache, in place of a
// mapping's small ones. All functions may be called by any thread.
#ifndef LECTERN_STORE_LARGE_PAGES_POSIX_H_
#define LECTERN_STORE_LARGE_PAGES_POSIX_H_

#include <cstdint>

namespace lectern {

inline constexpr uint64_t kLargePage = uint64_t{2} << 20;  // bytes; x86-64's, and most of Arm's

// `bytes` rounded up to whole large pages.
inline uint64_t WholeLargePages(uint64_t bytes) {
  return (bytes + kLargePage - 1) / kLargePage * kLargePage;
}

// Whether the system gives large pages to whoever asks for them, as Linux says.
bool HasLargePages();

// Anonymous memory, or merely its addresses (PROT_NONE), that begins at a large page, which mmap
// does not promise: a page more is asked for, and the surplus given back. `bytes`: a multiple of
// kLargePage. nullptr, with errno: there is none.
void* ReserveLargePages(uint64_t bytes, int protection);

// Replaces the small pages at `from`, which begins at a large page's address, by one large page
// with a read-only copy of their first `bytes` (at most kLargePage). The system moves the page in
// one step: a thread that reads finds the one or the other, or waits. false: the system has none to
// give, and nothing was changed.
bool MoveToLargePage(char* from, uint64_t bytes);

}  // namespace lectern

#endif  // LECTERN_STORE_LARGE_PAGES_POSIX_H_
