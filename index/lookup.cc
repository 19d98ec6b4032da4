#include "index/lookup.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "index/calibrate.h"

namespace lectern {
namespace {

constexpr size_t kTileRows = 64;   // query rows scored at a time
constexpr double kLookupShare = 0.25;

// A cluster of one head that may be opened or read.
struct Candidate {
  float score;      // S
  bool above;       // S > T
  uint32_t head;
  uint32_t cluster;
};

// Above its threshold first, then by score; ties by place, so that the order is one.
bool ComesBefore(const Candidate& a, const Candidate& b) {
  if (a.above != b.above) return a.above;
  if (a.score != b.score) return a.score > b.score;
  return a.head != b.head ? a.head < b.head : a.cluster < b.cluster;
}

std::vector<IndexRange> ToRanges(const std::vector<uint32_t>& ascending) {
  std::vector<IndexRange> ranges;
  for (const uint32_t i : ascending) {
    if (!ranges.empty() && ranges.back().end == i) {
      ++ranges.back().end;
    } else {
      ranges.push_back({i, i + 1});
    }
  }
  return ranges;
}

// Members of `ranges` that are not in `chosen` (both ascending).
std::vector<uint32_t> Without(const std::vector<IndexRange>& ranges,
                              const std::vector<uint32_t>& chosen) {
  std::vector<uint32_t> rest;
  auto next = chosen.begin();
  for (const IndexRange& range : ranges) {
    for (uint32_t i = range.begin; i < range.end; ++i) {
      while (next != chosen.end() && *next < i) ++next;
      if (next == chosen.end() || *next != i) rest.push_back(i);
    }
  }
  return rest;
}

// The lookup of one kv head, level after level.
class HeadLookup {
 public:
  HeadLookup(const LookupArgs& args, size_t head)
      : args_(args),
        head_(args.heads[head]),
        queries_(args.queries[head]),
        rejected_lse_(queries_.num_rows, -INFINITY) {
    open_ = {{0, static_cast<uint32_t>(head_.levels().front().num_clusters())}};
    selection_.looked_up.resize(head_.levels().size());
    selection_.tail.resize(head_.levels().size());
  }

  const std::vector<IndexRange>& open() const { return open_; }
  const std::vector<float>& scores() const { return scores_; }  // in the order of open()
  HeadSelection& selection() { return selection_; }
  double missed_above() const { return missed_mass_; }

  // S of every open cluster of the level.
  Status Score(size_t level) {
    const HeadIndex::Level& view = head_.levels()[level];
    log_counts_.clear();
    for (const IndexRange& range : open_) {
      LECTERN_RETURN_IF_ERROR(head_.VerifyCentroids(level, range));
      log_counts_.insert(log_counts_.end(), view.log_counts.begin() + range.begin,
                         view.log_counts.begin() + range.end);
    }
    selection_.looked_up[level] = open_;
    scores_.assign(log_counts_.size(), 0.0f);
    ForEachTile(level, [&](Rows<float> logits, size_t begin, size_t end) {
      const std::span<float> lse(lse_.data(), end - begin);
      std::copy_n(rejected_lse_.begin() + static_cast<ptrdiff_t>(begin), end - begin, lse.begin());
      args_.backend.add_row_lse({.logits = logits, .bias = log_counts_, .lse = lse});
      args_.backend.add_scores({.logits = logits, .lse = lse, .scores = scores_});
    });
    for (float& score : scores_) score /= static_cast<float>(queries_.num_rows);
    return {};
  }

