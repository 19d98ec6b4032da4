#include "tools/server/http_guard.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

#include "store/env.h"
#include "tools/server/ascii.h"
#include "tools/server/chunked_body.h"
#include "tools/server/connection.h"
#include "tools/server/connection_threads.h"
#include "tools/server/listener.h"
#include "tools/server/random_id.h"
#include "tools/server/response_writer.h"

namespace lectern::server {
namespace {

// How many connections above the limit get a 503 instead of a closed socket, at the least. Idle
// ones that were told to make room, and have not ended yet, count among them.
constexpr uint64_t kMostTooMany = 64;
constexpr size_t kReadBytes = 64 * 1024;     // of a body, at a time
constexpr size_t kHeadReadBytes = 4 * 1024;  // of a head, at a time: hundreds of connections wait
// A chunked body may take this many times its limit on the wire, with sizes, extensions and
// trailers: enough for bodies in small pieces, too few for endless extensions.
constexpr uint64_t kMaxChunkOverhead = 8;

// A new file in the upload folder, deleted with the object unless somebody has moved it.
class UploadFile {
 public:
  static std::unique_ptr<UploadFile> Create(const std::string& folder) {
    const std::optional<std::string> id = RandomId();
    if (!id) return nullptr;
    std::string path = folder + "/upload-" + *id;
    auto file = Env::Default().OpenWritable(path, true);
    if (!file.ok()) return nullptr;
    return std::unique_ptr<UploadFile>(new UploadFile(std::move(path), std::move(file).value()));
  }
  ~UploadFile() {
    (void)file_->Close();
    (void)Env::Default().Remove(path_);
  }
  bool Write(std::string_view bytes) {
    const bool is_written = file_->WriteAt(size_, bytes.data(), bytes.size()).ok();
    size_ += bytes.size();
    return is_written;
  }
  UploadFile(const UploadFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  UploadFile(std::string path, std::unique_ptr<WritableFile> file)
      : path_(std::move(path)), file_(std::move(file)) {}
  const std::string path_;
  const std::unique_ptr<WritableFile> file_;
  uint64_t size_ = 0;
};

// 16 hexadecimal digits to find a request in logs by. No secret: a fast generator will do.
std::string NewRequestId() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(random()));
  return text;
}

bool HasBody(const RequestHead& head) { return head.is_chunked || head.content_length > 0; }

// The type of Content-Type without its parameters, in lower case; empty where there is none.
std::string MediaType(const RequestHead& head) {
  std::string_view type = head.Header("content-type");
  return Lower(Trim(TakeUntil(type, ';')));
}

// Whether a body of this type is read as JSON: JSON's own names, and the types that curl -d and
// other clients send when they are not told one. CheckAccess has refused those that a form of
// another site could have sent.
bool MayBeJson(const std::string& type) {
  return type.empty() || type == "application/json" || type == "text/json" ||
         type.ends_with("+json") || type == "text/plain" ||
         type == "application/x-www-form-urlencoded";
}

Refusal TooLarge(uint64_t limit) {
  return {413, "payload_too_large", "the body is larger than " + std::to_string(limit) + " bytes"};
}

// The refusal of a request whose rest does not come: 400 where the client has ended, 408 where it
// is too slow. `what`: "headers" or "body".
Refusal Incomplete(const Connection& connection, const std::string& what) {
  if (connection.is_at_end()) {
    return {400, "bad_request", "the connection ended in the middle of the " + what};
  }
  return {408, "request_timeout", "the " + what + " took too long to arrive"};
}

// Takes the bytes of a body. False: they cannot be kept.
using Sink = std::function<bool(std::string_view)>;
constexpr char kNoSpace[] = "the upload could not be written";

// Moves a body of head.content_length bytes from the connection to `sink`; later bytes, which are
// the next request's, stay in the buffer.
std::optional<Refusal> TakeLength(Connection& connection, const RequestHead& head,
                                  Clock::time_point deadline, const Sink& sink) {
  std::string& buffer = connection.buffer();
  for (uint64_t left = head.content_length;;) {
    const size_t n = std::min<uint64_t>(left, buffer.size());
    if (!sink(std::string_view(buffer).substr(0, n))) return Refusal{507, "no_space", kNoSpace};
    buffer.erase(0, n);
    left -= n;
    if (left == 0) return std::nullopt;
    if (!connection.Read(std::min<uint64_t>(left, kReadBytes), deadline)) {
      return Incomplete(connection, "body");
    }
  }
}

// Moves the data of a body in chunks, at most `limit` bytes, to `sink`. Later bytes stay in the
// buffer.
std::optional<Refusal> TakeChunks(Connection& connection, uint64_t limit,
                                  Clock::time_point deadline, const Sink& sink) {
  ChunkedBody body;
  std::string& buffer = connection.buffer();
  for (uint64_t size = 0, raw = 0;;) {
    std::string_view rest = buffer;
    while (!rest.empty() && !body.is_done()) {
      const auto data = body.Take(rest);
      if (!data)
        return Refusal{400, "bad_request", "the body is not in chunks as RFC 9112 has them"};
      size += data->size();
      if (size + body.left() > limit) return TooLarge(limit);
      if (!sink(*data)) return Refusal{507, "no_space", kNoSpace};
    }
    raw += buffer.size() - rest.size();
    // Chunks of one byte with long extensions would else take bandwidth without bound.
    if (raw > kMaxChunkOverhead * limit + kReadBytes) return TooLarge(limit);
    buffer.erase(0, buffer.size() - rest.size());
    if (body.is_done()) return std::nullopt;
    if (!connection.Read(kReadBytes, deadline)) return Incomplete(connection, "body");
  }
}

// Moves the body, if there is one, to `sink`, within `ms` milliseconds in all.
std::optional<Refusal> TakeBody(Connection& connection, const RequestHead& head, uint64_t limit,
                                int ms, const Sink& sink) {
  if (head.content_length > limit) return TooLarge(limit);
  // A client that has begun to send its body does not wait for the go-ahead.
  if (head.expects_continue && connection.buffer().empty()) {
    connection.Write("HTTP/1.1 100 Continue\r\n\r\n");
  }
  const auto deadline = Clock::now() + std::chrono::milliseconds(ms);
  return head.is_chunked ? TakeChunks(connection, limit, deadline, sink)
                         : TakeLength(connection, head, deadline, sink);
}

}  // namespace

