#include "engine/asking/parted_session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>
#include <string>

#include "engine/asking/evidence_passages.h"
#include "kernels/types.h"

namespace lectern {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

// Weights of an answer's rank: the logarithm of its support, the model's own mean log-probability,
// and the logarithm of the probability that words give the part. With 96 held-out facts and the
// adapter of tools/reader, 54 answers were right of 55 that any part gave; by support alone 55, by
// words alone 51. Twice each weight changed one.
constexpr double kSupport = 1, kModel = 1, kWords = 0.5;
// Support and probability below this count as this much.
constexpr double kLeast = 0.02;

double SupportOf(const Answer& answer) {
  return answer.evidence.empty() ? 0 : double{answer.evidence.front().score};
}

bool IsUnsupported(const Answer& answer) {
  return std::ranges::count(answer.warnings, "no_evidence") > 0;
}

// Higher is better. An answer with evidence goes before every one without.
double RankOf(const Answer& answer, double logprob, double probability) {
  return (IsUnsupported(answer) ? -100.0 : 0.0) +
         kSupport * std::log(std::max(SupportOf(answer), kLeast)) + kModel * logprob +
         kWords * std::log(std::max(probability, kLeast));
}

}  // namespace

PartedSession::PartedSession(std::shared_ptr<const PartedDocument> document, OpenPart open,
                             double open_ms)
    : document_(std::move(document)), open_(std::move(open)), open_ms_(open_ms) {}

Result<TokenizedText> PartedSession::Tokenize(std::string_view text) const {
  const std::lock_guard lock(tokenizing_.mutex);
  if (!tokenizing_.session) {
    LECTERN_ASSIGN(tokenizing_.session, open_(IdOf(document_->parts().front()), nullptr));
  }
  return tokenizing_.session->Tokenize(text);
}

uint64_t PartedSession::dense_bytes() const {
  const ShardHeader& shape = contents().shard().header();
  return uint64_t{2} * shape.num_kv_heads * shape.num_tokens *
         RowBytes(static_cast<Dtype>(shape.kv_dtype), shape.head_dim);
}

Result<PartedSession::Try> PartedSession::AskPart(const RankedPart& part, std::string_view question,
                                                  const AskOptions& options, bool shows) {
  Try one;
  one.part = part;
  double sum = 0;
  uint64_t count = 0;
  AskOptions of_part = options;
  of_part.history = history_;
  of_part.on_token = [&](const SampledToken& token) {
    sum += token.logprob, ++count;
    if (!options.on_token) return;
    if (shows) return options.on_token(token);
    // The bytes last as long as the model, which stays loaded; the list does not.
    one.shown.push_back(
        [&options, token,
         likeliest = std::vector<LikelyToken>(token.likeliest.begin(), token.likeliest.end())] {
          SampledToken again = token;
          again.likeliest = likeliest;
          options.on_token(again);
        });
  };
  if (!shows) {
    const auto hold = [&](const std::function<bool(std::string_view)>& receiver) {
      return [&one, &receiver](std::string_view piece) {
        if (!receiver) return true;
        one.shown.push_back([&receiver, text = std::string(piece)] { (void)receiver(text); });
        return true;
      };
    };
    of_part.on_text = hold(options.on_text);
    of_part.on_reasoning = hold(options.on_reasoning);
    of_part.on_warning = [&](std::string_view warning, const Message& note) {
      if (!options.on_warning) return;
      one.shown.push_back(
          [&options, name = std::string(warning), note] { options.on_warning(name, note); });
    };
  }
  // Each question has a session of its own with the whole conversation before it, because another
  // part may have answered the question before.
  LECTERN_ASSIGN(const auto session, open_(IdOf(document_->parts()[part.part]), options.cancel));
  LECTERN_ASSIGN(one.answer, session->Ask(question, of_part));
  one.logprob = count > 0 ? sum / static_cast<double>(count) : 0;
  return one;
}

