// Keeps an answer to a JSON schema while it is decoded: masks the tokens that may not come, and
// says those that must.
#ifndef LECTERN_ENGINE_ASKING_ANSWER_CONSTRAINT_H_
#define LECTERN_ENGINE_ASKING_ANSWER_CONSTRAINT_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constraint/json_schema.h"
#include "engine/constraint/token_masks.h"
#include "engine/forward/sampler.h"
#include "engine/model/model.h"
#include "engine/model/template/answer_text.h"
#include "store/status.h"

namespace lectern {

// Follows one answer from its first token on. Where the schema leaves one text alone, such as the
// names of members, its tokens are forced: nothing is drawn for them, and they can go through the
// model together. A model that thinks does so first and freely; the answer behind it is kept.
//
// A model that was taught plain answers, or none, does not know what to say behind `{"answer": "`.
// Where that is all that can come before a string that may begin with anything, such a model does
// not see it: it says its plain answer, which becomes the string.
//
// Small models often do not know where a string ends. One that would end its whole answer within a
// string ends the string; one that goes round in a loop is led out of it by EndLoop.
//
// The last forced token is left to the model where it ends with a blank, a letter or a digit and
// the vocabulary has longer tokens that may come in its place: tokenizers join these to what
// follows. One thread.
class AnswerConstraint {
 public:
  // Forced tokens that go through the model at once.
  static constexpr size_t kMostAtOnce = 32;

  // Compiles the schema. `prompt`: the text before the answer. `is_thinking`: the answer begins
  // with thoughts. `is_plain`: the model knows plain answers alone. Codes of CompileJsonSchema,
  // param "json_schema".
  static Result<std::unique_ptr<AnswerConstraint>> Create(std::shared_ptr<const Model> model,
                                                          std::string_view schema, bool is_strict,
                                                          std::string_view prompt, bool is_thinking,
                                                          bool is_plain);

  // Keywords of the schema to which the answer is not kept (JsonGrammar::not_kept).
  const std::vector<std::string>& not_kept() const { return json_.not_kept; }

  // A token of the answer, and the logits [vocab] that it was drawn from: -infinity for those that
  // may not come. No logits: it was forced. Valid until the next call.
  struct Drawn {
    int32_t id;  // -1: the model says a blank alone, which is no part of the answer
    std::span<const float> logits;
    int32_t said = id;  // goes through the model: the first of a plain answer may have a blank more
  };
  // The next token. A forced one needs no logits. kUnsupportedModel: the vocabulary has no token
  // that may come; codes of TokenMasks::Find.
  Result<Drawn> Draw(std::span<const float> logits, Sampler& sampler);
  // Takes the token that was drawn last, which `text` has taken, too.
  void Push(int32_t id, const AnswerText& text);
  // Whether the next token is forced. Then Draw does not read its logits.
  bool has_forced() const { return !forced_.empty(); }
  // Whether the next token must not go through the model: it stands before its plain answer, or is
  // a part of a token that has gone through it.
  bool is_unseen() const { return plain_.before > 0; }
  // Whether the answer has a plain one, so that not all of its tokens went through the model.
  bool has_plain() const { return plain_.is_there; }
  // Whether the answer is complete, and nothing may follow.
  bool is_done() const;
  // Called when the answer goes round in a loop. Forces the end of the string that is open, or of
  // the array or object; each call also ends one more of those around it. As many of them end as
  // the schema allows, and what follows is drawn as before. False: the loop before had no such end.
  bool EndLoop();

 private:
  AnswerConstraint(std::shared_ptr<const Model> model, JsonGrammar json);
  void BeginValue(uint32_t rule);
  // Finds the tokens that are forced at place_.
  void FindForced();
  // Begins a plain answer, if all that is forced ends where a string begins, with anything.
  void BeginPlain();
  // Lets no quotation mark come in a plain answer, and no line but the first.
  void EndPlainByLine(std::span<const float> logits, std::span<const uint64_t> allowed);
  // The tokens of a text that is part of a value; none: it has no tokens of its own.
  std::vector<int32_t> TokensOf(const std::string& text) const;
  // The place behind a token; kNowhere: it may not come.
  int32_t Behind(int32_t place, int32_t id);
  // Whether a longer token may come in place of `id`, behind which is `place`.
  bool HasLonger(int32_t id, int32_t place);
  bool IsAllowed(int32_t id, std::span<const uint64_t> allowed) const;
  // Fills masked_; returns how many tokens may come.
  size_t Mask(std::span<const float> logits, std::span<const uint64_t> allowed);
  // Follows a token's bytes through the strings, arrays and objects that are open.
  void Track(std::string_view bytes);
  // Forces the end that EndLoop wants, if it may come here.
  void TryToEnd();
  // Lets the token that closes a string be as likely as the end of the answer.
  void CountEndsAsQuote(std::span<const float> logits, std::span<const uint64_t> allowed);
  // Writes the first token of a plain answer behind "Answer:" without its blank, if it has one, as
  // the tokens that the vocabulary has for the rest.
  Drawn WithoutBlank(int32_t id);

  const std::shared_ptr<const Model> model_;
  const JsonGrammar json_;
  const TokenTrie& trie_;
  TokenMasks masks_;
  int32_t place_ = GrammarMatcher::kNowhere;  // while it thinks
  bool has_begun_ = false;                    // the value
  std::string thought_;                       // its end, in which the closing mark is looked for
  std::vector<int32_t> mark_;                 // tokens that begin a thought; none: it has no marks
  std::vector<int32_t> head_;  // tokens between a thought and a value, ThinkingMarks::answer last
  size_t head_left_ = 0;       // of them
  std::deque<int32_t> forced_;
  std::vector<float> masked_;
  std::string open_;         // of the arrays and objects that are open: what closes them
  size_t string_bytes_ = 0;  // of the string that is open
  bool is_in_string_ = false, is_escaped_ = false;
  size_t loops_ = 0;          // calls of EndLoop
  size_t levels_to_end_ = 0;  // strings, arrays and objects that EndLoop wants to end; 0: none
  int32_t quote_ = -1;        // the token of one quotation mark; -1: there is none
  struct Plain {
    bool may_be = false, is_there = false;  // in this answer
    bool is_open = false;                   // now
    bool is_behind_blank = true;            // it begins without a blank of its own
    size_t before = 0;                      // forced tokens that are left before it, or of it
    std::vector<int32_t> quotes, lines;     // tokens that have a quotation mark; that begin a line
  } plain_;
};

// Ends loops in an answer: the whole answer, or a part of JSON, which then goes on. A model that
// went round once does not know the end of its answer, and may go on without a loop: from then on,
// as many tokens as a loop has at least count as another one. One thread.
class LoopGuard {
 public:
  static constexpr char kWarning[] =
      "the answer, or a part of it, went round in a loop and was ended";
  // Takes the answer's next token. True: the answer has to end with it. `constraint`: nullptr where
  // the answer is a plain text.
  bool Push(int32_t id, AnswerConstraint* constraint);
  bool has_looped() const { return has_looped_; }

 private:
  LoopDetector loops_;
  bool has_looped_ = false;
  size_t num_since_ = 0;  // tokens since the last loop
};

// The warning about keywords of the question's schema that are not kept; empty: there are none, or
// no schema. For questions whose answer others make. Codes of CompileJsonSchema, param
// "json_schema".
Result<std::string> NotKeptOf(const AskOptions& options);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_ANSWER_CONSTRAINT_H_
