#include "engine/model/template/chat_template.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <utility>

#include "engine/model/formats/json.h"
#include "engine/model/formats/text.h"
#include "engine/model/template/answer_text.h"

namespace lectern {
namespace {

constexpr std::string_view kQuestion = "\n\nQuestion: ";  // between document and first question

// Stand-ins for a document when a template is tried out. The template must show them unchanged.
// They differ in length, letters and lines, so that a template whose other text depends on a user's
// text gives itself away.
constexpr std::string_view kMark = "LecternDocument7f3a91",
                           kOtherMark = "A: 2nd\n\n# stand-in (0c5e), <b>";

// Begins the identity of a template that is not built in. The number is raised when the text before
// a document is rendered in another way, which makes every such model another one.
constexpr std::string_view kTemplateVersion = "template 1: ";

// The marks of published models, the rarest first: a program that has a rare one may have "<think>"
// as mere text, too.
struct KnownMarks {
  std::string_view first, second, turn = "", answer = "";
};
constexpr KnownMarks kThinkingMarks[] = {
    {"<|channel|>analysis<|message|>", "<|end|>", "<|start|>assistant",
     "<|channel|>final<|message|>"},
    {"<seed:think>", "</seed:think>"},
    {"<mm:think>", "</mm:think>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|inner_prefix|>", "<|inner_suffix|>"},
    {"<|channel>thought", "<channel|>"},
    {"[THINK]", "[/THINK]"},
    {"<think>", "</think>"},
};

// The error for a template that cannot be used, with the way out.
Status Refused(const std::string& path, const std::string& what) {
  return Status(Code::kUnsupportedModel, path + ": its chat template " + what + "; give another " +
                                             OptionName("chat_template") +
                                             ": a file with a Jinja program, or one of " +
                                             KnownChatFormats())
      .WithParam("chat_template");
}

// Reads a date such as "2026-11-25" with its weekday and its day of the year. Any other text gives
// 26 July 2024, the day that Llama 3.1's template says where there is no clock.
std::tm ParseDate(std::string_view date) {
  std::tm day{};
  day.tm_year = 2024 - 1900, day.tm_mon = 6, day.tm_mday = 26;
  int parts[3] = {};
  const char* at = date.data();
  bool is_date = date.size() == 10 && date[4] == '-' && date[7] == '-';
  for (size_t i = 0; is_date && i < 3; ++i) {
    constexpr size_t kBegin[] = {0, 5, 8}, kEnd[] = {4, 7, 10};
    const auto [end, error] = std::from_chars(at + kBegin[i], at + kEnd[i], parts[i]);
    is_date = error == std::errc() && end == at + kEnd[i];
  }
  is_date = is_date && parts[1] >= 1 && parts[1] <= 12 && parts[2] >= 1 && parts[2] <= 31;
  if (is_date) day.tm_year = parts[0] - 1900, day.tm_mon = parts[1] - 1, day.tm_mday = parts[2];
  // By <chrono>, as timegm() would read the time zone of the process.
  namespace chrono = std::chrono;
  const chrono::sys_days first = chrono::year(day.tm_year + 1900) / 1 / 1;
  const chrono::sys_days here = chrono::year(day.tm_year + 1900) /
                                chrono::month(static_cast<unsigned>(day.tm_mon) + 1) /
                                chrono::day(static_cast<unsigned>(day.tm_mday));
  day.tm_wday = static_cast<int>(chrono::weekday(here).c_encoding());
  day.tm_yday = static_cast<int>((here - first).count());
  return day;
}

// Bytes [begin, end) of a rendering, each with its origin.
jinja::Rendered Slice(const jinja::Rendered& whole, size_t begin, size_t end) {
  jinja::Rendered part;
  part.text = whole.text.substr(begin, end - begin);
  for (const jinja::Run& run : whole.runs) {
    if (run.end <= begin) continue;
    part.runs.push_back({std::min(run.end, end) - begin, run.is_input});
    if (run.end >= end) break;
  }
  if (part.text.empty()) part.runs.clear();
  return part;
}

// Tokenises a rendering piece by piece. Text is gathered up to the next control token and encoded
// at once, so that only control tokens cut it: a run of the template's and a user's text beside it
// may share a token, as they do in transformers.
class PromptEncoder {
 public:
  // `is_beginning`: nothing but the token that begins a text comes before, so that the text may get
  // the tokenizer's dummy prefix. `offset`: the place of the first byte that is added, for
  // Prompt::ends.
  PromptEncoder(const Tokenizer& tokenizer, bool is_beginning, size_t offset)
      : tokenizer_(tokenizer), is_beginning_(is_beginning), at_(offset) {}

