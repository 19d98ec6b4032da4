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
  // `silence`: after which a sign of life is sent; far below any proxy's timeout.
  explicit EventStream(ResponseStream& stream,
                       std::chrono::steady_clock::duration silence = std::chrono::seconds(10))
      : stream_(stream), silence_(silence) {}

  // Sends an event. `name` may be empty, as in OpenAI's streams of data alone; `data` is one line,
  // which is not checked. Blocks as ResponseStream::Write does. False: the client is gone, now or
  // before (then nothing is sent).
  bool Send(std::string_view name, std::string_view data);
  // Sends a comment where nothing was sent for the time of silence, so that proxies do not end a
  // silent connection. Waits neither for another thread that writes nor for a client that takes
  // nothing: then the next call tries again. A failure shows in is_gone.
  void KeepAlive();
  bool is_gone() const;  // a write has failed; waits for a write that is going on

 private:
  bool Write(std::string_view bytes);  // with the mutex held

  ResponseStream& stream_;
  const std::chrono::steady_clock::duration silence_;
  mutable std::mutex mutex_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  bool is_gone_ = false;
};

// A 200 response whose body are the events that `send` sends, on the connection's thread, after the
// head. `send` is called once, or never (a HEAD request), and returns when all is sent.
HttpResponse EventsResponse(std::function<void(EventStream&)> send);

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_EVENT_STREAM_H_
