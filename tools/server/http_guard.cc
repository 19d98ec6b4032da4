#include "tools/server/http_guard.h"

#include <fcntl.h>
#include <httplib.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <random>
#include <thread>

namespace lectern::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kReadBytes = 64 * 1024;
constexpr int kBacklog = 1024;  // httplib's 5 makes a burst of clients wait a second
// What a refused client still sends is taken, up to this, so that it comes to read why.
constexpr size_t kLingerBytes = 2 << 20;
constexpr int kLingerMs = 100;  // without a byte
constexpr size_t kIdleThreads = 32;
constexpr auto kIdleFor = std::chrono::seconds(5);  // each of them
constexpr auto kLinger = std::chrono::seconds(2);

int MillisecondsUntil(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::max<int64_t>(0, left.count()));
}

// The client's socket: reads with a deadline, writes that end when nothing is taken for a while.
class Connection : public Peer {
 public:
  Connection(int fd, int write_ms) : fd_(fd), write_ms_(write_ms) {}
  ~Connection() override {
    ::shutdown(fd_, SHUT_WR);
    char ignored[16 * 1024];
    const auto deadline = Clock::now() + kLinger;
    for (size_t taken = 0; taken < kLingerBytes && WaitFor(POLLIN, kLingerMs);) {
      const ssize_t n = ::recv(fd_, ignored, sizeof ignored, MSG_DONTWAIT);
      if (n <= 0 || Clock::now() > deadline) break;
      taken += static_cast<size_t>(n);
    }
    ::close(fd_);
  }

  // Bytes read, 0: end of the stream, the deadline or an error.
  size_t Read(char* to, size_t size, Clock::time_point deadline) const {
    for (;;) {
      if (!WaitFor(POLLIN, MillisecondsUntil(deadline))) return 0;
      const ssize_t n = ::recv(fd_, to, size, MSG_DONTWAIT);
      if (n >= 0) return static_cast<size_t>(n);
      if (errno != EAGAIN && errno != EINTR) return 0;
    }
  }

  bool Write(std::string_view bytes) const {
    while (!bytes.empty()) {
      if (!WaitFor(POLLOUT, write_ms_)) return false;
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  bool IsGone() const override {
    pollfd socket = {.fd = fd_, .events = POLLRDHUP, .revents = 0};
    return ::poll(&socket, 1, 0) > 0 &&
           (socket.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
  }
  int fd() const { return fd_; }

 private:
  bool WaitFor(short event, int ms) const {
    pollfd socket = {.fd = fd_, .events = event, .revents = 0};
    int ready = 0;
    do {
      ready = ::poll(&socket, 1, ms);
    } while (ready < 0 && errno == EINTR);
    return ready > 0 && (socket.revents & (event | POLLHUP | POLLERR)) != 0;
  }

  const int fd_, write_ms_;
};

// What httplib reads from and writes to: our one request, the client's socket.
class Replay : public httplib::Stream {
 public:
  Replay(const Connection& connection, std::string_view request)
      : connection_(connection), request_(request) {}

  bool is_readable() const override { return !request_.empty(); }
  bool is_writable() const override { return !connection_.IsGone(); }
  ssize_t read(char* to, size_t size) override {
    const size_t n = std::min(size, request_.size());
    std::copy_n(request_.data(), n, to);
    request_.remove_prefix(n);
    return static_cast<ssize_t>(n);
  }
  ssize_t write(const char* from, size_t size) override {
    return connection_.Write({from, size}) ? static_cast<ssize_t>(size) : -1;
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return connection_.fd(); }

 private:
  const Connection& connection_;
  std::string_view request_;
};

// A thread for each connection that is open; some are kept for the next ones.
class ConnectionThreads : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> task) override {
    std::list<std::thread> ended;
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
      if (tasks_.size() > idle_) Begin();
      ended.swap(ended_);
    }
    changed_.notify_one();
    for (std::thread& thread : ended) thread.join();
  }
  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    for (std::thread& thread : ended_) thread.join();
  }

 private:
  void Begin() {
    const auto place = threads_.emplace(threads_.end());
    try {
      *place = std::thread(&ConnectionThreads::Work, this, place);
    } catch (const std::system_error&) {  // no more to be had: one that is there comes to the task
      threads_.erase(place);
      if (threads_.empty()) throw;
    }
  }

  void Work(std::list<std::thread>::iterator self) {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (idle_ >= kIdleThreads && tasks_.empty() && !is_ending_) {
        ended_.splice(ended_.end(), threads_, self);
        return;
      }
      ++idle_;
      const bool goes_on =
          changed_.wait_for(lock, kIdleFor, [this] { return is_ending_ || !tasks_.empty(); });
      --idle_;
      if (!goes_on) ended_.splice(ended_.end(), threads_, self);
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::list<std::thread> threads_, ended_;
  size_t idle_ = 0;
  bool is_ending_ = false;
};

