// Answers one question for a client of lectern-server: waits for a free place, opens the document,
// and generates the answer while it watches that the client is still there. The three formats of
// requests (ask_api.cc, chat_api.cc, responses_api.cc) all ask through it.
#ifndef LECTERN_TOOLS_SERVER_ANSWERING_H_
#define LECTERN_TOOLS_SERVER_ANSWERING_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "engine/lectern.h"
#include "tools/server/document_fetcher.h"
#include "tools/server/event_stream.h"
#include "tools/server/generation_slots.h"
#include "tools/server/http.h"
#include "tools/server/metrics.h"
#include "tools/server/sessions.h"
#include "tools/server/watch.h"

namespace lectern::server {

// How a collection is called where a document may be: "collection:NAME". No id of a document is
// like that; a document whose name is can be asked by its id.
inline constexpr std::string_view kCollectionPrefix = "collection:";
inline std::string CollectionKey(std::string_view name) {
  return std::string(kCollectionPrefix).append(name);
}
// The name of the collection that `document` means; nothing: it means a document.
inline std::optional<std::string> CollectionOf(std::string_view document) {
  if (!document.starts_with(kCollectionPrefix)) return std::nullopt;
  return std::string(document.substr(kCollectionPrefix.size()));
}

struct AnsweringOptions {
  uint32_t num_slots = 4;      // answers that are generated at the same time (--parallel); from 1
  uint32_t max_waiting = 32;   // questions that wait beyond these (--queue)
  int wait_seconds = 30;       // the longest that a question waits
  int generate_seconds = 300;  // the longest that an answer takes
  Sessions::Options sessions;
  // Paths that clients must not see: messages say "the store" and "the model" instead.
  std::string store, model;
  // Where documents come from that the store lacks; nullptr: from nowhere. Must outlive this.
  DocumentFetcher* fetcher = nullptr;
};

// Thread-safe: called from every connection's thread. `engine` must outlive it, and it must outlive
// its turns. It starts the watch's thread.
class Answering {
 public:
  Answering(api::Engine& engine, AnsweringOptions options)
      : engine_(engine),
        options_(std::move(options)),
        sessions_(options_.sessions),
        slots_(options_.num_slots, options_.max_waiting) {}

  // One question that has its slot and may be generated now. Used by one thread; only the watch
  // calls Cancel. It holds the slot until it is destroyed.
  class Turn {
   public:
    // Generates the answer; blocks up to generate_seconds. `on_text` and `on_reasoning` as in
    // api::AskOptions, called on this thread; either may be empty. `events`, which may be nullptr,
    // gets a sign of life while there is nothing to send. The alternative is an error that is ready
    // to be sent: 504 deadline, 503 stopping, 499 cancelled (the client is gone, or a callback
    // returned false), or the engine's (ErrorResponse). Counts the answer, or its cancellation, in
    // the metrics. Afterwards the next request may use the session; one that was new ends unless it
    // has an answer. Without a session it may be called again, for another answer to the same
    // question, drawn with the next seed.
    // `on_index`: while a document of a collection is indexed for its first question; may be empty.
    std::variant<api::Answer, HttpResponse> Generate(
        const std::function<bool(std::string_view)>& on_text, EventStream* events,
        const std::function<bool(std::string_view)>& on_reasoning = {},
        const std::function<bool(const api::CollectionProgress&)>& on_index = {});
    const std::string& session_id() const { return session_id_; }  // empty: it has none

