#include "kernels/attention.h"

#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/kernels/kernel_case.h"

namespace lectern {
namespace {

// Owns an attention state.
struct State {
  State(size_t num_rows, size_t head_dim)
      : out(num_rows, head_dim, NAN), max(num_rows), sum(num_rows), view{out.rows, max, sum} {
    ResetState(view);
  }
  State(const State&) = delete;
  Matrix Finish() const {
    Matrix output(out.rows.num_rows, out.rows.num_cols);
    FinishState(view, output.rows, {});
    return output;
  }

  Matrix out;
  std::vector<float> max, sum;
  AttentionState view;
};

// One random problem. `visible` may be emptied.
struct AttentionCase {
  AttentionCase(size_t num_rows, size_t num_keys, size_t head_dim, Dtype dtype)
      : queries(Matrix::Random(num_rows, head_dim, 1, 2)),
        keys(Matrix::Random(num_keys, head_dim, 2), dtype),
        values(Matrix::Random(num_keys, head_dim, 3), dtype),
        scale(1 / std::sqrt(static_cast<float>(head_dim))) {
    for (size_t r = 0; r < num_rows; ++r) {
      visible.push_back(static_cast<uint32_t>((r * 37 + 1) % (num_keys + 1)));
    }
  }
  size_t num_rows() const { return queries.rows.num_rows; }
  size_t num_keys() const { return keys.rows.num_rows; }
  size_t head_dim() const { return queries.rows.num_cols; }

  // Attends rows [begin, end) to all keys.
  void Run(const Backend& kernels, const AttentionState& state, size_t begin, size_t end,
           Rows<float> logits = {}) const {
    std::vector<float> scratch(AttendScratch(end - begin, head_dim()));
    const std::span<const uint32_t> all = visible, all_first = first;
    kernels.attend({.queries = queries.rows.Slice(begin, end),
                    .keys = keys.rows,
                    .values = values.rows,
                    .scale = scale,
                    .softcap = softcap,
                    .visible = all.empty() ? all : all.subspan(begin, end - begin),
                    .first = all_first.empty() ? all_first : all_first.subspan(begin, end - begin),
                    .state = state,
                    .logits = logits,
                    .scratch = scratch});
  }
  void Run(const Backend& kernels, const State& state, Rows<float> logits = {}) const {
    Run(kernels, state.view, 0, num_rows(), logits);
  }

