// What stands around a document, a question and an answer: the formats that models were trained on.
//
// A model says its format as a Jinja program (`chat_template`). No such program is run here: one of
// a table of formats is recognised by what its program contains, or named by the user. A format is
// cut once: what comes before the document, which is indexed with it, and what comes after, which
// goes with the question. The parts are encoded apart, control tokens by id: text of a document or
// a question never becomes one.
#ifndef LECTERN_ENGINE_CHAT_TEMPLATE_H_
#define LECTERN_ENGINE_CHAT_TEMPLATE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/chat_history.h"
#include "engine/tokenizer.h"
#include "store/status.h"

namespace lectern {

// The fixed context: what the template puts before a document, and the document. Positions are
// 0 … size - 1.
struct FixedContext {
  std::vector<int32_t> ids;
  std::vector<TokenizedText::Range> ranges;  // of the text; the prefix has {0, 0}
  size_t num_prefix = 0;                     // tokens before the document
};

// Of which messages a template takes away the white space around them.
enum class Trims { kNothing, kAnswers, kAll };

// A row of the table. Text, in which "{name}" is the control token `name`, and "{bos}" and "{eos}"
// the tokens that the tokenizer puts around a text, if it does. The user's first turn is the
// document, "\n\nQuestion: " and the question; the later ones are questions. Instructions, which
// templates have before a first turn, stand between the document and the first question: what is
// before a document is indexed with it.
struct ChatFormat {
  std::string_view name;
  std::string_view document_prefix;  // up to the document
  std::string_view question_suffix;  // from the end of a question to where the answer begins
  std::string_view next_turn;        // from the end of an answer to the next question
  std::string_view ends;  // tokens that end an answer; those that a vocabulary lacks are none
  // Around the text of an answer that is given and was not generated.
  std::string_view before_answer = {}, after_answer = {};
  Trims trims = Trims::kNothing;
};

// All of them: "plain, llama2, …".
std::string KnownChatFormats();
// kInvalidArgument, param "chat_template": there is none of this name; the message lists them.
Result<const ChatFormat*> ChatFormatNamed(std::string_view name);
// The format of a model's own template; of an empty one, "plain". kUnsupportedModel: none of them;
// the message lists them. `path` only names the model in it.
Result<const ChatFormat*> RecognizeChatFormat(std::string_view jinja, const std::string& path);
// The `chat_template` of a tokenizer_config.json: a string, or the one called "default" of a list;
// empty: it has none. kMalformedModel.
Result<std::string> ChatTemplateOf(std::string_view tokenizer_config, const std::string& path);

// A format with the ids of its tokens in one vocabulary. Immutable; thread-safe.
class ChatTemplate {
 public:
  // kUnsupportedModel: the vocabulary lacks a token of the format.
  static Result<ChatTemplate> Make(const ChatFormat& format, const Tokenizer& tokenizer);

  std::string_view name() const { return format_->name; }
  // What a document keeps of it, and its fingerprint covers: all before the document.
  std::string identity() const;
  bool IsEnd(int32_t id) const;  // of an answer

  // The tokenizer is that of Make. Codes of Tokenizer::Encode.
  Result<FixedContext> EncodeDocument(const Tokenizer& tokenizer, std::string_view text) const;
  // What follows the document, up to where the answer begins.
  Result<std::vector<int32_t>> EncodeQuestion(const Tokenizer& tokenizer, std::string_view question,
                                              const ChatHistory& history = {}) const;
  // Whether EncodeNextQuestion begins with the end token of the answer before.
  bool ends_answers() const { return !next_.empty() && next_.front().id >= 0; }
  // What follows an answer: `last` (-1: nothing), the token of it that was not yet fed, and then
  // the rest of the turn and the question.
  Result<std::vector<int32_t>> EncodeNextQuestion(const Tokenizer& tokenizer, int32_t last,
                                                  std::string_view question) const;

 private:
  // Text, or one control token.
  struct Part {
    std::string text;
    int32_t id = -1;
  };
  using Parts = std::vector<Part>;
  static Result<Parts> Bind(const ChatFormat& format, std::string_view text,
                            const Tokenizer& tokenizer);

  std::string_view Asked(std::string_view question) const;
  std::string_view Answered(std::string_view answer) const;

  const ChatFormat* format_ = nullptr;
  Parts prefix_, suffix_, next_, before_answer_, after_answer_;
  std::vector<int32_t> ends_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_CHAT_TEMPLATE_H_
