#include "engine/chat_template.h"

#include <algorithm>
#include <array>

#include "engine/json.h"
#include "engine/text.h"

namespace lectern {
namespace {

constexpr std::string_view kQuestion = "\n\nQuestion: ";
// Of the rows below, where it changes what stands before a document.
constexpr std::string_view kIdentityVersion = " 1: ";

// What a published template says without a system message. Llama 3.1's has a date there: the one
// that it has where no clock is, as an index must not change from day to day.
constexpr ChatFormat kFormats[] = {
    {"llama3", "{bos}{<|start_header_id|>}user{<|end_header_id|>}\n\n",
     "{<|eot_id|>}{<|start_header_id|>}assistant{<|end_header_id|>}\n\n",
     "{<|eot_id|>}{<|start_header_id|>}user{<|end_header_id|>}\n\n",
     "{<|eot_id|>}{<|end_of_text|>}{<|eom_id|>}", "", "", Trims::kAll},
    {"llama3.1",
     "{bos}{<|start_header_id|>}system{<|end_header_id|>}\n\n"
     "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n{<|eot_id|>}"
     "{<|start_header_id|>}user{<|end_header_id|>}\n\n",
     "{<|eot_id|>}{<|start_header_id|>}assistant{<|end_header_id|>}\n\n",
     "{<|eot_id|>}{<|start_header_id|>}user{<|end_header_id|>}\n\n",
     "{<|eot_id|>}{<|end_of_text|>}{<|eom_id|>}", "", "", Trims::kAll},
    {"qwen2.5",
     "{<|im_start|>}system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."
     "{<|im_end|>}\n{<|im_start|>}user\n",
     "{<|im_end|>}\n{<|im_start|>}assistant\n", "{<|im_end|>}\n{<|im_start|>}user\n",
     "{<|im_end|>}{<|endoftext|>}"},
    {"smollm2",
     "{<|im_start|>}system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
     "{<|im_end|>}\n{<|im_start|>}user\n",
     "{<|im_end|>}\n{<|im_start|>}assistant\n", "{<|im_end|>}\n{<|im_start|>}user\n",
     "{<|im_end|>}{<|endoftext|>}"},
    {"qwen2",
     "{<|im_start|>}system\nYou are a helpful assistant.{<|im_end|>}\n{<|im_start|>}user\n",
     "{<|im_end|>}\n{<|im_start|>}assistant\n", "{<|im_end|>}\n{<|im_start|>}user\n",
     "{<|im_end|>}{<|endoftext|>}"},
    {"chatml", "{<|im_start|>}user\n", "{<|im_end|>}\n{<|im_start|>}assistant\n",
     "{<|im_end|>}\n{<|im_start|>}user\n", "{<|im_end|>}{<|endoftext|>}"},
    {"chatml-bos", "{bos}{<|im_start|>}user\n", "{<|im_end|>}\n{<|im_start|>}assistant\n",
     "{<|im_end|>}\n{<|im_start|>}user\n", "{<|im_end|>}{<|endoftext|>}"},
    {"gemma", "{bos}{<start_of_turn>}user\n", "{<end_of_turn>}\n{<start_of_turn>}model\n",
     "{<end_of_turn>}\n{<start_of_turn>}user\n", "{<end_of_turn>}{<eos>}", "", "", Trims::kAll},
    {"phi3", "{bos}{<|user|>}\n", "{<|end|>}\n{<|assistant|>}\n", "{<|end|>}\n{<|user|>}\n",
     "{<|end|>}{<|endoftext|>}"},
    {"phi4-mini", "{<|user|>}", "{<|end|>}{<|assistant|>}", "{<|end|>}{<|user|>}",
     "{<|end|>}{<|endoftext|>}"},
    // Its marks are text.
    {"zephyr", "<|user|>\n", "{</s>}\n<|assistant|>\n", "{</s>}\n<|user|>\n", "{</s>}"},
    // From Mistral NeMo on: no space after a mark.
    {"mistral-v3-tekken", "{bos}{[INST]}", "{[/INST]}", "{</s>}{[INST]}", "{</s>}"},
    {"mistral-v3", "{bos}{[INST]} ", "{[/INST]}", "{</s>}{[INST]} ", "{</s>}", " ", "",
     Trims::kAnswers},
    // Of 7B v0.1 and v0.2 and the first Mixtral there are templates with and without a space before
    // what follows a control token.
    {"mistral-v1-spaces", "{bos} [INST] ", " [/INST]", "{</s>} [INST] ", "{</s>}", " "},
    {"mistral-v1-space", "{bos}[INST] ", " [/INST]", "{</s>} [INST] ", "{</s>}"},
    {"mistral-v1", "{bos}[INST] ", " [/INST]", "{</s>}[INST] ", "{</s>}"},
    {"llama2", "{bos}[INST] ", " [/INST]", "{</s>}{bos}[INST] ", "{</s>}", " ", " ", Trims::kAll},
    {"vicuna",
     "{bos}A chat between a curious user and an artificial intelligence assistant. The assistant "
     "gives helpful, detailed, and polite answers to the user's questions. USER: ",
     " ASSISTANT:", "{</s>}USER: ", "{</s>}", " "},
    // The bundled reader's, and of models that have no template. After an answer the end token,
    // which the model made, stays.
    {"plain", "{bos}", "\nAnswer:", "\n\nQuestion: ", "", " ", "{eos}", Trims::kAnswers},
};
constexpr const ChatFormat& kPlain = kFormats[std::size(kFormats) - 1];

// A model's own template is of the first format here all of whose `markers` it has, and none of
// whose `others`.
struct Recognition {
  std::string_view name;
  std::array<std::string_view, 2> markers;
  std::array<std::string_view, 4> others = {};
};
constexpr Recognition kRecognitions[] = {
    {"llama3.1",
     {"<|start_header_id|>", "\"Cutting Knowledge Date: December 2023\n\""},
     {"{%- if system_message %}"}},
    {"llama3", {"<|start_header_id|>", "<|eot_id|>"}},
    {"qwen2.5", {"<|im_start|>", "You are Qwen, created by Alibaba Cloud."}, {"<|im_sep|>"}},
    {"smollm2",
     {"<|im_start|>", "You are a helpful AI assistant named SmolLM, trained by Hugging Face"},
     {"<|im_sep|>"}},
    {"qwen2", {"<|im_start|>", "system\nYou are a helpful assistant."}, {"<|im_sep|>"}},
    {"chatml-bos", {"<|im_start|>", "bos_token }}"}, {"<|im_sep|>", "You are a", "Please "}},
    {"chatml",
     {"<|im_start|>", "<|im_end|>"},
     {"<|im_sep|>", "You are a", "Please ", "bos_token"}},
    {"gemma", {"<start_of_turn>", "<end_of_turn>"}},
    {"phi3", {"<|user|>' + '\n' + message['content'] + '<|end|>", "<|assistant|>"}},
    {"phi3", {"'<|user|>\n' + message['content'] + '<|end|>\n'", "'<|assistant|>\n'"}},
    {"phi3",
     {"'<|' + message['role'] + '|>' + '\n' + message['content'] + '<|end|>\n'",
      "'<|assistant|>\n'"}},
    {"phi4-mini",
     {"'<|' + message['role'] + '|>' + message['content'] + '<|end|>'", "'<|assistant|>'"},
     {"Your name is Phi"}},
    {"zephyr", {"'<|user|>\n' + message['content'] + eos_token", "<|assistant|>"}},
    {"mistral-v3-tekken", {"[AVAILABLE_TOOLS]", "\"[INST]\""}, {"[SYSTEM_PROMPT]"}},
    {"mistral-v3", {"[AVAILABLE_TOOLS]", "\"[INST] \""}, {"[SYSTEM_PROMPT]", " [/INST]"}},
    {"mistral-v1-spaces",
     {"' [INST] ' + message['content'] + ' [/INST]'", "' ' + message['content'] + eos_token}}"},
     {"<<SYS>>", "[SYSTEM_PROMPT]"}},
    {"mistral-v1-space",
     {"'[INST] ' + message['content'] + ' [/INST]'", "{ message['content'] + eos_token + ' ' }}"},
     {"<<SYS>>", "[SYSTEM_PROMPT]"}},
    {"mistral-v1",
     {"'[INST] ' + message['content'] + ' [/INST]'", "{ message['content'] + eos_token}}"},
     {"<<SYS>>", "[SYSTEM_PROMPT]"}},
    {"llama2", {"bos_token + '[INST] ' + content", "<<SYS>>"}, {"true == true"}},
    {"vicuna",
     {"A chat between a curious user and an artificial intelligence assistant.", "ASSISTANT:"}},
};

bool Has(std::string_view text, std::string_view part) {
  return !part.empty() && text.find(part) != std::string_view::npos;
}

bool IsOf(const Recognition& format, std::string_view jinja) {
  const auto has = [&](std::string_view part) { return Has(jinja, part); };
  return std::ranges::all_of(format.markers, has) && std::ranges::none_of(format.others, has);
}

// Tells texts and tokens apart: "{a}b" is the token "a" and the text "b".
struct FormatPart {
  std::string_view text;
  bool is_token;
};
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

}  // namespace

std::string KnownChatFormats() {
  std::string names(kPlain.name);
  for (const ChatFormat& format : kFormats) {
    if (&format != &kPlain) names.append(", ").append(format.name);
  }
  return names;
}

Result<const ChatFormat*> ChatFormatNamed(std::string_view name) {
  for (const ChatFormat& format : kFormats) {
    if (format.name == name) return &format;
  }
  return Status(Code::kInvalidArgument, "chat template \"" + std::string(name.substr(0, 100)) +
                                            "\" is none of " + KnownChatFormats())
      .WithParam("chat_template");
}

Result<const ChatFormat*> RecognizeChatFormat(std::string_view jinja, const std::string& path) {
  if (jinja.empty()) return &kPlain;
  // A line break within a string of the program may be one or be written as one.
  std::string text(jinja);
  for (size_t at = 0; (at = text.find("\\n", at)) != std::string::npos;) text.replace(at, 2, "\n");
  for (const Recognition& format : kRecognitions) {
    if (IsOf(format, text)) return ChatFormatNamed(format.name);
  }
  return Status(Code::kUnsupportedModel,
                path + ": its chat template is none of those built in; choose one with "
                       "--chat-template: " + KnownChatFormats())
      .WithParam("chat_template");
}

Result<std::string> ChatTemplateOf(std::string_view tokenizer_config, const std::string& path) {
  const Result<Json> root = ParseJson(tokenizer_config);
  if (!root.ok()) return Status(root.status().code(), path + ": " + root.status().message());
  const Json* value = root->Find("chat_template");
  if (value == nullptr || value->is_null()) return std::string();
  if (value->string() != nullptr) return *value->string();
  if (value->array() != nullptr) {
    for (const Json& item : *value->array()) {
      const Json *name = item.Find("name"), *text = item.Find("template");
      if (name == nullptr || name->string() == nullptr || *name->string() != "default") continue;
      if (text != nullptr && text->string() != nullptr) return *text->string();
    }
  }
  return Status(Code::kMalformedModel,
                path + ": \"chat_template\" is neither a text nor a list with one called default");
}

Result<ChatTemplate::Parts> ChatTemplate::Bind(const ChatFormat& format, std::string_view text,
                                               const Tokenizer& tokenizer) {
  Parts parts;
  for (const FormatPart& part : SplitFormat(text)) {
    if (!part.is_token) {
      parts.push_back({std::string(part.text)});
      continue;
    }
    const bool is_bos = part.text == "bos", is_eos = part.text == "eos";
    const int32_t id = is_bos   ? tokenizer.bos_id()
                       : is_eos ? tokenizer.eos_id()
                                : tokenizer.ControlId(part.text);
    if (id >= 0) {
      parts.push_back({"", id});
    } else if (!is_bos && !is_eos) {
      return Status(Code::kUnsupportedModel,
                    "the chat template " + std::string(format.name) + " needs the token " +
                        std::string(part.text) +
                        ", which the tokenizer does not have; choose another with --chat-template")
          .WithParam("chat_template");
    }
  }
  return parts;
}

Result<ChatTemplate> ChatTemplate::Make(const ChatFormat& format, const Tokenizer& tokenizer) {
  ChatTemplate made;
  made.format_ = &format;
  LECTERN_ASSIGN(made.prefix_, Bind(format, format.document_prefix, tokenizer));
  LECTERN_ASSIGN(made.suffix_, Bind(format, format.question_suffix, tokenizer));
  LECTERN_ASSIGN(made.next_, Bind(format, format.next_turn, tokenizer));
  LECTERN_ASSIGN(made.before_answer_, Bind(format, format.before_answer, tokenizer));
  LECTERN_ASSIGN(made.after_answer_, Bind(format, format.after_answer, tokenizer));
  for (const FormatPart& part : SplitFormat(format.ends)) {
    if (const int32_t id = tokenizer.ControlId(part.text); id >= 0) made.ends_.push_back(id);
  }
  return made;
}

std::string ChatTemplate::identity() const {
  // As documents of versions that knew no other have it.
  if (format_ == &kPlain) return "plain 1: <bos>";
  return std::string(format_->name) + std::string(kIdentityVersion) +
         std::string(format_->document_prefix);
}

bool ChatTemplate::IsEnd(int32_t id) const {
  return std::find(ends_.begin(), ends_.end(), id) != ends_.end();
}

namespace {

// Encodes text up to the next control token at once, so that only those cut it.
class PartsEncoder {
 public:
  // `is_beginning`: nothing but bos comes before.
  PartsEncoder(const Tokenizer& tokenizer, bool is_beginning)
      : tokenizer_(tokenizer), is_beginning_(is_beginning) {}