// The work of HttpGuard. Const members run on the connections' threads.
class HttpGuard::Server {
 public:
  Server(GuardOptions options, HttpHandler handler, std::unique_ptr<Listener> listener)
      : options_(std::move(options)),
        handler_(std::move(handler)),
        listener_(std::move(listener)) {}

  void Run() {
    ConnectionThreads threads;
    listener_->Run([&](Socket client) { Accept(client, threads); });
  }
  void Stop() {
    listener_->Stop();
    connections_.EndIdle();
  }
  void EndAll() { connections_.EndAll(); }
  uint16_t port() const { return listener_->port(); }
  uint32_t num_connections() const { return connections_.count(); }

 private:
  // Gives a new connection its thread. Connections beyond the limit get one too, to be told so, as
  // long as there are not too many of these; beyond that their sockets are just closed.
  void Accept(Socket client, ConnectionThreads& threads) {
    const uint64_t most = options_.max_connections;
    if (connections_.count() >= most + std::max(most, kMostTooMany)) {
      CloseSocket(client);
      return;
    }
    try {
      if (!threads.Run([this, client] { Serve(client); })) connections_.EndOldestIdle();
    } catch (const std::exception&) {  // neither thread nor memory
      CloseSocket(client);
    }
  }

  // One connection from its first request to its last. Exceptions end the connection and nothing
  // else.
  void Serve(Socket client) noexcept {
    Connection connection(client, options_.write_ms);
    try {
      OpenConnections::Scope open(connections_, client);
      ServeRequests(connection, open);
    } catch (const std::exception&) {
      // No memory to enter it into the list: the client sees a connection that ends.
    }
  }

  void ServeRequests(Connection& connection, OpenConnections::Scope& open) {
    try {
      if (connections_.count() > options_.max_connections && !connections_.EndOldestIdle()) {
        RefuseFull(connection);
      } else {
        while (ServeRequest(connection, open)) {
        }
      }
    } catch (const std::exception&) {
      // No memory, or an answer that breaks off. The client sees that it does.
    }
    connection.Finish();
  }

