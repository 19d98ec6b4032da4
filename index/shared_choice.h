// Chooses the best of the candidates that several ranks hold, as one process that held all of them
// would, without gathering them: two rounds of sums by score find where the choice ends, and the
// few candidates around that place are gathered.
#ifndef LECTERN_INDEX_SHARED_CHOICE_H_
#define LECTERN_INDEX_SHARED_CHOICE_H_

#include <cstdint>
#include <span>

#include "index/lookup_share.h"
#include "index/reused.h"
#include "kernels/function_ref.h"

namespace lectern {

// Something that may be chosen: a cluster or a row of a kv head.
struct SharedCandidate {
  uint32_t key;    // the smallest is the best (DescendingKey of index/best_first.h)
  uint32_t head;   // equal keys: the smaller head first, then the smaller rank and index
  uint32_t index;  // the rank's own number of it in this head
  uint32_t keys;   // document keys in it
  double cost;     // bytes, or 1 where numbers are counted; >= 0
};

// Sums over chosen candidates of all ranks.
struct ChosenAmounts {
  double cost = 0, keys = 0;
};

// Candidates are taken best first. The choice ends at the first one that would make the cost exceed
// `allowed`, once those before it are `enough`; one that would make it exceed `most` is passed
// over. All are the same on every rank.
struct ChoiceLimits {
  double allowed, most;
  FunctionRef<bool(const ChosenAmounts& before)> enough;
};

// Appends the indices of this rank's chosen candidates to chosen[head], unsorted, and sets
// `amounts` to the sums over all ranks. Where the cost would exceed `most` the choice may end
// earlier than in one process, which passes over every candidate that does not fit. `candidates`:
// this rank's, in any order; it is overwritten. Errors: `local`, and those of the peers.
Status ChooseTogether(LookupPeers& peers, Status local, ArenaVector<SharedCandidate>& candidates,
                      const ChoiceLimits& limits, std::span<ArenaVector<uint32_t>> chosen,
                      ChosenAmounts& amounts);

}  // namespace lectern

#endif  // LECTERN_INDEX_SHARED_CHOICE_H_
