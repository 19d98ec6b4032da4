#include "engine/asking/parted_session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

#include "engine/asking/ask.h"
#include "engine/asking/evidence.h"
#include "engine/asking/evidence_passages.h"
#include "engine/asking/object_answer.h"
#include "engine/asking/whole_question.h"
#include "kernels/types.h"

namespace lectern {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

}  // namespace

PartedSession::PartedSession(std::shared_ptr<const PartedDocument> document, OpenPart open,
                             double open_ms)
    : document_(std::move(document)), open_(std::move(open)), conversation_(open_ms) {}

Result<TokenizedText> PartedSession::Tokenize(std::string_view text) const {
  return WithFirstPart([&](const Session& part) { return part.Tokenize(text); });
}

Result<std::shared_ptr<const Model>> PartedSession::PlainModel(const AskOptions& options) const {
  return WithFirstPart([&](const Session& part) { return part.PlainModel(options); });
}

uint64_t PartedSession::dense_bytes() const {
  const ShardHeader& shape = contents().shard().header();
  return uint64_t{2} * shape.num_kv_heads * shape.num_tokens *
         RowBytes(static_cast<Dtype>(shape.kv_dtype), shape.head_dim);
}

Result<PartedSession::Try> PartedSession::AskPart(const RankedPart& part, std::string_view question,
                                                  const AskOptions& options, bool shows) {
  // Each question has a session of its own with the whole conversation before it, because another
  // part may have answered the question before.
  LECTERN_ASSIGN(const auto session, open_(IdOf(document_->parts()[part.part]), options.cancel));
  const Part& its = document_->parts()[part.part];
  const bool has_lead = its.lead_bytes > 0 && options.max_evidence > 0;
  // The lead, a line of headings, is a passage of the part's own document, which may be chosen.
  const uint32_t num_evidence =
      has_lead ? std::max(options.max_evidence, options.max_evidence + 1) : options.max_evidence;
  LECTERN_ASSIGN(AskedSession asked, AskForOne(*session, question, conversation_.history(), options,
                                               num_evidence, shows));
  if (has_lead) DropLead(its, options, shows, asked);
  asked.probability = part.probability;
  return Try{part, std::move(asked)};
}

void PartedSession::DropLead(const Part& part, const AskOptions& options, bool shows,
                             AskedSession& asked) {
  Answer& answer = asked.answer;
  const bool had_evidence = HasEvidence(answer.evidence);
  std::erase_if(answer.evidence, [&](const Evidence& one) { return one.begin < part.lead_bytes; });
  std::erase_if(answer.attention,
                [&](const AttendedPassage& one) { return one.begin < part.lead_bytes; });
  if (answer.evidence.size() > options.max_evidence) answer.evidence.resize(options.max_evidence);
  if (!had_evidence || HasEvidence(answer.evidence)) return;
  AskOptions told = options;
  if (!shows) {
    told.on_warning = [&](std::string_view warning, const Message& note) {
      if (!options.on_warning) return;
      asked.shown.push_back(
          [&options, name = std::string(warning), note] { options.on_warning(name, note); });
    };
  }
  WarnOfNoEvidence(told, answer);
}

void PartedSession::MoveEvidence(const Part& part, Answer& answer) const {
  const auto moved = [&](uint64_t byte) { return byte - part.lead_bytes + part.begin; };
  for (AttendedPassage& one : answer.attention)
    one.begin = moved(one.begin), one.end = moved(one.end);
  if (answer.evidence.empty()) return;
  const PassagesOfText whole = PassagesOf(contents());
  if (!equals_) equals_.emplace(whole.text, whole.passages);
  for (Evidence& one : answer.evidence) {
    one.begin = moved(one.begin), one.end = moved(one.end);
    for (ByteRange& range : one.highlights) {
      range.begin = moved(range.begin), range.end = moved(range.end);
    }
    const auto at = std::ranges::upper_bound(whole.passages, one.begin, {}, &Passage::begin);
    if (at == whole.passages.begin()) continue;
    const auto first = static_cast<size_t>(at - whole.passages.begin()) - 1;
    const Evidence of_whole = MakeEvidence(whole, *equals_, first, first + 1);
    one.heading = of_whole.heading;
    SetPages(whole, one);
    const bool is_same = of_whole.begin == one.begin && of_whole.end == one.end;
    one.places = is_same ? of_whole.places : std::vector<ByteRange>();
  }
}

