// POST /v1/chat/completions, as OpenAI's clients speak it
// (https://platform.openai.com/docs/api-reference/chat): `model` is a document's name or id.
// OPENAI.md lists every field and what becomes of it.
#include "tools/server/answer_format.h"
#include "tools/server/conversation.h"
#include "tools/server/openai_fields.h"
#include "tools/server/request_fields.h"
#include "tools/server/service.h"
#include "tools/server/tool_calls.h"

namespace lectern::server {
namespace {

constexpr uint64_t kMaxChoices = 128;  // OpenAI's limit of "n"

// The body of a request, read.
struct Chat {
  std::string document, question;
  api::AskOptions options;
  uint64_t num_choices = 1;
  bool stream = false, include_usage = false;
  ToolUse tools;
  bool calls_function = false;         // the call has OpenAI's first format, "function_call"
  std::shared_ptr<Logprobs> logprobs;  // nullptr: not asked for
};

// Refuses fields that ask for anything but text: a client that sends them would misread the answer.
void RefuseOtherOutput(RequestFields& fields) {
  const Json* const modalities = fields.Any("modalities");
  for (const Json& kind :
       modalities && modalities->array() ? *modalities->array() : Json::Array()) {
    if (!kind.string() || *kind.string() != "text") {
      fields.Fail("modalities", "must be [\"text\"]: answers are plain text");
    }
  }
  RefuseUnlessEmpty(fields, "audio", "is not made here; leave it out");
  if (fields.Any("web_search_options")) {
    fields.Fail("web_search_options", "cannot be had: only the document is read; leave it out");
  }
}

// Reads logprobs and top_logprobs (0 to 20, as OpenAI's), and has the answer's tokens collected.
void ReadLogprobs(RequestFields& fields, Chat& chat) {
  const bool is_wanted = fields.Boolean("logprobs").value_or(false);
  const uint64_t count = fields.Whole("top_logprobs", 0, 20).value_or(0);
  if (count > 0 && !is_wanted) fields.Fail("top_logprobs", "needs \"logprobs\": true");
  if (!is_wanted) return;
  chat.logprobs = std::make_shared<Logprobs>();
  chat.options.top_logprobs = static_cast<uint32_t>(count);
  chat.options.on_token = [logprobs = chat.logprobs](const lectern_sampled_token& token) {
    logprobs->Add(token);
  };
}

// Whether a stream is to end with a chunk of the usage.
bool ReadIncludeUsage(RequestFields& fields) {
  const Json* const options = fields.Any("stream_options");
  if (!options) return false;
  const Json* const usage = options->Find("include_usage");
  const bool is_said = usage && !usage->is_null();
  if (!options->object() || (is_said && !usage->boolean())) {
    fields.Fail("stream_options", "must be an object, in which include_usage is true or false");
    return false;
  }
  return is_said && *usage->boolean();
}

// INVALID_ARGUMENT names the first field that is wrong or cannot be done. Fields that are not known
// are ignored, as OpenAI's clients send new ones all the time: Finish is not called.
Result<Chat> ReadChat(const HttpRequest& request) {
  const std::string& body = request.body;
  LECTERN_ASSIGN(RequestFields fields, RequestFields::Parse(body));
  Chat chat;
  // A path that names the model goes before the field, which Azure's clients fill with anything.
  const bool is_in_path = !request.head.path_model.empty();
  chat.document = is_in_path ? request.head.path_model : fields.String("model").value_or("");
  const Json* const messages = fields.Any("messages");
  if (!messages) fields.Fail("messages", "is missing");
  chat.options.max_tokens = ReadMaxTokens(fields, {"max_completion_tokens", "max_tokens"});
  ReadSampling(fields, chat.options);
  chat.num_choices = fields.Whole("n", 1, kMaxChoices).value_or(1);
  chat.stream = fields.Boolean("stream").value_or(false);
  chat.include_usage = ReadIncludeUsage(fields);
  ReadLogprobs(fields, chat);
  RefuseOtherOutput(fields);
  ReadResponseFormat(fields, body, chat.options);
  ToolUse functions = ReadToolUse(fields, body, {"functions", "function_call"}, chat.options);
  chat.tools = ReadToolUse(fields, body, {"tools", "tool_choice"}, chat.options);
  chat.calls_function = functions.is_call() && !chat.tools.is_call();
  if (chat.calls_function) chat.tools = std::move(functions);
  if (!chat.tools.is_call()) chat.tools.may_call |= functions.may_call;
  RefuseWhatIsNotDone(fields);
  if (!fields.failed().ok()) return fields.failed();
  LECTERN_ASSIGN(Conversation said, ReadConversation(*messages, "messages"));
  chat.question = std::move(said.question);
  chat.options.turns = std::move(said.turns);
  chat.options.instructions = WithTools(std::move(said.instructions), chat.tools);
  return chat;
}

// The tokens of a request: the document and the question once, the answers added up.
struct Usage {
  uint64_t document = 0, question = 0, answer = 0, reasoning = 0;

