// JSON for Jinja programs: values from JSON, and the filter tojson, which is Python's json.dumps.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/model/formats/json.h"
#include "engine/model/template/jinja_unicode.h"
#include "engine/model/template/jinja_value.h"

namespace lectern::jinja {
namespace {

// Limits of a caller's JSON (Value::FromJson); a text of 256 MiB passes as one string.
constexpr JsonLimits kLimits = {.max_depth = 64, .max_values = 1u << 20, .max_string = 1u << 28};

// The value of JSON's true, false, null, strings and floats.
Value ScalarOf(const Json& json) {
  if (const bool* boolean = json.boolean()) return Value::Bool(*boolean);
  if (const std::string* text = json.string()) return Value::Input(*text);
  return json.is_null() ? Value() : Value::Float(*json.number());
}

// Builds a value from the events of ReadJson, without recursion. open_ has the containers that are
// not complete, the innermost last.
class Builder : public JsonEvents {
 public:
  Status Scalar(Json json) override {
    // A float with a whole value stays a float.
    if (!json.is_float() && json.number() && !json.integer()) {
      return Status(Code::kLimitExceeded, "JSON integer of more than 64 bits");
    }
    Place(!json.is_float() && json.integer() ? Value::Integer(*json.integer()) : ScalarOf(json));
    return Status();
  }
  Status Key(std::string name) override {
    open_.back().keys.push_back(std::move(name));
    return Status();
  }
  Status Begin(bool is_object) override {
    open_.push_back({is_object, {}, {}});
    return Status();
  }
  Status End() override {
    Container done = std::move(open_.back());
    open_.pop_back();
    if (!done.is_object) return Place(Value::List(std::move(done.values))), Status();
    std::vector<std::pair<std::string, Value>> members;
    for (size_t i = 0; i < done.keys.size(); ++i) {
      members.emplace_back(std::move(done.keys[i]), std::move(done.values[i]));
    }
    Place(Value::Dict(std::move(members)));
    return Status();
  }

  Value TakeRoot() { return std::move(root_); }

 private:
  struct Container {
    bool is_object;
    std::vector<std::string> keys;
    std::vector<Value> values;
  };
  // Puts a complete value into the innermost container, or makes it the root.
  void Place(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else {
      open_.back().values.push_back(std::move(value));
    }
  }

  std::vector<Container> open_;
  Value root_;
};

// Writes a value as json.dumps does (Lib/json/encoder.py). Strings keep the origin of each byte.
class Writer {
 public:
  Writer(Runtime& run, TextBuilder& out) : run_(run), out_(out) {}

  // Arguments of json.dumps.
  bool ensure_ascii = false, sort_keys = false;
  std::optional<Value> indent;  // a string, repeated for each level; none: all on one line
  Value item_separator, key_separator;

  // Writes any value that JSON has; views, generators and the like are an error, as in json.dumps.
  void Write(const Value& value) {
    if (!run_.Step()) return;
    switch (value.kind()) {
      case Kind::kNone:
        return out_.Append("null");
      case Kind::kBool:
        return out_.Append(value.integer() != 0 ? "true" : "false");
      case Kind::kInteger:
        return out_.Append(std::to_string(value.integer()));
      case Kind::kFloat:
        return out_.Append(Number(value.real()));
      case Kind::kString:
        return WriteString(TextOf(value));
      case Kind::kList:
      case Kind::kTuple:
        return WriteList(As<ListObject>(value).items);
      case Kind::kDict:
        return WriteDict(As<DictObject>(value));
      default:
        run_.Fail("Object of type " + std::string(TypeName(value)) + " is not JSON serializable");
    }
  }

 private:
  // Python's NaN and Infinity, which are no JSON, come out as Python writes them.
  static std::string Number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return FloatRepr(value);
  }

  // Begins a line at the current depth, if there is an indent.
  void NewLine() {
    if (!indent) return;
    out_.Append("\n");
    for (size_t i = 0; i < depth_ && run_.Step(); ++i) out_.Append(*indent);
  }

  void WriteList(const std::vector<Value>& items) {
    if (items.empty()) return out_.Append("[]");
    out_.Append("[");
    ++depth_;
    for (size_t i = 0; i < items.size() && !run_.failed(); ++i) {
      if (i > 0) out_.Append(item_separator);
      NewLine();
      Write(items[i]);
    }
    --depth_;
    NewLine();
    out_.Append("]");
  }

  // Members in their order, or sorted by key.
  void WriteDict(const DictObject& dict) {
    if (dict.members.empty()) return out_.Append("{}");
    out_.Append("{");
    ++depth_;
    bool is_first = true;
    for (const auto* member : InOrder(dict)) {
      if (run_.failed()) return;
      if (!is_first) out_.Append(item_separator);
      is_first = false;
      NewLine();
      WriteKey(member->first);
      out_.Append(key_separator);
      Write(member->second);
    }
    --depth_;
    NewLine();
    out_.Append("}");
  }

  // The members in their order, or sorted by key.
  std::vector<const std::pair<Value, Value>*> InOrder(const DictObject& dict) {
    std::vector<const std::pair<Value, Value>*> members;
    if (!run_.Fits(dict.members.size() * sizeof(void*))) return members;
    for (const auto& member : dict.members) members.push_back(&member);
    if (!sort_keys) return members;
    std::vector<Value> keys;
    for (const auto* member : members) keys.push_back(member->first);
    const std::vector<size_t> order = SortedOrder(run_, keys, /*reverse=*/false);
    std::vector<const std::pair<Value, Value>*> sorted;
    for (const size_t place : order) sorted.push_back(members[place]);
    return sorted;
  }