Answer PartedSession::Merge(std::vector<Try> tries, size_t chosen) const {
  Answer answer = std::move(tries[chosen].asked.answer);
  MoveEvidence(document_->parts()[tries[chosen].part.part], answer);
  tries[chosen].asked.answer.text = answer.text;
  tries[chosen].asked.answer.evidence = answer.evidence;
  answer.document = ToHex(document().id);
  answer.document_tokens = document().num_tokens;
  answer.num_parts = document_->parts().size();
  const double tokens = std::max(1.0, static_cast<double>(document().num_tokens));
  double prefill = 0, decode = 0;
  bool has_decode = false;
  for (size_t i = 0; i < tries.size(); ++i) {
    const Try& one = tries[i];
    const Part& part = document_->parts()[one.part.part];
    answer.parts.push_back({.number = one.part.part,
                            .begin = part.begin,
                            .end = part.end,
                            .probability = one.part.probability,
                            .answer = one.asked.answer.text,
                            .support = SupportOf(one.asked.answer),
                            .logprob = one.asked.logprob,
                            .is_chosen = i == chosen});
    const KvReceipt& kv = i == chosen ? answer.kv : one.asked.answer.kv;
    const double share = part.num_tokens / tokens;
    prefill += kv.read_fraction_prefill * share;
    decode += kv.read_fraction_decode.value_or(0) * share;
    has_decode |= kv.read_fraction_decode.has_value();
    if (i != chosen) AddCosts(one.asked.answer, answer);
  }
  answer.kv.read_fraction_prefill = prefill;
  if (has_decode) answer.kv.read_fraction_decode = decode;
  return answer;
}

Result<std::optional<Answer>> PartedSession::AskSome(std::string_view question,
                                                     std::string_view before,
                                                     const AskOptions& options, bool holds) {
  const auto start = std::chrono::steady_clock::now();
  AskOptions of_parts = options;
  of_parts.fallback = Fallback::kWarn;
  std::vector<Try> tries;
  LECTERN_ASSIGN(const WordIndex* const words, contents().words());
  LECTERN_ASSIGN(const auto ranked,
                 RankParts(*words, contents().passages(), document_->parts(), question, before));
  AnswerChoice choice(ranked);
  const bool is_alone = choice.is_sure() || ranked.size() == 1;
  const bool is_shown = is_alone && !holds;
  while (choice.WantsMore()) {
    LECTERN_ASSIGN(Try one,
                   AskPart(ranked[tries.size()], question, holds ? of_parts : options, is_shown));
    if (holds && std::ranges::count(one.asked.answer.warnings, "whole_document") > 0) {
      return std::optional<Answer>();
    }
    const bool is_cancelled = one.asked.answer.finish_reason == "cancelled";
    choice.Add(one.asked.answer);
    tries.push_back(std::move(one));
    if (is_cancelled && !is_alone) {
      return Status(Code::kCancelled, "the question was cancelled before its parts had answered");
    }
  }
  std::vector<const AskedSession*> asked;
  for (const Try& one : tries) asked.push_back(&one.asked);
  const size_t chosen = ChooseAnswer(asked);
  const double first_token = Milliseconds(std::chrono::steady_clock::now() - start).count();
  const auto shown = std::move(tries[chosen].asked.shown);
  Answer answer = Merge(std::move(tries), chosen);
  for (const auto& show : shown) show();
  if (!is_shown) answer.timings_ms.first_token = first_token;
  return std::optional<Answer>(std::move(answer));
}

Result<Answer> PartedSession::AskParts(std::string_view question, std::string_view before,
                                       const AskOptions& options) {
  // Where everything may have to be read, nothing is shown before that is known.
  const bool may_read_all = options.fallback == Fallback::kExact && document_->parts().size() > 1;
  if (!may_read_all || WholeKindOf(question) == WholeKind::kNone) {
    LECTERN_ASSIGN(std::optional<Answer> answer, AskSome(question, before, options, may_read_all));
    if (answer) return *std::move(answer);
  }
  return AskAll(question, options);
}

Result<Answer> PartedSession::Ask(std::string_view question, const AskOptions& options) {
  return conversation_.Ask(question, options, [&]() -> Result<Answer> {
    const std::vector<AnswerField> fields = FieldsOf(question, options);
    std::shared_ptr<const Model> plain;
    if (!fields.empty()) {
      LECTERN_ASSIGN(plain, PlainModel(options));
    }
    if (!plain) return AskParts(question, conversation_.last_question(), options);
    const auto ask = [&](std::string_view asked, const AskOptions& of_value) {
      return AskParts(asked, conversation_.BeforeValue(asked, question), of_value);
    };
    return AskForObject(fields, plain->tokenizer(), options, ask);
  });
}

}  // namespace lectern
