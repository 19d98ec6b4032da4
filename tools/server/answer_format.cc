#include "tools/server/answer_format.h"

#include <string_view>
#include <vector>

#include "engine/constraint/json_schema.h"
#include "engine/constraint/ordered_json.h"

namespace lectern::server {
namespace {

using MemberPath = std::vector<std::string_view>;
// The member of the body at the end of `path`, as JSON text; empty: it is missing or null.
std::string MemberText(const std::string& body, const MemberPath& path) {
  const auto parsed = ParseOrderedJson(body, kBodyLimits);
  if (!parsed.ok()) return "";
  const OrderedJson* at = &*parsed;
  for (const std::string_view name : path) {
    if (at) at = at->Find(name);
  }
  const bool is_null = at && at->kind == OrderedJson::Kind::kScalar && at->scalar.is_null();
  return at && !is_null ? DumpOrdered(*at) : "";
}

// Keeps the answer to a schema, which is an error of the field where it cannot be kept. An empty
// text stands for any object.
void SetSchema(RequestFields& fields, const char* name, std::string schema, bool is_strict,
               api::AskOptions& options) {
  if (!options.json_schema.empty()) {
    fields.Fail(name, "asks for a second form of the answer; send one");
    return;
  }
  options.json_schema = schema.empty() ? std::string(kAnyObjectSchema) : std::move(schema);
  options.strict_schema = is_strict;
  const auto compiled = CompileJsonSchema(options.json_schema, is_strict);
  if (!compiled.ok()) fields.Fail(name, "cannot be had: " + compiled.status().message());
}

bool IsTrue(const Json* value) { return value && value->boolean() && *value->boolean(); }

// Reads a form such as {"type": "json_object"}. `name`: of the field that has it; `path`: where it
// is in the body.
void ReadFormat(RequestFields& fields, const std::string& body, const char* name,
                const Json* format, MemberPath path, api::AskOptions& options) {
  if (!format || format->is_null()) return;
  const Json* const type = format->Find("type");
  const std::string kind = type && type->string() ? *type->string() : "";
  const bool has_type = type && !type->is_null();
  if (!format->object() || (has_type && !type->string())) {
    fields.Fail(name, "must be an object with a type: text, json_object or json_schema");
    return;
  }
  if (!has_type || kind == "text") return;
  // Hugging Face's client sends every schema as TGI has it: as the value of a json_object.
  const Json* const value = format->Find("value");
  const bool is_value = value && value->object() && kind != "json_schema" &&
                        !format->Find("schema") && !format->Find("json_schema");
  if (kind != "json_object" && kind != "json_schema" && !(kind == "json" && is_value)) {
    fields.Fail(name,
                "has the type \"" + kind + "\", but must have text, json_object or json_schema");
    return;
  }
  // OpenAI's chat completions have the schema inside "json_schema", its responses and llama.cpp's
  // server beside the type.
  const Json* const inner = format->Find("json_schema");
  const bool is_inside = inner && inner->object();
  if (is_inside) path.emplace_back("json_schema");
  path.emplace_back(is_value ? "value" : "schema");
  const bool is_strict = IsTrue((is_inside ? inner : format)->Find("strict"));
  SetSchema(fields, name, MemberText(body, path), is_strict, options);
}

// The schemas that other servers take as members of their own.
void ReadOtherSchemas(RequestFields& fields, const std::string& body, api::AskOptions& options) {
  for (const char* const name : {"json_schema", "guided_json"}) {
    const Json* const schema = fields.Any(name);
    const bool is_empty = schema && ((schema->object() && schema->object()->empty()) ||
                                     (schema->string() && schema->string()->empty()));
    if (!schema || is_empty) continue;
    // vLLM takes a schema as a text, too.
    std::string text = schema->string() ? *schema->string() : MemberText(body, {name});
    if (!text.empty()) SetSchema(fields, name, std::move(text), options.strict_schema, options);
  }
  const Json* const structured = fields.Any("structured_outputs");
  if (!structured) return;
  const Json::Object* const members = structured->object();
  const Json* const schema = structured->Find("json");
  for (const auto& [name, value] : members ? *members : Json::Object()) {
    const bool is_kept = name == "json" || value.is_null() || name.starts_with("disable_") ||
                         name == "whitespace_pattern";
    if (!is_kept) fields.Fail("structured_outputs", "can only have \"json\", a schema");
  }
  if (!schema || schema->is_null()) return;
  std::string text =
      schema->string() ? *schema->string() : MemberText(body, {"structured_outputs", "json"});
  SetSchema(fields, "structured_outputs", std::move(text), false, options);
}

}  // namespace

void ReadResponseFormat(RequestFields& fields, const std::string& body, api::AskOptions& options) {
  ReadFormat(fields, body, "response_format", fields.Any("response_format"), {"response_format"},
             options);
  ReadOtherSchemas(fields, body, options);
}

void ReadTextFormat(RequestFields& fields, const std::string& body, api::AskOptions& options) {
  const Json* const text = fields.Any("text");
  ReadFormat(fields, body, "text", text ? text->Find("format") : nullptr, {"text", "format"},
             options);
  ReadOtherSchemas(fields, body, options);
}

}  // namespace lectern::server
