#include "engine/model/template/answer_text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/model/formats/text.h"

namespace lectern {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\v\f";

// Returns the length of the longest end of `text` that `mark` begins with, short of the whole mark:
// these bytes may yet become the mark and must wait.
size_t PartOfMark(std::string_view text, std::string_view mark) {
  size_t length = std::min(text.size(), mark.empty() ? 0 : mark.size() - 1);
  while (length > 0 && !mark.starts_with(text.substr(text.size() - length))) --length;
  return length;
}

}  // namespace

// Looks for the earliest end of a stop text, not for its earliest beginning: the text comes byte by
// byte in principle, and the stop text that is complete first must win however the pieces are cut.
// If two end together, the longer one has the earlier beginning, and more is hidden.
std::string StopTexts::Push(std::string_view text) {
  if (found_ != nullptr) return {};
  held_ += text;
  size_t begin = std::string::npos, end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos || at + stop.size() > end) continue;
    if (at + stop.size() < end || at < begin) found_ = &stop;
    begin = at + stop.size() == end ? std::min(begin, at) : at;
    end = at + stop.size();
  }
  const bool is_found = found_ != nullptr;
  size_t num_ready = is_found ? begin : held_.size();
  for (const std::string& stop : stops_) {
    if (!is_found) num_ready = std::min(num_ready, held_.size() - PartOfMark(held_, stop));
  }
  std::string ready = held_.substr(0, num_ready);
  held_.erase(0, is_found ? held_.size() : num_ready);
  return ready;
}

std::string StopTexts::Flush() { return std::exchange(held_, {}); }

AnswerText::AnswerText(const Tokenizer& tokenizer, const ThinkingMarks& marks, bool is_thinking,
                       std::span<const std::string> stops)
    : tokenizer_(tokenizer),
      marks_(marks),
      // The prompt ends before the answer's first space ("Answer:"), which is no part of the
      // answer.
      stream_(tokenizer, /*strip_leading_space=*/true),
      state_(is_thinking           ? State::kThinking
             : marks.begin.empty() ? State::kAnswering
                                   : State::kBeginning),
      stops_(stops),
      strips_beginning_(is_thinking) {}

// A token counts as thought if the model thought before it or thinks after it, so both marks count.
ShownText AnswerText::Push(int32_t id) {
  ShownText shown;
  const bool was_thinking = state_ == State::kThinking;
  const std::string_view control = tokenizer_.ControlText(id);
  if (control.empty()) {
    Take(stream_.Push(id), /*is_control=*/false, &shown);
  } else {
    Take(control, /*is_control=*/true, &shown);
  }
  reasoning_tokens_ += was_thinking || state_ == State::kThinking;
  return shown;
}

ShownText AnswerText::Flush() {
  ShownText shown;
  Take(stream_.Flush(), /*is_control=*/false, &shown);
  const std::string pending = std::exchange(pending_, {});
  if (is_thinking()) {
    Show(pending, &shown.reasoning);
  } else {
    Answer(pending, &shown);
    const std::string last = stops_.Flush();
    num_passed_ += last.size();
    Show(last, &shown.answer);
  }
  held_.clear();
  return shown;
}

void AnswerText::Take(std::string_view text, bool is_control, ShownText* shown) {
  // A control token is shown to nobody; it may be a mark, or begin one.
  const bool is_of_mark = std::ranges::any_of(
      std::array{&marks_.begin, &marks_.end, &marks_.turn, &marks_.answer},
      [&](const std::string* mark) { return mark->find(text) != std::string::npos; });
  if (text.empty() || (is_control && (marks_.begin.empty() || !is_of_mark))) return;
  if (state_ == State::kAnswering) {
    if (!is_control) Answer(text, shown);
    return;
  }
  pending_ += text;
  if (state_ == State::kBeginning) TakeBeginning(shown);
  if (state_ == State::kThinking) TakeThinking(shown);
}

// Decides at the first character that is no white space whether the model begins with a thought or
// with its answer; until then, and while a mark is incomplete, everything waits.
void AnswerText::TakeBeginning(ShownText* shown) {
  const size_t begin = pending_.find_first_not_of(kBlanks);
  if (begin == std::string::npos) return;
  const std::string_view whole = std::string_view(pending_).substr(begin);
  std::string_view rest = whole;
  if (!marks_.turn.empty() && rest.starts_with(marks_.turn)) {
    rest.remove_prefix(marks_.turn.size());
  }
  const bool is_open = std::ranges::any_of(
      std::array{&marks_.begin, &marks_.answer},
      [&](const std::string* mark) { return !mark->empty() && mark->starts_with(rest); });
  if (rest.starts_with(marks_.begin)) {
    pending_.erase(0, static_cast<size_t>(rest.data() - pending_.data()) + marks_.begin.size());
    state_ = State::kThinking;
    strips_beginning_ = true;
  } else if (!marks_.answer.empty() && rest.starts_with(marks_.answer)) {
    pending_.erase(0, static_cast<size_t>(rest.data() - pending_.data()) + marks_.answer.size());
    state_ = State::kAnswering;
    Answer(std::exchange(pending_, {}), shown);
  } else if (!is_open && !(rest == whole && marks_.turn.starts_with(rest))) {
    state_ = State::kAnswering;
    Answer(std::exchange(pending_, {}), shown);
  }
}

// Text that may be the beginning of the end mark waits in pending_.
void AnswerText::TakeThinking(ShownText* shown) {
  const size_t end = pending_.find(marks_.end);
  if (end == std::string::npos) {
    const size_t ready = pending_.size() - PartOfMark(pending_, marks_.end);
    Show(std::string_view(pending_).substr(0, ready), &shown->reasoning);
    pending_.erase(0, ready);
    return;
  }
  Show(std::string_view(pending_).substr(0, end), &shown->reasoning);
  pending_.erase(0, end + marks_.end.size());
  // The thought's last white space is dropped: held_ is about to serve the answer.
  held_.clear();
  strips_beginning_ = true;
  // Some models think again before they answer.
  state_ = State::kBeginning;
  TakeBeginning(shown);
  if (state_ == State::kThinking) TakeThinking(shown);
}

void AnswerText::Answer(std::string_view text, ShownText* shown) {
  num_brought_ += text.size();
  const std::string ready = stops_.Push(text);
  num_passed_ += ready.size();
  Show(ready, &shown->answer);
}

void AnswerText::Show(std::string_view text, std::string* to) {
  if (strips_beginning_) {
    const size_t begin = text.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return;
    text.remove_prefix(begin);
    strips_beginning_ = false;
  }
  const size_t last = text.find_last_not_of(kBlanks);
  if (last == std::string_view::npos) {
    held_ += text;
    return;
  }
  to->append(held_).append(text.substr(0, last + 1));
  held_ = text.substr(last + 1);
}

// For each length of a run it counts how many of the last tokens equal the token that far before
// them. `matched` tokens that repeat a run make matched + run tokens in the loop.
bool LoopDetector::Push(int32_t id) {
  bool is_loop = false;
  for (size_t run = 1; run <= std::min(kLongestRun, num_ids_); ++run) {
    matched_[run] = last_[(num_ids_ - run) % kLongestRun] == id ? matched_[run] + 1 : 0;
    is_loop |= matched_[run] + run >= std::max(kLeastTokens, kLeastRounds * run);
  }
  last_[num_ids_++ % kLongestRun] = id;
  return is_loop;
}

}  // namespace lectern
