// Reads the members of a JSON request body, each once, and remembers the first error.
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

class RequestFields {
 public:
  // INVALID_ARGUMENT: not a JSON object, or too deep.
  static Result<RequestFields> Parse(std::string_view body);
  // Reads the fields of a request's query, whose values are all texts: Number reads one, Boolean
  // and Whole none.
  static RequestFields OfQuery(const std::map<std::string, std::string, std::less<>>& query);

  // Returns nothing if the member is missing or null. A wrong type or range is an error of Finish.
  std::optional<std::string> String(const char* name);
  std::optional<bool> Boolean(const char* name);
  // `or_else`: what else the field may hold, for the message, as in " or \"auto\"".
  std::optional<double> Number(const char* name, double least, double most,
                               const std::string& or_else = "");
  // Whether the field is there and is this text.
  bool IsText(const char* name, std::string_view text);
  // A number beyond 63 bits counts as the largest one.
  std::optional<int64_t> Integer(const char* name, int64_t least);
  std::optional<uint64_t> Whole(const char* name, uint64_t least, uint64_t most);
  std::optional<std::string> OneOf(const char* name, const std::vector<std::string>& values);
  const Json* Any(const char* name);
  // Reads a text as String does, but missing or empty is an error.
  std::string RequiredString(const char* name);
  void Fail(const char* name, std::string message);

  // The first thing that was wrong.
  const Status& failed() const { return failed_; }
  // Does the same; a member that nothing read is wrong, too.
  Status Finish() const;

 private:
  explicit RequestFields(Json::Object members) : members_(std::move(members)) {}
  Json::Object members_;
  bool are_texts_ = false;
  std::set<std::string, std::less<>> known_;
  Status failed_;
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_REQUEST_FIELDS_H_
