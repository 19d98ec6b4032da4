#include "index/build.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "index/kmeans.h"
#include "index/row_codes.h"

namespace lectern {
namespace {

using Members = std::vector<uint32_t>;  // indices of keys

// Refinement of clusters that were made inside blocks. Refining, together with grouping clusters
// upwards, raised the attention mass recalled at 10 % of the keys from 0.959 to 0.994 of flat
// K-means' at 32K tokens (tests/evaluation/tree_recall.cc). No measurement of other numbers is on
// record; more iterations only take longer.
constexpr int kRefinements = 4;
// Nearest groups, of about five clusters each, that a key looks into. By hand, and measured with
// the refinements above alone; fewer groups would miss nearer clusters, more take longer.
constexpr size_t kRefineBeam = 6;
constexpr size_t kRefineTile = 64;  // keys that share one product with all groups

// Shares `total`, at most the number of all members, among parts in proportion to their sizes, each
// at least 1 and at most its size. The shares may exceed `total` by one for each part that gets 1.
std::vector<uint32_t> Apportion(const std::vector<Members>& parts, size_t total) {
  size_t num_keys = 0;
  for (const Members& part : parts) num_keys += part.size();
  std::vector<uint32_t> share(parts.size());
  std::vector<std::pair<double, size_t>> remainders;
  size_t given = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const double exact = static_cast<double>(total) * static_cast<double>(parts[i].size()) /
                         static_cast<double>(num_keys);
    share[i] = std::max(1u, static_cast<uint32_t>(exact));
    given += share[i];
    remainders.emplace_back(-(exact - std::floor(exact)), i);  // largest first, then lowest index
  }
  std::sort(remainders.begin(), remainders.end());
  for (const auto& [remainder, i] : remainders) {
    if (given >= total) break;
    if (share[i] >= parts[i].size()) continue;
    ++share[i];
    ++given;
  }
  return share;
}

// Fills `nearest`, which is not longer than `similarity`, with the groups of greatest similarity,
// best first; among equals the lowest number comes first. Insertion into a short sorted list, since
// nearest.size() is small.
void NearestGroups(std::span<const float> similarity, std::vector<uint32_t>& nearest) {
  size_t found = 0;
  for (uint32_t group = 0; group < similarity.size(); ++group) {
    if (found == nearest.size() && similarity[group] <= similarity[nearest.back()]) continue;
    size_t at = found < nearest.size() ? found++ : found - 1;
    for (; at > 0 && similarity[group] > similarity[nearest[at - 1]]; --at) {
      nearest[at] = nearest[at - 1];
    }
    nearest[at] = group;
  }
}

// Inner product in sixteen partial sums, which compilers keep in vectors (one of AVX-512, two of
// AVX2).
float Dot(const float* a, const float* b, size_t count) {
  constexpr size_t kSums = 16;
  float sums[kSums] = {};
  size_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (size_t j = 0; j < kSums; ++j) sums[j] += a[i + j] * b[i + j];
  }
  float sum = std::accumulate(sums, sums + kSums, 0.0f);
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// Builds the tree of one head: partitions the keys, refines and splits the finest clusters, groups
// them upwards, then describes every cluster.
class Builder {
 public:
  Builder(const Backend& backend, Rows<const float> keys, Rows<const float> values,
          const BuildOptions& options)
      : backend_(backend), keys_(keys), values_(values), options_(options) {
    const Rows<const float> points = options.assigned_by.num_rows > 0 ? options.assigned_by : keys;
    unit_.resize(keys.num_rows * keys.num_cols);
    for (size_t row = 0; row < keys.num_rows; ++row) Normalize(points, row);
  }

  // Makes the tree, as BuildTree describes.
  Result<CentroidTree> Run() {
    std::vector<Members> leaves;
    LECTERN_ASSIGN(leaves, Partition(AllKeys(), Count(options_.fractions.back())));
    if (keys_.num_rows > kFlatKeys) {
      LECTERN_RETURN_IF_ERROR(options_.assigner != nullptr ? RefineWithAll(leaves)
                                                           : Refine(leaves));
    }
    LECTERN_RETURN_IF_ERROR(SplitLarge(leaves));

    // Bottom up: each level groups the nodes of the one below it by direction.
    std::vector<std::vector<Node>> levels(options_.fractions.size());
    for (Members& leaf : leaves) levels.back().push_back({DirectionSum(leaf), std::move(leaf)});
    for (size_t level = levels.size() - 1; level > 0; --level) {
      LECTERN_ASSIGN(levels[level - 1], Group(levels[level], Count(options_.fractions[level - 1])));
    }
    return Arrange(levels);
  }