  // Answers 503 to a connection that is one too many, without reading its request.
  void RefuseFull(Connection& connection) const {
    HttpRequest request;
    request.request_id = NewRequestId();
    Respond(connection, request,
            RefusalResponse({.status = 503,
                             .code = "overloaded",
                             .message = "there are too many connections",
                             .retry_after = 1},
                            request.request_id),
            {});
  }

  // Reads, checks and answers one request, in the order in which refusing is cheapest: head,
  // access, path, body. False: the connection ends.
  bool ServeRequest(Connection& connection, OpenConnections::Scope& open) const {
    if (!WaitForRequest(connection, open)) return false;
    HttpRequest request;
    request.peer = &connection;
    request.request_id = NewRequestId();
    if (const auto refusal = ReadHead(connection, request)) {
      return Respond(connection, request, RefusalResponse(*refusal, request.request_id), {});
    }
    ResponseForm form = {.minor_version = request.head.minor_version,
                         .is_head = request.head.method == "HEAD",
                         .keeps_alive = request.head.keeps_alive && !connections_.is_ending(),
                         .idle_seconds = options_.idle_seconds};
    std::unique_ptr<UploadFile> file;
    auto refusal = CheckAccess(request.head, options_.access);
    if (refusal) form.keeps_alive = false;
    if (!refusal && options_.refuse && !IsPreflight(request.head)) {
      refusal = options_.refuse(request.head);
      // The next request would begin after the body, which is not read.
      if (refusal && HasBody(request.head)) form.keeps_alive = false;
    }
    if (!refusal && (refusal = ReadBody(connection, request, file))) form.keeps_alive = false;
    if (refusal) {
      return Respond(connection, request, RefusalResponse(*refusal, request.request_id), form);
    }
    connection.Wait(form.minor_version);
    return Respond(connection, request, Answer(request), form);
  }

  // Waits for the first bytes of a request. Empty lines, which some clients send after a body, are
  // none. False: no request comes.
  bool WaitForRequest(Connection& connection, OpenConnections::Scope& open) const {
    std::string& buffer = connection.buffer();
    const auto deadline = Clock::now() + std::chrono::seconds(options_.idle_seconds);
    for (;;) {
      while (buffer.starts_with("\r\n")) buffer.erase(0, 2);
      if (!buffer.empty() && buffer != "\r") return true;
      buffer.shrink_to_fit();  // hundreds may wait
      open.SetIdle(true);
      const bool has_come = connection.Read(kHeadReadBytes, deadline);
      open.SetIdle(false);
      if (!has_come) return false;
    }
  }

  // Reads a request's head into `request`. Nothing: it is there; else the reason why not.
  std::optional<Refusal> ReadHead(Connection& connection, HttpRequest& request) const {
    const auto deadline = Clock::now() + std::chrono::milliseconds(options_.head_ms);
    std::string& buffer = connection.buffer();
    size_t end = 0;
    while ((end = FindHeadEnd(buffer)) == 0) {
      if (buffer.size() >= options_.head.max_bytes) {
        return Refusal{431, "headers_too_large", "the headers are too large"};
      }
      const size_t most = std::min(kHeadReadBytes, options_.head.max_bytes - buffer.size());
      if (!connection.Read(most, deadline)) return Incomplete(connection, "headers");
    }
    auto head = ParseHead(std::string_view(buffer).substr(0, end), options_.head);
    buffer.erase(0, end);
    if (auto* const refusal = std::get_if<Refusal>(&head)) return std::move(*refusal);
    request.head = std::move(std::get<RequestHead>(head));
    if (options_.replace_path) options_.replace_path(request.head);
    if (const auto id = PlainRequestId(request.head); !id.empty()) request.request_id = id;
    return std::nullopt;
  }

  // Reads the body into request.body, or for an upload into `file`.
  std::optional<Refusal> ReadBody(Connection& connection, HttpRequest& request,
                                  std::unique_ptr<UploadFile>& file) const {
    const RequestHead& head = request.head;
    if (head.method != "POST") {  // some clients send one with GET or DELETE; it has no meaning
      return TakeBody(connection, head, options_.max_body_bytes, options_.body_ms,
                      [](std::string_view) { return true; });
    }
    const std::string type = MediaType(head);
    if (!options_.upload_path.empty() && head.path == options_.upload_path) {
      return ReadUpload(connection, type, request, file);
    }
    if (!MayBeJson(type)) {
      return Refusal{415, "unsupported_media_type", "send Content-Type: application/json"};
    }
    return TakeBody(connection, head, options_.max_body_bytes, options_.body_ms,
                    [&](std::string_view bytes) {
                      request.body += bytes;
                      return true;
                    });
  }

