#include "kernels/centroid_scores.h"

#include <cmath>

#include "kernels/attention.h"
#include "tests/kernels/kernel_case.h"

namespace lectern {
namespace {

void RunKeyLogits(const Backend& kernels, Rows<const float> queries, const TypedRows& keys,
                  float scale, Rows<float> logits) {
  std::vector<float> scratch(AttendScratch(queries.num_rows, queries.num_cols));
  kernels.key_logits(
      {.queries = queries, .keys = keys, .scale = scale, .logits = logits, .scratch = scratch});
}

class CentroidScoresTest : public KernelTest {};

// Needs no reference: sum_i N_i S_i is a softmax total.
TEST_P(CentroidScoresTest, KeyMassSumsToOne) {
  constexpr size_t kRows = 8, kCentroids = 133;
  const Matrix queries = Matrix::Random(kRows, 64, 1, 4);
  const StoredMatrix centroids(Matrix::Random(kCentroids, 64, 2), Dtype::kF16);
  std::vector<float> log_counts, lse(kRows, -kInf), scores(kCentroids);
  for (size_t j = 0; j < kCentroids; ++j) log_counts.push_back(std::log(float(j % 9)));  // some 0
  Matrix logits(kRows, kCentroids);
  RunKeyLogits(kernels(), queries, centroids.rows, 0.125f, logits.rows);
  kernels().add_row_lse({.logits = logits, .bias = log_counts, .lse = lse});
  kernels().add_scores({.logits = logits, .lse = lse, .scores = scores});
  double mass = 0;
  for (size_t j = 0; j < kCentroids; ++j) mass += double(j % 9) * scores[j] / kRows;
  EXPECT_NEAR(mass, 1, 1e-5);
}

TEST_P(CentroidScoresTest, ScoresByHand) {
  const Matrix queries = Matrix::Of(1, 1, {2});
  const StoredMatrix keys(Matrix::Of(2, 1, {0, 1}), Dtype::kF32);
  Matrix logits(1, 2);
  std::vector<float> lse = {-kInf}, scores(2);
  RunKeyLogits(kernels(), queries, keys.rows, 0.5f, logits.rows);
  EXPECT_EQ(logits.data, (std::vector<float>{0, 1}));
  const std::vector<float> log_counts = {std::log(3.0f), 0};
  kernels().add_row_lse({.logits = logits, .bias = log_counts, .lse = lse});
  EXPECT_FLOAT_EQ(lse[0], 1.7436684f);  // log(3 + e)
  kernels().add_scores({.logits = logits, .lse = lse, .scores = scores});
  EXPECT_FLOAT_EQ(scores[0], 0.17487770f);  // 1 / (3 + e)
  EXPECT_FLOAT_EQ(scores[1], 0.47536689f);  // e / (3 + e)
}

TEST_P(CentroidScoresTest, MatchesScalarAroundVectorWidths) {
  if (is_definition()) GTEST_SKIP();
  const Backend& scalar = *FindBackend("scalar");
  for (const Dtype dtype : kAllDtypes) {
    for (const size_t n : kWidths) {
      for (const size_t rows : {1, 4, 13}) {
        const size_t d = dtype == Dtype::kQ8 ? 64 : 57;
        const Matrix queries = Matrix::Random(rows, d, 1, 3), bias = Matrix::Random(1, n, 3);
        const StoredMatrix keys(Matrix::Random(n, d, 2), dtype);
        Matrix expected(rows, n), logits(rows, n + 3, 5);
        const Rows<float> strided(logits[0], rows, n, n + 3);
        RunKeyLogits(scalar, queries, keys.rows, 0.1f, expected.rows);
        RunKeyLogits(kernels(), queries, keys.rows, 0.1f, strided);
        for (size_t r = 0; r < rows; ++r) {
          for (size_t j = 0; j < n; ++j) ASSERT_NEAR(logits[r][j], expected[r][j], 2e-5);
          for (size_t j = n; j < n + 3; ++j) ASSERT_EQ(logits[r][j], 5);
        }
        std::vector<float> expected_lse(rows, 0.5f), lse(expected_lse);
        scalar.add_row_lse({expected, bias.data, expected_lse});
        kernels().add_row_lse({expected, bias.data, lse});
        for (size_t r = 0; r < rows; ++r) ASSERT_NEAR(lse[r], expected_lse[r], 1e-5);
        std::vector<float> expected_scores(n, 1e-3f), scores(expected_scores);
        scalar.add_scores({expected, lse, expected_scores});
        kernels().add_scores({expected, lse, scores});
        for (size_t j = 0; j < n; ++j) {
          ASSERT_NEAR(scores[j], expected_scores[j], 1e-5 * expected_scores[j]);
        }
      }
    }
  }
}

TEST_P(CentroidScoresTest, LogitsDoNotDependOnOtherRowsOrKeys) {
  const Matrix queries = Matrix::Random(29, 80, 1);
  const StoredMatrix keys(Matrix::Random(101, 80, 2), Dtype::kF16);
  Matrix whole(29, 101), parts(29, 101);
  RunKeyLogits(kernels(), queries, keys.rows, 0.3f, whole.rows);
  for (size_t r = 0; r < 29; r += 5) {
    const size_t end = std::min<size_t>(r + 5, 29);
    for (size_t j = 0; j < 101; j += 23) {
      const size_t key_end = std::min<size_t>(j + 23, 101);
      RunKeyLogits(kernels(), queries.rows.Slice(r, end), keys.rows.Slice(j, key_end), 0.3f,
                   Rows<float>(parts[r] + j, end - r, key_end - j, 101));
    }
  }
  EXPECT_TRUE(SameBits(parts[0], whole[0], 29 * 101));
}

TEST_P(CentroidScoresTest, LseAddsUpOverParts) {
  const Matrix logits = Matrix::Random(3, 2500, 1, 20), bias(1, 2500, 0.25f);
  std::vector<float> once(3, -kInf), in_parts(3, -kInf);
  kernels().add_row_lse({logits, bias.data, once});
  for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 1}, {1, 1300}, {1300, 2500}}) {
    kernels().add_row_lse({.logits = Rows<const float>(logits[0] + begin, 3, end - begin, 2500),
                           .bias = std::span(bias.data).subspan(begin, end - begin),
                           .lse = in_parts});
  }
  for (size_t r = 0; r < 3; ++r) EXPECT_NEAR(in_parts[r], once[r], 1e-5);
}