  void Add(const lectern_receipt& receipt) {
    document = receipt.document_tokens, question = receipt.question_tokens;
    answer += receipt.answer_tokens, reasoning += receipt.reasoning_tokens;
  }
  Json ToJson() const {
    return Json::Object{
        {"prompt_tokens", document + question},
        {"completion_tokens", answer},
        {"total_tokens", document + question + answer},
        {"prompt_tokens_details", Json::Object{{"cached_tokens", document}}},
        {"completion_tokens_details", Json::Object{{"reasoning_tokens", reasoning}}}};
  }
};

// The log-probabilities of the tokens since the last call; null where they are not asked for.
Json TakeLogprobs(const std::shared_ptr<Logprobs>& logprobs) {
  if (!logprobs) return nullptr;
  return Json::Object{{"content", logprobs->Take()}, {"refusal", nullptr}};
}

// The calls of an answer, which has one: as a message has it, or as a stream's delta. `id`: empty
// in a delta that goes on with a call; the name is then left out, too. The type is in every delta:
// some clients (Cerebras') parse each one strictly, and those that add deltas up do not add types.
Json::Object CallsOf(const Chat& chat, bool is_delta, const std::string& id,
                     const std::string& name, std::string_view arguments) {
  Json::Object function = {{"arguments", arguments}};
  if (!id.empty()) function["name"] = name;
  if (chat.calls_function) return {{"function_call", std::move(function)}};
  Json::Object call = {{"function", std::move(function)}, {"type", "function"}};
  if (!id.empty()) call["id"] = id;
  if (is_delta) call["index"] = 0;
  return {{"tool_calls", Json::Array{std::move(call)}}};
}

// Why an answer ended. One that is a call, and not cut, ends as OpenAI's calls do.
std::string_view FinishReason(const Chat& chat, const api::Answer& answer) {
  if (!chat.tools.is_call() || answer.finish_reason() != "stop") return answer.finish_reason();
  return chat.calls_function ? "function_call" : "tool_calls";
}

// Makes the objects of one response: the whole completion, or its chunks. `object`: its type's
// name.
class Completion {
 public:
  Completion(const std::string& id, std::string model, std::string_view object)
      : id_(id),
        base_{{"id", "chatcmpl-" + id},
              {"object", object},
              {"created", Now()},
              {"model", std::move(model)},
              {"system_fingerprint", std::string("lectern-") + lectern_version()}} {}
  // With include_usage, every chunk but the last has a null "usage", as OpenAI's streams do.
  void AnnounceUsage() { base_["usage"] = nullptr; }

  std::string CallId(uint64_t index) const { return "call_" + id_ + "_" + std::to_string(index); }

  Json Choice(uint64_t index, const Chat& chat, const api::Answer& answer, Json logprobs) const {
    Json::Object message = {
        {"role", "assistant"}, {"content", answer.text()}, {"refusal", nullptr}};
    if (chat.tools.is_call()) {
      message["content"] = nullptr;
      ToolCall call(chat.tools.functions);
      const std::string arguments = call.Add(answer.text());
      if (!call.name().empty()) {
        message.merge(CallsOf(chat, false, CallId(index), call.name(), arguments));
      }
    }
    if (!answer.reasoning().empty()) message["reasoning_content"] = answer.reasoning();
    return Json::Object{{"index", index},
                        {"message", std::move(message)},
                        {"logprobs", std::move(logprobs)},
                        {"finish_reason", FinishReason(chat, answer)}};
  }
  // `choices`: empty in a stream's last chunk. The receipt is the first choice's.
  std::string Whole(Json::Array choices, const Usage& usage, Json receipt) const {
    Json::Object object = base_;
    object["choices"] = std::move(choices);
    object["usage"] = usage.ToJson();
    object["lectern"] = std::move(receipt);
    return Json(std::move(object)).Dump();
  }
  std::string Chunk(uint64_t index, Json::Object delta, Json logprobs = nullptr,
                    Json finish_reason = nullptr) const {
    Json::Object object = base_;
    object["choices"] = Json::Array{Json::Object{{"index", index},
                                                 {"delta", std::move(delta)},
                                                 {"logprobs", std::move(logprobs)},
                                                 {"finish_reason", std::move(finish_reason)}}};
    return Json(std::move(object)).Dump();
  }

