#include "tools/server/conversation.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "tools/server/messages.h"

namespace lectern::server {
namespace {

// A member that is a string; empty where it is missing or none.
std::string_view TextIn(const Json& object, std::string_view key) {
  const Json* const member = object.Find(key);
  return member && member->string() ? std::string_view(*member->string()) : std::string_view();
}

// Adds a text on a line of its own; empty ones add nothing.
void Join(std::string& text, std::string_view more) {
  if (!text.empty() && !more.empty()) text += '\n';
  text += more;
}

// Joins two messages of one side. Two single lines become one line, the form in which small models
// are trained on questions; longer texts keep their lines.
void JoinMessages(std::string& text, std::string_view more) {
  const bool are_lines =
      text.find('\n') == std::string::npos && more.find('\n') == std::string_view::npos;
  if (!are_lines) return Join(text, more);
  if (!text.empty() && !more.empty()) text += ' ';
  text += more;
}

template <size_t kSize>
bool IsOneOf(std::string_view name, const std::string_view (&names)[kSize]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// Types of items and parts in OpenAI's formats. Silent ones are left out: they say nothing to a
// model that only answers.
constexpr std::string_view kSilentItems[] = {"reasoning", "file_search_call", "web_search_call",
                                             "mcp_list_tools"};
constexpr std::string_view kCallItems[] = {"function_call", "custom_tool_call"};
constexpr std::string_view kResultItems[] = {"function_call_output", "custom_tool_call_output"};
constexpr std::string_view kSilentParts[] = {"reasoning", "thinking", "redacted_thinking"};
constexpr std::string_view kTextParts[] = {"text", "input_text", "output_text"};

// Reads the messages one by one. One use: Read, then Finish.
class Reader {
 public:
  explicit Reader(const char* param) : param_(param) {}

  Status Read(const Json& messages);
  Result<Conversation> Finish();

 private:
  Status Wrong(const std::string& message) const {
    return Status(Code::kInvalidArgument, message).WithParam(param_);
  }
  // "messages[3]: …"
  Status WrongHere(const std::string& message) const {
    return Wrong(std::string(param_) + "[" + std::to_string(index_) + "]: " + message);
  }
  Status ReadItem(const Json& item);
  Status ReadMessage(const Json& message, std::string_view role);
  Status ReadAssistant(const Json& message);
  Status ReadResult(const Json& item, std::string_view id, const char* content);
  // A function's name and arguments, or a custom tool's name and input.
  void AddCall(const Json& call, std::string_view id);
  Result<std::string> Text(const Json& item, const char* key) const;
  Status AddPart(const Json& part, std::string& text) const;
  void AddQuestion(std::string_view text);
  void AddAnswer(std::string_view text);
  void TakeResults();  // as a part of what the assistant says

  const char* const param_;
  size_t index_ = 0;  // of the message that is read
  Conversation read_;
  bool has_turn_ = false;  // the assistant spoke last, in the last of read_.turns
  std::string results_;    // results of tools that no message follows yet
  std::map<std::string, std::string, std::less<>> tools_;  // name by the id of a call
};

Status Reader::Read(const Json& messages) {
  if (!messages.array() || messages.array()->empty()) {
    return Wrong(std::string(param_) + " must be a list with at least one message");
  }
  for (const Json& item : *messages.array()) {
    LECTERN_RETURN_IF_ERROR(ReadItem(item));
    ++index_;
  }
  return {};
}

// Reads one element of the list: by its role as a message, else by its type as an item of
// responses. kInvalidArgument: it has neither, or a type that cannot be read.
Status Reader::ReadItem(const Json& item) {
  const std::string_view role = TextIn(item, "role"), type = TextIn(item, "type");
  if (!role.empty()) return ReadMessage(item, role);
  if (IsOneOf(type, kSilentItems)) return {};
  if (IsOneOf(type, kCallItems)) {
    AddCall(item, TextIn(item, "call_id"));
    return {};
  }
  if (IsOneOf(type, kResultItems)) return ReadResult(item, TextIn(item, "call_id"), "output");
  if (type == "item_reference") {
    return WrongHere("nothing is kept that an item_reference could mean; send the item itself");
  }
  if (!type.empty()) {
    return WrongHere("items of type \"" + std::string(type) +
                     "\" cannot be read; send messages of text");
  }
  return WrongHere("the message needs a role: system, developer, user, assistant or tool");
}

// Reads a message into the side that its role names. kInvalidArgument: an unknown role, or content
// that is no text.
Status Reader::ReadMessage(const Json& message, std::string_view role) {
  if (role == "assistant") return ReadAssistant(message);
  if (role == "tool") return ReadResult(message, TextIn(message, "tool_call_id"), "content");
  if (role == "function") return ReadResult(message, "", "content");
  LECTERN_ASSIGN(const std::string text, Text(message, "content"));
  if (role == "system" || role == "developer") {
    Join(read_.instructions, text);
    return {};
  }
  if (role != "user") {
    return WrongHere("the role must be system, developer, user, assistant or tool, not \"" +
                     std::string(role) + "\"");
  }
  AddQuestion(text);
  return {};
}

Status Reader::ReadAssistant(const Json& message) {
  LECTERN_ASSIGN(std::string text, Text(message, "content"));
  Join(text, TextIn(message, "refusal"));
  AddAnswer(text);
  const Json* const calls = message.Find("tool_calls");
  for (const Json& call : calls && calls->array() ? *calls->array() : Json::Array()) {
    for (const char* const kind : {"function", "custom"}) {
      if (const Json* const called = call.Find(kind)) AddCall(*called, TextIn(call, "id"));
    }
  }
  const Json* const call = message.Find("function_call");  // as it was before tool_calls
  if (call && call->object()) AddCall(*call, "");
  return {};
}

// A call of a tool, as a line of text: Called search({"q": "rent"}).
void Reader::AddCall(const Json& call, std::string_view id) {
  const std::string name(TextIn(call, "name"));
  if (!id.empty()) tools_[std::string(id)] = name;
  const std::string_view arguments = TextIn(call, "arguments");
  AddAnswer("Called " + name + "(" +
            std::string(arguments.empty() ? TextIn(call, "input") : arguments) + ")");
}

Status Reader::ReadResult(const Json& item, std::string_view id, const char* content) {
  LECTERN_ASSIGN(const std::string text, Text(item, content));
  const auto called = tools_.find(id);
  const std::string name(called != tools_.end() ? called->second : TextIn(item, "name"));
  Join(results_, "Result of " + (name.empty() ? "a tool" : name) + ": " + text);
  return {};
}

// The text of a message's content: a string, parts that are text, or nothing ("").
Result<std::string> Reader::Text(const Json& item, const char* key) const {
  const Json* const content = item.Find(key);
  if (!content || content->is_null()) return std::string();
  if (content->string()) return *content->string();
  if (!content->array()) {
    return WrongHere(std::string(key) + " must be a string or a list of parts of text");
  }
  std::string text;
  for (const Json& part : *content->array()) LECTERN_RETURN_IF_ERROR(AddPart(part, text));
  return text;
}

// Appends the text of one part of a message's content; reasoning adds nothing. kInvalidArgument: a
// part of another type, or a text that is no string.
Status Reader::AddPart(const Json& part, std::string& text) const {
  if (part.string()) {
    Join(text, *part.string());
    return {};
  }
  const std::string_view type = TextIn(part, "type");
  if (IsOneOf(type, kSilentParts)) return {};
  if (type == "refusal") {
    Join(text, TextIn(part, "refusal"));
    return {};
  }
  if (!IsOneOf(type, kTextParts)) {
    return WrongHere(type.empty()
                         ? "a part of content needs a type: text"
                         : "parts of type \"" + std::string(type) + "\" cannot be read; send text");
  }
  const Json* const piece = part.Find("text");
  if (piece && !piece->is_null() && !piece->string()) {
    return WrongHere("the text of a part must be a string");
  }
  Join(text, TextIn(part, "text"));
  return {};
}

void Reader::AddQuestion(std::string_view text) {
  TakeResults();
  JoinMessages(read_.question, text);
  has_turn_ = false;
}

// Adds to the assistant's answer. The question before it is what was collected since the last
// answer; it may be empty.
void Reader::AddAnswer(std::string_view text) {
  TakeResults();
  if (!has_turn_) read_.turns.push_back({std::exchange(read_.question, {}), {}});
  JoinMessages(read_.turns.back().answer, text);
  has_turn_ = true;
}

void Reader::TakeResults() {
  if (results_.empty()) return;
  const std::string results = std::exchange(results_, {});
  if (!has_turn_) read_.turns.push_back({std::exchange(read_.question, {}), {}});
  Join(read_.turns.back().answer, results);
  has_turn_ = true;
}

// Makes the question of the text that no answer followed: results of tools, and a client's only
// message even where it is a system message. An answer at the end is none: continuing it would need
// another prompt than the chat template has.
Result<Conversation> Reader::Finish() {
  if (!results_.empty()) {
    JoinMessages(read_.question, results_);
    has_turn_ = false;
  }
  const bool says_nothing = read_.question.empty() && read_.turns.empty();
  if (says_nothing) read_.question = std::exchange(read_.instructions, {});
  if (has_turn_) {
    return Wrong(
        "the last message must be the user's or a tool's: an answer of the assistant is not "
        "continued");
  }
  if (read_.question.find_first_not_of(" \t\r\n") == std::string::npos) {
    return Wrong("the last message has no text that could be answered");
  }
  return std::move(read_);
}

// The receipt with the warning that no tool was called.
Json WithUncalledTools(Json::Object receipt) {
  const auto warnings = receipt.find("warnings"), note = receipt.find("note");
  if (warnings != receipt.end() && warnings->second.array()) {
    Json::Array more = *warnings->second.array();
    more.emplace_back("tools_not_called");
    warnings->second = std::move(more);
  }
  if (note != receipt.end()) {
    const std::string said = note->second.string() ? *note->second.string() : "";
    note->second = (said.empty() ? said : said + "; ") +
                   "the request has tools, and no tool is called here: this is an answer in text";
  }
  return Json(std::move(receipt));
}

}  // namespace

Result<Conversation> ReadConversation(const Json& messages, const char* param) {
  Reader reader(param);
  LECTERN_RETURN_IF_ERROR(reader.Read(messages));
  return reader.Finish();
}

// The limits are above any answer's: it is the engine's own JSON.
Json ReceiptJson(const api::Answer& answer, bool may_call_tools) {
  auto json = answer.Json();
  if (!json.ok()) return nullptr;
  auto parsed = ParseJson(*json, {.max_depth = 16, .max_values = 1 << 20, .max_string = 1 << 24});
  if (!parsed.ok()) return Json();
  // The answer of a collection names documents, whose paths are this machine's.
  Json receipt =
      answer.receipt().num_documents > 0 ? WithoutPaths(*parsed) : std::move(parsed).value();
  return may_call_tools && receipt.object() ? WithUncalledTools(*receipt.object()) : receipt;
}

int64_t Now() { return std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()); }

}  // namespace lectern::server
