#include "tools/server/event_stream.h"

#include <string>

namespace lectern::server {

bool EventStream::Write(std::string_view bytes) {
  if (!is_gone_) is_gone_ = !stream_.Write(bytes);
  last_ = std::chrono::steady_clock::now();
  return !is_gone_;
}

bool EventStream::Send(std::string_view name, std::string_view data) {
  std::string event;
  if (!name.empty()) event.append("event: ").append(name).append("\n");
  event.append("data: ").append(data).append("\n\n");
  const std::lock_guard lock(mutex_);
  return Write(event);
}

void EventStream::KeepAlive() {
  const std::unique_lock lock(mutex_, std::try_to_lock);  // held: something is being written
  if (!lock || std::chrono::steady_clock::now() - last_ <= silence_) return;
  if (stream_.IsReady()) Write(": ping\n\n");
}

bool EventStream::is_gone() const {
  const std::lock_guard lock(mutex_);
  return is_gone_;
}

HttpResponse EventsResponse(std::function<void(EventStream&)> send) {
  HttpResponse response;
  response.content_type = "text/event-stream; charset=utf-8";
  response.headers.emplace_back("X-Accel-Buffering", "no");  // nginx: pass on as it comes
  response.stream = [send = std::move(send)](ResponseStream& stream) {
    EventStream events(stream);
    send(events);
  };
  return response;
}

}  // namespace lectern::server
