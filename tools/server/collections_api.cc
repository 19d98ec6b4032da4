// GET /v1/collections, of one collection its documents, and those that mention words, which needs
// no model. Collections are made and changed on the server's machine (index-document --collection).
#include <cmath>

#include "tools/server/messages.h"
#include "tools/server/openai_fields.h"
#include "tools/server/option_fields.h"
#include "tools/server/request_fields.h"
#include "tools/server/service.h"

namespace lectern::server {
namespace {

// Limits of the engine's own JSON, of which the longest lists every document of a collection.
constexpr JsonLimits kListLimits = {.max_depth = 16, .max_values = SIZE_MAX, .max_string = 1 << 24};

constexpr uint64_t kMostMentions = 1000;  // documents of one response

HttpResponse ListResponse(const std::string& text) {
  const auto json = ParseJson(text, kListLimits);
  return JsonResponse(json.ok() ? WithoutPaths(*json).Dump() : text);
}

// A store that does not exist yet has no collections.
api::Result<api::CollectionList> List(api::Engine& engine) {
  auto list = engine.Collections();
  if (list.ok() || list.error().code != LECTERN_NOT_FOUND) return list;
  return api::CollectionList{{}, R"({"collections":[]})"};
}

Json ModelJson(const api::Collection& collection) {
  return Json::Object{{"id", CollectionKey(collection.name)},
                      {"object", "model"},
                      {"created", 0},
                      {"owned_by", "lectern"},
                      {"meta", Json::Object{{"collection", collection.name},
                                            {"documents", collection.num_documents},
                                            {"indexed", collection.num_indexed},
                                            {"text_bytes", collection.text_bytes}}}};
}

}  // namespace

HttpResponse AnswerCollections(Answering& answering, const HttpRequest& request) {
  auto list = List(answering.engine());
  if (!list.ok()) return answering.ErrorResponse(list.error(), request);
  return ListResponse(list->json);
}

HttpResponse AnswerCollection(Answering& answering, const HttpRequest& request,
                              const std::string& name) {
  auto documents = answering.engine().DocumentsOf(name);
  if (!documents.ok()) return answering.ErrorResponse(documents.error(), request);
  return ListResponse(documents->json);
}

HttpResponse AnswerCollectedText(Answering& answering, const HttpRequest& request,
                                 const std::string& name) {
  const auto document = request.head.query.find("document");
  if (document == request.head.query.end()) {
    return StatusResponse(Status(Code::kInvalidArgument,
                                 "document is missing: the name of a document of the collection")
                              .WithParam("document"),
                          request);
  }
  auto text = answering.engine().ReadInCollection(name, document->second);
  if (!text.ok()) return answering.ErrorResponse(text.error(), request);
  return TextResponse(*text, request);
}

HttpResponse AnswerMentions(Answering& answering, const HttpRequest& request,
                            const std::string& name) {
  RequestFields fields = RequestFields::OfQuery(request.head.query);
  const std::string words = fields.RequiredString("q");
  const double most = fields.Number("limit", 1, kMostMentions).value_or(100);
  if (most != std::floor(most)) fields.Fail("limit", "must be a whole number");
  const lectern_offset_unit unit = ReadOffsetUnit(fields);
  if (Status status = fields.Finish(); !status.ok()) return StatusResponse(status, request);
  auto found = answering.engine().FindMentions(name, words, static_cast<uint64_t>(most), unit);
  if (!found.ok()) return answering.ErrorResponse(found.error(), request);
  return ListResponse(found->json);
}

// A damaged collection hides no documents: GET /v1/collections says what is wrong with it.
void AddCollectionModels(api::Engine& engine, Json::Array& models) {
  auto list = List(engine);
  if (!list.ok()) return;
  for (const api::Collection& collection : list->collections) {
    models.push_back(ModelJson(collection));
  }
}

HttpResponse CollectionModel(Answering& answering, const HttpRequest& request,
                             const std::string& name) {
  // Opened first: "all" comes into being when it is used.
  auto opened = answering.engine().DocumentsOf(name);
  auto list = opened.ok() ? List(answering.engine()) : opened.error();
  if (!list.ok()) return answering.ErrorResponse(list.error(), request);
  for (const api::Collection& collection : list->collections) {
    if (collection.name == name) return JsonResponse(ModelJson(collection).Dump());
  }
  return RefusalResponse(
      {.status = 404, .code = "not_found", .message = "there is no such collection any more"},
      request.request_id);
}

}  // namespace lectern::server
