#include "engine/indexing/estimate_index.h"

#include <new>

#include "engine/indexing/index_cost.h"
#include "engine/indexing/index_input.h"
#include "engine/indexing/index_record.h"

namespace lectern {
namespace {

Status EstimateCancelled() { return {Code::kCancelled, "the estimate was cancelled"}; }

}  // namespace

Result<IndexEstimate> EstimateIndex(const IndexContext& context, std::string_view bytes,
                                    const IndexOptions& options) try {
  if (IsSet(options.cancel)) return EstimateCancelled();
  LECTERN_ASSIGN(const PreparedDocument prepared, PrepareDocument(context.model, bytes, options));
  const ModelConfig& config = context.model.config();
  const uint64_t tokens = prepared.tokens.ids.size();
  IndexEstimate estimate;
  estimate.tokens = tokens;
  const DiskCost cost = CostOnDisk(config, options, prepared);
  estimate.bytes_on_disk = cost.finished;
  estimate.peak_bytes_on_disk = cost.peak;
  estimate.anonymous_bytes =
      IndexingBytes(config, tokens, context.threads.num_threads(), prepared.prefill_budget);
  estimate.flops = PrefillFlops(config, static_cast<double>(tokens), options.stats == "full",
                                prepared.prefill_budget);
  const double cluster_flops =
      tokens >= kMinClusteredTokens ? ClusterFlops(config, static_cast<double>(tokens)) : 0;
  if (IsSet(options.cancel)) return EstimateCancelled();
  const double trial = context.flops_per_second
                           ? context.flops_per_second()
                           : TrialFlopsPerSecond(context.backend, options.cancel);
  if (IsSet(options.cancel)) return EstimateCancelled();
  // Attention and clustering reach about half the speed of a plain product.
  estimate.seconds = (estimate.flops + cluster_flops) /
                     (0.5 * trial * static_cast<double>(context.threads.num_threads()));
  std::string existing = context.store;
  for (;;) {  // the store need not exist yet: ask the nearest folder that does
    LECTERN_ASSIGN(const bool there, context.env.Exists(existing));
    const size_t slash = existing.find_last_of('/');
    if (there || slash == std::string::npos) break;
    existing = slash == 0 ? "/" : existing.substr(0, slash);
  }
  LECTERN_ASSIGN(estimate.free_bytes, context.env.FreeBytes(existing));
  LECTERN_ASSIGN(const auto row, FindReady(context, prepared.id));
  estimate.existed = row.has_value() && !options.again && HasPages(context, *row, options);
  return estimate;
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "not enough memory to read the document");
}

}  // namespace lectern
