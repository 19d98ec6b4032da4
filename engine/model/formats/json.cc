// JSON through nlohmann's SAX parser, so that limits hold before memory is spent and a key that
// appears twice is an error (its DOM keeps the last one silently).
#include "engine/model/formats/json.h"

#include <cmath>
#include <iterator>
#include <new>
#include <nlohmann/json.hpp>

#include "engine/model/formats/excerpt.h"

namespace lectern {
namespace {

// Bytes of the library's description of an error: it holds the text that was read last, such as a
// string of megabytes without an end.
constexpr size_t kMaxWhat = 300;

// An iterator over the text that notes how far the parser has read: the SAX interface gives no
// offset when a limit is exceeded.
class CountingCursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingCursor(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  CountingCursor& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  bool operator==(const CountingCursor& other) const { return at_ == other.at_; }
  bool operator!=(const CountingCursor& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

// Builds the tree from the parser's events, without recursion. Containers under construction live
// in `open_`, the innermost last. Each event returns false, with status() set, to stop the parser.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(const JsonLimits& limits, const std::vector<JsonStream>& streams, const char* begin,
              const char* const* furthest)
      : limits_(limits), streams_(streams), begin_(begin), furthest_(furthest) {}

  bool null() override { return Add(Json(nullptr)); }
  bool boolean(bool value) override { return Add(Json(value)); }
  bool number_integer(number_integer_t value) override { return Add(Json(int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) override { return Add(Json(uint64_t{value})); }
  bool number_float(number_float_t value, const string_t&) override { return Add(Json(value)); }
  bool string(string_t& value) override {
    return CheckLength(value) && Add(Json(std::move(value)));
  }
  bool binary(binary_t&) override { return Fail(Code::kMalformedModel, "binary value"); }

  bool start_object(size_t) override { return Open(/*is_object=*/true); }
  // A member's name; its value is the next event.
  bool key(string_t& name) override {
    Container& top = open_.back();
    if (!CheckLength(name)) return false;
    if (top.stream != nullptr) {
      top.key = std::move(name);
      return true;
    }
    // The key gets its place at once, so that a second one of the same name is noticed here.
    const auto [member, is_new] = top.members.try_emplace(std::move(name));
    if (!is_new) {
      return Fail(Code::kMalformedModel,
                  "key \"" + Excerpt(member->first, 100) + "\" appears twice");
    }
    top.member = &*member;
    return true;
  }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(/*is_object=*/false); }
  bool end_array() override { return Close(); }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: <what we want>", or
    // "[json.exception.out_of_range.406] number overflow parsing '1e999'".
    std::string what = error.what();
    what.erase(0, what.find("] ") + 2);
    if (what.starts_with("parse error")) what.erase(0, what.find(": ") + 2);
    status_ = Status(Code::kMalformedModel, "not valid JSON at byte " + std::to_string(position) +
                                                ": " + Excerpt(what, kMaxWhat));
    return false;
  }

  Status TakeStatus() { return std::move(status_); }
  Json TakeRoot() { return std::move(root_); }

 private:
  // An object or list whose end was not read yet.
  struct Container {
    bool is_object;
    Json::Object members;
    Json::Array items;
    Json::Object::value_type* member;  // of `members`, whose value comes next
    std::string path;                  // from the root; "?" inside a list
    const JsonStream* stream;          // takes its members or items, if anything does
    std::string key;                   // of the member that it takes next
  };

  // The path of the value that comes next; "?" where no stream can be: in lists and streams.
  std::string PathOfNext() const {
    if (open_.empty()) return "";
    const Container& top = open_.back();
    if (!top.is_object || top.member == nullptr || top.path == "?") return "?";
    return (top.path.empty() ? "" : top.path + ".") + top.member->first;
  }

  // The stream that takes the members of a container; nullptr: they go into the tree.
  const JsonStream* StreamOf(const std::string& path, bool is_object) const {
    for (const JsonStream& stream : streams_) {
      if (stream.path == path && stream.is_object == is_object) return &stream;
    }
    return nullptr;
  }

  bool Fail(Code code, const std::string& what) {
    status_ = Status(code, what + " at byte " + std::to_string(*furthest_ - begin_));
    return false;
  }

  bool CheckLength(const std::string& text) {
    if (text.size() <= limits_.max_string) return true;
    return Fail(Code::kLimitExceeded,
                "JSON string longer than " + std::to_string(limits_.max_string) + " bytes");
  }

  bool Count() {
    if (++num_values_ <= limits_.max_values) return true;
    return Fail(Code::kLimitExceeded,
                "JSON with more than " + std::to_string(limits_.max_values) + " values");
  }

  // Begins a container, unless it is nested too deeply.
  bool Open(bool is_object) {
    if (open_.size() == limits_.max_depth) {
      return Fail(Code::kMalformedModel,
                  "JSON nested deeper than " + std::to_string(limits_.max_depth));
    }
    if (!Count()) return false;
    std::string path = streams_.empty() ? "?" : PathOfNext();
    const JsonStream* stream = StreamOf(path, is_object);
    open_.push_back({is_object, {}, {}, nullptr, std::move(path), stream, {}});
    return true;
  }

  bool Close() {
    Container done = std::move(open_.back());
    open_.pop_back();
    return Place(done.is_object ? Json(std::move(done.members)) : Json(std::move(done.items)));
  }

  bool Add(Json value) { return Count() && Place(std::move(value)); }

  // Puts a complete value where it belongs: the root, a stream, a member or an item.
  bool Place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return true;
    }
    Container& top = open_.back();
    if (top.stream != nullptr) {
      status_ = top.stream->take(top.key, value);
      return status_.ok();
    }
    if (top.is_object) {
      top.member->second = std::move(value);
    } else {
      top.items.push_back(std::move(value));
    }
    return true;
  }

