#include "tools/server/answering.h"

#include "engine/json.h"
#include "engine/report_json.h"
#include "tools/server/messages.h"

namespace lectern::server {
namespace {

using Clock = std::chrono::steady_clock;

Refusal WhyEnded(EndedBy ended_by) {
  if (ended_by == EndedBy::kDeadline) {
    return {504, "deadline", "the answer took too long; ask for fewer tokens"};
  }
  if (ended_by == EndedBy::kServer) return {503, "stopping", "the server is stopping"};
  return {499, "cancelled", "the client went away"};
}

}  // namespace

HttpResponse RefusalResponse(const Refusal& refusal, std::string_view request_id) {
  const bool is_retryable = refusal.status == 429 || refusal.status == 503;
  HttpResponse response;
  response.status = refusal.status;
  response.body =
      Json(Json::Object{
               {"error",
                Json::Object{
                    {"message", refusal.message},
                    {"type", refusal.status < 500 ? "invalid_request_error" : "server_error"},
                    {"param", nullptr},
                    {"code", refusal.code},
                    {"request_id", std::string(request_id)},
                    {"retryable", is_retryable},
                }},
           })
          .Dump();
  if (!refusal.allow.empty()) response.headers.emplace_back("Allow", refusal.allow);
  return response;
}

HttpResponse Answering::ErrorResponse(const api::Error& error, const HttpRequest& request) const {
  const auto code = static_cast<Code>(error.code);
  api::Error told = WithoutPaths(error, options_.store, options_.model);
  HttpResponse response;
  response.status = HttpStatus(code);
  response.body = ErrorJson(Status(code, std::move(told.message)).WithParam(std::move(told.param)),
                            request.request_id);
  return response;
}

std::string Answering::DocumentName(const std::string& document) {
  auto details = engine_.Show(document);
  return details.ok() && !details->document.name.empty() ? details->document.name : document;
}

HttpResponse Answering::BusyResponse(const HttpRequest& request) const {
  HttpResponse response = RefusalResponse(
      {503, "overloaded", "all places are taken; try again later"}, request.request_id);
  response.headers.emplace_back("Retry-After", std::to_string(slots_.RetryAfterSeconds()));
  return response;
}

std::variant<std::shared_ptr<Answering::Turn>, HttpResponse> Answering::Begin(
    const std::string& document, std::string question, api::AskOptions options,
    const HttpRequest& request) {
  auto session = engine_.Open(document);
  if (!session.ok()) return ErrorResponse(session.error(), request);
  const auto deadline = Clock::now() + std::chrono::seconds(options_.wait_seconds);
  auto slot = slots_.Take(
      [&] { return Clock::now() > deadline || request.peer->IsGone() || watch_.is_ending_all(); });
  if (!std::holds_alternative<GenerationSlots::Slot>(slot)) {
    if (watch_.is_ending_all()) {
      return RefusalResponse(WhyEnded(EndedBy::kServer), request.request_id);
    }
    return BusyResponse(request);
  }
  return std::shared_ptr<Turn>(new Turn(*this, std::move(std::get<GenerationSlots::Slot>(slot)),
                                        std::move(*session), std::move(question),
                                        std::move(options), request));
}

std::variant<api::Answer, HttpResponse> Answering::Turn::Generate(
    const std::function<bool(std::string_view)>& on_text, EventStream* events) {
  const Watch::Scope scope(
      answering_.watch_,
      {.peer = request_.peer,
       .deadline = Clock::now() + std::chrono::seconds(answering_.options_.generate_seconds),
       .cancel = [this] { session_.Cancel(); },
       .tick =
           [events] {
             if (events) events->KeepAlive();
           }});
  options_.on_text = [&](std::string_view piece) {
    return scope.ended_by() == EndedBy::kNothing && !request_.peer->IsGone() && on_text(piece);
  };
  auto answer = session_.Ask(question_, options_);
  const bool is_ended = scope.ended_by() != EndedBy::kNothing ||
                        (answer.ok() && answer->finish_reason() == "cancelled");
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
