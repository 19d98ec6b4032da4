#include "kernels/cuda/clustering/assign.h"

#include <cmath>

#include "kernels/centroid_scores.h"
#include "tests/kernels/cuda/cuda_case.h"

namespace lectern {
namespace {

class CudaAssignTest : public CudaTest {
 protected:
  struct Assigned {
    std::vector<uint32_t> labels;
    std::vector<float> dots;
  };
  Assigned Run(const Matrix& points, const Matrix& centroids) {
    const auto p = Upload(points.data), c = Upload(centroids.data);
    const auto n = static_cast<uint32_t>(points.rows.num_rows);
    const auto labels = Make<uint32_t>(n);
    const auto dots = Make<float>(n);
    Expect(CudaAssign(stream_, {.points = p.data(),
                                .centroids = c.data(),
                                .num_points = n,
                                .num_centroids = static_cast<uint32_t>(centroids.rows.num_rows),
                                .num_cols = static_cast<uint32_t>(points.rows.num_cols),
                                .labels = labels.data(),
                                .dots = dots.data()}));
    return {Download(labels), Download(dots)};
  }
  static Assigned Scalar(const Matrix& points, const Matrix& centroids) {
    Assigned result{std::vector<uint32_t>(points.rows.num_rows),
                    std::vector<float>(points.rows.num_rows)};
    AssignNearestScalar({points, centroids, result.labels, result.dots, {}});
    return result;
  }
};

TEST_P(CudaAssignTest, MatchesScalarAroundTileWidths) {
  const auto check = [&](size_t num_points, size_t num_centroids, size_t num_cols) {
    SCOPED_TRACE(testing::Message() << num_points << " x " << num_centroids << " x " << num_cols);
    const Matrix points = Matrix::Random(num_points, num_cols, 1);
    const Matrix centroids = Matrix::Random(num_centroids, num_cols, 2);
    const Assigned expected = Scalar(points, centroids), got = Run(points, centroids);
    for (size_t i = 0; i < num_points; ++i) {
      ASSERT_NEAR(got.dots[i], expected.dots[i], 1e-5 * static_cast<double>(num_cols));
      if (got.labels[i] == expected.labels[i]) continue;
      double dot = 0;  // another may be as near, but for rounding
      for (size_t c = 0; c < num_cols; ++c) {
        dot += double{points[i][c]} * centroids[got.labels[i]][c];
      }
      ASSERT_NEAR(dot, expected.dots[i], 1e-5 * static_cast<double>(num_cols));
    }
  };
  check(1, 1, 1);
  check(65, 7, 64);
  check(64, 64, 16);
  check(70, 130, 33);
  check(3, 200, 128);
}

TEST_P(CudaAssignTest, EqualProductsTakeTheLowestLabel) {
  const Matrix points(70, 20, 1), centroids(140, 20, 0.5f);
  const Assigned got = Run(points, centroids);
  for (size_t i = 0; i < 70; ++i) {
    EXPECT_EQ(got.labels[i], 0u);
    EXPECT_EQ(got.dots[i], 10.0f);
  }
}

TEST_P(CudaAssignTest, NanNeverWins) {
  Matrix points(2, 8, 1), centroids(100, 8, -1);
  centroids[3][5] = NAN;
  centroids[70][0] = 4;
  for (size_t c = 0; c < 8; ++c) points[1][c] = NAN;
  const Assigned got = Run(points, centroids);
  EXPECT_EQ(got.labels[0], 70u);
  EXPECT_EQ(got.labels[1], 0u);
  EXPECT_EQ(got.dots[1], -kInf);
}

TEST_P(CudaAssignTest, RefusesWhatItCannotTake) {
  const auto floats = Make<float>(64);
  const auto labels = Make<uint32_t>(64);
  CudaAssignArgs args{floats.data(), floats.data(), 2, 2, 8, labels.data(), floats.data()};
  args.num_centroids = 0;
  EXPECT_EQ(CudaAssign(stream_, args).code, CudaCode::kInvalidArgument);
  args.num_centroids = 2;
  args.dots = nullptr;
  EXPECT_EQ(CudaAssign(stream_, args).code, CudaCode::kInvalidArgument);
  args.num_points = 0;
  EXPECT_TRUE(CudaAssign(stream_, args).ok());
}

LECTERN_CUDA_TESTS(CudaAssignTest);

}  // namespace
}  // namespace lectern
