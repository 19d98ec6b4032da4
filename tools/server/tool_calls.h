// The tools of a request in OpenAI's formats: whether the answer must call one, and the call that
// an answer is. Tools that only may be called are not: a model may always answer in text. A call
// that is demanded is an answer in JSON that fits the parameters of the function. OPENAI.md,
// "Tools".
#ifndef LECTERN_TOOLS_SERVER_TOOL_CALLS_H_
#define LECTERN_TOOLS_SERVER_TOOL_CALLS_H_

#include <string>
#include <string_view>
#include <vector>

#include "engine/lectern.h"
#include "tools/server/request_fields.h"

namespace lectern::server {

// The names of a format's fields.
struct ToolFields {
  const char* list;    // the tools: "tools", or "functions" of OpenAI's first format
  const char* choice;  // whether one must be called: "tool_choice", or "function_call"
};

// Which tools the answer of a request calls.
struct ToolUse {
  // Tools may be called, and none is: the answer has the warning "tools_not_called" (ReceiptJson).
  bool may_call = false;
  // The names of the functions, one of which the answer calls; empty: the answer is a text.
  std::vector<std::string> functions = {};
  // A list of them for the model, which has to choose; empty unless there are several.
  std::string instructions = {};

  bool is_call() const { return !functions.empty(); }
};

// The text of instructions with those of the tools behind it.
std::string WithTools(std::string instructions, const ToolUse& tools);

// Reads the tools and the choice among them. Where that demands a call, sets options.json_schema
// and options.strict_schema, whatever format of the text the request wants besides: to the
// parameters of the function, or, of several functions, to {"name": …, "arguments": …}. The schemas
// are taken from `body`, which `fields` was parsed from, because the order of their members counts.
//
// Errors of `fields`: a list that is none; a choice that demands a call of a tool that is not
// listed or is no function (a hosted or a custom tool); parameters that are no schema or cannot be
// kept.
ToolUse ReadToolUse(RequestFields& fields, const std::string& body, const ToolFields& names,
                    api::AskOptions& options);

// Makes the name and the arguments of a call from the text of an answer, as it comes. One thread.
class ToolCall {
 public:
  // `functions`: ToolUse's. Where they are empty, the answer is no call, and Add is not called.
  explicit ToolCall(std::vector<std::string> functions) : functions_(std::move(functions)) {}

  // Adds a piece of the answer's text, and returns the piece of the arguments that it brings; it
  // may be empty.
  std::string Add(std::string_view piece);
  // The function's name. Empty: the text does not say it yet; of one function, never.
  const std::string& name() const { return functions_.size() == 1 ? functions_[0] : name_; }

 private:
  const std::vector<std::string> functions_;
  std::string name_;
  std::string unread_;  // text that may still be the call's frame, not its arguments
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_TOOL_CALLS_H_
