#include "tools/evaluate/paper_lookup.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include "index/kmeans.h"
#include "kernels/attention.h"

namespace lectern::evaluate {
namespace {

// The paper's settings: 5 % of the keys as clusters, two levels with 1 %, whose threshold keeps
// half of the keys.
constexpr double kFinestShare = 0.05, kTopShare = 0.01;  // clusters per key
constexpr double kTopKept = 0.5;                         // of the keys, by the first level
constexpr uint32_t kIterations = 10;                     // of K-means
constexpr size_t kTileRows = 64;  // query rows at a time: bounds the memory of their logits

// A number of clusters, at least one.
uint32_t Share(double share, size_t num_keys) {
  return std::max(1u, static_cast<uint32_t>(share * static_cast<double>(num_keys)));
}

// The rows scaled to length 1; zeros stay zeros.
std::vector<float> UnitLength(const std::vector<float>& rows, size_t dim) {
  std::vector<float> unit = rows;
  for (size_t begin = 0; begin < unit.size(); begin += dim) {
    double square = 0;
    for (size_t i = 0; i < dim; ++i) square += double{unit[begin + i]} * unit[begin + i];
    const auto scale = static_cast<float>(1 / std::max(std::sqrt(square), 1e-9));
    for (size_t i = 0; i < dim; ++i) unit[begin + i] *= scale;
  }
  return unit;
}

// The members of each label that is used, ascending; labels without members are dropped, so that
// clusters are numbered without gaps.
std::vector<std::vector<uint32_t>> Members(const std::vector<uint32_t>& labels, size_t count) {
  std::vector<std::vector<uint32_t>> members(count);
  for (uint32_t i = 0; i < labels.size(); ++i) members[labels[i]].push_back(i);
  std::erase_if(members, [](const auto& m) { return m.empty(); });
  return members;
}

// The mean row of each cluster, [clusters, dim], summed in double.
std::vector<float> Means(const std::vector<float>& rows, size_t dim,
                         const std::vector<std::vector<uint32_t>>& members) {
  std::vector<float> means;
  for (const auto& cluster : members) {
    std::vector<double> sum(dim, 0.0);
    for (const uint32_t row : cluster) {
      for (size_t i = 0; i < dim; ++i) sum[i] += rows[row * dim + i];
    }
    for (const double s : sum) {
      means.push_back(static_cast<float>(s / static_cast<double>(cluster.size())));
    }
  }
  return means;
}

// 0, 1, …, count - 1.
std::vector<uint32_t> All(size_t count) {
  std::vector<uint32_t> all(count);
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

}  // namespace

// Clusters one head on both levels. Keys are those behind sinks and window, which are always read.
Status PaperLookup::BuildHead(const HeadIndex& index, const Backend& backend, uint64_t seed,
                              Head& head) {
  const uint32_t first = index.num_exact();
  const size_t num_keys = index.num_rows() - first;
  const size_t dim = index.levels().back().centroids.num_cols;
  std::vector<float> keys(num_keys * dim);
  for (uint32_t i = 0; i < index.levels().back().num_clusters(); ++i) {
    const IndexRange block = index.ClusterRows(i);
    LECTERN_RETURN_IF_ERROR(index.VerifyRows(block));
    backend.to_float_rows(index.Keys(block),
                          {keys.data() + (block.begin - first) * dim, block.size(), dim});
  }
  const auto cluster = [&](const std::vector<float>& rows, uint32_t count) {
    const std::vector<float> unit = UnitLength(rows, dim);
    return KMeans(
        backend, {unit.data(), rows.size() / dim, dim},
        {.num_clusters = count, .num_iterations = kIterations, .seed = seed, .is_cancelled = {}});
  };
  const uint32_t count = Share(kFinestShare, num_keys);
  LECTERN_ASSIGN(const std::vector<uint32_t> labels, cluster(keys, count));
  head.rows = Members(labels, count);
  head.centroids = Means(keys, dim, head.rows);
  for (auto& rows : head.rows) {
    for (uint32_t& row : rows) row += first;
    head.log_counts.push_back(std::log(static_cast<float>(rows.size())));
  }
  const uint32_t top_count = Share(kTopShare, num_keys);
  LECTERN_ASSIGN(const std::vector<uint32_t> top_labels, cluster(head.centroids, top_count));
  head.children = Members(top_labels, top_count);
  head.top = Means(head.centroids, dim, head.children);
  for (const auto& children : head.children) {
    size_t num_rows = 0;
    for (const uint32_t child : children) num_rows += head.rows[child].size();
    head.top_log_counts.push_back(std::log(static_cast<float>(num_rows)));
  }
  return {};
}

Result<std::unique_ptr<PaperLookup>> PaperLookup::Build(const Document& document,
                                                        const Backend& backend, ThreadPool& threads,
                                                        uint64_t seed) {
  auto lookup = std::make_unique<PaperLookup>();
  for (uint32_t layer = 0; layer < document.num_layers(); ++layer) {
    std::vector<Head>& built = lookup->layers_.emplace_back();
    if (document.is_windowed(layer)) continue;
    LECTERN_ASSIGN(const std::span<const HeadIndex> heads, document.Heads(layer));
    built.resize(heads.size());
    std::mutex mutex;  // guards `first`, the first error of any thread
    Status first;
    threads.ParallelFor(heads.size(), [&](size_t h, size_t) {
      Status status = BuildHead(heads[h], backend, seed, built[h]);
      if (status.ok()) return;
      std::lock_guard lock(mutex);
      if (first.ok()) first = std::move(status);
    });
    LECTERN_RETURN_IF_ERROR(first);
  }
  return lookup;
}

// The scores S of the chosen clusters, [chosen]: the mean over query rows of the softmax weight of
// one key of the cluster, with a denominator over the chosen clusters alone. log N_j enters as a
// bias, so that a cluster counts once for each of its keys.
std::vector<float> PaperLookup::Scores(const LookupArgs& args, size_t h,
                                       const std::vector<float>& centroids,
                                       const std::vector<float>& log_counts,
                                       const std::vector<uint32_t>& chosen) {
  const Rows<const float> queries = args.queries[h];
  const size_t dim = queries.num_cols;
  std::vector<float> picked, bias;
  for (const uint32_t i : chosen) {
    picked.insert(picked.end(), centroids.begin() + static_cast<ptrdiff_t>(i * dim),
                  centroids.begin() + static_cast<ptrdiff_t>((i + 1) * dim));
    bias.push_back(log_counts[i]);
  }
  std::vector<float> scores(chosen.size(), 0.0f);
  std::vector<float> logits(kTileRows * chosen.size());
  std::vector<float> scratch(AttendScratch(kTileRows, dim));
  for (size_t begin = 0; begin < queries.num_rows; begin += kTileRows) {
    const size_t end = std::min(begin + kTileRows, queries.num_rows);
    const Rows<float> tile(logits.data(), end - begin, chosen.size());
    args.backend.key_logits({.queries = queries.Slice(begin, end),
                             .keys = {reinterpret_cast<const std::byte*>(picked.data()),
                                      Dtype::kF32, chosen.size(), dim},
                             .scale = args.scale,
                             .logits = tile,
                             .scratch = scratch});
    Softcap(args.backend, tile, args.softcap);
    std::vector<float> lse(end - begin, -INFINITY);
    args.backend.add_row_lse({.logits = tile, .bias = bias, .lse = lse});
    args.backend.add_scores({.logits = tile, .lse = lse, .scores = scores});
  }
  for (float& score : scores) score /= static_cast<float>(queries.num_rows);
  return scores;
}

// Score for one kv head.
PaperLookup::Candidates PaperLookup::ScoreHead(uint32_t layer, const LookupArgs& args, size_t h,
                                               uint32_t num_levels, double top_threshold) const {
  const Head& head = layers_[layer][h];
  // Centroids cost what ours do: f16, and a count.
  const uint64_t cluster_bytes = args.queries[h].num_cols * sizeof(f16) + sizeof(uint32_t);
  Candidates scored;
  if (num_levels == 1) {
    scored.clusters = All(head.rows.size());
  } else {
    const std::vector<uint32_t> tops = All(head.children.size());
    const std::vector<float> scores = Scores(args, h, head.top, head.top_log_counts, tops);
    for (const uint32_t top : tops) {
      if (!(scores[top] > top_threshold)) continue;
      scored.clusters.insert(scored.clusters.end(), head.children[top].begin(),
                             head.children[top].end());
    }
    scored.lookup_bytes = tops.size() * cluster_bytes;
  }
  if (scored.clusters.empty()) return scored;
  scored.scores = Scores(args, h, head.centroids, head.log_counts, scored.clusters);
  scored.lookup_bytes += scored.clusters.size() * cluster_bytes;
  return scored;
}

PaperLookup::Step PaperLookup::CopyStep(uint32_t layer, const LookupArgs& args, bool is_prefill) {
  Step step = {layer, is_prefill, args.queries[0].num_rows, args.softcap, {}};
  for (const Rows<const float>& queries : args.queries) {
    std::vector<float>& copy = step.queries.emplace_back();
    for (size_t r = 0; r < queries.num_rows; ++r) {
      copy.insert(copy.end(), queries[r], queries[r] + queries.num_cols);
    }
  }
  return step;
}

namespace {

// A cluster as calibration sees it.
struct Scored {
  float score;
  size_t rows;  // in the cluster
};

void BestFirst(std::vector<Scored>& scored) {
  std::sort(scored.begin(), scored.end(),
            [](const Scored& a, const Scored& b) { return a.score > b.score; });
}

// The threshold that keeps the best clusters as long as their rows together are at most `rows`; -1,
// below every score, if all fit.
double ThresholdFor(const std::vector<Scored>& best_first, double rows) {
  double kept = 0;
  for (const Scored& s : best_first) {
    kept += static_cast<double>(s.rows);
    if (kept > rows) return s.score;
  }
  return -1;
}

}  // namespace

Result<PaperLookup::Thresholds> PaperLookup::Calibrate(
    const Document& document, const Backend& backend, ThreadPool& threads,
    const std::vector<Step>& steps, uint32_t num_levels,
    const std::vector<double>& kv_budgets) const {
  Thresholds thresholds;
  thresholds.finest.resize(kv_budgets.size());
  // Decoding, then prefill: their queries differ, and so do the thresholds that spend the same.
  for (const size_t phase : {0, 1}) {
    const auto for_each_head = [&](const auto& body) -> Status {
      for (const Step& step : steps) {
        if (step.is_prefill != (phase == 1)) continue;
        LECTERN_ASSIGN(const std::span<const HeadIndex> heads, document.Heads(step.layer));
        const size_t dim = step.queries[0].size() / step.num_rows;
        std::vector<Rows<const float>> queries;
        for (const auto& copy : step.queries) queries.emplace_back(copy.data(), step.num_rows, dim);
        const LookupArgs args = {.backend = backend,
                                 .threads = threads,
                                 .heads = heads,
                                 .queries = queries,
                                 .scale = 1 / std::sqrt(static_cast<float>(dim)),
                                 .softcap = step.softcap,
                                 .kv_budget = 1,
                                 .tail = false};
        for (size_t h = 0; h < heads.size(); ++h) body(step, args, h);
      }
      return {};
    };
    if (num_levels == 2) {
      std::vector<Scored> tops;
      double all = 0;
      LECTERN_RETURN_IF_ERROR(
          for_each_head([&](const Step& step, const LookupArgs& args, size_t h) {
            const Head& head = layers_[step.layer][h];
            const std::vector<float> scores =
                Scores(args, h, head.top, head.top_log_counts, All(head.children.size()));
            for (size_t i = 0; i < scores.size(); ++i) {
              size_t rows = 0;
              for (const uint32_t child : head.children[i]) rows += head.rows[child].size();
              tops.push_back({scores[i], rows});
              all += static_cast<double>(rows);
            }
          }));
      BestFirst(tops);
      thresholds.top[phase] = ThresholdFor(tops, kTopKept * all);
    }
    std::vector<Scored> clusters;
    double dense_bytes = 0, spent_bytes = 0, row_bytes = 1;
    LECTERN_RETURN_IF_ERROR(for_each_head([&](const Step& step, const LookupArgs& args, size_t h) {
      const HeadIndex& index = args.heads[h];
      const Candidates found = ScoreHead(step.layer, args, h, num_levels, thresholds.top[phase]);
      for (size_t i = 0; i < found.clusters.size(); ++i) {
        clusters.push_back(
            {found.scores[i], layers_[step.layer][h].rows[found.clusters[i]].size()});
      }
      row_bytes = static_cast<double>(index.BlockBytes({0, 1}));
      dense_bytes += static_cast<double>(index.dense_bytes());
      spent_bytes +=
          static_cast<double>(found.lookup_bytes + index.BlockBytes({0, index.num_exact()}));
    }));
    BestFirst(clusters);
    for (size_t i = 0; i < kv_budgets.size(); ++i) {
      thresholds.finest[i][phase] =
          ThresholdFor(clusters, (kv_budgets[i] * dense_bytes - spent_bytes) / row_bytes);
    }
  }
  return thresholds;
}

std::vector<PaperLookup::Candidates> PaperLookup::Score(uint32_t layer, const LookupArgs& args,
                                                        uint32_t num_levels,
                                                        double top_threshold) const {
  std::vector<Candidates> candidates(args.heads.size());
  args.threads.ParallelFor(args.heads.size(), [&](size_t h, size_t) {
    candidates[h] = ScoreHead(layer, args, h, num_levels, top_threshold);
  });
  return candidates;
}

std::vector<HeadSelection> PaperLookup::Select(uint32_t layer, const LookupArgs& args,
                                               const std::vector<Candidates>& candidates,
                                               double finest_threshold) const {
  std::vector<HeadSelection> selections(args.heads.size());
  for (size_t h = 0; h < args.heads.size(); ++h) {
    const HeadIndex& index = args.heads[h];
    HeadSelection& selection = selections[h];
    for (size_t i = 0; i < candidates[h].clusters.size(); ++i) {
      if (!(candidates[h].scores[i] > finest_threshold)) continue;
      const auto& rows = layers_[layer][h].rows[candidates[h].clusters[i]];
      selection.rows.insert(selection.rows.end(), rows.begin(), rows.end());
    }
    std::sort(selection.rows.begin(), selection.rows.end());
    selection.bytes = index.BlockBytes({0, index.num_exact()}) + candidates[h].lookup_bytes +
                      selection.rows.size() * index.BlockBytes({0, 1});
  }
  return selections;
}

}  // namespace lectern::evaluate
