// Checks and launch geometry of rows.h.
#include "kernels/cuda/rows/rows.h"

#include <algorithm>

#include "kernels/cuda/rows/rows_geometry.h"
#include "kernels/cuda/runtime/checks.h"

namespace lectern {
namespace {

bool IsF32(const DeviceRows& rows) { return AreRows(rows) && rows.dtype == Dtype::kF32; }
bool HaveSameShape(const DeviceRows& a, const DeviceRows& b) {
  return a.num_rows == b.num_rows && a.num_cols == b.num_cols;
}

// A thread for each of `count` elements, or for four of them.
CudaStatus SetElements(const char* name, size_t count, CudaGrid& grid) {
  grid.threads = kRowBlockThreads;
  if (SetBlocks(count, kRowBlockThreads, grid.x)) return {};
  return Refused(name, "too many rows");
}

}  // namespace

bool AreRows(const DeviceRows& rows) {
  if (rows.dtype == Dtype::kQ8 || rows.num_cols == 0 || rows.stride < rows.num_cols) return false;
  if (rows.num_rows == 0) return true;
  return rows.data != nullptr && IsAligned(rows.data, RowBytes(rows.dtype, 1));
}

CudaStatus CudaRmsNorm(const CudaStream& stream, const CudaRmsNormArgs& args) {
  constexpr const char* kName = "rms_norm";
  const auto& [input, weight, epsilon, output] = args;
  if (!IsF32(input) || !AreRows(output) || weight == nullptr) {
    return Refused(kName, "rows that are none");
  }
  if (!HaveSameShape(input, output)) return Refused(kName, "shapes that differ");
  if (input.num_rows == 0) return {};
  const bool by_warp = input.num_cols <= kWarpRowCols;
  const size_t rows_per_block = by_warp ? kRowBlockThreads / 32 : 1;
  CudaGrid grid{.threads = kRowBlockThreads,
                .shared_bytes = by_warp ? 0u : kRowBlockThreads / 32 * uint32_t{sizeof(float)}};
  if (!SetBlocks(input.num_rows, rows_per_block, grid.x)) return Refused(kName, "too many rows");
  return stream.kernels().rms_norm(stream.handle(), grid, args);
}

CudaStatus CudaRope(const CudaStream& stream, const CudaRopeArgs& args) {
  constexpr const char* kName = "rope";
  if (!IsF32(args.heads) || !AreRows(args.output)) return Refused(kName, "rows that are none");
  if (!HaveSameShape(args.heads, args.output)) return Refused(kName, "shapes that differ");
  if (args.head_dim == 0 || args.head_dim % 2 != 0 || args.heads.num_cols % args.head_dim != 0 ||
      args.half > args.head_dim / 2) {
    return Refused(kName, "a head_dim that does not fit");
  }
  if (args.half > 0 && (args.cosine == nullptr || args.sine == nullptr)) {
    return Refused(kName, "no angles");
  }
  if (args.heads.num_rows == 0) return {};
  CudaGrid grid;
  const CudaStatus status =
      SetElements(kName, args.heads.num_rows * (args.heads.num_cols / 2), grid);
  return status.ok() ? stream.kernels().rope(stream.handle(), grid, args) : status;
}

CudaStatus CudaGlu(const CudaStream& stream, const CudaGluArgs& args) {
  constexpr const char* kName = "glu";
  if (!IsF32(args.gate) || !IsF32(args.up) || !AreRows(args.output)) {
    return Refused(kName, "rows that are none");
  }
  if (!HaveSameShape(args.gate, args.up) || !HaveSameShape(args.gate, args.output)) {
    return Refused(kName, "shapes that differ");
  }
  if (args.gate.num_rows == 0) return {};
  CudaGrid grid;
  const size_t fours = args.gate.num_rows * ((args.gate.num_cols + 3) / 4);
  const CudaStatus status = SetElements(kName, fours, grid);
  return status.ok() ? stream.kernels().glu(stream.handle(), grid, args) : status;
}

CudaStatus CudaSoftcap(const CudaStream& stream, const CudaSoftcapArgs& args) {
  constexpr const char* kName = "softcap";
  if (!IsF32(args.logits)) return Refused(kName, "rows that are none");
  if (!(args.cap > 0)) return Refused(kName, "a cap that is none");
  if (args.logits.num_rows == 0) return {};
  CudaGrid grid;
  const CudaStatus status = SetElements(kName, args.logits.num_rows * args.logits.num_cols, grid);
  return status.ok() ? stream.kernels().softcap(stream.handle(), grid, args) : status;
}

CudaStatus CudaAdd(const CudaStream& stream, const CudaAddArgs& args) {
  constexpr const char* kName = "add";
  if (!IsF32(args.to) || args.from == nullptr) return Refused(kName, "rows that are none");
  if (args.from_stride != 0 && args.from_stride < args.to.num_cols) {
    return Refused(kName, "a stride that is too small");
  }
  if (args.to.num_rows == 0) return {};
  CudaGrid grid;
  const CudaStatus status = SetElements(kName, args.to.num_rows * args.to.num_cols, grid);
  return status.ok() ? stream.kernels().add(stream.handle(), grid, args) : status;
}

CudaStatus CudaStoreRows(const CudaStream& stream, const CudaStoreRowsArgs& args) {
  constexpr const char* kName = "store_rows";
  if (!IsF32(args.input) || args.output == nullptr) return Refused(kName, "rows that are none");
  if (args.head_dim == 0 || args.input.num_cols != size_t{args.num_heads} * args.head_dim) {
    return Refused(kName, "heads that do not fit");
  }
  if (args.dtype == Dtype::kQ8) {
    if (args.head_dim % kQ8Block != 0) {
      return Refused(kName, "q8 of a head_dim that is no multiple of 32");
    }
    if (args.scales == nullptr) return Refused(kName, "q8 without scales");
  } else if (!IsAligned(args.output, RowBytes(args.dtype, 1))) {
    return Refused(kName, "rows that are not aligned");
  }
  if (args.first_position > args.rows_per_head ||
      args.input.num_rows > args.rows_per_head - args.first_position) {
    return Refused(kName, "more rows than a head has room for");
  }
  if (args.input.num_rows == 0) return {};
  CudaGrid grid;
  const CudaStatus status = SetElements(kName, args.input.num_rows * args.input.num_cols, grid);
  return status.ok() ? stream.kernels().store_rows(stream.handle(), grid, args) : status;
}

CudaStatus CudaPlaceRows(const CudaStream& stream, const CudaPlaceRowsArgs& args) {
  constexpr const char* kName = "place_rows";
  if (args.num_arrays == 0 || args.num_arrays > CudaPlaceRowsArgs::kMostArrays) {
    return Refused(kName, "a number of arrays that it does not take");
  }
  size_t most_units = 0;
  for (uint32_t i = 0; i < args.num_arrays; ++i) {
    const CudaPlaceRowsArgs::Array& array = args.arrays[i];
    if (array.from == nullptr || array.to == nullptr || args.places == nullptr) {
      return Refused(kName, "rows that are none");
    }
    if (!IsAligned(array.from, 16) || !IsAligned(array.to, 16)) {
      return Refused(kName, "rows that are not aligned");
    }
    if (array.row_bytes == 0 || array.row_bytes % 2 != 0) {
      return Refused(kName, "rows of an odd number of bytes");
    }
    most_units = std::max<size_t>(most_units, array.row_bytes / PlacedUnit(array.row_bytes));
  }
  if (args.num_rows == 0) return {};
  CudaGrid grid;
  const CudaStatus status = SetElements(kName, args.num_rows * most_units, grid);
  grid.y = args.num_arrays;
  return status.ok() ? stream.kernels().place_rows(stream.handle(), grid, args) : status;
}

}  // namespace lectern
