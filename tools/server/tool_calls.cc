#include "tools/server/tool_calls.h"

#include <algorithm>
#include <optional>

#include "engine/constraint/json_schema.h"
#include "engine/constraint/ordered_json.h"

namespace lectern::server {
namespace {

// A function that can be called. `schema`: of its arguments, an object.
struct Function {
  std::string name, description;
  OrderedJson schema = {};
  bool is_strict = false;
};

// The parameters of a function without any.
constexpr std::string_view kNoParameters = R"({"type": "object", "additionalProperties": false})";

// A member that is a text; empty where it is missing or none.
std::string TextOf(const OrderedJson& object, std::string_view key) {
  const OrderedJson* const member = object.Find(key);
  return member && member->string() ? *member->string() : std::string();
}

bool IsMissing(const OrderedJson* value) {
  return !value || (value->kind == OrderedJson::Kind::kScalar && value->scalar.is_null());
}

// Clients send null, false, "", [] and {} for a field that they have no value for.
bool IsEmpty(const OrderedJson* value) {
  if (IsMissing(value)) return true;
  if (value->is_array()) return value->items.empty();
  if (value->is_object()) return value->members.empty();
  return (value->boolean() && !*value->boolean()) || (value->string() && value->string()->empty());
}

// A choice among tools, whichever format it is in: a word ("auto", "none", "required"), and the
// names of the tools that it allows, where it names any.
struct Choice {
  std::string word;
  std::vector<std::string> names = {};
  bool is_named = false;
};

// The name of the tool that an object describes: beside its type, or inside "function" or "custom".
std::string NameOf(const OrderedJson& tool) {
  for (const std::string_view inside : {"function", "custom"}) {
    if (const OrderedJson* const described = tool.Find(inside);
        described && described->is_object()) {
      return TextOf(*described, "name");
    }
  }
  return TextOf(tool, "name");
}

// Anthropic's and Mistral's "any" is OpenAI's "required".
std::string Word(std::string word) { return word == "any" ? "required" : word; }

Choice ReadChoice(const OrderedJson* choice) {
  if (IsEmpty(choice)) return {.word = "auto"};
  if (choice->string()) return {.word = Word(*choice->string())};
  const std::string type = TextOf(*choice, "type");
  if (type == "allowed_tools") {
    const OrderedJson* const inside = choice->Find("allowed_tools");  // as chat completions have it
    const OrderedJson& allowed = inside && inside->is_object() ? *inside : *choice;
    Choice read = {.word = Word(TextOf(allowed, "mode")), .is_named = true};
    const OrderedJson* const tools = allowed.Find("tools");
    for (const OrderedJson& tool : tools ? tools->items : std::vector<OrderedJson>()) {
      read.names.push_back(NameOf(tool));
    }
    return read;
  }
  const std::string name = NameOf(*choice);
  if (name.empty()) return {.word = Word(type)};  // {"type": "auto"}, or a hosted tool's type
  return {.word = "required", .names = {name}, .is_named = true};
}

// The function of an entry of the list; nothing: a hosted or a custom tool, or one without a name.
std::optional<Function> ReadFunction(const OrderedJson& tool) {
  const OrderedJson* const inside = tool.Find("function");
  const std::string type = TextOf(tool, "type");
  if (!type.empty() && type != "function") return {};
  const OrderedJson& described = inside ? *inside : tool;
  Function function = {.name = TextOf(described, "name"),
                       .description = TextOf(described, "description")};
  if (function.name.empty()) return {};
  const OrderedJson* const parameters = described.Find("parameters");
  // An empty list of properties allows any members of a schema, but of a function it means none.
  const OrderedJson* const listed = parameters ? parameters->Find("properties") : nullptr;
  const bool lists_none = listed && IsEmpty(listed) && !parameters->Find("additionalProperties");
  const bool has_none = IsEmpty(parameters) || lists_none;
  function.schema = has_none ? *ParseOrderedJson(kNoParameters) : *parameters;
  const OrderedJson* const strict = described.Find("strict");
  function.is_strict = strict && strict->boolean() && *strict->boolean();
  return function;
}

// Makes references within a schema lead to the same places when the schema stands at `place`.
void MoveReferences(OrderedJson& schema, const std::string& place) {
  for (auto& [key, value] : schema.members) {
    const bool is_pointer = key == "$ref" && value.string() &&
                            (*value.string() == "#" || value.string()->starts_with("#/"));
    if (is_pointer) {
      value.scalar = Json("#" + place + value.string()->substr(1));
    } else {
      MoveReferences(value, place);
    }
  }
  for (OrderedJson& item : schema.items) MoveReferences(item, place);
}

// The frame of a call of one of several functions, before its arguments. It is written as answers
// are (CompileJsonSchema), so that the text of one begins with it.
std::string Frame(const std::string& name) {
  return "{\"name\": " + QuotedJson(name) + ", \"arguments\": ";
}

std::string SchemaOfAny(std::vector<Function>& functions) {
  std::string alternatives;
  for (size_t i = 0; i < functions.size(); ++i) {
    MoveReferences(functions[i].schema, "/anyOf/" + std::to_string(i) + "/properties/arguments");
    alternatives += (i > 0 ? ", " : "") +
                    std::string(R"({"type": "object", "properties": {"name": {"const": )") +
                    QuotedJson(functions[i].name) + R"(}, "arguments": )" +
                    DumpOrdered(functions[i].schema) + R"(}, "required": ["name", "arguments"]})";
  }
  return "{\"anyOf\": [" + alternatives + "]}";
}

std::string InstructionsOf(const std::vector<Function>& functions) {
  std::string text = "Answer by a call of one of these functions:";
  for (const Function& function : functions) {
    text +=
        "\n- " + function.name + (function.description.empty() ? "" : ": " + function.description);
  }
  return text;
}

// The functions of the list that a choice allows.
std::vector<Function> FunctionsFor(const OrderedJson& list, const Choice& choice) {
  std::vector<Function> found;
  for (const OrderedJson& tool : list.items) {
    auto function = ReadFunction(tool);
    if (!function) continue;
    const bool is_allowed =
        !choice.is_named || std::ranges::find(choice.names, function->name) != choice.names.end();
    const bool is_new = std::ranges::find(found, function->name, &Function::name) == found.end();
    if (is_allowed && is_new) found.push_back(*std::move(function));
  }
  return found;
}

}  // namespace

ToolUse ReadToolUse(RequestFields& fields, const std::string& body, const ToolFields& names,
                    api::AskOptions& options) {
  const bool has_list = fields.Any(names.list), has_choice = fields.Any(names.choice);
  if (!has_list && !has_choice) return {};
  const auto fail = [&fields](const char* name, const std::string& message) {
    fields.Fail(name, message);
    return ToolUse();
  };
  const auto parsed = ParseOrderedJson(body, kBodyLimits);
  if (!parsed.ok()) return fail(names.list, "cannot be read: " + parsed.status().message());
  static const OrderedJson kNothing;
  const OrderedJson& list =
      IsEmpty(parsed->Find(names.list)) ? kNothing : *parsed->Find(names.list);
  if (&list != &kNothing && !list.is_array()) return fail(names.list, "must be a list");
  const Choice choice = ReadChoice(parsed->Find(names.choice));
  if (choice.word == "auto" || choice.word == "none") {
    return {.may_call = !list.items.empty() && choice.word == "auto"};
  }
  if (choice.word != "required") {
    return fail(names.choice,
                "must be \"auto\", \"none\" or \"required\", or name a function of \"" +
                    std::string(names.list) + "\": \"" + choice.word + "\" is not called here");
  }
  std::vector<Function> functions = FunctionsFor(list, choice);
  if (functions.empty()) {
    const std::string named = choice.names.empty() ? "" : " named \"" + choice.names.front() + "\"";
    return fail(names.choice,
                "demands a call, but " + std::string(names.list) + " has no function" + named);
  }
  ToolUse use;
  for (const Function& function : functions) use.functions.push_back(function.name);
  options.strict_schema = std::ranges::all_of(functions, &Function::is_strict);
  if (functions.size() == 1) {
    options.json_schema = DumpOrdered(functions[0].schema);
  } else {
    options.json_schema = SchemaOfAny(functions);
    use.instructions = InstructionsOf(functions);
  }
  const auto compiled = CompileJsonSchema(options.json_schema, options.strict_schema);
  if (!compiled.ok()) {
    return fail(names.list, "cannot be called: " + compiled.status().message());
  }
  return use;
}

std::string WithTools(std::string instructions, const ToolUse& tools) {
  if (!instructions.empty() && !tools.instructions.empty()) instructions += '\n';
  return instructions + tools.instructions;
}

// The text of one function's call is its arguments. That of several is in a frame, which a brace
// ends: a brace is held back until another character follows.
std::string ToolCall::Add(std::string_view piece) {
  if (functions_.size() == 1) return std::string(piece);
  unread_ += piece;
  for (const std::string& function : functions_) {
    const std::string frame = Frame(function);
    if (!name_.empty() || !unread_.starts_with(frame)) continue;
    name_ = function;
    unread_.erase(0, frame.size());
  }
  if (name_.empty() || unread_.empty()) return "";
  const bool may_end = unread_.back() == '}';
  std::string arguments = unread_.substr(0, unread_.size() - (may_end ? 1 : 0));
  unread_.erase(0, arguments.size());
  return arguments;
}

}  // namespace lectern::server
