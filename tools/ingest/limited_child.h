// Runs a program that reads foreign bytes so that it can do little harm: in a process of its own,
// with limits, which is killed when it exceeds them.
#ifndef LECTERN_TOOLS_INGEST_LIMITED_CHILD_H_
#define LECTERN_TOOLS_INGEST_LIMITED_CHILD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lectern::tools {

struct ChildLimits {
  uint64_t memory_bytes = uint64_t{1} << 30;  // address space
  uint64_t cpu_seconds = 20;
  double wall_seconds = 60;
  uint64_t output_bytes = uint64_t{256} << 20;
};

struct ChildEnd {
  enum class How {
    kExited,         // number: its exit status
    kSignalled,      // number: of the signal, which none of these sent
    kNotStarted,     // number: an errno; ENOENT: there is no such program
    kTooSlow,        // the processor's or the clock's limit
    kTooMuchOutput,  //
    kRefused,        // on_output wanted no more
    kCancelled,
  };
  How how = How::kExited;
  int number = 0;
  std::string complaint;  // what it said on stderr first, at most 4 KiB of any bytes
};

// Runs `command` (looked up in PATH where it has no slash; no shell) with `input` as its stdin, a
// file that can be sought in, and gives its stdout to `on_output` piece by piece, on the calling
// thread, until that returns false. `is_cancelled` is asked at least every 50 ms. The child has its
// own process group, no other files, LC_ALL=C and nothing else in its environment, may write no
// files and, unless we are root, start no processes; it ends with the calling thread. When this
// returns, the child and what it started are gone. Any thread.
ChildEnd RunLimited(const std::vector<std::string>& command, std::string_view input,
                    const ChildLimits& limits,
                    const std::function<bool(std::string_view)>& on_output,
                    const std::function<bool()>& is_cancelled);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_LIMITED_CHILD_H_
