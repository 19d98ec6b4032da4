#include "engine/model/template/chat_formats.h"

#include <algorithm>
#include <array>
#include <optional>

#include "engine/model/formats/excerpt.h"
#include "engine/model/formats/json.h"

namespace lectern {
namespace {

// Which messages a template strips of white space at both ends.
enum class Trims { kNothing, kAnswers, kAll };

// A row of the table. In its texts "{name}" is the control token `name`, and "{bos}" and "{eos}"
// are the tokens that the tokenizer puts around a text; they are empty where it puts none.
struct ChatFormat {
  std::string_view name;
  std::string_view before_user;    // up to the text of the first user's turn
  std::string_view before_answer;  // from the end of a user's turn to where the answer begins
  std::string_view next_user;      // from the end of an answer to the next user's turn
  // Texts before and behind the text of an earlier answer.
  std::string_view around_answer = {}, after_answer = {};
  Trims trims = Trims::kNothing;
};

// The published templates without a system message, unless they put one there themselves. Llama
// 3.1's says a date: here it is the one that the template says where there is no clock.
constexpr ChatFormat kFormats[] = {
    {"llama3", "{bos}{<|start_header_id|>}user{<|end_header_id|>}\n\n",
     "{<|eot_id|>}{<|start_header_id|>}assistant{<|end_header_id|>}\n\n",
     "{<|eot_id|>}{<|start_header_id|>}user{<|end_header_id|>}\n\n", "", "", Trims::kAll},
    {"llama3.1",
     "{bos}{<|start_header_id|>}system{<|end_header_id|>}\n\n"
     "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n{<|eot_id|>}"
     "{<|start_header_id|>}user{<|end_header_id|>}\n\n",
     "{<|eot_id|>}{<|start_header_id|>}assistant{<|end_header_id|>}\n\n",
     "{<|eot_id|>}{<|start_header_id|>}user{<|end_header_id|>}\n\n", "", "", Trims::kAll},
    {"qwen2.5",
     "{<|im_start|>}system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."
     "{<|im_end|>}\n{<|im_start|>}user\n",
     "{<|im_end|>}\n{<|im_start|>}assistant\n", "{<|im_end|>}\n{<|im_start|>}user\n"},
    {"smollm2",
     "{<|im_start|>}system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
     "{<|im_end|>}\n{<|im_start|>}user\n",
     "{<|im_end|>}\n{<|im_start|>}assistant\n", "{<|im_end|>}\n{<|im_start|>}user\n"},
    {"qwen2",
     "{<|im_start|>}system\nYou are a helpful assistant.{<|im_end|>}\n{<|im_start|>}user\n",
     "{<|im_end|>}\n{<|im_start|>}assistant\n", "{<|im_end|>}\n{<|im_start|>}user\n"},
    {"chatml", "{<|im_start|>}user\n", "{<|im_end|>}\n{<|im_start|>}assistant\n",
     "{<|im_end|>}\n{<|im_start|>}user\n"},
    {"chatml-bos", "{bos}{<|im_start|>}user\n", "{<|im_end|>}\n{<|im_start|>}assistant\n",
     "{<|im_end|>}\n{<|im_start|>}user\n"},
    {"gemma", "{bos}{<start_of_turn>}user\n", "{<end_of_turn>}\n{<start_of_turn>}model\n",
     "{<end_of_turn>}\n{<start_of_turn>}user\n", "", "", Trims::kAll},
    {"phi3", "{bos}{<|user|>}\n", "{<|end|>}\n{<|assistant|>}\n", "{<|end|>}\n{<|user|>}\n"},
    {"phi4-mini", "{<|user|>}", "{<|end|>}{<|assistant|>}", "{<|end|>}{<|user|>}"},
    // Its marks are text.
    {"zephyr", "<|user|>\n", "{</s>}\n<|assistant|>\n", "{</s>}\n<|user|>\n"},
    // From Mistral NeMo on: no space after a mark.
    {"mistral-v3-tekken", "{bos}{[INST]}", "{[/INST]}", "{</s>}{[INST]}"},
    {"mistral-v3", "{bos}{[INST]} ", "{[/INST]}", "{</s>}{[INST]} ", " ", "", Trims::kAnswers},
    // Mistral 7B v0.1, v0.2 and the first Mixtral were published with three templates, which differ
    // in the spaces beside control tokens.
    {"mistral-v1-spaces", "{bos} [INST] ", " [/INST]", "{</s>} [INST] ", " "},
    {"mistral-v1-space", "{bos}[INST] ", " [/INST]", "{</s>} [INST] "},
    {"mistral-v1", "{bos}[INST] ", " [/INST]", "{</s>}[INST] "},
    {"llama2", "{bos}[INST] ", " [/INST]", "{</s>}{bos}[INST] ", " ", " ", Trims::kAll},
    {"vicuna",
     "{bos}A chat between a curious user and an artificial intelligence assistant. The assistant "
     "gives helpful, detailed, and polite answers to the user's questions. USER: ",
     " ASSISTANT:", "{</s>}USER: ", " "},
    // The template of the bundled reader, and of models that have none. After an answer the end
    // token, which the model made, stays.
    {"plain", "{bos}", "\nAnswer:", "\n\nQuestion: ", " ", "{eos}", Trims::kAnswers},
};
constexpr const ChatFormat& kPlain = kFormats[std::size(kFormats) - 1];

// Templates that can be recognised by their control tokens: the first one whose tokens a vocabulary
// has is suggested. Where several have the same tokens, the plainest stands for all.
constexpr std::string_view kSuggested[] = {"llama3", "chatml", "gemma", "phi3",
                                           "mistral-v3-tekken"};

// Stands between name and text in the identity of a built-in template. The number is raised when
// the table is rendered in another way, which makes documents of the old way another model's.
constexpr std::string_view kBuiltInVersion = " 1: ";
// The identity of "plain" in documents of versions that knew no other template.
constexpr std::string_view kPlainIdentity = "plain 1: <bos>";

// A part of a format: a text, or the name of a token.
struct FormatPart {
  std::string_view text;
  bool is_token;
};
// Splits "{a}b" into the token "a" and the text "b". Braces in a text cannot be written; no
// template needs them.
std::vector<FormatPart> SplitFormat(std::string_view format) {
  std::vector<FormatPart> parts;
  while (!format.empty()) {
    const bool is_token = format.front() == '{';
    const size_t end = std::min(format.find(is_token ? '}' : '{'), format.size());
    parts.push_back({format.substr(is_token, end - is_token), is_token});
    format.remove_prefix(std::min(end + is_token, format.size()));
  }
  return parts;
}

// Writes a format as an expression of Jinja: "{bos}[INST] " is bos_token ~ "[INST] ".
std::string Expression(std::string_view format) {
  std::string expression = "\"\"";
  for (const FormatPart& part : SplitFormat(format)) {
    const bool is_variable = part.is_token && (part.text == "bos" || part.text == "eos");
    expression +=
        " ~ " + (is_variable ? std::string(part.text) + "_token" : Json(part.text).Dump());
  }
  return "{{ " + expression + " }}";
}

// The Jinja that shows a message, with or without the white space around it.
std::string Content(bool trims) {
  return trims ? "{{ message.content | trim }}" : "{{ message.content }}";
}

// Writes a row as a Jinja program over transformers' variables: `messages`, bos_token, eos_token.
std::string JinjaOf(const ChatFormat& format) {
  return Expression(format.before_user) +
         "{% for message in messages %}{% if message.role == 'user' %}" +
         Content(format.trims == Trims::kAll) + Expression(format.before_answer) + "{% else %}" +
         Expression(format.around_answer) + Content(format.trims != Trims::kNothing) +
         Expression(format.after_answer) + Expression(format.next_user) + "{% endif %}{% endfor %}";
}

// The control tokens that a row names, each once, without bos and eos.
std::vector<std::string> TokensOf(const ChatFormat& format) {
  std::vector<std::string> tokens;
  for (const std::string_view text : {format.before_user, format.before_answer, format.next_user}) {
    for (const FormatPart& part : SplitFormat(text)) {
      const bool is_named = part.is_token && part.text != "bos" && part.text != "eos";
      if (is_named && std::ranges::find(tokens, part.text) == tokens.end()) {
        tokens.emplace_back(part.text);
      }
    }
  }
  return tokens;
}

// nullptr: no row has this name.
const ChatFormat* FindFormat(std::string_view name) {
  const auto at = std::ranges::find(kFormats, name, &ChatFormat::name);
  return at == std::end(kFormats) ? nullptr : at;
}

// Makes the program of a row, with its identity: name, version and the text before a document.
ChatSource SourceOf(const ChatFormat& format) {
  const std::string identity =
      std::string(format.name) + std::string(kBuiltInVersion) + std::string(format.before_user);
  return {.name = std::string(format.name),
          .jinja = JinjaOf(format),
          .identity = &format == &kPlain ? std::string(kPlainIdentity) : identity,
          .needs = TokensOf(format)};
}

// Whether a text has any tag of Jinja. A name or path has none.
bool LooksLikeJinja(std::string_view text) {
  return text.find("{{") != std::string_view::npos || text.find("{%") != std::string_view::npos;
}

// The error for a template that was not found; a long text is cut.
Status NoTemplate(std::string_view given) {
  return Status(Code::kInvalidArgument, "chat template \"" + Excerpt(given, 100) +
                                            "\" is no file with a Jinja program, and none of " +
                                            KnownChatFormats())
      .WithParam("chat_template");
}

}  // namespace

std::string KnownChatFormats() {
  std::string names(kPlain.name);
  for (const ChatFormat& format : kFormats) {
    if (&format != &kPlain) names.append(", ").append(format.name);
  }
  return names;
}

Result<ChatSource> ChatFormatNamed(std::string_view name) {
  const ChatFormat* const format = FindFormat(name);
  if (format == nullptr) return NoTemplate(name);
  return SourceOf(*format);
}

Result<ChatSource> FindChatSource(Env& env, const std::string& given) {
  if (const ChatFormat* const format = FindFormat(given)) return SourceOf(*format);
  if (LooksLikeJinja(given)) return ChatSource{.name = std::string(kFileTemplate), .jinja = given};
  const std::string path = env.Resolve(given);
  LECTERN_ASSIGN(const FileInfo info, env.Info(path));
  if (info.type != FileInfo::Type::kRegular || info.bytes > kMaxChatTemplate) {
    return NoTemplate(given);
  }
  LECTERN_ASSIGN(const auto file, OpenWhole(env, path, Io::kPread));
  const std::string text(reinterpret_cast<const char*>(file->data()), file->size());
  if (!LooksLikeJinja(text)) return NoTemplate(given);
  return ChatSource{.name = std::string(kFileTemplate), .jinja = text};
}

std::string_view SuggestedChatFormat(const Tokenizer& tokenizer) {
  for (const std::string_view name : kSuggested) {
    const std::vector<std::string> tokens = TokensOf(*FindFormat(name));
    const auto has = [&](const std::string& token) { return tokenizer.ControlId(token) >= 0; };
    if (std::ranges::all_of(tokens, has)) return name;
  }
  return {};
}

Message AskedPlainly(std::string_view suggested) {
  Message text = "the model has no chat template, so questions are put to it as plain text";
  if (!suggested.empty()) {
    text += "; its control tokens are those of " + OptionName("chat_template", suggested);
  }
  return text;
}

}  // namespace lectern