   private:
    friend class Answering;
    api::Result<api::Done> Open();  // opens session_ if it is not open
    void Close();                   // frees the document's memory, unless it is a conversation's
    void Cancel();                  // any thread
    // Ends the use of the session, and keeps what is worth keeping. Called before the client gets
    // the end of the answer, because its next question may follow at once.
    void GiveBack(bool is_answered);
    // Repeats `attempt` until it no longer fails for want of memory (--max-ram). Each time it makes
    // room: it ends an idle session; if there is none, this turn gets in line, where the first one
    // waits for running answers to end. Turns in line hold no document, except a conversation's.
    // LECTERN_OUT_OF_MEMORY: no answer runs that could free memory, or `give_up` says so.
    template <typename Attempt>
    std::invoke_result_t<Attempt> MakingRoom(Attempt attempt, const std::function<bool()>& give_up);
    // One step of that. False: there is no room to be made, and the attempt's error stands.
    bool MakeRoom(bool was_last, const std::function<bool()>& give_up);
    bool GetInLine(const std::function<bool()>& give_up);  // false: gave up
    bool IsLast() const;  // this turn is first in line, and all others that run are in line too
    Turn(Answering& answering, GenerationSlots::Slot slot, std::optional<Sessions::Lease> lease,
         std::string document, std::string question, api::AskOptions options,
         const HttpRequest& request, std::chrono::steady_clock::time_point wait_until)
        : answering_(answering),
          slot_(std::move(slot)),
          session_id_(lease ? lease->id() : ""),
          lease_(std::move(lease)),
          document_(std::move(document)),
          session_(lease_ ? lease_->session() : nullptr),
          question_(std::move(question)),
          options_(std::move(options)),
          request_(request),
          wait_until_(wait_until) {}
    Answering& answering_;
    GenerationSlots::Slot slot_;
    const std::string session_id_;
    std::optional<Sessions::Lease> lease_;
    const std::string document_;  // its id, or the key of a collection
    std::mutex session_mutex_;    // guards changing session_, which Cancel reads
    std::shared_ptr<api::Session> session_;
    std::optional<GenerationSlots::Slot> place_in_line_;  // of line_, while this is the first there
    const std::string question_;
    api::AskOptions options_;
    bool has_text_ = false;  // the client has seen some: the answer cannot begin again
    const HttpRequest& request_;
    const std::chrono::steady_clock::time_point wait_until_;  // for a slot and for memory
  };
  // Finds the document, waits for a slot, up to wait_seconds, and opens the document. The
  // alternative is the response to be sent instead: 503 overloaded with Retry-After (also where the
  // client is gone, or where every session is in use), 503 stopping, 404 for a document or session
  // that is not there, 409 for a session in use, 400 for a session about another document, 500
  // without randomness for a session's id, or an error of Engine::Find or Open (ErrorResponse).
  // `document`: a name or an id, or CollectionKey of a collection; empty: the session's, else the
  // only one. `session`: empty, an id, or kNewSession, whose id the client learns with its first
  // answer. `request`, with its peer, must outlive the turn.
  std::variant<std::shared_ptr<Turn>, HttpResponse> Begin(const std::string& document,
                                                          std::string question,
                                                          api::AskOptions options,
                                                          const HttpRequest& request,
                                                          const std::string& session = {});
  static constexpr char kNewSession[] = "new";  // cannot be an id: those are hex digits

  // Runs `attempt`, for requests that generate nothing. Where memory does not suffice, it closes a
  // kept document, else ends an idle session, and runs it again; OUT_OF_MEMORY where none is left.
  template <typename Attempt>
  std::invoke_result_t<Attempt> WithRoom(Attempt attempt) {
    for (;;) {  // each round ends one idle session, so that this ends
      auto result = attempt();
      const bool is_full = !result.ok() && result.error().code == LECTERN_OUT_OF_MEMORY;
      if (!is_full || !sessions_.EndLongestIdle()) return result;
    }
  }
  // Opens a document as Engine::Open does, or a collection by its key, WithRoom.
  api::Result<api::Session> Open(const std::string& document) {
    return WithRoom([&] { return OpenOnce(document); });
  }

  // Engine::Find, and where the store lacks the document, it is fetched; blocks for as long as that
  // takes. Errors of DocumentFetcher::Fetch beside those of Find.
  api::Result<api::Document> Find(const std::string& document);

  // Returns the name of a document that is given by its name or id; `document` itself where it has
  // none or is not found.
  std::string DocumentName(const std::string& document);

  // An error of the engine as a response to `request`: without this machine's paths, for OpenAI's
  // endpoints with OpenAI's names of fields and codes, and for OUT_OF_MEMORY with a Retry-After.
  HttpResponse ErrorResponse(const api::Error& error, const HttpRequest& request) const;

  api::Engine& engine() { return engine_; }
  Metrics& metrics() { return metrics_; }
  Watch& watch() { return watch_; }
  Sessions& sessions() { return sessions_; }
  GenerationSlots::Load load() const { return slots_.load(); }

 private:
  api::Result<api::Session> OpenOnce(const std::string& document);
  // Tells the fetcher that a document, by its id, is open while `session` lives.
  void NoteOpen(const std::string& document, const std::shared_ptr<api::Session>& session);
  // The id of a document, or the key of a collection that is there. Codes of Engine::Find, and of
  // OpenCollection.
  api::Result<std::string> Resolve(const std::string& document);
  HttpResponse BusyResponse(const HttpRequest& request) const;  // 503: no slot came free in time
  // Keeps the document of `session`, whose id this is, open for questions to come, which then find
  // it verified and on the device. Failing to do so is no error.
  void KeepOpen(const std::string& document, const api::Session& session);
  // Begins or takes a session; the alternative is the response to send instead.
  std::variant<Sessions::Lease, HttpResponse> TakeSession(const std::string& session,
                                                          const std::string& document,
                                                          const HttpRequest& request);

  api::Engine& engine_;
  const AnsweringOptions options_;
  Metrics metrics_;
  Watch watch_;
  Sessions sessions_;
  const Watch::Scope upkeep_{watch_,
                             {.deadline = std::chrono::steady_clock::time_point::max(),
                              .cancel = [this] { sessions_.EndAll(); },
                              .tick = [this] { sessions_.EndExpired(); }}};
  GenerationSlots slots_;
  GenerationSlots line_{1, ~0u};  // turns that have a slot but no memory; the first one tries
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_ANSWERING_H_
