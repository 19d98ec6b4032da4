// Serves the REST endpoint: finds the handler of a request's route. Requests have passed the guard.
#ifndef LECTERN_TOOLS_SERVER_SERVICE_H_
#define LECTERN_TOOLS_SERVER_SERVICE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/lectern.h"
#include "store/status.h"
#include "tools/server/answering.h"
#include "tools/server/http.h"
#include "tools/server/index_jobs.h"

namespace lectern::server {

struct ServiceOptions {
  AnsweringOptions answering;
  IndexJobs::Options index;
};

class Service {
 public:
  // `engine` answers. `indexer` makes documents; nullptr: clients may neither add nor remove any.
  // Both must outlive it.
  Service(api::Engine& engine, api::Engine* indexer, const ServiceOptions& options);

  // Any thread. A path that is not there, or has another method, or a document that has no place in
  // the queue; nothing where Handle may be called.
  std::optional<Refusal> Refuse(const RequestHead& head);
  HttpResponse Handle(const HttpRequest& request);

  // Everything that runs ends soon with an error that says so; what comes later is refused.
  void EndAll();
  // For /metrics; may be empty.
  std::function<uint32_t()> num_connections;

 private:
  using Handler = HttpResponse (Service::*)(const HttpRequest&, const std::string& id);
  struct Route {
    const char *method, *path;  // a segment "{id}" is any text without '/'
    Handler handler;
  };
  static const std::vector<Route>& Routes();

  HttpResponse Page(const HttpRequest&, const std::string&);
  HttpResponse PageCss(const HttpRequest&, const std::string&);
  HttpResponse TextJs(const HttpRequest&, const std::string&);
  HttpResponse PageJs(const HttpRequest&, const std::string&);
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
  HttpResponse Ask(const HttpRequest&, const std::string&);
  HttpResponse EndSession(const HttpRequest&, const std::string& id);
  HttpResponse ChatCompletions(const HttpRequest&, const std::string&);
  HttpResponse Responses(const HttpRequest&, const std::string&);
  HttpResponse Tokenize(const HttpRequest&, const std::string&);
  api::Result<api::DocumentList> List();
  HttpResponse Options(const HttpRequest&);
  static std::string Allowed(const std::string& path);
  static Refusal NotAllowedToIndex();
  std::optional<Refusal> RefuseUpload(const RequestHead& head);
  Refusal TooManyJobs() const;

  api::Engine& engine_;
  Answering answering_;
  std::unique_ptr<IndexJobs> jobs_;  // where indexing is allowed
};

// --- the ways to ask; each in a file of its own ---

HttpResponse AnswerAsk(Answering& answering, const HttpRequest& request);
HttpResponse AnswerChatCompletions(Answering& answering, const HttpRequest& request);
HttpResponse AnswerResponses(Answering& answering, const HttpRequest& request);

HttpResponse AnswerTokenize(Answering& answering, const HttpRequest& request);

HttpResponse JsonResponse(std::string body, int status = 200);
HttpResponse StatusResponse(const Status& status, const HttpRequest& request);

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_SERVICE_H_
