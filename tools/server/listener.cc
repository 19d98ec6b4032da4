#include "tools/server/listener.h"

#include <chrono>
#include <thread>

namespace lectern::server {
namespace {

constexpr int kPortTries = 20;  // to find a port that is free on both addresses of localhost
constexpr auto kNoDescriptors = std::chrono::milliseconds(50);  // between tries without descriptors

}  // namespace

std::variant<std::unique_ptr<Listener>, std::string> Listener::Open(const std::string& host,
                                                                    uint16_t port) {
  std::unique_ptr<Listener> listener(new Listener);
  if (listener->stop_.socket() == kNoSocket) return std::string("the system has no sockets left");
  // Without asking: not every container has /etc/hosts.
  const std::vector<std::string> addresses =
      host == "localhost" ? std::vector<std::string>{"127.0.0.1", "::1"} : std::vector{host};
  std::optional<ListenFault> fault;
  for (int tries = port == 0 ? kPortTries : 1; tries > 0; --tries) {
    fault = listener->Bind(addresses, port);
    if (!fault) return listener;
    if (fault->kind != ListenFault::Kind::kTaken) break;
  }
  const bool is_known = fault->kind != ListenFault::Kind::kNoAddress;
  return is_known ? fault->why : std::string("there is no such address");
}

Listener::~Listener() { Close(); }

void Listener::Close() {
  for (const Socket socket : sockets_) CloseSocket(socket);
  sockets_.clear();
}

// Makes a listening socket for each address. Nothing: at least one is there, and no other program
// has the port on another. With port 0, the first address gets any free port and the others must
// get the same.
std::optional<ListenFault> Listener::Bind(const std::vector<std::string>& addresses,
                                          uint16_t port) {
  ListenFault fault;
  port_ = port;
  for (const std::string& address : addresses) {
    const auto listening = ListenAt(address, port_);
    if (const auto* const socket = std::get_if<Socket>(&listening)) {
      sockets_.push_back(*socket);
      port_ = PortOf(*socket);
      continue;
    }
    // Without IPv6, which systems tell in several ways, the other address does. Where another
    // program has one of them, clients would meet now one, now the other.
    const ListenFault& now = std::get<ListenFault>(listening);
    if (now.kind == ListenFault::Kind::kTaken) {
      Close();
      return now;
    }
    if (now.kind != ListenFault::Kind::kNoAddress) fault = now;
  }
  return sockets_.empty() ? std::optional(fault) : std::nullopt;
}

void Listener::Run(const std::function<void(Socket client)>& serve) {
  std::vector<Socket> sockets = sockets_;
  sockets.push_back(stop_.socket());
  while (!is_stopped_) {
    WaitForAny(sockets);
    for (const Socket listening : sockets_) {
      const Accepted accepted = Accept(listening);
      if (accepted.socket != kNoSocket) {
        serve(accepted.socket);
      } else if (accepted.lacks_room) {
        std::this_thread::sleep_for(kNoDescriptors);  // until a client leaves
      }
    }
  }
  Close();  // who comes now is told so
}

void Listener::Stop() {
  is_stopped_ = true;
  stop_.Wake();
}

}  // namespace lectern::server
