// An HTTP/1.1 server (1.0 too) of the server's own, with limits and total deadlines for whatever a
// client sends: nothing of a request reaches a handler before it is read, checked and bounded.
// Conforming clients are served as RFC 9110 and 9112 say: connections stay open for more requests,
// which may come before their answers (pipelined), bodies with a length or in chunks, after
// "100 Continue" where a client waits for that.
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
  // Why a request that access was given to is not handled; asked before its body is read. Any
  // thread; may be empty.
  std::function<std::optional<Refusal>(const RequestHead&)> refuse;
  HeadLimits head;
  uint64_t max_body_bytes = 1 << 20;
  // The body of a POST to this path goes to a file in `upload_folder` instead of memory; empty: no
  // uploads.
  std::string upload_path, upload_folder;
  uint64_t max_upload_bytes = 64 << 20;
  uint32_t max_connections = 600;
  int head_ms = 5000, body_ms = 10000;  // each from its first byte to its last
  int upload_ms = 600000;
  int write_ms = 10000;  // without a byte taken by the client
  // For a first or another request; shorter where connections are scarce. Longer than proxies and
  // clients keep theirs (nginx 60 s, Go 90 s), so that these do not send into one that just ends.
  int idle_seconds = 120;
};

class HttpGuard {
 public:
  // Binds and listens; nothing is accepted before Run. Refusal: what the system said.
  static std::variant<std::unique_ptr<HttpGuard>, Refusal> Listen(GuardOptions options,
                                                                  HttpHandler handler);
  ~HttpGuard();

  uint16_t port() const;  // it listens on
  // Serves until Stop, each connection on a thread of its own; returns when all are done.
  void Run();
  void Stop();    // any thread, once; requests that have come are answered, then connections end
  void EndAll();  // any thread; ends connections at once, whoever still reads or writes
  uint32_t num_connections() const;

 private:
  class Server;
  explicit HttpGuard(std::unique_ptr<Server> server);
  std::unique_ptr<Server> server_;
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_HTTP_GUARD_H_
