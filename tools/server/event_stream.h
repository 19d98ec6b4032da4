// Sends server-sent events on a response stream, from two threads: the one that answers, and the
// watch, which keeps silent connections alive.
#ifndef LECTERN_TOOLS_SERVER_EVENT_STREAM_H_
#define LECTERN_TOOLS_SERVER_EVENT_STREAM_H_

#include <chrono>
#include <functional>
#include <mutex>
#include <string_view>

#include "tools/server/http.h"

namespace lectern::server {

class EventStream {
 public:
  explicit EventStream(ResponseStream& stream) : stream_(stream) {}

  // `name` may be empty: the event has data alone. `data`: one line. False: the client is gone.
  bool Send(std::string_view name, std::string_view data);
  // A comment, where nothing was sent for ten seconds.
  void KeepAlive();
  bool is_gone() const;

 private:
  bool Write(std::string_view bytes);  // with the mutex held

  ResponseStream& stream_;
  mutable std::mutex mutex_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  bool is_gone_ = false;
};

// A response of events: what `send` sends.
HttpResponse EventsResponse(std::function<void(EventStream&)> send);

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_EVENT_STREAM_H_
