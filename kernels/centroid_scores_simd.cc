#include "kernels/centroid_scores.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/centroid_scores_simd.cc"
#include "hwy/foreach_target.h"

#include "hwy/contrib/math/math-inl.h"
#include "kernels/attention.h"
#include "kernels/fast_exp-inl.h"
#include "kernels/few_rows-inl.h"
#include "kernels/part_vector-inl.h"
#include "kernels/tile-inl.h"

#ifndef LECTERN_CENTROID_SCORES_BLOCKS
#define LECTERN_CENTROID_SCORES_BLOCKS
#include <cmath>
#include <limits>
#include <type_traits>

namespace lectern {
// Sizes of blocks; they change the speed, never a result. 96 points are whole tiles of 6 and of 12
// rows. By hand; clustering reaches 170 GFLOP/s with them (tests/bench/RESULTS.md, "With AVX-512
// and VNNI"), and no measurement of other sizes is on record.
constexpr size_t kTileColumns = 64;  // keys or centroids that a block of rows meets at a time
constexpr size_t kPointBlock = 96;   // points that meet all centroids before the next points do
constexpr size_t kWidestPanel = 32;  // kPanel and kMaxRows of the largest targets
constexpr size_t kMostRows = 12;
constexpr float kNoMass = -std::numeric_limits<float>::infinity();
}  // namespace lectern
#endif

HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR
void KeyLogits(const KeyLogitsArgs& args) { KeyLogitsScalar(args); }
void AddSecondOrder(const AddSecondOrderArgs& args) { AddSecondOrderScalar(args); }
void AddRowLse(const AddRowLseArgs& args) { AddRowLseScalar(args); }
void AddScores(const AddScoresArgs& args) { AddScoresScalar(args); }
void ExpRows(const ExpRowsArgs& args) { ExpRowsScalar(args); }
bool AnyAtLeast(const AnyAtLeastArgs& args) { return AnyAtLeastScalar(args); }
void LogRows(const LogRowsArgs& args) { LogRowsScalar(args); }
void AddWeightedRows(const AddWeightedRowsArgs& args) { AddWeightedRowsScalar(args); }
void AssignNearest(const AssignNearestArgs& args) { AssignNearestScalar(args); }
#else
static_assert(kPanel <= kWidestPanel && kMaxRows <= kMostRows && kTileColumns % kPanel == 0);

// KeyLogitsSimd for this instruction set.
void KeyLogits(const KeyLogitsArgs& args) {
  const auto& [queries, keys, scale, logits, scratch] = args;
  const FloatTag d;
  const size_t head_dim = queries.num_cols;
  float* packed = AlignScratch(scratch.data());
  for (size_t key = 0; key < keys.num_rows; key += kTileColumns) {
    const size_t end = std::min(key + kTileColumns, keys.num_rows);
    // Few query rows use the stored keys directly: packing would cost more than the product.
    if (queries.num_rows <= kFewRows) {
      MultiplyFewRows({.a = queries.data,
                       .a_stride = queries.stride,
                       .b = keys.Slice(key, end),
                       .depth = head_dim,
                       .c = logits.data + key,
                       .c_stride = logits.stride,
                       .accumulate = false,
                       .ahead = static_cast<ptrdiff_t>(kPanel * keys.row_bytes())},
                      keys.dtype, queries.num_rows);
    } else {
      PackPanels(keys.Slice(key, end), keys.dtype, 0, head_dim, packed);
      Multiply({.a = queries.data,
                .a_stride = queries.stride,
                .b = {packed, head_dim * kPanel},
                .depth = head_dim,
                .c = logits.data + key,
                .c_stride = logits.stride,
                .num_columns = end - key,
                .accumulate = false},
               queries.num_rows);
    }
    for (size_t r = 0; r < queries.num_rows; ++r) {
      size_t j = key;
      for (; j + kLanes <= end; j += kLanes) {
        float* logit = logits[r] + j;
        hn::StoreU(hn::Mul(hn::LoadU(d, logit), hn::Set(d, scale)), d, logit);
      }
      for (; j < end; ++j) logits[r][j] *= scale;
    }
  }
}