 private:
  // A cluster: at the finest level `parts` are keys, above it nodes of the next level.
  struct Node {
    std::vector<float> direction;  // sum over its keys at unit length
    std::vector<uint32_t> parts;
  };

  size_t dim() const { return keys_.num_cols; }

  // Number of clusters for a share of the keys, at least one.
  size_t Count(double fraction) const {
    const double count = fraction * static_cast<double>(keys_.num_rows);
    return std::max<size_t>(1, static_cast<size_t>(count));
  }

  Members AllKeys() const {
    Members all(keys_.num_rows);
    std::iota(all.begin(), all.end(), 0u);
    return all;
  }

  // Stores a key's direction (the vector at unit length) in unit_.
  void Normalize(Rows<const float> points, size_t row) {
    const float* key = points[row];
    double squares = 0;
    for (size_t c = 0; c < dim(); ++c) squares += double{key[c]} * key[c];
    // A shorter vector has no direction, because its inverse length would overflow a float; it
    // becomes 0.
    const float inverse = squares > 1e-70 ? static_cast<float>(1 / std::sqrt(squares)) : 0.0f;
    for (size_t c = 0; c < dim(); ++c) unit_[row * dim() + c] = key[c] * inverse;
  }

  // Clusters the points: one list of point numbers for each label, in ascending order. Empty
  // clusters vanish.
  Result<std::vector<Members>> Cluster(Rows<const float> points, size_t num_clusters) {
    KMeansOptions kmeans;
    kmeans.num_clusters = static_cast<uint32_t>(num_clusters);
    kmeans.num_iterations = options_.num_iterations;
    kmeans.seed = options_.seed;
    kmeans.is_cancelled = options_.is_cancelled;
    kmeans.assigner = options_.assigner;
    LECTERN_ASSIGN(const std::vector<uint32_t> labels, KMeans(backend_, points, kmeans));
    std::vector<Members> clusters(num_clusters);
    for (uint32_t i = 0; i < labels.size(); ++i) clusters[labels[i]].push_back(i);
    std::erase_if(clusters, [](const Members& cluster) { return cluster.empty(); });
    return clusters;
  }

  // Clusters some keys by their directions; returns numbers of keys.
  Result<std::vector<Members>> FlatKMeans(const Members& members, size_t num_clusters) {
    gathered_.resize(members.size() * dim());
    for (size_t i = 0; i < members.size(); ++i) {
      std::copy_n(&unit_[members[i] * dim()], dim(), &gathered_[i * dim()]);
    }
    LECTERN_ASSIGN(std::vector<Members> clusters,
                   Cluster({gathered_.data(), members.size(), dim()}, num_clusters));
    for (Members& cluster : clusters) {
      for (uint32_t& member : cluster) member = members[member];
    }
    return clusters;
  }

  // Makes about `num_clusters` clusters of `members`. Many keys are first cut into blocks of
  // similar keys, each of which is clustered alone: cost per key is then (blocks + clusters per
  // block) instead of the number of clusters.
  Result<std::vector<Members>> Partition(const Members& members, size_t num_clusters) {
    const size_t num_blocks = (members.size() + kBlockKeys - 1) / kBlockKeys;
    if (members.size() <= kFlatKeys || num_clusters <= 2 * num_blocks) {
      return FlatKMeans(members, num_clusters);
    }
    LECTERN_ASSIGN(const std::vector<Members> blocks, FlatKMeans(members, num_blocks));
    const std::vector<uint32_t> shares = Apportion(blocks, num_clusters);
    std::vector<Members> clusters;
    for (size_t i = 0; i < blocks.size(); ++i) {
      LECTERN_ASSIGN(std::vector<Members> inside, FlatKMeans(blocks[i], shares[i]));
      std::move(inside.begin(), inside.end(), std::back_inserter(clusters));
    }
    return clusters;
  }