size_t PartedSession::Choose(const std::vector<Try>& tries) {
  const auto rank = [](const Try& one) {
    return RankOf(one.answer, one.logprob, one.part.probability);
  };
  return static_cast<size_t>(std::ranges::max_element(tries, {}, rank) - tries.begin());
}

void PartedSession::MoveEvidence(const Part& part, Answer& answer) const {
  const auto moved = [&](uint64_t byte) { return byte - part.lead_bytes + part.begin; };
  // The headings before a part are no passage of the text.
  std::erase_if(answer.evidence, [&](const Evidence& one) { return one.begin < part.lead_bytes; });
  std::erase_if(answer.attention,
                [&](const AttendedPassage& one) { return one.begin < part.lead_bytes; });
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
  Answer answer = std::move(tries[chosen].answer);
  MoveEvidence(document_->parts()[tries[chosen].part.part], answer);
  tries[chosen].answer.text = answer.text;
  tries[chosen].answer.evidence = answer.evidence;
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
                            .answer = one.answer.text,
                            .support = SupportOf(one.answer),
                            .logprob = one.logprob,
                            .is_chosen = i == chosen});
    const KvReceipt& kv = i == chosen ? answer.kv : one.answer.kv;
    const double share = part.num_tokens / tokens;
    prefill += kv.read_fraction_prefill * share;
    decode += kv.read_fraction_decode.value_or(0) * share;
    has_decode |= kv.read_fraction_decode.has_value();
    if (i == chosen) continue;
    answer.kv.bytes_read += kv.bytes_read;
    answer.kv.window_bytes += kv.window_bytes;
    answer.timings_ms.prefill += one.answer.timings_ms.prefill;
    answer.timings_ms.open += one.answer.timings_ms.open;
  }
  answer.kv.read_fraction_prefill = prefill;
  if (has_decode) answer.kv.read_fraction_decode = decode;
  return answer;
}

Result<Answer> PartedSession::Ask(std::string_view question, const AskOptions& options) try {
  const auto start = std::chrono::steady_clock::now();
  if (has_begun_ && !options.history.is_empty()) {
    return Status(Code::kInvalidArgument,
                  "a conversation that has begun takes no turns from elsewhere; open another one")
        .WithParam("turns");
  }
  const ChatHistory kept = history_;
  if (!has_begun_) history_ = options.history;
  const std::string before = history_.turns.empty() ? "" : history_.turns.back().question;
  std::vector<Try> tries;
  const auto ask = [&]() -> Status {
    LECTERN_ASSIGN(const WordIndex* const words, contents().words());
    LECTERN_ASSIGN(const auto ranked,
                   RankParts(*words, contents().passages(), document_->parts(), question, before));
    const size_t count = NumPartsToAsk(ranked);
    for (size_t i = 0; i < count; ++i) {
      LECTERN_ASSIGN(Try one, AskPart(ranked[i], question, options, /*shows=*/count == 1));
      const bool is_cancelled = one.answer.finish_reason == "cancelled";
      tries.push_back(std::move(one));
      if (is_cancelled && count > 1) {
        return {Code::kCancelled, "the question was cancelled before its parts had answered"};
      }
    }
    return {};
  };
  if (Status status = ask(); !status.ok()) {
    history_ = kept;
    return status;
  }
  const size_t chosen = Choose(tries);
  const double first_token = Milliseconds(std::chrono::steady_clock::now() - start).count();
  const bool is_shown = tries.size() == 1;
  const auto shown = std::move(tries[chosen].shown);
  Answer answer = Merge(std::move(tries), chosen);
  for (const auto& show : shown) show();
  if (!has_begun_) answer.timings_ms.open += open_ms_;
  if (!is_shown) answer.timings_ms.first_token = first_token;
  has_begun_ = true;
  history_.turns.push_back({std::string(question), answer.text, answer.reasoning});
  answer.timings_ms.total = Milliseconds(std::chrono::steady_clock::now() - start).count();
  return answer;
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "asking: out of memory");
}

}  // namespace lectern
