// The fields of requests that come from a table of options: read from JSON or from a query, and
// described for /openapi.json, as the rows say (engine/requests/option.h).
#ifndef LECTERN_TOOLS_SERVER_OPTION_FIELDS_H_
#define LECTERN_TOOLS_SERVER_OPTION_FIELDS_H_

#include <string>
#include <string_view>

#include "engine/model/formats/json.h"
#include "engine/requests/option.h"
#include "tools/server/request_fields.h"

namespace lectern::server {

// A number that is above or below a bound keeps this distance from it: the next float is as good as
// the bound itself, and 0 means the default.
inline constexpr double kOpenBound = 1e-6;

// The field's value; nothing where it is missing, null or wrong, which `fields` then says.
OptionValue ReadOptionField(RequestFields& fields, const Option& option);

// Reads the options that the surface has into `given`.
template <typename Given>
void ReadOptionFields(RequestFields& fields, OptionSurface surface, Given& given) {
  for (size_t i = 0; i < given.size(); ++i) {
    if (given.option(i).is_in(surface)) given.value(i) = ReadOptionField(fields, given.option(i));
  }
}

// The JSON schema of a field, which may be null in a body but not in a query.
enum class Place { kBody, kQuery };
Json::Object OptionSchema(const Option& option, Place place);

// The sentence that describes a field, with the names of other fields.
template <typename Given>
std::string FieldDescription(const Given& given, const Option& option) {
  return HelpText(option, option.help,
                  [&given](std::string_view name) { return FieldOf(given.option(name)); });
}

// The schemas of all options that the surface has, by field, with descriptions.
template <typename Given>
Json::Object OptionSchemas(const Given& given, OptionSurface surface) {
  Json::Object schemas;
  for (size_t i = 0; i < given.size(); ++i) {
    const Option& option = given.option(i);
    if (!option.is_in(surface)) continue;
    Json::Object schema = OptionSchema(option, Place::kBody);
    schema["description"] = FieldDescription(given, option);
    schemas[FieldOf(option)] = std::move(schema);
  }
  return schemas;
}

// The same as the parameters of a query.
template <typename Given>
Json::Array OptionParameters(const Given& given, OptionSurface surface) {
  Json::Array parameters;
  for (size_t i = 0; i < given.size(); ++i) {
    const Option& option = given.option(i);
    if (!option.is_in(surface)) continue;
    parameters.emplace_back(Json::Object{{"name", FieldOf(option)},
                                         {"in", "query"},
                                         {"description", FieldDescription(given, option)},
                                         {"schema", OptionSchema(option, Place::kQuery)}});
  }
  return parameters;
}

// The description of the API, openapi.json with the fields of the tables in it. Made once.
const std::string& ApiDescription();

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_OPTION_FIELDS_H_