  Matrix queries;
  StoredMatrix keys, values;
  std::vector<uint32_t> visible, first;
  float scale, softcap = 0;
};

// softmax(scale q K^T) V in double, written without any online step. Row of zeros: nothing
// was visible.
Matrix DenseAttention(const AttentionCase& c, std::vector<double>* lse = nullptr) {
  const Matrix keys = c.keys.ToFloats(), values = c.values.ToFloats();
  Matrix output(c.num_rows(), c.head_dim());
  for (size_t r = 0; r < c.num_rows(); ++r) {
    const size_t seen = c.visible.empty() ? c.num_keys() : c.visible[r];
    std::vector<double> weights, out(c.head_dim());
    double total = 0;
    const size_t first = c.first.empty() ? 0 : c.first[r];
    for (size_t j = 0; j < seen; ++j) {
      double dot = 0;
      for (size_t i = 0; i < c.head_dim(); ++i) dot += double(c.queries[r][i]) * keys[j][i];
      double logit = c.scale * dot;
      if (c.softcap > 0) logit = c.softcap * std::tanh(logit / c.softcap);
      weights.push_back(j < first ? 0 : std::exp(logit));
      total += weights.back();
      for (size_t i = 0; i < c.head_dim(); ++i) out[i] += weights.back() * values[j][i];
    }
    if (lse != nullptr) lse->push_back(std::log(total));
    for (size_t i = 0; i < c.head_dim() && seen > first; ++i) {
      output[r][i] = static_cast<float>(out[i] / total);
    }
  }
  return output;
}

float Largest(const Matrix& values) {
  float largest = 0;
  for (const float x : values.data) largest = std::max(largest, std::abs(x));
  return largest;
}

void ExpectNear(const Matrix& a, const Matrix& b, double tolerance) {
  for (size_t i = 0; i < a.data.size(); ++i) ASSERT_NEAR(a.data[i], b.data[i], tolerance) << i;
}

class AttentionTest : public KernelTest {};

// Windows: rows that see nothing, one key, the end of a tile, tiles of which they see nothing.
TEST_P(AttentionTest, SeesFromItsFirstKeyOn) {
  for (const size_t num_rows : {1, 4, 8, 40}) {
    AttentionCase c(num_rows, 300, 48, Dtype::kF16);
    for (size_t r = 0; r < num_rows; ++r) {
      c.visible[r] = static_cast<uint32_t>(300 - num_rows + r + 1);
      c.first.push_back(c.visible[r] - std::min<uint32_t>(c.visible[r], r % 7 * 33));
    }
    State state(num_rows, 48);
    Matrix logits(num_rows, 300);
    c.Run(kernels(), state, logits.rows);
    ExpectNear(state.Finish(), DenseAttention(c), 1e-5);
    for (size_t r = 0; r < num_rows; ++r) {
      for (size_t j = 0; j < 300; ++j) {
        EXPECT_EQ(logits[r][j] == -INFINITY, j < c.first[r] || j >= c.visible[r]);
      }
    }
  }
}

TEST_P(AttentionTest, SoftcapBoundsLogits) {
  for (const size_t num_rows : {1, 4, 8, 40}) {
    AttentionCase c(num_rows, 150, 64, Dtype::kF16);
    c.softcap = 0.7f;  // of logits that reach 2
    State state(num_rows, 64);
    Matrix logits(num_rows, 150);
    c.Run(kernels(), state, logits.rows);
    ExpectNear(state.Finish(), DenseAttention(c), 1e-5);
    for (size_t r = 0; r < num_rows; ++r) {
      for (size_t j = 0; j < c.visible[r]; ++j) EXPECT_LE(std::abs(logits[r][j]), 0.7f);
    }
    // Blocks of the same keys agree with one run of them.
    c.visible.clear();
    State whole(num_rows, 64), blocks(num_rows, 64);
    c.Run(kernels(), whole);
    const KvBlock parts[] = {{c.keys.rows.Slice(0, 70), c.values.rows.Slice(0, 70)},
                             {c.keys.rows.Slice(70, 150), c.values.rows.Slice(70, 150)}};
    std::vector<float> scratch(AttendScratch(num_rows, 64));
    kernels().attend_blocks({.queries = c.queries,
                             .blocks = parts,
                             .scale = c.scale,
                             .softcap = c.softcap,
                             .state = blocks.view,
                             .logits = {},
                             .scratch = scratch});
    ExpectNear(blocks.Finish(), whole.Finish(), 1e-5);
  }
}

TEST_P(AttentionTest, IsSoftmaxOfLogitsTimesValues) {
  for (const size_t num_rows : {1, 4, 40}) {
    const AttentionCase c(num_rows, 150, 48, Dtype::kF32);
    State state(num_rows, 48);
    c.Run(kernels(), state);
    std::vector<double> expected_lse;
    ExpectNear(state.Finish(), DenseAttention(c, &expected_lse),
               1e-5 * Largest(c.values.ToFloats()));
    Matrix output(num_rows, 48);
    std::vector<float> lse(num_rows);
    FinishState(state.view, output.rows, lse);
    for (size_t r = 0; r < num_rows; ++r) {
      if (c.visible[r] > 0) {
        EXPECT_NEAR(lse[r], expected_lse[r], 1e-5);
      }
    }
  }
}

// Blocks of a few rows each, stored as documents are: keys, values, the keys of the next.
struct BlocksCase {
  BlocksCase(size_t num_rows, const std::vector<size_t>& sizes, size_t head_dim, Dtype dtype)
      : all(num_rows, std::accumulate(sizes.begin(), sizes.end(), size_t{0}), head_dim, dtype) {
    all.visible.clear();
    const size_t row_bytes = all.keys.rows.row_bytes();
    data.resize(2 * all.num_keys() * row_bytes);
    size_t row = 0;
    for (const size_t size : sizes) {
      std::byte* const block = data.data() + 2 * row * row_bytes;
      std::memcpy(block, all.keys.rows.row(row), size * row_bytes);
      std::memcpy(block + size * row_bytes, all.values.rows.row(row), size * row_bytes);
      blocks.push_back(
          {{block, dtype, size, head_dim}, {block + size * row_bytes, dtype, size, head_dim}});
      row += size;
    }
  }
  void Run(const Backend& kernels, const State& state, Rows<float> logits = {}) const {
    std::vector<float> scratch(AttendScratch(all.num_rows(), all.head_dim()));
    kernels.attend_blocks({.queries = all.queries.rows,
                           .blocks = blocks,
                           .scale = all.scale,
                           .state = state.view,
                           .logits = logits,
                           .scratch = scratch});
  }

