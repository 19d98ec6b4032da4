// Turns the tokens of an answer into what the user sees: its text, and apart from it what a model
// thought before it answered.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_ANSWER_TEXT_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_ANSWER_TEXT_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/model/template/chat_template.h"
#include "engine/model/tokenizer/tokenizer.h"

namespace lectern {

// Text that can be shown to the user now, valid UTF-8.
struct ShownText {
  std::string answer, reasoning;
};

// Ends a text before the first of some stop texts that is complete in it; of those that are
// complete with the same byte, before the longest. A text is the same however it was cut.
class StopTexts {
 public:
  // None of them is empty. They must outlive this.
  explicit StopTexts(std::span<const std::string> stops) : stops_(stops) {}
  // Returns the text that can be shown now: all but an end that a stop text may begin with; nothing
  // once a stop text was found.
  std::string Push(std::string_view text);
  std::string Flush();  // the end: what was held back
  bool is_found() const { return is_found_; }

 private:
  const std::span<const std::string> stops_;
  std::string held_;
  bool is_found_ = false;
};

// Splits an answer as it is decoded. White space at the end of both texts is held back until
// something follows it, so that none is shown at the very end. One thread.
class AnswerText {
 public:
  // `marks`: those that the model thinks between, or empty. `is_thinking`: the prompt ended with
  // the first of them. `stops`: texts that end the answer, not its thoughts, and are no part of it;
  // none empty. All arguments must outlive this.
  AnswerText(const Tokenizer& tokenizer, const ThinkingMarks& marks, bool is_thinking,
             std::span<const std::string> stops = {});

  ShownText Push(int32_t id);
  ShownText Flush();  // the end: unfinished characters become U+FFFD
  // Tokens that were pushed while the model thought, marks included.
  uint64_t reasoning_tokens() const { return reasoning_tokens_; }
  bool is_thinking() const { return state_ == State::kThinking; }
  bool is_stopped() const { return stops_.is_found(); }  // a stop text was found
  // Bytes of the answer that tokens have brought, a stop text included, and how many of the first
  // of them are no longer held back: all there will ever be once it is stopped and flushed.
  uint64_t num_brought() const { return num_brought_; }
  uint64_t num_settled() const { return num_passed_ - (is_thinking() ? 0 : held_.size()); }

 private:
  enum class State { kBeginning, kThinking, kAnswering };
  void Take(std::string_view text, bool is_control, ShownText* shown);
  void TakeBeginning(ShownText* shown);
  void TakeThinking(ShownText* shown);
  void Answer(std::string_view text, ShownText* shown);
  // Appends to `to`, but for white space at the end, which waits in held_.
  void Show(std::string_view text, std::string* to);

  const Tokenizer& tokenizer_;
  const ThinkingMarks& marks_;
  TokenStream stream_;
  State state_;
  std::string pending_;  // may yet become a mark
  std::string held_;     // white space that has not been shown
  StopTexts stops_;
  uint64_t num_brought_ = 0, num_passed_ = 0;  // before and behind stops_
  bool strips_beginning_ = false;
  uint64_t reasoning_tokens_ = 0;
};

// Notices answers that go round in a loop: the last tokens are at least kLeastRounds copies of one
// run of tokens, and at least kLeastTokens in all.
class LoopDetector {
 public:
  // Longer runs are not found, because each length of a run costs a comparison for every token.
  static constexpr size_t kLongestRun = 64;
  // By these numbers real text (documentation, translations, programs) hardly ever looks like a
  // loop:
  //   SmolLM2's tokens  3.5 million  2 places, both one paragraph that a file has four times
  //   Gemma 3's tokens  4.5 million  1 place, a line that is ornament
  static constexpr size_t kLeastRounds = 4, kLeastTokens = 64;

  // True: the answer has been in a loop since some time before this token.
  bool Push(int32_t id);

 private:
  std::array<int32_t, kLongestRun> last_{};  // the last tokens; number i is at i % kLongestRun
  size_t num_ids_ = 0;
  size_t matched_[kLongestRun + 1] = {};  // [length of a run]: last tokens that equal those before
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_ANSWER_TEXT_H_