  // Adds a rendering from byte `begin` on. Control tokens are looked for only in the template's own
  // text.
  Status Add(const jinja::Rendered& rendered, size_t begin) {
    size_t at = begin;
    for (const jinja::Run& run : rendered.runs) {
      if (run.end <= at) continue;
      const std::string_view part = std::string_view(rendered.text).substr(at, run.end - at);
      at = run.end;
      if (run.is_input) {
        AddText(part);
      } else {
        LECTERN_RETURN_IF_ERROR(AddTemplateText(part));
      }
    }
    return Status();
  }

  // Encodes the gathered text, then adds a token that stands for `bytes` bytes of the rendering.
  Status AddToken(int32_t id, size_t bytes) {
    LECTERN_RETURN_IF_ERROR(Flush());
    at_ += bytes;
    prompt_.ids.push_back(id);
    prompt_.ends.push_back(at_);
    is_beginning_ = is_beginning_ && id == tokenizer_.bos_id();
    return Status();
  }

  // Encodes the gathered text.
  Status Flush() {
    if (text_.empty()) return Status();
    // A space at the beginning is the dummy prefix.
    const bool has_prefix = is_beginning_ && !(tokenizer_.has_dummy_prefix() && text_[0] == ' ');
    LECTERN_ASSIGN(const TokenizedText tokens,
                   has_prefix ? tokenizer_.Encode(text_) : tokenizer_.EncodeContinuation(text_));
    for (size_t i = 0; i < tokens.ids.size(); ++i) {
      prompt_.ids.push_back(tokens.ids[i]);
      prompt_.ends.push_back(at_ + tokens.ranges[i].end);
    }
    at_ += text_.size();
    text_.clear();
    is_beginning_ = false;
    return Status();
  }

  // Takes away a space at the end of the gathered text, because the dummy prefix of the text that
  // follows will be that space. False: there is none, or the tokenizer has no dummy prefix.
  bool TakeSpace() {
    if (!tokenizer_.has_dummy_prefix() || !text_.ends_with(' ')) return false;
    text_.pop_back();
    return true;
  }

  // Whether nothing was added yet that a text could continue.
  bool is_beginning() const { return is_beginning_ && text_.empty(); }
  Prompt Take() { return std::move(prompt_); }

 private:
  void AddText(std::string_view text) { text_ += text; }

  // Cuts the template's text at control tokens, the longest one at each place.
  Status AddTemplateText(std::string_view text) {
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
      const auto control = tokenizer_.FindControl(text.substr(at));
      if (!control) {
        ++at;
        continue;
      }
      AddText(text.substr(begin, at - begin));
      LECTERN_RETURN_IF_ERROR(AddToken(control->id, control->length));
      begin = at += control->length;
    }
    AddText(text.substr(begin));
    return Status();
  }

  const Tokenizer& tokenizer_;
  bool is_beginning_;
  size_t at_;         // of the first byte of text_
  std::string text_;  // not yet encoded
  Prompt prompt_;
};

// A message as transformers passes it: role, content (a text, or a list with one part of type
// "text") and, if the model thought, reasoning_content.
jinja::Value ChatMessage(const char* role, const std::string& content, bool has_parts,
                         const std::string& reasoning = "") {
  jinja::Value text = jinja::Value::Input(content);
  if (has_parts) {
    text = jinja::Value::List({jinja::Value::Dict(
        {{"type", jinja::Value::Template("text")}, {"text", std::move(text)}})});
  }
  std::vector<std::pair<std::string, jinja::Value>> members = {
      {"role", jinja::Value::Template(role)}, {"content", std::move(text)}};
  if (!reasoning.empty()) members.emplace_back("reasoning_content", jinja::Value::Input(reasoning));
  return jinja::Value::Dict(std::move(members));
}

}  // namespace