TEST_P(CentroidScoresTest, LseOfNothingStaysMinusInfinity) {
  const Matrix logits = Matrix::Random(2, 19, 1), bias(1, 19, -kInf);
  std::vector<float> lse = {-kInf, 3};
  kernels().add_row_lse({logits, bias.data, lse});
  EXPECT_EQ(lse, (std::vector<float>{-kInf, 3}));
}

// ---- AssignNearest

void RunAssign(const Backend& kernels, Rows<const float> points, Rows<const float> centroids,
               std::span<uint32_t> labels, std::span<float> dots) {
  std::vector<float> scratch(AssignScratch(centroids.num_rows, centroids.num_cols));
  kernels.assign_nearest({.points = points,
                          .centroids = centroids,
                          .labels = labels,
                          .dots = dots,
                          .scratch = scratch});
}

// Masses of keys that are met more than once: the same scores as by AddRowLse and AddScores.
TEST_P(CentroidScoresTest, MassesGiveTheSameScores) {
  constexpr size_t kRows = 6;
  for (const size_t n : kWidths) {
    const Matrix logits = Matrix::Random(kRows, n, 1, 5);
    const std::vector<float> no_bias(n), reference = {0, -3, 4, 10, 0.5f, -1};
    std::vector<float> lse(kRows, -kInf), expected(n), scores(n), weights;
    kernels().add_row_lse({.logits = logits, .bias = no_bias, .lse = lse});
    kernels().add_scores({.logits = logits, .lse = lse, .scores = expected});
    Matrix masses = logits;
    kernels().exp_rows({.logits = masses.rows, .reference = reference});
    Matrix sums(kRows, 1);
    const std::vector<uint32_t> begin = {0, static_cast<uint32_t>(n)};
    kernels().sum_segments({.masses = masses, .begin = begin, .sums = sums.rows});
    for (size_t r = 0; r < kRows; ++r) {
      EXPECT_NEAR(reference[r] + std::log(sums[r][0]), lse[r], 1e-5);
      weights.push_back(1 / sums[r][0]);
    }
    kernels().add_weighted_rows({.masses = masses, .weights = weights, .scores = scores});
    for (size_t j = 0; j < n; ++j) ASSERT_NEAR(scores[j], expected[j], 2e-5 * expected[j]);
  }
}