  const JsonLimits& limits_;
  const std::vector<JsonStream>& streams_;
  const char* begin_;
  const char* const* furthest_;
  std::vector<Container> open_;
  size_t num_values_ = 0;
  Json root_;
  Status status_;
};

// ParseJson, with the library's exceptions.
Result<Json> ParseOrThrow(std::string_view text, const JsonLimits& limits,
                          const std::vector<JsonStream>& streams) {
  const char* const end = text.data() + text.size();
  const char* furthest = text.data();
  TreeBuilder builder(limits, streams, text.data(), &furthest);
  const bool ok = nlohmann::json::sax_parse(CountingCursor(text.data(), &furthest),
                                            CountingCursor(end, &furthest), &builder);
  if (Status status = builder.TakeStatus(); !status.ok()) return status;
  if (!ok) return Status(Code::kMalformedModel, "not valid JSON at byte 0");
  return builder.TakeRoot();
}

// Returns `value` as a whole number if T holds it exactly.
template <typename T>
std::optional<T> WholeNumber(double value) {
  // 2^63 and 2^64 are the first doubles that T does not hold; T's largest value itself is no
  // double.
  constexpr double kEnd = std::numeric_limits<T>::digits == 63 ? 0x1p63 : 0x1p64;
  constexpr double kBegin = std::numeric_limits<T>::is_signed ? -kEnd : 0.0;
  if (!(value >= kBegin && value < kEnd) || std::trunc(value) != value) return std::nullopt;
  return static_cast<T>(value);
}

