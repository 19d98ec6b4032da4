// POST /v1/responses, as OpenAI's clients speak it
// (https://platform.openai.com/docs/api-reference/responses): stateless, text in and text out, with
// the passages that the answer draws on as file citations. OPENAI.md lists every field.
#include <map>

#include "engine/requests/requests.h"
#include "tools/server/answer_format.h"
#include "tools/server/conversation.h"
#include "tools/server/openai_fields.h"
#include "tools/server/request_fields.h"
#include "tools/server/service.h"
#include "tools/server/tool_calls.h"

namespace lectern::server {
namespace {

// The body of a request, read.
struct ResponsesRequest {
  std::string document, question;
  api::AskOptions options;
  bool stream = false;
  ToolUse tools;
  std::shared_ptr<Logprobs> logprobs;  // nullptr: not asked for
  Json::Object echoed;                 // what a response repeats of its request
};

// Reads `input`, a text or a list of items, with the instructions as a message before it.
Result<Conversation> ReadInput(const Json& input, const std::string& instructions) {
  Json::Array messages;
  if (!instructions.empty()) {
    messages.emplace_back(Json::Object{{"role", "system"}, {"content", instructions}});
  }
  if (input.string()) {
    messages.emplace_back(Json::Object{{"role", "user"}, {"content", *input.string()}});
  } else if (input.array()) {
    messages.insert(messages.end(), input.array()->begin(), input.array()->end());
  }
  return ReadConversation(Json(std::move(messages)), "input");
}

// Log-probabilities are asked for by top_logprobs, or by an entry of include; other entries ask for
// parts that no answer here has, and are ignored.
void ReadLogprobs(RequestFields& fields, ResponsesRequest& read) {
  const uint64_t count = fields.Whole("top_logprobs", 0, 20).value_or(0);
  bool is_wanted = count > 0;
  const Json* const include = fields.Any("include");
  if (include && !include->array()) fields.Fail("include", "must be a list");
  for (const Json& item : include && include->array() ? *include->array() : Json::Array()) {
    is_wanted |= item.string() && *item.string() == "message.output_text.logprobs";
  }
  if (!is_wanted) return;
  read.logprobs = std::make_shared<Logprobs>();
  read.options.top_logprobs = static_cast<uint32_t>(count);
  read.options.on_token = [logprobs = read.logprobs](const lectern_sampled_token& token) {
    logprobs->Add(token);
  };
}

// Refuses fields that need what this server does not have: responses that are kept between
// requests.
void RefuseOtherWork(RequestFields& fields) {
  constexpr char kNothingIsKept[] =
      "cannot be found: nothing is kept; send earlier turns in input, as clients do that are told "
      "\"store\": false";
  RefuseUnlessEmpty(fields, "previous_response_id", kNothingIsKept);
  RefuseUnlessEmpty(fields, "conversation", kNothingIsKept);
  RefuseUnlessEmpty(fields, "prompt", "cannot be found: nothing is kept; send its text in input");
  RefuseUnlessEmpty(fields, "background",
                    "is not done here: read the answer as it comes, by stream");
}

// INVALID_ARGUMENT names the first field that is wrong or cannot be done; fields that are not known
// are ignored.
Result<ResponsesRequest> ReadResponses(const std::string& body) {
  LECTERN_ASSIGN(RequestFields fields, RequestFields::Parse(body));
  ResponsesRequest read;
  read.document = fields.String("model").value_or("");
  const Json* const input = fields.Any("input");
  if (!input) fields.Fail("input", "is missing");
  const std::string instructions = fields.String("instructions").value_or("");
  read.options.max_tokens = ReadMaxTokens(fields, {"max_output_tokens"});
  ReadSampling(fields, read.options);
  read.stream = fields.Boolean("stream").value_or(false);
  ReadLogprobs(fields, read);
  RefuseOtherWork(fields);
  ReadTextFormat(fields, body, read.options);
  read.tools = ReadToolUse(fields, body, {"tools", "tool_choice"}, read.options);
  RefuseWhatIsNotDone(fields);
  if (!fields.failed().ok()) return fields.failed();
  for (const char* const name : {"instructions", "max_output_tokens", "metadata", "temperature",
                                 "top_p", "user", "safety_identifier"}) {
    if (const Json* const value = fields.Any(name)) read.echoed[name] = *value;
  }
  for (const char* const name : {"tools", "tool_choice"}) {
    if (read.tools.is_call()) read.echoed[name] = *fields.Any(name);
  }
  LECTERN_ASSIGN(Conversation said, ReadInput(*input, instructions));
  read.question = std::move(said.question);
  read.options.turns = std::move(said.turns);
  read.options.instructions = WithTools(std::move(said.instructions), read.tools);
  return read;
}

// The file that a passage comes from: the document that was asked, or the one of a collection that
// the passage names, whose id is its name where it is not indexed.
struct CitedFile {
  Json id, name;
};
CitedFile FileOf(const Json& passage, const Json& receipt, const std::string& filename) {
  const Json* const document = receipt.Find("document");
  CitedFile file = {document ? *document : Json(), filename};
  const Json* const named = passage.Find("document");
  if (!named || !named->string()) return file;
  file = {*named, *named};
  const Json* const collection = receipt.Find("collection");
  const Json* const asked = collection ? collection->Find("asked") : nullptr;
  for (const Json& one : asked && asked->array() ? *asked->array() : Json::Array()) {
    const Json *const name = one.Find("name"), *const id = one.Find("document");
    const bool is_it = name && name->string() && *name->string() == *named->string();
    if (is_it && id && id->string()) file.id = *id;
  }
  return file;
}

// The passages of a receipt as file citations, a type of annotation that clients know how to show.
// Clients take one for support, so that an answer without evidence has none. "index" counts the
// files.
Json Annotations(const Json& receipt, const std::string& filename) {
  Json::Array annotations;
  if (const Json* const warnings = receipt.Find("warnings"); warnings && warnings->array()) {
    for (const Json& warning : *warnings->array()) {
      if (warning.string() && *warning.string() == "no_evidence") return annotations;
    }
  }
  const Json* const evidence = receipt.Find("evidence");
  if (!evidence || !evidence->array()) return Json(std::move(annotations));
  std::map<std::string, uint64_t> indexes;  // by the files' ids
  for (const Json& passage : *evidence->array()) {
    const Json* const score = passage.Find("score");
    const double likely = score ? score->number().value_or(0) : 0;
    if (likely > 0 && likely < kLeastScore) continue;  // 0: words were not compared
    const CitedFile file = FileOf(passage, receipt, filename);
    const uint64_t index = indexes.try_emplace(file.id.Dump(), indexes.size()).first->second;
    annotations.emplace_back(Json::Object{{"type", "file_citation"},
                                          {"file_id", file.id},
                                          {"filename", file.name},
                                          {"index", index},
                                          {"passage", passage}});
  }
  return Json(std::move(annotations));
}

// Makes the objects of one response, from its beginning to its end.
class Response {
 public:
  // `filename`: the document's name. `echoed`: members that are as they were in the request.
  // OpenAI's clients parse a response strictly, so that members that say nothing here are there,
  // too.
  Response(const std::string& id, std::string model, std::string filename, Json::Object echoed,
           ToolUse tools)
      : id_(id),
        filename_(std::move(filename)),
        tools_(std::move(tools)),
        base_{{"id", "resp_" + id},
              {"object", "response"},
              {"created_at", Now()},
              {"model", std::move(model)},
              {"error", nullptr},
              {"incomplete_details", nullptr},
              {"instructions", nullptr},
              {"metadata", Json::Object()},
              {"parallel_tool_calls", false},
              {"store", false},
              {"temperature", nullptr},
              {"tool_choice", "none"},
              {"tools", Json::Array()},
              {"top_p", nullptr}} {
    for (auto& [name, value] : echoed) base_[name] = std::move(value);
  }

