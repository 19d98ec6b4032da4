// Keeps a session's answer to the JSON schema that the question gives.
#include "engine/asking/answer_constraint.h"
#include "engine/asking/ask.h"

namespace lectern {
namespace {

std::string NotKeptNote(const std::vector<std::string>& keywords) {
  std::string names;
  for (const std::string& name : keywords) names += (names.empty() ? "" : ", ") + name;
  if (names.empty()) return names;
  return "the answer is not kept to these keywords of the schema: " + names +
         "; check them yourself";
}

}  // namespace

Status DocumentSession::Constrain(const AskOptions& options, NextPrompt& next,
                                  Answer& answer) const {
  if (options.json_schema.empty()) return {};
  LECTERN_ASSIGN(next.constraint,
                 AnswerConstraint::Create(model_, options.json_schema, options.strict_schema,
                                          next.rest.text, next.is_thinking));
  const std::string note = NotKeptNote(next.constraint->not_kept());
  if (!note.empty()) Warn(options, "schema_not_kept", note, answer);
  return {};
}

Result<std::string> NotKeptOf(const AskOptions& options) {
  if (options.json_schema.empty()) return std::string();
  auto json = CompileJsonSchema(options.json_schema, options.strict_schema);
  if (!json.ok()) return std::move(json).status().WithParam("json_schema");
  return NotKeptNote(json->not_kept);
}

}  // namespace lectern
