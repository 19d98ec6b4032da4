// Renders chat templates: programs in the language Jinja, with the results of jinja2 3.1 in the
// environment that transformers sets up. chat_template.cc uses it; the files jinja_*.cc implement
// it: jinja_lexer and jinja_parser read a program, jinja_interpreter runs it over the values of
// jinja_value.
//
// That environment is an ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks, the loop
// controls, the generation tag, raise_exception, strftime_now and a tojson of its own
// (transformers, utils/chat_template_utils.py). The language is here without its inheritance and
// its HTML: include, import, extends, block and autoescape, and the filters pprint, random,
// striptags, urlize and wordwrap are refused by name. Integers have 64 bits; Python's are
// unbounded, and a larger one is an error. Templates are untrusted: time, memory and depth are
// bounded.
//
// Each byte of a rendered text knows whether it came from the template or from a user, so that a
// user's text never becomes a control token.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_H_

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/status.h"

namespace lectern::jinja {

// A stretch of a text whose bytes have one origin: it reaches from the end of the run before to
// `end`.
struct Run {
  size_t end;  // byte offset in the text
  bool is_input;
};

// A text that knows of each byte whether the template or a user wrote it. In a program all strings
// are such texts, and every operation on them keeps the origin of each byte.
struct Rendered {
  std::string text;
  // Ends ascend, the last is text.size(); neighbours differ in is_input. None: the text is empty.
  std::vector<Run> runs;
};

struct Object;  // a value that does not fit in a Value (jinja_value.h)

// A value of a program: one of Python's. Cheap to copy: larger ones share their object. A program
// never changes an object that a caller can reach, so a caller's values may be rendered many times
// and on many threads.
class Value {
 public:
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInteger,
    kFloat,
    kUndefined,  // a name or attribute that does not exist
    kString,
    kList,
    kTuple,
    kDict,
    // The kinds from here on are made by a program only.
    kView,      // keys(), values() or items() of a dict
    kRange,
    kIterator,  // Python's generators
    kNamespace,
    kLoop,  // the variable `loop`
    kMacro,
    kFunction,
    kMethod,
    kCycler,
    kJoiner
  };

  Value() = default;  // None
  // Values that a caller makes; they belong to no program and count in no limit.
  static Value Bool(bool value);
  static Value Integer(int64_t value);
  static Value Float(double value);
  static Value Template(std::string text);  // a string of the template's own, such as bos_token
  static Value Input(std::string text);     // a string of a user's
  static Value List(std::vector<Value> items);
  // Keys, in order, count as text of a user's. If two are equal, the last value is kept.
  static Value Dict(std::vector<std::pair<std::string, Value>> members);
  // Parses JSON. Strings and keys become text of a user. kMalformedModel: not JSON; kLimitExceeded:
  // an integer of more than 64 bits, or more than 64 levels or 2^20 values. The message has the
  // byte offset.
  static Result<Value> FromJson(std::string_view json);

  // For the interpreter. `object`: the struct of jinja_value.h that belongs to `kind`.
  Value(Kind kind, std::shared_ptr<Object> object) : kind_(kind), object_(std::move(object)) {}
  Kind kind() const { return kind_; }
  bool Is(Kind kind) const { return kind_ == kind; }
  // These three are for the kinds that their comments name, which is not checked.
  int64_t integer() const { return integer_; }      // of kBool (0 or 1) and kInteger
  double real() const { return real_; }             // of kFloat
  Object* object() const { return object_.get(); }  // of the kinds from kUndefined on
  const std::shared_ptr<Object>& shared_object() const { return object_; }

 private:
  Kind kind_ = Kind::kNone;
  union {
    int64_t integer_ = 0;
    double real_;
  };
  std::shared_ptr<Object> object_;
};

// Beyond each of them a program ends with kLimitExceeded. No published template comes near them;
// a document of 16 MiB passes as one string.
struct Limits {
  size_t source_bytes = size_t{1} << 20;  // of the program's text
  uint64_t steps = 50'000'000;  // expressions evaluated, and bytes handled / 64
  size_t output_bytes = size_t{256} << 20;  // of the rendered text
  size_t memory_bytes = size_t{512} << 20;  // of a program's own values, alive at once
  size_t depth = 400;  // of nested expressions, statements, calls, values; takes 512 KiB of stack
};

using Variables = std::vector<std::pair<std::string, Value>>;
// The members of a JSON object as variables. Codes of Value::FromJson; kMalformedModel: no object.
Result<Variables> VariablesFromJson(std::string_view json);

struct Template;  // the parsed program (jinja_syntax.h)

// A parsed template. Immutable; thread-safe.
class Program {
 public:
  // Parses a program and keeps its source. kMalformedModel, with the line: a syntax error, or
  // something that is not supported. kLimitExceeded: larger or deeper than `limits`.
  static Result<Program> Parse(std::string_view source, const Limits& limits = {});
  // Runs the program, within the limits of Parse. `variables`: of two with one name the last
  // counts; they are not changed. `now`: the time that strftime_now formats: all fields count,
  // tm_wday and tm_yday too, but no time zone. A program sees no other clock, so equal arguments
  // give equal texts. kMalformedModel, with the line: an error of the template, such as an
  // undefined value that is used; kLimitExceeded, with the line; kInvalidArgument: the template
  // called raise_exception, with its message. May throw std::bad_alloc.
  Result<Rendered> Render(const Variables& variables, const std::tm& now) const;
  std::string_view source() const;  // valid as long as a copy of the program

 private:
  explicit Program(std::shared_ptr<const Template> parsed) : template_(std::move(parsed)) {}
  std::shared_ptr<const Template> template_;
};

}  // namespace lectern::jinja

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_H_
