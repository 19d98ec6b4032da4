// Keeps a session's answer to the JSON schema that the question gives.
#include "engine/asking/answer_constraint.h"
#include "engine/asking/ask.h"
#include "engine/model/template/chat_formats.h"

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

// Models without a chat template, and with an adapter that was taught its refusal, answer in plain
// sentences. A conversation whose rows are evicted cannot be taken back.
bool DocumentSession::IsPlain(const AskOptions& options) const {
  const Adapter* const adapter = model_->adapter();
  const bool was_taught = model_->chat_template().name() == kPlainTemplate ||
                          (adapter != nullptr && adapter->settings().refusal);
  return was_taught && options.max_session_rows == 0;
}

Status DocumentSession::Constrain(const AskOptions& options, NextPrompt& next,
                                  Answer& answer) const {
  if (options.json_schema.empty()) return {};
  LECTERN_ASSIGN(next.constraint,
                 AnswerConstraint::Create(model_, options.json_schema, options.strict_schema,
                                          next.rest.text, next.is_thinking, IsPlain(options)));
  const std::string note = NotKeptNote(next.constraint->not_kept());
  if (!note.empty()) Warn(options, "schema_not_kept", note, answer);
  return {};
}

// A single step is not cancelled, because the answer goes on behind it.
Result<AnswerConstraint::Drawn> DocumentSession::DrawConstrained(std::span<const float> logits,
                                                                 const NextPrompt& next,
                                                                 Sampler& sampler, double kv_budget,
                                                                 const AskOptions& options) {
  LECTERN_ASSIGN(auto drawn, next.constraint->Draw(next.ConditionOf(logits), sampler));
  if (drawn.id >= 0) return drawn;
  if (next.barred) next.barred->Push(drawn.said);
  LECTERN_ASSIGN(logits, Step({&drawn.said, 1}, kv_budget, options.tail, nullptr));
  return next.constraint->Draw(next.ConditionOf(logits), sampler);
}

Result<std::string> NotKeptOf(const AskOptions& options) {
  if (options.json_schema.empty()) return std::string();
  auto json = CompileJsonSchema(options.json_schema, options.strict_schema);
  if (!json.ok()) return std::move(json).status().WithParam("json_schema");
  return NotKeptNote(json->not_kept);
}

}  // namespace lectern
