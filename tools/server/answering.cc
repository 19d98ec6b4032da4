#include "tools/server/answering.h"

#include <thread>

#include "engine/model/formats/json.h"
#include "engine/requests/report_json.h"
#include "tools/server/messages.h"

namespace lectern::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kTryAgain = std::chrono::milliseconds(50);  // between two tries of the first in line

// The error that a client gets for an answer that was ended. 499 is nginx's code for a client that
// is gone; it is only counted, because nobody reads it.
Refusal WhyEnded(EndedBy ended_by) {
  if (ended_by == EndedBy::kDeadline) {
    return {504, "deadline", "the answer took too long; ask for fewer tokens"};
  }
  if (ended_by == EndedBy::kServer) return {503, "stopping", "the server is stopping"};
  return {499, "cancelled", "the client went away"};
}

}  // namespace

HttpResponse RefusalResponse(const Refusal& refusal, std::string_view request_id) {
  const bool is_retryable =
      refusal.status == 429 || refusal.status == 503 || refusal.retry_after > 0;
  HttpResponse response;
  response.status = refusal.status;
  response.body =
      Json(Json::Object{
               {"error",
                Json::Object{
                    {"message", refusal.message},
                    {"type", refusal.status < 500 ? "invalid_request_error" : "server_error"},
                    {"param", refusal.param.empty() ? Json() : Json(refusal.param)},
                    {"code", refusal.code},
                    {"request_id", std::string(request_id)},
                    {"retryable", is_retryable},
                }},
           })
          .Dump();
  if (!refusal.allow.empty()) response.headers.emplace_back("Allow", refusal.allow);
  if (refusal.retry_after > 0) {
    response.headers.emplace_back("Retry-After", std::to_string(refusal.retry_after));
  }
  return response;
}

namespace {

// Whether clients of OpenAI's API read the response.
bool IsOpenAis(std::string_view path) {
  return path == "/v1/chat/completions" || path == "/v1/responses" ||
         path.starts_with("/v1/models");
}

// The field of OpenAI's request that an option of the engine comes from. `said`: the field with the
// messages.
std::string FieldOf(std::string param, std::string_view said) {
  if (param == "document" || param == "collection") return "model";
  if (param == "stop_texts") return "stop";
  const bool is_said = param == "question" || param == "turns" || param == "instructions";
  return is_said ? std::string(said) : param;
}

}  // namespace

HttpResponse Answering::ErrorResponse(const api::Error& error, const HttpRequest& request) const {
  const auto code = static_cast<Code>(error.code);
  api::Error told = WithoutPaths(error, options_.store, options_.model);
  if (IsOpenAis(request.head.path)) {
    const char* const said = request.head.path == "/v1/responses" ? "input" : "messages";
    told.param = FieldOf(std::move(told.param), said);
    // By this name clients know that they have to shorten the conversation.
    if (code == Code::kContextTooLong) {
      return RefusalResponse({.status = 400,
                              .code = "context_length_exceeded",
                              .message = std::move(told.message),
                              .param = said},
                             request.request_id);
    }
  }
  HttpResponse response;
  response.status = HttpStatus(code);
  response.body = ErrorJson(Status(code, std::move(told.message)).WithParam(std::move(told.param)),
                            request.request_id);
  if (code == Code::kOutOfMemory) {
    response.headers.emplace_back("Retry-After", std::to_string(slots_.RetryAfterSeconds()));
  }
  return response;
}

std::string Answering::DocumentName(const std::string& document) {
  auto found = engine_.Find(document);
  return found.ok() && !found->name.empty() ? found->name : document;
}

api::Result<api::Document> Answering::Find(const std::string& document) {
  auto found = engine_.Find(document);
  DocumentFetcher* const fetcher = options_.fetcher;
  if (!fetcher) return found;
  if (found.ok()) {
    fetcher->Used(found->id);
    return found;
  }
  if (found.error().code != LECTERN_NOT_FOUND || document.empty()) return found;
  const auto fetched = fetcher->Fetch(document, [this] { return watch_.is_ending_all(); });
  if (fetched.ok()) return engine_.Find(document);
  return fetched.error().code == LECTERN_NOT_FOUND ? found : fetched.error();
}

// A document that is not there any more was removed from the cache while the question waited.
api::Result<api::Session> Answering::OpenOnce(const std::string& document) {
  if (const auto collection = CollectionOf(document)) return engine_.OpenCollection(*collection);
  auto opened = engine_.Open(document);
  if (opened.ok() || opened.error().code != LECTERN_NOT_FOUND || !options_.fetcher) return opened;
  if (auto found = Find(document); !found.ok()) return found.error();
  return engine_.Open(document);
}

void Answering::NoteOpen(const std::string& document,
                         const std::shared_ptr<api::Session>& session) {
  if (options_.fetcher) options_.fetcher->Opened(document, session);
}

