// Reads from and writes to one client's socket, and keeps the list of all that are open.
#ifndef LECTERN_TOOLS_SERVER_CONNECTION_H_
#define LECTERN_TOOLS_SERVER_CONNECTION_H_

#include <chrono>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <string_view>

#include "tools/server/http.h"

namespace lectern::server {

using Clock = std::chrono::steady_clock;

// Reads into a buffer with deadlines; writes end when the client takes nothing for a while. Used by
// one thread, except IsGone.
class Connection : public Peer {
 public:
  // Owns `fd`. `write_ms`: how long a client may take nothing.
  Connection(int fd, int write_ms) : fd_(fd), write_ms_(write_ms) {}
  ~Connection() override;
  Connection(const Connection&) = delete;

  // Bytes that came and were not used yet; what is used is erased from its front.
  std::string& buffer() { return buffer_; }
  // Adds what comes to the buffer, at most `most` bytes. False: nothing came before the deadline,
  // or the client sends no more.
  bool Read(size_t most, Clock::time_point deadline);
  bool is_at_end() const { return is_at_end_; }  // the client sends no more
  bool Write(std::string_view bytes) const;

  // Around the time in which the answer to a request is made: whether the client still waits may be
  // asked then. Until Begin, a client of HTTP/1.1 may be sent "100 Continue".
  void Wait(int minor_version);
  void Begin();
  bool IsGone() const override;

  // Ends it such that the client comes to read what was written last, although it may still send.
  void Finish();
  int fd() const { return fd_; }

 private:
  enum class Probe { kMay, kMayNot, kSent };
  bool WaitFor(short event, int ms) const;
  bool HasLeft() const;

  const int fd_, write_ms_;
  std::string buffer_;
  bool is_at_end_ = false;
  mutable std::mutex probe_mutex_;
  mutable Probe probe_ = Probe::kMayNot;
  mutable bool is_half_closed_ = false;
  int minor_version_ = 1;
  Clock::time_point waits_since_;
};

// Thread-safe. Knows which connections wait for a request, so that these can go when the server
// stops or has too many.
class OpenConnections {
 public:
  // The time that a connection is open.
  class Scope {
   public:
    Scope(OpenConnections& all, int fd);
    ~Scope();
    Scope(const Scope&) = delete;
    void SetIdle(bool is_idle);

   private:
    OpenConnections& all_;
    std::list<int>::iterator place_;
    bool is_idle_ = false;
  };

  uint32_t count() const;
  // Ends the connection that has waited longest. A request that it sends in this moment is still
  // answered. False: none waits.
  bool EndOldestIdle();
  void EndIdle();  // all of them, and what becomes idle later
  void EndAll();   // also those whose request is being answered, at once
  bool is_ending() const;

 private:
  mutable std::mutex mutex_;
  std::list<int> busy_, idle_;  // idle: the one that has waited longest is the first
  bool is_ending_ = false;
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_CONNECTION_H_