  // Keys that are numbers, bools or None become strings.
  void WriteKey(const Value& key) {
    if (key.Is(Kind::kString)) return WriteString(TextOf(key));
    if (!key.Is(Kind::kNone) && !IsNumber(key)) {
      run_.Fail("keys must be str, int, float, bool or None, not " + std::string(TypeName(key)));
      return;
    }
    out_.Append("\"");
    Write(key);
    out_.Append("\"");
  }

  // Plain stretches are copied as they are; only characters with an escape are looked at one by
  // one.
  void WriteString(const Text& text) {
    out_.Append("\"");
    ForEachPart(text, 0, text.text.size(), [this](std::string_view bytes, bool is_input) {
      for (size_t at = 0; at < bytes.size() && !run_.failed();) {
        size_t plain = at;
        while (plain < bytes.size() && !IsEscaped(bytes[plain])) ++plain;
        if (plain > at) out_.Append(bytes.substr(at, plain - at), is_input);
        if (plain == bytes.size()) return;
        const Character character = FirstCharacter(bytes.substr(plain));
        out_.Append(Escape(bytes.substr(plain, character.size), character.code), is_input);
        at = plain + character.size;
      }
    });
    out_.Append("\"");
  }

  // Whether a character begins an escape: always '"', '\' and control characters; with ensure_ascii
  // everything behind '~', too.
  bool IsEscaped(char c) const {
    return c == '"' || c == '\\' || static_cast<uint8_t>(c) < 0x20 ||
           (ensure_ascii && ((c & 0x80) != 0 || c == 0x7F));
  }

  // The escape of a character: two letters, "\uXXXX", or a pair of surrogates. A byte that is not
  // UTF-8 stays as it is.
  static std::string Escape(std::string_view bytes, uint32_t code) {
    static constexpr std::string_view kMeant = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    if (code == kInvalid) return std::string(bytes);
    if (const size_t at = code < 0x80 ? kMeant.find(static_cast<char>(code)) : std::string::npos;
        at != std::string::npos) {
      return {'\\', kLetters[at]};
    }
    char escape[16];
    if (code < 0x10000) {
      std::snprintf(escape, sizeof(escape), "\\u%04x", code);
    } else {
      std::snprintf(escape, sizeof(escape), "\\u%04x\\u%04x", 0xD800 + ((code - 0x10000) >> 10),
                    0xDC00 + (code & 0x3FF));
    }
    return escape;
  }

  Runtime& run_;
  TextBuilder& out_;
  size_t depth_ = 0;
};

// The argument `indent`: a number of spaces, or a string; None: no indent. A negative number counts
// as 0, which still begins new lines.
std::optional<Value> IndentOf(Runtime& run, const Value& indent) {
  if (indent.Is(Kind::kNone)) return std::nullopt;
  if (indent.Is(Kind::kString)) return indent;
  const int64_t count = IntegerArgument(run, indent, 0);
  if (count > 1000) run.FailLimit("a thousand spaces of indent");
  return run.String(std::string(static_cast<size_t>(std::clamp<int64_t>(count, 0, 1000)), ' '));
}

}  // namespace

Result<Value> Value::FromJson(std::string_view json) {
  Builder builder;
  LECTERN_RETURN_IF_ERROR(ReadJson(json, kLimits, builder));
  return builder.TakeRoot();
}

Result<Variables> VariablesFromJson(std::string_view json) {
  LECTERN_ASSIGN(const Value object, Value::FromJson(json));
  if (!object.Is(Kind::kDict)) {
    return Status(Code::kMalformedModel, "the variables of a template are a JSON object");
  }
  Variables variables;
  for (const auto& [name, value] : As<DictObject>(object).members) {
    variables.emplace_back(BytesOf(name), value);
  }
  return variables;
}

Value ToJson(Runtime& run, const Value& value, CallArguments& arguments) {
  std::vector<std::optional<Value>> bound;
  if (!Bind(run, "tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0,
            &bound)) {
    return Value();
  }
  TextBuilder out(run);
  Writer writer(run, out);
  writer.ensure_ascii = bound[0] && IsTrue(*bound[0]);
  // json.dumps does not look at the indent of a string.
  if (!value.Is(Kind::kString)) writer.indent = IndentOf(run, bound[1].value_or(Value()));
  writer.sort_keys = bound[3] && IsTrue(*bound[3]);
  // The separators are a pair of texts; the defaults are Python's, which puts no space behind a
  // comma at the end of an indented line.
  if (bound[2] && !bound[2]->Is(Kind::kNone)) {
    const std::shared_ptr<ListObject> separators = run.Items(*bound[2]);
    if (separators == nullptr) return Value();
    if (separators->items.size() != 2 || !separators->items[0].Is(Kind::kString) ||
        !separators->items[1].Is(Kind::kString)) {
      return run.Fail("separators must be two strings");
    }
    writer.item_separator = separators->items[0];
    writer.key_separator = separators->items[1];
  } else {
    writer.item_separator = run.String(writer.indent ? "," : ", ");
    writer.key_separator = run.String(": ");
  }
  if (run.failed()) return Value();
  writer.Write(value);
  return out.TakeString();
}

}  // namespace lectern::jinja
