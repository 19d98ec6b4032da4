// TCP sockets by calls that mean the same on POSIX and on Windows. No call here blocks but WaitFor,
// WaitForAny and ListenAt, which may look up a name.
#ifndef LECTERN_TOOLS_SERVER_SOCKETS_H_
#define LECTERN_TOOLS_SERVER_SOCKETS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

namespace lectern::server {

// A descriptor. Handles of Windows fit, too: it gives them 32 significant bits.
using Socket = int;
inline constexpr Socket kNoSocket = -1;

struct ListenFault {
  enum class Kind { kNoAddress, kTaken, kOther };  // kTaken: another program has the port
  Kind kind = Kind::kNoAddress;
  std::string why;  // the system's reason, for the user; empty with kNoAddress
};
// Makes a socket that listens at an address or a name's first address; "::" takes IPv4, too. `port`
// 0: any free one.
std::variant<Socket, ListenFault> ListenAt(const std::string& address, uint16_t port);
uint16_t PortOf(Socket socket);  // that it is bound to; 0 where the system does not tell

struct Accepted {
  Socket socket = kNoSocket;  // of the client; none: nobody waits any more, or it failed
  bool lacks_room = false;    // the process or the system has no descriptors or memory left
};
// The next client that waits at a listening socket. Small pieces go out to it at once.
Accepted Accept(Socket listening);

enum class SocketEvent { kCanRead, kCanWrite };
// Waits up to `ms` milliseconds; 0 asks. False: not in time. Errors, and the end of what the client
// sends, count as the event.
bool WaitFor(Socket socket, SocketEvent event, int ms);
// Waits until one of them can be read or accepted from; may return earlier.
void WaitForAny(std::span<const Socket> sockets);

inline constexpr int64_t kWouldBlock = -1, kSocketFailed = -2;
// Reads up to `most` bytes, or sends some of `bytes`: how many, 0 at the end of what the client
// sends, kWouldBlock where it would wait, kSocketFailed.
int64_t Receive(Socket socket, char* to, size_t most);
int64_t Send(Socket socket, const char* bytes, size_t size);

enum class PeerState { kSends, kSendsNoMore, kGone };
// The other end's state. kSendsNoMore may be an end that was closed, or only its writing side. On
// Windows an end behind bytes that were not read yet is not seen.
PeerState StateOf(Socket socket);

enum class Side { kReading, kWriting, kBoth };
void ShutDown(Socket socket, Side side);  // wakes threads that wait for the socket
void CloseSocket(Socket socket);

// Lets one thread end another's WaitForAny.
class Waker {
 public:
  Waker();
  ~Waker();
  Waker(const Waker&) = delete;
  Socket socket() const {
    return socket_;
  }             // can be read from once Wake was called; kNoSocket: failed
  void Wake();  // any thread

 private:
  Socket socket_ = kNoSocket;
};

enum class AddressFamily { kIPv4, kIPv6 };
bool IsAddress(const std::string& text, AddressFamily family);  // in digits, without brackets
std::string HostName();  // this machine's; empty where the system does not tell

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_SOCKETS_H_