TEST_P(CentroidScoresTest, SquaresAreOfScaledMasses) {
  constexpr size_t kRows = 6;
  for (const size_t n : kWidths) {
    const Matrix masses = Matrix::Random(kRows, n, 1, 5);
    const std::vector<float> weights = {0, 1, 0.5f, 3, 2, 1}, scales = {1, 2, 0, 0.1f, 7, 1};
    std::vector<float> scores(n, 0.5f);
    kernels().add_weighted_rows(
        {.masses = masses, .weights = weights, .scores = scores, .scales = scales});
    for (size_t j = 0; j < n; ++j) {
      double sum = 0.5;
      for (size_t r = 0; r < kRows; ++r) {
        const double scaled = double{scales[r]} * masses[r][j];
        sum += weights[r] * scaled * scaled;
      }
      ASSERT_NEAR(scores[j], sum, 1e-5 * sum);
    }
  }
}

TEST_P(CentroidScoresTest, SegmentsAreSummedApart) {
  constexpr size_t kRows = 13;
  const Matrix masses = Matrix::Random(kRows, 2500, 4);
  const std::vector<uint32_t> begin = {0, 0, 1, 8, 24, 31, 31, 700, 2400};
  Matrix sums(kRows, begin.size() - 1, 7);
  kernels().sum_segments({.masses = masses, .begin = begin, .sums = sums.rows});
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t i = 0; i + 1 < begin.size(); ++i) {
      double sum = 0;
      for (size_t j = begin[i]; j < begin[i + 1]; ++j) sum += masses[r][j];
      EXPECT_NEAR(sums[r][i], sum, 1e-4);
    }
  }
}

// Groups of a few clusters, whose rows are summed together, and groups of none.
TEST_P(CentroidScoresTest, ShortSegmentsOfAnyNumberOfRows) {
  std::vector<uint32_t> begin = {0};
  for (uint32_t i = 0; begin.back() < 400; ++i) begin.push_back(begin.back() + i * 7 % 19);
  for (size_t rows = 1; rows <= 9; ++rows) {
    const Matrix masses = Matrix::Random(rows, begin.back(), 5);
    Matrix sums(rows, begin.size() - 1, 7);
    kernels().sum_segments({.masses = masses, .begin = begin, .sums = sums.rows});
    for (size_t r = 0; r < rows; ++r) {
      for (size_t i = 0; i + 1 < begin.size(); ++i) {
        const double sum = std::accumulate(masses[r] + begin[i], masses[r] + begin[i + 1], 0.0);
        EXPECT_NEAR(sums[r][i], sum, 1e-5);
      }
    }
  }
}

