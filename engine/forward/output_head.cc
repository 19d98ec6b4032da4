#include "engine/forward/output_head.h"

#include <cmath>
#include <functional>
#include <numeric>

namespace lectern {
namespace {

// Sizes of work items for the threads; they change the speed only. By hand.
constexpr size_t kPanelsPerItem = 16;  // of bounds
constexpr size_t kChosenPerItem = 4;   // panels that are multiplied in full
// With more input rows arithmetic takes longer than reading, and bounds save little of it: with 8
// rows bounds took 13 of the product's 16 ms before anything was multiplied in full
// (tests/bench/RESULTS.md, "The output head").
constexpr size_t kMostRows = 4;
// A known eight is a cache line in every panel, apart from others, and costs as much as this many
// times its bytes in a row: 16 of them took 2.1 ms where so many bytes take 0.7
// (tests/bench/RESULTS.md, "The output head").
constexpr double kKnownCost = 3;
// Where this many panels times `count` are not there, the first guesses alone would multiply much
// of the matrix. By hand.
constexpr size_t kPanelsPerWanted = 16;
// The share is an average over about so many of the latest steps; after it has come to cost more
// than it saves, so many steps go without bounds before the next trial. By hand: such a trial costs
// about half of the matrix, a thirtieth of what 16 steps read of it.
constexpr double kLatestSteps = 8;
constexpr uint32_t kRestingSteps = 16;

// With more than half of the low plane the bounds would read as good as the whole matrix.
size_t MostKnown(const PackedRows& head) { return head.num_cols / kPlaneEight / 2; }

// The largest float that is at most x.
float RoundedDown(double x) {
  const auto nearest = static_cast<float>(x);
  const float below = std::nextafter(nearest, -std::numeric_limits<float>::infinity());
  return static_cast<double>(nearest) > x ? below : nearest;
}

}  // namespace

bool OutputHead::FindLikely(const Int8Rows& input, const PackedRows& head,
                            const WantedLogits& wanted, const Backend& backend, ThreadPool& threads,
                            Rows<float> logits) {
  const size_t panels = head.num_panels(), rows = input.num_rows;
  if (wanted.all() || rows > kMostRows || wanted.count > panels / kPanelsPerWanted) return false;
  if (num_resting_ > 0) return --num_resting_, false;
  num_known_ = std::min(num_known_, MostKnown(head));
  if (!input_.Set(input, num_known_)) return false;
  likely_.resize(std::max(likely_.size(), rows * panels));
  most_.resize(likely_.size());
  const Rows<float> likely(likely_.data(), rows, panels), most(most_.data(), rows, panels);
  const size_t items = (panels + kPanelsPerItem - 1) / kPanelsPerItem;
  threads.ParallelFor(items, [&](size_t item, size_t) {
    const size_t begin = item * kPanelsPerItem;
    backend.plane_bounds({.input = input_,
                          .weight = head,
                          .likely = likely,
                          .most = most,
                          .panel_begin = begin,
                          .panel_end = std::min(begin + kPanelsPerItem, panels)});
  });
  double share = 0;
  bool is_found = true;
  for (size_t row = 0; is_found && row < rows; ++row) {
    is_found = FindRow(input, row, head, wanted, backend, threads, logits);
    share += static_cast<double>(chosen_.size()) / static_cast<double>(panels);
    counts_.panels += chosen_.size();
  }
  counts_.rows += is_found ? rows : 0;
  Learn(is_found ? share : 1, head);
  return is_found;
}

// Costs are counted in bytes of the matrix, which bound the time. Twice the known eights leave a
// quarter of the panels or less, and half of them four times as many or more: so it was for hidden
// states of two models. Panels count twice where the number is chosen, because the average is often
// far below what a step needs. Other models make the choice worse, and the tokens no others.
void OutputHead::Learn(double share, const PackedRows& head) {
  const double all = static_cast<double>(head.panel_bytes() + head.low_panel_bytes());
  const auto of_known = [&](size_t count) {
    return kKnownCost * static_cast<double>(count * kPlaneBytes) / (kPackedGroup / kPlaneEight) /
           all;
  };
  share_ += (std::min(share, 1.0) - share_) / kLatestSteps;
  if (1.5 * share_ > of_known(num_known_) && 2 * num_known_ <= MostKnown(head)) {
    num_known_ = std::max<size_t>(1, 2 * num_known_);
    share_ /= 4;
  } else if (6 * share_ < of_known(num_known_) / 2) {
    num_known_ /= 2;
    share_ *= 4;
  }
  if (static_cast<double>(head.panel_bytes()) / all + of_known(num_known_) + share_ > 1) {
    num_resting_ = kRestingSteps;
  }
}

void OutputHead::Multiply(const Int8Rows& input, size_t row, const PackedRows& head, size_t begin,
                          size_t end, const Backend& backend, ThreadPool& threads,
                          Rows<float> logits) const {
  const Int8Rows one = input.Slice(row, row + 1);
  const auto run = [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      const size_t column = chosen_[i] * kPackedColumns;
      backend.packed_matmul({.input = one,
                             .weight = head,
                             .output = logits.Slice(row, row + 1),
                             .column_begin = column,
                             .column_end = std::min(column + kPackedColumns, head.num_rows),
                             .accumulate = false});
    }
  };
  if (end - begin <= kChosenPerItem) return run(begin, end);
  const size_t items = (end - begin + kChosenPerItem - 1) / kChosenPerItem;
  threads.ParallelFor(items, [&](size_t item, size_t) {
    const size_t first = begin + item * kChosenPerItem;
    run(first, std::min(first + kChosenPerItem, end));
  });
}

