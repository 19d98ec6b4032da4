// One row of a table of options (engine/requests/options.h): how an option is called, what values
// it may have, and where it lies in the structs that carry it. The checks of the engine, the C
// structs, the flags and --help of the tools, the JSON of requests and the OpenAPI description all
// come from the rows. A new option is a field of the structs, a row, and the code that uses it.
#ifndef LECTERN_ENGINE_REQUESTS_OPTION_H_
#define LECTERN_ENGINE_REQUESTS_OPTION_H_

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "store/message.h"
#include "store/status.h"

namespace lectern {

// A text of a C struct that has a length and no address: an error of the caller (ReadOptions).
struct NullText {};
// The value of an option on its way between a struct and a command line or a request.
// std::monostate: it was not given, the default holds. A choice of an enumeration is its number in
// lectern_c.h, from 1.
using OptionValue = std::variant<std::monostate, bool, uint64_t, double, std::string,
                                 std::vector<std::string>, NullText>;
inline bool IsGiven(const OptionValue& value) { return value.index() != 0; }

enum class OptionKind {
  kFlag,         // bool
  kNumber,       // double, in `range`
  kWhole,        // uint64_t, in `range`
  kBytes,        // uint64_t; command lines take sizes like 500MB
  kText,         // std::string
  kChoice,       // std::string, one of `choices`
  kEnumeration,  // uint64_t, one of `choices`, counted from 1
  kTexts,        // none of them empty; all together have at most `range.most` bytes
};

struct OptionRange {
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
  bool is_open_below = false;  // `least` itself is too little
  bool is_open_above = false;  // `most` itself is too much

  bool Holds(double number) const;  // false: also NaN
};
inline constexpr OptionRange kShare = {.least = 0, .most = 1, .is_open_below = true};
inline constexpr OptionRange kShareBelowOne = {
    .least = 0, .most = 1, .is_open_below = true, .is_open_above = true};

// Where users meet an option. A bit each.
enum OptionSurface : unsigned {
  kNowhere = 0,        // only in the structs of the API
  kCommandLine = 1,    // a flag of the request's tool
  kRequest = 2,        // a field of the request's endpoint: POST /v1/ask, POST /v1/documents
  kOpenAiRequest = 4,  // the same field, with the same range, of OpenAI's formats
  // Options of the engine: flags of every tool, of those that write the store, of those that need a
  // model, and of those that index or ask.
  kStoreTool = 8,
  kWritingTool = 16,
  kModelTool = 32,
  kDeviceTool = 64,
};

struct Option {
  const char* name;  // of the API's field, and in messages
  OptionKind kind;
  unsigned surfaces = kNowhere;
  OptionRange range = {};
  double most_of_request = std::numeric_limits<double>::infinity();  // lower, where clients ask
  std::array<std::string_view, 6> choices = {};                      // the last ones may be empty
  // Names for a kText that the engine itself checks; they are shown in the description.
  std::vector<std::string> (*names)() = nullptr;
  // kNumber: a word that may stand in its place, such as "auto", and the number outside of the
  // range that carries it in structs. Empty: there is none.
  std::string_view word = {};
  double word_number = 0;
  bool is_on = false;           // kFlag: the default; the flag of the tool then is --no-name
  bool is_never_empty = false;  // kText; the flags of the tools check it, CheckOption does not
  bool has_variable = false;    // an environment variable of the tools: VariableOf
  // A sentence for --help and the description, without the default. {name} names another option of
  // the table, as a flag or as a field.
  const char* help = "";
  const char* help_off = "";      // --help of --no-name
  const char* default_text = "";  // empty: nothing to say
  const char* value_name = "";    // what --help calls the value; empty: TEXT
  const char* flag = nullptr;     // without its dashes; nullptr: derived from the name
  const char* field = nullptr;    // of requests; nullptr: `name`