// A string or number as the library writes it.
std::string DumpScalar(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::optional<double> Json::number() const {
  if (const auto* n = std::get_if<int64_t>(&value_)) return static_cast<double>(*n);
  if (const auto* n = std::get_if<uint64_t>(&value_)) return static_cast<double>(*n);
  if (const auto* n = std::get_if<double>(&value_)) return *n;
  return std::nullopt;
}

std::optional<int64_t> Json::integer() const {
  if (const auto* n = std::get_if<int64_t>(&value_)) return *n;
  if (const auto* n = std::get_if<double>(&value_)) return WholeNumber<int64_t>(*n);
  const auto* n = std::get_if<uint64_t>(&value_);
  if (n == nullptr || *n > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return static_cast<int64_t>(*n);
}

std::optional<uint64_t> Json::unsigned_integer() const {
  if (const auto* n = std::get_if<uint64_t>(&value_)) return *n;
  if (const auto* n = std::get_if<double>(&value_)) return WholeNumber<uint64_t>(*n);
  const auto* n = std::get_if<int64_t>(&value_);
  if (n == nullptr || *n < 0) return std::nullopt;
  return static_cast<uint64_t>(*n);
}

const Json* Json::Find(std::string_view key) const {
  const Object* members = object();
  if (members == nullptr) return nullptr;
  const auto it = members->find(key);
  return it == members->end() ? nullptr : &it->second;
}

std::string Json::Dump() const {
  if (is_null()) return "null";
  if (const bool* b = boolean()) return *b ? "true" : "false";
  if (const std::string* text = string()) return DumpScalar(*text);
  if (const auto* n = std::get_if<int64_t>(&value_)) return std::to_string(*n);
  if (const auto* n = std::get_if<uint64_t>(&value_)) return std::to_string(*n);
  if (const auto* n = std::get_if<double>(&value_)) return DumpScalar(*n);  // non-finite: null
  std::string out;
  if (const Array* items = array()) {
    for (const Json& item : *items) out.append(out.empty() ? "" : ",").append(item.Dump());
    return "[" + out + "]";
  }
  for (const auto& [key, value] : *object()) {
    out.append(out.empty() ? "" : ",").append(DumpScalar(key)).append(":").append(value.Dump());
  }
  return "{" + out + "}";
}

namespace {

// Hands the parser's events on, within limits.
class EventPasser : public nlohmann::json_sax<nlohmann::json> {
 public:
  EventPasser(const JsonLimits& limits, JsonEvents& events) : limits_(limits), events_(events) {}

  bool null() override { return Scalar(Json(nullptr)); }
  bool boolean(bool value) override { return Scalar(Json(value)); }
  bool number_integer(number_integer_t value) override { return Scalar(Json(int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) override { return Scalar(Json(uint64_t{value})); }
  bool number_float(number_float_t value, const string_t& digits) override {
    // The library gives a whole number beyond 64 bits as a float.
    if (digits.find_first_of(".eE") != std::string::npos) return Scalar(Json(value));
    return Take(Status(Code::kLimitExceeded, "JSON integer of more than 64 bits"));
  }
  bool string(string_t& value) override {
    return CheckLength(value) && Scalar(Json(std::move(value)));
  }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& name) override {
    return CheckLength(name) && Take(events_.Key(std::move(name)));
  }
  bool start_object(size_t) override { return Begin(true); }
  bool start_array(size_t) override { return Begin(false); }
  bool end_object() override { return End(); }
  bool end_array() override { return End(); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Take(
        Status(Code::kMalformedModel, "not valid JSON at byte " + std::to_string(position)));
  }

  Status TakeStatus() { return std::move(status_); }

 private:
  bool Take(Status status) {
    status_ = std::move(status);
    return status_.ok();
  }
  bool CheckLength(const std::string& text) {
    if (text.size() <= limits_.max_string) return true;
    return Take(Status(Code::kLimitExceeded, "JSON string longer than " +
                                                 std::to_string(limits_.max_string) + " bytes"));
  }
  bool Count() {
    if (++num_values_ <= limits_.max_values) return true;
    return Take(Status(Code::kLimitExceeded, "JSON with more than " +
                                                 std::to_string(limits_.max_values) + " values"));
  }
  bool Scalar(Json value) { return Count() && Take(events_.Scalar(std::move(value))); }
  bool Begin(bool is_object) {
    if (depth_ == limits_.max_depth) {
      return Take(Status(Code::kLimitExceeded,
                         "JSON nested deeper than " + std::to_string(limits_.max_depth)));
    }
    ++depth_;
    return Count() && Take(events_.Begin(is_object));
  }
  bool End() {
    --depth_;
    return Take(events_.End());
  }

  const JsonLimits& limits_;
  JsonEvents& events_;
  size_t depth_ = 0, num_values_ = 0;
  Status status_;
};

// A NUL would be the end of the text for the lexer, which would not see what follows it.
Status CheckNoNul(std::string_view text) {
  const size_t nul = text.find('\0');
  if (nul == std::string_view::npos) return Status();
  return Status(Code::kMalformedModel, "not valid JSON at byte " + std::to_string(nul) + ": NUL");
}

}  // namespace

Result<Json> ParseJson(std::string_view text, const JsonLimits& limits,
                       const std::vector<JsonStream>& streams) {
  LECTERN_RETURN_IF_ERROR(CheckNoNul(text));
  try {
    return ParseOrThrow(text, limits, streams);
  } catch (const std::bad_alloc&) {
    throw;  // says nothing about the text
  } catch (const std::exception& error) {
    return Status(Code::kMalformedModel, std::string("not valid JSON: ") + error.what());
  }
}

Status ReadJson(std::string_view text, const JsonLimits& limits, JsonEvents& events) {
  LECTERN_RETURN_IF_ERROR(CheckNoNul(text));
  EventPasser passer(limits, events);
  try {
    nlohmann::json::sax_parse(text.begin(), text.end(), &passer);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return Status(Code::kMalformedModel, std::string("not valid JSON: ") + error.what());
  }
  return passer.TakeStatus();
}

}  // namespace lectern