  std::string message_id() const { return "msg_" + id_; }
  std::string call_item_id() const { return "fc_" + id_; }
  const ToolUse& tools() const { return tools_; }
  const std::string& filename() const { return filename_; }

  // The receipt of its answer, with the warnings of this API.
  Json Receipt(const api::Answer& answer) const { return ReceiptJson(answer, tools_.may_call); }
  // The response before its first text.
  Json InProgress() const {
    Json::Object object = base_;
    object["status"] = "in_progress";
    object["output"] = Json::Array();
    return Json(std::move(object));
  }
  // The only item of its output, where that is a text.
  Json Message(const char* status, Json::Array content) const {
    return Json::Object{{"id", message_id()},
                        {"type", "message"},
                        {"role", "assistant"},
                        {"status", status},
                        {"content", std::move(content)}};
  }
  // The only part of that item's content.
  static Json Part(std::string_view text, Json annotations, Json::Array logprobs = {}) {
    return Json::Object{{"type", "output_text"},
                        {"text", text},
                        {"annotations", std::move(annotations)},
                        {"logprobs", std::move(logprobs)}};
  }
  // The only item of its output, where that is a call.
  Json Call(const char* status, const std::string& name, std::string_view arguments) const {
    return Json::Object{{"id", call_item_id()}, {"type", "function_call"},
                        {"status", status},     {"call_id", "call_" + id_},
                        {"name", name},         {"arguments", arguments}};
  }
  // The whole response. An answer that met its limit of tokens is "incomplete". The document's
  // tokens are input that was cached: they were read when it was indexed.
  Json Done(const api::Answer& answer, const Json& receipt, Json::Array logprobs) const {
    Json::Object object = base_;
    const bool is_cut = answer.finish_reason() == "length";
    object["status"] = is_cut ? "incomplete" : "completed";
    if (is_cut) object["incomplete_details"] = Json::Object{{"reason", "max_output_tokens"}};
    const char* const item_status = is_cut ? "incomplete" : "completed";
    if (tools_.is_call()) {
      ToolCall call(tools_.functions);
      const std::string arguments = call.Add(answer.text());
      object["output"] = call.name().empty()
                             ? Json::Array()
                             : Json::Array{Call(item_status, call.name(), arguments)};
    } else {
      Json part = Part(answer.text(), Annotations(receipt, filename_), std::move(logprobs));
      object["output"] = Json::Array{Message(item_status, {std::move(part)})};
    }
    const lectern_receipt read = answer.receipt();
    const uint64_t input = read.document_tokens + read.question_tokens;
    object["usage"] = Json::Object{
        {"input_tokens", input},
        {"input_tokens_details", Json::Object{{"cached_tokens", read.document_tokens}}},
        {"output_tokens", read.answer_tokens},
        {"output_tokens_details", Json::Object{{"reasoning_tokens", read.reasoning_tokens}}},
        {"total_tokens", input + read.answer_tokens}};
    object["lectern"] = receipt;
    return Json(std::move(object));
  }