// Deleted with the object.
class UploadFile {
 public:
  static std::unique_ptr<UploadFile> Create(const std::string& folder) {
    std::string path = folder + "/upload-XXXXXX";
    const int fd = ::mkostemp(path.data(), O_CLOEXEC);
    return fd < 0 ? nullptr : std::unique_ptr<UploadFile>(new UploadFile(std::move(path), fd));
  }
  ~UploadFile() {
    ::close(fd_);
    ::unlink(path_.c_str());
  }
  bool Write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  UploadFile(const UploadFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  UploadFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  const std::string path_;
  const int fd_;
};

class SinkStream : public ResponseStream {
 public:
  explicit SinkStream(httplib::DataSink& sink) : sink_(sink) {}
  bool Write(std::string_view bytes) override {
    return bytes.empty() || sink_.write(bytes.data(), bytes.size());
  }

 private:
  httplib::DataSink& sink_;
};

std::string NewRequestId() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(random()));
  return text;
}

}  // namespace

class HttpGuard::Server : public httplib::Server {
 public:
  Server(GuardOptions options, HttpHandler handler)
      : options_(std::move(options)), handler_(std::move(handler)) {
    new_task_queue = [] { return new ConnectionThreads; };
    // No SO_REUSEPORT, which httplib sets by default: a second process could take half of our
    // connections.
    set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    set_tcp_nodelay(true);
    Get("/", [this](const httplib::Request&, httplib::Response& response) {
      Answer(*current_, response);
    });
    set_exception_handler([](const httplib::Request&, httplib::Response& response,
                             std::exception_ptr) { Fill(InternalError(), response); });
  }

  bool Bind() {
    port_ = options_.port;
    const bool is_bound = options_.port == 0 ? (port_ = bind_to_any_port(options_.host)) > 0
                                             : bind_to_port(options_.host, options_.port);
    return is_bound && ::listen(svr_sock_, kBacklog) == 0;
  }
  int port() const { return port_; }
  uint32_t num_connections() const { return num_connections_; }

 private:
  static constexpr std::string_view kReplayed = "GET / HTTP/1.1\r\nHost: guard\r\n\r\n";

  bool process_and_close_socket(socket_t fd) override {
    const Connection connection(fd, options_.write_ms);
    const uint32_t count = ++num_connections_;
    Serve(connection, count > options_.max_connections);
    --num_connections_;
    return true;
  }

  void Serve(const Connection& connection, bool is_full) {
    HttpRequest request;
    request.peer = &connection;
    request.request_id = NewRequestId();
    if (is_full) {
      return Refuse(connection,
                    {.status = 503,
                     .code = "overloaded",
                     .message = "there are too many connections",
                     .retry_after = 1},
                    request);
    }
    std::string begun;  // bytes of the body that came with the head
    if (auto refusal = ReadHead(connection, request, begun)) {
      if (refusal->status > 0) Refuse(connection, *refusal, request);
      return;
    }
    std::unique_ptr<UploadFile> file;
    if (auto refusal = ReadBody(connection, std::move(begun), request, file)) {
      return Refuse(connection, *refusal, request);
    }
    Replay replay(connection, kReplayed);
    current_ = &request;
    bool is_closed = false;
    process_request(replay, true, is_closed, nullptr);
    current_ = nullptr;
  }

