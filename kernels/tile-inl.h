// The register tile under every float product in this room (matmul, attention, centroid lookup,
// K-means): packs stored rows into panels and multiplies them.
//
//   C[rows, columns] (+)= A[rows, depth] * B[depth, columns],   all float
//
// A and C are row major. B is read in panels of kPanel columns, [depth][kPanel] each; PackPanels
// makes them from stored rows of any dtype (B = rows^T), ConvertPanels from values (B = rows).
// Every element of C is one chain of multiply-adds over ascending depth. So its bits depend on its
// own row of A and column of B only: not on neighbours, blocking or thread. Answers are the same
// for any number of threads because of this.
//
// Per-target header of Highway: included once for each instruction set, from *_simd.cc only.
// HWY_SCALAR stands for machines without a vector unit; there the *_simd.cc call the scalar
// definition.
#include "kernels/element.h"
#include "kernels/types.h"

#if defined(LECTERN_KERNELS_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LECTERN_KERNELS_TILE_INL_H_
#undef LECTERN_KERNELS_TILE_INL_H_
#else
#define LECTERN_KERNELS_TILE_INL_H_
#endif

#include <algorithm>
#include <type_traits>

#include "hwy/cache_control.h"
#include "hwy/highway.h"

// Unrolls loops over the registers of a tile. Not under a sanitizer, which checks every step:
// unrolled loops then take minutes to compile.
#undef LECTERN_UNROLL_TILE
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LECTERN_UNROLL_TILE
#else
#define LECTERN_UNROLL_TILE HWY_UNROLL(16)
#endif

// Keeps a vector in its register. GCC would otherwise load it anew for each of its uses, and every
// load costs.
#undef LECTERN_LOAD_ONCE
#if HWY_COMPILER_GCC_ACTUAL && HWY_ARCH_X86
#define LECTERN_LOAD_ONCE(vector) asm("" : "+x"((vector).raw))
#else
#define LECTERN_LOAD_ONCE(vector)
#endif

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVector = hn::Vec<FloatTag>;

// Floats in a vector of this target, and columns of a panel: two vectors of B per row of A.
constexpr size_t kLanes = HWY_LANES(float);
constexpr size_t kPanel = 2 * kLanes;

// The largest lane. Highway's emulated target ignores lanes below the lowest finite number, so -inf
// needs a search of its own there.
HWY_INLINE float LargestLane(FloatVector v) {
  const FloatTag d;
#if HWY_TARGET == HWY_EMU128
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, d, lanes);
  return *std::max_element(lanes, lanes + kLanes);
#else
  return hn::GetLane(hn::MaxOfLanes(d, v));
#endif
}

// Rows of the tile. With two vectors of B and one of A, 6 rows (12 sums) fill 16 registers, 12 rows
// (24 sums) fill most of 32.
#if HWY_TARGET == HWY_NEON || HWY_TARGET <= HWY_AVX3
constexpr size_t kMaxRows = 12;
#else
constexpr size_t kMaxRows = 6;
#endif

// A view of rows of any element type that begin `stride` bytes apart: TypedRows and Rows<float>
// alike. Nothing is checked.
struct StoredRows {
  StoredRows(TypedRows rows)  // NOLINT: a TypedRows is stored rows
      : data(rows.data), stride(rows.row_bytes()), num_rows(rows.num_rows) {}
  StoredRows(Rows<const float> rows)  // NOLINT
      : data(reinterpret_cast<const std::byte*>(rows.data)),
        stride(rows.stride * sizeof(float)),
        num_rows(rows.num_rows) {}
  const std::byte* row(size_t r) const { return data + r * stride; }
  void Skip(size_t rows) { data += rows * stride, num_rows -= rows; }

  const std::byte* data;
  size_t stride;
  size_t num_rows;
};

// ---- Stored elements -> float vectors

// A vector from memory of any alignment.
template <class D>
HWY_INLINE hn::Vec<D> LoadBytes(D d, const std::byte* from) {
  const hn::Repartition<uint8_t, D> bytes;
  return hn::BitCast(d, hn::LoadU(bytes, reinterpret_cast<const uint8_t*>(from)));
}

