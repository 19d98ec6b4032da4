// Which rows of a document that has been prefilled are stored (index/retention/retention.h).
#ifndef LECTERN_ENGINE_DOCUMENT_KEPT_ROWS_H_
#define LECTERN_ENGINE_DOCUMENT_KEPT_ROWS_H_

#include <functional>
#include <vector>

#include "engine/document/kv_spill.h"
#include "index/retention/retention.h"
#include "kernels/thread_pool.h"

namespace lectern {

RetentionShape ShapeOf(const SpillShape& spill, uint32_t num_sinks, uint32_t num_window);

// Query rows of one kv head's group that the spill kept, token by token: [tokens * group,
// head_dim].
std::vector<float> GroupQueries(const KvSpill& spill, uint32_t layer, uint32_t kv_head);

// How many rows each head keeps, [layers * kv heads]. kCancelled as `stopped` says,
// which is asked from any thread; kOutOfMemory.
Result<std::vector<uint64_t>> AllotKeptRows(const Backend& backend, ThreadPool& threads,
                                            const KvSpill& spill, const RetentionShape& shape,
                                            const Retention& retention,
                                            const std::function<bool()>& stopped);

// The positions of the `count` rows that a head keeps, ascending.
std::vector<uint32_t> KeptRows(const Backend& backend, const KvSpill& spill, uint32_t layer,
                               uint32_t kv_head, const RetentionShape& shape,
                               const Retention& retention, uint64_t count, uint64_t seed);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_KEPT_ROWS_H_
