#include <gtest/gtest.h>

#include <cmath>

#include "index/build.h"
#include "index/kmeans.h"
#include "tests/index/faiss_gpu.h"
#include "tests/index/random_keys.h"

namespace lectern {
namespace {

using testing::OwnRows;
using testing::UnitRows;

constexpr uint64_t kPlenty = uint64_t{1} << 30;

FaissGpuPlan Plan(size_t n, size_t k, size_t d, size_t heads = 1) {
  return *PlanFaissGpu({.num_points = n, .num_centroids = k, .dim = d, .num_heads = heads},
                       kPlenty * heads);
}

// Without FAISS on a GPU the tests say what is missing.
class FaissGpuTest : public ::testing::Test {
 protected:
  void Make(const FaissGpuPlan& plan) {
    auto made = MakeFaissGpuAssigners(0, plan);
    if (!made.ok()) {
      EXPECT_EQ(made.status().code(), Code::kInvalidArgument) << made.status().message();
      EXPECT_EQ(made.status().param(), "device");
      GTEST_SKIP() << "NOT TESTED ON A GPU: " << made.status().message();
    }
    assigners_ = std::move(made).value();
  }
  void ExpectAssigns(const OwnRows& points, const OwnRows& centroids) {
    Assigner& assigner = *assigners_.front();
    std::vector<uint32_t> expected(points.num_rows), labels(points.num_rows);
    std::vector<float> expected_dots(points.num_rows), dots(points.num_rows);
    AssignNearestScalar({points, centroids, expected, expected_dots, {}});
    const Status set = assigner.SetCentroids(centroids);
    ASSERT_TRUE(set.ok()) << set.message();
    const Status assigned = assigner.Assign(points, labels, dots);
    ASSERT_TRUE(assigned.ok()) << assigned.message();
    for (size_t i = 0; i < points.num_rows; ++i) {
      ASSERT_NEAR(dots[i], expected_dots[i], 1e-5);
      if (labels[i] == expected[i]) continue;
      ASSERT_LT(labels[i], centroids.num_rows);
      double dot = 0;
      for (size_t c = 0; c < points.num_cols; ++c) {
        dot += double{points[i][c]} * centroids[labels[i]][c];
      }
      ASSERT_NEAR(dot, expected_dots[i], 1e-5);
    }
  }
  Assigners assigners_;
};

TEST_F(FaissGpuTest, AssignsAsTheDefinition) {
  Make(Plan(3000, 70, 64));
  if (IsSkipped()) return;
  const OwnRows points = UnitRows(3000, 64, 1), others = UnitRows(500, 64, 2);
  assigners_.front()->Hold(points);
  for (const size_t k : {70, 1, 33}) ExpectAssigns(points, UnitRows(k, 64, 3));
  ExpectAssigns(others, UnitRows(20, 64, 4));
}

TEST_F(FaissGpuTest, PointsThatDoNotFitAreAssignedInParts) {
  FaissGpuPlan plan = Plan(3000, 70, 64);
  plan.assign.holds_points = false;
  plan.assign.block_rows = 700;
  Make(plan);
  if (IsSkipped()) return;
  const OwnRows points = UnitRows(3000, 64, 5);
  assigners_.front()->Hold(points);
  ExpectAssigns(points, UnitRows(70, 64, 6));
}

TEST_F(FaissGpuTest, KMeansReachesTheObjectiveOfTheCpu) {
  Make(Plan(5000, 100, 32, 2));
  if (IsSkipped()) return;
  EXPECT_EQ(assigners_.size(), 2u);
  const OwnRows points = UnitRows(5000, 32, 7);
  const auto objective = [&](Assigner* assigner) {
    KMeansOptions options{.num_clusters = 100};
    options.assigner = assigner;
    const auto labels = KMeans(*DefaultBackend(), points, options);
    EXPECT_TRUE(labels.ok()) << labels.status().message();
    std::vector<double> sums(100 * 32);
    for (size_t i = 0; i < 5000; ++i) {
      for (size_t c = 0; c < 32; ++c) sums[(*labels)[i] * 32 + c] += points[i][c];
    }
    double lengths = 0;
    for (size_t j = 0; j < 100; ++j) {
      double squares = 0;
      for (size_t c = 0; c < 32; ++c) squares += sums[j * 32 + c] * sums[j * 32 + c];
      lengths += std::sqrt(squares);
    }
    return lengths;
  };
  const double expected = objective(nullptr);
  EXPECT_NEAR(objective(assigners_[0].get()), expected, 0.005 * expected);
  EXPECT_NEAR(objective(assigners_[1].get()), expected, 0.005 * expected);
}

TEST_F(FaissGpuTest, AGpuThatIsNotThereIsNamed) {
  const auto made = MakeFaissGpuAssigners(99, Plan(100, 10, 16));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(made.status().param(), "device");
  EXPECT_NE(made.status().message().find("FAISS"), std::string::npos) << made.status().message();
}

}  // namespace
}  // namespace lectern
