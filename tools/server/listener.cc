#include "tools/server/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

namespace lectern::server {
namespace {

// Clients that are not accepted yet. Beyond them the system drops a client's SYN, which it repeats
// only after a second.
constexpr int kBacklog = 1024;
constexpr int kPortTries = 20;  // to find a port that is free on both addresses of localhost
constexpr auto kNoDescriptors = std::chrono::milliseconds(50);  // between tries without descriptors

struct AddressesDeleter {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

// setsockopt of an int.
int Set(int fd, int level, int option, int value) {
  return ::setsockopt(fd, level, option, &value, sizeof value);
}

// A socket that listens on the address; -1, with errno set, where there is none.
int ListenOn(const sockaddr* address, socklen_t size) {
  const int fd = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  // No SO_REUSEPORT: with it a second process could take half of our connections.
  Set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address->sa_family == AF_INET6) {
    const auto* const six = reinterpret_cast<const sockaddr_in6*>(address);
    Set(fd, IPPROTO_IPV6, IPV6_V6ONLY, IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr) ? 0 : 1);
  }
  if (::bind(fd, address, size) == 0 && ::listen(fd, kBacklog) == 0) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

// The port that a socket is bound to; 0 where the system does not tell.
uint16_t PortOf(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

std::string Message(int error) { return std::generic_category().message(error); }

}  // namespace

std::variant<std::unique_ptr<Listener>, std::string> Listener::Open(const std::string& host,
                                                                    uint16_t port) {
  std::unique_ptr<Listener> listener(new Listener);
  listener->stop_event_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (listener->stop_event_ < 0) return Message(errno);
  // Without asking: not every container has /etc/hosts.
  const std::vector<std::string> addresses =
      host == "localhost" ? std::vector<std::string>{"127.0.0.1", "::1"} : std::vector{host};
  int error = 0;
  for (int tries = port == 0 ? kPortTries : 1; tries > 0; --tries) {
    error = listener->Bind(addresses, port);
    if (error != EADDRINUSE) break;
  }
  if (error < 0) return std::string("there is no such address");
  if (error > 0) return Message(error);
  return listener;
}

Listener::~Listener() {
  Close();
  if (stop_event_ >= 0) ::close(stop_event_);
}

void Listener::Close() {
  for (const int fd : sockets_) ::close(fd);
  sockets_.clear();
}

// Makes a listening socket for each address. 0: at least one is there, and no other program has the
// port on another; else errno, or -1 for a name that is not known. With port 0, the first address
// gets any free port and the others must get the same.
int Listener::Bind(const std::vector<std::string>& addresses, uint16_t port) {
  int error = -1;
  port_ = port;
  for (const std::string& address : addresses) {
    addrinfo hints = {}, *found = nullptr;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    if (::getaddrinfo(address.c_str(), std::to_string(port_).c_str(), &hints, &found) != 0) {
      continue;
    }
    const std::unique_ptr<addrinfo, AddressesDeleter> list(found);
    const int fd = ListenOn(list->ai_addr, list->ai_addrlen);
    if (fd >= 0) {
      sockets_.push_back(fd);
      port_ = PortOf(fd);
      continue;
    }
    error = errno;
    // Without IPv6, which systems tell in several ways, the other address does. Where another
    // program has one of them, clients would meet now one, now the other.
    if (error != EADDRINUSE) continue;
    Close();
    return error;
  }
  return sockets_.empty() ? error : 0;
}

void Listener::Run(const std::function<void(int fd)>& serve) {
  std::vector<pollfd> polled = {{.fd = stop_event_, .events = POLLIN, .revents = 0}};
  for (const int fd : sockets_) polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  for (;;) {
    if (::poll(polled.data(), polled.size(), -1) < 0) continue;  // a signal
    if (polled[0].revents != 0) break;
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      const int fd = ::accept4(polled[i].fd, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd >= 0) {
        Set(fd, IPPROTO_TCP, TCP_NODELAY, 1);  // pieces of an answer go out as they are decoded
        serve(fd);
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        std::this_thread::sleep_for(kNoDescriptors);  // until a client leaves
      }
    }
  }
  Close();  // who comes now is told so
}

void Listener::Stop() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_event_, &one, sizeof one);
}

}  // namespace lectern::server