  // Goes on with the children of `opened` (ascending); the others stay as tail and denominator.
  void Descend(size_t level, const std::vector<uint32_t>& opened) {
    std::vector<float> bias = log_counts_;
    const std::vector<uint32_t> rejected = Without(open_, opened);
    size_t column = 0;
    auto next = opened.begin();
    for (const IndexRange& range : open_) {
      for (uint32_t i = range.begin; i < range.end; ++i, ++column) {
        if (next != opened.end() && *next == i) {
          bias[column] = -INFINITY;
          ++next;
        } else {
          missed_mass_ += double{scores_[column]} * head_.levels()[level].key_counts[i];
        }
      }
    }
    if (!rejected.empty()) {
      ForEachTile(level, [&](Rows<float> logits, size_t begin, size_t end) {
        args_.backend.add_row_lse(
            {.logits = logits,
             .bias = bias,
             .lse = std::span<float>(rejected_lse_).subspan(begin, end - begin)});
      });
    }
    if (args_.tail) selection_.tail[level] = ToRanges(rejected);
    std::vector<IndexRange> below;
    const auto& children = head_.levels()[level].children;
    for (const IndexRange& range : ToRanges(opened)) {
      below.push_back({children[range.begin], children[range.end]});
    }
    open_ = std::move(below);
  }

  // The finest level: reads the rows of `chosen` (ascending).
  void Finish(size_t level, std::vector<uint32_t> chosen) {
    size_t column = 0;
    auto next = chosen.begin();
    for (const IndexRange& range : open_) {
      for (uint32_t i = range.begin; i < range.end; ++i, ++column) {
        if (next != chosen.end() && *next == i) {
          ++next;
        } else {
          missed_mass_ += double{scores_[column]} * head_.levels()[level].key_counts[i];
        }
      }
    }
    if (args_.tail) selection_.tail[level] = ToRanges(Without(open_, chosen));
    selection_.clusters = std::move(chosen);
    selection_.missed_mass = std::clamp(missed_mass_, 0.0, 1.0);
    CountBytes();
  }

 private:
  // Calls body(logits [rows, open clusters], begin, end) for tiles of query rows.
  template <typename Body>
  void ForEachTile(size_t level, const Body& body) {
    const HeadIndex::Level& view = head_.levels()[level];
    const size_t num_open = log_counts_.size();
    const size_t tile = std::min(kTileRows, queries_.num_rows);
    logits_.resize(tile * num_open);
    lse_.resize(tile);
    scratch_.resize(AttendScratch(tile, queries_.num_cols));
    for (size_t begin = 0; begin < queries_.num_rows; begin += tile) {
      const size_t end = std::min(begin + tile, queries_.num_rows);
      size_t column = 0;
      for (const IndexRange& range : open_) {
        args_.backend.key_logits(
            {.queries = queries_.Slice(begin, end),
             .keys = view.centroids.Slice(range.begin, range.end),
             .scale = args_.scale,
             .logits = {logits_.data() + column, end - begin, range.size(), num_open},
             .scratch = scratch_});
        column += range.size();
      }
      body(Rows<float>(logits_.data(), end - begin, num_open), begin, end);
    }
  }

  void CountBytes() {
    selection_.bytes = head_.BlockBytes({0, head_.num_exact()});
    for (const uint32_t cluster : selection_.clusters) {
      selection_.bytes += head_.BlockBytes(head_.ClusterRows(cluster));
    }
    for (size_t l = 0; l < head_.levels().size(); ++l) {
      const HeadIndex::Level& level = head_.levels()[l];
      for (const IndexRange& range : selection_.looked_up[l]) {
        selection_.bytes += range.size() * (level.centroids.row_bytes() + sizeof(uint32_t));
      }
      for (const IndexRange& range : selection_.tail[l]) {
        selection_.bytes += range.size() * level.mean_values.row_bytes();
      }
    }
  }