  // Cuts clusters of more than kMaxFinestKeys keys, into twice as many parts as would hold them,
  // because K-means' parts are uneven. Equal keys, which K-means cannot part, are cut in document
  // order.
  Status SplitLarge(std::vector<Members>& clusters) {
    for (size_t i = 0; i < clusters.size();) {
      const Members cluster = clusters[i];
      if (cluster.size() <= kMaxFinestKeys) {
        ++i;
        continue;
      }
      const size_t num_parts = (2 * cluster.size() + kMaxFinestKeys - 1) / kMaxFinestKeys;
      LECTERN_ASSIGN(std::vector<Members> parts, FlatKMeans(cluster, num_parts));
      if (parts.size() == 1) {
        parts.clear();
        for (size_t begin = 0; begin < cluster.size(); begin += kMaxFinestKeys) {
          const size_t end = std::min(begin + kMaxFinestKeys, cluster.size());
          parts.emplace_back(cluster.begin() + static_cast<ptrdiff_t>(begin),
                             cluster.begin() + static_cast<ptrdiff_t>(end));
        }
      }
      clusters.erase(clusters.begin() + static_cast<ptrdiff_t>(i));
      clusters.insert(clusters.begin() + static_cast<ptrdiff_t>(i), parts.begin(), parts.end());
    }
    return {};
  }

  // Sum of the members' directions, in double. Its own direction is the spherical mean.
  std::vector<float> DirectionSum(const Members& members) const {
    std::vector<double> sum(dim());
    for (const uint32_t member : members) {
      for (size_t c = 0; c < dim(); ++c) sum[c] += unit_[member * dim() + c];
    }
    return {sum.begin(), sum.end()};
  }

  // Directions at unit length, one row per node.
  std::vector<float> UnitDirections(const std::vector<Node>& nodes) const {
    std::vector<float> rows;
    rows.reserve(nodes.size() * dim());
    for (const Node& node : nodes) {
      double squares = 0;
      for (const float x : node.direction) squares += double{x} * x;
      const auto inverse = static_cast<float>(squares > 0 ? 1 / std::sqrt(squares) : 0);
      for (const float x : node.direction) rows.push_back(x * inverse);
    }
    return rows;
  }

  // Groups nodes by direction into about num_groups parents. A parent's direction is the sum over
  // all its keys, so large nodes count more.
  Result<std::vector<Node>> Group(const std::vector<Node>& nodes, size_t num_groups) {
    const std::vector<float> directions = UnitDirections(nodes);
    LECTERN_ASSIGN(std::vector<Members> groups,
                   Cluster({directions.data(), nodes.size(), dim()}, num_groups));
    std::vector<Node> parents;
    for (Members& group : groups) {
      std::vector<float> sum(dim(), 0.0f);
      for (const uint32_t i : group) {
        for (size_t c = 0; c < dim(); ++c) sum[c] += nodes[i].direction[c];
      }
      parents.push_back({std::move(sum), std::move(group)});
    }
    return parents;
  }

  // Clusters made inside blocks end at the borders of these blocks. Lloyd iterations over all
  // clusters let keys cross them. This version compares every key with every cluster, on a device.
  Status RefineWithAll(std::vector<Members>& leaves) {
    const Rows<const float> points(unit_.data(), keys_.num_rows, dim());
    const HeldPoints held(*options_.assigner, points);
    const size_t block = std::min(options_.assigner->block_rows(), points.num_rows);
    std::vector<uint32_t> labels(block);
    std::vector<float> dots(block);
    for (int iteration = 0; iteration < kRefinements; ++iteration) {
      std::vector<Node> nodes;
      for (Members& leaf : leaves) nodes.push_back({DirectionSum(leaf), {}});
      const std::vector<float> directions = UnitDirections(nodes);
      LECTERN_RETURN_IF_ERROR(
          options_.assigner->SetCentroids({directions.data(), nodes.size(), dim()}));
      std::vector<Members> refined(nodes.size());
      for (size_t begin = 0; begin < points.num_rows; begin += block) {
        if (IsCancelled()) return {Code::kCancelled, "clustering was cancelled"};
        const size_t end = std::min(begin + block, points.num_rows);
        LECTERN_RETURN_IF_ERROR(options_.assigner->Assign(points.Slice(begin, end), labels, dots));
        for (size_t i = begin; i < end; ++i) {
          refined[labels[i - begin]].push_back(static_cast<uint32_t>(i));
        }
      }
      std::erase_if(refined, [](const Members& leaf) { return leaf.empty(); });
      leaves = std::move(refined);
    }
    return {};
  }

