// Answers a question for a client: opens the document, takes a slot, and generates the answer while
// it watches whether the client is still there.
#ifndef LECTERN_TOOLS_SERVER_ANSWERING_H_
#define LECTERN_TOOLS_SERVER_ANSWERING_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include "engine/lectern.h"
#include "tools/server/event_stream.h"
#include "tools/server/generation_slots.h"
#include "tools/server/http.h"
#include "tools/server/metrics.h"
#include "tools/server/sessions.h"
#include "tools/server/watch.h"

namespace lectern::server {

struct AnsweringOptions {
  uint32_t num_slots = 4, max_waiting = 32;
  int wait_seconds = 30, generate_seconds = 300;
  Sessions::Options sessions;
  // Never told to clients: replaced in messages.
  std::string store, model;
};

class Answering {
 public:
  Answering(api::Engine& engine, AnsweringOptions options)
      : engine_(engine),
        options_(std::move(options)),
        sessions_(options_.sessions),
        slots_(options_.num_slots, options_.max_waiting) {}

  // One question that may be generated now.
  class Turn {
   public:
    // `on_text` as api::AskOptions::on_text; `events` is kept alive meanwhile, may be nullptr. An
    // error is already for the client. Afterwards the next request may use the session; where there
    // is none, it may be called again for another answer, which is drawn with the next seed.
    std::variant<api::Answer, HttpResponse> Generate(
        const std::function<bool(std::string_view)>& on_text, EventStream* events,
        const std::function<bool(std::string_view)>& on_reasoning = {});
    const std::string& session_id() const { return session_id_; }  // empty: it has none

   private:
    friend class Answering;
    api::Result<api::Done> Open();  // where it is not
    void Close();                   // where it can be opened again
    void Cancel();                  // any thread
    // Before the client is told: its next question may follow at once.
    void GiveBack(bool is_answered);
    // Does `attempt` until it has the memory that it needs: idle sessions go; then this turn gets
    // in line, whose first one waits for others to end. Those in line hold no document, but for a
    // conversation's. LECTERN_OUT_OF_MEMORY: nobody is left to wait for, or `give_up` says so.
    template <typename Attempt>
    std::invoke_result_t<Attempt> MakingRoom(Attempt attempt, const std::function<bool()>& give_up);
    bool MakeRoom(bool was_last, const std::function<bool()>& give_up);  // false: there is none
    bool GetInLine(const std::function<bool()>& give_up);
    bool IsLast() const;  // first in line, and nobody runs who is not in line
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
    const std::string document_;  // its id
    std::mutex session_mutex_;    // guards changing session_, which Cancel reads
    std::shared_ptr<api::Session> session_;
    std::optional<GenerationSlots::Slot> place_in_line_;
    const std::string question_;
    api::AskOptions options_;
    bool has_text_ = false;  // the client has seen some
    const HttpRequest& request_;
    const std::chrono::steady_clock::time_point wait_until_;
  };
  // Waits for a slot. Otherwise the answer to a client that came at a bad time or asks for what is
  // not there. `session`: empty, an id, or kNewSession, of which an id comes when its first
  // question is answered. `request` must outlive the turn.
  std::variant<std::shared_ptr<Turn>, HttpResponse> Begin(const std::string& document,
                                                          std::string question,
                                                          api::AskOptions options,
                                                          const HttpRequest& request,
                                                          const std::string& session = {});
  static constexpr char kNewSession[] = "new";  // no id: those are hex digits

  // Opens a document as Engine::Open does; if memory does not suffice, idle sessions are ended for
  // it.
  api::Result<api::Session> Open(const std::string& document);

  // Returns the name of a document that is given by name or id; `document` itself where it has
  // none.
  std::string DocumentName(const std::string& document);

  HttpResponse ErrorResponse(const api::Error& error, const HttpRequest& request) const;

  api::Engine& engine() { return engine_; }
  Metrics& metrics() { return metrics_; }
  Watch& watch() { return watch_; }
  Sessions& sessions() { return sessions_; }
  GenerationSlots::Load load() const { return slots_.load(); }

 private:
  HttpResponse BusyResponse(const HttpRequest& request) const;
  // The document with this id, about which `session` is, for questions to come: they find it
  // verified, and on the device.
  void KeepOpen(const std::string& document, const api::Session& session);
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
  GenerationSlots line_{1, ~0u};  // of those who have a slot and no memory; its first one tries
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_ANSWERING_H_
