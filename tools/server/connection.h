// One client's TCP connection: reading and writing with deadlines, and finding out whether the
// client is still there. And the list of all open connections, by which the server ends them.
#ifndef LECTERN_TOOLS_SERVER_CONNECTION_H_
#define LECTERN_TOOLS_SERVER_CONNECTION_H_

#include <chrono>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <string_view>

#include "tools/server/http.h"
#include "tools/server/sockets.h"

namespace lectern::server {

using Clock = std::chrono::steady_clock;

// Reads into a buffer with deadlines; writes fail when the client takes nothing for a while. Used
// by one thread, except IsGone, which any thread may call.
class Connection : public Peer {
 public:
  // Owns `socket`. `write_ms`: how long a client may take nothing.
  Connection(Socket socket, int write_ms) : socket_(socket), write_ms_(write_ms) {}
  ~Connection() override;
  Connection(const Connection&) = delete;

  // The bytes that have come and were not used yet. The caller erases those it uses from the front.
  std::string& buffer() { return buffer_; }
  // Waits for bytes and adds them to the buffer, at most `most` (1 or more). False: nothing came
  // before the deadline, the client sends no more (is_at_end), or the connection failed. Bytes that
  // are there are read even after the deadline.
  bool Read(size_t most, Clock::time_point deadline);
  bool is_at_end() const { return is_at_end_; }  // the client sends no more
  // Writes all bytes; empty: does nothing. False: the connection failed, or the client took none
  // for `write_ms`; a part may have been sent.
  bool Write(std::string_view bytes) const;

  // Whether the socket takes bytes now. Linux says so once a third of its memory is free, and a few
  // bytes fit there in one piece.
  bool IsReadyToWrite() const { return WaitFor(socket_, SocketEvent::kCanWrite, 0); }

  // Wait: the request has been read and its answer is being made; Begin: the answer's first bytes
  // follow. Between the two IsGone may send a client of HTTP/1.1 "100 Continue", to find out
  // whether it still waits. `minor_version`: of the request's HTTP/1.
  void Wait(int minor_version);
  void Begin();
  bool IsGone() const override;

  // Ends the connection such that the client can read our last answer, although it may still be
  // sending: closing a socket with unread bytes resets it, and the client may lose our answer.
  // Reads and drops these bytes for up to 2 s. The destructor closes the socket.
  void Finish();

 private:
  enum class Probe { kMay, kMayNot, kSent };  // whether "100 Continue" may be sent
  // Decides for IsGone whether a client that sends no more has left, or only waits for the answer.
  // True only with HTTP/1.0, if it ended its sending 1 s or more after Wait. To HTTP/1.1 it sends
  // "100 Continue" once, between Wait and Begin, and says false: a closed connection answers with
  // a reset, which the next poll sees. Takes probe_mutex_.
  bool HasLeft() const;

  const Socket socket_;
  const int write_ms_;
  std::string buffer_;
  bool is_at_end_ = false;
  mutable std::mutex probe_mutex_;  // guards all below
  mutable Probe probe_ = Probe::kMayNot;
  mutable bool is_half_closed_ = false;
  int minor_version_ = 1;
  Clock::time_point waits_since_;
};

// All open connections of a server. It knows which ones wait for a request, so that these can be
// ended when the server stops or has too many. Thread-safe.
class OpenConnections {
 public:
  // Registers a connection as long as it exists; destroy it before the socket is closed, whose
  // number another one could get.
  class Scope {
   public:
    Scope(OpenConnections& all, Socket socket);
    ~Scope();
    Scope(const Scope&) = delete;
    void SetIdle(bool is_idle);  // whether it waits for a request

   private:
    OpenConnections& all_;
    std::list<Socket>::iterator place_;
    bool is_idle_ = false;
  };

  uint32_t count() const;
  // Ends the connection that has waited longest, by shutting down its reading side; it stays in the
  // list until its thread sees that. A request that it sends in this moment is still answered.
  // Called again, it takes the next one. False: none waits.
  bool EndOldestIdle();
  void EndIdle();  // all of them, and what becomes idle later
  void EndAll();   // also those whose request is being answered, at once
  bool is_ending() const;  // EndIdle or EndAll was called

 private:
  mutable std::mutex mutex_;
  std::list<Socket> busy_, idle_;  // idle: the one that has waited longest is the first
  bool is_ending_ = false;
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_CONNECTION_H_