// The panels with the likeliest guesses come first: `count` of them hold as many logits that are
// no smaller than the last of these guesses, nearly. The count-th largest logit in them is at most
// that of all rows, so a panel whose bound lies below it, less the slack, has no wanted logit.
bool OutputHead::FindRow(const Int8Rows& input, size_t row, const PackedRows& head,
                         const WantedLogits& wanted, const Backend& backend, ThreadPool& threads,
                         Rows<float> logits) {
  const size_t panels = head.num_panels(), count = wanted.count;
  const float* const likely = likely_.data() + row * panels;
  float* const most = most_.data() + row * panels;
  chosen_.clear();
  if (count == 1) {
    chosen_.push_back(static_cast<uint32_t>(std::max_element(likely, likely + panels) - likely));
  } else {
    chosen_.resize(panels);
    std::iota(chosen_.begin(), chosen_.end(), 0u);
    std::nth_element(chosen_.begin(), chosen_.begin() + static_cast<ptrdiff_t>(count - 1),
                     chosen_.end(), [&](uint32_t a, uint32_t b) { return likely[a] > likely[b]; });
    chosen_.resize(count);
  }
  std::fill_n(logits[row], head.num_rows, -std::numeric_limits<float>::infinity());
  Multiply(input, row, head, 0, count, backend, threads, logits);
  largest_.clear();
  for (const uint32_t panel : chosen_) {
    const size_t begin = panel * kPackedColumns;
    const size_t end = std::min(begin + kPackedColumns, head.num_rows);
    largest_.insert(largest_.end(), logits[row] + begin, logits[row] + end);
    most[panel] = -std::numeric_limits<float>::infinity();  // done
  }
  std::nth_element(largest_.begin(), largest_.begin() + static_cast<ptrdiff_t>(count - 1),
                   largest_.end(), std::greater<>());
  const auto last = static_cast<double>(largest_[count - 1]);
  const float threshold = RoundedDown(last - wanted.slack);
  for (size_t panel = 0; panel < panels; ++panel) {
    if (!(most[panel] < threshold)) chosen_.push_back(static_cast<uint32_t>(panel));
  }
  // Half of the matrix has been read for the bounds; beyond this, all of it costs no more.
  if (chosen_.size() > panels / 2) return false;
  Multiply(input, row, head, count, chosen_.size(), backend, threads, logits);
  if (!std::isfinite(wanted.farthest)) return true;
  double largest = last;
  for (const uint32_t panel : chosen_) {
    const size_t begin = panel * kPackedColumns;
    const size_t end = std::min(begin + kPackedColumns, head.num_rows);
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, double{logits[row][i]});
  }
  return largest - last <= wanted.farthest;
}

}  // namespace lectern
