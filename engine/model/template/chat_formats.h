// The chat templates that Lectern brings along, for models that have none of their own or whose own
// one the user replaces; and the search for the template that a user named.
//
// Each is a Jinja program, as models carry them (chat_template.h runs both). They are written here
// as rows of a table, because all of them say the same thing in other words: the text before a
// user's turn, the text between a question and its answer, and the text after an answer.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_CHAT_FORMATS_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_CHAT_FORMATS_H_

#include <string>
#include <string_view>
#include <vector>

#include "engine/model/tokenizer/tokenizer.h"
#include "store/status.h"

namespace lectern {

// A chat template as text, not yet checked and not yet bound to a vocabulary (ChatTemplate::Make).
struct ChatSource {
  // The name in reports: "plain", "chatml" and so on for a built-in one, kOwnTemplate for the
  // model's, kFileTemplate for the user's.
  std::string name;
  std::string jinja;  // the program; empty: the model has no template
  // Texts of the tokens that begin and end a text, for the template's `bos_token` and `eos_token`;
  // empty: none.
  std::string bos = {}, eos = {};
  // The text that stands for a built-in template in documents and their fingerprints; empty for the
  // others, which are identified by the text that they render before a document.
  std::string identity = {};
  // Texts of control tokens without which a built-in template cannot be used.
  std::vector<std::string> needs = {};
};
inline constexpr size_t kMaxChatTemplate = size_t{1} << 20;  // bytes of a Jinja program
inline constexpr std::string_view kOwnTemplate = "model", kFileTemplate = "file";
inline constexpr std::string_view kPlainTemplate = "plain";

// The names of all built-in templates: "plain, llama2, …".
std::string KnownChatFormats();
// Returns a built-in template. kInvalidArgument, param "chat_template": none has this name; the
// message lists them.
Result<ChatSource> ChatFormatNamed(std::string_view name);
// Finds the template that a user means. `given`: a built-in name; else the text of a Jinja program
// (it has "{{" or "{%"); else the path of a file with such a program, from the working directory.
// kInvalidArgument, param "chat_template": none of these, also no such file, or one of more than
// kMaxChatTemplate bytes. kIoError: the file cannot be read; other codes of Env. The program is not
// parsed here.
Result<ChatSource> FindChatSource(Env& env, const std::string& given);

// Returns the name of the built-in template whose control tokens the vocabulary has, such as
// "chatml" where it has "<|im_start|>" and "<|im_end|>"; empty: there is none. The name is static.
std::string_view SuggestedChatFormat(const Tokenizer& tokenizer);
// The clause, without a full stop, for a user whose model has no chat template. `suggested`: a name
// that SuggestedChatFormat found, or empty.
Message AskedPlainly(std::string_view suggested);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_CHAT_FORMATS_H_
