// Checks and launch geometry of key_logits.h.
#include "kernels/cuda/attention/key_logits.h"

#include "kernels/cuda/attention/key_logits_geometry.h"
#include "kernels/cuda/runtime/checks.h"

namespace lectern {

CudaStatus CudaKeyLogits(const CudaStream& stream, const CudaKeyLogitsArgs& args) {
  constexpr const char* kName = "key_logits";
  if (const char* why = WrongQueries(args.queries)) return Refused(kName, why);
  if (!(args.scale > 0) || !(args.softcap >= 0)) return Refused(kName, "a scale that is none");
  if (args.most_entries == 0) return {};
  const DeviceKv& source = args.source;
  if (source.keys == nullptr || args.heads == nullptr || args.logits == nullptr) {
    return Refused(kName, "an array that is missing");
  }
  const bool is_q8 = source.dtype == Dtype::kQ8;
  if (source.dtype != (is_q8 ? Dtype::kQ8 : args.queries.dtype)) {
    return Refused(kName, "keys of another type than the queries");
  }
  if (is_q8 && (args.queries.dtype != Dtype::kF16 || source.key_scales == nullptr ||
                args.queries.head_dim % kQ8Block != 0)) {
    return Refused(kName, "q8 without scales, or of a head_dim that is no multiple of 32");
  }
  if (args.queries.num_kv_heads > kMostGridY) return Refused(kName, "too many kv heads");
  CudaGrid grid{.y = args.queries.num_kv_heads, .threads = kKeyLogitsThreads};
  if (!SetBlocks(args.most_entries, kKeysPerBlock, grid.x)) return Refused(kName, "too many rows");
  return stream.kernels().key_logits(stream.handle(), grid, args);
}

}  // namespace lectern
