// Chooses which rows of a prefilled document are stored, for a retention below 1
// (index/retention/retention.h).
#ifndef LECTERN_ENGINE_DOCUMENT_KEPT_ROWS_H_
#define LECTERN_ENGINE_DOCUMENT_KEPT_ROWS_H_

#include <functional>
#include <vector>

#include "engine/document/kv_spill.h"
#include "index/retention/retention.h"
#include "kernels/thread_pool.h"

namespace lectern {

// The sizes that retention methods need.
RetentionShape ShapeOf(const SpillShape& spill, uint32_t num_sinks, uint32_t num_window);

// Copies the query rows of one kv head's group that the spill kept, token by token: [tokens *
// group, head_dim]. `group`: query heads a kv head.
std::vector<float> GroupQueries(const KvSpill& spill, uint32_t layer, uint32_t kv_head);

// Scores the rows of all heads on `threads` and returns how many each head keeps, [layers * kv
// heads]. kCancelled if `stopped`, which is called on several threads at once, returns true;
// kOutOfMemory.
Result<std::vector<uint64_t>> AllotKeptRows(const Backend& backend, ThreadPool& threads,
                                            const KvSpill& spill, const RetentionShape& shape,
                                            const Retention& retention,
                                            const std::function<bool()>& stopped);

// Positions of the `count` rows that a head keeps, ascending; `seed` is that of the clustering. May
// throw std::bad_alloc.
std::vector<uint32_t> KeptRows(const Backend& backend, const KvSpill& spill, uint32_t layer,
                               uint32_t kv_head, const RetentionShape& shape,
                               const Retention& retention, uint64_t count, uint64_t seed);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_KEPT_ROWS_H_
