// Answers of a document with a JSON object, for each of whose values its model is asked.
#include <chrono>
#include <utility>

#include "engine/asking/ask.h"
#include "engine/asking/object_answer.h"

namespace lectern {

Result<std::shared_ptr<const Model>> DocumentSession::PlainModel(const AskOptions& options) const {
  const bool is_watched = probe_.on_token || probe_.on_first_logits || !probe_.answer.empty();
  return IsPlain(options) && !is_watched ? model_ : nullptr;
}

// Each value's question is asked from where the session stands, and its turn is taken back: the
// model would see the questions before as a conversation.
Result<Answer> DocumentSession::AskFields(std::span<const AnswerField> fields,
                                          std::string_view question, const AskOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  LECTERN_RETURN_IF_ERROR(CheckOptions(options));
  const auto ask = [&](std::string_view asked, const AskOptions& of_value) {
    const Transcript before = said_;
    auto answer = AskOnce(asked, of_value);
    TakeBackTurn(before);
    return answer;
  };
  LECTERN_ASSIGN(Answer answer, AskForObject(fields, model_->tokenizer(), options, ask));
  answer.document = ToHex(document_->row().id);
  answer.document_tokens = document_->shape().num_tokens;
  answer.timings_ms.open = open_ms_;
  ChatHistory history = said_.history.is_empty() ? options.history : said_.history;
  history.turns.push_back({std::string(question), answer.text, ""});
  said_.history = std::move(history);
  const std::chrono::duration<double, std::milli> total = std::chrono::steady_clock::now() - start;
  answer.timings_ms.total = total.count();
  return answer;
}

}  // namespace lectern
