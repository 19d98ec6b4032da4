// Parses and writes JSON for all of the engine: this is the one place that uses nlohmann's library.
// Files are untrusted, so they are read through the library's event interface (SAX), with limits on
// depth, count and length.
#ifndef LECTERN_ENGINE_MODEL_FORMATS_JSON_H_
#define LECTERN_ENGINE_MODEL_FORMATS_JSON_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "store/status.h"

namespace lectern {

// A JSON value, parsed or made by hand. Objects keep their keys sorted and unique. An ordinary
// value: it owns its content, and copies are deep. One thread writes or several read.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;

  Json() : value_(nullptr) {}
  Json(std::nullptr_t) : value_(nullptr) {}
  Json(bool b) : value_(b) {}
  Json(int n) : value_(static_cast<int64_t>(n)) {}
  Json(int64_t n) : value_(n) {}
  Json(uint64_t n) : value_(n) {}
  Json(double d) : value_(d) {}
  Json(const char* text) : value_(std::string(text)) {}
  Json(std::string text) : value_(std::move(text)) {}
  Json(std::string_view text) : value_(std::string(text)) {}
  Json(Array items) : value_(std::move(items)) {}
  Json(Object members) : value_(std::move(members)) {}

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
  // The getters return nullptr when the value is something else.
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  const std::string* string() const { return std::get_if<std::string>(&value_); }
  const Array* array() const { return std::get_if<Array>(&value_); }
  const Object* object() const { return std::get_if<Object>(&value_); }
  bool is_float() const { return std::holds_alternative<double>(value_); }
  // Any number as double, or only those that are whole and in the range of the type (2.0 counts as
  // 2). Nothing: any other value.
  std::optional<double> number() const;  // may round an integer of more than 53 bits
  std::optional<int64_t> integer() const;
  std::optional<uint64_t> unsigned_integer() const;
  // Finds a member of an object; nullptr: it is missing, or this is no object.
  const Json* Find(std::string_view key) const;

  // Writes the value on one line: compact, keys in sorted order, so values that were made alike
  // give equal texts (the integer 2 is "2", the double 2 is "2.0"). Bytes that are not UTF-8 in
  // strings are replaced by U+FFFD; numbers that are not finite become null.
  std::string Dump() const;

 private:
  std::variant<std::nullptr_t, bool, int64_t, uint64_t, double, std::string, Array, Object> value_;
};

// Limits of a text; beyond them parsing stops with an error.
struct JsonLimits {
  size_t max_depth = 16;         // of arrays and objects inside each other
  size_t max_values = 1u << 20;  // in total: scalars, arrays and objects, streamed ones, too
  size_t max_string = 1u << 20;  // bytes of one string or key
};
// A large object or list of a text, whose members or items are handed over one after another as
// they are read; in the parsed tree it is empty. So a vocabulary of 150,000 pieces does not take a
// tree's memory. The parser does not notice that a key in it appears twice: `take` must. An error
// of `take` ends the parsing and is returned. Items of a list come with an empty key.
struct JsonStream {
  std::string path;  // keys from the root, "model.vocab"; points inside a key are not told apart
  bool is_object;    // else a list; at the path a value of the other kind goes into the tree
  std::function<Status(std::string& key, const Json& value)> take;  // may move the key
};
// Parses `text`, which is one JSON value. Errors are an empty text, duplicate keys, trailing text,
// a NUL byte, bytes that are not UTF-8, NaN and numbers out of double's range; a whole number
// beyond 64 bits becomes a double. kMalformedModel (the message has the byte offset; also for too
// much depth) or kLimitExceeded. Throws bad_alloc: a caller who asks "is this JSON?" must not be
// told no because memory ran out. `streams`: read only where keys lead to them.
Result<Json> ParseJson(std::string_view text, const JsonLimits& limits = {},
                       const std::vector<JsonStream>& streams = {});

// Takes a text's values one after another, in their order, for callers that must keep the order of
// keys (Json sorts them). A status that is not ok ends the reading, and ReadJson returns it.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual Status Scalar(Json value) = 0;  // neither an array nor an object
  // The name of an object's member, whose value comes next.
  virtual Status Key(std::string name) = 0;
  // An object (else an array) begins; its members or items come until End.
  virtual Status Begin(bool is_object) = 0;
  // The object or array that was begun last and not ended ends here.
  virtual Status End() = 0;
};
// As ParseJson, but a key may appear twice, and a whole number beyond 64 bits and too much depth
// are kLimitExceeded. Before an error `events` has got the values up to it, but none if the text
// has a NUL.
Status ReadJson(std::string_view text, const JsonLimits& limits, JsonEvents& events);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_FORMATS_JSON_H_
