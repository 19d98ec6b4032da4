#include "tools/server/conversation.h"

#include <chrono>
#include <optional>

namespace lectern::server {
namespace {

constexpr std::string_view kAlternate =
    "messages of user and assistant must alternate, the user's first: ";

// The text of a message: a string, or parts that are text. Nothing: something else.
std::optional<std::string> ContentOf(const Json& message) {
  const Json* const content = message.Find("content");
  if (!content) return std::nullopt;
  if (content->string()) return *content->string();
  if (!content->array()) return std::nullopt;
  std::string text;
  for (const Json& part : *content->array()) {
    const Json *type = part.Find("type"), *piece = part.Find("text");
    const std::string_view name = type && type->string() ? *type->string() : std::string_view();
    const bool is_text = name == "text" || name == "input_text" || name == "output_text";
    if (!is_text || !piece || !piece->string()) return std::nullopt;
    text += *piece->string();
  }
  return text;
}

}  // namespace

Result<Conversation> ReadConversation(const Json& messages, const char* param) {
  const auto wrong = [&](std::string message) {
    return Status(Code::kInvalidArgument, std::move(message)).WithParam(param);
  };
  if (!messages.array() || messages.array()->empty()) {
    return wrong(std::string(param) + " must be a list with at least one message");
  }
  Conversation read;
  bool asks = false;  // read.question waits for its answer
  for (const Json& message : *messages.array()) {
    const Json* const role = message.Find("role");
    const std::string_view name = role && role->string() ? *role->string() : std::string_view();
    auto content = ContentOf(message);
    if (!content) return wrong("every message needs content: a string or parts of text");
    if (name == "system" || name == "developer") {
      if (asks || !read.turns.empty()) {
        return wrong("instructions (system or developer) must come before all other messages");
      }
      read.instructions += (read.instructions.empty() ? "" : "\n") + *content;
    } else if (name == "user") {
      if (asks) return wrong(std::string(kAlternate) + "two of the user follow each other");
      read.question = *std::move(content);
      asks = true;
    } else if (name == "assistant") {
      if (!asks) return wrong(std::string(kAlternate) + "one of the assistant answers nothing");
      read.turns.push_back({std::move(read.question), *std::move(content)});
      asks = false;
    } else {
      return wrong("the role of a message must be system, developer, user or assistant");
    }
  }
  if (!asks) return wrong("the last message must be the user's");
  return read;
}

Json ReceiptJson(const api::Answer& answer) {
  auto json = answer.Json();
  if (!json.ok()) return nullptr;
  auto parsed = ParseJson(*json, {.max_depth = 16, .max_values = 1 << 20, .max_string = 1 << 24});
  return parsed.ok() ? std::move(parsed).value() : Json();
}

int64_t Now() { return std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()); }

}  // namespace lectern::server