  AttentionCase all;
  std::vector<std::byte> data;
  std::vector<KvBlock> blocks;
};

TEST_P(AttentionTest, BlocksAreAttendedAsOne) {
  const auto check = [&](size_t num_rows, const std::vector<size_t>& sizes, size_t head_dim,
                         Dtype dtype) {
    SCOPED_TRACE(testing::Message() << num_rows << " rows, " << sizes.size() << " blocks of "
                                    << sizes[0] << ", head_dim " << head_dim);
    const BlocksCase c(num_rows, sizes, head_dim, dtype);
    State state(num_rows, head_dim), expected(num_rows, head_dim);
    Matrix logits(num_rows, c.all.num_keys()), expected_logits(num_rows, c.all.num_keys());
    c.Run(kernels(), state, logits.rows);
    c.all.Run(*FindBackend("scalar"), expected, expected_logits.rows);
    ExpectNear(logits, expected_logits, 1e-4);
    const float tolerance = 1e-5f * Largest(c.all.values.ToFloats());
    ExpectNear(state.Finish(), DenseAttention(c.all), tolerance);
    // Joined with what was attended before.
    c.Run(kernels(), state);
    ExpectNear(state.Finish(), expected.Finish(), tolerance);
    for (size_t r = 0; r < num_rows; ++r) {
      EXPECT_NEAR(std::log(state.sum[r]) + state.max[r],
                  std::log(2 * expected.sum[r]) + expected.max[r], 1e-4);
    }
  };
  for (const std::vector<size_t>& sizes : std::vector<std::vector<size_t>>{
           {1}, {64}, {65}, {1, 2, 3}, {20, 20, 20, 20}, {63, 1, 64, 7}}) {
    for (const size_t num_rows : {1, 4, 5}) check(num_rows, sizes, 32, Dtype::kF32);
  }
  for (const Dtype dtype : kAllDtypes) check(4, {20, 30, 40}, 64, dtype);
  for (const size_t num_rows : {3, 8, 9}) check(num_rows, {30, 50}, 96, Dtype::kF16);
}

TEST_P(AttentionTest, MatchesScalarAroundVectorWidths) {
  if (is_definition()) GTEST_SKIP();
  const auto check = [&](size_t num_rows, size_t num_keys, size_t head_dim, Dtype dtype) {
    AttentionCase c(num_rows, num_keys, head_dim, dtype);
    if (head_dim % 2 == 0) c.visible.clear();
    State expected(num_rows, head_dim), state(num_rows, head_dim);
    c.Run(*FindBackend("scalar"), expected);
    c.Run(kernels(), state);
    SCOPED_TRACE(testing::Message() << num_rows << " rows, " << num_keys << " keys, " << head_dim);
    ExpectNear(state.Finish(), expected.Finish(), 1e-5 * Largest(c.values.ToFloats()));
  };
  for (const Dtype dtype : kAllDtypes) {
    for (const size_t width : kWidths) {
      for (const size_t num_rows : {1, 4, 15}) {
        if (num_rows == 4 || width < 1000) check(num_rows, width, 32, dtype);
        if (num_rows == 4 || width < 1000)
          check(num_rows, 70, dtype == Dtype::kQ8 ? 96 : width, dtype);
      }
      check(width, 33, 64, dtype);
    }
  }
}

// Needs no reference: weights are a softmax, so constant values come out unchanged.
TEST_P(AttentionTest, WeightsSumToOne) {
  AttentionCase c(20, 500, 64, Dtype::kF16);
  c.visible.clear();
  const StoredMatrix ones(Matrix(500, 64, 1), Dtype::kF16);
  c.values.rows = ones.rows;
  State state(20, 64);
  c.Run(kernels(), state);
  ExpectNear(state.Finish(), Matrix(20, 64, 1), 1e-5);
}

// The promise of attention.h, to the last bit.
TEST_P(AttentionTest, RowsDoNotDependOnEachOther) {
  constexpr size_t kRows = 50;
  const AttentionCase c(kRows, 333, 64, Dtype::kF16);
  State whole(kRows, 64);
  c.Run(kernels(), whole);
  for (const size_t rows : {1, 2, 4, 7, 15, 33}) {
    State state(kRows, 64);
    for (size_t r = 0; r < kRows; r += rows) {
      const size_t end = std::min(r + rows, kRows);
      c.Run(kernels(), state.view.Slice(r, end), r, end);
    }
    EXPECT_TRUE(SameBits(state.out[0], whole.out[0], kRows * 64)) << rows << " rows at a time";
    EXPECT_EQ(state.sum, whole.sum);
    EXPECT_EQ(state.max, whole.max);
  }
}

TEST_P(AttentionTest, StatesOfSplitKeysMergeToOne) {
  AttentionCase c(9, 400, 64, Dtype::kBf16);
  c.visible.clear();
  State whole(9, 64), first(9, 64), second(9, 64), in_turn(9, 64);
  c.Run(kernels(), whole);
  const TypedRows keys = c.keys.rows, values = c.values.rows;
  const auto attend_part = [&](const State& state, size_t begin, size_t end) {
    c.keys.rows = keys.Slice(begin, end);
    c.values.rows = values.Slice(begin, end);
    c.Run(kernels(), state);
  };
  for (const State* state : {&first, &in_turn}) attend_part(*state, 0, 131);
  for (const State* state : {&second, &in_turn}) attend_part(*state, 131, 400);
  MergeStates(first.view, second.view);
  const Matrix expected = whole.Finish();
  ExpectNear(first.Finish(), expected, 1e-5);
  ExpectNear(in_turn.Finish(), expected, 1e-5);
}

TEST_P(AttentionTest, RowThatSeesNothingKeepsItsState) {
  AttentionCase c(20, 100, 64, Dtype::kF32);
  State state(20, 64), before(20, 64);
  c.Run(kernels(), state);
  c.Run(kernels(), before);
  c.visible.assign(20, 0);
  c.visible[3] = 70;
  c.Run(kernels(), state);
  for (size_t r = 0; r < 20; ++r) {
    EXPECT_EQ(SameBits(state.out[r], before.out[r], 64), r != 3) << r;
    EXPECT_EQ(state.sum[r] == before.sum[r], r != 3);
  }
}

TEST_P(AttentionTest, NothingAttendedFinishesAsZeroAndMinusInfinity) {
  AttentionCase c(2, 10, 32, Dtype::kF32);
  c.visible = {0, 5};
  State state(2, 32);
  c.Run(kernels(), state);
  Matrix output(2, 32, NAN);
  std::vector<float> lse(2);
  FinishState(state.view, output.rows, lse);
  EXPECT_EQ(lse[0], -kInf);
  EXPECT_TRUE(std::isfinite(lse[1]));
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(output[0][i], 0);
  State empty(2, 32);
  MergeStates(empty.view, state.view);  // one row empty on both sides
  EXPECT_TRUE(SameBits(empty.out[0], state.out[0], 64));
  MergeStates(state.view, State(2, 32).view);
  EXPECT_TRUE(SameBits(empty.out[0], state.out[0], 64));
}

// Rows behind the last visible key may not be there at all: with ASan this also proves no read.
TEST_P(AttentionTest, ReadsNothingPastTheLastVisibleKey) {
  for (const size_t num_rows : {4, 30}) {
    AttentionCase c(num_rows, 90, 64, Dtype::kF16);
    for (uint32_t& count : c.visible) count = std::min(count, 70u);
    State expected(num_rows, 64), state(num_rows, 64);
    c.Run(kernels(), expected);
    for (StoredMatrix* stored : {&c.keys, &c.values}) {
      std::fill(stored->bytes.begin() + 1 + 70 * 128, stored->bytes.end(), std::byte{0xFF});  // NaN
    }
    c.Run(kernels(), state);
    EXPECT_TRUE(SameBits(state.out[0], expected.out[0], num_rows * 64));
  }
}

TEST_P(AttentionTest, ReturnsLogits) {
  const AttentionCase c(14, 100, 32, Dtype::kF16);
  const Matrix keys = c.keys.ToFloats();
  State state(14, 32);
  Matrix logits(14, 110, 7);
  c.Run(kernels(), state, Rows<float>(logits[0], 14, 100, 110));
  for (size_t r = 0; r < 14; ++r) {
    for (size_t j = 0; j < 110; ++j) {
      double expected = j < 100 ? -kInf : 7;  // the gap between rows is left alone
      if (j < c.visible[r]) {
        expected = 0;
        for (size_t i = 0; i < 32; ++i) expected += c.scale * double(c.queries[r][i]) * keys[j][i];
      }
      if (std::isinf(expected)) {
        ASSERT_EQ(logits[r][j], expected);
      } else {
        ASSERT_NEAR(logits[r][j], expected, 1e-5);
      }
    }
  }
}

TEST_P(AttentionTest, LargeLogitsDoNotOverflow) {
  AttentionCase c(5, 80, 32, Dtype::kF32);
  c.visible.clear();
  c.scale = 1e5f;
  State state(5, 32);
  c.Run(kernels(), state);
  const Matrix output = state.Finish(), keys = c.keys.ToFloats(), values = c.values.ToFloats();
  for (size_t r = 0; r < 5; ++r) {  // one key takes all
    std::vector<std::pair<double, size_t>> dots;
    for (size_t j = 0; j < 80; ++j) {
      double dot = 0;
      for (size_t i = 0; i < 32; ++i) dot += double(c.queries[r][i]) * keys[j][i];
      dots.emplace_back(dot, j);
    }
    std::sort(dots.rbegin(), dots.rend());
    ASSERT_GT(c.scale * (dots[0].first - dots[1].first), 100);
    for (size_t i = 0; i < 32; ++i) {
      EXPECT_FLOAT_EQ(output[r][i], values[dots[0].second][i]);
    }
  }
}

// ---- AttendLogits

void RunLogits(const Backend& kernels, Rows<const float> logits, const TypedRows& values,
               const State& state) {
  std::vector<float> scratch(AttendScratch(logits.num_rows, values.num_cols));
  kernels.attend_logits(
      {.logits = logits, .values = values, .state = state.view, .scratch = scratch});
}

// softmax(logits) V in double; a logit of -inf has no weight.
Matrix DenseAttendLogits(Rows<const float> logits, const StoredMatrix& stored) {
  const Matrix values = stored.ToFloats();
  const size_t head_dim = values.rows.num_cols;
  Matrix output(logits.num_rows, head_dim);
  for (size_t r = 0; r < logits.num_rows; ++r) {
    std::vector<double> out(head_dim);
    double total = 0;
    for (size_t j = 0; j < logits.num_cols; ++j) {
      const double weight = std::exp(double{logits[r][j]});
      total += weight;
      for (size_t i = 0; i < head_dim; ++i) out[i] += weight * values[j][i];
    }
    for (size_t i = 0; i < head_dim && total > 0; ++i) {
      output[r][i] = static_cast<float>(out[i] / total);
    }
  }
  return output;
}

class AttendLogitsTest : public KernelTest {};

TEST_P(AttendLogitsTest, IsSoftmaxOfLogitsTimesValues) {
  const auto check = [&](size_t num_rows, size_t num_keys, size_t head_dim, Dtype dtype) {
    SCOPED_TRACE(testing::Message() << num_rows << " rows, " << num_keys << " keys, " << head_dim
                                    << " wide, dtype " << static_cast<int>(dtype));
    const Matrix wide = Matrix::Random(num_rows, num_keys + 5, 1, 3);
    const Rows<const float> logits(wide.rows[0], num_rows, num_keys, num_keys + 5);
    const StoredMatrix values(Matrix::Random(num_keys, head_dim, 2), dtype);
    State state(num_rows, head_dim);
    RunLogits(kernels(), logits, values.rows, state);
    ExpectNear(state.Finish(), DenseAttendLogits(logits, values),
               1e-5 * Largest(values.ToFloats()));
  };
  for (const Dtype dtype : kAllDtypes) {
    for (const size_t width : kWidths) {
      for (const size_t num_rows : {1, 4, 15}) {
        check(num_rows, width, 32, dtype);
        if (dtype != Dtype::kQ8) check(num_rows, 70, width, dtype);
      }
      check(width, 33, 64, dtype);
    }
  }
}

// The two ways to attend agree: Attend hands out logits, AttendLogits takes them.
TEST_P(AttendLogitsTest, EqualsAttendOnTheLogitsOfAttend) {
  for (const size_t num_rows : {1, 4, 40}) {
    const AttentionCase c(num_rows, 150, 48, Dtype::kF16);
    State attended(num_rows, 48), again(num_rows, 48);
    Matrix logits(num_rows, 150);
    c.Run(kernels(), attended, logits.rows);
    RunLogits(kernels(), logits, c.values.rows, again);
    ExpectNear(again.Finish(), attended.Finish(), 1e-5 * Largest(c.values.ToFloats()));
    for (size_t r = 0; r < num_rows; ++r) {
      EXPECT_EQ(again.max[r], attended.max[r]);
      EXPECT_NEAR(again.sum[r], attended.sum[r], 1e-5 * attended.sum[r]);
    }
  }
}

// A state may hold other keys already, with a larger or a smaller maximum.
TEST_P(AttendLogitsTest, AddsToWhatWasAttendedBefore) {
  for (const float shift : {-20.0f, 0.0f, 20.0f}) {
    Matrix logits = Matrix::Random(7, 300, 1, 3);
    for (size_t r = 0; r < 7; ++r) {
      for (size_t j = 131; j < 300; ++j) logits[r][j] += shift;
    }
    const StoredMatrix values(Matrix::Random(300, 64, 2), Dtype::kBf16);
    State state(7, 64);
    RunLogits(kernels(), Rows<const float>(logits[0], 7, 131, 300), values.rows.Slice(0, 131),
              state);
    RunLogits(kernels(), Rows<const float>(logits[0] + 131, 7, 169, 300),
              values.rows.Slice(131, 300), state);
    ExpectNear(state.Finish(), DenseAttendLogits(logits, values),
               1e-5 * Largest(values.ToFloats()));
  }
}

TEST_P(AttendLogitsTest, IgnoresLogitsOfMinusInfinity) {
  for (const size_t num_keys : kWidths) {
    Matrix logits = Matrix::Random(5, num_keys, 1, 3);
    for (size_t r = 0; r < 5; ++r) {
      for (size_t j = 0; j + 1 < num_keys; ++j) {
        if (j < 64 || (j + r) % 3 == 0) logits[r][j] = -kInf;  // a whole tile and parts of the next
      }
    }
    const StoredMatrix values(Matrix::Random(num_keys, 32, 2), Dtype::kF32);
    State state(5, 32);
    RunLogits(kernels(), logits, values.rows, state);
    ExpectNear(state.Finish(), DenseAttendLogits(logits, values),
               1e-5 * Largest(values.ToFloats()));
  }
}

TEST_P(AttendLogitsTest, RowOfOnlyMinusInfinityKeepsItsState) {
  for (const size_t num_rows : {4, 40}) {
    const StoredMatrix values(Matrix::Random(100, 48, 2), Dtype::kF16);
    Matrix logits = Matrix::Random(num_rows, 100, 1, 3);
    std::fill_n(logits[2], 100, -kInf);
    State state(num_rows, 48), before(num_rows, 48);
    RunLogits(kernels(), logits, values.rows, state);  // row 2 is empty before and after
    EXPECT_EQ(state.max[2], -kInf);
    EXPECT_EQ(state.sum[2], 0);
    for (size_t i = 0; i < 48; ++i) EXPECT_EQ(state.out[2][i], 0);
    RunLogits(kernels(), logits, values.rows, before);
    std::fill_n(logits[1], 100, -kInf);
    RunLogits(kernels(), logits, values.rows, state);  // row 1 was not empty
    EXPECT_TRUE(SameBits(state.out[1], before.out[1], 48));
    EXPECT_EQ(state.max[1], before.max[1]);
    EXPECT_EQ(state.sum[1], before.sum[1]);
    EXPECT_NE(state.sum[0], before.sum[0]);
  }
}

TEST_P(AttendLogitsTest, LargeLogitsDoNotOverflow) {
  Matrix logits(3, 90);
  for (size_t r = 0; r < 3; ++r) {
    for (size_t j = 0; j < 90; ++j) logits[r][j] = 1000.0f * static_cast<float>((j * 7 + r) % 90);
  }
  const StoredMatrix values(Matrix::Random(90, 64, 2), Dtype::kF32);
  State state(3, 64);
  RunLogits(kernels(), logits, values.rows, state);
  for (float& x : logits.data) x -= 89000.0f;  // the same softmax, and double can hold it
  ExpectNear(state.Finish(), DenseAttendLogits(logits, values), 1e-5 * Largest(values.ToFloats()));
}

INSTANTIATE_TEST_SUITE_P(Backends, AttentionTest, testing::ValuesIn(AllRuns()), RunName);
INSTANTIATE_TEST_SUITE_P(Backends, AttendLogitsTest, testing::ValuesIn(AllRuns()), RunName);

}  // namespace
}  // namespace lectern
