// The Runtime of a Jinja program: its limits, the making of values, and their texts (str, repr,
// HTML escapes).
#include <algorithm>
#include <cstdio>

#include "engine/model/template/jinja_unicode.h"
#include "engine/model/template/jinja_value.h"

namespace lectern::jinja {
namespace {

// Writes the texts of values within values, as Python's repr() does.
class ReprWriter {
 public:
  ReprWriter(Runtime& run, TextBuilder& out) : run_(run), out_(out) {}

  // Writes a value as Python's repr() does.
  void Write(const Value& value) {
    if (!run_.Step()) return;
    switch (value.kind()) {
      case Kind::kNone:
        return out_.Append("None");
      case Kind::kBool:
        return out_.Append(value.integer() != 0 ? "True" : "False");
      case Kind::kInteger:
        return out_.Append(std::to_string(value.integer()));
      case Kind::kFloat:
        return out_.Append(FloatRepr(value.real()));
      case Kind::kUndefined:
        return out_.Append("Undefined");
      case Kind::kString:
        return WriteString(value);
      case Kind::kList:
        return WriteItems("[", As<ListObject>(value).items, "]");
      case Kind::kTuple: {
        const std::vector<Value>& items = As<ListObject>(value).items;
        return WriteItems("(", items, items.size() == 1 ? ",)" : ")");
      }
      case Kind::kDict:
        return WriteDict(As<DictObject>(value));
      case Kind::kView:
        out_.Append(As<ViewObject>(value).name);
        return WriteItems("([", As<ViewObject>(value).items->items, "])");
      case Kind::kRange:
        return WriteRange(As<RangeObject>(value));
      case Kind::kNamespace:
        return WriteNamespace(As<NamespaceObject>(value));
      case Kind::kMacro:
        return out_.Append("<Macro '" + std::string(As<MacroObject>(value).name) + "'>");
      case Kind::kLoop:
        return WriteLoop(value);
      default:
        return out_.Append("<" + std::string(TypeName(value)) + " object>");
    }
  }

 private:
  // Writes items with commas between them, inside these brackets.
  void WriteItems(std::string_view open, const std::vector<Value>& items, std::string_view close) {
    out_.Append(open);
    for (size_t i = 0; i < items.size() && !run_.failed(); ++i) {
      if (i > 0) out_.Append(", ");
      Write(items[i]);
    }
    out_.Append(close);
  }

  void WriteDict(const DictObject& dict) {
    out_.Append("{");
    for (size_t i = 0; i < dict.members.size() && !run_.failed(); ++i) {
      if (i > 0) out_.Append(", ");
      Write(dict.members[i].first);
      out_.Append(": ");
      Write(dict.members[i].second);
    }
    out_.Append("}");
  }

  void WriteRange(const RangeObject& range) {
    const int64_t stop = range.start + range.step * range.size;
    std::string text = "range(" + std::to_string(range.start) + ", " + std::to_string(stop);
    if (range.step != 1) text += ", " + std::to_string(range.step);
    out_.Append(text + ")");
  }

  // Only a namespace can contain itself; Python's repr() then writes "{...}" in its place.
  void WriteNamespace(const NamespaceObject& space) {
    if (std::find(within_.begin(), within_.end(), &space) != within_.end()) {
      return out_.Append("<Namespace {...}>");
    }
    // A namespace has no depth of its own, as it changes; so nesting is counted while it is
    // written.
    if (within_.size() > run_.limits.depth) return (void)run_.FailLimit("nested values");
    within_.push_back(&space);
    out_.Append("<Namespace ");
    WriteDict(*space.attributes);
    out_.Append(">");
    within_.pop_back();
  }

  void WriteLoop(const Value& value) {
    const LoopObject& loop = As<LoopObject>(value);
    const int64_t length = loop.length.value_or(static_cast<int64_t>(loop.source->items.size()));
    out_.Append("<LoopContext " + std::to_string(loop.index0 + 1) + "/" + std::to_string(length) +
                ">");
  }