TEST_P(CentroidScoresTest, SpreadingWritesItsColumnsAlone) {
  constexpr uint32_t kMany = 300;
  for (const size_t rows : {1, 2, 3, 4, 5, 9}) {
    const Matrix values = Matrix::Random(rows, kMany, 6);
    for (const uint32_t largest : {1, 3, 16, 90}) {  // steps from a column to the next
      std::mt19937 random(largest);
      std::vector<uint32_t> columns;
      for (uint32_t column = 0; column < kMany; column += random() % largest) {
        for (uint32_t i = random() % 30; i > 0; --i) columns.push_back(column);
        if (largest == 1) column += 1 + random() % 2;
      }
      columns.push_back(kMany - 1);
      const size_t n = columns.size();
      Matrix out(rows, n + 8, 7);
      kernels().spread_values(
          {.values = values, .columns = columns, .out = Rows<float>(out[0], rows, n, n + 8)});
      for (size_t r = 0; r < rows; ++r) {
        for (size_t t = 0; t < n; ++t) ASSERT_EQ(out[r][t], values[r][columns[t]]);
        for (size_t t = n; t < n + 8; ++t) ASSERT_EQ(out[r][t], 7);
      }
    }
  }
}

TEST_P(CentroidScoresTest, SecondOrderIsThatOfTheFormula) {
  for (const size_t n : kWidths) {
    const Matrix before = Matrix::Random(3, n, 6, 4), of_clusters = Matrix::Random(2, n, 7, 3);
    const std::vector<float> norms = {0, 0.7f, 4};
    std::vector<float> variances, log_counts;
    for (size_t j = 0; j < n; ++j) {
      variances.push_back(j % 5 == 0 ? 0 : std::fabs(of_clusters[0][j]));
      log_counts.push_back(j % 7 == 0 ? 0 : std::fabs(of_clusters[1][j]));
    }
    Matrix logits = before;
    kernels().add_second_order(
        {.logits = logits.rows, .norms = norms, .variances = variances, .log_counts = log_counts});
    for (size_t r = 0; r < 3; ++r) {
      for (size_t j = 0; j < n; ++j) {
        const double deviation = norms[r] * std::sqrt(double{variances[j]});
        const double most = std::sqrt(2 * double{log_counts[j]});
        const double added =
            deviation < most ? deviation * deviation / 2 : deviation * most - log_counts[j];
        ASSERT_NEAR(logits[r][j], before[r][j] + added, 2e-5 * (1 + std::fabs(added)));
      }
    }
  }
}

TEST_P(CentroidScoresTest, LogarithmsAreTheWayBack) {
  for (const size_t n : kWidths) {
    const Matrix logits = Matrix::Random(2, n, 8, 8);
    const std::vector<float> reference = {-5, 60};
    Matrix masses = logits;
    for (size_t j = 0; j < n; ++j) {
      masses[0][j] = std::exp(logits[0][j]);
      masses[1][j] = j % 3 == 0 ? 1e-38f : std::exp(logits[1][j]);
    }
    const Matrix before = masses;
    kernels().log_rows({.masses = masses.rows, .reference = reference});
    for (size_t r = 0; r < 2; ++r) {
      for (size_t j = 0; j < n; ++j) {
        ASSERT_NEAR(masses[r][j], reference[r] + std::log(double{before[r][j]}), 2e-5);
      }
    }
  }
}

TEST_P(CentroidScoresTest, ExponentialsOfAnything) {
  Matrix logits = Matrix::Of(1, 9, {-kInf, -1e30f, -100, -87, -1, 0, 1, 79, 1000});
  const std::vector<float> reference = {0};
  kernels().exp_rows({.logits = logits.rows, .reference = reference});
  for (size_t j = 0; j < 4; ++j) EXPECT_LE(logits[0][j], 1e-30f) << j;
  for (const auto& [j, x] : {std::pair(4, -1.0), {5, 0.0}, {6, 1.0}, {7, 79.0}, {8, 80.0}}) {
    EXPECT_NEAR(logits[0][j], std::exp(x), 1e-5 * std::exp(x));
  }
}

