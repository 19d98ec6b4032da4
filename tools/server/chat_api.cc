// POST /v1/chat/completions, as OpenAI's clients speak it: `model` is a document's name or id.
#include "tools/server/conversation.h"
#include "tools/server/request_fields.h"
#include "tools/server/service.h"

namespace lectern::server {
namespace {

struct Chat {
  std::string document, question;
  api::AskOptions options;
  bool stream = false, include_usage = false;
};

Result<Chat> ReadChat(const std::string& body) {
  LECTERN_ASSIGN(RequestFields fields, RequestFields::Parse(body));
  Chat chat;
  chat.document = fields.RequiredString("model");
  const Json* const messages = fields.Any("messages");
  if (!messages) fields.Fail("messages", "is missing");
  const auto max_tokens = fields.Whole("max_tokens", 1, 4096);
  const auto max_completion = fields.Whole("max_completion_tokens", 1, 4096);
  chat.options.max_tokens = static_cast<uint32_t>(max_completion.value_or(max_tokens.value_or(0)));
  chat.options.temperature = static_cast<float>(fields.Number("temperature", 0, 10).value_or(0));
  chat.options.top_p = static_cast<float>(fields.Number("top_p", 1e-6, 1).value_or(0));
  chat.options.seed = fields.Whole("seed", 0, ~uint64_t{0}).value_or(0);
  chat.options.kv_budget = static_cast<float>(fields.Number("kv_budget", 1e-6, 1).value_or(0));
  if (fields.Whole("n", 1, 1) == std::nullopt && fields.Any("n")) fields.Fail("n", "must be 1");
  chat.stream = fields.Boolean("stream").value_or(false);
  if (const Json* const options = fields.Any("stream_options")) {
    const Json* const usage = options->Find("include_usage");
    chat.include_usage = usage && usage->boolean() && *usage->boolean();
  }
  fields.Ignore({"user", "metadata", "store", "service_tier", "safety_identifier"});
  if (Status status = fields.Finish(); !status.ok()) return status;
  LECTERN_ASSIGN(Conversation said, ReadConversation(*messages, "messages"));
  chat.question = std::move(said.question);
  chat.options.turns = std::move(said.turns);
  chat.options.instructions = std::move(said.instructions);
  return chat;
}

Json Usage(const lectern_receipt& receipt) {
  const uint64_t prompt = receipt.document_tokens + receipt.question_tokens;
  return Json::Object{
      {"prompt_tokens", prompt},
      {"completion_tokens", receipt.answer_tokens},
      {"total_tokens", prompt + receipt.answer_tokens},
      {"prompt_tokens_details", Json::Object{{"cached_tokens", receipt.document_tokens}}},
      {"completion_tokens_details", Json::Object{{"reasoning_tokens", receipt.reasoning_tokens}}}};
}

class Completion {
 public:
  Completion(std::string id, std::string model, std::string_view object)
      : base_{{"id", "chatcmpl-" + id},
              {"object", object},
              {"created", Now()},
              {"model", std::move(model)}} {}

  std::string Whole(const api::Answer& answer) const {
    Json::Object object = base_, message = {{"role", "assistant"}, {"content", answer.text()}};
    if (!answer.reasoning().empty()) message["reasoning_content"] = answer.reasoning();
    object["choices"] = Json::Array{Json::Object{
        {"index", 0}, {"message", std::move(message)}, {"finish_reason", answer.finish_reason()}}};
    object["usage"] = Usage(answer.receipt());
    object["lectern"] = ReceiptJson(answer);
    return Json(std::move(object)).Dump();
  }
  std::string Chunk(Json::Object delta, Json finish_reason = nullptr) const {
    Json::Object object = base_;
    object["choices"] = Json::Array{Json::Object{
        {"index", 0}, {"delta", std::move(delta)}, {"finish_reason", std::move(finish_reason)}}};
    return Json(std::move(object)).Dump();
  }
  std::string UsageChunk(const api::Answer& answer) const {
    Json::Object object = base_;
    object["choices"] = Json::Array();
    object["usage"] = Usage(answer.receipt());
    object["lectern"] = ReceiptJson(answer);
    return Json(std::move(object)).Dump();
  }

 private:
  Json::Object base_;
};

HttpResponse StreamChat(const Chat& chat, std::shared_ptr<Answering::Turn> turn,
                        const HttpRequest& request) {
  return EventsResponse([turn = std::move(turn), include_usage = chat.include_usage,
                         completion = Completion(request.request_id, chat.document,
                                                 "chat.completion.chunk")](EventStream& events) {
    events.Send("", completion.Chunk({{"role", "assistant"}, {"content", ""}}));
    auto answer = turn->Generate(
        [&](std::string_view piece) {
          return events.Send("", completion.Chunk({{"content", piece}}));
        },
        &events,
        [&](std::string_view piece) {
          return events.Send("", completion.Chunk({{"reasoning_content", piece}}));
        });
    if (const auto* const failed = std::get_if<HttpResponse>(&answer)) {
      events.Send("", failed->body);
      return;
    }
    const api::Answer& whole = std::get<api::Answer>(answer);
    events.Send("", completion.Chunk({}, whole.finish_reason()));
    if (include_usage) events.Send("", completion.UsageChunk(whole));
    events.Send("", "[DONE]");
  });
}

}  // namespace

HttpResponse AnswerChatCompletions(Answering& answering, const HttpRequest& request) {
  auto chat = ReadChat(request.body);
  if (!chat.ok()) return StatusResponse(chat.status(), request);
  auto begun = answering.Begin(chat->document, chat->question, chat->options, request);
  if (auto* const refused = std::get_if<HttpResponse>(&begun)) return std::move(*refused);
  auto turn = std::get<std::shared_ptr<Answering::Turn>>(begun);
  if (chat->stream) return StreamChat(*chat, std::move(turn), request);
  auto answer = turn->Generate([](std::string_view) { return true; }, nullptr);
  if (auto* const failed = std::get_if<HttpResponse>(&answer)) return std::move(*failed);
  const Completion completion(request.request_id, chat->document, "chat.completion");
  return JsonResponse(completion.Whole(std::get<api::Answer>(answer)));
}

}  // namespace lectern::server
