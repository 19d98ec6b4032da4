#include "index/assign_plan.h"

#include <gtest/gtest.h>

#include "index/build.h"

namespace lectern {
namespace {

constexpr AssignShape kHeads = {
    .num_points = 131072, .num_centroids = 2654, .dim = 128, .num_heads = 16};

AssignPlan Plan(const AssignShape& shape, uint64_t bytes) {
  const auto plan = PlanCudaAssign(shape, bytes);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.ok() ? *plan : AssignPlan();
}

TEST(AssignPlanTest, AsManyHeadsAsFitAndAsAreWanted) {
  const uint64_t one = Plan(kHeads, uint64_t{1} << 40).head_bytes;
  EXPECT_GE(one, uint64_t{131072 + 2654} * 128 * 4);  // keys and centroids in float
  EXPECT_LE(one, uint64_t{512} << 20);
  for (const uint64_t heads : {1, 2, 5, 15, 16}) {
    const AssignPlan plan = Plan(kHeads, heads * one);
    EXPECT_EQ(plan.num_heads, heads);
    EXPECT_EQ(plan.head_bytes, one);
    EXPECT_EQ(plan.total_bytes(), heads * one);
    EXPECT_TRUE(plan.holds_points);
    if (heads > 1) {
      EXPECT_EQ(Plan(kHeads, heads * one - 1).num_heads, heads - 1);
    }
  }
  EXPECT_EQ(Plan(kHeads, 100 * one).num_heads, 16u);
  EXPECT_EQ(Plan({.num_points = 10, .num_centroids = 2, .dim = 8, .num_heads = 0}, one).num_heads,
            1u);
}

TEST(AssignPlanTest, OneHeadInPartsWhereItDoesNotFitWhole) {
  const AssignPlan whole = Plan(kHeads, uint64_t{1} << 40);
  const AssignPlan part = Plan(kHeads, whole.head_bytes - 1);
  EXPECT_EQ(part.num_heads, 1u);
  EXPECT_FALSE(part.holds_points);
  EXPECT_EQ(part.total_bytes(), whole.head_bytes - 1);
  EXPECT_EQ(part.rows_bytes, whole.rows_bytes - 1);
  EXPECT_EQ(part.block_rows, kMostAssignRows);
  // Blocks shrink with what there is.
  const uint64_t few = AssignRowsBytes(5000, kHeads.num_centroids, kHeads.dim);
  const AssignPlan least = Plan(kHeads, whole.head_bytes - whole.rows_bytes + few);
  EXPECT_EQ(least.rows_bytes, few);
  EXPECT_EQ(least.block_rows, 5000u);
}

TEST(AssignPlanTest, TooLittleIsRefusedWithTheBytes) {
  uint64_t fits = uint64_t{1} << 40, too_few = 0;
  while (fits - too_few > 1) {
    const uint64_t middle = (fits + too_few) / 2;
    (PlanCudaAssign(kHeads, middle).ok() ? fits : too_few) = middle;
  }
  EXPECT_GE(Plan(kHeads, fits).rows_bytes,
            AssignRowsBytes(kLeastAssignRows, kHeads.num_centroids, kHeads.dim));
  const Status status = PlanCudaAssign(kHeads, too_few).status();
  EXPECT_EQ(status.code(), Code::kOutOfMemory);
  EXPECT_EQ(status.param(), "device_memory");
  EXPECT_NE(status.message().find(" " + std::to_string(fits) + " bytes"), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find(" " + std::to_string(too_few) + " may"), std::string::npos)
      << status.message();
  EXPECT_EQ(PlanCudaAssign(kHeads, 0).status().code(), Code::kOutOfMemory);
}

TEST(MostCentroidsTest, CountsTheFinestClustersAndTheirRounding) {
  EXPECT_EQ(MostCentroids(1000, {0.005, 0.02}), 21u);
  EXPECT_EQ(MostCentroids(131072, {0.05}), 6553u + 32 + 1);
}

}  // namespace
}  // namespace lectern