 private:
  const std::string id_;
  Json::Object base_;
};

// Streams the chunks of one choice: the role, the pieces of the answer and of the model's thoughts,
// and the reason of its end. Adds the answer's tokens to `usage`; only the first choice sets
// `receipt`. False: generating failed. The error was sent as the stream's last event, unless the
// client is gone, and no [DONE] follows.
bool StreamChoice(uint64_t index, const Chat& chat, Answering::Turn& turn, EventStream& events,
                  const Completion& completion, Usage& usage, Json& receipt) {
  const bool is_call = chat.tools.is_call();
  events.Send("", completion.Chunk(
                      index, {{"role", "assistant"}, {"content", is_call ? Json() : Json("")}}));
  const auto send = [&](Json::Object delta) {
    return events.Send("", completion.Chunk(index, std::move(delta), TakeLogprobs(chat.logprobs)));
  };
  ToolCall call(chat.tools.functions);
  std::string call_id = completion.CallId(index);  // empty once it was sent
  auto answer = turn.Generate(
      [&](std::string_view piece) {
        if (!is_call) return send({{"content", piece}});
        const std::string arguments = call.Add(piece);
        if (call.name().empty()) return true;
        const std::string id = std::exchange(call_id, "");
        const bool is_sent = id.empty() || send(CallsOf(chat, true, id, call.name(), ""));
        return is_sent && (arguments.empty() || send(CallsOf(chat, true, "", "", arguments)));
      },
      &events,
      [&](std::string_view piece) {
        return events.Send("", completion.Chunk(index, {{"reasoning_content", piece}}));
      });
  if (const auto* const failed = std::get_if<HttpResponse>(&answer)) {
    events.Send("", failed->body);
    return false;
  }
  const api::Answer& whole = std::get<api::Answer>(answer);
  // Log-probabilities of tokens behind the last piece, such as white space, which no piece shows.
  const bool has_more = chat.logprobs && !chat.logprobs->is_empty();
  events.Send("", completion.Chunk(index, {}, has_more ? TakeLogprobs(chat.logprobs) : Json(),
                                   FinishReason(chat, whole)));
  usage.Add(whole.receipt());
  if (index == 0) receipt = ReceiptJson(whole, chat.tools.may_call);
  return true;
}

// A stream of all choices, one after the other, then the usage if asked for, then OpenAI's end
// mark.
HttpResponse StreamChat(Chat chat, std::shared_ptr<Answering::Turn> turn, Completion completion) {
  if (chat.include_usage) completion.AnnounceUsage();
  return EventsResponse([turn = std::move(turn), chat = std::move(chat),
                         completion = std::move(completion)](EventStream& events) {
    Usage usage;
    Json receipt;
    for (uint64_t index = 0; index < chat.num_choices; ++index) {
      if (!StreamChoice(index, chat, *turn, events, completion, usage, receipt)) return;
    }
    if (chat.include_usage) events.Send("", completion.Whole({}, usage, std::move(receipt)));
    events.Send("", "[DONE]");
  });
}

}  // namespace

HttpResponse AnswerChatCompletions(Answering& answering, const HttpRequest& request) {
  auto chat = ReadChat(request);
  if (!chat.ok()) return StatusResponse(chat.status(), request);
  auto begun = answering.Begin(chat->document, chat->question, chat->options, request);
  if (auto* const refused = std::get_if<HttpResponse>(&begun)) return std::move(*refused);
  auto turn = std::get<std::shared_ptr<Answering::Turn>>(begun);
  const std::string model = chat->document.empty() ? answering.DocumentName("") : chat->document;
  const Completion completion(request.request_id, model,
                              chat->stream ? "chat.completion.chunk" : "chat.completion");
  if (chat->stream) return StreamChat(*std::move(chat), std::move(turn), completion);
  Json::Array choices;
  Usage usage;
  Json receipt;
  for (uint64_t index = 0; index < chat->num_choices; ++index) {
    auto answer = turn->Generate([](std::string_view) { return true; }, nullptr);
    if (auto* const failed = std::get_if<HttpResponse>(&answer)) return std::move(*failed);
    const api::Answer& whole = std::get<api::Answer>(answer);
    choices.push_back(completion.Choice(index, *chat, whole, TakeLogprobs(chat->logprobs)));
    usage.Add(whole.receipt());
    if (index == 0) receipt = ReceiptJson(whole, chat->tools.may_call);
  }
  return JsonResponse(completion.Whole(std::move(choices), usage, std::move(receipt)));
}

}  // namespace lectern::server