void Prompt::Add(int32_t id, std::string_view token_text) {
  text += token_text;
  ids.push_back(id);
  ends.push_back(text.size());
}

void Prompt::Truncate(size_t num_tokens) {
  if (num_tokens >= ids.size()) return;
  ids.resize(num_tokens);
  ends.resize(num_tokens);
  text.resize(num_tokens > 0 ? ends.back() : 0);
}

size_t Prompt::TokensBefore(std::string_view other) const {
  if (other.empty()) return 0;
  const size_t shorter = std::min(text.size(), other.size());
  size_t common = 0;
  while (common < shorter && text[common] == other[common]) ++common;
  // The rest of `other` must begin with a whole character and not be empty.
  common = std::min(common, other.size() - 1);
  const auto is_inside = [&](size_t at) {
    return (static_cast<uint8_t>(other[at]) & 0xC0) == 0x80;
  };
  size_t count = static_cast<size_t>(std::ranges::upper_bound(ends, common) - ends.begin());
  while (count > 0 && is_inside(ends[count - 1])) --count;
  return count;
}

// A rendering before and behind the document.
struct ChatTemplate::Cut {
  jinja::Rendered before, after;
};

jinja::Variables ChatTemplate::VariablesOf(const std::string& document, const ChatHistory& history,
                                           std::string_view question) const {
  // Instructions follow the document: the text before it is fixed when it is indexed.
  std::string asked = document;
  if (!history.instructions.empty()) {
    asked.append("\n\n").append(TrimWhiteSpace(history.instructions));
  }
  asked += kQuestion;
  std::vector<jinja::Value> messages;
  for (const ChatHistory::Turn& turn : history.turns) {
    messages.push_back(ChatMessage("user", asked + turn.question, has_parts_));
    messages.push_back(ChatMessage("assistant", turn.answer, has_parts_, turn.reasoning));
    asked.clear();
  }
  messages.push_back(ChatMessage("user", asked.append(question), has_parts_));
  // As transformers passes them; then the switches by which published templates turn thinking off.
  return {{"messages", jinja::Value::List(std::move(messages))},
          {"tools", has_tools_ ? jinja::Value::List({}) : jinja::Value()},
          {"documents", jinja::Value()},
          {"add_generation_prompt", jinja::Value::Bool(true)},
          {"bos_token", jinja::Value::Template(source_.bos)},
          {"eos_token", jinja::Value::Template(source_.eos)},
          {"enable_thinking", jinja::Value::Bool(false)},
          {"thinking", jinja::Value::Bool(false)},
          {"thinking_mode", jinja::Value::Template("disabled")},
          {"thinking_budget", jinja::Value::Integer(0)},
          {"skip_thinking", jinja::Value::Bool(true)}};
}

Result<ChatTemplate::Cut> ChatTemplate::RenderAround(const std::string& document,
                                                     const ChatHistory& history,
                                                     std::string_view question,
                                                     std::string_view date) const {
  LECTERN_ASSIGN(const jinja::Rendered whole,
                 program_.Render(VariablesOf(document, history, question), ParseDate(date)));
  // The first place: Learn has refused templates that show it twice.
  const size_t begin = whole.text.find(document);
  if (begin == std::string::npos) {
    return Status(Code::kUnsupportedModel, "leaves a user's text out or changes it");
  }
  const size_t end = begin + document.size();
  return Cut{Slice(whole, 0, begin), Slice(whole, end, whole.text.size())};
}

