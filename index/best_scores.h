// Chooses the largest of many scores of all heads of a layer, in time linear in their number.
#ifndef LECTERN_INDEX_BEST_SCORES_H_
#define LECTERN_INDEX_BEST_SCORES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "index/reused.h"
#include "kernels/function_ref.h"
#include "kernels/thread_pool.h"

namespace lectern {

struct HeadBuffers;  // index/head_lookup.h

using PerHead = ArenaVector<ArenaVector<uint32_t>>;  // for each kv head ascending indices

// Sets `chosen` [heads] to the indices of the `count` largest scores, all heads together, ascending
// for each head. Among equal scores the first heads and indices win. scores_of(head): scores >= 0,
// no NaN. Uses HeadBuffers::found and counts of the first heads, and memory of the arena, which is
// not reset.
void ChooseBestScores(double count, FunctionRef<std::span<const float>(size_t head)> scores_of,
                      ThreadPool& threads, std::vector<HeadBuffers>& buffers, Arena* arena,
                      PerHead& chosen);

}  // namespace lectern

#endif  // LECTERN_INDEX_BEST_SCORES_H_
