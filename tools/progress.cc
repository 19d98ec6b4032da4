#include "tools/progress.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "engine/model/formats/json.h"
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

// "[######....]", with the share that is done.
std::string Bar(double share, size_t width) {
  std::string bar(static_cast<size_t>(share * static_cast<double>(width)), '#');
  bar.resize(width, '.');
  return "[" + bar + "] ";
}

// `text` with spaces behind it, so that the bar does not jump about.
std::string Padded(std::string text, size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

// The end of a name, of about `width` bytes, behind a mark if a part is cut off.
std::string EndOf(const std::string& name, size_t width) {
  if (name.size() <= width) return name;
  size_t at = name.size() - width;
  while (at < name.size() && (static_cast<uint8_t>(name[at]) & 0xC0) == 0x80) ++at;
  return "…" + name.substr(at);
}

// A line of fixed shape that overwrites the one before: the carriage return goes to its start, and
// the escape sequence at its end clears what a longer line before left behind. The whole line fits
// a terminal of 80 columns.
std::string BarLine(const api::Progress& progress, const FileOfMany* file) {
  const double share = ShareOf(progress);
  const std::string stage(progress.stage);
  if (file == nullptr) {
    return "\r" + Padded(stage, 10) + Bar(share, 24) + WholePercent(share) +
           SpeedAndRest(progress) + "\x1b[K";
  }
  std::string line = "\r" + Grouped(file->number) + " of " + Grouped(file->count) + "  " +
                     Printable(EndOf(file->name, 22), stderr) + "  " + Padded(stage, 10) +
                     Bar(share, 10) + WholePercent(share);
  if (file->eta_seconds >= 0) line += ", " + Duration(file->eta_seconds) + " left in all";
  return line + "\x1b[K";
}

std::string PlainLine(const api::Progress& progress, const FileOfMany* file) {
  std::string line = std::string(progress.stage) + ": " + WholePercent(ShareOf(progress)) + " (" +
                     Grouped(progress.done) + " of " + Grouped(progress.total) + ")" +
                     SpeedAndRest(progress);
  if (file == nullptr) return line + "\n";
  if (progress.total <= 1) line = progress.stage;  // a short step, of which there is no share
  line = Grouped(file->number) + " of " + Grouped(file->count) + "  " +
         Printable(file->name, stderr) + "  " + line;
  if (file->eta_seconds >= 0) line += ", " + Duration(file->eta_seconds) + " left in all";
  return line + "\n";
}

std::string JsonLine(const api::Progress& progress, const FileOfMany* file) {
  char numbers[160];
  std::snprintf(numbers, sizeof(numbers), "\"done\":%llu,\"total\":%llu,\"tokens_per_second\":%.1f",
                static_cast<unsigned long long>(progress.done),
                static_cast<unsigned long long>(progress.total), progress.tokens_per_second);
  const auto seconds = [](double eta) {
    char text[40] = "null";
    if (eta >= 0) std::snprintf(text, sizeof(text), "%.1f", eta);
    return std::string(text);
  };
  std::string line = "{\"stage\":\"" + std::string(progress.stage) + "\"," + numbers +
                     ",\"eta_seconds\":" + seconds(progress.eta_seconds);
  if (file != nullptr) {
    line += ",\"file\":" + Json(file->name).Dump() +
            ",\"file_number\":" + std::to_string(file->number) +
            ",\"files\":" + std::to_string(file->count) +
            ",\"all_eta_seconds\":" + seconds(file->eta_seconds);
  }
  return line + "}\n";
}

std::string Line(ProgressStyle style, const api::Progress& progress, const FileOfMany* file) {
  switch (style) {
    case ProgressStyle::kBar:
      return BarLine(progress, file);
    case ProgressStyle::kJson:
      return JsonLine(progress, file);
    default:
      return PlainLine(progress, file);
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

bool ProgressDisplay::IsDue(const api::Progress& progress, const FileOfMany* file) const {
  const double share = ShareOf(progress);
  if (file != nullptr && file->number != file_) return true;
  const bool is_new_stage = progress.stage != stage_ || (share == 1 && share_ < 1);
  const Clock::duration since = Clock::now() - time_;
  if (style_ == ProgressStyle::kPlain && file != nullptr) {
    return since >= 30s || (since >= 1s && (is_new_stage || share >= share_ + 0.05));
  }
  if (is_new_stage) return true;
  if (style_ == ProgressStyle::kPlain) return share >= share_ + 0.05 || since >= 30s;
  return since >= 100ms;
}

void ProgressDisplay::Show(const api::Progress& progress) { ShowIfDue(progress, nullptr); }

void ProgressDisplay::Show(const api::Progress& progress, const FileOfMany& file) {
  ShowIfDue(progress, &file);
}

void ProgressDisplay::ShowIfDue(const api::Progress& progress, const FileOfMany* file) {
  if (style_ == ProgressStyle::kNone || !IsDue(progress, file)) return;
  const std::string line = Line(style_, progress, file);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  has_bar_ = style_ == ProgressStyle::kBar;
  file_ = file != nullptr ? file->number : 0;
  stage_ = progress.stage;
  share_ = ShareOf(progress);
  time_ = Clock::now();
}

void ProgressDisplay::Clear() {
  if (has_bar_) std::fputs("\r\x1b[K", stderr);
  has_bar_ = false;
}

}  // namespace lectern::tools
