// The logits that a draw can depend on are found with the same bits as among all, whatever the
// output matrix and the hidden state are.
#include "engine/forward/output_head.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "engine/forward/sampler.h"

namespace lectern {
namespace {

// A matrix of q8 in planes, made of floats.
struct PlanesHead {
  PlanesHead(const std::vector<float>& values, size_t n, size_t k)
      : rows{nullptr, PackedType::kQ8Planes, n, k} {
    bytes.resize(rows.bytes());
    rows.Set(bytes.data());
    const PackedRows whole = {nullptr, PackedType::kQ8, n, k};
    std::vector<std::byte> q8(whole.panel_bytes());
    for (size_t row = 0, panel = 0; row < n; row += kPackedColumns, ++panel) {
      const size_t count = std::min(kPackedColumns, n - row);
      EXPECT_TRUE(PackPanel(Rows<const float>(values.data() + row * k, count, k), PackedType::kQ8,
                            q8.data()));
      std::byte* const high = bytes.data() + panel * rows.panel_bytes();
      std::byte* const low =
          bytes.data() + rows.num_panels() * rows.panel_bytes() + panel * rows.low_panel_bytes();
      SplitPanel(q8.data(), k, high, low);
    }
  }
  PlanesHead(const PlanesHead&) = delete;
  std::vector<std::byte> bytes;
  PackedRows rows;
};

class OutputHeadTest : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr size_t kRows = 3001, kCols = 96;
#if defined(__SANITIZE_ADDRESS__)  // looks for accesses, which fewer show too
  static constexpr unsigned kStates = 2, kSeeds = 4;
#else
  static constexpr unsigned kStates = 8, kSeeds = 20;
#endif
  const Backend& backend() const { return *FindBackend(GetParam()); }

  // Compares what is found with the whole product, for each input row and way to draw. `head`
  // forgets what it learnt between calls unless the test keeps it.
  void Compare(const PlanesHead& matrix, const std::vector<float>& x, size_t rows) {
    const size_t k = matrix.rows.num_cols, n = matrix.rows.num_rows;
    Int8Buffer rounded(rows * k);
    backend().quantise_rows(rounded.Args(Rows<const float>(x.data(), rows, k)));
    const Int8Rows input = rounded.rows(rows, k);
    std::vector<float> all(rows * n), likely(rows * n);
    backend().packed_matmul({.input = input,
                             .weight = matrix.rows,
                             .output = {all.data(), rows, n},
                             .column_begin = 0,
                             .column_end = n});
    for (const SamplingOptions& base : kDraws) {
      const WantedLogits wanted = WantedBy(base);
      OutputHead head;
      std::fill(likely.begin(), likely.end(), 12345.0f);
      ++num_tries_;
      if (!head.FindLikely(input, matrix.rows, wanted, backend(), threads_,
                           {likely.data(), rows, n})) {
        continue;
      }
      ++num_found_;
      num_panels_ += head.counts().panels;
      num_rows_ += rows;
      for (size_t r = 0; r < rows; ++r) {
        const std::span<const float> whole(all.data() + r * n, n), few(likely.data() + r * n, n);
        std::vector<float> sorted(whole.begin(), whole.end());
        std::ranges::sort(sorted, std::greater<>());
        const double least = double{sorted[wanted.count - 1]} - wanted.slack;
        for (size_t i = 0; i < n; ++i) {
          if (few[i] == -INFINITY && double{whole[i]} < least) continue;
          ASSERT_EQ(std::memcmp(&few[i], &whole[i], sizeof(float)), 0) << i;
        }
        for (uint64_t seed = 0; seed < kSeeds; ++seed) {
          SamplingOptions options = base;
          options.seed = seed;
          Sampler one(options), other(options);
          for (int draw = 0; draw < 5; ++draw) ASSERT_EQ(one.Sample(few), other.Sample(whole));
        }
      }
    }
  }
  static std::vector<float> Random(size_t count, unsigned seed, float size = 1) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal(0, size);
    std::vector<float> values(count);
    for (float& value : values) value = normal(engine);
    return values;
  }
  // Hidden states that look at a row of the matrix, as a model's do, and have large places.
  static std::vector<float> Looking(const std::vector<float>& matrix, size_t n, size_t rows,
                                    unsigned seed) {
    std::vector<float> x = Random(rows * kCols, seed, 0.3f);
    for (size_t r = 0; r < rows; ++r) {
      const size_t at = (seed * 977 + r * 131) % n;
      for (size_t c = 0; c < kCols; ++c) x[r * kCols + c] += matrix[at * kCols + c];
      x[r * kCols + 40] *= 20, x[r * kCols + 41] *= 9;
    }
    return x;
  }

