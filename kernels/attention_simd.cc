// Online softmax over tiles of keys. The keys and values of a tile are converted to float once (a
// few query rows use them as stored), then blocks of query rows pass over the tile: dots, weights,
// weighted values. Every product is a tile of tile-inl.h, so a row's bits do not depend on which
// rows it shares a call with; the exception is a few rows that see everything (DotFewRows). For a
// query group, blocks that lie apart in memory are gathered into one tile.
#include "kernels/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_simd.cc"
#include "hwy/foreach_target.h"

#include "hwy/contrib/math/math-inl.h"
#include "kernels/fast_exp-inl.h"
#include "kernels/few_rows-inl.h"
#include "kernels/softcap-inl.h"
#include "kernels/tile-inl.h"

#ifndef LECTERN_ATTENTION_TILE
#define LECTERN_ATTENTION_TILE
#include <limits>

namespace lectern {
// Keys of a tile. Its keys and values of head_dim 64 take 16 KiB each as float, 32 KiB together,
// the usual size of a first-level data cache.
constexpr size_t kTileKeys = 64;
constexpr size_t kMaxPanel = 32;  // kPanel of the widest target (AVX-512)
// kMaxRows of the targets with 32 registers.
constexpr size_t kMaxTileRows = 12;
constexpr float kNothing = -std::numeric_limits<float>::infinity();
}  // namespace lectern
#endif

HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR
void Attend(const AttendArgs& args) { AttendScalar(args); }
void AttendBlocks(const AttendBlocksArgs& args) { AttendBlocksScalar(args); }
void AttendLogits(const AttendLogitsArgs& args) { AttendLogitsScalar(args); }
#else
static_assert(kPanel <= kMaxPanel && kMaxRows <= kMaxTileRows && kTileKeys % kPanel == 0);
static_assert(kMostGroupRows <= kMaxTileRows);

// One tile: keys [begin, begin + num_keys), and where their floats lie in scratch.
struct KeyTile {
  size_t begin, num_keys;
  float* keys;     // panels of [head_dim][kPanel]; unused when keys are read as stored
  float* values;   // panels of [num_keys][kPanel]; unused when values are read as stored
  float* weights;  // [kMaxRows][kTileKeys]: logits, then weights, of one block of rows
};

// One past the last key that this query row sees.
size_t NumVisible(const AttendArgs& args, size_t row) {
  return args.visible.empty() ? args.keys.num_rows
                              : std::min<size_t>(args.visible[row], args.keys.num_rows);
}

// One past the last key that any of rows [begin, end) sees.
size_t MaxVisible(const AttendArgs& args, size_t begin, size_t end) {
  size_t max = 0;
  for (size_t r = begin; r < end; ++r) max = std::max(max, NumVisible(args, r));
  return max;
}

// The largest of dots[j], j < num_visible; -inf if there is none.
HWY_INLINE float Largest(const float* dots, size_t num_visible) {
  const FloatTag d;
  FloatVector max = hn::Set(d, kNothing);
  size_t j = 0;
  for (; j + kLanes <= num_visible; j += kLanes) max = hn::Max(max, hn::LoadU(d, dots + j));
  if (j < num_visible) {
    const auto seen = hn::FirstN(d, num_visible - j);
    max = hn::Max(max, hn::IfThenElse(seen, hn::LoadU(d, dots + j), hn::Set(d, kNothing)));
  }
  return LargestLane(max);
}

// dots[j] <- exp(scale * dots[j] - max) for j < num_visible, 0 up to kTileKeys. Returns the sum of
// these weights. The zeros let the product with the values run over a whole tile.
HWY_INLINE float Exponentiate(float* dots, size_t num_visible, float scale, float max) {
  const FloatTag d;
  const FloatVector factor = hn::Set(d, scale), shift = hn::Set(d, max);
  FloatVector sum = hn::Zero(d);
  size_t j = 0;
  for (; j + kLanes <= num_visible; j += kLanes) {
    const FloatVector weight = FastExp(hn::MulSub(hn::LoadU(d, dots + j), factor, shift));
    hn::StoreU(weight, d, dots + j);
    sum = hn::Add(sum, weight);
  }
  if (j < num_visible) {
    const FloatVector weight = FastExp(hn::MulSub(hn::LoadU(d, dots + j), factor, shift));
    const FloatVector seen = hn::IfThenElseZero(hn::FirstN(d, num_visible - j), weight);
    hn::StoreU(seen, d, dots + j);
    sum = hn::Add(sum, seen);
    j += kLanes;
  }
  for (; j < kTileKeys; j += kLanes) hn::StoreU(hn::Zero(d), d, dots + j);
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// row[c] *= factor for c < num_cols.
void ScaleRow(float* row, size_t num_cols, float factor) {
  const FloatTag d;
  size_t c = 0;
  for (; c + kLanes <= num_cols; c += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, row + c), hn::Set(d, factor)), d, row + c);
  }
  for (; c < num_cols; ++c) row[c] *= factor;
}