TEST_P(CentroidScoresTest, AnyAtLeastFindsOneLogitWhereverItIs) {
  for (const size_t n : kWidths) {
    for (size_t r = 0; r < 3; ++r) {
      for (size_t j = 0; j < n; ++j) {
        // The next row's limit is above all others' logits; beyond the last column lies what is.
        const std::vector<float> limits = {1, 5, -7};
        Matrix logits(3, n + 1);
        for (size_t row = 0; row < 3; ++row) {
          std::fill_n(logits[row], n, std::nextafter(limits[row], -kInf));
          logits[row][n] = kInf;
        }
        const Rows<const float> seen = {logits[0], 3, n, n + 1};
        ASSERT_FALSE(kernels().any_at_least({.logits = seen, .limits = limits}));
        logits[r][j] = limits[r];
        ASSERT_TRUE(kernels().any_at_least({.logits = seen, .limits = limits})) << r << " " << j;
      }
    }
  }
}

class AssignNearestTest : public KernelTest {};

TEST_P(AssignNearestTest, FindsTheLargestDotAroundVectorWidths) {
  for (const size_t k : kWidths) {
    for (const size_t n : {1, 7, 100}) {
      const Matrix points = Matrix::Random(n, 31, 1), centroids = Matrix::Random(k, 31, 2);
      std::vector<uint32_t> labels(n, 99999);
      std::vector<float> dots(n);
      RunAssign(kernels(), points, centroids, labels, dots);
      for (size_t i = 0; i < n; ++i) {
        std::vector<double> all(k);
        for (size_t j = 0; j < k; ++j) {
          for (size_t c = 0; c < 31; ++c) all[j] += double(points[i][c]) * centroids[j][c];
        }
        ASSERT_LT(labels[i], k);
        ASSERT_NEAR(dots[i], *std::max_element(all.begin(), all.end()), 1e-5);
        ASSERT_NEAR(all[labels[i]], dots[i], 1e-5);
      }
    }
  }
}

TEST_P(AssignNearestTest, EqualDotsGoToTheLowestIndex) {
  for (const size_t k : {2, 17, 64, 65, 200}) {
    const Matrix points = Matrix::Random(20, 16, 1), centroid = Matrix::Random(1, 16, 2);
    Matrix centroids(k, 16);
    for (size_t j = 0; j < k; ++j) std::copy_n(centroid[0], 16, centroids[j]);
    std::vector<uint32_t> labels(20, 7);
    std::vector<float> dots(20);
    RunAssign(kernels(), points, centroids, labels, dots);
    EXPECT_EQ(labels, std::vector<uint32_t>(20, 0)) << k;
    std::fill_n(centroids[0], 16, 0.0f);  // worse for points of a positive dot
    RunAssign(kernels(), points, centroids, labels, dots);
    for (size_t i = 0; i < 20; ++i) EXPECT_EQ(labels[i], dots[i] > 0 ? 1u : 0u) << k;
  }
}

TEST_P(AssignNearestTest, SameBitsForAnyGroupingOfPoints) {
  const Matrix points = Matrix::Random(203, 64, 1), centroids = Matrix::Random(77, 64, 2);
  std::vector<uint32_t> labels(203), part_labels(203);
  std::vector<float> dots(203), part_dots(203);
  RunAssign(kernels(), points, centroids, labels, dots);
  for (size_t i = 0; i < 203; i += 13) {
    const size_t count = std::min<size_t>(13, 203 - i);
    RunAssign(kernels(), points.rows.Slice(i, i + count), centroids,
              std::span(part_labels).subspan(i, count), std::span(part_dots).subspan(i, count));
  }
  EXPECT_EQ(labels, part_labels);
  EXPECT_TRUE(SameBits(dots.data(), part_dots.data(), 203));
}

INSTANTIATE_TEST_SUITE_P(Backends, CentroidScoresTest, testing::ValuesIn(AllRuns()), RunName);
INSTANTIATE_TEST_SUITE_P(Backends, AssignNearestTest, testing::ValuesIn(AllRuns()), RunName);

}  // namespace
}  // namespace lectern