// LogMeanExp of second_order.h in vector form: `many` is its first branch, `one` its second.
void AddSecondOrder(const AddSecondOrderArgs& args) {
  const FloatTag d;
  const size_t n = args.logits.num_cols;
  for (size_t j = 0; j < n; j += kLanes) {
    const size_t count = std::min(kLanes, n - j);
    const FloatVector log_count = LoadFilled(&args.log_counts[j], count, 0);
    const FloatVector spread = hn::Sqrt(LoadFilled(&args.variances[j], count, 0));
    const FloatVector largest = hn::Sqrt(hn::Add(log_count, log_count));
    for (size_t r = 0; r < args.logits.num_rows; ++r) {
      const FloatVector deviation = hn::Mul(hn::Set(d, args.norms[r]), spread);
      const FloatVector many = hn::Mul(hn::Mul(deviation, deviation), hn::Set(d, 0.5f));
      const FloatVector one = hn::MulSub(deviation, largest, log_count);
      const FloatVector added = hn::IfThenElse(hn::Lt(deviation, largest), many, one);
      float* const logits = args.logits[r] + j;
      const FloatVector sum = hn::Add(LoadFilled(logits, count, 0), added);
      count == kLanes ? hn::StoreU(sum, d, logits) : StoreSome(sum, count, logits);
    }
  }
}

// logits_j + bias_j of one vector; -inf past the end, so that these lanes add no mass.
HWY_INLINE FloatVector Biased(const float* logits, std::span<const float> bias, size_t j) {
  const size_t count = bias.size() - j;
  return hn::Add(LoadFilled(logits + j, count, 0), LoadFilled(&bias[j], count, kNoMass));
}

// sum_j exp(logits_j + bias_j - max). Sums 1024 terms at a time in float and joins these sums in
// double, so that millions of keys lose no digits.
double SumExp(const float* logits, std::span<const float> bias, float max) {
  const FloatTag d;
  double sum = 0;
  for (size_t begin = 0; begin < bias.size(); begin += 1024) {
    const size_t end = std::min<size_t>(begin + 1024, bias.size());
    FloatVector part = hn::Zero(d);
    for (size_t j = begin; j < end; j += kLanes) {
      part = hn::Add(part, FastExp(hn::Sub(Biased(logits, bias, j), hn::Set(d, max))));
    }
    sum += hn::GetLane(hn::SumOfLanes(d, part));
  }
  return sum;
}

// AddRowLseSimd for this instruction set.
void AddRowLse(const AddRowLseArgs& args) {
  const auto& [logits, bias, lse] = args;
  const FloatTag d;
  for (size_t r = 0; r < logits.num_rows; ++r) {
    // The largest term goes into the shift, so that no exponential overflows.
    FloatVector largest = hn::Set(d, lse[r]);
    for (size_t j = 0; j < bias.size(); j += kLanes) {
      largest = hn::Max(largest, Biased(logits[r], bias, j));
    }
    const float max = LargestLane(largest);
    if (max == kNoMass) continue;  // nothing to add
    const double sum = std::exp(static_cast<double>(lse[r]) - max) + SumExp(logits[r], bias, max);
    lse[r] = static_cast<float>(max + std::log(sum));
  }
}

// AddScoresSimd for this instruction set.
void AddScores(const AddScoresArgs& args) {
  const auto& [logits, lse, scores] = args;
  const FloatTag d;
  for (size_t j = 0; j < scores.size(); j += kLanes) {
    const size_t count = std::min(kLanes, scores.size() - j);
    FloatVector sum = LoadFilled(&scores[j], count, 0);
    for (size_t r = 0; r < lse.size(); ++r) {
      const FloatVector logit = LoadFilled(logits[r] + j, count, kNoMass);
      sum = hn::Add(sum, FastExp(hn::Sub(logit, hn::Set(d, lse[r]))));
    }
    StoreSome(sum, count, &scores[j]);
  }
}

void ExpRows(const ExpRowsArgs& args) {
  const FloatTag d;
  const size_t n = args.logits.num_cols;
  for (size_t r = 0; r < args.logits.num_rows; ++r) {
    float* row = args.logits[r];
    const FloatVector reference = hn::Set(d, args.reference[r]), most = hn::Set(d, 80.0f);
    const auto exp = [&](FloatVector x) { return FastExp(hn::Min(hn::Sub(x, reference), most)); };
    size_t j = 0;
    for (; j + kLanes <= n; j += kLanes) hn::StoreU(exp(hn::LoadU(d, row + j)), d, row + j);
    if (j == n) continue;
    StoreSome(exp(LoadFilled(row + j, n - j, 0)), n - j, row + j);
  }
}

// AnyAtLeastSimd for this instruction set.
bool AnyAtLeast(const AnyAtLeastArgs& args) {
  const FloatTag d;
  const size_t n = args.logits.num_cols;
  auto any = hn::FirstN(d, 0);
  for (size_t r = 0; r < args.logits.num_rows; ++r) {
    const float* const row = args.logits[r];
    const FloatVector limit = hn::Set(d, args.limits[r]);
    for (size_t j = 0; j + kLanes <= n; j += kLanes) {
      any = hn::Or(any, hn::Ge(hn::LoadU(d, row + j), limit));
    }
    for (size_t j = n / kLanes * kLanes; j < n; ++j) {
      if (row[j] >= args.limits[r]) return true;
    }
  }
  return !hn::AllFalse(d, any);
}

