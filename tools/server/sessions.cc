#include "tools/server/sessions.h"

#include <vector>

#include "tools/server/random_id.h"

namespace lectern::server {

// end() where none is idle.
Sessions::Entries::iterator Sessions::LongestIdle(Entries& entries) {
  auto longest = entries.end();
  for (auto at = entries.begin(); at != entries.end(); ++at) {
    if (at->second->is_in_use) continue;
    if (longest == entries.end() || at->second->last_used < longest->second->last_used) {
      longest = at;
    }
  }
  return longest;
}

std::variant<Sessions::Lease, Refusal> Sessions::Begin(std::string document) {
  auto id = RandomId();
  if (!id) return Refusal{500, "internal", "the system has no randomness for a session's id"};
  auto entry = std::make_shared<Entry>();
  entry->id = *id;
  entry->document = std::move(document);
  // Declared before the lock, so that it is destroyed after it: closing a document takes a while.
  Entries::node_type ended;
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= options_.max_open) {
    const auto longest = LongestIdle(entries_);
    if (longest == entries_.end()) {
      return Refusal{.status = 503,
                     .code = "overloaded",
                     .message = "all sessions are in use; ask without one, or try again later",
                     .param = "session",
                     .retry_after = 1};
    }
    ended = entries_.extract(longest);
  }
  entries_.emplace(*std::move(id), entry);
  return Lease(this, std::move(entry));
}

std::variant<Sessions::Lease, Refusal> Sessions::Take(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) {
    return Refusal{.status = 404,
                   .code = "not_found",
                   .message = "there is no such session: it was ended, idle for more than " +
                              std::to_string(options_.idle_seconds) +
                              " seconds, or had to make room; begin one with \"session\": \"new\"",
                   .param = "session"};
  }
  if (std::exchange(found->second->is_in_use, true)) {
    return Refusal{.status = 409,
                   .code = "session_in_use",
                   .message = "this session is answering another request; wait for its end",
                   .param = "session",
                   .retry_after = 1};
  }
  return Lease(this, found->second);
}

void Sessions::GiveBack(Entry& entry) {
  const std::lock_guard lock(mutex_);
  entry.is_in_use = false;
  entry.last_used = Clock::now();
  if (!entry.session) entries_.erase(entry.id);
}

bool Sessions::End(const std::string& id) {
  Entries::node_type ended;
  const std::lock_guard lock(mutex_);
  ended = entries_.extract(id);
  return !ended.empty();
}

template <typename IsMeant>
void Sessions::EndWhere(IsMeant is_meant) {
  std::vector<Entries::node_type> ended;
  const std::lock_guard lock(mutex_);
  for (Entries* const entries : {&entries_, &documents_}) {
    for (auto at = entries->begin(); at != entries->end();) {
      const auto next = std::next(at);
      if (is_meant(*at->second)) ended.push_back(entries->extract(at));
      at = next;
    }
  }
}

void Sessions::EndOf(const std::string& document) {
  EndWhere([&](const Entry& entry) { return entry.document == document; });
}

void Sessions::EndAll() {
  EndWhere([](const Entry&) { return true; });
}

void Sessions::EndExpired() {
  const auto since = Clock::now() - std::chrono::seconds(options_.idle_seconds);
  EndWhere([&](const Entry& entry) { return !entry.is_in_use && entry.last_used < since; });
}

bool Sessions::EndLongestIdle() {
  Entries::node_type ended;
  const std::lock_guard lock(mutex_);
  for (Entries* const entries : {&documents_, &entries_}) {
    const auto longest = LongestIdle(*entries);
    if (longest == entries->end()) continue;
    ended = entries->extract(longest);
    return true;
  }
  return false;
}

bool Sessions::IsKept(const std::string& document, std::string_view text) {
  const std::lock_guard lock(mutex_);
  const auto found = documents_.find(document);
  if (found == documents_.end() || found->second->session->text().data() != text.data()) {
    return false;
  }
  found->second->last_used = Clock::now();
  return true;
}

void Sessions::KeepOpen(const std::string& document, std::shared_ptr<api::Session> session) {
  auto entry = std::make_shared<Entry>();
  entry->document = document;
  entry->session = std::move(session);
  entry->is_in_use = false;
  Entries::node_type before, longest;  // outlive the lock
  const std::lock_guard lock(mutex_);
  before = documents_.extract(document);
  if (documents_.size() >= options_.max_open) longest = documents_.extract(LongestIdle(documents_));
  documents_.emplace(document, std::move(entry));
}

void Sessions::Close(const std::string& document) {
  Entries::node_type closed;
  const std::lock_guard lock(mutex_);
  closed = documents_.extract(document);
}

uint32_t Sessions::num_open() const {
  const std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(entries_.size());
}

}  // namespace lectern::server
