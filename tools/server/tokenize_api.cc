// POST /tokenize: how a document's model reads a text; the shape that llama.cpp's server has, and
// where each token lies.
#include "tools/server/request_fields.h"
#include "tools/server/service.h"

namespace lectern::server {

HttpResponse AnswerTokenize(Answering& answering, const HttpRequest& request) {
  auto fields = RequestFields::Parse(request.body);
  if (!fields.ok()) return StatusResponse(fields.status(), request);
  const std::string document = fields->String("document").value_or("");
  const std::string content = fields->RequiredString("content");
  const bool with_pieces = fields->Boolean("with_pieces").value_or(false);
  if (Status status = fields->Finish(); !status.ok()) return StatusResponse(status, request);
  auto session = answering.engine().Open(document);
  if (!session.ok()) return answering.ErrorResponse(session.error(), request);
  auto tokens = session->Tokenize(content);
  if (!tokens.ok()) return answering.ErrorResponse(tokens.error(), request);
  Json::Array list;
  for (const lectern_token& token : *tokens) {
    if (!with_pieces) {
      list.emplace_back(int64_t{token.id});
      continue;
    }
    list.emplace_back(Json::Object{{"id", int64_t{token.id}},
                                   {"piece", content.substr(token.begin, token.end - token.begin)},
                                   {"begin", token.begin},
                                   {"end", token.end}});
  }
  return JsonResponse(Json(Json::Object{{"tokens", std::move(list)}}).Dump());
}

}  // namespace lectern::server