  bool IsCancelled() const { return options_.is_cancelled && options_.is_cancelled(); }

  // The same on the CPU, where a key is compared only with the clusters of its nearest few groups
  // of clusters.
  Status Refine(std::vector<Members>& leaves) {
    for (int iteration = 0; iteration < kRefinements; ++iteration) {
      std::vector<Node> nodes;
      for (Members& leaf : leaves) nodes.push_back({DirectionSum(leaf), std::move(leaf)});
      LECTERN_ASSIGN(const std::vector<Node> groups, Group(nodes, (nodes.size() + 4) / 5));
      const std::vector<float> leaf_rows = UnitDirections(nodes),
                               group_rows = UnitDirections(groups);
      std::vector<Members> refined(nodes.size());
      for (size_t begin = 0; begin < keys_.num_rows; begin += kRefineTile) {
        if (IsCancelled()) return {Code::kCancelled, "clustering was cancelled"};
        RefineTile(begin, std::min(begin + kRefineTile, keys_.num_rows), groups, group_rows,
                   leaf_rows, refined);
      }
      std::erase_if(refined, [](const Members& leaf) { return leaf.empty(); });
      leaves = std::move(refined);
    }
    return {};
  }

  // Assigns keys [begin, end) to the best cluster of their kRefineBeam nearest groups.
  void RefineTile(size_t begin, size_t end, const std::vector<Node>& groups,
                  const std::vector<float>& group_rows, const std::vector<float>& leaf_rows,
                  std::vector<Members>& refined) {
    const size_t num_groups = groups.size(), beam = std::min(kRefineBeam, num_groups);
    // The similarity of each key to each group.
    std::vector<float> logits((end - begin) * num_groups);
    std::vector<float> scratch(AttendScratch(end - begin, dim()));
    const Rows<const float> points(unit_.data() + begin * dim(), end - begin, dim());
    backend_.key_logits({.queries = points,
                         .keys = {reinterpret_cast<const std::byte*>(group_rows.data()),
                                  Dtype::kF32, num_groups, dim()},
                         .scale = 1,
                         .logits = {logits.data(), end - begin, num_groups},
                         .scratch = scratch});
    std::vector<uint32_t> nearest(beam);
    for (size_t i = 0; i < end - begin; ++i) {
      NearestGroups({logits.data() + i * num_groups, num_groups}, nearest);
      float best = -2;  // below every cosine
      uint32_t best_leaf = groups[nearest[0]].parts[0];
      for (size_t g = 0; g < beam; ++g) {
        for (const uint32_t leaf : groups[nearest[g]].parts) {
          const float dot = Dot(points[i], leaf_rows.data() + leaf * dim(), dim());
          if (dot > best) {
            best = dot;
            best_leaf = leaf;
          }
        }
      }
      refined[best_leaf].push_back(static_cast<uint32_t>(begin + i));
    }
  }

  // Orders nodes, of which there is at least one, so that the first stays first and each is
  // followed by the most similar one that is left.
  std::vector<uint32_t> Chain(const std::vector<uint32_t>& nodes,
                              const std::vector<float>& directions) const {
    std::vector<uint32_t> left = nodes, chained;
    size_t current = 0;
    while (!left.empty()) {
      chained.push_back(left[current]);
      left.erase(left.begin() + static_cast<ptrdiff_t>(current));
      const float* from = &directions[chained.back() * dim()];
      current = 0;  // stays where no similarity is a number
      float best = -2;
      for (size_t i = 0; i < left.size(); ++i) {
        const float similarity = Dot(from, &directions[left[i] * dim()], dim());
        if (similarity > best) {
          best = similarity;
          current = i;
        }
      }
    }
    return chained;
  }