  const LookupArgs& args_;
  const HeadIndex& head_;
  const Rows<const float> queries_;
  std::vector<IndexRange> open_;
  std::vector<float> log_counts_, scores_;  // of open_
  std::vector<float> rejected_lse_;         // [R]: log mass of clusters rejected so far
  std::vector<float> logits_, lse_, scratch_;
  double missed_mass_ = 0;
  HeadSelection selection_;
};

// The lookup of a layer: all heads share its budget.
class LayerLookup {
 public:
  explicit LayerLookup(const LookupArgs& args) : args_(args) {
    for (size_t h = 0; h < args.heads.size(); ++h) lookups_.emplace_back(args, h);
    uint64_t dense = 0;
    for (const HeadIndex& head : args.heads) dense += head.dense_bytes();
    budget_ = args.kv_budget * static_cast<double>(dense);
    spent_ = static_cast<double>(FixedBytes(args.heads, args.tail));
    lookup_left_ = kLookupShare * budget_ - spent_;
    for (const HeadIndex& head : args.heads) {
      lookup_left_ += static_cast<double>(head.BlockBytes({0, head.num_exact()}));
      num_levels_ = head.levels().size();  // the same in every head of a shard
    }
  }

  Result<std::vector<HeadSelection>> Run() {
    for (size_t level = 0; level < num_levels_; ++level) {
      LECTERN_RETURN_IF_ERROR(ScoreAll(level));
      const bool finest = level + 1 == num_levels_;
      const std::vector<std::vector<uint32_t>> chosen =
          finest ? ChooseRows(level) : ChooseOpened(level);
      args_.threads.ParallelFor(lookups_.size(), [&](size_t head, size_t) {
        if (finest) {
          lookups_[head].Finish(level, chosen[head]);
        } else {
          lookups_[head].Descend(level, chosen[head]);
        }
      });
    }
    std::vector<HeadSelection> selections;
    for (HeadLookup& lookup : lookups_) selections.push_back(std::move(lookup.selection()));
    return selections;
  }

 private:
  Status ScoreAll(size_t level) {
    std::mutex mutex;
    Status first;
    args_.threads.ParallelFor(lookups_.size(), [&](size_t head, size_t) {
      Status status = lookups_[head].Score(level);
      std::lock_guard lock(mutex);
      if (!status.ok() && first.ok()) first = std::move(status);
    });
    return first;
  }

  double ClusterBytes(const HeadIndex::Level& level) const {
    return static_cast<double>(level.centroids.row_bytes() + sizeof(uint32_t) +
                               (args_.tail ? level.mean_values.row_bytes() : 0));
  }

  // All open clusters of the layer, best first; `kept_share` picks the threshold.
  std::vector<Candidate> Rank(size_t level, double kept_share) const {
    std::vector<Candidate> candidates;
    for (size_t h = 0; h < lookups_.size(); ++h) {
      const float threshold =
          std::exp(LogThreshold(args_.heads[h].thresholds(), static_cast<uint32_t>(level),
                                args_.queries[h].num_rows, kept_share));
      size_t column = 0;
      for (const IndexRange& range : lookups_[h].open()) {
        for (uint32_t i = range.begin; i < range.end; ++i, ++column) {
          const float score = lookups_[h].scores()[column];
          candidates.push_back({score, score > threshold, static_cast<uint32_t>(h), i});
        }
      }
    }
    std::sort(candidates.begin(), candidates.end(), ComesBefore);
    return candidates;
  }

  static void SortEach(std::vector<std::vector<uint32_t>>& lists) {
    for (std::vector<uint32_t>& list : lists) std::sort(list.begin(), list.end());
  }

