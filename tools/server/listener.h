// Sockets that listen for clients: on one address, or on both of localhost.
#ifndef LECTERN_TOOLS_SERVER_LISTENER_H_
#define LECTERN_TOOLS_SERVER_LISTENER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace lectern::server {

class Listener {
 public:
  // `host`: an address, a name, or "localhost": 127.0.0.1 and, where the machine has IPv6, ::1,
  // because clients try either. "::" takes IPv4 too. `port` 0: any free one, the same on all
  // addresses. The alternative to a listener: the reason that the system gave.
  static std::variant<std::unique_ptr<Listener>, std::string> Open(const std::string& host,
                                                                   uint16_t port);
  ~Listener();

  uint16_t port() const { return port_; }
  // Calls `serve` with each client's socket, which it then owns, until Stop.
  void Run(const std::function<void(int fd)>& serve);
  void Stop();  // any thread, once

 private:
  Listener() = default;
  int Bind(const std::vector<std::string>& addresses, uint16_t port);
  void Close();

  std::vector<int> sockets_;
  uint16_t port_ = 0;
  int stop_event_ = -1;  // readable once Run is to return
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_LISTENER_H_