// f16 to float. Uses the hardware conversion where the target has one.
HWY_INLINE FloatVector F16ToFloat(hn::Vec<hn::Rebind<uint16_t, FloatTag>> half) {
  const FloatTag d;
#if HWY_TARGET <= HWY_AVX2 || HWY_TARGET == HWY_NEON
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, FloatTag>(), half));
#else  // ToFloat(f16) in vector form: Highway's emulation handles neither infinity nor NaN
  const hn::Rebind<uint32_t, FloatTag> du;
  const auto bits = hn::PromoteTo(du, half);
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFu));
  const auto shifted = hn::ShiftLeft<13>(magnitude);
  // Multiplying by 2^112 corrects the exponent bias and normalises subnormals at the same time.
  const auto finite = hn::BitCast(du, hn::Mul(hn::BitCast(d, shifted), hn::Set(d, 0x1p112f)));
  const auto quiet =
      hn::IfThenElseZero(hn::Gt(magnitude, hn::Set(du, 0x7C00u)), hn::Set(du, 0x400000u));
  const auto special = hn::Or(hn::Or(shifted, hn::Set(du, 0x7F800000u)), quiet);
  const auto is_finite = hn::Lt(magnitude, hn::Set(du, 0x7C00u));
  return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(is_finite, finite, special)));
#endif
}

// Elements [col, col + kLanes) of a row as floats. Needs col % kLanes == 0, so that a vector of q8
// lies in one block.
template <Dtype kDtype>
HWY_INLINE FloatVector LoadVector(const std::byte* row, size_t col) {
  const FloatTag d;
  const hn::Rebind<uint16_t, FloatTag> du16;
  if constexpr (kDtype == Dtype::kF32) {
    return LoadBytes(d, row + 4 * col);
  } else if constexpr (kDtype == Dtype::kF16) {
    return F16ToFloat(LoadBytes(du16, row + 2 * col));
  } else if constexpr (kDtype == Dtype::kBf16) {
    const hn::Rebind<uint32_t, FloatTag> du32;
    const auto bits = hn::PromoteTo(du32, LoadBytes(du16, row + 2 * col));
    return hn::BitCast(d, hn::ShiftLeft<16>(bits));
  } else {
    static_assert(kQ8Block % kLanes == 0);
    const std::byte* block = row + col / kQ8Block * (kQ8Block + 2);
    const FloatVector scale = F16ToFloat(hn::Set(du16, LoadUnaligned<uint16_t>(block)));
    const hn::Rebind<int8_t, FloatTag> di8;
    const hn::Rebind<int32_t, FloatTag> di32;
    const auto steps = LoadBytes(di8, block + 2 + col % kQ8Block);
    return hn::Mul(scale, hn::ConvertTo(d, hn::PromoteTo(di32, steps)));
  }
}

// Elements [col, col + count) and zeros, for count < kLanes. Reads nothing past the last element.
// q8 rows have no such rest: zeros.
template <Dtype kDtype>
HWY_INLINE FloatVector LoadPartial(const std::byte* row, size_t col, size_t count) {
  if constexpr (kDtype == Dtype::kQ8) {
    return hn::Zero(FloatTag());  // blocks of 32 leave no partial vector
  } else {
    constexpr size_t kBytes = kDtype == Dtype::kF32 ? 4 : 2;
    std::byte padded[kLanes * kBytes] = {};
    std::memcpy(padded, row + col * kBytes, count * kBytes);
    return LoadVector<kDtype>(padded, 0);
  }
}

// ---- Packing

// Writes 128-bit block b of `v` at out + b * step, for every block, by halving the vector.
template <class D>
HWY_INLINE void StoreBlocks(D d, hn::Vec<D> v, float* out, size_t step) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    hn::StoreU(v, d, out);
  } else {
    const hn::Half<D> half;
    StoreBlocks(half, hn::LowerHalf(half, v), out, step);
    StoreBlocks(half, hn::UpperHalf(half, v), out + step * hn::MaxLanes(half) / 4, step);
  }
}

