// lectern-server's HTTP server (HTTP/1.1 and 1.0). Limits and total deadlines hold for everything
// that a client sends: no part of a request reaches a handler before the whole is read, checked and
// bounded. Conforming clients are served as RFC 9110 and 9112 say: connections stay open for more
// requests, which may come before their answers (pipelined); bodies have a length or come in
// chunks, after "100 Continue" where a client waits for that.
#ifndef LECTERN_TOOLS_SERVER_HTTP_GUARD_H_
#define LECTERN_TOOLS_SERVER_HTTP_GUARD_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "tools/server/access_rules.h"
#include "tools/server/http.h"
#include "tools/server/request_head.h"

namespace lectern::server {

struct GuardOptions {
  std::string host = "localhost";  // address or name to listen on, as Listener::Open takes it
  uint16_t port = 0;               // 0: any free one
  AccessRules access;
  // Called with each head before anything judges it, to replace a path by the one that handlers
  // know. On any thread; may be empty.
  std::function<void(RequestHead&)> replace_path;
  // Asked, before the body is read, whether a request that `access` lets in is refused all the same
  // (no such path, say); not asked about preflights. Called on any thread; may be empty.
  std::function<std::optional<Refusal>(const RequestHead&)> refuse;
  HeadLimits head;
  uint64_t max_body_bytes = 1 << 20;  // of JSON; above it 413
  // The body of a POST to this path goes to a file in `upload_folder` instead of memory, which is
  // deleted after the response unless the handler has moved it; empty: no uploads. 507 where the
  // file cannot be written.
  std::string upload_path, upload_folder;
  uint64_t max_upload_bytes = 64 << 20;
  uint32_t max_connections = 600;  // above it an idle one ends, else the new one gets 503
  // The longest times for a head and a body, each from its first byte to its last: a client that
  // sends a byte now and then (slowloris) does not hold a connection.
  int head_ms = 5000, body_ms = 10000;
  int upload_ms = 600000;  // the same for an upload
  int write_ms = 10000;    // the longest that a client may take no byte of an answer
  // How long a connection waits for its first or next request; shorter where connections are
  // scarce. Longer than proxies and clients keep theirs (nginx 60 s, Go 90 s), so that these do not
  // send into a connection that just ends.
  int idle_seconds = 120;
};

// Listen, Run on one thread, Stop from another; then it is over.
class HttpGuard {
 public:
  // Binds and listens; connections are accepted from Run on. `handler` is called on the
  // connections' threads, many at a time; a std::exception of it is a 500. It never sees
  // preflights, nor bodies of requests other than POST, which are read and dropped. A Refusal
  // (cannot_listen) has the system's reason.
  static std::variant<std::unique_ptr<HttpGuard>, Refusal> Listen(GuardOptions options,
                                                                  HttpHandler handler);
  ~HttpGuard();  // after Run has returned

  uint16_t port() const;  // the one that it listens on
  // Serves until Stop, each connection on a thread of its own; returns when all have ended.
  void Run();
  void Stop();    // any thread, once; requests that have come are answered, then connections end
  // Any thread, after Stop: ends the connections at once, whoever still reads or writes. Handlers
  // that run go on to their end, which Run waits for.
  void EndAll();
  uint32_t num_connections() const;  // open now, also those that are being refused; any thread

 private:
  class Server;
  explicit HttpGuard(std::unique_ptr<Server> server);
  std::unique_ptr<Server> server_;
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_HTTP_GUARD_H_
