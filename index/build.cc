#include "index/build.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "index/kmeans.h"
#include "index/row_codes.h"

namespace lectern {
namespace {

using Members = std::vector<uint32_t>;  // indices of keys

// Shares `total` among parts in proportion to their sizes, each at least 1 and at most its size.
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

class Builder {
 public:
  Builder(const Backend& backend, Rows<const float> keys, Rows<const float> values,
          const BuildOptions& options)
      : backend_(backend), keys_(keys), values_(values), options_(options) {
    unit_.resize(keys.num_rows * keys.num_cols);
    for (size_t row = 0; row < keys.num_rows; ++row) Normalize(row);
  }

  Result<CentroidTree> Run() {
    Members all(keys_.num_rows);
    std::iota(all.begin(), all.end(), 0u);
    std::vector<Members> parents = {std::move(all)};
    CentroidTree tree;
    for (size_t level = 0; level < options_.fractions.size(); ++level) {
      const bool finest = level + 1 == options_.fractions.size();
      const auto total =
          static_cast<size_t>(options_.fractions[level] * static_cast<double>(keys_.num_rows));
      const std::vector<uint32_t> shares = Apportion(parents, std::max<size_t>(1, total));
      std::vector<Members> clusters;
      std::vector<uint32_t> children = {0};
      for (size_t i = 0; i < parents.size(); ++i) {
        LECTERN_ASSIGN(std::vector<Members> inside, Partition(parents[i], shares[i]));
        if (finest) LECTERN_RETURN_IF_ERROR(SplitLarge(inside));
        Chain(inside);
        std::move(inside.begin(), inside.end(), std::back_inserter(clusters));
        children.push_back(static_cast<uint32_t>(clusters.size()));
      }
      if (level > 0) tree.levels.back().children = std::move(children);
      tree.levels.push_back(Describe(clusters));
      parents = std::move(clusters);
    }
    std::vector<uint32_t>& rows = tree.levels.back().children;
    rows = {0};
    for (const Members& cluster : parents) {
      tree.order.insert(tree.order.end(), cluster.begin(), cluster.end());
      rows.push_back(static_cast<uint32_t>(tree.order.size()));
    }
    if (options_.row_codes) EncodeRows(tree);
    return tree;
  }

 private:
  size_t dim() const { return keys_.num_cols; }

  void Normalize(size_t row) {
    const float* key = keys_[row];
    double squares = 0;
    for (size_t c = 0; c < dim(); ++c) squares += double{key[c]} * key[c];
    // A shorter key has no direction: its inverse length would not be a float.
    const float inverse = squares > 1e-70 ? static_cast<float>(1 / std::sqrt(squares)) : 0.0f;
    for (size_t c = 0; c < dim(); ++c) unit_[row * dim() + c] = key[c] * inverse;
  }

  // Members by label, in ascending order; empty clusters vanish.
  Result<std::vector<Members>> FlatKMeans(const Members& members, size_t num_clusters) {
    gathered_.resize(members.size() * dim());
    for (size_t i = 0; i < members.size(); ++i) {
      std::copy_n(&unit_[members[i] * dim()], dim(), &gathered_[i * dim()]);
    }
    KMeansOptions kmeans;
    kmeans.num_clusters = static_cast<uint32_t>(num_clusters);
    kmeans.num_iterations = options_.num_iterations;
    kmeans.seed = options_.seed;
    kmeans.is_cancelled = options_.is_cancelled;
    LECTERN_ASSIGN(const std::vector<uint32_t> labels,
                   KMeans(backend_, {gathered_.data(), members.size(), dim()}, kmeans));
    std::vector<Members> clusters(num_clusters);
    for (size_t i = 0; i < members.size(); ++i) clusters[labels[i]].push_back(members[i]);
    std::erase_if(clusters, [](const Members& cluster) { return cluster.empty(); });
    return clusters;
  }

  // About `num_clusters` clusters of `members`. Many keys are cut into blocks of similar ones
  // first: cost per key is then (blocks + clusters per block), not the number of clusters.
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

  // Cuts clusters of more than kMaxFinestKeys keys; equal keys, which K-means cannot part, by
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

  void EncodeRows(CentroidTree& tree) const {
    const TreeLevel& finest = tree.levels.back();
    tree.row_codes.resize(tree.order.size() * RowCodeBytes(dim()));
    std::vector<float> centroid(dim());
    for (size_t i = 0; i < finest.num_clusters(); ++i) {
      for (size_t c = 0; c < dim(); ++c) centroid[c] = ToFloat(finest.centroids[i * dim() + c]);
      for (uint32_t row = finest.children[i]; row < finest.children[i + 1]; ++row) {
        EncodeRow({keys_[tree.order[row]], dim()}, centroid,
                  tree.row_codes.data() + row * RowCodeBytes(dim()));
      }
    }
  }

