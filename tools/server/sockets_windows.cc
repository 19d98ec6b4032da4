// Winsock 2.2.
#include <winsock2.h>
#include <ws2tcpip.h>

#include <windows.h>

#include <algorithm>
#include <vector>

#include "store/system_windows.h"
#include "tools/server/socket_calls.h"

namespace lectern::server {
namespace {

// A thread that waits to read looks at its socket so often: nothing says that shutting down the
// reading side ends WSAPoll.
constexpr int kLookMs = 250;

// Starts Winsock before main, and ends it after.
struct Winsock {
  Winsock() {
    WSADATA unused;
    ::WSAStartup(MAKEWORD(2, 2), &unused);
  }
  ~Winsock() { ::WSACleanup(); }
};
const Winsock winsock;

Socket Numbered(SOCKET socket) {
  return socket == INVALID_SOCKET ? kNoSocket : static_cast<Socket>(socket);
}

// The result of recv or send in the words of sockets.h.
int64_t Counted(int count) {
  if (count >= 0) return count;
  return ::WSAGetLastError() == WSAEWOULDBLOCK ? kWouldBlock : kSocketFailed;
}

// Calls on the socket shall not block, and child processes shall not get it.
void Prepare(Socket socket) {
  u_long is_nonblocking = 1;
  ::ioctlsocket(socket, FIONBIO, &is_nonblocking);
  ::SetHandleInformation(reinterpret_cast<HANDLE>(static_cast<SOCKET>(socket)), HANDLE_FLAG_INHERIT,
                         0);
}

// Whether there are bytes, the end of them, or an error to read.
bool HasNews(Socket socket) {
  char byte;
  return Counted(::recv(socket, &byte, 1, MSG_PEEK)) != kWouldBlock;
}

// A call takes 2^31 - 1 bytes at the most.
int Length(size_t bytes) { return static_cast<int>(std::min<size_t>(bytes, 1 << 30)); }

}  // namespace

Socket OpenSocket(int family) {
  const Socket socket = Numbered(::socket(family, SOCK_STREAM, 0));
  if (socket != kNoSocket) Prepare(socket);
  return socket;
}

// SO_REUSEADDR would let any program take the port from us.
void KeepAddress(Socket socket) { Set(socket, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, 1); }

ListenFault LastFault() {
  const DWORD error = static_cast<DWORD>(::WSAGetLastError());
  if (error == WSAEADDRINUSE || error == WSAEACCES) {  // WSAEACCES: another has it for itself
    return {ListenFault::Kind::kTaken, "Address already in use"};
  }
  wchar_t text[512];
  DWORD size = ::FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, nullptr,
                                error, 0, text, static_cast<DWORD>(std::size(text)), nullptr);
  while (size > 0 && (text[size - 1] <= L' ' || text[size - 1] == L'.')) --size;
  return {ListenFault::Kind::kOther,
          size > 0 ? Narrow({text, size}) : "Winsock's error " + std::to_string(error)};
}

Accepted Accept(Socket listening) {
  const Socket socket = Numbered(::accept(listening, nullptr, nullptr));
  if (socket == kNoSocket) {
    const int error = ::WSAGetLastError();
    return {.lacks_room = error == WSAEMFILE || error == WSAENOBUFS};
  }
  Prepare(socket);
  Set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  return {.socket = socket};
}

bool WaitFor(Socket socket, SocketEvent event, int ms) {
  const bool is_reading = event == SocketEvent::kCanRead;
  const short events = is_reading ? POLLRDNORM : POLLWRNORM;
  for (int left = ms;; left -= kLookMs) {
    WSAPOLLFD polled = {.fd = static_cast<SOCKET>(socket), .events = events, .revents = 0};
    const int ready = ::WSAPoll(&polled, 1, is_reading ? std::min(left, kLookMs) : left);
    if (ready != 0) return ready > 0;
    if (is_reading && HasNews(socket)) return true;
    if (!is_reading || left <= kLookMs) return false;
  }
}

void WaitForAny(std::span<const Socket> sockets) {
  std::vector<WSAPOLLFD> polled;
  for (const Socket socket : sockets) {
    polled.push_back({.fd = static_cast<SOCKET>(socket), .events = POLLRDNORM, .revents = 0});
  }
  ::WSAPoll(polled.data(), static_cast<ULONG>(polled.size()), -1);
}

// Behind ShutDown of the reading side there is the end, as on POSIX.
int64_t Receive(Socket socket, char* to, size_t most) {
  const int count = ::recv(socket, to, Length(most), 0);
  return count < 0 && ::WSAGetLastError() == WSAESHUTDOWN ? 0 : Counted(count);
}

int64_t Send(Socket socket, const char* bytes, size_t size) {
  return Counted(::send(socket, bytes, Length(size), 0));
}

PeerState StateOf(Socket socket) {
  char byte;
  const int64_t count = Counted(::recv(socket, &byte, 1, MSG_PEEK));
  return count == 0         ? PeerState::kSendsNoMore
         : count == kSocketFailed ? PeerState::kGone
                            : PeerState::kSends;
}

void ShutDown(Socket socket, Side side) {
  ::shutdown(socket, side == Side::kReading   ? SD_RECEIVE
                     : side == Side::kWriting ? SD_SEND
                                              : SD_BOTH);
}

void CloseSocket(Socket socket) { ::closesocket(socket); }

// A socket of UDP that sends to itself: WSAPoll takes sockets alone.
Waker::Waker() {
  const Socket socket = Numbered(::socket(AF_INET, SOCK_DGRAM, 0));
  if (socket == kNoSocket) return;
  Prepare(socket);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int size = sizeof address;
  auto* const general = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket, general, size) == 0 && ::getsockname(socket, general, &size) == 0 &&
      ::connect(socket, general, size) == 0) {
    socket_ = socket;
  } else {
    ::closesocket(socket);
  }
}

Waker::~Waker() {
  if (socket_ != kNoSocket) ::closesocket(socket_);
}

void Waker::Wake() { ::send(socket_, "", 1, 0); }

}  // namespace lectern::server