// Transposes four vectors: out[k * stride + i] = v_i[k], for i < 4 and k < kLanes.
HWY_INLINE void StoreTransposed(FloatVector v0, FloatVector v1, FloatVector v2, FloatVector v3,
                                float* out, size_t stride) {
  const FloatTag d;
  const hn::Repartition<uint64_t, FloatTag> pairs;
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, v0, v1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, v2, v3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, v0, v1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, v2, v3));
  const size_t step = 4 * stride;
  StoreBlocks(d, hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), out, step);
  StoreBlocks(d, hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), out + stride, step);
  StoreBlocks(d, hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), out + 2 * stride,
              step);
  StoreBlocks(d, hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), out + 3 * stride,
              step);
}

// Packs one panel: packed[k - k_begin][i] = rows[i][k], i < kPanel. If there are fewer rows, the
// last one is repeated; those columns of the product are computed and dropped.
template <Dtype kDtype>
HWY_INLINE void PackPanel(const StoredRows& rows, size_t k_begin, size_t k_end, float* packed) {
  for (size_t i = 0; i < kPanel; i += 4, packed += 4) {
    const std::byte* row[4];
    for (size_t j = 0; j < 4; ++j) row[j] = rows.row(std::min(i + j, rows.num_rows - 1));
    size_t k = k_begin;
    for (; k + kLanes <= k_end; k += kLanes) {
      StoreTransposed(LoadVector<kDtype>(row[0], k), LoadVector<kDtype>(row[1], k),
                      LoadVector<kDtype>(row[2], k), LoadVector<kDtype>(row[3], k),
                      packed + (k - k_begin) * kPanel, kPanel);
    }
    if (k == k_end) continue;
    const size_t left = k_end - k;
    float columns[kLanes * 4];
    StoreTransposed(LoadPartial<kDtype>(row[0], k, left), LoadPartial<kDtype>(row[1], k, left),
                    LoadPartial<kDtype>(row[2], k, left), LoadPartial<kDtype>(row[3], k, left),
                    columns, 4);
    for (size_t j = 0; j < left; ++j) {
      std::memcpy(packed + (k - k_begin + j) * kPanel, columns + 4 * j, 4 * sizeof(float));
    }
  }
}

// Packs B = rows[:, k_begin:k_end]^T, in panels of (k_end - k_begin) * kPanel floats. Needs
// num_rows >= 1; with q8, k_begin and k_end are multiples of kLanes. `packed` has room for
// ceil(num_rows / kPanel) panels, at any alignment. Nothing of this is checked.
template <Dtype kDtype>
void PackPanelsOf(StoredRows rows, size_t k_begin, size_t k_end, float* packed) {
  for (;;) {
    PackPanel<kDtype>(rows, k_begin, k_end, packed);
    if (rows.num_rows <= kPanel) return;
    rows.Skip(kPanel);
    packed += (k_end - k_begin) * kPanel;
  }
}

// PackPanelsOf, with its rules, for a dtype known at run time.
inline void PackPanels(const StoredRows& rows, Dtype dtype, size_t k_begin, size_t k_end,
                       float* packed) {
  switch (dtype) {
    case Dtype::kF32:
      return PackPanelsOf<Dtype::kF32>(rows, k_begin, k_end, packed);
    case Dtype::kF16:
      return PackPanelsOf<Dtype::kF16>(rows, k_begin, k_end, packed);
    case Dtype::kBf16:
      return PackPanelsOf<Dtype::kBf16>(rows, k_begin, k_end, packed);
    case Dtype::kQ8:
      return PackPanelsOf<Dtype::kQ8>(rows, k_begin, k_end, packed);
  }
}

// Converts B = rows, in panels that begin every panel_stride floats, at least num_rows * kPanel.
// The columns that the last panel lacks are zeros. `packed` has room for ceil(num_cols / kPanel)
// panels, at any alignment. Nothing of this is checked.
template <Dtype kDtype>
void ConvertPanelsOf(TypedRows rows, float* packed, size_t panel_stride) {
  const FloatTag d;
  for (size_t r = 0; r < rows.num_rows; ++r) {
    const std::byte* row = rows.row(r);
    for (size_t col = 0; col < rows.num_cols; col += kLanes) {
      const size_t left = rows.num_cols - col;
      const FloatVector v =
          left >= kLanes ? LoadVector<kDtype>(row, col) : LoadPartial<kDtype>(row, col, left);
      float* to = packed + col / kPanel * panel_stride + r * kPanel + col % kPanel;
      hn::StoreU(v, d, to);
      if (left <= kLanes && col % kPanel == 0) hn::StoreU(hn::Zero(d), d, to + kLanes);
    }
  }
}