void LogRows(const LogRowsArgs& args) {
  const FloatTag d;
  const size_t n = args.masses.num_cols;
  for (size_t r = 0; r < args.masses.num_rows; ++r) {
    float* const row = args.masses[r];
    const FloatVector reference = hn::Set(d, args.reference[r]);
    for (size_t j = 0; j < n; j += kLanes) {
      const size_t count = std::min(kLanes, n - j);
      const FloatVector mass = LoadFilled(row + j, count, 1);
      StoreSome(hn::Add(reference, hn::Log(d, mass)), count, row + j);
    }
  }
}

// AddWeightedRowsSimd, with term(row, mass) for a mass or for a vector of masses.
template <class Term>
HWY_INLINE void AddWeighted(const AddWeightedRowsArgs& args, const Term& term) {
  const FloatTag d;
  const size_t n = args.scores.size();
  // Vectors of keys that share the reading of the weights, by hand: their sums stay in registers.
  constexpr size_t kVectors = 4;
  size_t j = 0;
  for (; j + kVectors * kLanes <= n; j += kVectors * kLanes) {
    FloatVector sum[kVectors];
    for (size_t v = 0; v < kVectors; ++v) sum[v] = hn::LoadU(d, &args.scores[j + v * kLanes]);
    for (size_t r = 0; r < args.weights.size(); ++r) {
      const FloatVector weight = hn::Set(d, args.weights[r]);
      for (size_t v = 0; v < kVectors; ++v) {
        sum[v] = hn::MulAdd(weight, term(r, hn::LoadU(d, args.masses[r] + j + v * kLanes)), sum[v]);
      }
    }
    for (size_t v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, &args.scores[j + v * kLanes]);
  }
  for (; j < n; ++j) {
    for (size_t r = 0; r < args.weights.size(); ++r) {
      args.scores[j] += args.weights[r] * term(r, args.masses[r][j]);
    }
  }
}

// AddWeightedRowsSimd for this instruction set.
void AddWeightedRows(const AddWeightedRowsArgs& args) {
  if (args.scales.empty()) return AddWeighted(args, [](size_t, auto mass) { return mass; });
  AddWeighted(args, [&](size_t r, auto mass) HWY_ATTR {
    if constexpr (std::is_same_v<decltype(mass), float>) {
      const float share = args.scales[r] * mass;
      return share * share;
    } else {
      const FloatVector share = hn::Mul(hn::Set(FloatTag(), args.scales[r]), mass);
      return hn::Mul(share, share);
    }
  });
}
// Updates label and best if one of the dots of centroids first + [0, num_columns) is larger.
// Strictly larger and searched from the left, so equal dots go to the lowest index.
HWY_INLINE void UpdateNearest(const float* dots, size_t first, size_t num_columns, uint32_t& label,
                              float& best) {
  const FloatTag d;
  FloatVector largest = hn::LoadU(d, dots);
  for (size_t j = kLanes; j < num_columns; j += kLanes) {
    largest = hn::Max(largest, hn::LoadU(d, dots + j));
  }
  const float max = LargestLane(largest);
  if (!(max > best)) return;
  best = max;
  label = static_cast<uint32_t>(
      first + static_cast<size_t>(std::find(dots, dots + num_columns, max) - dots));
}

// Compares points [row, row + num_rows) with centroids [first, first + num_columns) in `packed`.
// num_columns is whole panels: the padding repeats the last centroid, whose copies never win,
// because they are not strictly larger.
void NearestInTile(const AssignNearestArgs& args, size_t row, size_t num_rows, size_t first,
                   size_t num_columns, const float* packed, float* dots) {
  const size_t depth = args.points.num_cols;
  MultiplyBlock(Product<PanelSource>{.a = args.points[row],
                                     .a_stride = args.points.stride,
                                     .b = {packed, depth * kPanel},
                                     .depth = depth,
                                     .c = dots,
                                     .c_stride = kTileColumns,
                                     .num_columns = num_columns,
                                     .accumulate = false},
                num_rows);
  for (size_t r = 0; r < num_rows; ++r) {
    UpdateNearest(dots + r * kTileColumns, first, num_columns, args.labels[row + r],
                  args.dots[row + r]);
  }
}

