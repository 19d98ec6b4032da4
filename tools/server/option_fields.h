// Makes fields of HTTP requests of the options of a table (engine/requests/option.h): each row says
// how the field is read from JSON or a query, checked, and described in /openapi.json. Pure
// functions.
#ifndef LECTERN_TOOLS_SERVER_OPTION_FIELDS_H_
#define LECTERN_TOOLS_SERVER_OPTION_FIELDS_H_

#include <string>
#include <string_view>

#include "engine/lectern_c.h"
#include "engine/model/formats/json.h"
#include "engine/requests/option.h"
#include "tools/server/request_fields.h"

namespace lectern::server {

// Distance that a number keeps from a bound that is excluded. JSON schemas here have inclusive
// bounds alone; a share this near to the bound is as good as the bound itself, and 0 means the
// default.
inline constexpr double kOpenBound = 1e-6;

// Reads one field. Nothing where it is missing or null, a kText that is empty, and where it is
// wrong, which `fields` then has as its error (a kTexts that is too long is returned all the same).
// Empty texts of a kTexts are left out; one string stands for a list of one. In a query, kFlag,
// kWhole and kBytes are always wrong.
OptionValue ReadOptionField(RequestFields& fields, const Option& option);

// Reads the options that the surface has into `given`; those that are missing become "not given".
template <typename Given>
void ReadOptionFields(RequestFields& fields, OptionSurface surface, Given& given) {
  for (size_t i = 0; i < given.size(); ++i) {
    if (given.option(i).is_in(surface)) given.value(i) = ReadOptionField(fields, given.option(i));
  }
}

// Reads "offset_unit", the unit of the offsets in an answer's JSON; bytes where it is missing or
// wrong.
lectern_offset_unit ReadOffsetUnit(RequestFields& fields);

// The JSON schema of a field, without its description. The field may be null in a body but not in a
// query.
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

// The description of the API, openapi.json with the fields of the tables in it. Made at the first
// call, by any thread; the reference holds until the process ends.
const std::string& ApiDescription();

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_OPTION_FIELDS_H_
