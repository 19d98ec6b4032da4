// POST /v1/ask, Lectern's own way to ask: answers the object that ask-document --json prints, or
// streams it as events: "indexing" while a document of a collection is indexed for its first
// question, "text" and "reasoning" as they are decoded, then "passages", then "done" with the whole
// object, or "error".
#include "engine/requests/options.h"
#include "tools/server/answer_format.h"
#include "tools/server/messages.h"
#include "tools/server/openai_fields.h"
#include "tools/server/option_fields.h"
#include "tools/server/request_fields.h"
#include "tools/server/service.h"

namespace lectern::server {
namespace {

// The body of a request, read.
struct AskRequest {
  std::string document, question, session;  // document: also the key of a collection
  api::AskOptions options;
  lectern_offset_unit unit = LECTERN_OFFSET_UTF8;
  bool stream = false;
};

// Reads "exact": true is another way to write "kv_budget": 1, and an error beside a kv_budget.
void ReadExact(RequestFields& fields, api::AskOptions& options) {
  if (!fields.Boolean("exact").value_or(false)) return;
  if (options.kv_budget != 0) fields.Fail("exact", "and kv_budget exclude each other");
  options.kv_budget = 1;
}

// INVALID_ARGUMENT names the first field that is wrong, missing or not known.
Result<AskRequest> ReadAsk(const std::string& body) {
  LECTERN_ASSIGN(RequestFields fields, RequestFields::Parse(body));
  AskRequest ask;
  ask.document = fields.String("document").value_or("");
  if (const auto collection = fields.String("collection")) {
    if (!ask.document.empty()) fields.Fail("collection", "and document exclude each other");
    ask.document = CollectionKey(*collection);
  }
  ask.question = fields.RequiredString("question");
  if (const auto session = fields.String("session")) {
    ask.session = *session;
    if (session->empty()) fields.Fail("session", "must be \"new\" or what an answer had there");
  }
  GivenAskOptions given(AskOptionRows());
  ReadOptionFields(fields, kRequest, given);
  given.PutInto(ask.options);
  ReadExact(fields, ask.options);
  ReadResponseFormat(fields, body, ask.options);
  ask.options.logit_bias = ReadLogitBias(fields);
  ask.unit = ReadOffsetUnit(fields);
  ask.stream = fields.Boolean("stream").value_or(false);
  if (Status status = fields.Finish(); !status.ok()) return status;
  return ask;
}

// The limits are above any answer's: it is the engine's own JSON.
constexpr JsonLimits kAnswerLimits = {
    .max_depth = 16, .max_values = 1 << 20, .max_string = 1 << 24};

// The answer as ask-document prints it, with the request's id, and the session's if there is one.
// The answer of a collection names documents, whose paths are this machine's.
std::string AnswerBody(const api::Answer& answer, lectern_offset_unit unit,
                       const std::string& request_id, const std::string& session_id) {
  auto json = answer.Json(unit);
  if (json.ok() && answer.receipt().num_documents > 0) {
    if (const auto parsed = ParseJson(*json, kAnswerLimits); parsed.ok()) {
      json = WithoutPaths(*parsed).Dump();
    }
  }
  if (json.ok()) json = api::SetString(*json, "id", request_id);
  if (json.ok() && !session_id.empty()) json = api::SetString(*json, "session", session_id);
  return json.ok() ? *json : "{}";
}

// The data of an event with a piece of text.
std::string TextBody(std::string_view piece) { return Json(Json::Object{{"text", piece}}).Dump(); }

// The data of an event about a document that is being indexed.
std::string IndexingBody(const api::CollectionProgress& indexing) {
  const api::Progress& progress = indexing.progress;
  return Json(Json::Object{
                  {"document", indexing.document},
                  {"stage", progress.stage},
                  {"done", progress.done},
                  {"total", progress.total},
                  {"eta_seconds", progress.eta_seconds < 0 ? Json() : Json(progress.eta_seconds)}})
      .Dump();
}

// The members "evidence" and "warnings" of an answer alone: the data of the event "passages".
std::string PassagesBody(const std::string& answer) {
  const auto json = ParseJson(answer, kAnswerLimits);
  Json::Object body = {{"evidence", Json::Array()}, {"warnings", Json::Array()}};
  for (auto& [name, value] : body) {
    if (const Json* const member = json.ok() ? json.value().Find(name) : nullptr) value = *member;
  }
  return Json(std::move(body)).Dump();
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
        [&](std::string_view piece) { return events.Send("reasoning", TextBody(piece)); },
        [&](const api::CollectionProgress& progress) {
          return events.Send("indexing", IndexingBody(progress));
        });
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
