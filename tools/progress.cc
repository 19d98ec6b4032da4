#include "tools/progress.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tools/quantities.h"
#include "tools/terminal.h"

namespace lectern::tools {
namespace {

using namespace std::chrono_literals;

// kAuto resolved by the terminal; any other style as it is.
ProgressStyle Resolve(ProgressStyle style) {
  if (style != ProgressStyle::kAuto) return style;
  const char* const term = std::getenv("TERM");
  const bool can_redraw = IsTerminal(stderr) && term && std::string_view(term) != "dumb";
  return can_redraw ? ProgressStyle::kBar : ProgressStyle::kPlain;
}

// In [0, 1]; 0 where the total is not known yet.
double ShareOf(const api::Progress& progress) {
  if (progress.total == 0) return 0;
  return std::min(1.0, static_cast<double>(progress.done) / static_cast<double>(progress.total));
}

// Rounded down, so that "100 %" means done.
std::string WholePercent(double share) {
  return std::to_string(static_cast<int>(100 * share)) + " %";
}

// ", 87 tokens/s, 3 min 2 s left"; a part that is not known is left out.
std::string SpeedAndRest(const api::Progress& progress) {
  std::string text;
  if (progress.tokens_per_second > 0) {
    const auto speed = static_cast<uint64_t>(progress.tokens_per_second + 0.5);
    text += ", " + Grouped(speed) + " tokens/s";
  }
  if (progress.eta_seconds >= 0) text += ", " + Duration(progress.eta_seconds) + " left";
  return text;
}

// A line of fixed shape that overwrites the one before: the carriage return goes to its start, and
// the escape sequence at its end clears what a longer line before left behind.
std::string BarLine(const api::Progress& progress) {
  constexpr size_t kWidth = 24;  // the whole line fits a terminal of 80 columns
  const double share = ShareOf(progress);
  std::string bar(static_cast<size_t>(share * kWidth), '#');
  bar.resize(kWidth, '.');
  std::string stage(progress.stage);
  stage.resize(std::max<size_t>(stage.size(), 10), ' ');  // so that the bar does not jump about
  return "\r" + stage + "[" + bar + "] " + WholePercent(share) + SpeedAndRest(progress) + "\x1b[K";
}

std::string PlainLine(const api::Progress& progress) {
  return std::string(progress.stage) + ": " + WholePercent(ShareOf(progress)) + " (" +
         Grouped(progress.done) + " of " + Grouped(progress.total) + ")" + SpeedAndRest(progress) +
         "\n";
}

std::string JsonLine(const api::Progress& progress) {
  char numbers[160];
  std::snprintf(numbers, sizeof(numbers), "\"done\":%llu,\"total\":%llu,\"tokens_per_second\":%.1f",
                static_cast<unsigned long long>(progress.done),
                static_cast<unsigned long long>(progress.total), progress.tokens_per_second);
  char eta[40] = "null";
  if (progress.eta_seconds >= 0) std::snprintf(eta, sizeof(eta), "%.1f", progress.eta_seconds);
  return "{\"stage\":\"" + std::string(progress.stage) + "\"," + numbers +
         ",\"eta_seconds\":" + eta + "}\n";
}

std::string Line(ProgressStyle style, const api::Progress& progress) {
  switch (style) {
    case ProgressStyle::kBar:
      return BarLine(progress);
    case ProgressStyle::kJson:
      return JsonLine(progress);
    default:
      return PlainLine(progress);
  }
}

}  // namespace

const std::map<std::string, ProgressStyle>& ProgressStyles() {
  static const std::map<std::string, ProgressStyle> styles = {{"auto", ProgressStyle::kAuto},
                                                              {"bar", ProgressStyle::kBar},
                                                              {"plain", ProgressStyle::kPlain},
                                                              {"json", ProgressStyle::kJson},
                                                              {"none", ProgressStyle::kNone}};
  return styles;
}

ProgressDisplay::ProgressDisplay(ProgressStyle style) : style_(Resolve(style)) {}

bool ProgressDisplay::IsDue(const api::Progress& progress) const {
  const double share = ShareOf(progress);
  if (progress.stage != stage_ || (share == 1 && share_ < 1)) return true;
  const Clock::duration since = Clock::now() - time_;
  if (style_ == ProgressStyle::kPlain) return share >= share_ + 0.05 || since >= 30s;
  return since >= 100ms;
}

void ProgressDisplay::Show(const api::Progress& progress) {
  if (style_ == ProgressStyle::kNone || !IsDue(progress)) return;
  const std::string line = Line(style_, progress);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  has_bar_ = style_ == ProgressStyle::kBar;
  stage_ = progress.stage;
  share_ = ShareOf(progress);
  time_ = Clock::now();
}

void ProgressDisplay::Clear() {
  if (has_bar_) std::fputs("\r\x1b[K", stderr);
  has_bar_ = false;
}

}  // namespace lectern::tools
