// POST /v1/ask: the object that ask-document --json prints, or the same as events.
#include <map>

#include "tools/server/request_fields.h"
#include "tools/server/service.h"

namespace lectern::server {
namespace {

const std::map<std::string, lectern_offset_unit> kOffsetUnits = {
    {"utf8", LECTERN_OFFSET_UTF8},
    {"utf16", LECTERN_OFFSET_UTF16},
    {"codepoint", LECTERN_OFFSET_CODEPOINT}};

struct AskRequest {
  std::string document, question, session;
  api::AskOptions options;
  lectern_offset_unit unit = LECTERN_OFFSET_UTF8;
  bool stream = false;
};

void ReadReading(RequestFields& fields, api::AskOptions& options) {
  options.kv_budget = static_cast<float>(fields.Number("kv_budget", 1e-6, 1).value_or(0));
  if (fields.Boolean("exact").value_or(false)) {
    if (options.kv_budget != 0) fields.Fail("exact", "and kv_budget exclude each other");
    options.kv_budget = 1;
  }
  options.tail = fields.Boolean("tail").value_or(true);
  options.rule = fields.OneOf("rule", {"default", "threshold", "cap", "top-p"}).value_or("");
  options.mass = fields.Number("mass", 1e-6, 0.999999).value_or(0);
  options.max_missed = static_cast<float>(fields.Number("max_missed", 1e-6, 0.999999).value_or(0));
  options.layer_budget = fields.String("layer_budget").value_or("");
  options.head_budget = fields.String("head_budget").value_or("");
  if (fields.OneOf("fallback", {"warn", "exact"}) == "exact") {
    options.fallback = LECTERN_FALLBACK_EXACT;
  }
}

Result<AskRequest> ReadAsk(const std::string& body) {
  LECTERN_ASSIGN(RequestFields fields, RequestFields::Parse(body));
  AskRequest ask;
  ask.document = fields.String("document").value_or("");
  ask.question = fields.RequiredString("question");
  if (const auto session = fields.String("session")) {
    ask.session = *session;
    if (session->empty()) fields.Fail("session", "must be \"new\" or what an answer had there");
  }
  ReadReading(fields, ask.options);
  ask.options.max_session_rows = fields.Whole("max_session_rows", 64, 1 << 20).value_or(0);
  ask.options.max_tokens = static_cast<uint32_t>(fields.Whole("max_tokens", 1, 4096).value_or(0));
  ask.options.max_evidence = static_cast<uint32_t>(fields.Whole("max_evidence", 1, 16).value_or(0));
  ask.options.temperature = static_cast<float>(fields.Number("temperature", 0, 10).value_or(0));
  ask.options.top_p = static_cast<float>(fields.Number("top_p", 1e-6, 1).value_or(0));
  ask.options.seed = fields.Whole("seed", 0, ~uint64_t{0}).value_or(0);
  ask.unit =
      kOffsetUnits.at(fields.OneOf("offset_unit", {"utf8", "utf16", "codepoint"}).value_or("utf8"));
  ask.stream = fields.Boolean("stream").value_or(false);
  if (Status status = fields.Finish(); !status.ok()) return status;
  return ask;
}

// Writes the answer as ask-document prints it, with the request's id, and the session's if there is
// one.
std::string AnswerBody(const api::Answer& answer, lectern_offset_unit unit,
                       const std::string& request_id, const std::string& session_id) {
  auto json = answer.Json(unit);
  if (json.ok()) json = api::SetString(*json, "id", request_id);
  if (json.ok() && !session_id.empty()) json = api::SetString(*json, "session", session_id);
  return json.ok() ? *json : "{}";
}

std::string TextBody(std::string_view piece) { return Json(Json::Object{{"text", piece}}).Dump(); }

// The "evidence" member alone.
std::string PassagesBody(const std::string& answer) {
  const auto json =
      ParseJson(answer, {.max_depth = 16, .max_values = 1 << 20, .max_string = 1 << 24});
  const Json* const evidence = json.ok() ? json.value().Find("evidence") : nullptr;
  return Json(Json::Object{{"evidence", evidence ? *evidence : Json(Json::Array())}}).Dump();
}

}  // namespace

HttpResponse AnswerAsk(Answering& answering, const HttpRequest& request) {
  auto ask = ReadAsk(request.body);
  if (!ask.ok()) return StatusResponse(ask.status(), request);
  auto begun = answering.Begin(ask->document, ask->question, ask->options, request, ask->session);
  if (auto* const refused = std::get_if<HttpResponse>(&begun)) return std::move(*refused);
  const auto turn = std::get<std::shared_ptr<Answering::Turn>>(begun);
  if (!ask->stream) {
    auto answer = turn->Generate([](std::string_view) { return true; }, nullptr);
    if (auto* const failed = std::get_if<HttpResponse>(&answer)) return std::move(*failed);
    return JsonResponse(AnswerBody(std::get<api::Answer>(answer), ask->unit, request.request_id,
                                   turn->session_id()));
  }
  return EventsResponse([turn, unit = ask->unit, id = request.request_id](EventStream& events) {
    auto answer = turn->Generate(
        [&](std::string_view piece) { return events.Send("text", TextBody(piece)); }, &events,
        [&](std::string_view piece) { return events.Send("reasoning", TextBody(piece)); });
    if (const auto* const failed = std::get_if<HttpResponse>(&answer)) {
      events.Send("error", failed->body);
      return;
    }
    const std::string body =
        AnswerBody(std::get<api::Answer>(answer), unit, id, turn->session_id());
    events.Send("passages", PassagesBody(body));
    events.Send("done", body);
  });
}

}  // namespace lectern::server
