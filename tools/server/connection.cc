#include "tools/server/connection.h"

#include <algorithm>

namespace lectern::server {
namespace {

// The server reads up to this many bytes that a refused client still sends, so that the client
// comes to read the refusal.
constexpr size_t kLingerBytes = 2 << 20;           // more than a body that is refused for its size
constexpr int kLingerMs = 100;                     // ends when nothing came for so long
constexpr auto kLinger = std::chrono::seconds(2);  // at the latest
// A client of HTTP/1.0 that ends its sending later than this after its request is taken for gone.
constexpr auto kHalfClose = std::chrono::seconds(1);

// At least 0: a negative time would be for ever.
int MillisecondsUntil(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::max<int64_t>(0, left.count()));
}

}  // namespace

Connection::~Connection() { CloseSocket(socket_); }

bool Connection::Read(size_t most, Clock::time_point deadline) {
  const size_t size = buffer_.size();
  while (WaitFor(socket_, SocketEvent::kCanRead, MillisecondsUntil(deadline))) {
    buffer_.resize(size + most);
    const int64_t count = Receive(socket_, buffer_.data() + size, most);
    buffer_.resize(size + static_cast<size_t>(std::max<int64_t>(count, 0)));
    if (count > 0) return true;
    is_at_end_ = count == 0;
    if (count != kWouldBlock) return false;
  }
  return false;
}

bool Connection::Write(std::string_view bytes) const {
  while (!bytes.empty()) {
    if (!WaitFor(socket_, SocketEvent::kCanWrite, write_ms_)) return false;
    const int64_t count = Send(socket_, bytes.data(), bytes.size());
    if (count == kWouldBlock) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

void Connection::Wait(int minor_version) {
  const std::lock_guard lock(probe_mutex_);
  probe_ = minor_version > 0 ? Probe::kMay : Probe::kMayNot;
  minor_version_ = minor_version;
  is_half_closed_ = false;
  waits_since_ = Clock::now();
}

void Connection::Begin() {
  const std::lock_guard lock(probe_mutex_);
  probe_ = Probe::kMayNot;
}

// Costs one call of the system.
bool Connection::IsGone() const {
  const PeerState state = StateOf(socket_);
  return state == PeerState::kGone || (state == PeerState::kSendsNoMore && HasLeft());
}

// The client sends no more: it has either closed the connection, or only its writing side and waits
// for the answer. TCP tells which when it is sent something: a closed connection answers with a
// reset, which the next poll sees. Before the answer begins, that something is "100 Continue",
// which clients of HTTP/1.1 skip wherever it comes (RFC 9110, 15.2); later it is the answer itself.
// To HTTP/1.0 nothing can be sent: its clients that shut down their writing side do so with the
// request, those that leave do so later.
bool Connection::HasLeft() const {
  const std::lock_guard lock(probe_mutex_);
  if (minor_version_ == 0) {
    is_half_closed_ = is_half_closed_ || Clock::now() < waits_since_ + kHalfClose;
    return !is_half_closed_;
  }
  if (probe_ == Probe::kMay) {
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    Send(socket_, kContinue.data(), kContinue.size());
    probe_ = Probe::kSent;
  }
  return false;
}

void Connection::Finish() {
  ShutDown(socket_, Side::kWriting);
  if (is_at_end_) return;
  char ignored[16 * 1024];
  const auto deadline = Clock::now() + kLinger;
  for (size_t taken = 0;
       taken < kLingerBytes && WaitFor(socket_, SocketEvent::kCanRead, kLingerMs);) {
    const int64_t n = Receive(socket_, ignored, sizeof ignored);
    if (n <= 0 || Clock::now() > deadline) break;
    taken += static_cast<size_t>(n);
  }
}

OpenConnections::Scope::Scope(OpenConnections& all, Socket socket) : all_(all) {
  const std::lock_guard lock(all_.mutex_);
  place_ = all_.busy_.insert(all_.busy_.end(), socket);
}

OpenConnections::Scope::~Scope() {
  const std::lock_guard lock(all_.mutex_);
  (is_idle_ ? all_.idle_ : all_.busy_).erase(place_);
}

void OpenConnections::Scope::SetIdle(bool is_idle) {
  const std::lock_guard lock(all_.mutex_);
  if (is_idle == is_idle_) return;
  // At the end of the list: the front of idle_ is the one that has waited longest.
  std::list<Socket>&to = is_idle ? all_.idle_ : all_.busy_,
  &from = is_idle ? all_.busy_ : all_.idle_;
  to.splice(to.end(), from, place_);
  is_idle_ = is_idle;
  if (is_idle && all_.is_ending_) ShutDown(*place_, Side::kReading);
}

uint32_t OpenConnections::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(busy_.size() + idle_.size());
}

// The reading side alone: that wakes the thread that waits, and a request that has come by then can
// still be read and answered.
bool OpenConnections::EndOldestIdle() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return false;
  ShutDown(idle_.front(), Side::kReading);
  idle_.splice(idle_.end(), idle_, idle_.begin());  // the next call takes another
  return true;
}

void OpenConnections::EndIdle() {
  const std::lock_guard lock(mutex_);
  is_ending_ = true;
  for (const Socket socket : idle_) ShutDown(socket, Side::kReading);
}

void OpenConnections::EndAll() {
  const std::lock_guard lock(mutex_);
  is_ending_ = true;
  for (const Socket socket : idle_) ShutDown(socket, Side::kBoth);
  for (const Socket socket : busy_) ShutDown(socket, Side::kBoth);
}

bool OpenConnections::is_ending() const {
  const std::lock_guard lock(mutex_);
  return is_ending_;
}

}  // namespace lectern::server