  // Reads an upload into a new file. Nothing: the body is in `file`, and its path in
  // request.body_file; else the refusal. A document may come with any type but application/json and
  // multipart/form-data, whose bodies describe a document and are none;
  // application/x-www-form-urlencoded is taken, because clients send it when they are not told a
  // type. The checks that need no body come first, so that no file is made in vain.
  std::optional<Refusal> ReadUpload(Connection& connection, const std::string& type,
                                    HttpRequest& request, std::unique_ptr<UploadFile>& file) const {
    if (type == "application/json" || type == "multipart/form-data") {
      return Refusal{415, "unsupported_media_type",
                     "send the document's bytes as Content-Type: application/octet-stream"};
    }
    if (!request.head.is_chunked && request.head.content_length == 0) {
      return Refusal{400, "bad_request", "send the document's bytes as the body"};
    }
    if (request.head.content_length > options_.max_upload_bytes) {
      return TooLarge(options_.max_upload_bytes);
    }
    file = UploadFile::Create(options_.upload_folder);
    if (!file) return Refusal{507, "no_space", kNoSpace};
    request.body_file = file->path();
    return TakeBody(connection, request.head, options_.max_upload_bytes, options_.upload_ms,
                    [&](std::string_view bytes) { return file->Write(bytes); });
  }

  // The handler's response; a preflight is answered here, without a handler.
  HttpResponse Answer(const HttpRequest& request) const {
    if (IsPreflight(request.head)) {
      return {.status = 204,
              .content_type = {},
              .body = {},
              .headers = PreflightHeaders(request.head),
              .stream = {}};
    }
    try {
      return handler_(request);
    } catch (const std::exception&) {
      return RefusalResponse({500, "internal", "the server made a mistake"}, request.request_id);
    }
  }

  // Writes a response with the headers that every response has. False: the connection ends.
  // nosniff: a browser must not take a document's text for HTML. no-store: answers are private.
  bool Respond(Connection& connection, const HttpRequest& request, HttpResponse response,
               const ResponseForm& form) const {
    Headers headers = {{"X-Request-Id", request.request_id},
                       {"X-Content-Type-Options", "nosniff"},
                       {"Cache-Control", "no-store"}};
    if (response.status == 401) headers.emplace_back("WWW-Authenticate", "Bearer");
    for (auto& header : CorsHeaders(request.head, options_.access)) {
      headers.push_back(std::move(header));
    }
    for (auto& header : response.headers) headers.push_back(std::move(header));
    response.headers = std::move(headers);
    return WriteResponse(connection, response, form);
  }

  const GuardOptions options_;
  const HttpHandler handler_;
  const std::unique_ptr<Listener> listener_;
  OpenConnections connections_;
};

HttpGuard::HttpGuard(std::unique_ptr<Server> server) : server_(std::move(server)) {}
HttpGuard::~HttpGuard() = default;

std::variant<std::unique_ptr<HttpGuard>, Refusal> HttpGuard::Listen(GuardOptions options,
                                                                    HttpHandler handler) {
  auto listening = Listener::Open(options.host, options.port);
  if (const auto* const reason = std::get_if<std::string>(&listening)) {
    return Refusal{500, "cannot_listen",
                   "cannot listen on " + options.host + ":" + std::to_string(options.port) + ": " +
                       *reason + "; choose another --port"};
  }
  auto server = std::make_unique<Server>(std::move(options), std::move(handler),
                                         std::move(std::get<0>(listening)));
  return std::unique_ptr<HttpGuard>(new HttpGuard(std::move(server)));
}

uint16_t HttpGuard::port() const { return server_->port(); }
void HttpGuard::Run() { server_->Run(); }
void HttpGuard::Stop() { server_->Stop(); }
void HttpGuard::EndAll() { server_->EndAll(); }
uint32_t HttpGuard::num_connections() const { return server_->num_connections(); }

}  // namespace lectern::server
