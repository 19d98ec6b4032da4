// A question that draws on the whole of a document in parts: every part answers it, and their
// answers are put together.
#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/asking/answer_constraint.h"
#include "engine/asking/ask.h"
#include "engine/asking/parted_session.h"
#include "engine/asking/whole_question.h"

namespace lectern {
namespace {

// Answers that the model is asked to put together at a time. A part leaves an eighth of the model's
// positions to a conversation (index_parts.cc), 1,024 tokens of 8,192; this is about a third of
// them, beside the question and the answer.
constexpr size_t kBytesPutTogether = 1200;
// Bytes of a joined answer for each token that an answer may have.
constexpr size_t kBytesOfToken = 3;

// The options by which each part is asked: everything is read, and nothing shown.
AskOptions OptionsOfPart(const AskOptions& options) {
  AskOptions of_part = options;
  of_part.kv_budget = 1;
  of_part.fallback = Fallback::kWarn;
  of_part.max_missed.reset();
  of_part.rule = "default";
  of_part.on_text = nullptr, of_part.on_reasoning = nullptr;
  of_part.on_warning = nullptr, of_part.on_token = nullptr;
  of_part.json_schema.clear();  // the answer that is put together alone is kept to it
  return of_part;
}

Status Stopped() {
  return {Code::kCancelled, "the question was cancelled before all parts had answered"};
}

bool IsSupported(const AskedSession& asked) {
  return !asked.answer.is_refused && SupportOf(asked.answer) >= double{kLeastScore};
}

}  // namespace

Result<std::string> PartedSession::PutTogether(std::string_view question,
                                               std::vector<std::string> answers, size_t best,
                                               const AskOptions& options) {
  const std::string joined = JoinAnswers(answers);
  const bool is_json = !options.json_schema.empty();
  const bool is_short = joined.size() <= size_t{options.max_tokens} * kBytesOfToken;
  const bool is_list = WholeKindOf(question) == WholeKind::kJoin && is_short;
  if (!is_json && (answers.size() < 2 || is_list)) return joined;
  for (bool is_done = false; !is_done; is_done = answers.size() < 2) {
    std::vector<std::string> next;
    const auto groups = GroupAnswers(answers, kBytesPutTogether);
    AskOptions of_part = OptionsOfPart(options);
    if (groups.size() == 1) of_part.json_schema = options.json_schema;
    for (const auto& group : groups) {
      if (group.size() == 1 && of_part.json_schema.empty()) {
        next.push_back(group.front());
        continue;
      }
      LECTERN_ASSIGN(const auto session, open_(IdOf(document_->parts()[best]), options.cancel));
      auto answer = session->Ask(QuestionAfterAnswers(question, group), of_part);
      if (answer.status().code() == Code::kContextTooLong && !is_json) return joined;
      if (!answer.ok()) return std::move(answer).status();
      if (answer->finish_reason == "cancelled") return Stopped();
      next.push_back(std::move(answer->text));
    }
    answers = std::move(next);
  }
  return std::move(answers.front());
}

Result<Answer> PartedSession::AskAll(std::string_view question, const AskOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  LECTERN_ASSIGN(const std::string not_kept, NotKeptOf(options));
  const std::span<const Part> parts = document_->parts();
  uint64_t tokens = 0;
  for (const Part& part : parts) tokens += part.num_tokens;
  const Message cost = "the question draws on the whole text: all " + std::to_string(parts.size()) +
                       " parts are read, " + std::to_string(tokens) + " tokens";
  if (options.on_warning) options.on_warning("whole_document", cost);
  const AskOptions of_part = OptionsOfPart(options);
  std::vector<Try> tries;
  for (uint32_t i = 0; i < parts.size(); ++i) {
    if (IsSet(options.cancel)) return Stopped();
    const RankedPart part = {i, 0, 1 / static_cast<double>(parts.size())};
    LECTERN_ASSIGN(Try one, AskPart(part, question, of_part, /*shows=*/true));
    if (one.asked.answer.finish_reason == "cancelled") return Stopped();
    tries.push_back(std::move(one));
    if (options.on_part && !options.on_part(i + 1, parts.size())) return Stopped();
  }
  std::vector<const AskedSession*> asked;
  for (const Try& one : tries) asked.push_back(&one.asked);
  const size_t best = ChooseAnswer(asked);
  std::vector<std::string> answers;
  Answer passages;  // the best one of each part that has something to say
  for (size_t i = 0; i < tries.size(); ++i) {
    const AskedSession& one = tries[i].asked;
    if (!IsSupported(one)) continue;
    answers.push_back(one.answer.text);
    Answer of_one;
    of_one.evidence = {one.answer.evidence.front()};
    MoveEvidence(parts[i], of_one);
    for (Evidence& passage : of_one.evidence) passages.evidence.push_back(std::move(passage));
  }
  if (answers.empty()) answers.push_back(tries[best].asked.answer.text);
  LECTERN_ASSIGN(std::string text, PutTogether(question, std::move(answers), best, options));
  const double first_token =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  Answer answer = Merge(std::move(tries), best);
  answer.text = std::move(text);
  if (!passages.evidence.empty()) {
    std::erase(answer.warnings, "no_evidence");
    answer.evidence = std::move(passages.evidence);
  }
  answer.warnings.push_back("whole_document");
  answer.note = cost;
  if (!not_kept.empty()) Warn(options, "schema_not_kept", not_kept, answer);
  answer.kv.fallback = true;
  answer.timings_ms.first_token = first_token;
  if (options.on_text) (void)options.on_text(answer.text);
  return answer;
}

}  // namespace lectern