// ConvertPanelsOf, with its rules, for a dtype known at run time.
inline void ConvertPanels(TypedRows rows, float* packed, size_t panel_stride) {
  switch (rows.dtype) {
    case Dtype::kF32:
      return ConvertPanelsOf<Dtype::kF32>(rows, packed, panel_stride);
    case Dtype::kF16:
      return ConvertPanelsOf<Dtype::kF16>(rows, packed, panel_stride);
    case Dtype::kBf16:
      return ConvertPanelsOf<Dtype::kBf16>(rows, packed, panel_stride);
    case Dtype::kQ8:
      return ConvertPanelsOf<Dtype::kQ8>(rows, packed, panel_stride);
  }
}

// ---- The product

// Two sources of B's vectors. PanelSource reads packed panels. StoredSource reads the stored rows
// themselves (B = rows) and converts on the way; it pays when each row is read once, and needs
// num_columns % kPanel == 0.
struct PanelSource {
  const float* data;
  size_t panel_stride;
  // Row k of B at columns [column, column + kLanes); `column` is a multiple of kLanes.
  HWY_INLINE FloatVector Load(size_t k, size_t column) const {
    const float* panel = data + column / kPanel * panel_stride;
    return hn::LoadU(FloatTag(), panel + k * kPanel + column % kPanel);
  }
  HWY_INLINE void Prefetch(size_t, size_t) const {}
};
// Prefetches data that is read once, soon but not next. Into the second-level cache, because lines
// on their way into the first one keep loads waiting: a token that reads 131,072 keys took a tenth
// longer. An address is a number: near the end of a store it lies behind all memory that a pointer
// may point to, where C++ defines no sum of a pointer and a distance.
HWY_INLINE void AskFor(uintptr_t address) {
  __builtin_prefetch(reinterpret_cast<const void*>(address), 0, 2);
}
// The address `distance` bytes behind, or before, `data`.
HWY_INLINE uintptr_t AddressAt(const std::byte* data, ptrdiff_t distance) {
  return reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(distance);
}

// Rows as they are stored. attention_simd.cc multiplies the values of a tile by way of it.
template <Dtype kDtype>
struct StoredSource {
  const std::byte* data;
  size_t stride;
  // Distance in bytes from each element to the data to prefetch while that element is used; 0:
  // none. The product spreads the prefetches evenly, because all at once they would wait for each
  // other.
  ptrdiff_t ahead;
  size_t element_bytes;  // of q8 1, without the scales, so that a little less is prefetched
  // Prefetches the counterpart of elements [begin, begin + count), counted in the order in which
  // the product reads them.
  HWY_INLINE void Prefetch(size_t begin, size_t count) const {
    if (ahead == 0) return;
    const uintptr_t next = AddressAt(data, ahead) + begin * element_bytes;
    for (size_t i = 0; i < count * element_bytes; i += 64) AskFor(next + i);
  }
  // Row k of B at columns [column, column + kLanes), converted to float.
  HWY_INLINE FloatVector Load(size_t k, size_t column) const {
    return LoadVector<kDtype>(data + k * stride, column);
  }
};

// The operands of C (+)= A * B.
template <class Source>
struct Product {
  const float* a;  // [num_rows, depth]
  size_t a_stride;
  Source b;  // [depth, num_columns]
  size_t depth;
  float* c;  // [num_rows, num_columns]
  size_t c_stride;
  size_t num_columns;
  bool accumulate;  // start from c, not from zero
};