 private:
  const std::string id_, filename_;
  const ToolUse tools_;
  Json::Object base_;
};

// Sends the events of a streamed response, numbered, in the order that clients expect: created,
// in_progress, the item and its part added, deltas of text, then each of them done, and the whole
// response at the end. A call is an item without parts, which is added when its name is known.
class ResponseEvents {
 public:
  ResponseEvents(EventStream& events, const Response& response, Logprobs* logprobs)
      : events_(events),
        response_(response),
        logprobs_(logprobs),
        call_(response.tools().functions) {}

  bool Send(const std::string& type, Json::Object fields) {
    fields["type"] = type;
    fields["sequence_number"] = number_++;
    return events_.Send(type, Json(std::move(fields)).Dump());
  }
  // Sends an event about the only part of the only message.
  bool SendPart(const std::string& type, Json::Object fields) {
    fields["item_id"] = response_.message_id();
    fields["output_index"] = 0;
    fields["content_index"] = 0;
    return Send(type, std::move(fields));
  }

  void Begin() {
    Send("response.created", {{"response", response_.InProgress()}});
    Send("response.in_progress", {{"response", response_.InProgress()}});
    if (response_.tools().is_call()) return;
    Send("response.output_item.added",
         {{"output_index", 0}, {"item", response_.Message("in_progress", {})}});
    SendPart("response.content_part.added", {{"part", Response::Part("", Json::Array())}});
  }
  bool SendText(std::string_view piece) {
    if (response_.tools().is_call()) return SendCall(call_.Add(piece));
    return SendPart("response.output_text.delta", {{"delta", piece}, {"logprobs", TakeLogprobs()}});
  }
  // Sends all events behind the last text, with the whole response as the last one.
  void End(const api::Answer& answer) {
    TakeLogprobs();  // of white space at the end, which no piece shows
    const Json receipt = response_.Receipt(answer), done = response_.Done(answer, receipt, taken_);
    if (response_.tools().is_call()) {
      EndCall(*done.Find("output")->array());
    } else {
      EndText(answer, Annotations(receipt, response_.filename()));
    }
    for (const Json& item : *done.Find("output")->array()) {
      Send("response.output_item.done", {{"output_index", 0}, {"item", item}});
    }
    const bool is_cut = answer.finish_reason() == "length";
    Send(is_cut ? "response.incomplete" : "response.completed", {{"response", done}});
  }