// Turns the dots of row r with the tile's keys into softmax weights, writes the logits where they
// are wanted, adds the weights to the row's sum, and rescales the row's state when the tile raises
// its maximum. A row that sees nothing of the tile keeps its state and gets weights of 0.
HWY_INLINE void UpdateRow(const AttendArgs& args, const KeyTile& tile, size_t r, float* weights) {
  const size_t seen = NumVisible(args, r);
  const size_t num_visible = seen <= tile.begin ? 0 : std::min(seen - tile.begin, tile.num_keys);
  if (args.softcap > 0) {
    // The dots are not scaled yet, so the factors move scale into and out of the tanh.
    SoftcapRow(weights, num_visible, args.scale / args.softcap, args.softcap / args.scale);
  }
  if (!args.first.empty() && args.first[r] > tile.begin) {
    std::fill_n(weights, std::min<size_t>(args.first[r] - tile.begin, num_visible), kNothing);
  }
  const float tile_max = args.scale * Largest(weights, num_visible);
  if (args.logits.data != nullptr) {
    float* logits = args.logits[r] + tile.begin;
    for (size_t j = 0; j < num_visible; ++j) logits[j] = args.scale * weights[j];
    std::fill_n(logits + num_visible, tile.num_keys - num_visible, kNothing);
  }
  float& max = args.state.max[r];
  if (!(tile_max > kNothing)) {  // also avoids exp(-inf + inf), which is NaN
    std::fill_n(weights, kTileKeys, 0.0f);
    return;
  }
  if (tile_max > max) {
    const FloatTag d;
    const float factor = hn::GetLane(hn::Exp(d, hn::Set(d, max - tile_max)));
    max = tile_max;
    args.state.sum[r] *= factor;
    ScaleRow(args.state.out[r], args.state.out.num_cols, factor);
  }
  args.state.sum[r] += Exponentiate(weights, num_visible, args.scale, max);
}

// out += weights * values for values of one dtype as they are stored. Only the first block of rows
// prefetches; afterwards the data is on its way.
template <Dtype kDtype>
void AddStoredValues(Product<PanelSource> p, const TypedRows& values, size_t num_rows,
                     ptrdiff_t ahead) {
  StoredSource<kDtype> source = {values.data, values.row_bytes(), ahead,
                                 values.row_bytes() / values.num_cols};
  for (size_t row = 0; row < num_rows; row += kFewRows) {
    MultiplySomeRows<kFewRows>(
        Product<StoredSource<kDtype> >{p.a + row * p.a_stride, p.a_stride, source, p.depth,
                                       p.c + row * p.c_stride, p.c_stride, p.num_columns,
                                       p.accumulate},
        std::min(kFewRows, num_rows - row));
    source.ahead = 0;
  }
}

// The same for values of any dtype. `next` points at the data that is read after these values.
// (Documents store the keys of a run, then its values, then the keys of the next run.)
void AddStoredValues(const Product<PanelSource>& p, const TypedRows& values, size_t num_rows,
                     const std::byte* next) {
  const ptrdiff_t ahead = next - values.data;
  switch (values.dtype) {
    case Dtype::kF32:
      return AddStoredValues<Dtype::kF32>(p, values, num_rows, ahead);
    case Dtype::kF16:
      return AddStoredValues<Dtype::kF16>(p, values, num_rows, ahead);
    case Dtype::kBf16:
      return AddStoredValues<Dtype::kBf16>(p, values, num_rows, ahead);
    case Dtype::kQ8:
      return AddStoredValues<Dtype::kQ8>(p, values, num_rows, ahead);
  }
}

