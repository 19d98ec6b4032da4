// Renders conversations about a document through a model's chat template, and reads the result as
// tokens. Model holds one; indexing and asking use it.
//
// A chat template is a Jinja program (jinja.h runs it): the model's own, the user's, or one of
// chat_formats.h. The user's first turn is the document, "\n\nQuestion: " and the question; later
// turns are questions alone. A rendering is cut once, behind the document: the text before the cut
// is indexed with the document, the text behind it goes with a question. Instructions, which
// templates put before a first turn, stand between the document and the first question instead,
// because the text before a document is fixed when it is indexed.
//
// Control tokens come out of the template's own text alone: a rendering knows for each byte whether
// a user wrote it, and "<|im_end|>" in a document or a question stays text.
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

// The tokens that are prefilled while indexing: the template's text before the document, and the
// document. Their positions are 0 … size - 1.
struct FixedContext {
  std::vector<int32_t> ids;
  std::vector<TokenizedText::Range> ranges;  // of the text; the prefix has {0, 0}
  size_t num_prefix = 0;                     // tokens before the document
  uint64_t dropped_bytes = 0;  // of the document, for which the vocabulary has no piece
};

// A text and its tokens, with the place in the text where each token ends. A session keeps one for
// its conversation.
struct Prompt {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<uint64_t> ends;  // [ids], bytes of `text`, ascending

  // Appends a token and its text.
  void Add(int32_t id, std::string_view token_text);
  // Keeps the first tokens, and the text up to the end of the last of them. Changes nothing where
  // there are no more tokens than that.
  void Truncate(size_t num_tokens);
  // Returns how many of the first tokens can stay when the text becomes `other`. They end within
  // the common beginning of both, the last one between two characters (earlier ones may end inside
  // one); tokens without text at that place stay, too. At least one byte of `other` is left over,
  // so that a token is left to run and gives the logits of the answer's first token; 0 where
  // `other` is empty.
  size_t TokensBefore(std::string_view other) const;
};

// The texts between which a model thinks, such as "<think>" and "</think>"; both empty: it has
// none.
struct ThinkingMarks {
  std::string begin, end;
  // Some models head each part of a turn (gpt-oss): `turn` stands before a further part, `answer`
  // begins the answer. Both may be missing, and neither is shown. Empty: the model has none.
  std::string turn = "", answer = "";
};

// A template that was checked and bound to one vocabulary. Immutable; thread-safe.
class ChatTemplate {
 public:
  // Parses the program and renders three short conversations to learn where documents go. `path`
  // only names the model in messages. kUnsupportedModel, param "chat_template": the program cannot
  // be run, refuses a conversation of a user and an assistant, does not show the user's text
  // exactly once and unchanged, or needs a token that the vocabulary lacks.
  static Result<ChatTemplate> Make(ChatSource source, const Tokenizer& tokenizer,
                                   const std::string& path = "the model");

  const std::string& name() const { return source_.name; }
  const std::string& jinja() const { return source_.jinja; }
  const ChatSource& source() const { return source_; }
  // The text that stands for the template in documents and their fingerprints: everything that it
  // puts before a document, rendered on a fixed day; for a built-in one its name and that text as
  // chat_formats.cc has it. Two templates of a file that differ only behind the document share
  // documents.
  const std::string& identity() const { return source_.identity; }
  bool has_date() const { return has_date_; }  // the program asks for the day's date
  const ThinkingMarks& thinking() const { return thinking_; }
  // Clauses for the user, without a full stop, about what the template does and Lectern does not
  // follow: its text depends on the user's text, it begins a longer conversation otherwise, it is
  // one for calling tools. Mostly empty; they name no file.
  const std::vector<std::string>& assumptions() const { return assumptions_; }

  // Tokenises the fixed context of a document. `tokenizer`: the one of Make. `text`: valid UTF-8.
  // `date`: "2026-11-25", the day of indexing, for templates that say it; empty, or no date: a
  // fixed day. The tokenizer's bos token comes first, once. Codes of Tokenizer::Encode; where the
  // template fails on this day, those of jinja::Program::Render, or kUnsupportedModel.
  Result<FixedContext> EncodeDocument(const Tokenizer& tokenizer, std::string_view text,
                                      std::string_view date = "") const;
  // Renders the text behind the document, up to where the answer to `question` begins. `date` as
  // for EncodeDocument. kInvalidArgument: the template refuses this conversation, fails on it or
  // leaves the document out; kLimitExceeded.
  Result<jinja::Rendered> Render(const ChatHistory& history, std::string_view question,
                                 std::string_view date = "") const;
  // Tokenises `rendered` from byte `begin` on, which is between characters; Prompt::text is all of
  // the rendering, and Prompt::ends count from its first byte.
  // Text before the first control token continues the text before it. Codes of Tokenizer::Encode.
  Result<Prompt> Encode(const Tokenizer& tokenizer, const jinja::Rendered& rendered,
                        size_t begin = 0) const;
  // Renders a question and tokenises it. Codes of both.
  Result<std::vector<int32_t>> EncodeQuestion(const Tokenizer& tokenizer, std::string_view question,
                                              const ChatHistory& history = {},
                                              std::string_view date = "") const;
  // Whether the answer to a rendered question begins inside a thought, because the rendering, white
  // space at its end apart, ends with the mark that begins one.
  bool BeginsThinking(std::string_view rendered) const;

 private:
  ChatTemplate(ChatSource source, jinja::Program program)
      : source_(std::move(source)), program_(std::move(program)) {}
  struct Cut;  // a rendering in two parts
  // Renders test conversations, and sets identity, assumptions and has_date_ by them.
  Status Learn();
  // Sets thinking_: marks that the program has in its text, else marks that the vocabulary has as
  // control tokens.
  void FindThinkingMarks(const Tokenizer& tokenizer);
  // The variables that transformers' apply_chat_template passes, for a conversation about
  // `document`.
  jinja::Variables VariablesOf(const std::string& document, const ChatHistory& history,
                               std::string_view question) const;
  // Renders a conversation and cuts the document out of it. kUnsupportedModel: the document is not
  // in it. Codes of jinja::Program::Render.
  Result<Cut> RenderAround(const std::string& document, const ChatHistory& history,
                           std::string_view question, std::string_view date) const;

  ChatSource source_;
  jinja::Program program_;
  // has_parts_: the template wants a message as a list of parts. has_tools_: it wants a list of
  // tools.
  bool has_date_ = false, has_parts_ = false, has_tools_ = false;
  ThinkingMarks thinking_;
  std::vector<std::string> assumptions_;
};

// Returns the `chat_template` of a tokenizer_config.json: a string, or of a list of named templates
// the one called "default", else the first; empty: the file has none. `path` names the file in
// messages. kMalformedModel: not JSON, or another kind of value; kLimitExceeded (JsonLimits). The
// program is not parsed here.
Result<std::string> ChatTemplateOf(std::string_view tokenizer_config, const std::string& path);

// Returns the text of a token that a tokenizer_config.json names by `key` ("bos_token"): a string,
// or an object's "content"; empty: it names none, or the file is damaged.
std::string TokenTextOf(std::string_view tokenizer_config, std::string_view key);

// Today's date in the machine's time zone, "2026-11-25"; empty where the clock cannot be read.
std::string Today();

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_CHAT_TEMPLATE_H_