Result<ChatTemplate> ChatTemplate::Make(ChatSource source, const Tokenizer& tokenizer,
                                        const std::string& path) {
  for (const std::string& token : source.needs) {
    if (tokenizer.ControlId(token) >= 0) continue;
    return Status(Code::kUnsupportedModel,
                  "the chat template " + source.name + " needs the token " + token +
                      ", which the tokenizer does not have; choose another " +
                      OptionName("chat_template"))
        .WithParam("chat_template");
  }
  Result<jinja::Program> program = jinja::Program::Parse(source.jinja);
  if (!program.ok()) return Refused(path, "cannot be run: " + program.status().message());
  // A built-in template speaks of the tokens that the tokenizer puts around a text.
  if (source.bos.empty()) source.bos = tokenizer.ControlText(tokenizer.bos_id());
  if (source.eos.empty()) source.eos = tokenizer.ControlText(tokenizer.eos_id());
  ChatTemplate made(std::move(source), std::move(program).value());
  // Templates of models that also see pictures take a message for a list of parts, and templates
  // for calling tools want a list of them, which then is empty.
  const Status plain = made.Learn();
  Status learnt = plain;
  for (const auto& [has_parts, has_tools] : {std::pair(true, false), std::pair(false, true)}) {
    if (learnt.ok()) break;
    made.has_parts_ = has_parts, made.has_tools_ = has_tools;
    learnt = made.Learn();
  }
  // The first failure is reported: the others come from arguments that the template did not want.
  if (!learnt.ok()) return Refused(path, plain.message());
  made.FindThinkingMarks(tokenizer);
  return made;
}

// Renders short conversations with a mark in the document's place, to learn where the template
// cuts. Two different marks show whether the text around the document depends on it, and a longer
// conversation whether the text before it depends on what follows; if so, an assumption says it.
Status ChatTemplate::Learn() {
  const std::string mark(kMark), other_mark(kOtherMark);
  const auto render = [&](const std::string& document, const ChatHistory& history) -> Result<Cut> {
    auto cut = RenderAround(document, history, "Who?", "");
    if (cut.ok() && cut->after.text.find(document) != std::string::npos) {
      return Status(Code::kUnsupportedModel, "shows a user's text twice");
    }
    if (cut.ok() || cut.status().code() == Code::kUnsupportedModel) return cut;
    return Status(Code::kMalformedModel,
                  "refuses a question about a document: " + cut.status().message());
  };
  LECTERN_ASSIGN(const Cut cut, render(mark, {}));
  LECTERN_ASSIGN(const Cut other, render(other_mark, {}));
  LECTERN_ASSIGN(const Cut later, render(mark, {.instructions = {}, .turns = {{"Who?", "They."}}}));
  assumptions_.clear();
  if (cut.before.text != other.before.text || cut.after.text != other.after.text) {
    assumptions_.push_back(
        "the chat template changes with a user's text: the document is read as if it were a word");
  }
  if (cut.before.text != later.before.text) {
    assumptions_.push_back(
        "the chat template begins a longer conversation otherwise: the document keeps the "
        "beginning "
        "of one question");
  }
  if (has_tools_) {
    assumptions_.push_back("the chat template is one for calling tools: it is given none");
  }
  has_date_ = source_.jinja.find("strftime_now") != std::string::npos;
  if (source_.identity.empty()) {
    source_.identity = std::string(kTemplateVersion) + cut.before.text;
  }
  return Status();
}

void ChatTemplate::FindThinkingMarks(const Tokenizer& tokenizer) {
  const auto in_program = [&](const auto& marks) {
    return source_.jinja.find(marks.first) != std::string::npos;
  };
  const auto in_vocabulary = [&](const auto& marks) {
    return tokenizer.ControlId(marks.first) >= 0;
  };
  auto found = std::ranges::find_if(kThinkingMarks, in_program);
  if (found == std::end(kThinkingMarks))
    found = std::ranges::find_if(kThinkingMarks, in_vocabulary);
  if (found == std::end(kThinkingMarks)) return;
  thinking_ = {std::string(found->first), std::string(found->second), std::string(found->turn),
               std::string(found->answer)};
}

std::string_view NextTurnOf(const ChatTemplate& chat) {
  return chat.name() == "plain" ? kQuestion.substr(0, kQuestion.size() - 1) : std::string_view();
}

