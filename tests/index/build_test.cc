#include "index/build.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "index/row_codes.h"
#include "kernels/convert.h"
#include "kernels/thread_pool.h"
#include "tests/index/random_keys.h"

namespace lectern {
namespace {

using testing::Blobs;
using testing::NormalRows;
using testing::OwnRows;

constexpr size_t kHeadDim = 32;
constexpr size_t kMeanBytes = RowBytes(CentroidDtype(kHeadDim), kHeadDim);

// A stored centroid or mean value.
std::vector<float> MeanOf(const std::vector<std::byte>& stored, size_t cluster) {
  std::vector<float> mean(kHeadDim);
  ToFloatRowsScalar({stored.data() + cluster * kMeanBytes, CentroidDtype(kHeadDim), 1, kHeadDim},
                    {mean.data(), 1, kHeadDim});
  return mean;
}

// Keys of unequal density and length, as post-RoPE keys have, rounded for storage.
OwnRows Keys(size_t n) {
  OwnRows keys = Blobs(n, kHeadDim, std::max<size_t>(1, n / 60), 1, 0.4f);
  for (size_t i = 0; i < n; ++i) {
    for (size_t c = 0; c < kHeadDim; ++c) keys[i][c] *= 1 + 0.5f * static_cast<float>(i % 7);
  }
  RoundToF16(keys);
  return keys;
}

OwnRows Values(size_t n) {
  OwnRows values = NormalRows(n, kHeadDim, 2);
  RoundToF16(values);
  return values;
}

CentroidTree Build(const OwnRows& keys, const OwnRows& values, const BuildOptions& options) {
  auto tree = BuildTree(*DefaultBackend(), keys, values, options);
  EXPECT_TRUE(tree.ok()) << tree.status().message();
  return tree.ok() ? std::move(tree).value() : CentroidTree();
}

// Keys of cluster i of a level, as indices into `tree.order`.
std::pair<uint32_t, uint32_t> KeyRange(const CentroidTree& tree, size_t level, size_t i) {
  uint32_t begin = static_cast<uint32_t>(i), end = begin + 1;
  for (; level < tree.levels.size(); ++level) {
    begin = tree.levels[level].children[begin];
    end = tree.levels[level].children[end];
  }
  return {begin, end};
}

void ExpectPartition(const CentroidTree& tree, size_t n) {
  std::vector<uint32_t> order = tree.order;
  std::sort(order.begin(), order.end());
  ASSERT_EQ(order.size(), n);
  for (uint32_t i = 0; i < n; ++i) ASSERT_EQ(order[i], i) << "not a permutation";
  for (size_t l = 0; l < tree.levels.size(); ++l) {
    const TreeLevel& level = tree.levels[l];
    const size_t num_clusters = level.num_clusters();
    const size_t below = l + 1 < tree.levels.size() ? tree.levels[l + 1].num_clusters() : n;
    ASSERT_EQ(level.centroids.size(), num_clusters * kMeanBytes);
    ASSERT_EQ(level.mean_values.size(), num_clusters * kMeanBytes);
    ASSERT_EQ(level.radii.size(), num_clusters);
    ASSERT_EQ(level.variances.size(), num_clusters);
    ASSERT_EQ(level.children.size(), num_clusters + 1);
    EXPECT_EQ(level.children.front(), 0u);
    EXPECT_EQ(level.children.back(), below);
    for (size_t i = 0; i < num_clusters; ++i) ASSERT_LT(level.children[i], level.children[i + 1]);
    for (size_t i = 0; i < num_clusters; ++i) {
      const auto [begin, end] = KeyRange(tree, l, i);
      ASSERT_EQ(level.key_counts[i], end - begin) << "level " << l + 1 << " cluster " << i;
    }
  }
}

// Mean of rows in double, then as stored.
std::vector<std::byte> Mean(const OwnRows& rows, std::span<const uint32_t> members) {
  std::vector<double> sum(kHeadDim);
  for (const uint32_t i : members) {
    for (size_t c = 0; c < kHeadDim; ++c) sum[c] += rows[i][c];
  }
  std::vector<float> mean;
  for (const double x : sum) mean.push_back(static_cast<float>(x / double(members.size())));
  std::vector<std::byte> stored(kMeanBytes);
  FromFloatRowsScalar({mean.data(), 1, kHeadDim}, CentroidDtype(kHeadDim), stored.data());
  return stored;
}

void ExpectDescribed(const CentroidTree& tree, const OwnRows& keys, const OwnRows& values) {
  for (size_t l = 0; l < tree.levels.size(); ++l) {
    const TreeLevel& level = tree.levels[l];
    for (size_t i = 0; i < level.num_clusters(); ++i) {
      SCOPED_TRACE(::testing::Message() << "level " << l + 1 << " cluster " << i);
      const auto [begin, end] = KeyRange(tree, l, i);
      std::vector<uint32_t> members(tree.order.begin() + begin, tree.order.begin() + end);
      std::sort(members.begin(), members.end());
      const auto mean = Mean(keys, members), value = Mean(values, members);
      ASSERT_EQ(0, std::memcmp(mean.data(), &level.centroids[i * kMeanBytes], kMeanBytes));
      ASSERT_EQ(0, std::memcmp(value.data(), &level.mean_values[i * kMeanBytes], kMeanBytes));
      const std::vector<float> centroid = MeanOf(level.centroids, i);
      double largest = 0, sum = 0;
      for (const uint32_t member : members) {
        double squares = 0;
        for (size_t c = 0; c < kHeadDim; ++c) {
          const double x = double{keys[member][c]} - centroid[c];
          squares += x * x;
        }
        ASSERT_LE(std::sqrt(squares), level.radii[i]) << "key " << member;
        largest = std::max(largest, std::sqrt(squares));
        sum += squares;
      }
      ASSERT_NEAR(level.radii[i], largest, 1e-6 * largest + 1e-37);  // and no larger than needed
      const double variance = sum / double(members.size()) / double(kHeadDim);
      ASSERT_NEAR(level.variances[i], variance, 1e-6 * variance);
    }
  }
}

void ExpectSmallSortedClusters(const CentroidTree& tree) {
  const TreeLevel& finest = tree.levels.back();
  for (size_t i = 0; i < finest.num_clusters(); ++i) {
    const auto first = tree.order.begin() + finest.children[i];
    const auto last = tree.order.begin() + finest.children[i + 1];
    ASSERT_LE(static_cast<size_t>(last - first), kMaxFinestKeys);
    ASSERT_TRUE(std::is_sorted(first, last)) << "cluster " << i << " is not in document order";
  }
}

struct BuildCase {
  size_t num_keys;
  uint32_t num_levels;
};

void PrintTo(const BuildCase& c, std::ostream* out) {
  *out << c.num_keys << " keys, " << c.num_levels << " levels";
}

class BuildTest : public ::testing::TestWithParam<BuildCase> {
 protected:
  void SetUp() override { options_.fractions = LevelFractions(GetParam().num_levels); }
  BuildOptions options_;
};

TEST_P(BuildTest, LevelsPartitionTheKeysAndDescribeThem) {
  const size_t n = GetParam().num_keys;
  const OwnRows keys = Keys(n), values = Values(n);
  const CentroidTree tree = Build(keys, values, options_);
  ASSERT_EQ(tree.levels.size(), GetParam().num_levels);
  ASSERT_NO_FATAL_FAILURE(ExpectPartition(tree, n));
  ExpectDescribed(tree, keys, values);
  ExpectSmallSortedClusters(tree);
  for (size_t l = 0; l < tree.levels.size(); ++l) {  // about as many clusters as asked for
    const double asked = std::max(1.0, std::floor(options_.fractions[l] * double(n)));
    const auto clusters = static_cast<double>(tree.levels[l].num_clusters());
    EXPECT_GE(clusters, std::max(1.0, 0.8 * asked)) << "level " << l + 1;
    EXPECT_LE(clusters, 1.3 * asked + double(n) / 64 + 1) << "level " << l + 1;
  }
}

TEST_P(BuildTest, RowCodesAreThoseOfTheKeysInOrder) {
  const size_t n = GetParam().num_keys;
  const OwnRows keys = Keys(n), values = Values(n);
  const CentroidTree tree = Build(keys, values, options_);
  const TreeLevel& finest = tree.levels.back();
  constexpr size_t kBytes = RowCodeBytes(kHeadDim), kFineBytes = FineCodeBytes(kHeadDim);
  ASSERT_EQ(tree.row_codes.size(), n * kBytes);
  ASSERT_EQ(tree.fine_codes.size(), n * kFineBytes);
  for (size_t i = 0; i < finest.num_clusters(); ++i) {
    const std::vector<float> centroid = MeanOf(finest.centroids, i);
    for (uint32_t row = finest.children[i]; row < finest.children[i + 1]; ++row) {
      std::byte code[kBytes], fine[kFineBytes];
      EncodeRow({keys[tree.order[row]], kHeadDim}, centroid, code, fine);
      ASSERT_EQ(0, std::memcmp(code, &tree.row_codes[row * kBytes], kBytes)) << "row " << row;
      ASSERT_EQ(0, std::memcmp(fine, &tree.fine_codes[row * kFineBytes], kFineBytes));
    }
  }
  options_.row_codes = false;
  const CentroidTree without = Build(keys, values, options_);
  EXPECT_TRUE(without.row_codes.empty() && without.fine_codes.empty());
}

INSTANTIATE_TEST_SUITE_P(SizesAndLevels, BuildTest, ::testing::ValuesIn([] {
                           std::vector<BuildCase> cases;
                           for (const size_t n : {1, 2, 5, 40, 300, 3000, 20000}) {
                             for (const uint32_t levels : {1u, 2u, 3u})
                               cases.push_back({n, levels});
                           }
                           return cases;
                         }()),
                         [](const auto& param) {
                           return std::to_string(param.param.num_keys) + "Keys" +
                                  std::to_string(param.param.num_levels) + "Levels";
                         });

bool SameTree(const CentroidTree& a, const CentroidTree& b) {
  const auto same = [](const auto& x, const auto& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof x[0]) == 0;
  };
  if (a.levels.size() != b.levels.size() || a.order != b.order) return false;
  for (size_t l = 0; l < a.levels.size(); ++l) {
    const TreeLevel &x = a.levels[l], &y = b.levels[l];
    if (!same(x.centroids, y.centroids) || !same(x.mean_values, y.mean_values) ||
        !same(x.key_counts, y.key_counts) || !same(x.radii, y.radii) ||
        !same(x.variances, y.variances) || !same(x.children, y.children)) {
      return false;
    }
  }
  return same(a.row_codes, b.row_codes) && same(a.fine_codes, b.fine_codes);
}

TEST(BuildTreeTest, SameBitsOnRepeatAndFromManyThreadsAtOnce) {
  const OwnRows keys = Keys(9000), values = Values(9000);  // the path with blocks
  const CentroidTree expected = Build(keys, values, {});
  std::vector<CentroidTree> trees(3);
  ThreadPool threads(3);
  threads.ParallelFor(trees.size(),
                      [&](size_t item, size_t) { trees[item] = Build(keys, values, {}); });
  for (const CentroidTree& tree : trees) EXPECT_TRUE(SameTree(tree, expected));
  BuildOptions options;
  options.seed = 99;
  EXPECT_FALSE(SameTree(Build(keys, values, options), expected));  // the comparison can fail
}

// The clustering is by direction: keys that differ in length alone belong together.
TEST(BuildTreeTest, DirectionsMakeClustersWhateverTheLength) {
  constexpr size_t kBlobs = 5, kKeys = 600;
  OwnRows keys = Blobs(kKeys, kHeadDim, kBlobs, 5, 0.05f);
  for (size_t i = 0; i < kKeys; ++i) {
    for (size_t c = 0; c < kHeadDim; ++c) keys[i][c] *= i / kBlobs % 2 == 0 ? 0.1f : 10.0f;
  }
  BuildOptions options;
  options.fractions = {0.03};
  const CentroidTree tree = Build(keys, keys, options);
  const TreeLevel& level = tree.levels[0];
  for (size_t i = 0; i < level.num_clusters(); ++i) {
    for (uint32_t row = level.children[i]; row < level.children[i + 1]; ++row) {
      EXPECT_EQ(tree.order[row] % kBlobs, tree.order[level.children[i]] % kBlobs);
    }
  }
}

// Keys are assigned to clusters by other rows than those that describe the clusters.
TEST(BuildTreeTest, KeysAreAssignedByOtherRows) {
  constexpr size_t kBlobs = 7;
  for (const size_t n : {600, 9000}) {
    const OwnRows keys = Keys(n), values = Values(n), points = Blobs(n, kHeadDim, kBlobs, 5, 0.05f);
    BuildOptions options;
    options.fractions = {0.01, 0.03};
    const auto mixed = [&](const CentroidTree& tree) {
      const TreeLevel& level = tree.levels.back();
      size_t count = 0;
      for (size_t i = 0; i < level.num_clusters(); ++i) {
        for (uint32_t row = level.children[i]; row < level.children[i + 1]; ++row) {
          count += tree.order[row] % kBlobs != tree.order[level.children[i]] % kBlobs;
        }
      }
      return count;
    };
    EXPECT_GT(mixed(Build(keys, values, options)), n / 2);
    options.assigned_by = points;
    const CentroidTree tree = Build(keys, values, options);
    EXPECT_EQ(mixed(tree), 0u);
    ExpectPartition(tree, n);
    ExpectDescribed(tree, keys, values);
  }
}

TEST(BuildTreeTest, NeighbouringClustersAreSimilar) {
  const OwnRows keys = Keys(3000), values = Values(3000);
  BuildOptions options;
  options.fractions = {0.05};
  const TreeLevel level = Build(keys, values, options).levels[0];
  const size_t n = level.num_clusters();
  OwnRows directions(n, kHeadDim);
  ToFloatRowsScalar(level.Centroids(kHeadDim), {directions.data.data(), n, kHeadDim});
  Normalize(directions);
  const auto cosine = [&](size_t a, size_t b) {
    return std::inner_product(directions[a], directions[a] + kHeadDim, directions[b], 0.0);
  };
  double neighbours = 0, others = 0;
  for (size_t i = 0; i + 1 < n; ++i) {
    neighbours += cosine(i, i + 1);
    others += cosine(i, (i + n / 2) % n);
  }
  EXPECT_GT(neighbours, others + 0.3 * static_cast<double>(n - 1));
}

TEST(BuildTreeTest, EqualAndZeroKeysWork) {
  for (const float value : {0.0f, 0.75f, -3.0f}) {
    for (const size_t n : {5, 1000, 9000}) {
      OwnRows keys(n, kHeadDim);
      std::fill(keys.data.begin(), keys.data.end(), value);
      const OwnRows values = Values(n);
      for (const uint32_t levels : {1u, 2u, 3u}) {
        SCOPED_TRACE(::testing::Message() << n << " keys of " << value << ", " << levels);
        BuildOptions options;
        options.fractions = LevelFractions(levels);
        const CentroidTree tree = Build(keys, values, options);
        ASSERT_NO_FATAL_FAILURE(ExpectPartition(tree, n));
        ExpectDescribed(tree, keys, values);
        ExpectSmallSortedClusters(tree);
        // Rounding the centroid adds this much: its scale has 11 bits.
        const float rounding = 0x1p-11f * std::abs(value) * std::sqrt(float{kHeadDim}) + 1e-30f;
        for (const float radius : tree.levels.back().radii) EXPECT_LE(radius, rounding);
      }
    }
  }
}

TEST(BuildTreeTest, ManyEqualKeysAmongOthersAreCutToo) {
  OwnRows keys = Keys(3000);
  for (size_t i = 0; i < 3000; ++i) {
    if (i % 4 != 0) std::fill_n(keys[i], kHeadDim, 1.5f);
  }
  const OwnRows values = Values(3000);
  const CentroidTree tree = Build(keys, values, {});
  ASSERT_NO_FATAL_FAILURE(ExpectPartition(tree, 3000));
  ExpectDescribed(tree, keys, values);
  ExpectSmallSortedClusters(tree);
}

// Also keys so short that 1 / length is no float.
TEST(BuildTreeTest, TinyKeysWork) {
  for (const float scale : {1e-20f, 1e-36f, 1e-42f}) {
    OwnRows keys = Keys(300);
    for (float& x : keys.data) x *= scale;
    auto tree = BuildTree(*DefaultBackend(), keys, keys, {});
    EXPECT_TRUE(tree.ok()) << scale << ": " << tree.status().message();
  }
}

TEST(BuildTreeTest, CancelEndsIt) {
  const OwnRows keys = Keys(9000), values = Values(9000);
  int total = 0;
  BuildOptions options;
  options.is_cancelled = [&] {
    ++total;
    return false;
  };
  Build(keys, values, options);
  ASSERT_GT(total, 30);
  for (const int allowed : {0, 3, total / 2, total - 1}) {
    int polls = 0;
    options.is_cancelled = [&] { return ++polls > allowed; };
    const auto tree = BuildTree(*DefaultBackend(), keys, values, options);
    ASSERT_FALSE(tree.ok());
    EXPECT_EQ(tree.status().code(), Code::kCancelled);
    EXPECT_EQ(polls, allowed + 1);
  }
}

TEST(BuildTreeTest, NotANumberIsAnErrorNotACrash) {
  OwnRows keys = Keys(300);
  keys[17][3] = NAN;
  const auto tree = BuildTree(*DefaultBackend(), keys, keys, {});
  ASSERT_FALSE(tree.ok());
  EXPECT_EQ(tree.status().code(), Code::kInternal);
}

// As many clusters as keys: no K-means looks at the keys, so none refuses them.
TEST(BuildTreeTest, NotANumberLosesNoKeyWhereEachIsACluster) {
  OwnRows keys = Keys(20);
  keys[7][3] = NAN;
  BuildOptions options;
  options.fractions = {1.0};
  options.row_codes = false;
  const CentroidTree tree = Build(keys, keys, options);
  std::vector<uint32_t> order = tree.order;
  std::sort(order.begin(), order.end());
  ASSERT_EQ(order.size(), 20u);
  for (uint32_t i = 0; i < 20; ++i) EXPECT_EQ(order[i], i);
}

TEST(BuildTreeTest, UsualFractionsRiseToFivePercent) {
  for (const uint32_t levels : {1u, 2u, 3u}) {
    const auto fractions = LevelFractions(levels);
    EXPECT_EQ(fractions.size(), levels);
    EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
    EXPECT_EQ(fractions.back(), 0.02);
  }
}

}  // namespace
}  // namespace lectern
