// POST /v1/cite: answers the passages of a document that support a given text, sentence by
// sentence, as ask-document --cite --json prints them. No model is used.
#include "engine/requests/options.h"
#include "tools/server/openai_fields.h"
#include "tools/server/option_fields.h"
#include "tools/server/request_fields.h"
#include "tools/server/service.h"

namespace lectern::server {

HttpResponse AnswerCite(api::Engine& engine, Answering& answering, const HttpRequest& request) {
  auto fields = RequestFields::Parse(request.body);
  if (!fields.ok()) return StatusResponse(fields.status(), request);
  const std::string document = fields->String("document").value_or("");
  const std::string text = fields->RequiredString("text");
  GivenCiteOptions given(CiteOptionRows());
  ReadOptionFields(*fields, kRequest, given);
  api::CiteOptions options;
  given.PutInto(options);
  options.unit = ReadOffsetUnit(*fields);
  if (Status status = fields->Finish(); !status.ok()) return StatusResponse(status, request);
  auto cited = answering.WithRoom([&] { return engine.Cite(document, text, options); });
  if (!cited.ok()) return answering.ErrorResponse(cited.error(), request);
  return JsonResponse("{\"id\":" + Json(request.request_id).Dump() + "," + cited->json.substr(1));
}

}  // namespace lectern::server