  // Orders clusters so that similar ones are neighbours, level by level, and computes what is
  // stored of every cluster.
  CentroidTree Arrange(const std::vector<std::vector<Node>>& levels) const {
    CentroidTree tree;
    tree.levels.resize(levels.size());
    std::vector<uint32_t> top(levels.front().size());
    std::iota(top.begin(), top.end(), 0u);
    std::vector<uint32_t> nodes = Chain(top, UnitDirections(levels.front()));
    for (size_t level = 0; level < levels.size(); ++level) {
      const bool finest = level + 1 == levels.size();
      const std::vector<float> below =
          finest ? std::vector<float>() : UnitDirections(levels[level + 1]);
      std::vector<uint32_t> next, children = {0};
      for (const uint32_t node : nodes) {
        const std::vector<uint32_t>& parts = levels[level][node].parts;
        const std::vector<uint32_t> ordered = finest ? parts : Chain(parts, below);
        next.insert(next.end(), ordered.begin(), ordered.end());
        children.push_back(static_cast<uint32_t>(next.size()));
      }
      tree.levels[level].children = std::move(children);
      nodes = std::move(next);
    }
    tree.order = std::move(nodes);
    // Where the keys of each level's clusters begin in `order`, and where the last one's end.
    std::vector<std::vector<uint32_t>> begins(levels.size());
    begins.back() = tree.levels.back().children;
    for (size_t level = levels.size() - 1; level-- > 0;) {
      for (const uint32_t child : tree.levels[level].children) {
        begins[level].push_back(begins[level + 1][child]);
      }
    }
    for (size_t level = 0; level < levels.size(); ++level) {
      AddMeans(tree.order, begins[level], tree.levels[level]);
    }
    if (options_.query_moments != nullptr) tree.metric = BestMetric(tree);
    MeasureKeys(begins, tree);
    return tree;
  }

  // Appends the mean of some rows, summed in double and rounded for storage.
  void AddMean(Rows<const float> rows, const Members& members,
               std::vector<std::byte>& stored) const {
    std::vector<double> sum(rows.num_cols);
    for (const uint32_t member : members) {
      for (size_t c = 0; c < rows.num_cols; ++c) sum[c] += rows[member][c];
    }
    std::vector<float> mean(rows.num_cols);
    for (size_t c = 0; c < rows.num_cols; ++c) {
      mean[c] = static_cast<float>(sum[c] / static_cast<double>(members.size()));
    }
    const Dtype dtype = CentroidDtype(dim());
    const size_t begin = stored.size();
    stored.resize(begin + RowBytes(dtype, dim()));
    FromFloatRowsScalar(Rows<const float>(mean.data(), 1, dim()), dtype, stored.data() + begin);
  }

  // Computes centroid, mean value and count of clusters, whose keys are [begins[i], begins[i + 1])
  // of `order`.
  void AddMeans(const std::vector<uint32_t>& order, const std::vector<uint32_t>& begins,
                TreeLevel& level) const {
    for (size_t i = 0; i + 1 < begins.size(); ++i) {
      const Members cluster(order.begin() + begins[i], order.begin() + begins[i + 1]);
      AddMean(keys_, cluster, level.centroids);
      AddMean(values_, cluster, level.mean_values);
      level.key_counts.push_back(static_cast<uint32_t>(cluster.size()));
    }
  }

  // Stored centroids of a level, [clusters, head_dim].
  std::vector<float> CentroidsOf(const TreeLevel& level) const {
    std::vector<float> centroids(level.num_clusters() * dim());
    ToFloatRowsScalar(level.Centroids(dim()), {centroids.data(), level.num_clusters(), dim()});
    return centroids;
  }

  // The metric for the queries that are given and the residuals of the finest clusters, of which
  // enough rows are looked at to know their moments.
  std::optional<QueryMetric> BestMetric(const CentroidTree& tree) const {
    const size_t num_keys = tree.order.size(), most = 32 * dim();
    const size_t step = (num_keys + most - 1) / most;
    const std::vector<uint32_t>& begins = tree.levels.back().children;
    const std::vector<float> centroids = CentroidsOf(tree.levels.back());
    std::vector<float> residuals;
    size_t cluster = 0;
    for (size_t i = 0; i < num_keys; i += step) {
      while (begins[cluster + 1] <= i) ++cluster;
      const float* const key = keys_[tree.order[i]];
      for (size_t c = 0; c < dim(); ++c)
        residuals.push_back(key[c] - centroids[cluster * dim() + c]);
    }
    const size_t num_rows = residuals.size() / dim();
    const std::optional<SquareMatrix> moments = Shrunk(
        SecondMoments({residuals.data(), num_rows, dim()}), dim(), ShrinkageOf(num_rows, dim()));
    if (!moments) return std::nullopt;
    return QueryMetric::Make(*options_.query_moments, *moments, dim());
  }