 private:
  void EndText(const api::Answer& answer, const Json& annotations) {
    for (size_t i = 0; i < annotations.array()->size(); ++i) {
      SendPart("response.output_text.annotation.added",
               {{"annotation_index", uint64_t{i}}, {"annotation", (*annotations.array())[i]}});
    }
    SendPart("response.output_text.done", {{"text", answer.text()}, {"logprobs", taken_}});
    SendPart("response.content_part.done",
             {{"part", Response::Part(answer.text(), annotations, taken_)}});
  }
  // Sends an event about the only call.
  bool SendOfCall(const std::string& type, Json::Object fields) {
    fields["item_id"] = response_.call_item_id();
    fields["output_index"] = 0;
    return Send(type, std::move(fields));
  }
  // Sends a piece of the call's arguments, after the call itself, once its name is known.
  bool SendCall(const std::string& arguments) {
    if (call_.name().empty()) return true;
    if (!std::exchange(is_call_added_, true)) {
      Send("response.output_item.added",
           {{"output_index", 0}, {"item", response_.Call("in_progress", call_.name(), "")}});
    }
    return arguments.empty() ||
           SendOfCall("response.function_call_arguments.delta", {{"delta", arguments}});
  }
  // `output`: the call, or nothing where the answer was cut before its name.
  void EndCall(const Json::Array& output) {
    for (const Json& call : output) {
      SendOfCall("response.function_call_arguments.done",
                 {{"name", *call.Find("name")}, {"arguments", *call.Find("arguments")}});
    }
  }
  // Takes the log-probabilities that came since the last call; all of them stay in taken_.
  Json::Array TakeLogprobs() {
    Json::Array more = logprobs_ ? logprobs_->Take() : Json::Array();
    taken_.insert(taken_.end(), more.begin(), more.end());
    return more;
  }

  EventStream& events_;
  const Response& response_;
  Logprobs* const logprobs_;  // may be nullptr
  ToolCall call_;
  bool is_call_added_ = false;
  Json::Array taken_;
  uint64_t number_ = 0;
};

// A stream of the events of one answer; after an error, one event "error" ends it.
HttpResponse StreamResponses(std::shared_ptr<Answering::Turn> turn, Response description,
                             std::shared_ptr<Logprobs> logprobs) {
  return EventsResponse([turn = std::move(turn), description = std::move(description),
                         logprobs = std::move(logprobs)](EventStream& plain) {
    ResponseEvents events(plain, description, logprobs.get());
    events.Begin();
    auto answer =
        turn->Generate([&](std::string_view piece) { return events.SendText(piece); }, &plain);
    if (const auto* const failed = std::get_if<HttpResponse>(&answer)) {
      plain.Send("error", failed->body);
      return;
    }
    events.End(std::get<api::Answer>(answer));
  });
}

}  // namespace

HttpResponse AnswerResponses(Answering& answering, const HttpRequest& request) {
  auto read = ReadResponses(request.body);
  if (!read.ok()) return StatusResponse(read.status(), request);
  auto begun = answering.Begin(read->document, read->question, read->options, request);
  if (auto* const refused = std::get_if<HttpResponse>(&begun)) return std::move(*refused);
  auto turn = std::get<std::shared_ptr<Answering::Turn>>(begun);
  const std::string name = answering.DocumentName(read->document);
  const Response description(request.request_id, read->document.empty() ? name : read->document,
                             name, std::move(read->echoed), std::move(read->tools));
  if (read->stream) return StreamResponses(std::move(turn), description, read->logprobs);
  auto answer = turn->Generate([](std::string_view) { return true; }, nullptr);
  if (auto* const failed = std::get_if<HttpResponse>(&answer)) return std::move(*failed);
  const api::Answer& whole = std::get<api::Answer>(answer);
  return JsonResponse(description
                          .Done(whole, description.Receipt(whole),
                                read->logprobs ? read->logprobs->Take() : Json::Array())
                          .Dump());
}

}  // namespace lectern::server