api::Result<std::string> Answering::Resolve(const std::string& document) {
  if (CollectionOf(document)) {
    auto opened = OpenOnce(document);
    if (!opened.ok()) return opened.error();
    return document;
  }
  auto found = Find(document);
  if (!found.ok()) return found.error();
  return found->id;
}

HttpResponse Answering::BusyResponse(const HttpRequest& request) const {
  return RefusalResponse({.status = 503,
                          .code = "overloaded",
                          .message = "all places are taken; try again later",
                          .retry_after = slots_.RetryAfterSeconds()},
                         request.request_id);
}

void Answering::KeepOpen(const std::string& document, const api::Session& session) {
  if (sessions_.IsKept(document, session.text())) return;
  auto kept = engine_.Open(document);
  if (!kept.ok()) return;
  const auto session_kept = std::make_shared<api::Session>(std::move(*kept));
  NoteOpen(document, session_kept);
  sessions_.KeepOpen(document, session_kept);
}

std::variant<Sessions::Lease, HttpResponse> Answering::TakeSession(const std::string& session,
                                                                   const std::string& document,
                                                                   const HttpRequest& request) {
  const auto refused = [&](const Refusal& refusal) {
    return RefusalResponse(refusal, request.request_id);
  };
  if (session == kNewSession) {
    auto found = Resolve(document);
    if (!found.ok()) return ErrorResponse(found.error(), request);
    auto begun = sessions_.Begin(*found);
    if (const auto* const refusal = std::get_if<Refusal>(&begun)) return refused(*refusal);
    return std::get<Sessions::Lease>(std::move(begun));
  }
  auto taken = sessions_.Take(session);
  if (const auto* const refusal = std::get_if<Refusal>(&taken)) return refused(*refusal);
  Sessions::Lease lease = std::get<Sessions::Lease>(std::move(taken));
  // Also where it is clear which one: another process may have removed it.
  auto found = Resolve(document.empty() ? lease.document() : document);
  if (!found.ok()) {
    if (document.empty() && found.error().code == LECTERN_NOT_FOUND) sessions_.End(session);
    return ErrorResponse(found.error(), request);
  }
  if (*found != lease.document()) {
    return refused({.status = 400,
                    .code = "invalid_argument",
                    .message = "this session is about another document or collection; leave it "
                               "out, or begin a session with \"session\": \"new\"",
                    .param = "document"});
  }
  return lease;
}

std::variant<std::shared_ptr<Answering::Turn>, HttpResponse> Answering::Begin(
    const std::string& document, std::string question, api::AskOptions options,
    const HttpRequest& request, const std::string& session_id) {
  std::optional<Sessions::Lease> lease;
  std::string id;  // of the document: a request that waits holds no more of it
  if (!session_id.empty()) {
    auto taken = TakeSession(session_id, document, request);
    if (auto* const refused = std::get_if<HttpResponse>(&taken)) return std::move(*refused);
    lease.emplace(std::get<Sessions::Lease>(std::move(taken)));
    id = lease->document();
  } else {
    auto found = Resolve(document);
    if (!found.ok()) return ErrorResponse(found.error(), request);
    id = *found;
  }
  const auto deadline = Clock::now() + std::chrono::seconds(options_.wait_seconds);
  const auto give_up = [&] {
    return Clock::now() > deadline || request.peer->IsGone() || watch_.is_ending_all();
  };
  auto slot = slots_.Take(give_up);
  if (!std::holds_alternative<GenerationSlots::Slot>(slot)) {
    if (watch_.is_ending_all()) {
      return RefusalResponse(WhyEnded(EndedBy::kServer), request.request_id);
    }
    return BusyResponse(request);
  }
  const std::shared_ptr<Turn> turn(new Turn(*this, std::move(std::get<GenerationSlots::Slot>(slot)),
                                            std::move(lease), std::move(id), std::move(question),
                                            std::move(options), request, deadline));
  auto opened = turn->MakingRoom([&] { return turn->Open(); }, give_up);
  if (!opened.ok()) return ErrorResponse(opened.error(), request);
  return turn;
}

api::Result<api::Done> Answering::Turn::Open() {
  if (session_) return api::Done{};
  auto opened = answering_.OpenOnce(document_);
  if (!opened.ok()) return opened.error();
  const std::lock_guard lock(session_mutex_);
  session_ = std::make_shared<api::Session>(std::move(*opened));
  answering_.NoteOpen(document_, session_);
  return api::Done{};
}

void Answering::Turn::Close() {
  if (lease_ && lease_->session()) return;  // a conversation stays
  std::shared_ptr<api::Session> closed;     // outlives the lock: closing a document takes a while
  const std::lock_guard lock(session_mutex_);
  closed = std::move(session_);
}

void Answering::Turn::Cancel() {
  const std::lock_guard lock(session_mutex_);
  if (session_) session_->Cancel();
}

