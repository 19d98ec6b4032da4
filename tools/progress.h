// Shows how far indexing is, on stderr.
#ifndef LECTERN_TOOLS_PROGRESS_H_
#define LECTERN_TOOLS_PROGRESS_H_

#include <chrono>
#include <map>
#include <string>

#include "engine/lectern.h"

namespace lectern::tools {

//   kBar    one line that is redrawn, for terminals
//   kPlain  a line per stage, 5 % or 30 s, for logs
//   kJson   an object per line: stage, done, total, tokens_per_second, eta_seconds (or null)
//   kAuto   kBar on a terminal that can, else kPlain
enum class ProgressStyle { kAuto, kBar, kPlain, kJson, kNone };
// "auto", "bar", …
const std::map<std::string, ProgressStyle>& ProgressStyles();

// One thread at a time.
class ProgressDisplay {
 public:
  explicit ProgressDisplay(ProgressStyle style);
  ~ProgressDisplay() { Clear(); }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  void Show(const api::Progress& progress);
  // Takes the bar away, before something else is said.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool IsDue(const api::Progress& progress) const;

  ProgressStyle style_;
  bool has_bar_ = false;
  std::string stage_;  // the rest: of the last time that something was shown
  double share_ = 0;
  Clock::time_point time_;
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_PROGRESS_H_