  // Nothing: the head is in `request` and may go on. Status 0: a connection without a byte.
  std::optional<Refusal> ReadHead(const Connection& connection, HttpRequest& request,
                                  std::string& rest) const {
    const auto deadline = Clock::now() + std::chrono::milliseconds(options_.head_ms);
    std::string bytes;
    size_t end = bytes.npos;
    while ((end = bytes.find("\r\n\r\n")) == bytes.npos) {
      if (bytes.size() >= options_.head.max_bytes) {
        return Refusal{431, "headers_too_large", "the headers are too large"};
      }
      const size_t size = bytes.size();
      bytes.resize(options_.head.max_bytes);
      const size_t n = connection.Read(bytes.data() + size, bytes.size() - size, deadline);
      bytes.resize(size + n);
      if (n == 0 && size == 0) return Refusal{.status = 0, .code = {}, .message = {}};
      if (n == 0) return Refusal{408, "request_timeout", "the headers did not come in time"};
    }
    rest = bytes.substr(end + 4);
    bytes.resize(end + 4);
    auto head = ParseHead(bytes, options_.head);
    if (auto* const refusal = std::get_if<Refusal>(&head)) return std::move(*refusal);
    request.head = std::move(std::get<RequestHead>(head));
    if (const auto id = PlainRequestId(request.head); !id.empty()) request.request_id = id;
    if (Refusal refusal = CheckAccess(request.head, options_.access); refusal.status != 0) {
      return refusal;
    }
    if (options_.refuse) {
      if (auto refusal = options_.refuse(request.head)) return refusal;
    }
    if (request.head.method != "POST" && request.head.content_length > 0) {
      return Refusal{400, "bad_request", "only a POST may have a body"};
    }
    if (rest.size() > request.head.content_length) {
      return Refusal{400, "bad_request", "one request a connection; bytes follow the first"};
    }
    return std::nullopt;
  }

  std::optional<Refusal> ReadBody(const Connection& connection, std::string begun,
                                  HttpRequest& request, std::unique_ptr<UploadFile>& file) const {
    if (request.head.method != "POST") return std::nullopt;
    std::string_view type = request.head.Header("content-type");
    type = type.substr(0, type.find(';'));
    if (type == "application/octet-stream" && !options_.upload_path.empty() &&
        request.head.path == options_.upload_path) {
      return ReadUpload(connection, begun, request, file);
    }
    if (type != "application/json") {  // what a form of another page cannot send
      return Refusal{415, "unsupported_media_type", "send Content-Type: application/json"};
    }
    const uint64_t length = request.head.content_length;
    if (length > options_.max_body_bytes) return TooLarge(options_.max_body_bytes);
    request.body = std::move(begun);
    const auto deadline = Clock::now() + std::chrono::milliseconds(options_.body_ms);
    for (size_t size = request.body.size(); size < length; size = request.body.size()) {
      request.body.resize(std::min<uint64_t>(length, size + kReadBytes));
      const size_t n =
          connection.Read(request.body.data() + size, request.body.size() - size, deadline);
      request.body.resize(size + n);
      if (n == 0) return Late();
    }
    return std::nullopt;
  }