// out += weights * values. Uses the packed values, or the stored ones if they are needed once.
void AddValues(const AttendArgs& args, const KeyTile& tile, size_t row, size_t num_rows,
               size_t depth, bool as_stored) {
  const Rows<float>& out = args.state.out;
  const Product<PanelSource> p = {.a = tile.weights,
                                  .a_stride = kTileKeys,
                                  .b = {tile.values, tile.num_keys * kPanel},
                                  .depth = depth,
                                  .c = out[row],
                                  .c_stride = out.stride,
                                  .num_columns = out.num_cols,
                                  .accumulate = true};
  if (!as_stored) return MultiplyBlock(p, num_rows);
  const TypedRows values = args.values.Slice(tile.begin, tile.begin + tile.num_keys);
  // The next keys: those of the next tile, or what lies behind the last value (the next run).
  const std::byte* const next = tile.begin + tile.num_keys < args.keys.num_rows
                                    ? args.keys.row(tile.begin + tile.num_keys)
                                    : values.row(values.num_rows);
  AddStoredValues(p, values, num_rows, next);
}

// Dots of rows [row, row + num_rows) with the tile's first `depth` keys, stored as weights.
void MultiplyKeys(const AttendArgs& args, const KeyTile& tile, size_t row, size_t num_rows,
                  size_t depth) {
  const size_t head_dim = args.queries.num_cols;
  // Few rows use the stored keys directly. With `visible` the order of summation must not depend on
  // the number of rows, so DotFewRows is out.
  if (args.queries.num_rows <= kFewRows) {
    const FewRowsProduct product = {.a = args.queries[row],
                                    .a_stride = args.queries.stride,
                                    .b = args.keys.Slice(tile.begin, tile.begin + depth),
                                    .depth = head_dim,
                                    .c = tile.weights,
                                    .c_stride = kTileKeys,
                                    .accumulate = false,
                                    .ahead = args.values.data - args.keys.data};
    return args.visible.empty() ? DotFewRows(product, args.keys.dtype, num_rows)
                                : MultiplyFewRows(product, args.keys.dtype, num_rows);
  }
  MultiplyBlock(Product<PanelSource>{.a = args.queries[row],
                                     .a_stride = args.queries.stride,
                                     .b = {tile.keys, head_dim * kPanel},
                                     .depth = head_dim,
                                     .c = tile.weights,
                                     .c_stride = kTileKeys,
                                     .num_columns = (depth + kPanel - 1) / kPanel * kPanel,
                                     .accumulate = false},
                num_rows);
}

// Attends rows [row, row + num_rows), at most kMaxRows, to one tile.
void AttendBlock(const AttendArgs& args, const KeyTile& tile, size_t row, size_t num_rows,
                 bool as_stored) {
  const size_t visible = MaxVisible(args, row, row + num_rows);
  const size_t depth = visible <= tile.begin ? 0 : std::min(visible - tile.begin, tile.num_keys);
  if (depth == 0 && args.logits.data == nullptr) return;
  MultiplyKeys(args, tile, row, num_rows, depth);
  for (size_t r = 0; r < num_rows; ++r) {
    UpdateRow(args, tile, row + r, tile.weights + r * kTileKeys);
  }
  AddValues(args, tile, row, num_rows, depth, as_stored);
}

// AttendSimd for this instruction set: tile of keys by tile, for blocks of query rows.
void Attend(const AttendArgs& args) {
  const size_t num_rows = args.queries.num_rows, head_dim = args.queries.num_cols;
  const size_t num_visible = MaxVisible(args, 0, num_rows);
  // No key or value past num_visible is read. The loop goes on to the last key only when logits are
  // wanted, to write -inf.
  const size_t num_keys = args.logits.data != nullptr ? args.keys.num_rows : num_visible;
  const bool as_stored = num_rows <= kMaxRows && args.values.num_cols % kPanel == 0;
  KeyTile tile = {};
  tile.keys = AlignScratch(args.scratch.data());
  tile.values = tile.keys + kTileKeys * head_dim;
  tile.weights =
      tile.values + kTileKeys * ((args.values.num_cols + kMaxPanel - 1) / kMaxPanel * kMaxPanel);
  for (tile.begin = 0; tile.begin < num_keys; tile.begin += kTileKeys) {
    const size_t end = std::min(tile.begin + kTileKeys, num_keys);
    tile.num_keys = end - tile.begin;
    const size_t read_end = std::clamp(num_visible, tile.begin, end);
    if (read_end > tile.begin) {
      if (num_rows > kFewRows) {
        PackPanels(args.keys.Slice(tile.begin, read_end), args.keys.dtype, 0, head_dim, tile.keys);
      }
      if (!as_stored) {
        ConvertPanels(args.values.Slice(tile.begin, read_end), tile.values, tile.num_keys * kPanel);
      }
    }
    for (size_t row = 0; row < num_rows; row += kMaxRows) {
      AttendBlock(args, tile, row, std::min(kMaxRows, num_rows - row), as_stored);
    }
  }
}