  inline static const SamplingOptions kDraws[] = {
      {},
      {.temperature = 0.8f, .top_k = 1},
      {.temperature = 0.8f, .top_k = 7},
      {.temperature = 1.5f, .top_p = 0.7f, .top_k = 5},
      {.temperature = 0.7f, .min_p = 0.2f},
      {.temperature = 0.01f, .top_k = 4, .min_p = 0.5f},
      {.temperature = 10, .top_k = 9, .min_p = 1e-30f},
  };
  ThreadPool threads_{2};
  size_t num_tries_ = 0, num_found_ = 0, num_panels_ = 0, num_rows_ = 0;
};

TEST_P(OutputHeadTest, FindsWhatAModelSays) {
  const std::vector<float> values = Random(kRows * kCols, 1);
  const PlanesHead matrix(values, kRows, kCols);
  for (unsigned seed = 0; seed < kStates; ++seed) {
    for (const size_t rows : {1, 3}) Compare(matrix, Looking(values, kRows, rows, seed), rows);
  }
  EXPECT_GT(num_found_, num_tries_ / 2);
  EXPECT_LT(num_panels_, num_rows_ * matrix.rows.num_panels() / 4);
}

// Equal rows, rows that differ in one step of one value, and logits of both signs.
TEST_P(OutputHeadTest, TiesAndNearTiesAreDrawnAsAmongAll) {
  std::vector<float> values = Random(kRows * kCols, 2, 0.1f);
  const std::vector<float> best = Random(kCols, 3);
  for (const size_t at : {2999, 17, 16, 1500, 31}) {
    std::copy(best.begin(), best.end(), values.begin() + static_cast<ptrdiff_t>(at * kCols));
  }
  for (size_t i = 0; i < 40; ++i) {
    const auto row = values.begin() + static_cast<ptrdiff_t>((100 + 61 * i) * kCols);
    std::copy(best.begin(), best.end(), row);
    row[static_cast<ptrdiff_t>(i * 7 % kCols)] *= i % 2 == 0 ? 1.01f : 0.99f;
  }
  const PlanesHead matrix(values, kRows, kCols);
  std::vector<float> x = best;
  Compare(matrix, x, 1);
  for (float& one : x) one = -one;
  Compare(matrix, x, 1);
  EXPECT_GT(num_found_, 0u);
}

TEST_P(OutputHeadTest, SizesAndSignsDoNotMatter) {
  for (const float size : {1e-7f, 1e-3f, 1e4f}) {
    std::vector<float> values = Random(kRows * kCols, 4, size);
    for (size_t row = 0; row < kRows; ++row) {  // norms of all sizes
      for (size_t c = 0; c < kCols; ++c) {
        values[row * kCols + c] *= std::ldexp(1.0f, -static_cast<int>(row % 11));
      }
    }
    const PlanesHead matrix(values, kRows, kCols);
    for (const float scale : {1e-30f, 1.0f, -1.0f, 1e12f}) {
      std::vector<float> x = Looking(values, kRows, 1, 5);
      for (float& one : x) one *= scale / size;
      Compare(matrix, x, 1);
    }
  }
  EXPECT_GT(num_found_, num_tries_ / 4);
}