// AssignNearestSimd for this instruction set.
void AssignNearest(const AssignNearestArgs& args) {
  const size_t num_points = args.points.num_rows, depth = args.points.num_cols;
  const size_t num_columns = (args.centroids.num_rows + kPanel - 1) / kPanel * kPanel;
  float* dots = AlignScratch(args.scratch.data());
  float* packed = dots + kMostRows * kTileColumns;
  PackPanels(args.centroids, Dtype::kF32, 0, depth, packed);
  std::fill(args.labels.begin(), args.labels.end(), 0u);
  std::fill(args.dots.begin(), args.dots.end(), kNoMass);
  // A block of points passes over all centroids while it is still in cache.
  for (size_t block = 0; block < num_points; block += kPointBlock) {
    const size_t block_end = std::min(block + kPointBlock, num_points);
    for (size_t first = 0; first < num_columns; first += kTileColumns) {
      for (size_t row = block; row < block_end; row += kMaxRows) {
        NearestInTile(args, row, std::min(kMaxRows, block_end - row), first,
                      std::min(kTileColumns, num_columns - first), packed + first * depth, dots);
      }
    }
  }
}

#endif  // HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lectern {

HWY_EXPORT(KeyLogits);
HWY_EXPORT(AddSecondOrder);
HWY_EXPORT(AddRowLse);
HWY_EXPORT(AddScores);
HWY_EXPORT(ExpRows);
HWY_EXPORT(AnyAtLeast);
HWY_EXPORT(LogRows);
HWY_EXPORT(AddWeightedRows);
HWY_EXPORT(AssignNearest);

void KeyLogitsSimd(const KeyLogitsArgs& args) {
  assert(args.queries.num_cols == args.keys.num_cols);
  assert(args.logits.num_rows == args.queries.num_rows);
  assert(args.logits.num_cols == args.keys.num_rows);
  assert(args.scratch.size() >= AttendScratch(args.queries.num_rows, args.queries.num_cols));
  HWY_DYNAMIC_DISPATCH(KeyLogits)(args);
}

void AddSecondOrderSimd(const AddSecondOrderArgs& args) {
  assert(args.norms.size() == args.logits.num_rows);
  assert(args.variances.size() == args.logits.num_cols);
  assert(args.log_counts.size() == args.logits.num_cols);
  HWY_DYNAMIC_DISPATCH(AddSecondOrder)(args);
}

void AddRowLseSimd(const AddRowLseArgs& args) {
  assert(args.bias.size() == args.logits.num_cols && args.lse.size() == args.logits.num_rows);
  HWY_DYNAMIC_DISPATCH(AddRowLse)(args);
}

void AddScoresSimd(const AddScoresArgs& args) {
  assert(args.lse.size() == args.logits.num_rows && args.scores.size() == args.logits.num_cols);
  HWY_DYNAMIC_DISPATCH(AddScores)(args);
}

void ExpRowsSimd(const ExpRowsArgs& args) {
  assert(args.reference.size() == args.logits.num_rows);
  HWY_DYNAMIC_DISPATCH(ExpRows)(args);
}

bool AnyAtLeastSimd(const AnyAtLeastArgs& args) {
  assert(args.limits.size() == args.logits.num_rows);
  return HWY_DYNAMIC_DISPATCH(AnyAtLeast)(args);
}

void LogRowsSimd(const LogRowsArgs& args) {
  assert(args.reference.size() == args.masses.num_rows);
  HWY_DYNAMIC_DISPATCH(LogRows)(args);
}

void AddWeightedRowsSimd(const AddWeightedRowsArgs& args) {
  assert(args.weights.size() == args.masses.num_rows);
  assert(args.scales.empty() || args.scales.size() == args.weights.size());
  assert(args.scores.size() == args.masses.num_cols);
  HWY_DYNAMIC_DISPATCH(AddWeightedRows)(args);
}

size_t AssignScratch(size_t num_centroids, size_t num_cols) {
  const size_t num_columns = (num_centroids + kWidestPanel - 1) / kWidestPanel * kWidestPanel;
  return num_columns * num_cols + kMostRows * kTileColumns + 16;  // kAlignFloats
}

void AssignNearestSimd(const AssignNearestArgs& args) {
  assert(args.centroids.num_rows >= 1 && args.centroids.num_cols == args.points.num_cols);
  assert(args.labels.size() == args.points.num_rows && args.dots.size() == args.points.num_rows);
  assert(args.scratch.size() >= AssignScratch(args.centroids.num_rows, args.centroids.num_cols));
  HWY_DYNAMIC_DISPATCH(AssignNearest)(args);
}

}  // namespace lectern
#endif  // HWY_ONCE