  std::optional<Refusal> ReadUpload(const Connection& connection, std::string_view begun,
                                    HttpRequest& request, std::unique_ptr<UploadFile>& file) const {
    uint64_t left = request.head.content_length;
    if (left > options_.max_upload_bytes) return TooLarge(options_.max_upload_bytes);
    file = UploadFile::Create(options_.upload_folder);
    const Refusal no_space = {507, "no_space", "the upload could not be written"};
    if (!file || !file->Write(begun)) return no_space;
    left -= begun.size();
    const auto deadline = Clock::now() + std::chrono::milliseconds(options_.upload_ms);
    std::vector<char> buffer(kReadBytes);
    while (left > 0) {
      const size_t n =
          connection.Read(buffer.data(), std::min<uint64_t>(left, buffer.size()), deadline);
      if (n == 0) return Late();
      if (!file->Write({buffer.data(), n})) return no_space;
      left -= n;
    }
    request.body_file = file->path();
    return std::nullopt;
  }

  static Refusal Late() { return {408, "request_timeout", "the body did not come in time"}; }
  static Refusal TooLarge(uint64_t limit) {
    return {413, "payload_too_large",
            "the body is larger than " + std::to_string(limit) + " bytes"};
  }
  static HttpResponse InternalError() {
    return RefusalResponse({500, "internal", "the server made a mistake"},
                           current_ ? current_->request_id : std::string());
  }

  // Without httplib, which has no request to answer.
  static void Refuse(const Connection& connection, const Refusal& refusal,
                     const HttpRequest& request) {
    const HttpResponse response = RefusalResponse(refusal, request.request_id);
    std::string text = "HTTP/1.1 " + std::to_string(response.status) + " Refused";
    text += "\r\nConnection: close\r\nContent-Type: " + response.content_type;
    text += "\r\nContent-Length: " + std::to_string(response.body.size());
    for (const auto& [name, value] : response.headers) text += "\r\n" + name + ": " + value;
    connection.Write(text + "\r\n\r\n" + response.body);
  }

  void Answer(const HttpRequest& request, httplib::Response& to) const {
    HttpResponse response = handler_(request);
    response.headers.emplace_back("X-Request-Id", request.request_id);
    Fill(std::move(response), to);
  }

  static void Fill(HttpResponse response, httplib::Response& to) {
    to.status = response.status;
    to.set_header("X-Content-Type-Options", "nosniff");
    to.set_header("Cache-Control", "no-store");
    for (const auto& [name, value] : response.headers) to.set_header(name, value);
    if (!response.stream) {
      to.set_content(std::move(response.body), response.content_type);
      return;
    }
    to.set_chunked_content_provider(response.content_type, [stream = std::move(response.stream)](
                                                               size_t, httplib::DataSink& sink) {
      SinkStream to_client(sink);
      stream(to_client);
      sink.done();
      return true;
    });
  }

  const GuardOptions options_;
  const HttpHandler handler_;
  int port_ = 0;
  std::atomic<uint32_t> num_connections_ = 0;
  // The request that this thread replays to httplib.
  static thread_local const HttpRequest* current_;
};

thread_local const HttpRequest* HttpGuard::Server::current_ = nullptr;

HttpGuard::HttpGuard(std::unique_ptr<Server> server) : server_(std::move(server)) {}
HttpGuard::~HttpGuard() = default;

std::variant<std::unique_ptr<HttpGuard>, Refusal> HttpGuard::Listen(GuardOptions options,
                                                                    HttpHandler handler) {
  const std::string address = options.host + ":" + std::to_string(options.port);
  auto server = std::make_unique<Server>(std::move(options), std::move(handler));
  errno = 0;
  if (!server->Bind()) {
    const std::string reason =
        errno != 0 ? std::generic_category().message(errno) : "no such address";
    return Refusal{500, "cannot_listen",
                   "cannot listen on " + address + ": " + reason + "; choose another --port"};
  }
  return std::unique_ptr<HttpGuard>(new HttpGuard(std::move(server)));
}

uint16_t HttpGuard::port() const { return static_cast<uint16_t>(server_->port()); }
void HttpGuard::Run() { server_->listen_after_bind(); }
void HttpGuard::Stop() { server_->stop(); }
uint32_t HttpGuard::num_connections() const { return server_->num_connections(); }

}  // namespace lectern::server
