// Requests and responses as the server's handlers see them: read, limited and checked before.
#ifndef LECTERN_TOOLS_SERVER_HTTP_H_
#define LECTERN_TOOLS_SERVER_HTTP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lectern::server {

// Why a request is not handled: what the client gets instead.
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
  std::map<std::string, std::string, std::less<>> query;
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case, each once
  int minor_version = 1;        // 0 or 1: clients of HTTP/1.0 know no chunks and no 1xx
  uint64_t content_length = 0;  // 0 also for a body in chunks
  bool is_chunked = false;
  bool expects_continue = false;  // the client waits for "100 Continue" before it sends the body
  bool keeps_alive = true;        // the client may send another request on this connection

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
  std::string body;
  std::string body_file;   // of an upload: where its bytes are, until the handler returns
  std::string request_id;  // the client's if it is plain, else ours
  const Peer* peer = nullptr;
};

// Where a streamed response goes, as it comes.
class ResponseStream {
 public:
  virtual ~ResponseStream() = default;
  // False: the client is gone or does not read; write no more.
  virtual bool Write(std::string_view bytes) = 0;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  // Instead of `body`: called once, on the connection's thread, after the head has been sent.
  std::function<void(ResponseStream&)> stream;
};

using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

// {"error":{…}} in the shape of every other error of Lectern.
HttpResponse RefusalResponse(const Refusal& refusal, std::string_view request_id);

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_HTTP_H_
