#include "tools/server/response_writer.h"

#include <cstdio>

namespace lectern::server {
namespace {

struct StatusName {
  int status;
  const char* name;
};
// The status codes that the server answers with.
constexpr StatusName kStatusNames[] = {
    {200, "OK"},
    {202, "Accepted"},
    {204, "No Content"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

// The reason phrase; clients ignore it, and an empty one is allowed (RFC 9112, 4).
const char* NameOf(int status) {
  for (const StatusName& known : kStatusNames) {
    if (known.status == status) return known.name;
  }
  return "";
}

// "Sun, 06 Nov 1994 08:49:37 GMT": in English whatever the locale (RFC 9110, 5.6.7).
std::string HttpDate(std::time_t now) {
  constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm t = {};
  ::gmtime_r(&now, &t);
  char text[64];
  std::snprintf(text, sizeof text, "%s, %02d %s %04d %02d:%02d:%02d GMT", kDays[t.tm_wday],
                t.tm_mday, kMonths[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
  return text;
}

// Whether the body comes in chunks: its length is not known, and the client knows chunks.
bool HasChunks(const HttpResponse& response, const ResponseForm& form) {
  return response.stream && form.minor_version > 0;
}

// Whether the connection goes on. A stream to HTTP/1.0 has no other end than the connection's.
bool KeepsAlive(const HttpResponse& response, const ResponseForm& form) {
  return form.keeps_alive && (!response.stream || form.is_head || HasChunks(response, form));
}

// The body of a streamed response: each piece that a handler writes is sent at once, as a chunk
// where the client knows chunks. After a failure nothing more is sent.
class Stream : public ResponseStream {
 public:
  Stream(const Connection& connection, bool has_chunks)
      : connection_(connection), has_chunks_(has_chunks) {}
  bool Write(std::string_view bytes) override {
    if (bytes.empty()) return !has_failed_;  // an empty chunk would end the response
    if (!has_chunks_) return Send(bytes);
    char size[20];
    std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
    return Send(std::string(size).append(bytes).append("\r\n"));
  }
  bool IsReady() const override { return !has_failed_ && connection_.IsReadyToWrite(); }
  // The last chunk. False: the connection has to end, as the body's end or after a failure.
  bool End() { return has_chunks_ && Send("0\r\n\r\n"); }

 private:
  bool Send(std::string_view bytes) {
    has_failed_ = has_failed_ || !connection_.Write(bytes);
    return !has_failed_;
  }

  const Connection& connection_;
  const bool has_chunks_;
  bool has_failed_ = false;
};

}  // namespace

std::string ResponseHead(const HttpResponse& response, const ResponseForm& form, std::time_t now) {
  std::string text = "HTTP/1.1 " + std::to_string(response.status) + " " + NameOf(response.status);
  text += "\r\nDate: " + HttpDate(now);
  if (!KeepsAlive(response, form)) {
    text += "\r\nConnection: close";
  } else {
    text +=
        "\r\nConnection: keep-alive\r\nKeep-Alive: timeout=" + std::to_string(form.idle_seconds);
  }
  if (response.status != 204) {
    text += "\r\nContent-Type: " + response.content_type;
    if (HasChunks(response, form)) {
      text += "\r\nTransfer-Encoding: chunked";
    } else if (!response.stream) {
      text += "\r\nContent-Length: " + std::to_string(response.body.size());
    }
  }
  for (const auto& [name, value] : response.headers) text += "\r\n" + name + ": " + value;
  return text + "\r\n\r\n";
}

bool WriteResponse(Connection& connection, const HttpResponse& response, const ResponseForm& form) {
  connection.Begin();
  std::string head = ResponseHead(response, form, std::time(nullptr));
  const bool has_body = !form.is_head && response.status != 204;
  // In one piece with the head: one packet, and simple clients that read once get all.
  if (has_body && !response.stream) head += response.body;
  if (!connection.Write(head)) return false;
  if (has_body && response.stream) {
    Stream stream(connection, HasChunks(response, form));
    response.stream(stream);
    if (!stream.End()) return false;
  }
  return KeepsAlive(response, form);
}

}  // namespace lectern::server