// A run of rows of one block, and the column of the tile where it begins.
struct BlockPiece {
  TypedRows keys, values;
  size_t column;
};

// Blocks mostly follow one another in memory, and each key and value is read once, so the data this
// many bytes ahead is prefetched. 8 KiB is one or two clusters (20 rows of f16 keys and values at
// head_dim 64 are 5 KiB). Prefetching so took a token that reads everything from 114 to 91 ms
// (tests/bench/RESULTS.md, "What the roofline leaves (AVX2)"); no measurement of other distances is
// on record.
constexpr ptrdiff_t kBlocksAhead = 8192;

// Attends a query group to blocks: gathers pieces of blocks that lie apart into tiles of kTileKeys
// columns, uses them as stored, and takes kFewRows query rows at a time.
void AttendGroupToBlocks(const AttendBlocksArgs& args) {
  const size_t num_rows = args.queries.num_rows;
  AttendArgs attend = {};  // only the fields that UpdateRow reads are set
  attend.keys.num_rows = SIZE_MAX;
  attend.scale = args.scale;
  attend.softcap = args.softcap;
  attend.state = args.state;
  attend.logits = args.logits;
  KeyTile tile = {};
  tile.weights = AlignScratch(args.scratch.data());
  BlockPiece pieces[kTileKeys];
  size_t num_pieces = 0;
  const auto finish_tile = [&] {
    for (size_t r = 0; r < num_rows; ++r) UpdateRow(attend, tile, r, tile.weights + r * kTileKeys);
    for (size_t i = 0; i < num_pieces; ++i) {
      const TypedRows& values = pieces[i].values;
      for (size_t row = 0; row < num_rows; row += kFewRows) {
        AddStoredValues({.a = tile.weights + row * kTileKeys + pieces[i].column,
                         .a_stride = kTileKeys,
                         .b = {},
                         .depth = values.num_rows,
                         .c = args.state.out[row],
                         .c_stride = args.state.out.stride,
                         .num_columns = args.state.out.num_cols,
                         .accumulate = true},
                        values, std::min(kFewRows, num_rows - row),
                        values.data + (row == 0 ? kBlocksAhead : 0));
      }
    }
    tile.begin += tile.num_keys;
    tile.num_keys = num_pieces = 0;
  };
  // Fills a tile piece by piece; a block that is longer than the rest of the tile is cut.
  for (const KvBlock& block : args.blocks) {
    for (size_t begin = 0, end; begin < block.keys.num_rows; begin = end) {
      end = std::min(block.keys.num_rows, begin + kTileKeys - tile.num_keys);
      const BlockPiece piece = {block.keys.Slice(begin, end), block.values.Slice(begin, end),
                                tile.num_keys};
      for (size_t row = 0; row < num_rows; row += kFewRows) {
        DotFewRows({.a = args.queries[row],
                    .a_stride = args.queries.stride,
                    .b = piece.keys,
                    .depth = args.queries.num_cols,
                    .c = tile.weights + row * kTileKeys + piece.column,
                    .c_stride = kTileKeys,
                    .accumulate = false,
                    .ahead = row == 0 ? kBlocksAhead : 0},
                   piece.keys.dtype, std::min(kFewRows, num_rows - row));
      }
      pieces[num_pieces++] = piece;
      tile.num_keys += end - begin;
      if (tile.num_keys == kTileKeys) finish_tile();
    }
  }
  if (num_pieces > 0) finish_tile();
}

// AttendBlocksSimd for this instruction set: a query group at once, more rows block by block.
void AttendBlocks(const AttendBlocksArgs& args) {
  if (args.queries.num_rows <= kMostGroupRows && args.state.out.num_cols % kPanel == 0) {
    return AttendGroupToBlocks(args);
  }
  AttendArgs attend = {.queries = args.queries,
                       .keys = {},
                       .values = {},
                       .scale = args.scale,
                       .softcap = args.softcap,
                       .visible = {},
                       .state = args.state,
                       .logits = {},
                       .scratch = args.scratch};
  size_t column = 0;
  // More rows than a group: one Attend for each block.
  for (const KvBlock& block : args.blocks) {
    attend.keys = block.keys;
    attend.values = block.values;
    const size_t rows = block.keys.num_rows;
    if (args.logits.data != nullptr) {
      attend.logits = {args.logits.data + column, args.logits.num_rows, rows, args.logits.stride};
    }
    Attend(attend);
    column += rows;
  }
}

