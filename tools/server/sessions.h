// Conversations that clients go on with: sessions by id, until they are ended, idle for too long,
// or in the way of others. And documents that stay open as long for the next question without one.
#ifndef LECTERN_TOOLS_SERVER_SESSIONS_H_
#define LECTERN_TOOLS_SERVER_SESSIONS_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "engine/lectern.h"
#include "tools/server/http.h"

namespace lectern::server {

// Thread-safe. Leases must not outlive it.
class Sessions {
 public:
  struct Options {
    uint32_t max_open = 32;
    int idle_seconds = 600;
  };
  explicit Sessions(Options options) : options_(options) {}

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::string id, document;
    std::shared_ptr<api::Session> session;  // nullptr: no answer yet
    bool is_in_use = true;
    Clock::time_point last_used = Clock::now();
  };

 public:
  // A session for one request alone; idle when destroyed, or gone if it has had no answer.
  class Lease {
   public:
    Lease(Lease&& other) noexcept
        : sessions_(std::exchange(other.sessions_, nullptr)), entry_(std::move(other.entry_)) {}
    ~Lease() {
      if (sessions_) sessions_->GiveBack(*entry_);
    }
    Lease& operator=(Lease&&) = delete;

    const std::string& id() const { return entry_->id; }
    const std::string& document() const { return entry_->document; }  // its id
    const std::shared_ptr<api::Session>& session() const { return entry_->session; }
    // There is an answer: follow-ups find it.
    void Keep(std::shared_ptr<api::Session> session) { entry_->session = std::move(session); }

   private:
    friend class Sessions;
    Lease(Sessions* sessions, std::shared_ptr<Entry> entry)
        : sessions_(sessions), entry_(std::move(entry)) {}
    Sessions* sessions_;
    std::shared_ptr<Entry> entry_;
  };

  // A new one about the document with this id. Where there are max_open, the one that was idle
  // longest goes; 503 when none is idle.
  std::variant<Lease, Refusal> Begin(std::string document);
  // 404: none has this id, any more. 409: another request uses it.
  std::variant<Lease, Refusal> Take(const std::string& id);

  // A session that is in use ends when it is given back; its id is unknown at once. End returns
  // false if it was so already.
  bool End(const std::string& id);
  void EndOf(const std::string& document);
  void EndAll();
  void EndExpired();
  // Documents go first, as they are soon open again. False: none is idle.
  bool EndLongestIdle();

  // Whether the document with this id is kept open with this text, in memory: another one is of
  // files that have been replaced. If so, it stays as if it was used.
  bool IsKept(const std::string& document, std::string_view text);
  // By a session that is never asked. Where max_open are kept, the one that was idle longest goes.
  void KeepOpen(const std::string& document, std::shared_ptr<api::Session> session);
  void Close(const std::string& document);  // conversations about it stay

  uint32_t num_open() const;  // conversations

 private:
  using Entries = std::map<std::string, std::shared_ptr<Entry>>;
  void GiveBack(Entry& entry);
  static Entries::iterator LongestIdle(Entries& entries);  // with the mutex held
  template <typename IsMeant>
  void EndWhere(IsMeant is_meant);

  const Options options_;
  mutable std::mutex mutex_;
  Entries entries_;    // by id
  Entries documents_;  // by theirs
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_SESSIONS_H_
