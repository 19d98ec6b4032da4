// Reads the members of a request's JSON body (or of its query) one by one, and remembers the first
// error, so that handlers read all fields and ask once whether they were right.
#ifndef LECTERN_TOOLS_SERVER_REQUEST_FIELDS_H_
#define LECTERN_TOOLS_SERVER_REQUEST_FIELDS_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/formats/json.h"

namespace lectern::server {

// The limits of a request's body. They are generous: clients with tools send their schemas, which
// are deep, and long conversations.
inline constexpr JsonLimits kBodyLimits = {
    .max_depth = 32, .max_values = 1 << 16, .max_string = 1 << 20};

// One thread. Errors of a field are INVALID_ARGUMENT with its name as the param and, except for one
// that is not known, at the message's beginning.
class RequestFields {
 public:
  // INVALID_ARGUMENT: the body is no JSON, no object, or beyond kBodyLimits. An empty body is no
  // JSON.
  static Result<RequestFields> Parse(std::string_view body);
  // The fields of a request's query, whose values are all texts: Number parses its text; Boolean,
  // Integer and Whole refuse theirs.
  static RequestFields OfQuery(const std::map<std::string, std::string, std::less<>>& query);

  // Each returns nothing if the member is missing or null. A wrong type, a number outside of
  // [least, most], or a text that is none of `values`, also gives nothing, and is an error of
  // failed and Finish. Whole numbers may be written as 5.0. Each of them, also IsText and Any,
  // makes the name known, so that Finish does not refuse it.
  std::optional<std::string> String(const char* name);
  std::optional<bool> Boolean(const char* name);
  // `or_else`: what else the field may hold, for the message, as in " or \"auto\"".
  std::optional<double> Number(const char* name, double least, double most,
                               const std::string& or_else = "");
  // Whether the field is there and is this text; never an error.
  bool IsText(const char* name, std::string_view text);
  // A number beyond 63 bits counts as the largest one.
  std::optional<int64_t> Integer(const char* name, int64_t least);
  std::optional<uint64_t> Whole(const char* name, uint64_t least, uint64_t most);
  std::optional<std::string> OneOf(const char* name, const std::vector<std::string>& values);
  // A member of any type; nullptr if it is missing or null. It lives as long as this object.
  const Json* Any(const char* name);
  // Reads a text as String does, but missing or empty is an error; then "".
  std::string RequiredString(const char* name);
  // Makes "NAME message" (without quotes, joined by a space) the error, unless there is one
  // already.
  void Fail(const char* name, std::string message);

  // The first error; OK if there is none yet. Valid as long as this object.
  const Status& failed() const { return failed_; }
  // The same, and kInvalidArgument for a member that nothing has read, even if it is null: a field
  // that is misspelt would otherwise have no effect without a word.
  Status Finish() const;

 private:
  explicit RequestFields(Json::Object members) : members_(std::move(members)) {}
  Json::Object members_;
  bool are_texts_ = false;                    // OfQuery
  std::set<std::string, std::less<>> known_;  // names that were read
  Status failed_;
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_REQUEST_FIELDS_H_