  std::vector<float> MeanDirection(const Members& members) const {
    std::vector<double> sum(dim());
    for (const uint32_t member : members) {
      for (size_t c = 0; c < dim(); ++c) sum[c] += unit_[member * dim() + c];
    }
    double squares = 0;
    for (const double x : sum) squares += x * x;
    const double inverse = squares > 0 ? 1 / std::sqrt(squares) : 0;
    std::vector<float> mean(dim());
    for (size_t c = 0; c < dim(); ++c) mean[c] = static_cast<float>(sum[c] * inverse);
    return mean;
  }

  // Orders clusters so that each is followed by the most similar one that is left.
  void Chain(std::vector<Members>& clusters) const {
    const size_t n = clusters.size();
    if (n < 3) return;
    std::vector<float> directions;
    directions.reserve(n * dim());
    for (const Members& cluster : clusters) {
      const std::vector<float> mean = MeanDirection(cluster);
      directions.insert(directions.end(), mean.begin(), mean.end());
    }
    std::vector<bool> used(n);
    std::vector<Members> chained;
    chained.reserve(n);
    for (size_t current = 0;;) {
      used[current] = true;
      chained.push_back(std::move(clusters[current]));
      if (chained.size() == n) break;
      const float* from = &directions[current * dim()];
      float best = -2;
      size_t next = 0;
      for (size_t i = 0; i < n; ++i) {
        if (used[i]) continue;
        const float similarity =
            std::inner_product(from, from + dim(), &directions[i * dim()], 0.0f);
        if (similarity > best) {
          best = similarity;
          next = i;
        }
      }
      current = next;
    }
    clusters = std::move(chained);
  }

  // Mean of rows as f16; the mean is taken in double.
  std::vector<f16> RoundedMean(Rows<const float> rows, const Members& members) const {
    std::vector<double> sum(rows.num_cols);
    for (const uint32_t member : members) {
      for (size_t c = 0; c < rows.num_cols; ++c) sum[c] += rows[member][c];
    }
    std::vector<f16> mean(rows.num_cols);
    for (size_t c = 0; c < rows.num_cols; ++c) {
      mean[c] = ToF16(static_cast<float>(sum[c] / static_cast<double>(members.size())));
    }
    return mean;
  }

  TreeLevel Describe(const std::vector<Members>& clusters) const {
    TreeLevel level;
    for (const Members& cluster : clusters) {
      const std::vector<f16> centroid = RoundedMean(keys_, cluster);
      const std::vector<f16> value = RoundedMean(values_, cluster);
      double radius = 0, variance = 0;
      for (const uint32_t member : cluster) {
        double distance = 0;
        for (size_t c = 0; c < dim(); ++c) {
          const double difference = double{keys_[member][c]} - ToFloat(centroid[c]);
          distance += difference * difference;
        }
        radius = std::max(radius, distance);
        variance += distance;
      }
      level.centroids.insert(level.centroids.end(), centroid.begin(), centroid.end());
      level.mean_values.insert(level.mean_values.end(), value.begin(), value.end());
      level.key_counts.push_back(static_cast<uint32_t>(cluster.size()));
      // The next float up: the bound must hold after rounding.
      level.radii.push_back(std::nextafter(static_cast<float>(std::sqrt(radius)), INFINITY));
      level.variances.push_back(static_cast<float>(variance / static_cast<double>(cluster.size()) /
                                                   static_cast<double>(dim())));
    }
    return level;
  }

  const Backend& backend_;
  const Rows<const float> keys_, values_;
  const BuildOptions& options_;
  std::vector<float> unit_;      // [n, head_dim]: keys at unit length
  std::vector<float> gathered_;  // of the members being clustered
};

}  // namespace

std::vector<double> LevelFractions(uint32_t num_levels) {
  switch (num_levels) {
    case 1:
      return {0.05};
    case 2:
      return {0.01, 0.05};
    default:
      return {0.002, 0.01, 0.05};
  }
}

Result<CentroidTree> BuildTree(const Backend& backend, Rows<const float> keys,
                               Rows<const float> values, const BuildOptions& options) {
  assert(keys.num_rows >= 1 && keys.num_rows == values.num_rows && !options.fractions.empty());
  return Builder(backend, keys, values, options).Run();
}

}  // namespace lectern
