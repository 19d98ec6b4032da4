// Measures how much longer a pass over the weights takes with more rows, to decide how many tokens
// of one answer are worth checking in one pass (engine/asking/proposals.h). The weights are read
// once for all rows, so a row more costs arithmetic alone; how much that is depends on model,
// machine and load, so it is measured while answers are decoded.
#ifndef LECTERN_ENGINE_FORWARD_PASS_COSTS_H_
#define LECTERN_ENGINE_FORWARD_PASS_COSTS_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

namespace lectern {

// Durations of passes by their number of rows. Not thread-safe; a copy is cheap.
class PassCosts {
 public:
  PassCosts() = default;
  // Each row behind the first takes this multiple of it, until passes are measured.
  explicit PassCosts(double slope) { slopes_.fill(slope); }
  // Takes note of a pass over `rows` >= 1 rows. Passes of several rows count from the first pass of
  // one row on.
  void Took(size_t rows, double seconds) {
    if (rows == 1) {
      one_ = one_ == 0 ? seconds : Smooth(one_, seconds, kLatestPasses);
    } else if (one_ > 0) {
      double& slope = slopes_[GroupOf(rows)];
      const double latest = std::max(0.0, (seconds / one_ - 1) / static_cast<double>(rows - 1));
      slope = slope < 0 ? std::clamp(latest, kLeastFirst, kMostFirst)
                        : Smooth(slope, latest, kLatestSlopes);
      trust_ = 1;
    }
  }
  // Lowers what further rows are thought to cost by a 64th, to a quarter of what was measured at
  // least. Called where a pass of several rows was not worth it: after some of those it is tried
  // again, because the machine's load may have changed. A trial in vain then costs little.
  void Forget() { trust_ = std::max(0.25, trust_ - trust_ / 64); }
  // Whether a pass of one row is known, so that Of has seconds; else a pass of one row is 1.
  bool is_known() const { return one_ > 0; }
  // Predicted seconds of a pass over `rows` >= 1 rows.
  double Of(size_t rows) const {
    const double further = static_cast<double>(rows - 1) * trust_ * Slope(GroupOf(rows));
    return (is_known() ? one_ : 1) * (1 + further);
  }

 private:
  // Rows 2, 3 and 4, 5 to 8, and more: kernels work on tiles of 1, 2, 4 and 8 rows.
  static constexpr size_t kGroups = 4;
  static size_t GroupOf(size_t rows) {
    return rows <= 1 ? 0 : std::min<size_t>(std::bit_width(rows - 1) - 1, kGroups - 1);
  }
  // An average over about so many of the latest measurements, of which none counts as more than
  // twice or less than half of it: another program may have had the core meanwhile. By hand.
  static constexpr double kLatestPasses = 8, kLatestSlopes = 4;
  static double Smooth(double average, double latest, double count) {
    const double known = std::max(average, 1e-9);
    return known + (std::clamp(latest, known / 2, 2 * known) - known) / count;
  }
  // Where no pass of several rows is known each row is thought to cost an eighth of the first, so
  // that one is tried early. A first measurement beyond these bounds was disturbed: later ones
  // could hardly mend it.
  static constexpr double kUntried = 0.125, kLeastFirst = 0.01, kMostFirst = 1;
  // The slope of a group of row counts, or that of the nearest one that was measured.
  double Slope(size_t group) const {
    for (size_t distance = 0; distance < kGroups; ++distance) {
      if (group >= distance && slopes_[group - distance] >= 0) return slopes_[group - distance];
      if (group + distance < kGroups && slopes_[group + distance] >= 0) {
        return slopes_[group + distance];
      }
    }
    return kUntried;
  }

  double one_ = 0;    // seconds of a pass of one row
  double trust_ = 1;  // what Forget has left of the slopes
  // Seconds of each further row, in multiples of one_; below 0: not measured.
  std::array<double, kGroups> slopes_ = {-1, -1, -1, -1};
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_FORWARD_PASS_COSTS_H_
