// Renders conversations about a document through a model's chat template, and reads them as tokens.
//
// A chat template is a Jinja program (jinja.h runs it), written as the model's trainers, the user
// or chat_formats.h wrote it. The user's first turn is the document, "\n\nQuestion: " and the
// question; later turns are questions alone. A rendering is cut once, behind the document: all
// before the cut is indexed with the document, all behind it goes with a question. Instructions,
// which templates put before a first turn, stand between the document and the first question
// instead, because what is before a document is fixed when it is indexed.
//
// Control tokens come out of the template's own text alone: a rendering knows byte by byte what
// users wrote, and "<|im_end|>" in a document or a question stays text.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_CHAT_TEMPLATE_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_CHAT_TEMPLATE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/template/chat_formats.h"
#include "engine/model/template/chat_history.h"
#include "engine/model/template/jinja.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "store/status.h"

namespace lectern {

// The fixed context: what the template puts before a document, and the document. Positions are
// 0 … size - 1.
struct FixedContext {
  std::vector<int32_t> ids;
  std::vector<TokenizedText::Range> ranges;  // of the text; the prefix has {0, 0}
  size_t num_prefix = 0;                     // tokens before the document
  uint64_t dropped_bytes = 0;  // of the document, for which the vocabulary has no piece
};

// Text that was read as tokens, with the place in it where each token ends.
struct Prompt {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<uint64_t> ends;  // [ids], bytes of `text`, ascending

  void Add(int32_t id, std::string_view token_text);
  void Truncate(size_t num_tokens);
  // Returns how many of the prompt's tokens also begin a text that begins like `other`; these need
  // not be computed again. It is at most size - 1 of a prompt that `other` begins with whole and
  // adds nothing to, so that a token is left to run.
  size_t TokensBefore(std::string_view other) const;
};

// The marks between which a model thinks, such as "<think>" and "</think>"; empty: it has none.
struct ThinkingMarks {
  std::string begin, end;
};

// A template bound to one vocabulary. Immutable; thread-safe.
class ChatTemplate {
 public:
  // Renders two short conversations to learn where documents go. kUnsupportedModel, param
  // "chat_template": the program cannot be run, refuses a conversation of a user and an assistant,
  // does not show the user's text once, or needs a token that the vocabulary lacks.
  // `path` only names the model in messages.
  static Result<ChatTemplate> Make(ChatSource source, const Tokenizer& tokenizer,
                                   const std::string& path = "the model");

  const std::string& name() const { return source_.name; }
  const std::string& jinja() const { return source_.jinja; }
  // The text that stands for the template in documents and their fingerprints: all that it puts
  // before a document, rendered on a fixed day.
  const std::string& identity() const { return source_.identity; }
  bool has_date() const { return has_date_; }  // the program asks for the day's date
  const ThinkingMarks& thinking() const { return thinking_; }
  // Sentences about what was assumed; they name no file.
  const std::vector<std::string>& assumptions() const { return assumptions_; }

  // The tokenizer is that of Make. `date`: "2026-11-25", the day of indexing; empty: a fixed one.
  // Codes of Tokenizer::Encode.
  Result<FixedContext> EncodeDocument(const Tokenizer& tokenizer, std::string_view text,
                                      std::string_view date = "") const;
  // Renders all that follows the document, up to where the answer to `question` begins.
  Result<jinja::Rendered> Render(const ChatHistory& history, std::string_view question,
                                 std::string_view date = "") const;
  // The tokens of `rendered` from the byte `begin` on; ends count from the rendering's first byte.
  // Text before the first control token continues what came before.
  Result<Prompt> Encode(const Tokenizer& tokenizer, const jinja::Rendered& rendered,
                        size_t begin = 0) const;
  // Renders and encodes.
  Result<std::vector<int32_t>> EncodeQuestion(const Tokenizer& tokenizer, std::string_view question,
                                              const ChatHistory& history = {},
                                              std::string_view date = "") const;
  // Whether the answer to a rendered question begins with thinking: the rendering ends with the
  // mark that begins it.
  bool BeginsThinking(std::string_view rendered) const;

 private:
  ChatTemplate(ChatSource source, jinja::Program program)
      : source_(std::move(source)), program_(std::move(program)) {}
  struct Cut;
  Status Learn();
  void FindThinkingMarks(const Tokenizer& tokenizer);
  jinja::Variables VariablesOf(const std::string& document, const ChatHistory& history,
                               std::string_view question) const;
  Result<Cut> RenderAround(const std::string& document, const ChatHistory& history,
                           std::string_view question, std::string_view date) const;

  ChatSource source_;
  jinja::Program program_;
  bool has_date_ = false, has_parts_ = false, has_tools_ = false;
  ThinkingMarks thinking_;
  std::vector<std::string> assumptions_;
};

// Finds the `chat_template` of a tokenizer_config.json: a string, or in a list the one called
// "default", else the first; empty: it has none. kMalformedModel.
Result<std::string> ChatTemplateOf(std::string_view tokenizer_config, const std::string& path);

// Finds the text of a token that a tokenizer_config.json names by `key` ("bos_token"): a string, or
// an object's "content"; empty: it names none.
std::string TokenTextOf(std::string_view tokenizer_config, std::string_view key);

// Today's date here, "2026-11-25".
std::string Today();

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_CHAT_TEMPLATE_H_
