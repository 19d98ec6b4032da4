// The sockets on which the server listens for clients: one address, or both of localhost.
#ifndef LECTERN_TOOLS_SERVER_LISTENER_H_
#define LECTERN_TOOLS_SERVER_LISTENER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tools/server/sockets.h"

namespace lectern::server {

// Open, Run on one thread, Stop from another; then it is over.
class Listener {
 public:
  // Binds and listens. `host`: an address, a name, or "localhost", which means 127.0.0.1 and, where
  // the machine has IPv6, ::1, because clients try either. "::" takes IPv4 too. A name with several
  // addresses: the first one; looking it up may block. `port` 0: any free one, the same on all
  // addresses. The alternative to a listener: the system's reason, for the user (no such address,
  // the port is taken, ...).
  static std::variant<std::unique_ptr<Listener>, std::string> Open(const std::string& host,
                                                                   uint16_t port);
  ~Listener();

  uint16_t port() const { return port_; }
  // Calls `serve` on this thread with the socket of each client, which then belongs to `serve`,
  // until Stop; `serve` must return soon. Closes the listening sockets at the end. Where the
  // process has no descriptors or memory left, it waits until a client leaves; other failures of
  // accept are ignored.
  void Run(const std::function<void(Socket client)>& serve);
  void Stop();  // any thread, once; may come before Run, which then returns at once

 private:
  Listener() = default;
  // See the .cc.
  std::optional<ListenFault> Bind(const std::vector<std::string>& addresses, uint16_t port);
  void Close();  // the sockets that listen

  std::vector<Socket> sockets_;
  uint16_t port_ = 0;
  Waker stop_;  // wakes Run, which then returns
  std::atomic<bool> is_stopped_ = false;
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_LISTENER_H_