  bool is_in(OptionSurface surface) const { return (surfaces & surface) != 0; }
  std::span<const std::string_view> choice_names() const;
};

// With dashes, as in --kv-budget; of a flag that is on by default, --no-name.
std::string FlagOf(const Option& option);
std::string FieldOf(const Option& option);       // of a request, as in kv_budget
// The name of an option's environment variable, LECTERN_MAX_RAM for max_ram. Whether the tools read
// such a variable is told by has_variable, which is not looked at here.
std::string VariableOf(const Option& option);
Message NameOf(const Option& option);            // the name, for command lines the flag
std::string Interval(const OptionRange& range);  // "(0, 1]"
// Whether a kNumber may have this value: it lies in the range, or stands for the option's word.
bool HoldsNumber(const Option& option, double number);
// A help text with {names} as `name_of` has them, and, if the option has a default_text, the
// environment variable and that default in brackets behind it. Every brace in `text` is closed.
std::string HelpText(const Option& option, std::string_view text,
                     const std::function<std::string(std::string_view name)>& name_of);
// The number of a choice, from 1; 0: there is none of this name.
uint64_t ChoiceNumber(const Option& option, std::string_view name);

// kInvalidArgument, with the option's name as param, where the value is none that the option may
// have. A value that is not given is fine, and so is every flag, size and text: policies and the
// like are checked where they are used. `value` has the type that OptionKind names.
Status CheckOption(const Option& option, const OptionValue& value);

// --- where an option lies in a struct -----------------------------------------------------------

// Functions that read an option of a Struct and set it. Both are nullptr where the struct has no
// such option, or has it as a list that is read by hand; `set` alone where the struct is only read.
// `set` takes a value that is given and of the type that OptionKind names; a field that is a
// std::string_view becomes a view of it.
template <typename Struct>
struct OptionPlace {
  OptionValue (*get)(const Struct&) = nullptr;
  void (*set)(Struct&, const OptionValue&) = nullptr;

  bool is_there() const { return get != nullptr; }
};

namespace option_internal {

template <typename Member>
struct MemberTraits;
template <typename StructOf, typename ValueOf>
struct MemberTraits<ValueOf StructOf::*> {
  using Struct = StructOf;
  using Value = ValueOf;
};
template <auto kMember>
using StructOf = typename MemberTraits<decltype(kMember)>::Struct;

template <typename Struct, typename Member>
auto& Reach(Struct& in, Member member) {
  return in.*member;
}
template <typename Struct, typename Member, typename... Inner>
auto& Reach(Struct& in, Member member, Inner... inner) {
  return Reach(in.*member, inner...);
}

// Turn fields of structs into values and back. An empty text or list, and an optional without a
// value, is not given; a number or bool always is. An enumeration has two functions of its own,
// which are found by its namespace.
template <typename Field>
OptionValue ToValue(const Field& field) {
  if constexpr (std::is_same_v<Field, bool>) {
    return field;
  } else if constexpr (std::is_floating_point_v<Field>) {
    return static_cast<double>(field);
  } else if constexpr (std::is_integral_v<Field>) {
    return static_cast<uint64_t>(field);
  } else if constexpr (std::is_same_v<Field, std::vector<std::string>>) {
    return field.empty() ? OptionValue() : field;
  } else if constexpr (std::is_same_v<Field, std::optional<double>>) {
    return field ? OptionValue(*field) : OptionValue();
  } else {
    return field.empty() ? OptionValue() : OptionValue(std::string(field));
  }
}

// A whole number beyond the field's type becomes the largest one of it.
template <typename Field>
void FromValue(const OptionValue& value, Field& field) {
  if constexpr (std::is_same_v<Field, bool>) {
    field = std::get<bool>(value);
  } else if constexpr (std::is_floating_point_v<Field>) {
    field = static_cast<Field>(std::get<double>(value));
  } else if constexpr (std::is_integral_v<Field>) {
    constexpr uint64_t kMost = static_cast<uint64_t>(std::numeric_limits<Field>::max());
    field = static_cast<Field>(std::min(std::get<uint64_t>(value), kMost));
  } else if constexpr (std::is_same_v<Field, std::vector<std::string>>) {
    field = std::get<std::vector<std::string>>(value);
  } else if constexpr (std::is_same_v<Field, std::optional<double>>) {
    field = std::get<double>(value);
  } else {
    field = std::get<std::string>(value);
  }
}

inline bool IsZero(const OptionValue& value) {
  const auto* const number = std::get_if<double>(&value);
  const auto* const whole = std::get_if<uint64_t>(&value);
  return (number && *number == 0) || (whole && *whole == 0);
}

}  // namespace option_internal

// The place that is found by following members: &AskOptions::sampling, &SamplingOptions::top_p.
template <auto kFirst, auto... kInner>
constexpr auto At() {
  using Struct = option_internal::StructOf<kFirst>;
  OptionPlace<Struct> place;
  place.get = [](const Struct& from) {
    using option_internal::ToValue;
    return ToValue(option_internal::Reach(from, kFirst, kInner...));
  };
  place.set = [](Struct& in, const OptionValue& value) {
    using option_internal::FromValue;
    FromValue(value, option_internal::Reach(in, kFirst, kInner...));
  };
  return place;
}

// The same of a field whose 0 means that nothing was given: every number of a C struct.
template <auto kFirst, auto... kInner>
constexpr auto AtOrZero() {
  using Struct = option_internal::StructOf<kFirst>;
  OptionPlace<Struct> place = At<kFirst, kInner...>();
  place.get = [](const Struct& from) {
    OptionValue value = At<kFirst, kInner...>().get(from);
    return option_internal::IsZero(value) ? OptionValue() : value;
  };
  return place;
}

// A bool of a C struct, which is only read; `kMeans`: what 1 stands for. 0: not given.
template <auto kMember, bool kMeans = true>
constexpr auto AtFlag() {
  using Struct = option_internal::StructOf<kMember>;
  OptionPlace<Struct> place;
  place.get = [](const Struct& from) {
    return from.*kMember != 0 ? OptionValue(kMeans) : OptionValue();
  };
  return place;
}

// A text of a C struct, address and length, which is only read.
template <auto kText, auto kLength>
constexpr auto AtText() {
  using Struct = option_internal::StructOf<kText>;
  OptionPlace<Struct> place;
  place.get = [](const Struct& from) -> OptionValue {
    const char* const text = from.*kText;
    const size_t length = from.*kLength;
    if (length == 0) return {};
    return text ? OptionValue(std::string(text, length)) : OptionValue(NullText());
  };
  return place;
}

// A row: the option, and its places in the C struct, the struct of lectern.h, and the engine's.
template <typename C, typename Api, typename Engine>
struct OptionRow {
  Option option;
  OptionPlace<C> c = {};
  OptionPlace<Api> api = {};
  OptionPlace<Engine> engine = {};
};

// CheckOption of each row that the engine's struct has; returns the first failure.
template <typename C, typename Api, typename Engine>
Status CheckOptions(std::span<const OptionRow<C, Api, Engine>> rows, const Engine& options) {
  for (const auto& row : rows) {
    if (!row.engine.is_there()) continue;
    LECTERN_RETURN_IF_ERROR(CheckOption(row.option, row.engine.get(options)));
  }
  return {};
}

// Copies a C struct's options into the engine's. kInvalidArgument: a text without an address, or a
// number that is none of an enumeration; ranges are left to CheckOptions. Options before the one
// that fails are copied already.
template <typename C, typename Api, typename Engine>
Status ReadOptions(std::span<const OptionRow<C, Api, Engine>> rows, const C& from, Engine& to) {
  for (const auto& row : rows) {
    if (!row.c.is_there()) continue;
    const OptionValue value = row.c.get(from);
    const std::string name = row.option.name;
    if (std::holds_alternative<NullText>(value)) {
      return Status(Code::kInvalidArgument, "text is NULL but its length is not 0").WithParam(name);
    }
    if (row.option.kind == OptionKind::kEnumeration) {
      LECTERN_RETURN_IF_ERROR(CheckOption(row.option, value));
    }
    if (IsGiven(value)) row.engine.set(to, value);
  }
  return {};
}

// The options that a command line or a request gave. Nothing is given at first; no value is checked
// here. Indices are below size(). One thread.
template <typename C, typename Api, typename Engine>
class GivenOptions {
 public:
  using Row = OptionRow<C, Api, Engine>;
  explicit GivenOptions(std::span<const Row> rows) : rows_(rows), values_(rows.size()) {}

