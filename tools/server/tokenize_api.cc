// POST /tokenize shows how a document's model cuts a text into tokens. The response has the shape
// that llama.cpp's server gives, and with "with_pieces" also the place of each token in the text.
#include "tools/server/request_fields.h"
#include "tools/server/service.h"

namespace lectern::server {
namespace {

// Limit of the text, in bytes: tokens with their pieces take some hundred times its memory.
constexpr size_t kMaxContent = size_t{32} << 10;

}  // namespace

HttpResponse AnswerTokenize(Answering& answering, const HttpRequest& request) {
  auto fields = RequestFields::Parse(request.body);
  if (!fields.ok()) return StatusResponse(fields.status(), request);
  const std::string document = fields->String("document").value_or("");
  const std::string content = fields->RequiredString("content");
  const bool with_pieces = fields->Boolean("with_pieces").value_or(false);
  if (content.size() > kMaxContent) {
    fields->Fail("content", "is too long: at most " + std::to_string(kMaxContent) +
                                " bytes; send it in parts");
  }
  if (Status status = fields->Finish(); !status.ok()) return StatusResponse(status, request);
  auto session = answering.Open(document);
  if (!session.ok()) return answering.ErrorResponse(session.error(), request);
  auto tokens = session->Tokenize(content);
  if (!tokens.ok()) return answering.ErrorResponse(tokens.error(), request);
  std::string body = R"({"tokens":[)";
  for (const lectern_token& token : *tokens) {
    if (body.back() != '[') body += ',';
    if (!with_pieces) {
      body += std::to_string(token.id);
      continue;
    }
    const std::string piece = content.substr(token.begin, token.end - token.begin);
    body += Json(Json::Object{{"id", int64_t{token.id}},
                              {"piece", piece},
                              {"begin", token.begin},
                              {"end", token.end}})
                .Dump();
  }
  return JsonResponse(body + "]}");
}

}  // namespace lectern::server
