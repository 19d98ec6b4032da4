// The server's open conversations, by the ids that clients have, until they are ended, idle for too
// long, or their memory is needed. And the documents that stay open for as long, so that the next
// question without a conversation finds them open.
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
    // Conversations (--max-sessions); also, apart from them, documents. At least 1.
    uint32_t max_open = 32;
    int idle_seconds = 600;  // after which an idle one ends (--session-timeout)
  };
  explicit Sessions(Options options) : options_(options) {}

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::string id, document;               // both ids; a kept document has no `id`
    std::shared_ptr<api::Session> session;  // nullptr: no answer yet
    bool is_in_use = true;
    Clock::time_point last_used = Clock::now();
  };

 public:
  // The use of a session by one request, which no other request can use meanwhile. When it is
  // destroyed, the session is idle again, or gone if it never had an answer.
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
    // nullptr: the session has no answer yet.
    const std::shared_ptr<api::Session>& session() const { return entry_->session; }
    // Says that there is an answer: follow-ups find the session once this lease has ended.
    void Keep(std::shared_ptr<api::Session> session) { entry_->session = std::move(session); }

   private:
    friend class Sessions;
    Lease(Sessions* sessions, std::shared_ptr<Entry> entry)
        : sessions_(sessions), entry_(std::move(entry)) {}
    Sessions* sessions_;
    std::shared_ptr<Entry> entry_;
  };

  // Begins a session about the document with this id, which is not looked up. Where max_open are
  // open, the one that was idle longest is ended. 503 with Retry-After: none is idle. 500: the
  // system has no randomness.
  std::variant<Lease, Refusal> Begin(std::string document);
  // Takes a session. 404: none has this id, or no longer. 409 with Retry-After: another request
  // uses it.
  std::variant<Lease, Refusal> Take(const std::string& id);

  // Each ends sessions: their ids are unknown at once; one that is in use lives until it is given
  // back. Except for End, kept documents are closed likewise.
  bool End(const std::string& id);          // false: there is no such session
  void EndOf(const std::string& document);  // all about the document with this id
  void EndAll();
  void EndExpired();  // all that were idle for more than idle_seconds
  // Frees memory: closes the document, else ends the session, that was idle longest. Documents go
  // first, because they are soon open again. False: none is idle.
  bool EndLongestIdle();

  // Whether the document with this id is kept open with this text, compared by its place in memory:
  // a document of another place was opened from files that have been replaced since. If so, it
  // counts as used now.
  bool IsKept(const std::string& document, std::string_view text);
  // Keeps a document open, by a session on it that is never asked; it takes the place of one that
  // is kept under the same id. Where max_open are kept, the one that was idle longest is closed.
  void KeepOpen(const std::string& document, std::shared_ptr<api::Session> session);
  void Close(const std::string& document);  // no longer keeps it; conversations about it stay

  // Conversations that have not ended, also those that have no answer yet; without kept documents.
  uint32_t num_open() const;

 private:
  using Entries = std::map<std::string, std::shared_ptr<Entry>>;
  // Makes the entry idle from now on; removes it if it never had an answer. Takes mutex_. Lease's
  // destructor calls it.
  void GiveBack(Entry& entry);
  static Entries::iterator LongestIdle(Entries& entries);  // with the mutex held
  // Ends the sessions and closes the kept documents for which is_meant(entry) holds, which is
  // called with mutex_ held. They are destroyed after it is let go; one that is in use when its
  // lease ends.
  template <typename IsMeant>
  void EndWhere(IsMeant is_meant);

  const Options options_;
  mutable std::mutex mutex_;
  Entries entries_;    // by id
  Entries documents_;  // by theirs
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_SESSIONS_H_
