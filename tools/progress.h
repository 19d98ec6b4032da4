// Shows on stderr how far indexing is: a bar on terminals, lines in logs, JSON for programs.
#ifndef LECTERN_TOOLS_PROGRESS_H_
#define LECTERN_TOOLS_PROGRESS_H_

#include <chrono>
#include <map>
#include <string>

#include "engine/lectern.h"

namespace lectern::tools {

// How progress is shown (--progress):
//   kBar    one line that is redrawn in place, for terminals
//   kPlain  a line at each new stage, each 5 % and each 30 s, for logs
//   kJson   one JSON object per line: stage, done, total, tokens_per_second, eta_seconds (or null
//           while it is not known); at most ten a second, beside new stages and their ends
//   kAuto   kBar where stderr is a terminal that can move its cursor (TERM is not "dumb"), else
//           kPlain
//   kNone   nothing
enum class ProgressStyle { kAuto, kBar, kPlain, kJson, kNone };
// The styles by the names that the flag takes: "auto", "bar", "plain", "json", "none".
const std::map<std::string, ProgressStyle>& ProgressStyles();

// Which file of a run over many the progress is about.
struct FileOfMany {
  size_t number = 0, count = 0;  // "3 of 40": from 1
  std::string name;              // as the user knows it
  double eta_seconds = -1;       // of all files that are left; below 0: unknown
};

// Decides when progress is worth showing, and shows it on stderr; a failed write is ignored. One
// thread at a time. The destructor clears the bar.
class ProgressDisplay {
 public:
  explicit ProgressDisplay(ProgressStyle style);  // resolves kAuto now, and prints nothing
  ~ProgressDisplay() { Clear(); }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  // Shows the progress where it is due: a new stage and the end of one always, in between as seldom
  // as the style says. Called for every step of the work; costs little where nothing is due.
  void Show(const api::Progress& progress);
  // The same of one file of many, whose place, name and time of all that is left are shown too: in
  // JSON as "file", "file_number", "files" and "all_eta_seconds" (or null). kPlain shows each file
  // once, and after a second as often as one alone.
  void Show(const api::Progress& progress, const FileOfMany& file);
  // Takes the bar away; does nothing where none is shown. Call it before anything else is printed,
  // or that stands behind the bar. The next Show draws the bar again when it is due.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;
  // Whether Show has to show this progress: a new stage, the end of one, or, since the last
  // output, 5 % or 30 s (kPlain), else 100 ms. kBar and kJson go by time alone: ten a second are
  // smooth, and a prefill of small chunks would write far more. A new file is always due. `file`
  // is null where there is only one. Changes nothing.
  bool IsDue(const api::Progress& progress, const FileOfMany* file) const;
  void ShowIfDue(const api::Progress& progress, const FileOfMany* file);

  ProgressStyle style_;
  bool has_bar_ = false;
  // The file, stage, share and time of the last output: the next one is due by them.
  size_t file_ = 0;
  std::string stage_;
  double share_ = 0;
  Clock::time_point time_;
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_PROGRESS_H_
