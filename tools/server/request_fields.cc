#include "tools/server/request_fields.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace lectern::server {
namespace {

std::string Range(double least, double most) {
  std::ostringstream text;
  text << "from " << least << " to " << most;
  return text.str();
}

}  // namespace

Result<RequestFields> RequestFields::Parse(std::string_view body) {
  const auto json = ParseJson(body, kBodyLimits);
  if (!json.ok()) {
    return Status(Code::kInvalidArgument, "the body is not JSON: " + json.status().message());
  }
  const Json::Object* const members = json.value().object();
  if (!members) return Status(Code::kInvalidArgument, "the body is not a JSON object");
  return RequestFields(*members);
}

RequestFields RequestFields::OfQuery(const std::map<std::string, std::string, std::less<>>& query) {
  Json::Object members;
  for (const auto& [name, value] : query) members[name] = value;
  RequestFields fields(std::move(members));
  fields.are_texts_ = true;
  return fields;
}

const Json* RequestFields::Any(const char* name) {
  known_.insert(name);
  const auto member = members_.find(name);
  return member != members_.end() && !member->second.is_null() ? &member->second : nullptr;
}

std::optional<std::string> RequestFields::String(const char* name) {
  const Json* const member = Any(name);
  if (!member) return std::nullopt;
  if (!member->string()) Fail(name, "must be a string");
  return member->string() ? std::optional(*member->string()) : std::nullopt;
}

std::string RequestFields::RequiredString(const char* name) {
  std::string text = String(name).value_or("");
  if (text.empty()) Fail(name, "is missing or empty");
  return text;
}

std::optional<bool> RequestFields::Boolean(const char* name) {
  const Json* const member = Any(name);
  if (!member) return std::nullopt;
  if (!member->boolean()) Fail(name, "must be true or false");
  return member->boolean() ? std::optional(*member->boolean()) : std::nullopt;
}

bool RequestFields::IsText(const char* name, std::string_view text) {
  const Json* const member = Any(name);
  return member && member->string() && *member->string() == text;
}

std::optional<double> RequestFields::Number(const char* name, double least, double most,
                                            const std::string& or_else) {
  const Json* const member = Any(name);
  if (!member) return std::nullopt;
  const auto text = are_texts_ ? ParseJson(*member->string(), kBodyLimits) : Result<Json>(*member);
  const std::optional<double> number = text.ok() ? text->number() : std::nullopt;
  if (number && *number >= least && *number <= most) return number;
  Fail(name, "must be a number " + Range(least, most) + or_else);
  return std::nullopt;
}

std::optional<int64_t> RequestFields::Integer(const char* name, int64_t least) {
  const Json* const member = Any(name);
  if (!member) return std::nullopt;
  const bool is_whole = member->number() && *member->number() == std::floor(*member->number());
  if (is_whole && *member->number() >= static_cast<double>(least)) {
    return member->integer().value_or(INT64_MAX);
  }
  Fail(name, "must be a whole number of at least " + std::to_string(least));
  return std::nullopt;
}

std::optional<uint64_t> RequestFields::Whole(const char* name, uint64_t least, uint64_t most) {
  const Json* const member = Any(name);
  if (!member) return std::nullopt;
  const std::optional<uint64_t> number = member->unsigned_integer();
  if (number && *number >= least && *number <= most) return number;
  Fail(name,
       "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return std::nullopt;
}

std::optional<std::string> RequestFields::OneOf(const char* name,
                                                const std::vector<std::string>& values) {
  auto text = String(name);
  if (!text || std::find(values.begin(), values.end(), *text) != values.end()) return text;
  std::string list;
  for (const std::string& value : values) list += (list.empty() ? "" : ", ") + value;
  Fail(name, "must be one of: " + list);
  return std::nullopt;
}

void RequestFields::Fail(const char* name, std::string message) {
  if (!failed_.ok()) return;
  failed_ = Status(Code::kInvalidArgument, std::string(name) + " " + message).WithParam(name);
}

Status RequestFields::Finish() const {
  if (!failed_.ok()) return failed_;
  for (const auto& [name, value] : members_) {
    if (!known_.contains(name)) {
      return Status(Code::kInvalidArgument, "there is no field \"" + name + "\" here")
          .WithParam(name);
    }
  }
  return {};
}

}  // namespace lectern::server
