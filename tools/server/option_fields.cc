#include "tools/server/option_fields.h"

#include <cassert>
#include <cmath>

#include "engine/requests/options.h"
#include "tools/server/embedded_files.h"

namespace lectern::server {
namespace {

// The range of a field's numbers with both ends included. A request may have a lower limit than the
// API (most_of_request): its client is not the one who runs the machine.
double Least(const OptionRange& range) {
  return range.is_open_below ? range.least + kOpenBound : range.least;
}

double Most(const Option& option) {
  const OptionRange& range = option.range;
  const double most = range.is_open_above ? range.most - kOpenBound : range.most;
  return std::min(most, option.most_of_request);
}

// The end of a whole number's range; the largest number if the range has no end.
uint64_t MostWhole(const Option& option) {
  const double most = Most(option);
  return std::isinf(most) ? ~uint64_t{0} : static_cast<uint64_t>(most);
}

std::vector<std::string> Names(const Option& option) {
  const auto names = option.choice_names();
  return {names.begin(), names.end()};
}

// Reads a string or a list of strings; empty ones are left out. Their total length has the option's
// limit.
OptionValue ReadTexts(RequestFields& fields, const Option& option, const char* name) {
  const Json* const given = fields.Any(name);
  if (!given) return {};
  std::vector<std::string> texts;
  size_t bytes = 0;
  for (const Json& item : given->array() ? *given->array() : Json::Array{*given}) {
    if (!item.string()) {
      fields.Fail(name, "must be a string or a list of strings");
      return {};
    }
    if (!item.string()->empty()) texts.push_back(*item.string());
    bytes += item.string()->size();
  }
  if (static_cast<double>(bytes) > option.range.most) {
    fields.Fail(name, "is too long: at most " +
                          std::to_string(static_cast<uint64_t>(option.range.most)) + " bytes");
  }
  return texts;
}

// A value that may be missing, as an OptionValue.
template <typename T>
OptionValue Value(const std::optional<T>& read) {
  return read ? OptionValue(*read) : OptionValue();
}

// The values of a schema's "enum", with null where the field may be null.
Json::Array Enumerated(const std::vector<std::string>& names, Place place) {
  Json::Array values(names.begin(), names.end());
  if (place == Place::kBody) values.emplace_back(nullptr);
  return values;
}

// A schema's "type", with null where the field may be null.
Json TypeOf(const char* type, Place place) {
  if (place == Place::kQuery) return type;
  return Json::Array{type, "null"};
}

// A copy of the tree in which the value at the end of `path` is what `edit` makes of it. The path
// must exist: it is that of our own openapi.json.
Json Edited(const Json& tree, std::span<const std::string_view> path,
            const std::function<Json(const Json&)>& edit) {
  if (path.empty()) return edit(tree);
  Json::Object members = *tree.object();
  Json& member = members.find(path.front())->second;
  member = Edited(member, path.subspan(1), edit);
  return members;
}

// The description with properties added to a schema; those that are written by hand win.
Json WithProperties(const Json& api, std::string_view schema, Json::Object added) {
  const std::string_view path[] = {"components", "schemas", schema, "properties"};
  return Edited(api, path, [&](const Json& properties) {
    added.insert(properties.object()->begin(), properties.object()->end());
    return Json(added);
  });
}

// The description with parameters added to those of a method.
Json WithParameters(const Json& api, std::string_view url, std::string_view method,
                    const Json::Array& added) {
  const std::string_view path[] = {"paths", url, method, "parameters"};
  return Edited(api, path, [&](const Json& parameters) {
    Json::Array all = *parameters.array();
    all.insert(all.end(), added.begin(), added.end());
    return Json(all);
  });
}

}  // namespace

OptionValue ReadOptionField(RequestFields& fields, const Option& option) {
  const std::string field = FieldOf(option);
  const char* const name = field.c_str();
  switch (option.kind) {
    case OptionKind::kFlag:
      return Value(fields.Boolean(name));
    case OptionKind::kNumber: {
      if (option.word.empty()) return Value(fields.Number(name, Least(option.range), Most(option)));
      if (fields.IsText(name, option.word)) return option.word_number;
      return Value(fields.Number(name, Least(option.range), Most(option),
                                 " or \"" + std::string(option.word) + "\""));
    }
    case OptionKind::kWhole:
    case OptionKind::kBytes:
      return Value(
          fields.Whole(name, static_cast<uint64_t>(option.range.least), MostWhole(option)));
    case OptionKind::kText: {
      auto text = fields.String(name);
      return text && !text->empty() ? OptionValue(std::move(*text)) : OptionValue();
    }
    case OptionKind::kChoice:
      return Value(fields.OneOf(name, Names(option)));
    case OptionKind::kEnumeration: {
      const auto text = fields.OneOf(name, Names(option));
      return text ? OptionValue(ChoiceNumber(option, *text)) : OptionValue();
    }
    case OptionKind::kTexts:
      return ReadTexts(fields, option, name);
  }
  return {};
}

Json::Object OptionSchema(const Option& option, Place place) {
  switch (option.kind) {
    case OptionKind::kFlag:
      return {{"type", TypeOf("boolean", place)}};
    case OptionKind::kNumber: {
      Json::Object schema = {{"type", TypeOf("number", place)},
                             {"minimum", Least(option.range)},
                             {"maximum", Most(option)}};
      if (option.word.empty()) return schema;
      Json::Object word = {{"type", "string"}, {"enum", Json::Array{std::string(option.word)}}};
      return {{"oneOf", Json::Array{std::move(schema), std::move(word)}}};
    }
    case OptionKind::kWhole:
    case OptionKind::kBytes:
      return {{"type", TypeOf("integer", place)},
              {"minimum", static_cast<uint64_t>(option.range.least)},
              {"maximum", MostWhole(option)}};
    case OptionKind::kText:
    case OptionKind::kChoice:
    case OptionKind::kEnumeration: {
      Json::Object schema = {{"type", TypeOf("string", place)}};
      const auto names = option.names ? option.names() : Names(option);
      if (!names.empty()) schema["enum"] = Enumerated(names, place);
      return schema;
    }
    case OptionKind::kTexts:
      return {{"oneOf", Json::Array{Json::Object{{"type", TypeOf("string", place)}},
                                    Json::Object{{"type", "array"},
                                                 {"items", Json::Object{{"type", "string"}}}}}}};
  }
  return {};
}

lectern_offset_unit ReadOffsetUnit(RequestFields& fields) {
  const auto unit = fields.OneOf("offset_unit", {"utf8", "utf16", "codepoint"});
  if (unit == "utf16") return LECTERN_OFFSET_UTF16;
  return unit == "codepoint" ? LECTERN_OFFSET_CODEPOINT : LECTERN_OFFSET_UTF8;
}

const std::string& ApiDescription() {
  static const std::string description = [] {
    const Result<Json> written = ParseJson(kOpenApiJson, {.max_depth = 64});
    assert(written.ok());
    const GivenAskOptions ask(AskOptionRows());
    const GivenCiteOptions cite(CiteOptionRows());
    const GivenIndexOptions index(IndexOptionRows());
    Json api = WithProperties(*written, "Ask", OptionSchemas(ask, kRequest));
    api = WithProperties(api, "Cite", OptionSchemas(cite, kRequest));
    api = WithProperties(api, "Sampling", OptionSchemas(ask, kOpenAiRequest));
    api = WithParameters(api, "/v1/documents", "post", OptionParameters(index, kRequest));
    return api.Dump();
  }();
  return description;
}

}  // namespace lectern::server