// One tile: columns [column, column + kVectors * kLanes) of kRows rows, written at c. All sums stay
// in registers over the whole depth.
template <size_t kRows, size_t kVectors, class Source>
HWY_INLINE void MultiplyTile(const Product<Source>& p, size_t column, float* c, size_t c_stride) {
  const FloatTag d;
  FloatVector sum[kRows][kVectors];
  LECTERN_UNROLL_TILE
  for (size_t r = 0; r < kRows; ++r) {
    LECTERN_UNROLL_TILE
    for (size_t v = 0; v < kVectors; ++v) {
      sum[r][v] = p.accumulate ? hn::LoadU(d, c + r * c_stride + v * kLanes) : hn::Zero(d);
    }
  }
  const float* a = p.a;
  const size_t a_stride = p.a_stride, depth = p.depth;
  const Source source = p.b;
  for (size_t k = 0; k < depth; ++k) {
    FloatVector b[kVectors];
    source.Prefetch(column * depth + k * kVectors * kLanes, kVectors * kLanes);
    LECTERN_UNROLL_TILE
    for (size_t v = 0; v < kVectors; ++v) b[v] = source.Load(k, column + v * kLanes);
    LECTERN_UNROLL_TILE
    for (size_t r = 0; r < kRows; ++r) {
      const FloatVector broadcast = hn::Set(d, a[r * a_stride + k]);
      LECTERN_UNROLL_TILE
      for (size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(broadcast, b[v], sum[r][v]);
    }
  }
  LECTERN_UNROLL_TILE
  for (size_t r = 0; r < kRows; ++r) {
    LECTERN_UNROLL_TILE
    for (size_t v = 0; v < kVectors; ++v) hn::StoreU(sum[r][v], d, c + r * c_stride + v * kLanes);
  }
}

// Multiplies the columns past the last full panel through a padded copy of C.
template <size_t kRows, class Source>
HWY_INLINE void MultiplyEdge(const Product<Source>& p, size_t column) {
  const size_t bytes = (p.num_columns - column) * sizeof(float);
  float c[kRows][kPanel] = {};
  if (p.accumulate) {
    for (size_t r = 0; r < kRows; ++r) std::memcpy(c[r], p.c + r * p.c_stride + column, bytes);
  }
  MultiplyTile<kRows, 2>(p, column, c[0], kPanel);
  for (size_t r = 0; r < kRows; ++r) std::memcpy(p.c + r * p.c_stride + column, c[r], bytes);
}

// Multiplies kRows rows with all columns. Few rows leave registers free for more columns at once,
// which hide the latency of the multiply-add: one row takes 8 vectors, three take 4.
template <size_t kRows, class Source>
HWY_NOINLINE void MultiplyRows(const Product<Source>& p) {
  constexpr size_t kVectors = kRows == 1 ? 8 : kRows <= 3 ? 4 : 2;
  size_t column = 0;
  for (; column + kVectors * kLanes <= p.num_columns; column += kVectors * kLanes) {
    MultiplyTile<kRows, kVectors>(p, column, p.c + column, p.c_stride);
  }
  for (; column + kPanel <= p.num_columns; column += kPanel) {
    MultiplyTile<kRows, 2>(p, column, p.c + column, p.c_stride);
  }
  if constexpr (std::is_same_v<Source, PanelSource>) {
    if (column < p.num_columns) MultiplyEdge<kRows>(p, column);
  }
}

// Picks the instantiation for `num_rows` <= kRows at run time.
template <size_t kRows, class Source>
HWY_INLINE void MultiplySomeRows(const Product<Source>& p, size_t num_rows) {
  if (num_rows == kRows) return MultiplyRows<kRows>(p);
  if constexpr (kRows > 1) MultiplySomeRows<kRows - 1>(p, num_rows);
}

// Multiplies 1 to kMaxRows rows.
template <class Source>
HWY_INLINE void MultiplyBlock(const Product<Source>& p, size_t num_rows) {
  MultiplySomeRows<kMaxRows>(p, num_rows);
}

// Multiplies any number of rows, 0 included.
HWY_INLINE void Multiply(Product<PanelSource> p, size_t num_rows) {
  for (size_t row = 0; row < num_rows; row += kMaxRows) {
    MultiplyBlock(p, std::min(kMaxRows, num_rows - row));
    p.a += kMaxRows * p.a_stride;
    p.c += kMaxRows * p.c_stride;
  }
}

// Scratch may begin at any float, while tiles read whole cache lines of 64 bytes: returns its first
// float at a multiple of 64.
constexpr size_t kAlignFloats = 16;  // slack to ask for
HWY_INLINE float* AlignScratch(float* scratch) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(scratch);
  return scratch + ((address + 63) / 64 * 64 - address) / sizeof(float);
}

}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();
#endif  // HWY_TARGET != HWY_SCALAR

#endif  // LECTERN_KERNELS_TILE_INL_H_
