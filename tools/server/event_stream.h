// Sends server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) as the
// body of a response. Two threads write: the one that generates the answer, and the watch, which
// keeps silent connections alive.
#ifndef LECTERN_TOOLS_SERVER_EVENT_STREAM_H_
#define LECTERN_TOOLS_SERVER_EVENT_STREAM_H_

#include <chrono>
#include <functional>
#include <mutex>
#include <string_view>

#include "tools/server/http.h"

namespace lectern::server {

// Thread-safe. `stream` must outlive it.
class EventStream {
 public:
  explicit EventStream(ResponseStream& stream) : stream_(stream) {}

  // Sends an event. `name` may be empty, as in OpenAI's streams of data alone; `data` is one line,
  // which is not checked. Blocks as ResponseStream::Write does. False: the client is gone, now or
  // before (then nothing is sent).
  bool Send(std::string_view name, std::string_view data);
  // Sends a comment where nothing was sent for ten seconds, so that proxies do not end a silent
  // connection. Never waits for another thread that writes, but its own write may block. A failure
  // shows in is_gone.
  void KeepAlive();
  bool is_gone() const;  // a write has failed; waits for a write that is going on

 private:
  bool Write(std::string_view bytes);  // with the mutex held

  ResponseStream& stream_;
  mutable std::mutex mutex_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  bool is_gone_ = false;
};

// A 200 response whose body are the events that `send` sends, on the connection's thread, after the
// head. `send` is called once, or never (a HEAD request), and returns when all is sent.
HttpResponse EventsResponse(std::function<void(EventStream&)> send);

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_EVENT_STREAM_H_