void Answering::Turn::GiveBack(bool is_answered) {
  std::shared_ptr<api::Session> session;
  {
    const std::lock_guard lock(session_mutex_);  // Cancel must not meet its next question
    session = std::move(session_);
  }
  // If the answer failed, nobody would learn a new session's id, so only sessions that answered are
  // kept. An old one goes on from what was said.
  if (lease_ && is_answered) lease_->Keep(std::move(session));
  // The engine keeps the documents of collections open itself.
  const bool is_one = !CollectionOf(document_);
  if (!lease_ && is_answered && is_one) answering_.KeepOpen(document_, *session);
  session.reset();
  lease_.reset();
}

// The document is closed first: turns that wait must not keep from others the memory they wait for.
bool Answering::Turn::GetInLine(const std::function<bool()>& give_up) {
  Close();
  auto place = answering_.line_.Take(give_up);
  if (!std::holds_alternative<GenerationSlots::Slot>(place)) return false;
  place_in_line_.emplace(std::get<GenerationSlots::Slot>(std::move(place)));
  return true;
}

bool Answering::Turn::IsLast() const {
  return place_in_line_ && answering_.slots_.load().running <= 1 + answering_.line_.load().waiting;
}

bool Answering::Turn::MakeRoom(bool was_last, const std::function<bool()>& give_up) {
  if (answering_.sessions_.EndLongestIdle()) return true;
  // Was it the last, nothing that could end holds memory: the next try would fail as this one did.
  if (was_last || give_up()) return false;
  if (!place_in_line_) return GetInLine(give_up);
  Close();
  std::this_thread::sleep_for(kTryAgain);
  return true;
}

template <typename Attempt>
std::invoke_result_t<Attempt> Answering::Turn::MakingRoom(Attempt attempt,
                                                          const std::function<bool()>& give_up) {
  // A turn that comes now gets behind those in line: they have waited for longer.
  if (!place_in_line_ && answering_.line_.load().running > 0) GetInLine(give_up);
  for (;;) {
    // Asked before the attempt: an answer that ends during it may leave room for the next one.
    const bool is_last = IsLast();
    auto result = attempt();
    const bool is_full = !result.ok() && result.error().code == LECTERN_OUT_OF_MEMORY;
    if (!is_full || has_text_ || !MakeRoom(is_last, give_up)) return result;
  }
}

std::variant<api::Answer, HttpResponse> Answering::Turn::Generate(
    const std::function<bool(std::string_view)>& on_text, EventStream* events,
    const std::function<bool(std::string_view)>& on_reasoning,
    const std::function<bool(const api::CollectionProgress&)>& on_index) {
  const Watch::Scope scope(
      answering_.watch_,
      {.peer = request_.peer,
       .deadline = Clock::now() + std::chrono::seconds(answering_.options_.generate_seconds),
       .cancel = [this] { Cancel(); },
       .tick =
           [events] {
             if (events) events->KeepAlive();
           }});
  const auto tell = [&](const std::function<bool(std::string_view)>& client) {
    return [&](std::string_view piece) {
      has_text_ = true;
      place_in_line_.reset();  // with the first text it has all the memory that it will need
      return scope.ended_by() == EndedBy::kNothing && !request_.peer->IsGone() &&
             (!client || client(piece));
    };
  };
  has_text_ = false;
  options_.on_text = tell(on_text);
  options_.on_reasoning = tell(on_reasoning);
  options_.on_index = [&](const api::CollectionProgress& progress) {
    return scope.ended_by() == EndedBy::kNothing && !request_.peer->IsGone() &&
           (!on_index || on_index(progress));
  };
  options_.on_part = [&](uint64_t, uint64_t) {
    return scope.ended_by() == EndedBy::kNothing && !request_.peer->IsGone();
  };
  auto answer = MakingRoom(
      [&]() -> api::Result<api::Answer> {
        if (auto opened = Open(); !opened.ok()) return opened.error();
        return session_->Ask(question_, options_);
      },
      [&] { return scope.ended_by() != EndedBy::kNothing || Clock::now() > wait_until_; });
  place_in_line_.reset();
  const bool is_ended = scope.ended_by() != EndedBy::kNothing ||
                        (answer.ok() && answer->finish_reason() == "cancelled");
  GiveBack(answer.ok() && !is_ended);
  ++options_.seed;
  if (is_ended) {
    answering_.metrics_.CountCancelled(answer.ok() ? answer->receipt().answer_tokens : 0);
    return RefusalResponse(WhyEnded(scope.ended_by()), request_.request_id);
  }
  if (!answer.ok()) return answering_.ErrorResponse(answer.error(), request_);
  const lectern_receipt receipt = answer->receipt();
  answering_.metrics_.CountAnswer({.question_tokens = receipt.question_tokens,
                                   .answer_tokens = receipt.answer_tokens,
                                   .bytes_read = receipt.bytes_read,
                                   .first_token_seconds = receipt.first_token_ms / 1000,
                                   .total_seconds = receipt.total_ms / 1000});
  return std::move(*answer);
}

}  // namespace lectern::server
