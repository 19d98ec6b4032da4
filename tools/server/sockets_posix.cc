#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "tools/server/socket_calls.h"

namespace lectern::server {
namespace {

// The result of recv or send in the words of sockets.h.
int64_t Counted(ssize_t count) {
  if (count >= 0) return count;
  return errno == EAGAIN || errno == EINTR ? kWouldBlock : kSocketFailed;
}

}  // namespace

Socket OpenSocket(int family) {
  return ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

// No SO_REUSEPORT: with it a second process could take half of our connections.
void KeepAddress(Socket socket) { Set(socket, SOL_SOCKET, SO_REUSEADDR, 1); }

ListenFault LastFault() {
  const int error = errno;
  return {error == EADDRINUSE ? ListenFault::Kind::kTaken : ListenFault::Kind::kOther,
          std::generic_category().message(error)};
}

Accepted Accept(Socket listening) {
  const Socket socket = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket < 0) {
    return {.lacks_room =
                errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS};
  }
  Set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  return {.socket = socket};
}

bool WaitFor(Socket socket, SocketEvent event, int ms) {
  const short events = event == SocketEvent::kCanRead ? POLLIN : POLLOUT;
  pollfd polled = {.fd = socket, .events = events, .revents = 0};
  int ready = 0;
  do {
    ready = ::poll(&polled, 1, ms);
  } while (ready < 0 && errno == EINTR);
  return ready > 0 && (polled.revents & (events | POLLHUP | POLLERR)) != 0;
}

void WaitForAny(std::span<const Socket> sockets) {
  std::vector<pollfd> polled;
  for (const Socket socket : sockets)
    polled.push_back({.fd = socket, .events = POLLIN, .revents = 0});
  ::poll(polled.data(), polled.size(), -1);
}

int64_t Receive(Socket socket, char* to, size_t most) {
  return Counted(::recv(socket, to, most, 0));
}

int64_t Send(Socket socket, const char* bytes, size_t size) {
  return Counted(::send(socket, bytes, size, MSG_NOSIGNAL));
}

PeerState StateOf(Socket socket) {
  pollfd polled = {.fd = socket, .events = POLLRDHUP, .revents = 0};
  if (::poll(&polled, 1, 0) <= 0) return PeerState::kSends;
  const bool is_gone = (polled.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
  return is_gone ? PeerState::kGone : PeerState::kSendsNoMore;
}

void ShutDown(Socket socket, Side side) {
  ::shutdown(socket, side == Side::kReading   ? SHUT_RD
                     : side == Side::kWriting ? SHUT_WR
                                              : SHUT_RDWR);
}

void CloseSocket(Socket socket) { ::close(socket); }

Waker::Waker() : socket_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Waker::~Waker() {
  if (socket_ != kNoSocket) ::close(socket_);
}

void Waker::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(socket_, &one, sizeof one);
}

}  // namespace lectern::server