  // Which clusters of an upper level to open: the best, until this level's part of the lookup bytes
  // is spent and what lies below can fill the budget.
  std::vector<std::vector<uint32_t>> ChooseOpened(size_t level) {
    double below_bytes = 0, row_bytes = 0;  // of everything that could be opened
    for (size_t h = 0; h < lookups_.size(); ++h) {
      const HeadIndex& head = args_.heads[h];
      below_bytes += ClusterBytes(head.levels()[level + 1]) *
                     static_cast<double>(head.levels()[level + 1].num_clusters());
      row_bytes += static_cast<double>(head.dense_bytes());
    }
    // The levels below share what is left in proportion to their usual sizes: finer takes more.
    const size_t levels_below = num_levels_ - 1 - level;
    const double allowed = std::max(0.0, lookup_left_) / static_cast<double>(2 * levels_below - 1);
    const double kept_share = std::min(1.0, std::max(allowed / below_bytes, 0.01));
    double opened_bytes = 0, opened_rows = 0;
    std::vector<std::vector<uint32_t>> opened(lookups_.size());
    for (const Candidate& candidate : Rank(level, kept_share)) {
      const HeadIndex& head = args_.heads[candidate.head];
      const HeadIndex::Level& view = head.levels()[level];
      const bool can_fill = opened_rows > 1.2 * (budget_ - spent_ - opened_bytes);
      const double bytes =
          ClusterBytes(head.levels()[level + 1]) *
          (view.children[candidate.cluster + 1] - view.children[candidate.cluster]);
      if (can_fill && opened_bytes + bytes > allowed) break;
      if (spent_ + opened_bytes + bytes > kCutAt * budget_) continue;
      opened[candidate.head].push_back(candidate.cluster);
      opened_bytes += bytes;
      // An opened cluster needs no mean value of its own.
      if (args_.tail) opened_bytes -= static_cast<double>(view.mean_values.row_bytes());
      opened_rows += row_bytes / static_cast<double>(TotalRows()) *
                     view.key_counts[candidate.cluster];
    }
    spent_ += opened_bytes;
    lookup_left_ -= opened_bytes;
    SortEach(opened);
    return opened;
  }

  uint64_t TotalRows() const {
    uint64_t rows = 0;
    for (const HeadIndex& head : args_.heads) rows += head.num_rows();
    return rows;
  }

  // Whose rows to read: above threshold while the cap allows, below it until the floor is reached.
  std::vector<std::vector<uint32_t>> ChooseRows(size_t level) {
    double all_rows = 0;
    for (const HeadIndex& head : args_.heads) all_rows += static_cast<double>(head.dense_bytes());
    const double kept_share = std::max(0.01, (budget_ - spent_) / all_rows);
    std::vector<std::vector<uint32_t>> chosen(lookups_.size());
    for (const Candidate& candidate : Rank(level, kept_share)) {
      const HeadIndex& head = args_.heads[candidate.head];
      double bytes = static_cast<double>(head.BlockBytes(head.ClusterRows(candidate.cluster)));
      if (args_.tail) bytes -= static_cast<double>(head.levels()[level].mean_values.row_bytes());
      if (!candidate.above && spent_ >= kFillTo * budget_) break;
      if (spent_ + bytes > kCutAt * budget_) continue;
      chosen[candidate.head].push_back(candidate.cluster);
      spent_ += bytes;
    }
    SortEach(chosen);
    return chosen;
  }

  const LookupArgs& args_;
  std::vector<HeadLookup> lookups_;
  size_t num_levels_ = 0;
  double budget_ = 0;       // bytes of the layer
  double spent_ = 0;        // bytes so far
  double lookup_left_ = 0;  // of the quarter for looking up
};

}  // namespace

uint64_t FixedBytes(std::span<const HeadIndex> heads, bool tail) {
  uint64_t bytes = 0;
  for (const HeadIndex& head : heads) {
    const HeadIndex::Level& top = head.levels().front();
    bytes += head.BlockBytes({0, head.num_exact()}) +
             top.num_clusters() * (top.centroids.row_bytes() + sizeof(uint32_t) +
                                   (tail ? top.mean_values.row_bytes() : 0));
  }
  return bytes;
}

double SmallestBudget(std::span<const HeadIndex> heads, bool tail) {
  uint64_t dense = 0, largest = 0;
  for (const HeadIndex& head : heads) {
    dense += head.dense_bytes();
    for (uint32_t i = 0; i < head.levels().back().num_clusters(); ++i) {
      largest = std::max(largest, head.BlockBytes(head.ClusterRows(i)));
    }
  }
  // Room for the largest cluster beside the fixed cost, so that filling never overshoots.
  return static_cast<double>(FixedBytes(heads, tail) + largest) / static_cast<double>(dense);
}

Result<std::vector<HeadSelection>> Lookup(const LookupArgs& args) {
  return LayerLookup(args).Run();
}

}  // namespace lectern
