// Checks and launch geometry of key_squares.h.
#include "kernels/cuda/attention/key_squares.h"

#include <algorithm>

#include "kernels/cuda/attention/tile_geometry.h"
#include "kernels/cuda/runtime/checks.h"

namespace lectern {
namespace {

// Says what is wrong with the arguments of CudaKeySquares; nullptr: nothing.
const char* WrongSquares(const CudaKeySquaresArgs& args) {
  if (const char* why = WrongQueries(args.queries)) return why;
  if (!(args.scale > 0) || !(args.softcap >= 0)) return "a scale that is none";
  if (!(args.least >= 0)) return "a least sum that is none";
  const DeviceKv& source = args.source;
  if (source.keys == nullptr || args.counts == nullptr || args.lse == nullptr ||
      args.positions == nullptr || (args.squares == nullptr && args.masses == nullptr)) {
    return "an array that is missing";
  }
  if (!IsAligned(source.keys, 16) || !IsAligned(args.squares, 8) || !IsAligned(args.masses, 8)) {
    return "what is not aligned";
  }
  if (args.lse_stride > 0 && args.lse_stride < args.queries.num_tokens * args.queries.group) {
    return "a stride that is too small";
  }
  const bool is_q8 = source.dtype == Dtype::kQ8;
  if (!is_q8 && source.dtype != args.queries.dtype) return "keys of another type than the queries";
  if (is_q8 && (args.queries.dtype != Dtype::kF16 || source.key_scales == nullptr ||
                args.queries.head_dim % kQ8Block != 0)) {
    return "q8 without scales, or of a head_dim that is no multiple of 32";
  }
  if (args.queries.num_kv_heads > kMostSquaresHeads) return "too many kv heads";
  return nullptr;
}

}  // namespace

CudaStatus CudaKeySquares(const CudaStream& stream, const CudaKeySquaresArgs& args) {
  constexpr const char* kName = "key_squares";
  if (const char* why = WrongSquares(args)) return Refused(kName, why);
  if (args.most_entries == 0) return {};
  // How many entries there are is the device's to know: enough blocks to fill it take tiles of
  // them in turn. By hand; no GPU has been measured yet (tests/GPU-PENDING.md).
  constexpr uint32_t kBlocksPerMultiprocessor = 8;
  const uint32_t heads = args.queries.num_kv_heads;
  const uint64_t most_tiles = uint64_t{heads} * ((args.most_entries - 1) / kTileKeys + 1);
  const uint64_t at_once = kBlocksPerMultiprocessor * stream.device().num_multiprocessors;
  const CudaGrid grid{
      .x = static_cast<uint32_t>(std::min(most_tiles, at_once)),
      .threads = kTileThreads,
      .shared_bytes = TileBytes(kFewRows + kTileKeys, args.queries.head_dim) +
                      (kTileThreads / 32 + 2 * (heads + 1)) * uint32_t{sizeof(uint32_t)}};
  if (!HasShared(stream, grid)) return Refused(kName, kTooWide);
  return stream.kernels().key_squares(stream.handle(), grid, args);
}

}  // namespace lectern