Result<FixedContext> ChatTemplate::EncodeDocument(const Tokenizer& tokenizer, std::string_view text,
                                                  std::string_view date) const {
  LECTERN_ASSIGN(const Cut cut, RenderAround(std::string(kMark), {}, "Who?", date));
  PromptEncoder encoder(tokenizer, /*is_beginning=*/true, 0);
  // The token that begins a text is there once, whoever puts it there.
  const auto first = tokenizer.FindControl(cut.before.text);
  const int32_t bos = tokenizer.bos_id();
  if (bos >= 0 && !(first && first->id == bos)) LECTERN_RETURN_IF_ERROR(encoder.AddToken(bos, 0));
  LECTERN_RETURN_IF_ERROR(encoder.Add(cut.before, 0));
  // The document gets the dummy prefix where it begins the text, or where a space of the template
  // stands before it; else it continues the template's text.
  const bool has_dummy_prefix = encoder.is_beginning() || encoder.TakeSpace();
  LECTERN_RETURN_IF_ERROR(encoder.Flush());
  LECTERN_ASSIGN(const TokenizedText tokens,
                 has_dummy_prefix ? tokenizer.Encode(text) : tokenizer.EncodeContinuation(text));
  FixedContext context;
  context.ids = encoder.Take().ids;
  context.num_prefix = context.ids.size();
  context.ranges.resize(context.num_prefix);
  context.ids.insert(context.ids.end(), tokens.ids.begin(), tokens.ids.end());
  context.ranges.insert(context.ranges.end(), tokens.ranges.begin(), tokens.ranges.end());
  context.dropped_bytes = tokens.dropped_bytes;
  return context;
}

Result<jinja::Rendered> ChatTemplate::Render(const ChatHistory& history, std::string_view question,
                                             std::string_view date) const {
  auto cut = RenderAround(std::string(kMark), history, question, date);
  if (cut.ok()) return std::move(cut).value().after;
  return Status(
      cut.status().code() == Code::kLimitExceeded ? Code::kLimitExceeded : Code::kInvalidArgument,
      "the chat template refuses this conversation: " + cut.status().message());
}

Result<Prompt> ChatTemplate::Encode(const Tokenizer& tokenizer, const jinja::Rendered& rendered,
                                    size_t begin) const {
  PromptEncoder encoder(tokenizer, /*is_beginning=*/false, begin);
  LECTERN_RETURN_IF_ERROR(encoder.Add(rendered, begin));
  LECTERN_RETURN_IF_ERROR(encoder.Flush());
  Prompt prompt = encoder.Take();
  prompt.text = rendered.text;
  return prompt;
}

Result<std::vector<int32_t>> ChatTemplate::EncodeQuestion(const Tokenizer& tokenizer,
                                                          std::string_view question,
                                                          const ChatHistory& history,
                                                          std::string_view date) const {
  LECTERN_ASSIGN(const jinja::Rendered rendered, Render(history, question, date));
  LECTERN_ASSIGN(Prompt prompt, Encode(tokenizer, rendered));
  return std::move(prompt.ids);
}

bool ChatTemplate::BeginsThinking(std::string_view rendered) const {
  return !thinking_.begin.empty() && TrimWhiteSpace(rendered).ends_with(thinking_.begin);
}

Result<std::string> ChatTemplateOf(std::string_view tokenizer_config, const std::string& path) {
  const Result<Json> root = ParseJson(tokenizer_config);
  if (!root.ok()) return Status(root.status().code(), path + ": " + root.status().message());
  const Json* value = root->Find("chat_template");
  if (value == nullptr || value->is_null()) return std::string();
  if (value->string() != nullptr) return *value->string();
  if (value->array() != nullptr) {
    const std::string* first = nullptr;
    for (const Json& item : *value->array()) {
      const Json *name = item.Find("name"), *text = item.Find("template");
      if (text == nullptr || text->string() == nullptr) continue;
      if (first == nullptr) first = text->string();
      const bool is_named = name != nullptr && name->string() != nullptr;
      if (is_named && *name->string() == "default") return *text->string();
    }
    if (first != nullptr) return *first;
  }
  return Status(Code::kMalformedModel,
                path + ": \"chat_template\" is neither a text nor a list of them");
}

std::string TokenTextOf(std::string_view tokenizer_config, std::string_view key) {
  const Result<Json> root = ParseJson(tokenizer_config);
  const Json* token = root.ok() ? root->Find(key) : nullptr;
  if (token != nullptr && token->object() != nullptr) token = token->Find("content");
  return token != nullptr && token->string() != nullptr ? *token->string() : "";
}

// Empty if the clock cannot be read; then ParseDate takes the fixed day.
std::string Today() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm here{};
  char text[16] = "";
  if (localtime_r(&now, &here) != nullptr)
    (void)std::strftime(text, sizeof text, "%Y-%m-%d", &here);
  return text;
}

}  // namespace lectern
