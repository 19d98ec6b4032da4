#include "tools/server/service.h"

#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>

#include "engine/model/formats/json.h"
#include "engine/requests/report_json.h"
#include "tools/ingest/ingest.h"
#include "tools/server/embedded_files.h"
#include "tools/server/known_paths.h"
#include "tools/server/messages.h"
#include "tools/server/option_fields.h"
#include "tools/server/request_fields.h"
#include "tools/server/system.h"

namespace lectern::server {
namespace {

constexpr char kDocuments[] = "/v1/documents";  // where uploads go

// Returns the part of `path` that stands for {id} in `pattern`, "" for a pattern without one;
// nothing where the path does not fit. A document's name may have slashes ("2024/invoice.txt"); one
// that ends as another route does ("…/text") is reached by its id.
std::optional<std::string> Match(std::string_view pattern, std::string_view path) {
  constexpr std::string_view kId = "{id}";
  const size_t at = pattern.find(kId);
  if (at == pattern.npos) return path == pattern ? std::optional<std::string>("") : std::nullopt;
  const std::string_view before = pattern.substr(0, at), after = pattern.substr(at + kId.size());
  if (!path.starts_with(before)) return std::nullopt;
  path.remove_prefix(before.size());
  if (path.size() <= after.size() || !path.ends_with(after)) return std::nullopt;
  path.remove_suffix(after.size());
  const bool is_longer_route =
      path.ends_with("/text") || path.ends_with("/events") || path.ends_with("/mentions");
  if (after.empty() && is_longer_route) return std::nullopt;
  return std::string(path);
}

// Whether a text cut at `offset` would begin with a continuation byte of UTF-8.
bool IsInsideCodePoint(std::string_view text, uint64_t offset) {
  return offset < text.size() && (static_cast<unsigned char>(text[offset]) & 0xC0) == 0x80;
}

// Whether a route serves the request's method; HEAD is a GET without its body (RFC 9110, 9.3.2).
template <typename Route>
bool Serves(const Route& route, const RequestHead& head) {
  return route.method == (head.method == "HEAD" ? "GET" : head.method);
}

HttpResponse FileResponse(std::string_view file, std::string type) {
  HttpResponse response;
  response.content_type = std::move(type);
  response.body = file;
  return response;
}

// Reads a byte offset of the query; `missing` where it is not given, nothing where it is no number.
std::optional<uint64_t> Offset(const RequestHead& head, std::string_view name, uint64_t missing) {
  const auto found = head.query.find(name);
  if (found == head.query.end()) return missing;
  const std::string& text = found->second;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

}  // namespace

HttpResponse TextResponse(std::string_view text, const HttpRequest& request) {
  const auto start = Offset(request.head, "start", 0),
             end = Offset(request.head, "end", text.size());
  const bool is_good = start && end && *start <= *end && *end <= text.size() &&
                       !IsInsideCodePoint(text, *start) && !IsInsideCodePoint(text, *end);
  if (!is_good) {
    return StatusResponse(
        Status(Code::kInvalidArgument,
               "start and end are byte offsets of whole characters, 0 <= start <= end <= " +
                   std::to_string(text.size()))
            .WithParam("start"),
        request);
  }
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = text.substr(*start, *end - *start);
  return response;
}

HttpResponse JsonResponse(std::string body, int status) {
  HttpResponse response;
  response.status = status;
  response.body = std::move(body);
  return response;
}

HttpResponse StatusResponse(const Status& status, const HttpRequest& request) {
  return JsonResponse(ErrorJson(status, request.request_id), HttpStatus(status.code()));
}

Service::Service(api::Engine& engine, api::Engine* indexer, const ServiceOptions& options)
    : engine_(engine), answering_(engine, options.answering) {
  if (!indexer) return;
  IndexJobs::Options of_jobs = options.index;
  of_jobs.on_replaced = [this, indexer](const std::string& id) {
    answering_.sessions().Close(id);  // a document that is open keeps its files
    // Files that a conversation still reads go with a later collection.
    (void)indexer->Collect();
  };
  jobs_ = std::make_unique<IndexJobs>(*indexer, std::move(of_jobs));
}

// All routes; a path is matched by the first that fits it and the method.
const std::vector<Service::Route>& Service::Routes() {
  static const std::vector<Route> routes = {
      {"GET", "/", &Service::Page},
      {"GET", "/page.css", &Service::PageCss},
      {"GET", "/text.js", &Service::Script},
      {"GET", "/markdown.js", &Service::Script},
      {"GET", "/link.js", &Service::Script},
      {"GET", "/cite.js", &Service::Script},
      {"GET", "/page.js", &Service::Script},
      {"GET", "/openapi.json", &Service::OpenApi},
      {"GET", "/health", &Service::Health},
      {"GET", "/ready", &Service::Ready},
      {"GET", "/version", &Service::Version},
      {"GET", "/metrics", &Service::MetricsText},
      {"GET", "/v1/models", &Service::ListModels},
      {"GET", "/v1/models/{id}", &Service::ShowModel},
      {"GET", "/v1/documents", &Service::ListDocuments},
      {"POST", "/v1/documents", &Service::IndexDocument},
      {"GET", "/v1/documents/{id}", &Service::ShowDocument},
      {"DELETE", "/v1/documents/{id}", &Service::RemoveDocument},
      {"GET", "/v1/documents/{id}/text", &Service::DocumentText},
      {"GET", "/v1/jobs/{id}", &Service::ShowJob},
      {"GET", "/v1/jobs/{id}/events", &Service::JobEvents},
      {"DELETE", "/v1/jobs/{id}", &Service::CancelJob},
      {"GET", "/v1/collections", &Service::ListCollections},
      {"GET", "/v1/collections/{id}", &Service::ShowCollection},
      {"GET", "/v1/collections/{id}/text", &Service::CollectedText},
      {"GET", "/v1/collections/{id}/mentions", &Service::FindMentions},
      {"POST", "/v1/ask", &Service::Ask},
      {"POST", "/v1/cite", &Service::Cite},
      {"DELETE", "/v1/sessions/{id}", &Service::EndSession},
      {"POST", "/v1/chat/completions", &Service::ChatCompletions},
      {"POST", "/v1/responses", &Service::Responses},
      {"POST", "/tokenize", &Service::Tokenize},
  };
  return routes;
}

// HEAD is allowed wherever GET is, and OPTIONS everywhere.
std::string Service::Allowed(const std::string& path) {
  std::string allowed;
  for (const Route& route : Routes()) {
    if (!Match(route.path, path)) continue;
    const std::string_view method = route.method;
    allowed.append(method).append(method == "GET" ? ", HEAD, " : ", ");
  }
  return allowed.empty() ? "" : allowed + "OPTIONS";
}

std::optional<Refusal> Service::Refuse(const RequestHead& head) {
  if (head.path == "*") return std::nullopt;  // OPTIONS alone has it
  const std::string allowed = Allowed(head.path);
  if (!allowed.empty() && head.method == "OPTIONS") return std::nullopt;
  for (const Route& route : Routes()) {
    if (Serves(route, head) && Match(route.path, head.path)) return RefuseUpload(head);
  }
  answering_.metrics().CountRequest("other", allowed.empty() ? 404 : 405);
  if (!allowed.empty()) {
    return Refusal{405, "method_not_allowed", "this path is not served by that method", allowed};
  }
  return Refusal{404, "not_found", std::string(MissingPathMessage(head.path))};
}

// Asked before an upload's bytes are read: they may be many, and would be thrown away.
std::optional<Refusal> Service::RefuseUpload(const RequestHead& head) {
  if (head.method != "POST" || head.path != kDocuments) return std::nullopt;
  if (!jobs_) {
    answering_.metrics().CountRequest(kDocuments, 403);
    return NotAllowedToIndex();
  }
  if (!jobs_->is_full()) return std::nullopt;
  answering_.metrics().CountRequest(kDocuments, 503);
  return TooManyJobs();
}

Refusal Service::TooManyJobs() const {
  return {.status = 503,
          .code = "overloaded",
          .message = "too many documents wait to be indexed; try again later",
          .retry_after = jobs_->RetryAfterSeconds()};
}

HttpResponse Service::Handle(const HttpRequest& request) {
  if (request.head.method == "OPTIONS") return Options(request);
  for (const Route& route : Routes()) {
    const auto id = Match(route.path, request.head.path);
    if (!id || !Serves(route, request.head)) continue;
    HttpResponse response = (this->*route.handler)(request, *id);
    answering_.metrics().CountRequest(route.path, response.status);
    return response;
  }
  return RefusalResponse(*Refuse(request.head), request.request_id);
}

// OPTIONS of a path, or of "*", which is the server as a whole (RFC 9110, 9.3.7).
HttpResponse Service::Options(const HttpRequest& request) {
  HttpResponse response;
  response.status = 204;
  response.headers.emplace_back("Allow", request.head.path == "*"
                                             ? "GET, HEAD, POST, DELETE, OPTIONS"
                                             : Allowed(request.head.path));
  answering_.metrics().CountRequest("other", response.status);
  return response;
}

void Service::EndAll() {
  answering_.watch().EndAll();
  if (jobs_) jobs_->EndAll();
}

// --- the service itself -------------------------------------------------------------------------

// The page may load scripts and styles of this server alone, send forms nowhere, and be framed by
// nobody: a document's text that got into it as HTML could do nothing.
HttpResponse Service::Page(const HttpRequest&, const std::string&) {
  HttpResponse response = FileResponse(kPageHtml, "text/html; charset=utf-8");
  response.headers = {{"Content-Security-Policy",
                       "default-src 'none'; script-src 'self'; style-src 'self'; "
                       "connect-src 'self'; base-uri 'none'; form-action 'none'; "
                       "frame-ancestors 'none'"},
                      {"Referrer-Policy", "no-referrer"}};
  return response;
}

HttpResponse Service::PageCss(const HttpRequest&, const std::string&) {
  return FileResponse(kPageCss, "text/css; charset=utf-8");
}

// The script of the page that the path names; the routes have no other path.
HttpResponse Service::Script(const HttpRequest& request, const std::string&) {
  const std::string& path = request.head.path;
  const std::string_view script = path == "/text.js"       ? kTextJs
                                  : path == "/markdown.js" ? kMarkdownJs
                                  : path == "/link.js"     ? kLinkJs
                                  : path == "/cite.js"     ? kCiteJs
                                                           : kPageJs;
  return FileResponse(script, "text/javascript; charset=utf-8");
}

HttpResponse Service::OpenApi(const HttpRequest&, const std::string&) {
  return FileResponse(ApiDescription(), "application/json");
}

// Whether the process lives, and nothing more: an orchestrator restarts a server that is not
// healthy, which helps against nothing that /ready asks about.
HttpResponse Service::Health(const HttpRequest&, const std::string&) {
  return JsonResponse(R"({"status":"ok"})");
}

// Whether it makes sense to send questions here: the server is not stopping, and the store can be
// read.
HttpResponse Service::Ready(const HttpRequest& request, const std::string&) {
  if (answering_.watch().is_ending_all()) {
    return RefusalResponse({503, "stopping", "the server is stopping"}, request.request_id);
  }
  if (!List().ok()) {
    return RefusalResponse(
        {503, "not_ready", "the store cannot be read; GET /v1/documents says why"},
        request.request_id);
  }
  return JsonResponse(R"({"status":"ready"})");
}

HttpResponse Service::Version(const HttpRequest&, const std::string&) {
  return JsonResponse(
      Json(Json::Object{{"version", lectern_version()}, {"index_allowed", jobs_ != nullptr}})
          .Dump());
}

// The numbers of Metrics, with those that the other parts know now.
HttpResponse Service::MetricsText(const HttpRequest&, const std::string&) {
  const GenerationSlots::Load load = answering_.load();
  const lectern_counts counts = engine_.counts();
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = answering_.metrics().Text({.running = load.running,
                                             .waiting = load.waiting,
                                             .sessions = answering_.sessions().num_open(),
                                             .connections = num_connections ? num_connections() : 0,
                                             .heap_bytes = HeapBytes(),
                                             .step_passes = counts.step_passes,
                                             .step_tokens = counts.step_tokens});
  return response;
}

// --- documents ----------------------------------------------------------------------------------

// A store into which no document has been put yet does not exist; that is an empty list and no
// error.
api::Result<api::DocumentList> Service::List() {
  auto list = engine_.List();
  if (list.ok() || list.error().code != LECTERN_NOT_FOUND) return list;
  return api::DocumentList{{}, R"({"documents":[]})"};
}

namespace {

// The response with a JSON text of the engine's about documents.
HttpResponse DocumentsResponse(const std::string& text) {
  const auto json = ParseJson(text, {.max_values = SIZE_MAX});
  return JsonResponse(json.ok() ? WithoutPaths(*json).Dump() : text);
}

// A document in the form of OpenAI's models, so that clients can list and choose it. "created" is
// not known.
Json ModelJson(const api::Document& document) {
  return Json::Object{{"id", document.name.empty() ? document.id : document.name},
                      {"object", "model"},
                      {"created", 0},
                      {"owned_by", "lectern"},
                      {"meta", Json::Object{{"document", document.id},
                                            {"tokens", document.tokens},
                                            {"bytes_on_disk", document.bytes_on_disk},
                                            {"fingerprint", document.fingerprint}}}};
}

}  // namespace

HttpResponse Service::ListModels(const HttpRequest& request, const std::string&) {
  auto list = List();
  if (!list.ok()) return answering_.ErrorResponse(list.error(), request);
  Json::Array models;
  for (const api::Document& document : list->documents) {
    if (document.state == "ready") models.push_back(ModelJson(document));
  }
  AddCollectionModels(engine_, models);
  return JsonResponse(Json(Json::Object{{"object", "list"}, {"data", std::move(models)}}).Dump());
}

HttpResponse Service::ShowModel(const HttpRequest& request, const std::string& id) {
  if (const auto name = CollectionOf(id)) return CollectionModel(answering_, request, *name);
  auto found = engine_.Find(id);
  if (!found.ok()) return answering_.ErrorResponse(found.error(), request);
  return JsonResponse(ModelJson(*found).Dump());
}

HttpResponse Service::ListDocuments(const HttpRequest& request, const std::string&) {
  auto list = List();
  if (!list.ok()) return answering_.ErrorResponse(list.error(), request);
  return DocumentsResponse(list->json);
}

HttpResponse Service::ShowDocument(const HttpRequest& request, const std::string& id) {
  auto details = engine_.Show(id);
  if (!details.ok()) return answering_.ErrorResponse(details.error(), request);
  return DocumentsResponse(details->json);
}

// Removes a name, or a document by its id or last name; then its sessions end, too. 403: this
// server only answers. The document is no longer kept open, even where removing fails.
HttpResponse Service::RemoveDocument(const HttpRequest& request, const std::string& id) {
  if (!jobs_) return RefusalResponse(NotAllowedToIndex(), request.request_id);
  auto found = engine_.Find(id);
  if (found.ok()) answering_.sessions().Close(found->id);  // so that its files can go
  auto removed = engine_.Remove(id);
  if (!removed.ok()) {
    api::Error error = removed.error();
    if (error.code == LECTERN_LOCKED) {
      error.message = "the store is being changed, as while a document is indexed; try again later";
    }
    return answering_.ErrorResponse(error, request);
  }
  if (found.ok() && removed->is_document_gone) answering_.sessions().EndOf(found->id);
  auto document = api::GetString(removed->json, "removed");
  auto json = api::SetString(removed->json, "removed", id);
  if (document.ok() && json.ok()) json = api::SetString(*json, "document", *document);
  return json.ok() ? JsonResponse(std::move(*json))
                   : answering_.ErrorResponse(json.error(), request);
}

HttpResponse Service::DocumentText(const HttpRequest& request, const std::string& id) {
  auto session = answering_.Open(id);
  if (!session.ok()) return answering_.ErrorResponse(session.error(), request);
  return TextResponse(session->text(), request);
}

// --- indexing -----------------------------------------------------------------------------------

Refusal Service::NotAllowedToIndex() {
  return {403, "index_not_allowed",
          "this server only answers: whoever runs it has not allowed documents to be added or "
          "removed"};
}

// Puts an upload into the queue and answers 202 with the job, whose address is in Location.
HttpResponse Service::IndexDocument(const HttpRequest& request, const std::string&) {
  if (!jobs_) return RefusalResponse(NotAllowedToIndex(), request.request_id);
  if (request.body_file.empty()) {
    return RefusalResponse({415, "unsupported_media_type",
                            "send the document's bytes as Content-Type: application/octet-stream"},
                           request.request_id);
  }
  std::error_code no_size;
  if (std::filesystem::file_size(request.body_file, no_size) == 0) {  // chunks without a byte
    return RefusalResponse({400, "bad_request", "send the document's bytes as the body"},
                           request.request_id);
  }
  RequestFields fields = RequestFields::OfQuery(request.head.query);
  IndexJobs::Wish wish;
  wish.name = fields.String("name").value_or("");
  wish.format = fields.String("format").value_or("auto");
  if (wish.format != "auto" && !tools::ParseFormat(wish.format)) {
    fields.Fail("format", "is one of " + std::string(tools::kFormatNames));
  }
  wish.encoding = fields.String("encoding").value_or("auto");
  if (!tools::IsEncodingLabel(wish.encoding)) {
    fields.Fail("encoding", "is " + std::string(tools::kEncodingLabels));
  }
  ReadOptionFields(fields, kRequest, wish.options);
  if (Status status = fields.Finish(); !status.ok()) return StatusResponse(status, request);
  const auto id = jobs_->Add(request.body_file, std::move(wish));
  if (!id) return RefusalResponse(TooManyJobs(), request.request_id);
  HttpResponse response = JsonResponse(jobs_->Json(*id).value_or("{}"), 202);
  response.headers.emplace_back("Location", "/v1/jobs/" + *id);
  return response;
}

HttpResponse Service::ShowJob(const HttpRequest& request, const std::string& id) {
  const auto json = jobs_ ? jobs_->Json(id) : std::nullopt;
  if (json) return JsonResponse(*json);
  return RefusalResponse({404, "not_found", "there is no such job"}, request.request_id);
}

// A stream of a job's changes: "progress" events, then one "done".
HttpResponse Service::JobEvents(const HttpRequest& request, const std::string& id) {
  if (!jobs_ || !jobs_->Json(id)) return ShowJob(request, id);
  return EventsResponse([this, id, peer = request.peer](EventStream& events) {
    jobs_->Follow(id, [&](const IndexJobs::Change* change) {
      if (peer->IsGone()) return false;
      if (change) return events.Send(change->is_last ? "done" : "progress", change->json);
      events.KeepAlive();
      return !events.is_gone();
    });
  });
}

// Answers the job as it is after the request: a running one ends a little later.
HttpResponse Service::CancelJob(const HttpRequest& request, const std::string& id) {
  if (jobs_) jobs_->Cancel(id);
  return ShowJob(request, id);
}

// --- collections --------------------------------------------------------------------------------

HttpResponse Service::ListCollections(const HttpRequest& request, const std::string&) {
  return AnswerCollections(answering_, request);
}

HttpResponse Service::ShowCollection(const HttpRequest& request, const std::string& id) {
  return AnswerCollection(answering_, request, id);
}

HttpResponse Service::CollectedText(const HttpRequest& request, const std::string& id) {
  return AnswerCollectedText(answering_, request, id);
}

HttpResponse Service::FindMentions(const HttpRequest& request, const std::string& id) {
  return AnswerMentions(answering_, request, id);
}

// --- asking -------------------------------------------------------------------------------------

HttpResponse Service::Ask(const HttpRequest& request, const std::string&) {
  return AnswerAsk(answering_, request);
}

HttpResponse Service::Cite(const HttpRequest& request, const std::string&) {
  return AnswerCite(engine_, answering_, request);
}

HttpResponse Service::EndSession(const HttpRequest& request, const std::string& id) {
  if (answering_.sessions().End(id)) return JsonResponse(Json(Json::Object{{"ended", id}}).Dump());
  return RefusalResponse({.status = 404,
                          .code = "not_found",
                          .message = "there is no such session, any more",
                          .param = "session"},
                         request.request_id);
}

HttpResponse Service::ChatCompletions(const HttpRequest& request, const std::string&) {
  return AnswerChatCompletions(answering_, request);
}

HttpResponse Service::Responses(const HttpRequest& request, const std::string&) {
  return AnswerResponses(answering_, request);
}

HttpResponse Service::Tokenize(const HttpRequest& request, const std::string&) {
  return AnswerTokenize(answering_, request);
}

}  // namespace lectern::server
