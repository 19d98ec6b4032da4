// The routes of lectern-server: finds the handler of a request and answers it. openapi.json
// describes every route. Requests have passed the guard (http_guard.h).
#ifndef LECTERN_TOOLS_SERVER_SERVICE_H_
#define LECTERN_TOOLS_SERVER_SERVICE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/lectern.h"
#include "engine/model/formats/json.h"
#include "store/status.h"
#include "tools/server/answering.h"
#include "tools/server/http.h"
#include "tools/server/index_jobs.h"

namespace lectern::server {

struct ServiceOptions {
  AnsweringOptions answering;
  IndexJobs::Options index;
};

// Thread-safe.
class Service {
 public:
  // `engine` answers. `indexer` indexes the documents that clients upload; nullptr: clients may
  // neither add nor remove documents. Both must outlive this. options.index.on_replaced is not
  // used: a replaced version is closed, and its files are collected.
  Service(api::Engine& engine, api::Engine* indexer, const ServiceOptions& options);

  // Judges a request before its body is read: 404 for a path that does not exist, 405 for one with
  // other methods (with them in `allow`), 403 and 503 for a document that may not be added, or not
  // now (with retry_after). Counts a refused request in the metrics. Nothing: Handle may be called.
  std::optional<Refusal> Refuse(const RequestHead& head);
  // Answers a request that Refuse lets pass; errors are responses, too. Blocks for as long as an
  // answer takes; where it is streamed, until it has its slot and the document is open. `request`
  // must outlive the response, whose stream uses it, and this object too. Counts the request.
  HttpResponse Handle(const HttpRequest& request);

  // Ends everything that runs soon, with an error (503 stopping) for its client, and every session;
  // later questions are refused, and no job begins. Returns at once. Any thread.
  void EndAll();
  // The number of open connections, for /metrics; may be empty. Set before the first request.
  std::function<uint32_t()> num_connections;

 private:
  // `id`: the part of the path that {id} stands for; empty for other routes.
  using Handler = HttpResponse (Service::*)(const HttpRequest&, const std::string& id);
  struct Route {
    const char *method, *path;  // "{id}" in a path: any text, as Match in the .cc says
    Handler handler;
  };
  static const std::vector<Route>& Routes();  // all, for as long as the process runs

  // A handler for each route, any thread. 200, or 202 with the address of a job in Location; a
  // mistake of the request is a 400 (StatusResponse), an error of the engine a response of
  // Answering::ErrorResponse, something that is not there a 404. `id` is a name or an id; the
  // engine decides which. Only RemoveDocument, IndexDocument, CancelJob, EndSession, and Ask, which
  // may begin a session, change what clients have; but every handler that opens a document may end
  // idle sessions of any client where memory is short. Those that ask also give Answering's errors
  // (503, 504, 499).
  HttpResponse Page(const HttpRequest&, const std::string&);
  HttpResponse PageCss(const HttpRequest&, const std::string&);
  HttpResponse Script(const HttpRequest&, const std::string&);
  HttpResponse OpenApi(const HttpRequest&, const std::string&);
  HttpResponse Health(const HttpRequest&, const std::string&);
  HttpResponse Ready(const HttpRequest&, const std::string&);
  HttpResponse Version(const HttpRequest&, const std::string&);
  HttpResponse MetricsText(const HttpRequest&, const std::string&);
  HttpResponse ListModels(const HttpRequest&, const std::string&);
  HttpResponse ShowModel(const HttpRequest&, const std::string& id);
  HttpResponse ListDocuments(const HttpRequest&, const std::string&);
  HttpResponse ShowDocument(const HttpRequest&, const std::string& id);
  HttpResponse RemoveDocument(const HttpRequest&, const std::string& id);
  HttpResponse DocumentText(const HttpRequest&, const std::string& id);
  HttpResponse IndexDocument(const HttpRequest&, const std::string&);
  HttpResponse ShowJob(const HttpRequest&, const std::string& id);
  HttpResponse JobEvents(const HttpRequest&, const std::string& id);
  HttpResponse CancelJob(const HttpRequest&, const std::string& id);
  HttpResponse ListCollections(const HttpRequest&, const std::string&);
  HttpResponse ShowCollection(const HttpRequest&, const std::string& id);
  HttpResponse CollectedText(const HttpRequest&, const std::string& id);
  HttpResponse FindMentions(const HttpRequest&, const std::string& id);
  HttpResponse Ask(const HttpRequest&, const std::string&);
  HttpResponse Cite(const HttpRequest&, const std::string&);
  HttpResponse EndSession(const HttpRequest&, const std::string& id);
  HttpResponse ChatCompletions(const HttpRequest&, const std::string&);
  HttpResponse Responses(const HttpRequest&, const std::string&);
  HttpResponse Tokenize(const HttpRequest&, const std::string&);
  api::Result<api::DocumentList> List();                // empty where there is no store yet
  HttpResponse Options(const HttpRequest&);             // 204 with the methods of the path
  static std::string Allowed(const std::string& path);  // its methods; empty: no such path
  static Refusal NotAllowedToIndex();                   // 403
  std::optional<Refusal> RefuseUpload(const RequestHead& head);  // 403, 503; nothing: none, or fine
  Refusal TooManyJobs() const;                                   // 503 with Retry-After

  api::Engine& engine_;
  Answering answering_;
  std::unique_ptr<IndexJobs> jobs_;  // where indexing is allowed
};

// --- endpoints, each in a file of its own -------------------------------------------------------

// Each answers a request to its endpoint: ask_api.cc, cite_api.cc, chat_api.cc,
// collections_api.cc, responses_api.cc and tokenize_api.cc. Any thread. Errors are responses, too:
// 400 for a wrong field, and those of Answering; in a stream that has begun they are an event.
// `engine`, `answering` and `request` must outlive the response.
HttpResponse AnswerAsk(Answering& answering, const HttpRequest& request);
HttpResponse AnswerCite(api::Engine& engine, Answering& answering, const HttpRequest& request);
HttpResponse AnswerChatCompletions(Answering& answering, const HttpRequest& request);
HttpResponse AnswerResponses(Answering& answering, const HttpRequest& request);

HttpResponse AnswerTokenize(Answering& answering, const HttpRequest& request);

// GET of the collections, of one collection's documents, of the text of one of them, and of those
// that mention words.
HttpResponse AnswerCollections(Answering& answering, const HttpRequest& request);
HttpResponse AnswerCollection(Answering& answering, const HttpRequest& request,
                              const std::string& name);
HttpResponse AnswerCollectedText(Answering& answering, const HttpRequest& request,
                                 const std::string& name);
HttpResponse AnswerMentions(Answering& answering, const HttpRequest& request,
                            const std::string& name);
// The collections in the form of OpenAI's models, appended to `models`; one of them, 404 where
// there is none.
void AddCollectionModels(api::Engine& engine, Json::Array& models);
HttpResponse CollectionModel(Answering& answering, const HttpRequest& request,
                             const std::string& name);

// A response with a text, or the bytes [start, end) of it that the query wants. 400: these are no
// offsets of whole characters.
HttpResponse TextResponse(std::string_view text, const HttpRequest& request);
// A response with this JSON as its body.
HttpResponse JsonResponse(std::string body, int status = 200);
// An error as a response, with the HTTP status of its code. For errors of the request itself: those
// of the engine go through Answering::ErrorResponse, which hides paths.
HttpResponse StatusResponse(const Status& status, const HttpRequest& request);

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_SERVICE_H_
