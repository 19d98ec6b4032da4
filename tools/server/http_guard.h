// An HTTP/1.1 server that reads requests itself, with limits and total deadlines, and leaves the
// rest to cpp-httplib: the only file that includes it is http_guard.cc. Debian's 0.11.4 must not
// see a client's bytes (its reader has no limits); it sees one request, always the same, and writes
// what the handler answers.
#ifndef LECTERN_TOOLS_SERVER_HTTP_GUARD_H_
#define LECTERN_TOOLS_SERVER_HTTP_GUARD_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tools/server/http.h"
#include "tools/server/request_head.h"

namespace lectern::server {

struct GuardOptions {
  std::string host = "127.0.0.1";  // address to listen on
  uint16_t port = 0;               // 0: any free one
  AccessRules access;
  // Why a request that access was given to is not handled; asked before its body is read. Any
  // thread; may be empty.
  std::function<std::optional<Refusal>(const RequestHead&)> refuse;
  HeadLimits head;
  uint64_t max_body_bytes = 1 << 20;
  // POST of application/octet-stream to this path goes to a file in `upload_folder` instead of
  // memory; empty: no uploads.
  std::string upload_path, upload_folder;
  uint64_t max_upload_bytes = 64 << 20;
  uint32_t max_connections = 600;
  int head_ms = 5000, body_ms = 10000;  // each from its first byte to its last
  int upload_ms = 600000;
  int write_ms = 10000;  // without a byte taken by the client
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
  void Stop();  // any thread; connections that are open go on
  uint32_t num_connections() const;

 private:
  class Server;
  explicit HttpGuard(std::unique_ptr<Server> server);
  std::unique_ptr<Server> server_;
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_HTTP_GUARD_H_