  // Python quotes with ' unless the text has ' and no ".
  void WriteString(const Value& value) {
    const Text& text = TextOf(value);
    const bool has_single = text.text.find('\'') != std::string::npos;
    const bool has_double = text.text.find('"') != std::string::npos;
    const char quote = has_single && !has_double ? '"' : '\'';
    const std::string_view quotes(&quote, 1);
    out_.Append(IsMarkup(value) ? "Markup(" : "");
    out_.Append(quotes);
    ForEachPart(text, 0, text.text.size(), [&](std::string_view bytes, bool is_input) {
      while (!bytes.empty() && !run_.failed()) {
        const Character character = FirstCharacter(bytes);
        WriteCharacter(bytes.substr(0, character.size), character.code, quote, is_input);
        bytes.remove_prefix(character.size);
      }
    });
    out_.Append(quotes);
    out_.Append(IsMarkup(value) ? ")" : "");
  }

  // Escapes the quote, backslashes and characters that are not printable.
  void WriteCharacter(std::string_view bytes, uint32_t code, char quote, bool is_input) {
    if (code == static_cast<uint8_t>(quote) || code == '\\') {
      out_.Append("\\", is_input);
    } else if (code == '\n' || code == '\r' || code == '\t') {
      return out_.Append(code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t", is_input);
    } else if (!(code >= ' ' && code < 0x7F) && code != kInvalid && !IsPrintable(code)) {
      char escape[16];
      std::snprintf(escape, sizeof(escape),
                    code < 0x100     ? "\\x%02x"
                    : code < 0x10000 ? "\\u%04x"
                                     : "\\U%08x",
                    code);
      return out_.Append(escape, is_input);
    }
    out_.Append(bytes, is_input);
  }

  Runtime& run_;
  TextBuilder& out_;
  std::vector<const NamespaceObject*> within_;
};

// The bytes that a text takes in memory.
size_t SizeOf(const Text& text) {
  return text.text.capacity() + text.runs.capacity() * sizeof(Run);
}

}  // namespace

// Takes apart values that may be in circles, which reference counts would never free. `memory` is
// still there: members are destroyed after this body.
Runtime::~Runtime() {
  for (const std::shared_ptr<Scope>& scope : kept_scopes_) scope->names.clear();
  for (const std::shared_ptr<Object>& object : kept_objects_) {
    if (auto* space = dynamic_cast<NamespaceObject*>(object.get())) {
      space->attributes->members.clear();
    } else if (auto* loop = dynamic_cast<LoopObject*>(object.get())) {
      loop->source = nullptr;
      loop->before = loop->current = loop->after = loop->changed = std::nullopt;
    }
  }
}

Value Runtime::Fail(std::string_view message) {
  if (!failed()) {
    status =
        Status(Code::kMalformedModel, "line " + std::to_string(line) + ": " + std::string(message));
  }
  return Value();
}

Value Runtime::FailLimit(std::string_view what) {
  if (!failed()) {
    status = Status(Code::kLimitExceeded, "line " + std::to_string(line) +
                                              ": the template exceeds the limit of " +
                                              std::string(what));
  }
  return Value();
}

Value Runtime::FailUndefined(const Value& undefined) {
  return Fail(As<UndefinedObject>(undefined).message);
}

bool Runtime::Step() {
  if (failed()) return false;
  if (++steps_ <= limits.steps) return true;
  FailLimit("steps");
  return false;
}

// One step stands for 64 bytes (Limits::steps).
bool Runtime::Work(size_t bytes) {
  steps_ += bytes / 64;
  return Step();
}

bool Runtime::Fits(size_t bytes) {
  if (failed()) return false;
  // Written so that no sum can overflow.
  if (bytes <= memory.limit && memory.used <= memory.limit - bytes) return true;
  FailLimit("memory");
  return false;
}

bool Runtime::TooDeep(const Object& object) {
  if (object.depth <= limits.depth) return false;
  FailLimit("nested values");
  return true;
}

Value Runtime::String(Text text, bool is_markup) {
  auto object = std::make_shared<StringObject>();
  object->text = std::move(text);
  object->is_markup = is_markup;
  const size_t size = SizeOf(object->text);
  return Make(Kind::kString, std::move(object), size);
}

Value Runtime::String(std::string_view text) {
  Text of_template;
  Append(&of_template, text, false);
  return String(std::move(of_template));
}

Value Runtime::InputString(std::string_view text) {
  Text of_user;
  Append(&of_user, text, true);
  return String(std::move(of_user));
}

// The whole string is not copied.
Value Runtime::Slice(const Value& string, size_t begin, size_t end) {
  const Text& text = TextOf(string);
  if (begin == 0 && end == text.text.size()) return string;
  if (!Work(end - begin) || !Fits(end - begin)) return Value();
  Text part;
  Append(&part, text, begin, end);
  return String(std::move(part), IsMarkup(string));
}

// An operation that walks a list recurses, so it knows how deep its items are nested.
Value Runtime::List(std::vector<Value> items, Kind kind) {
  auto list = std::make_shared<ListObject>();
  for (const Value& item : items) {
    if (item.object() != nullptr) list->depth = std::max(list->depth, item.object()->depth + 1);
    list->has_unhashable |= !IsHashable(item);
  }
  const size_t size = items.capacity() * sizeof(Value);
  list->items = std::move(items);
  return Make(kind, std::move(list), size);
}

// Charges a dict that is complete; it never changes afterwards.
Value Runtime::Dict(std::shared_ptr<DictObject> dict) {
  for (const auto& [key, value] : dict->members) {
    for (const Value* part : {&key, &value}) {
      if (part->object() != nullptr) dict->depth = std::max(dict->depth, part->object()->depth + 1);
    }
  }
  // 64 bytes for an entry of an index.
  const size_t size = dict->members.capacity() * sizeof(std::pair<Value, Value>) +
                      (dict->strings.size() + dict->hashes.size()) * 64;
  return Make(Kind::kDict, std::move(dict), size);
}

Value Runtime::Iterator(std::vector<Value> items, Status error) {
  if (error.code() == Code::kLimitExceeded) return Value();  // that is not put off
  auto iterator = std::make_shared<IteratorObject>();
  for (const Value& item : items) {
    if (item.object() != nullptr) {
      iterator->depth = std::max(iterator->depth, item.object()->depth + 1);
    }
  }
  const size_t size = items.capacity() * sizeof(Value);
  iterator->items = std::move(items);
  iterator->error = std::move(error);
  return Make(Kind::kIterator, std::move(iterator), size);
}

// The message is made when the value is, because then the line and the names are known.
Value Runtime::Undefined(std::string message) {
  auto undefined = std::make_shared<UndefinedObject>();
  undefined->message = std::move(message);
  const size_t size = undefined->message.capacity();
  return Make(Kind::kUndefined, std::move(undefined), size);
}

// A view is a copy of the members: they do not change. The bounds are taken before the pairs are
// made.
Value Runtime::View(std::string_view name, const DictObject& dict, int part) {
  std::vector<Value> items;
  if (!Work(dict.members.size() * 64) || !Fits(dict.members.size() * 256)) return Value();
  items.reserve(dict.members.size());
  for (const auto& [key, value] : dict.members) {
    items.push_back(part == 0 ? key : part == 1 ? value : List({key, value}, Kind::kTuple));
  }
  const Value list = List(std::move(items));
  if (failed()) return Value();
  auto view = std::make_shared<ViewObject>();
  view->name = name;
  view->depth = list.object()->depth + 1;
  view->items = std::static_pointer_cast<ListObject>(list.shared_object());
  return Make(Kind::kView, std::move(view));
}

// A method keeps the value that it belongs to alive; a global function has None.
Value Runtime::Method(std::string_view name, Function function, Value self, Kind kind) {
  auto method = std::make_shared<FunctionObject>();
  if (self.object() != nullptr) method->depth = self.object()->depth + 1;
  method->name = name;
  method->function = function;
  method->self = std::move(self);
  return Make(kind, std::move(method));
}

bool Runtime::IsIterable(const Value& value) const {
  return value.Is(Kind::kUndefined) || value.Is(Kind::kString) || IsListLike(value) ||
         value.Is(Kind::kDict) || value.Is(Kind::kView) || value.Is(Kind::kRange) ||
         value.Is(Kind::kIterator);
}

// Lists, tuples and views give their own items without a copy, because they never change. An
// undefined value has none.
std::shared_ptr<ListObject> Runtime::Items(const Value& iterable) {
  if (failed()) return nullptr;
  if (IsListLike(iterable)) {
    return std::static_pointer_cast<ListObject>(iterable.shared_object());
  }
  if (iterable.Is(Kind::kView)) return As<ViewObject>(iterable).items;
  std::vector<Value> items;
  if (iterable.Is(Kind::kString)) {
    const std::string_view bytes = BytesOf(iterable);
    for (size_t at = 0; at < bytes.size() && Step();) {
      const size_t size = FirstCharacter(bytes.substr(at)).size;
      Text character;  // no markup, even of markup
      Append(&character, TextOf(iterable), at, at + size);
      items.push_back(String(std::move(character)));
      at += size;
    }
  } else if (iterable.Is(Kind::kDict)) {
    for (const auto& member : As<DictObject>(iterable).members) items.push_back(member.first);
  } else if (iterable.Is(Kind::kRange)) {
    const RangeObject& range = As<RangeObject>(iterable);
    for (int64_t i = 0; i < range.size && Step(); ++i) {
      items.push_back(Value::Integer(range.start + i * range.step));
    }
  } else if (iterable.Is(Kind::kIterator)) {
    IteratorObject& iterator = As<IteratorObject>(iterable);
    items.assign(iterator.items.begin() + static_cast<ptrdiff_t>(iterator.next),
                 iterator.items.end());
    iterator.next = iterator.items.size();
    if (!iterator.error.ok()) status = iterator.error;
  } else if (!iterable.Is(Kind::kUndefined)) {
    Fail("'" + std::string(TypeName(iterable)) + "' object is not iterable");
  }
  const Value list = List(std::move(items));
  if (failed()) return nullptr;
  return std::static_pointer_cast<ListObject>(list.shared_object());
}

// The vector of members may be copied when it grows, so both copies must fit.
void Runtime::SetMember(DictObject* dict, const Value& key, Value value) {
  if (!Step()) return;
  if (!IsHashable(key)) {
    Fail("unhashable type: '" + std::string(TypeName(key)) + "'");
    return;
  }
  if (!Fits(dict->members.size() * (2 * sizeof(Value)))) return;
  dict->Set(this, key, std::move(value));
}

// A string that is no markup is itself; markup gives a copy that is none.
Value Runtime::ToString(const Value& value) {
  if (value.Is(Kind::kString)) {
    return IsMarkup(value) ? String(TextOf(value)) : value;
  }
  if (value.Is(Kind::kUndefined)) return String("");
  return Repr(value);
}

Value Runtime::SoftString(const Value& value) {
  return value.Is(Kind::kString) ? value : ToString(value);
}

// Writes into a builder, so that the text of a huge list stops at the limits.
Value Runtime::Repr(const Value& value) {
  TextBuilder out(*this);
  ReprWriter(*this, out).Write(value);
  return out.TakeString();
}

Value Runtime::Escaped(const Value& value) {
  if (IsMarkup(value)) return value;
  const Value string = ToString(value);
  if (failed()) return Value();
  TextBuilder out(*this);
  const Text& text = TextOf(string);
  ForEachPart(text, 0, text.text.size(), [&out](std::string_view bytes, bool is_input) {
    for (size_t at = 0; at < bytes.size();) {
      const size_t special = std::min(bytes.find_first_of("&<>'\"", at), bytes.size());
      out.Append(bytes.substr(at, special - at), is_input);
      if (special == bytes.size()) return;
      const char c = bytes[special];
      out.Append(c == '&'   ? "&amp;"
                 : c == '<' ? "&lt;"
                 : c == '>' ? "&gt;"
                 : c == '"' ? "&#34;"
                            : "&#39;",
                 is_input);
      at = special + 1;
    }
  });
  return out.TakeString(/*is_markup=*/true);
}

bool TextBuilder::Charge(size_t bytes) {
  if (!run_.Work(bytes) || !run_.Fits(bytes)) return false;
  charged_ += bytes;
  run_.memory.used += bytes;
  return true;
}

void TextBuilder::Append(std::string_view bytes, bool is_input) {
  const bool adds_run = text_.runs.empty() || text_.runs.back().is_input != is_input;
  if (Charge(bytes.size() + (adds_run ? sizeof(Run) : 0))) {
    jinja::Append(&text_, bytes, is_input);
  }
}

void TextBuilder::Append(const Text& text, size_t begin, size_t end) {
  ForEachPart(text, begin, end,
              [this](std::string_view bytes, bool is_input) { Append(bytes, is_input); });
}

Text TextBuilder::Take() {
  run_.memory.used -= charged_;
  charged_ = 0;
  return std::move(text_);
}

}  // namespace lectern::jinja
