// Keeps a session's answer to the JSON schema that the question gives.
#include "engine/asking/answer_constraint.h"
#include "engine/asking/ask.h"

namespace lectern {

Status DocumentSession::Constrain(const AskOptions& options, NextPrompt& next,
                                  Answer& answer) const {
  if (options.json_schema.empty()) return {};
  LECTERN_ASSIGN(next.constraint,
                 AnswerConstraint::Create(model_, options.json_schema, options.strict_schema,
                                          next.rest.text, next.is_thinking));
  std::string names;
  for (const std::string& name : next.constraint->not_kept()) {
    names += (names.empty() ? "" : ", ") + name;
  }
  if (!names.empty()) {
    Warn(options, "schema_not_kept",
         "the answer is not kept to these keywords of the schema: " + names +
             "; check them yourself",
         answer);
  }
  return {};
}

}  // namespace lectern
