// Turns the tokens of an answer into the text that a user sees, as the tokens come: the answer, and
// apart from it the model's thoughts before it. Also ends answers at stop texts, and notices
// answers that go round in a loop. DocumentSession uses it while it decodes.
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

// The text that one token makes showable, valid UTF-8; often empty, because bytes, marks and stop
// texts may be incomplete.
struct ShownText {
  std::string answer, reasoning;
};

// Ends a text before the first stop text that is complete in it. If several are complete with the
// same byte, the longest counts. The result does not depend on how the text was cut into pieces.
// One thread.
class StopTexts {
 public:
  // `stops`: none is empty; they must outlive this. Without any, all text passes at once.
  explicit StopTexts(std::span<const std::string> stops) : stops_(stops) {}
  // Takes the next piece of the text and returns the part that can be shown now: everything but an
  // end that may be the beginning of a stop text. Returns nothing once a stop text was found.
  std::string Push(std::string_view text);
  // The text has ended: returns the part that was held back; nothing where a stop text was found.
  // No Push may follow.
  std::string Flush();
  // The stop text that ended the text, one of the constructor's; nullptr: none was found yet.
  const std::string* found() const { return found_; }
  bool is_found() const { return found_ != nullptr; }

 private:
  const std::span<const std::string> stops_;
  // Text that was passed to Push and not returned yet: an end that may begin a stop text.
  std::string held_;
  const std::string* found_ = nullptr;
};

// The text that begins the next question in a template without control tokens ("plain"); empty for
// other ones. A model that was never taught to end its turn goes on with it, so it ends the answer.
std::string_view NextTurnOf(const ChatTemplate& chat);

// Splits an answer into text and thoughts as it is decoded. White space at the end of both is held
// back until something follows it, so that none is shown at the very end; at the beginning of
// thoughts, and behind them, it is dropped, and so is a space that is the answer's first byte.
// White space is ASCII's alone. Control tokens are not shown. One thread.
class AnswerText {
 public:
  // `marks`: the texts between which the model thinks; empty where it has none. `is_thinking`: the
  // prompt ended with the first mark, so the answer begins inside. `stops`: texts that end the
  // answer, not its thoughts, and are no part of it; none is empty. All arguments must outlive
  // this.
  AnswerText(const Tokenizer& tokenizer, const ThinkingMarks& marks, bool is_thinking,
             std::span<const std::string> stops = {});

  // Takes the answer's next token and returns the text that can be shown now.
  ShownText Push(int32_t id);
  // The answer has ended: returns the rest, without white space at its end; an unfinished character
  // is U+FFFD. No Push may follow.
  ShownText Flush();
  // The number of tokens that were pushed while the model thought, marks included.
  uint64_t reasoning_tokens() const { return reasoning_tokens_; }
  bool is_thinking() const { return state_ == State::kThinking; }
  // Whether a stop text was found, by Push or by Flush. Tokens that are pushed afterwards show
  // nothing.
  bool is_stopped() const { return stop() != nullptr; }
  const std::string* stop() const { return stops_.found(); }  // that text; nullptr: none
  // The number of bytes of the answer that tokens have brought so far, with a stop text and
  // everything behind it.
  uint64_t num_brought() const { return num_brought_; }
  // How many of these bytes, from the first on, are no longer held back. Once an answer is stopped
  // and flushed, the rest will never be shown.
  uint64_t num_settled() const { return num_passed_ - (is_thinking() ? 0 : held_.size()); }

 private:
  // kBeginning: nothing but white space so far, so a thought may still begin.
  enum class State { kBeginning, kThinking, kAnswering };
  // Passes a token's text to the part for the state. `is_control`: the token is a control token.
  void Take(std::string_view text, bool is_control, ShownText* shown);
  void TakeBeginning(ShownText* shown);
  // Shows pending_ up to the mark that ends the thought.
  void TakeThinking(ShownText* shown);
  // Shows text of the answer, by way of the stop texts.
  void Answer(std::string_view text, ShownText* shown);
  // Appends the text to `to` except white space at its end, which waits in held_ for what follows.
  void Show(std::string_view text, std::string* to);

  const Tokenizer& tokenizer_;
  const ThinkingMarks& marks_;
  TokenStream stream_;
  State state_;
  std::string pending_;  // may yet become a mark
  std::string held_;     // white space that has not been shown
  StopTexts stops_;
  uint64_t num_brought_ = 0, num_passed_ = 0;  // before and behind stops_
  bool strips_beginning_ = false;  // drops white space until other text comes
  uint64_t reasoning_tokens_ = 0;
};

// Notices an answer that repeats itself: its last tokens are at least kLeastRounds copies of one
// run of tokens, and at least kLeastTokens in all. One thread.
class LoopDetector {
 public:
  // Longer runs are not found, because each length of a run costs a comparison for every token.
  static constexpr size_t kLongestRun = 64;
  // By these numbers real text (documentation, translations, programs) hardly ever looks like a
  // loop:
  //   SmolLM2's tokens  3.5 million  2 places, both one paragraph that a file has four times
  //   Gemma 3's tokens  4.5 million  1 place, a line that is ornament
  static constexpr size_t kLeastRounds = 4, kLeastTokens = 64;

  // Takes the answer's next token. True: the answer is in a loop with this token. Costs kLongestRun
  // comparisons.
  bool Push(int32_t id);

 private:
  std::array<int32_t, kLongestRun> last_{};  // the last tokens; number i is at i % kLongestRun
  size_t num_ids_ = 0;
  size_t matched_[kLongestRun + 1] = {};  // [length of a run]: last tokens that equal those before
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_ANSWER_TEXT_H_
