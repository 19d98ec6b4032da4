// HTTP requests and responses as the server's handlers see them. The guard (http_guard.h) has read,
// bounded and checked a request before a handler gets it, and writes the response that it returns.
#ifndef LECTERN_TOOLS_SERVER_HTTP_H_
#define LECTERN_TOOLS_SERVER_HTTP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lectern::server {

// A request that is not handled: the error that the client gets instead.
struct Refusal {
  int status = 400;
  std::string code;          // snake_case, for programs
  std::string message;       // what is wrong and the way out; never anything of the request
  std::string allow = {};    // with 405: the methods that are served instead
  std::string param = {};    // the field that is wrong, or empty
  uint32_t retry_after = 0;  // seconds; 0: not said
};

// Request line and headers of HTTP/1.0 or 1.1, by the rules of ParseHead.
struct RequestHead {
  std::string method;  // any token
  std::string path;    // decoded, begins with '/'; "*" of OPTIONS alone
  std::string path_model;  // the model where the path named one: ReplaceAlias
  std::map<std::string, std::string, std::less<>> query;
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case, each once
  int minor_version = 1;        // 0 or 1: clients of HTTP/1.0 know no chunks and no 1xx
  uint64_t content_length = 0;  // 0 also for a body in chunks
  bool is_chunked = false;
  bool expects_continue = false;  // the client waits for "100 Continue" before it sends the body
  bool keeps_alive = true;        // the client may send another request on this connection

  // The value of the header `name` (in lower case), a view of `headers`; empty: there is none.
  std::string_view Header(std::string_view name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string_view() : std::string_view(found->second);
  }
};

// The client's end of the connection. Any thread.
class Peer {
 public:
  virtual ~Peer() = default;
  // Whether nobody will read the answer. A client that only says that it sends no more (it shut
  // down its writing side) is not gone.
  virtual bool IsGone() const = 0;
};

struct HttpRequest {
  RequestHead head;
  std::string body;            // empty for an upload
  std::string body_file;       // path of an upload's bytes, until the handler returns; else empty
  std::string request_id;      // the client's X-Request-Id if it is plain, else a new one
  const Peer* peer = nullptr;  // outlives the response; never nullptr in a handler
};

// Where a streamed response goes, as it comes.
class ResponseStream {
 public:
  virtual ~ResponseStream() = default;
  // Sends the bytes at once; empty ones send nothing. Blocks while the client takes none, up to
  // GuardOptions::write_ms. False: the client is gone or does not read; write no more.
  virtual bool Write(std::string_view bytes) = 0;
  // Whether the client takes some bytes now, so that writing few would not block.
  virtual bool IsReady() const = 0;
};

// Either `body` or `stream`.
struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // beside those of every response
  // Called once, on the connection's thread, after the head has been sent; never for HEAD or where
  // sending the head fails. It may run for minutes. An exception cuts the response off.
  std::function<void(ResponseStream&)> stream;
};

// The request outlives the response and its stream.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

// The response {"error":{…}} in the shape of every other error of Lectern, which is OpenAI's with
// "request_id" and "retryable" added. "retryable": the status is 429 or 503, or retry_after is set.
// The headers Allow and Retry-After are those of the refusal.
HttpResponse RefusalResponse(const Refusal& refusal, std::string_view request_id);

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_HTTP_H_