// The second half of Attend: the weights come from given logits, so no keys are read. A scale of 1
// makes UpdateRow take the logits as they are.
void AttendLogits(const AttendLogitsArgs& args) {
  const size_t num_rows = args.logits.num_rows, num_keys = args.values.num_rows;
  const bool as_stored = num_rows <= kMaxRows && args.values.num_cols % kPanel == 0;
  AttendArgs attend = {};
  attend.keys.num_rows = num_keys;
  attend.values = args.values;
  attend.scale = 1;
  attend.state = args.state;
  KeyTile tile = {};
  tile.values = AlignScratch(args.scratch.data());
  tile.weights =
      tile.values + kTileKeys * ((args.values.num_cols + kMaxPanel - 1) / kMaxPanel * kMaxPanel);
  for (tile.begin = 0; tile.begin < num_keys; tile.begin += kTileKeys) {
    tile.num_keys = std::min(kTileKeys, num_keys - tile.begin);
    if (!as_stored) {
      ConvertPanels(args.values.Slice(tile.begin, tile.begin + tile.num_keys), tile.values,
                    tile.num_keys * kPanel);
    }
    for (size_t row = 0; row < num_rows; row += kMaxRows) {
      const size_t rows = std::min(kMaxRows, num_rows - row);
      for (size_t r = 0; r < rows; ++r) {
        float* weights = tile.weights + r * kTileKeys;
        std::copy_n(args.logits[row + r] + tile.begin, tile.num_keys, weights);
        UpdateRow(attend, tile, row + r, weights);
      }
      AddValues(attend, tile, row, rows, tile.num_keys, as_stored);
    }
  }
}

#endif  // HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lectern {

HWY_EXPORT(Attend);
HWY_EXPORT(AttendBlocks);
HWY_EXPORT(AttendLogits);

size_t AttendScratch(size_t /*num_queries*/, size_t head_dim) {
  // Room for a tile's keys, its values padded to whole panels, and the weights of a block of rows.
  const size_t padded_dim = (head_dim + kMaxPanel - 1) / kMaxPanel * kMaxPanel;
  return kTileKeys * (head_dim + padded_dim + kMaxTileRows) + 16;  // kAlignFloats
}

void AttendSimd(const AttendArgs& args) {
  assert(args.queries.num_rows >= 1 && args.keys.num_rows >= 1 && args.scale > 0);
  assert(args.queries.num_cols == args.keys.num_cols);
  assert(args.values.num_rows == args.keys.num_rows);
  assert(args.values.num_cols == args.state.out.num_cols);
  assert(args.state.num_rows() == args.queries.num_rows);
  assert(args.visible.empty() || args.visible.size() == args.queries.num_rows);
  assert(args.first.empty() || args.first.size() == args.queries.num_rows);
  assert(args.scratch.size() >=
         AttendScratch(args.queries.num_rows, std::max(args.keys.num_cols, args.values.num_cols)));
  HWY_DYNAMIC_DISPATCH(Attend)(args);
}

void AttendBlocksSimd(const AttendBlocksArgs& args) {
  assert(args.queries.num_rows >= 1 && !args.blocks.empty() && args.scale > 0);
  assert(args.state.num_rows() == args.queries.num_rows);
  assert(args.scratch.size() >=
         AttendScratch(args.queries.num_rows,
                       std::max(args.queries.num_cols, args.state.out.num_cols)));
  for ([[maybe_unused]] const KvBlock& block : args.blocks) {
    assert(block.keys.num_rows >= 1 && block.values.num_rows == block.keys.num_rows);
    assert(block.keys.num_cols == args.queries.num_cols);
    assert(block.values.num_cols == args.state.out.num_cols);
  }
  HWY_DYNAMIC_DISPATCH(AttendBlocks)(args);
}

void AttendLogitsSimd(const AttendLogitsArgs& args) {
  assert(args.values.num_rows == args.logits.num_cols);
  assert(args.state.num_rows() == args.logits.num_rows);
  assert(args.scratch.size() >= AttendScratch(args.logits.num_rows, args.values.num_cols));
  HWY_DYNAMIC_DISPATCH(AttendLogits)(args);
}

}  // namespace lectern
#endif  // HWY_ONCE
