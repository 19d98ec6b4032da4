#include "index/kmeans.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <limits>
#include <map>
#include <set>
#include <thread>

#include "kernels/thread_pool.h"
#include "tests/index/random_keys.h"

namespace lectern {
namespace {

using testing::Blobs;
using testing::NormalRows;
using testing::OwnRows;

std::vector<uint32_t> Labels(const OwnRows& points, uint32_t num_clusters) {
  KMeansOptions options;
  options.num_clusters = num_clusters;
  auto labels = KMeans(*DefaultBackend(), points, options);
  EXPECT_TRUE(labels.ok()) << labels.status().message();
  return labels.ok() ? *labels : std::vector<uint32_t>();
}

OwnRows UnitRows(size_t n, size_t d, unsigned seed) {
  OwnRows rows = NormalRows(n, d, seed);
  Normalize(rows);
  return rows;
}

TEST(KMeansTest, GivesEveryPointALabelBelowTheNumberOfClusters) {
  for (const size_t n : {3, 17, 200, 5000}) {  // 5000: more than one block of assignments
    for (const uint32_t k : {1u, 2u, 16u}) {
      const auto labels = Labels(UnitRows(n, 24, 1), k);
      ASSERT_EQ(labels.size(), n);
      std::set<uint32_t> used;
      for (const uint32_t label : labels) {
        ASSERT_LT(label, k);
        used.insert(label);
      }
      if (n >= 200) {
        EXPECT_GT(used.size(), k / 2) << n << " points in " << k;
      }
    }
  }
}

TEST(KMeansTest, NoMorePointsThanClustersEachIsItsOwn) {
  for (const size_t n : {1, 5, 8}) {
    const auto labels = Labels(UnitRows(n, 16, 2), 8);
    ASSERT_EQ(labels.size(), n);
    for (uint32_t i = 0; i < n; ++i) EXPECT_EQ(labels[i], i);
  }
}

TEST(KMeansTest, FindsSeparatedBlobs) {
  constexpr size_t kBlobs = 6;
  OwnRows points = Blobs(1200, 32, kBlobs, 3);
  Normalize(points);
  const auto labels = Labels(points, 3 * kBlobs);  // spare clusters, against a bad start
  std::map<uint32_t, size_t> blob_of;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto [at, is_new] = blob_of.try_emplace(labels[i], i % kBlobs);
    ASSERT_EQ(at->second, i % kBlobs) << "label " << labels[i] << " holds two blobs";
  }
}

// The objective of spherical K-means: assignments beat random ones, and every point is with the
// mean direction that is nearest to it, nearly (ten iterations do not converge fully).
TEST(KMeansTest, PointsAreWithTheirNearestMean) {
  constexpr size_t kPoints = 3000, kDim = 16, kClusters = 20;
  const OwnRows points = UnitRows(kPoints, kDim, 4);
  const auto labels = Labels(points, kClusters);
  OwnRows means(kClusters, kDim);
  for (size_t i = 0; i < kPoints; ++i) {
    for (size_t c = 0; c < kDim; ++c) means[labels[i]][c] += points[i][c];
  }
  Normalize(means);
  size_t nearest = 0;
  for (size_t i = 0; i < kPoints; ++i) {
    size_t best = 0;
    double best_dot = -2;
    for (size_t j = 0; j < kClusters; ++j) {
      double dot = 0;
      for (size_t c = 0; c < kDim; ++c) dot += double{points[i][c]} * means[j][c];
      if (dot > best_dot) {
        best_dot = dot;
        best = j;
      }
    }
    nearest += best == labels[i];
  }
  EXPECT_GT(nearest, kPoints * 9 / 10);
}

TEST(KMeansTest, SameLabelsOnRepeatAndFromManyThreadsAtOnce) {
  const OwnRows points = UnitRows(4000, 32, 5);
  const auto expected = Labels(points, 50);
  EXPECT_EQ(Labels(points, 50), expected);
  std::vector<std::vector<uint32_t>> labels(8);
  ThreadPool threads(4);
  threads.ParallelFor(labels.size(),
                      [&](size_t item, size_t) { labels[item] = Labels(points, 50); });
  for (const auto& some : labels) EXPECT_EQ(some, expected);
}

TEST(KMeansTest, AnotherSeedGivesOtherLabels) {  // so that the repeats above say something
  const OwnRows points = UnitRows(2000, 32, 6);
  KMeansOptions options;
  options.num_clusters = 40;
  options.seed = 99;
  EXPECT_NE(*KMeans(*DefaultBackend(), points, options), Labels(points, 40));
}

TEST(KMeansTest, CancelEndsItWithinOneBlock) {
  const OwnRows points = UnitRows(3 * 4096, 16, 7);
  for (const int allowed : {0, 1, 5, 20}) {
    int polls = 0;
    KMeansOptions options;
    options.num_clusters = 16;
    options.is_cancelled = [&] { return ++polls > allowed; };
    const auto labels = KMeans(*DefaultBackend(), points, options);
    ASSERT_FALSE(labels.ok());
    EXPECT_EQ(labels.status().code(), Code::kCancelled);
    EXPECT_EQ(polls, allowed + 1);
  }
}

TEST(KMeansTest, CallersOpenMpSettingIsUnchanged) {
  const OwnRows points = UnitRows(600, 16, 8);
  for (const int before : {3, 7}) {
    omp_set_num_threads(before);
    Labels(points, 10);
    EXPECT_EQ(omp_get_max_threads(), before);
    KMeansOptions options;
    options.num_clusters = 10;
    options.is_cancelled = [] {
      EXPECT_EQ(omp_get_max_threads(), 1);  // FAISS's own loops start no thread
      return true;
    };
    EXPECT_FALSE(KMeans(*DefaultBackend(), points, options).ok());
    EXPECT_EQ(omp_get_max_threads(), before);
  }
  std::thread([&] {  // each thread has its own
    omp_set_num_threads(2);
    Labels(points, 10);
    EXPECT_EQ(omp_get_max_threads(), 2);
  })
      .join();
  EXPECT_EQ(omp_get_max_threads(), 7);
}

TEST(KMeansTest, NotANumberIsAnErrorNotACrash) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    OwnRows points = UnitRows(500, 16, 9);
    points[123][4] = bad;
    KMeansOptions options;
    options.num_clusters = 10;
    const auto labels = KMeans(*DefaultBackend(), points, options);
    ASSERT_FALSE(labels.ok());
    EXPECT_EQ(labels.status().code(), Code::kInternal);
    EXPECT_FALSE(labels.status().message().empty());
  }
}