// All logits are equal, or none is a number: then all are wanted, or drawn as among all.
TEST_P(OutputHeadTest, StatesWithoutALikeliestAreLeftToTheWholeProduct) {
  const std::vector<float> values = Random(kRows * kCols, 6);
  const PlanesHead matrix(values, kRows, kCols);
  std::vector<float> x(kCols);
  Compare(matrix, x, 1);
  for (const float bad : {INFINITY, -INFINITY, NAN, 1e30f}) {
    x = Looking(values, kRows, 1, 1);
    x[50] = bad;
    Compare(matrix, x, 1);
  }
  EXPECT_EQ(num_found_, 0u);
  Compare(PlanesHead(std::vector<float>(kRows * kCols), kRows, kCols), Random(kCols, 7), 1);
  EXPECT_EQ(num_found_, 0u);
}

TEST_P(OutputHeadTest, IsNotUsedWhereItDoesNotPay) {
  const std::vector<float> values = Random(kRows * kCols, 8);
  const PlanesHead matrix(values, kRows, kCols);
  const auto find = [&](OutputHead& head, std::vector<float> x, const WantedLogits& wanted) {
    Int8Buffer rounded(kCols);
    std::vector<float> logits(kRows);
    backend().quantise_rows(rounded.Args(Rows<const float>(x.data(), 1, kCols)));
    return head.FindLikely(rounded.rows(1, kCols), matrix.rows, wanted, backend(), threads_,
                           {logits.data(), 1, kRows});
  };
  // A slack that takes all logits in: after a few trials there is a rest before the next.
  OutputHead head;
  int num_bounded = 0;
  for (int i = 0; i < 100; ++i) {
    const uint64_t before = head.counts().panels;
    EXPECT_FALSE(find(head, Looking(values, kRows, 1, 1), {.count = 1, .slack = 1e9}));
    num_bounded += head.counts().panels > before;
  }
  EXPECT_LT(num_bounded, 20);
  EXPECT_GT(num_bounded, 1);
  // All wanted, or too many: there are no bounds at all.
  OutputHead other;
  const std::vector<float> x = Looking(values, kRows, 1, 2);
  EXPECT_FALSE(find(other, x, {}));
  EXPECT_FALSE(find(other, x, {.count = 188}));  // of 188 panels
  EXPECT_EQ(other.counts().panels, 0u);
  EXPECT_TRUE(find(other, x, {.count = 1}));
}

INSTANTIATE_TEST_SUITE_P(Backends, OutputHeadTest, ::testing::Values("scalar", "simd"),
                         [](const auto& run) { return std::string(run.param); });

TEST(WantedLogitsTest, ServeTheDrawAndNoMore) {
  EXPECT_EQ(WantedBy({}).count, 1u);
  EXPECT_TRUE(WantedBy({.temperature = 1}).all());
  EXPECT_TRUE(WantedBy({.temperature = 1, .top_p = 0.9f}).all());
  EXPECT_TRUE(WantedBy({.frequency_penalty = 0.1f}).all());
  EXPECT_TRUE(WantedBy({.presence_penalty = -0.1f}).all());
  EXPECT_TRUE(WantedBy({.logit_bias = {{1, 1.0f}}}).all());
  EXPECT_EQ(WantedBy({.temperature = 1, .top_k = 40}).count, 41u);
  EXPECT_TRUE(WantedBy({.temperature = 1, .top_k = 4'000'000'000}).all());
  EXPECT_NEAR(WantedBy({.temperature = 2, .min_p = 0.5f}).slack, 2 * std::log(2), 1e-9);
  const WantedLogits greedy = WantedBy({}), likeliest = WantedBy({.temperature = 1, .top_k = 3});
  EXPECT_EQ(greedy.With(likeliest).count, 4u);
  EXPECT_EQ(greedy.With(likeliest).farthest, likeliest.farthest);
  EXPECT_TRUE(greedy.With({}).all());
}

}  // namespace
}  // namespace lectern
