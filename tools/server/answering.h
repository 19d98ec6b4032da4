// A question on its way: document opened, slot taken, generated under watch.
#ifndef LECTERN_TOOLS_SERVER_ANSWERING_H_
#define LECTERN_TOOLS_SERVER_ANSWERING_H_

#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "engine/lectern.h"
#include "tools/server/event_stream.h"
#include "tools/server/generation_slots.h"
#include "tools/server/http.h"
#include "tools/server/metrics.h"
#include "tools/server/watch.h"

namespace lectern::server {

struct AnsweringOptions {
  uint32_t num_slots = 2, max_waiting = 32;
  int wait_seconds = 30, generate_seconds = 300;
  // Never told to clients: replaced in messages.
  std::string store, model;
};

class Answering {
 public:
  Answering(api::Engine& engine, AnsweringOptions options)
      : engine_(engine),
        options_(std::move(options)),
        slots_(options_.num_slots, options_.max_waiting) {}

  // One question that may be generated now.
  class Turn {
   public:
    // Once. `on_text` as api::AskOptions::on_text; `events` is kept alive meanwhile, may be
    // nullptr. An error is already for the client.
    std::variant<api::Answer, HttpResponse> Generate(
        const std::function<bool(std::string_view)>& on_text, EventStream* events);
    std::string_view text() const { return session_.text(); }  // of the document

   private:
    friend class Answering;
    Turn(Answering& answering, GenerationSlots::Slot slot, api::Session session,
         std::string question, api::AskOptions options, const HttpRequest& request)
        : answering_(answering),
          slot_(std::move(slot)),
          session_(std::move(session)),
          question_(std::move(question)),
          options_(std::move(options)),
          request_(request) {}
    Answering& answering_;
    GenerationSlots::Slot slot_;
    api::Session session_;
    const std::string question_;
    api::AskOptions options_;
    const HttpRequest& request_;
  };
  // Waits for a slot. Otherwise the answer to a client that came at a bad time or asks for what is
  // not there. `request` must outlive the turn.
  std::variant<std::shared_ptr<Turn>, HttpResponse> Begin(const std::string& document,
                                                          std::string question,
                                                          api::AskOptions options,
                                                          const HttpRequest& request);

  // Of a document by name or id; `document` itself where it has none.
  std::string DocumentName(const std::string& document);

  HttpResponse ErrorResponse(const api::Error& error, const HttpRequest& request) const;

  api::Engine& engine() { return engine_; }
  Metrics& metrics() { return metrics_; }
  Watch& watch() { return watch_; }
  GenerationSlots::Load load() const { return slots_.load(); }

 private:
  HttpResponse BusyResponse(const HttpRequest& request) const;

  api::Engine& engine_;
  const AnsweringOptions options_;
  Metrics metrics_;
  Watch watch_;
  GenerationSlots slots_;
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_ANSWERING_H_
