// The calls of sockets.h that POSIX and Windows write alike. Included once, by sockets_posix.cc or
// sockets_windows.cc, behind the system's headers; these define the functions of the first part.
#ifndef LECTERN_TOOLS_SERVER_SOCKET_CALLS_H_
#define LECTERN_TOOLS_SERVER_SOCKET_CALLS_H_

#include <memory>
#include <string>
#include <variant>

#include "tools/server/sockets.h"

namespace lectern::server {

// A new socket that does not block and that child processes do not get; kNoSocket: LastFault says
// why.
Socket OpenSocket(int family);
// Lets nobody else listen at the address of `socket`, which is not bound yet, but allows a new
// server to take it over from one that has ended.
void KeepAddress(Socket socket);
ListenFault LastFault();  // of the call that failed just now

namespace {

// Clients that are not accepted yet. Beyond them the system drops a client's SYN, which it repeats
// only after a second.
constexpr int kBacklog = 1024;

struct AddressesDeleter {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

// setsockopt of an int.
void Set(Socket socket, int level, int option, int value) {
  ::setsockopt(socket, level, option, reinterpret_cast<const char*>(&value), sizeof value);
}

std::variant<Socket, ListenFault> ListenOn(const addrinfo& address) {
  const Socket socket = OpenSocket(address.ai_family);
  if (socket == kNoSocket) return LastFault();
  KeepAddress(socket);
  if (address.ai_family == AF_INET6) {
    const auto* const six = reinterpret_cast<const sockaddr_in6*>(address.ai_addr);
    Set(socket, IPPROTO_IPV6, IPV6_V6ONLY, IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr) ? 0 : 1);
  }
  if (::bind(socket, address.ai_addr, static_cast<socklen_t>(address.ai_addrlen)) == 0 &&
      ::listen(socket, kBacklog) == 0) {
    return socket;
  }
  ListenFault fault = LastFault();
  CloseSocket(socket);
  return fault;
}

}  // namespace

std::variant<Socket, ListenFault> ListenAt(const std::string& address, uint16_t port) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    return ListenFault{};
  }
  const std::unique_ptr<addrinfo, AddressesDeleter> list(found);
  return ListenOn(*list);
}

uint16_t PortOf(Socket socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

bool IsAddress(const std::string& text, AddressFamily family) {
  in6_addr address;  // room for either
  return ::inet_pton(family == AddressFamily::kIPv6 ? AF_INET6 : AF_INET, text.c_str(), &address) ==
         1;
}

std::string HostName() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_SOCKET_CALLS_H_