  void AddText(std::string_view text) { text_ += text; }

  Status AddToken(int32_t id) {
    LECTERN_RETURN_IF_ERROR(Flush());
    ids_.push_back(id);
    is_beginning_ = is_beginning_ && id == tokenizer_.bos_id();
    return Status();
  }

  Status Flush() {
    if (text_.empty()) return Status();
    // A space at the beginning is the dummy prefix.
    const bool has_prefix = is_beginning_ && !(tokenizer_.has_dummy_prefix() && text_[0] == ' ');
    LECTERN_ASSIGN(const TokenizedText tokens, has_prefix ? tokenizer_.Encode(text_)
                                                          : tokenizer_.EncodeContinuation(text_));
    ids_.insert(ids_.end(), tokens.ids.begin(), tokens.ids.end());
    text_.clear();
    is_beginning_ = false;
    return Status();
  }

  // A space at the end that the next text's dummy prefix will be.
  bool TakeSpace() {
    if (!tokenizer_.has_dummy_prefix() || !text_.ends_with(' ')) return false;
    text_.pop_back();
    return true;
  }

  bool is_beginning() const { return is_beginning_ && text_.empty(); }
  std::vector<int32_t> TakeIds() { return std::move(ids_); }

 private:
  const Tokenizer& tokenizer_;
  bool is_beginning_;
  std::string text_;
  std::vector<int32_t> ids_;
};

template <typename Parts>
Status AddParts(const Parts& parts, PartsEncoder* encoder) {
  for (const auto& part : parts) {
    if (part.id < 0) {
      encoder->AddText(part.text);
    } else {
      LECTERN_RETURN_IF_ERROR(encoder->AddToken(part.id));
    }
  }
  return Status();
}

}  // namespace

Result<FixedContext> ChatTemplate::EncodeDocument(const Tokenizer& tokenizer,
                                                  std::string_view text) const {
  PartsEncoder encoder(tokenizer, /*is_beginning=*/true);
  LECTERN_RETURN_IF_ERROR(AddParts(prefix_, &encoder));
  const bool has_dummy_prefix = encoder.is_beginning() || encoder.TakeSpace();
  LECTERN_RETURN_IF_ERROR(encoder.Flush());
  LECTERN_ASSIGN(const TokenizedText tokens,
                 has_dummy_prefix ? tokenizer.Encode(text) : tokenizer.EncodeContinuation(text));
  FixedContext context;
  context.ids = encoder.TakeIds();
  context.num_prefix = context.ids.size();
  context.ranges.resize(context.num_prefix);
  context.ids.insert(context.ids.end(), tokens.ids.begin(), tokens.ids.end());
  context.ranges.insert(context.ranges.end(), tokens.ranges.begin(), tokens.ranges.end());
  return context;
}

std::string_view ChatTemplate::Asked(std::string_view question) const {
  return format_->trims == Trims::kAll ? TrimWhiteSpace(question) : question;
}

std::string_view ChatTemplate::Answered(std::string_view answer) const {
  return format_->trims == Trims::kNothing ? answer : TrimWhiteSpace(answer);
}

Result<std::vector<int32_t>> ChatTemplate::EncodeQuestion(const Tokenizer& tokenizer,
                                                          std::string_view question,
                                                          const ChatHistory& history) const {
  PartsEncoder encoder(tokenizer, /*is_beginning=*/false);
  if (!history.instructions.empty()) {
    encoder.AddText("\n\n");
    encoder.AddText(TrimWhiteSpace(history.instructions));
  }
  encoder.AddText(kQuestion);
  for (const ChatHistory::Turn& turn : history.turns) {
    encoder.AddText(Asked(turn.question));
    LECTERN_RETURN_IF_ERROR(AddParts(suffix_, &encoder));
    LECTERN_RETURN_IF_ERROR(AddParts(before_answer_, &encoder));
    encoder.AddText(Answered(turn.answer));
    LECTERN_RETURN_IF_ERROR(AddParts(after_answer_, &encoder));
    LECTERN_RETURN_IF_ERROR(AddParts(next_, &encoder));
  }
  encoder.AddText(Asked(question));
  LECTERN_RETURN_IF_ERROR(AddParts(suffix_, &encoder));
  LECTERN_RETURN_IF_ERROR(encoder.Flush());
  return encoder.TakeIds();
}

Result<std::vector<int32_t>> ChatTemplate::EncodeNextQuestion(const Tokenizer& tokenizer,
                                                              int32_t last,
                                                              std::string_view question) const {
  PartsEncoder encoder(tokenizer, /*is_beginning=*/false);
  if (last >= 0) LECTERN_RETURN_IF_ERROR(encoder.AddToken(last));
  LECTERN_RETURN_IF_ERROR(AddParts(next_, &encoder));
  encoder.AddText(Asked(question));
  LECTERN_RETURN_IF_ERROR(AddParts(suffix_, &encoder));
  LECTERN_RETURN_IF_ERROR(encoder.Flush());
  return encoder.TakeIds();
}

}  // namespace lectern