  size_t size() const { return rows_.size(); }
  const Option& option(size_t i) const { return rows_[i].option; }
  OptionValue& value(size_t i) { return values_[i]; }
  // By its name, which is one of the table: asserted.
  const Option& option(std::string_view name) const { return rows_[Find(name)].option; }
  OptionValue& operator[](std::string_view name) { return values_[Find(name)]; }
  // Takes the values that `options` has, defaults, too. Each row must have a place in the engine's
  // struct.
  void TakeFrom(const Engine& options) {
    for (size_t i = 0; i < rows_.size(); ++i) values_[i] = rows_[i].engine.get(options);
  }
  // Sets the options that were given; the others keep their values. Checks nothing.
  void PutIntoEngine(Engine& options) const {
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (IsGiven(values_[i])) rows_[i].engine.set(options, values_[i]);
    }
  }
  // Sets what was given. Texts of `options` become views into this object, which must outlive them.
  void PutInto(Api& options) const {
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (IsGiven(values_[i])) rows_[i].api.set(options, values_[i]);
    }
  }

 private:
  // The index of the option with this name, which must be one of the table (asserted).
  size_t Find(std::string_view name) const {
    const auto is_it = [name](const Row& row) { return row.option.name == name; };
    const auto row = std::find_if(rows_.begin(), rows_.end(), is_it);
    assert(row != rows_.end());
    return static_cast<size_t>(row - rows_.begin());
  }

  std::span<const Row> rows_;
  std::vector<OptionValue> values_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_REQUESTS_OPTION_H_
