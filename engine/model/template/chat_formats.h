// The chat templates that Lectern brings along, for models that have none of their own.
//
// Each is a Jinja program, as models carry them (chat_template.h runs both). They are written here
// as rows of a table, because all of them say the same thing in other words: what stands before a
// user's turn, between a question and its answer, and after an answer.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_CHAT_FORMATS_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_CHAT_FORMATS_H_

#include <string>
#include <string_view>
#include <vector>

#include "engine/model/tokenizer/tokenizer.h"
#include "store/status.h"

namespace lectern {

// A chat template that is not yet bound to a vocabulary.
struct ChatSource {
  // "plain", "chatml", …; kOwnTemplate: the model's; kFileTemplate: the user's.
  std::string name;
  std::string jinja;
  // Texts of the tokens that begin and end a text, for the template's `bos_token` and `eos_token`;
  // empty: none.
  std::string bos = {}, eos = {};
  // The text that stands for a built-in template in documents and their fingerprints; else empty.
  std::string identity = {};
  // Control tokens that a built-in template cannot do without.
  std::vector<std::string> needs = {};
};
inline constexpr size_t kMaxChatTemplate = size_t{1} << 20;  // bytes of a Jinja program
inline constexpr std::string_view kOwnTemplate = "model", kFileTemplate = "file";
inline constexpr std::string_view kPlainTemplate = "plain";

// The names of all built-in templates: "plain, llama2, …".
std::string KnownChatFormats();
// kInvalidArgument, param "chat_template": no built-in template has this name; the message lists
// them.
Result<ChatSource> ChatFormatNamed(std::string_view name);
// `given`: a built-in name, the text of a Jinja program (it has "{{" or "{%"), or the path of a
// file with one. kInvalidArgument, param "chat_template": none of these.
Result<ChatSource> FindChatSource(Env& env, const std::string& given);

// The built-in template whose control tokens the vocabulary has, such as "chatml" where it has
// "<|im_start|>" and "<|im_end|>"; empty: no template's.
std::string_view SuggestedChatFormat(const Tokenizer& tokenizer);
// The sentence for a user whose model has no chat template. `suggested`: as above.
Message AskedPlainly(std::string_view suggested);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_CHAT_FORMATS_H_