  // Radii and variances of all levels and codes of the rows, by the tree's metric. A key is changed
  // once for all levels, as A (k - C) = A k - A C.
  void MeasureKeys(const std::vector<std::vector<uint32_t>>& begins, CentroidTree& tree) const {
    const auto change = [&](std::span<double> x) {
      if (tree.metric) tree.metric->OfKey(x);
    };
    struct Spread {
      std::vector<double> centroids;  // A C
      size_t cluster = 0;             // that the key is in
      double radius = 0, squares = 0;
    };
    std::vector<Spread> spreads(tree.levels.size());
    for (size_t l = 0; l < spreads.size(); ++l) {
      const std::vector<float> centroids = CentroidsOf(tree.levels[l]);
      spreads[l].centroids.assign(centroids.begin(), centroids.end());
      for (size_t i = 0; i < tree.levels[l].num_clusters(); ++i) {
        change(std::span(spreads[l].centroids).subspan(i * dim(), dim()));
      }
    }
    if (options_.row_codes) {
      tree.row_codes.resize(tree.order.size() * RowCodeBytes(dim()));
      tree.fine_codes.resize(tree.order.size() * FineCodeBytes(dim()));
    }
    std::vector<double> key(dim());
    std::vector<float> residual(dim());
    for (size_t row = 0; row < tree.order.size(); ++row) {
      std::copy_n(keys_[tree.order[row]], dim(), key.begin());
      change(key);
      for (size_t l = 0; l < spreads.size(); ++l) {
        Spread& spread = spreads[l];
        const double* const centroid = &spread.centroids[spread.cluster * dim()];
        double distance = 0;
        for (size_t c = 0; c < dim(); ++c) {
          distance += (key[c] - centroid[c]) * (key[c] - centroid[c]);
        }
        spread.radius = std::max(spread.radius, distance);
        spread.squares += distance;
        if (l + 1 == spreads.size() && options_.row_codes) {
          for (size_t c = 0; c < dim(); ++c) residual[c] = static_cast<float>(key[c] - centroid[c]);
          EncodeResidual(residual, tree.row_codes.data() + row * RowCodeBytes(dim()),
                         tree.fine_codes.data() + row * FineCodeBytes(dim()));
        }
        if (row + 1 < begins[l][spread.cluster + 1]) continue;
        FinishCluster(spread.radius, spread.squares, tree.levels[l]);
        spread.radius = spread.squares = 0;
        ++spread.cluster;
      }
    }
  }

  // The next cluster's radius and variance, from the largest and the sum of squared distances.
  void FinishCluster(double radius, double squares, TreeLevel& level) const {
    const double count = level.key_counts[level.radii.size()];
    // The next float up: the bound must hold after rounding.
    level.radii.push_back(std::nextafter(static_cast<float>(std::sqrt(radius)), INFINITY));
    level.variances.push_back(static_cast<float>(squares / count / static_cast<double>(dim())));
  }

  const Backend& backend_;
  const Rows<const float> keys_, values_;
  const BuildOptions& options_;
  std::vector<float> unit_;      // [n, head_dim]: unit vectors of the keys, or of assigned_by
  std::vector<float> gathered_;  // unit vectors of the members that are being clustered
};

}  // namespace

std::vector<double> LevelFractions(uint32_t num_levels) {
  switch (num_levels) {
    case 1:
      return {0.02};
    case 2:
      return {0.005, 0.02};
    default:
      return {0.001, 0.005, 0.02};
  }
}

size_t MostCentroids(size_t num_keys, const std::vector<double>& fractions) {
  // Every block gets at least one cluster, so the blocks' shares may exceed the total by one each.
  return static_cast<size_t>(fractions.back() * static_cast<double>(num_keys)) +
         num_keys / kBlockKeys + 1;
}

Result<CentroidTree> BuildTree(const Backend& backend, Rows<const float> keys,
                               Rows<const float> values, const BuildOptions& options) {
  assert(keys.num_rows >= 1 && keys.num_rows == values.num_rows && !options.fractions.empty());
  assert(options.assigned_by.num_rows == 0 || options.assigned_by.num_rows == keys.num_rows);
  return Builder(backend, keys, values, options).Run();
}

}  // namespace lectern
