#include "index/cuda_assigner.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "index/build.h"
#include "index/kmeans.h"
#include "tests/index/random_keys.h"
#include "tests/kernels/cuda/cuda_case.h"

namespace lectern {
namespace {

using testing::Blobs;
using testing::NormalRows;
using testing::OwnRows;
using testing::UnitRows;

constexpr uint64_t kPlenty = uint64_t{1} << 30;

struct Assigned {
  explicit Assigned(size_t n) : labels(n), dots(n) {}
  std::vector<uint32_t> labels;
  std::vector<float> dots;
};

Assigned Scalar(const OwnRows& points, const OwnRows& centroids) {
  Assigned assigned(points.num_rows);
  AssignNearestScalar({points, centroids, assigned.labels, assigned.dots, {}});
  return assigned;
}

double Dot(const float* a, const float* b, size_t d) {
  double dot = 0;
  for (size_t c = 0; c < d; ++c) dot += double{a[c]} * b[c];
  return dot;
}

// The same products, and the same labels but where another centroid is as near but for rounding.
void ExpectSame(const Assigned& got, const Assigned& expected, const OwnRows& points,
                const OwnRows& centroids) {
  for (size_t i = 0; i < points.num_rows; ++i) {
    ASSERT_NEAR(got.dots[i], expected.dots[i], 1e-5) << i;
    if (got.labels[i] == expected.labels[i]) continue;
    ASSERT_LT(got.labels[i], centroids.num_rows);
    ASSERT_NEAR(Dot(points[i], centroids[got.labels[i]], points.num_cols), expected.dots[i], 1e-5);
  }
}

// The objective of spherical K-means, which it makes large: the mean product of points with the
// directions of their clusters.
double Objective(const OwnRows& points, const std::vector<uint32_t>& labels) {
  const size_t k = 1 + *std::max_element(labels.begin(), labels.end());
  OwnRows sums(k, points.num_cols);
  for (size_t i = 0; i < points.num_rows; ++i) {
    for (size_t c = 0; c < points.num_cols; ++c) sums[labels[i]][c] += points[i][c];
  }
  double lengths = 0;  // of a cluster's points with their direction: that of their sum
  for (size_t j = 0; j < k; ++j) lengths += std::sqrt(Dot(sums[j], sums[j], points.num_cols));
  return lengths / static_cast<double>(points.num_rows);
}

// Bytes that went to the device, by tables made by Counting.
std::atomic<uint64_t> copied_bytes = 0;
CudaStatus (*copy_to_device)(CudaStreamHandle*, void*, const void*, size_t) = nullptr;

CudaKernels Counting(const CudaKernels& kernels) {
  CudaKernels counting = kernels;
  copy_to_device = kernels.copy_to_device;
  counting.copy_to_device = [](CudaStreamHandle* stream, void* to, const void* from, size_t bytes) {
    copied_bytes += bytes;
    return copy_to_device(stream, to, from, bytes);
  };
  return counting;
}

class CudaAssignerTest : public CudaTest {
 protected:
  Result<Assigners> Make(const AssignShape& shape, uint64_t bytes = kPlenty) {
    LECTERN_ASSIGN(const AssignPlan plan, PlanCudaAssign(shape, bytes));
    return MakeCudaAssigners(stream_.kernels(), stream_.device().index, plan);
  }
  std::unique_ptr<Assigner> MakeOne(size_t n, size_t k, size_t d) {
    auto made = Make({.num_points = n, .num_centroids = k, .dim = d});
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? std::move(made->front()) : nullptr;
  }
  static Assigned Assign(Assigner& assigner, const OwnRows& points, const OwnRows& centroids) {
    Assigned assigned(points.num_rows);
    EXPECT_TRUE(assigner.SetCentroids(centroids).ok());
    const Status status = assigner.Assign(points, assigned.labels, assigned.dots);
    EXPECT_TRUE(status.ok()) << status.message();
    return assigned;
  }
  // So few device bytes that only `rows` points fit beside the centroids.
  static AssignPlan PartPlan(size_t rows, size_t k, size_t d) {
    return {.dim = d,
            .num_heads = 1,
            .block_rows = rows,
            .holds_points = false,
            .head_bytes = kPlenty,
            .rows_bytes = AssignRowsBytes(rows, k, d)};
  }
};

TEST_P(CudaAssignerTest, AssignsAsTheDefinition) {
  for (const auto& [n, k, d] : {std::tuple(1, 1, 1), {300, 37, 24}, {129, 70, 65}, {64, 3, 128}}) {
    const OwnRows points = UnitRows(n, d, 1), centroids = UnitRows(k, d, 2);
    const auto assigner = MakeOne(n, k, d);
    ASSERT_TRUE(assigner);
    assigner->Hold(points);
    ExpectSame(Assign(*assigner, points, centroids), Scalar(points, centroids), points, centroids);
  }
}

TEST_P(CudaAssignerTest, EqualCentroidsGiveTheLowestLabel) {
  const OwnRows points = UnitRows(100, 16, 1);
  OwnRows centroids = UnitRows(90, 16, 2);
  for (size_t j = 45; j < 90; ++j) std::copy_n(centroids[j - 45], 16, centroids[j]);
  const auto assigner = MakeOne(100, 90, 16);
  ASSERT_TRUE(assigner);
  for (const uint32_t label : Assign(*assigner, points, centroids).labels) EXPECT_LT(label, 45u);
}

TEST_P(CudaAssignerTest, HeldPointsAreCopiedOnce) {
  constexpr size_t kPoints = 500, kCentroids = 9, kDim = 16;
  const CudaKernels counting = Counting(stream_.kernels());
  const auto plan =
      PlanCudaAssign({.num_points = kPoints, .num_centroids = kCentroids, .dim = kDim}, kPlenty);
  auto made = MakeCudaAssigners(counting, stream_.device().index, *plan);
  ASSERT_TRUE(made.ok()) << made.status().message();
  Assigner& assigner = *made->front();
  const OwnRows points = UnitRows(kPoints, kDim, 3), others = UnitRows(100, kDim, 4);
  copied_bytes = 0;
  assigner.Hold(points);
  uint64_t expected = kPoints * kDim * 4;
  for (const size_t k : {9, 9, 5, 1, 8, 9}) {
    const OwnRows centroids = UnitRows(k, kDim, 13);
    ExpectSame(Assign(assigner, points, centroids), Scalar(points, centroids), points, centroids);
    expected += k * kDim * 4;
    EXPECT_EQ(copied_bytes, expected);
  }
  // Part of them is there too.
  Assigned part(30);
  ASSERT_TRUE(
      assigner.Assign(Rows<const float>(points).Slice(470, 500), part.labels, part.dots).ok());
  EXPECT_EQ(copied_bytes, expected);
  const OwnRows centroids = UnitRows(kCentroids, kDim, 13);
  const Assigned all = Scalar(points, centroids);
  EXPECT_TRUE(std::equal(part.labels.begin(), part.labels.end(), all.labels.begin() + 470));
  // Others take their place, and what is held comes back by itself.
  ExpectSame(Assign(assigner, others, centroids), Scalar(others, centroids), others, centroids);
  ExpectSame(Assign(assigner, points, centroids), all, points, centroids);
  expected += (100 + kPoints + 2 * kCentroids) * kDim * 4;
  EXPECT_EQ(copied_bytes, expected);
}

TEST_P(CudaAssignerTest, WhatIsHeldAnewIsReadAnewThoughItLiesInTheSamePlace) {
  OwnRows points = UnitRows(100, 16, 5);
  const OwnRows centroids = UnitRows(7, 16, 6);
  const auto assigner = MakeOne(100, 7, 16);
  ASSERT_TRUE(assigner);
  for (const unsigned seed : {5, 6, 7}) {
    points.data = UnitRows(100, 16, seed).data;
    assigner->Hold(points);
    ExpectSame(Assign(*assigner, points, centroids), Scalar(points, centroids), points, centroids);
  }
}

TEST_P(CudaAssignerTest, PointsThatDoNotFitAreAssignedInParts) {
  const OwnRows points = UnitRows(300, 16, 7);
  auto made = MakeCudaAssigners(stream_.kernels(), stream_.device().index, PartPlan(70, 20, 16));
  ASSERT_TRUE(made.ok()) << made.status().message();
  Assigner& assigner = *made->front();
  assigner.Hold(points);
  // More centroids than planned take the room of points.
  for (const size_t k : {20, 60, 5}) {
    const OwnRows centroids = UnitRows(k, 16, 8);
    ExpectSame(Assign(assigner, points, centroids), Scalar(points, centroids), points, centroids);
  }
}

TEST_P(CudaAssignerTest, TooManyCentroidsAreRefusedWithTheBytesAndFewerWorkAgain) {
  const OwnRows points = UnitRows(50, 16, 9), centroids = UnitRows(10, 16, 10);
  auto made = MakeCudaAssigners(stream_.kernels(), stream_.device().index, PartPlan(40, 10, 16));
  ASSERT_TRUE(made.ok()) << made.status().message();
  Assigner& assigner = *made->front();
  assigner.Hold(points);
  const Status status = assigner.SetCentroids(UnitRows(2000, 16, 11));
  EXPECT_EQ(status.code(), Code::kOutOfMemory);
  EXPECT_EQ(status.param(), "device_memory");
  EXPECT_NE(status.message().find(" bytes of the GPU's memory"), std::string::npos)
      << status.message();
  ExpectSame(Assign(assigner, points, centroids), Scalar(points, centroids), points, centroids);

  KMeansOptions options{.num_clusters = 300, .assigner = &assigner};
  const auto labels = KMeans(*DefaultBackend(), UnitRows(400, 16, 12), options);
  ASSERT_FALSE(labels.ok());
  EXPECT_EQ(labels.status().code(), Code::kOutOfMemory);
  EXPECT_EQ(labels.status().message().substr(0, 13), "300 centroids");
  options.num_clusters = 10;
  EXPECT_TRUE(KMeans(*DefaultBackend(), points, options).ok());
}

TEST_P(CudaAssignerTest, KMeansFindsBlobsAsTheCpuDoes) {
  OwnRows points = Blobs(600, 32, 6, 3);
  Normalize(points);
  const auto assigner = MakeOne(600, 18, 32);
  ASSERT_TRUE(assigner);
  KMeansOptions options{.num_clusters = 18};
  const auto expected = KMeans(*DefaultBackend(), points, options);
  options.assigner = assigner.get();
  const auto got = KMeans(*DefaultBackend(), points, options);
  ASSERT_TRUE(got.ok()) << got.status().message();
  for (size_t i = 0; i < 600; ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (i % 6 != j % 6) {
        ASSERT_NE((*got)[i], (*got)[j]) << "one cluster of two blobs";
      }
    }
  }
  EXPECT_NEAR(Objective(points, *got), Objective(points, *expected), 1e-3);
}

// Rounding may send keys between two centroids to another one, and then all goes another way, as
// far and no farther.
TEST_P(CudaAssignerTest, KMeansReachesTheObjectiveOfTheCpu) {
  const OwnRows points = UnitRows(1000, 16, 14);
  const auto assigner = MakeOne(1000, 30, 16);
  ASSERT_TRUE(assigner);
  for (const uint64_t seed : {1, 2}) {
    KMeansOptions options{.num_clusters = 30, .seed = seed};
    const auto expected = KMeans(*FindBackend("scalar"), points, options);
    options.assigner = assigner.get();
    const auto got = KMeans(*FindBackend("scalar"), points, options);
    ASSERT_TRUE(got.ok()) << got.status().message();
    const double objective = Objective(points, *expected);
    EXPECT_NEAR(Objective(points, *got), objective, 0.005 * objective);
    EXPECT_EQ(*KMeans(*FindBackend("scalar"), points, options), *got);  // the same bits again
  }
}

TEST_P(CudaAssignerTest, HeadsAtTheSameTimeGetTheLabelsThatTheyGetAlone) {
  constexpr size_t kHeads = 4, kPoints = 400, kDim = 16;
  constexpr uint32_t kClusters = 12;
  auto made =
      Make({.num_points = kPoints, .num_centroids = kClusters, .dim = kDim, .num_heads = kHeads});
  ASSERT_TRUE(made.ok()) << made.status().message();
  ASSERT_EQ(made->size(), kHeads);
  std::vector<std::vector<uint32_t>> alone(kHeads), together(kHeads);
  const auto cluster = [&](size_t head, Assigner& assigner) {
    const auto labels =
        KMeans(*DefaultBackend(), UnitRows(kPoints, kDim, static_cast<unsigned>(head)),
               {.num_clusters = kClusters, .num_iterations = 4, .assigner = &assigner});
    return labels.ok() ? *labels : std::vector<uint32_t>();
  };
  for (size_t head = 0; head < kHeads; ++head) alone[head] = cluster(head, *made->front());
  std::vector<std::thread> threads;
  for (size_t head = 0; head < kHeads; ++head) {
    threads.emplace_back([&, head] { together[head] = cluster(head, *(*made)[head]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t head = 0; head < kHeads; ++head) {
    EXPECT_EQ(alone[head].size(), kPoints);
    EXPECT_EQ(together[head], alone[head]) << head;
  }
}

TEST_P(CudaAssignerTest, CancelEndsItWithinOneBlock) {
  const OwnRows points = UnitRows(200, 16, 15);
  const auto assigner = MakeOne(200, 8, 16);
  ASSERT_TRUE(assigner);
  for (const int allowed : {0, 3}) {
    int polls = 0;
    const auto labels = KMeans(*DefaultBackend(), points,
                               {.num_clusters = 8,
                                .is_cancelled = [&] { return ++polls > allowed; },
                                .assigner = assigner.get()});
    ASSERT_FALSE(labels.ok());
    EXPECT_EQ(labels.status().code(), Code::kCancelled);
    EXPECT_EQ(polls, allowed + 1);
  }
  EXPECT_TRUE(
      KMeans(*DefaultBackend(), points, {.num_clusters = 8, .assigner = assigner.get()}).ok());
}

// Takes long, and another order of threads would show no more.
class CudaTreeTest : public CudaAssignerTest {};
INSTANTIATE_TEST_SUITE_P(Machines, CudaTreeTest,
                         ::testing::Values(CudaMachine::kEmulated, CudaMachine::kGpu),
                         CudaMachineName);

// Blocks, refinement with all clusters and all. Its leaves are as good as those of the CPU's beam.
TEST_P(CudaTreeTest, ATreeIsAsGoodAsTheCpus) {
  constexpr size_t kKeys = kFlatKeys + 200, kDim = 8;
  const OwnRows keys = NormalRows(kKeys, kDim, 16);
  OwnRows unit = keys;
  Normalize(unit);
  BuildOptions options{.num_iterations = 3, .row_codes = false};
  const auto assigner = MakeOne(kKeys, MostCentroids(kKeys, options.fractions), kDim);
  ASSERT_TRUE(assigner);
  const auto objective = [&] {
    const auto tree = BuildTree(*DefaultBackend(), keys, keys, options);
    EXPECT_TRUE(tree.ok()) << tree.status().message();
    std::vector<uint32_t> labels(kKeys, UINT32_MAX);
    const std::vector<uint32_t>& begin = tree->levels.back().children;
    for (uint32_t j = 0; j + 1 < begin.size(); ++j) {
      for (uint32_t row = begin[j]; row < begin[j + 1]; ++row) labels[tree->order[row]] = j;
    }
    EXPECT_EQ(std::count(labels.begin(), labels.end(), UINT32_MAX), 0);
    return Objective(unit, labels);
  };
  const double expected = objective();
  options.assigner = assigner.get();
  EXPECT_GT(objective(), 0.995 * expected);

  int polls = 0;
  options.is_cancelled = [&] { return ++polls > 2; };
  const auto cancelled = BuildTree(*DefaultBackend(), keys, keys, options);
  EXPECT_EQ(cancelled.status().code(), Code::kCancelled);
}

LECTERN_CUDA_TESTS(CudaAssignerTest);

// ---- A device with little memory

class CudaAssignerMemoryTest : public ::testing::Test {
 protected:
  void TearDown() override { cuda_emulation::SetMachine({}); }
};

TEST_F(CudaAssignerMemoryTest, FewerHeadsWhereThereIsLessThanPlannedThenTheBytes) {
  const auto plan =
      PlanCudaAssign({.num_points = 1000, .num_centroids = 20, .dim = 16, .num_heads = 5}, kPlenty);
  ASSERT_TRUE(plan.ok());
  const uint64_t before = cuda_emulation::AllocatedBytes();
  for (const size_t fit : {5, 3, 1}) {
    cuda_emulation::SetMachine({.memory_bytes = before + fit * plan->rows_bytes + 100});
    const auto made = MakeCudaAssigners(*lectern_cuda_kernels(), 0, *plan);
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ(made->size(), fit);
    EXPECT_LE(cuda_emulation::AllocatedBytes() - before, fit * plan->rows_bytes);
  }
  EXPECT_EQ(cuda_emulation::AllocatedBytes(), before);
  cuda_emulation::SetMachine({.memory_bytes = before + plan->rows_bytes - 8});
  const Status status = MakeCudaAssigners(*lectern_cuda_kernels(), 0, *plan).status();
  EXPECT_EQ(status.code(), Code::kOutOfMemory);
  EXPECT_EQ(status.param(), "device_memory");
  EXPECT_NE(status.message().find(std::to_string(plan->head_bytes) + " bytes"), std::string::npos)
      << status.message();
  cuda_emulation::SetMachine({});
  EXPECT_EQ(MakeCudaAssigners(*lectern_cuda_kernels(), 0, *plan)->size(), 5u);
}

TEST_F(CudaAssignerMemoryTest, AMachineWithoutAGpuIsNamed) {
  cuda_emulation::SetMachine({.num_devices = 0});
  const auto plan = PlanCudaAssign({.num_points = 10, .num_centroids = 2, .dim = 8}, kPlenty);
  const Status status = MakeCudaAssigners(*lectern_cuda_kernels(), 0, *plan).status();
  EXPECT_EQ(status.code(), Code::kIoError);
  EXPECT_EQ(status.message().substr(0, 5), "CUDA:") << status.message();
}

}  // namespace
}  // namespace lectern
