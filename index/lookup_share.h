// The part of a document's rows that one of several processes looks up and attends to, and the
// numbers that these processes ("ranks") tell each other on the way: a lookup of many ranks selects
// the rows that one process would select.
//
// A rank owns a run of the top level's clusters in each kv head, with everything below them. So its
// rows are one run of the stored rows, and every document can be shared by any number of ranks. The
// first rank also owns sinks and window.
#ifndef LECTERN_INDEX_LOOKUP_SHARE_H_
#define LECTERN_INDEX_LOOKUP_SHARE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "index/head_index.h"
#include "store/status.h"

namespace lectern {

// log(exp(a) + exp(b)); -inf where both are.
inline float LogAddExp(float a, float b) {
  const float larger = std::max(a, b);
  if (larger == -INFINITY) return larger;  // avoids exp(-inf + inf)
  return larger + std::log(std::exp(a - larger) + std::exp(b - larger));
}

// The meetings of the ranks of a lookup. All ranks call the same functions in the same order,
// with arrays of the same sizes (unchecked), each from one thread. `local` is the rank's own status
// so far: a rank that failed takes part once more, with numbers that no one reads, and then all
// ranks get the error of the first rank that failed, and call nothing more for this lookup. So no
// rank waits for one that has given up.
class LookupPeers {
 public:
  virtual ~LookupPeers() = default;
  // Replaces each number by the log-sum-exp over all ranks. -inf: nothing.
  virtual Status AddLse(Status local, std::span<float> lse) = 0;
  // Replaces each number by its sum over all ranks, which is the same to the bit on each.
  virtual Status Add(Status local, std::span<double> numbers) = 0;
  // Makes `all` the bytes of all ranks, in the order of the ranks; the sizes may differ. `first`:
  // where this rank's begin. Called where no rank can have failed since they met last.
  virtual Status Gather(std::span<const std::byte> own, std::vector<std::byte>& all,
                        size_t& first) = 0;
};

// One rank's part of a lookup. Borrows the peers.
struct LookupShare {
  LookupPeers* peers;   // never nullptr
  uint32_t rank, size;  // rank < size

  bool owns_exact() const { return rank == 0; }  // sinks and window
  // The rank's run of the head's clusters of a level; may be empty. Ranks get about the same number
  // of rows; a head has clusters.
  IndexRange Clusters(const HeadIndex& head, size_t level) const;
  // The stored rows of these clusters. Without clusters the first rank owns all rows.
  IndexRange Rows(const HeadIndex& head) const;
};

}  // namespace lectern

#endif  // LECTERN_INDEX_LOOKUP_SHARE_H_