TEST(KMeansTest, EqualPointsAndZerosWork) {
  OwnRows zeros(300, 16), same(300, 16);
  for (size_t i = 0; i < 300; ++i) same[i][3] = 1;
  for (const OwnRows* points : {&zeros, &same}) {
    const auto labels = Labels(*points, 7);
    ASSERT_EQ(labels.size(), 300u);
    for (const uint32_t label : labels) EXPECT_EQ(label, labels[0]);  // nothing parts equal points
    EXPECT_LT(labels[0], 7u);
  }
}

TEST(KMeansTest, EveryBackendClustersAlike) {  // on blobs, where rounding decides nothing
  OwnRows points = Blobs(600, 32, 4, 10);
  Normalize(points);
  KMeansOptions options;
  options.num_clusters = 4;
  const auto expected = *KMeans(*DefaultBackend(), points, options);
  for (const Backend& backend : AvailableBackends()) {
    EXPECT_EQ(*KMeans(backend, points, options), expected) << backend.name;
  }
}

TEST(KMeansTest, SaysWhichFaiss) {
  EXPECT_GE(std::string(FaissVersion()).size(), 5u);
  EXPECT_TRUE(std::isdigit(static_cast<unsigned char>(FaissVersion()[0])));
}

}  // namespace
}  // namespace lectern
