#include "engine/asking/asked_sessions.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>
#include <optional>
#include <string>

#include "engine/requests/options.h"

namespace lectern {
namespace {

// Probabilities and scores below these count as much as these.
constexpr double kLeastProbability = 0.0001, kLeastSupport = 0.02;
// So do probabilities of a refusal below this one, and those as near to 1. A model that is surer
// than that is not righter: with 0.0001, 0.001, 0.01, 0.02 and 0.05 the fit below leaves 0.071,
// 0.071, 0.056, 0.057 and 0.061 nats for each of the 130 facts to which several documents answer.
constexpr double kLeastRefusal = 0.01;
// An answer multiplies the probability of its document by support^support_power and, where the
// model has a refusal, by the odds of no refusal to the power `answers`. Fitted by maximum
// likelihood of the right document among the eight that are likeliest by words: 439 facts about 16
// texts that no training saw, with SmolLM2 and its adapter. Without a refusal the power hardly
// matters: tools/evaluate/RESULTS.md, "Documents in parts".
struct FactorWeights {
  double support_power, answers;
};
constexpr FactorWeights kWithRefusal = {.support_power = 0.9, .answers = 2};
constexpr FactorWeights kBySupport = {.support_power = 0.61, .answers = 0};

bool IsUnsupported(const Answer& answer) {
  return answer.is_refused || std::ranges::count(answer.warnings, "no_evidence") > 0 ||
         std::ranges::count(answer.warnings, "refusal_likely") > 0;
}

// The natural logarithm of the factor by which an answer changes the probability of its document.
double LogFactor(double support, std::optional<double> refusal_probability) {
  const FactorWeights& weights = refusal_probability ? kWithRefusal : kBySupport;
  const double refusal =
      std::clamp(refusal_probability.value_or(0.5), kLeastRefusal, 1 - kLeastRefusal);
  return weights.support_power * std::log(std::max(support, kLeastSupport)) +
         weights.answers * std::log((1 - refusal) / refusal);
}
double LogFactorOf(const Answer& answer) {
  return LogFactor(SupportOf(answer), answer.refusal_probability);
}

// Higher is better. An answer with evidence goes before every one without, and before refusals.
double RankOf(const AskedSession& asked) {
  return (IsUnsupported(asked.answer) ? -100.0 : 0.0) + LogFactorOf(asked.answer) +
         std::log(std::max(asked.probability, kLeastProbability));
}

}  // namespace

std::string SharedConversation::BeforeValue(std::string_view value_question,
                                            std::string_view question) const {
  std::string before(last_question());
  if (value_question != question) before += (before.empty() ? "" : " ") + std::string(question);
  return before;
}

Result<Answer> SharedConversation::Ask(std::string_view question, const AskOptions& options,
                                       FunctionRef<Result<Answer>()> ask) try {
  const auto start = std::chrono::steady_clock::now();
  // Before a document is opened, or even indexed, for a request that cannot be served.
  LECTERN_RETURN_IF_ERROR(CheckOptions(AskOptionRows(), options));
  if (has_begun_ && !options.history.is_empty()) {
    return Status(Code::kInvalidArgument,
                  "a conversation that has begun takes no turns from elsewhere; open another one")
        .WithParam("turns");
  }
  const ChatHistory kept = history_;
  if (!has_begun_) history_ = options.history;
  auto answer = ask();
  if (!answer.ok()) {
    history_ = kept;
    return answer;
  }
  if (!has_begun_) answer->timings_ms.open += open_ms_;
  has_begun_ = true;
  history_.turns.push_back({std::string(question), answer->text, answer->reasoning});
  const std::chrono::duration<double, std::milli> total = std::chrono::steady_clock::now() - start;
  answer->timings_ms.total = total.count();
  return answer;
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "asking: out of memory");
}

Result<AskedSession> AskForOne(Session& session, std::string_view question,
                               const ChatHistory& history, const AskOptions& options,
                               uint32_t max_evidence, bool shows) {
  AskedSession one;
  double sum = 0;
  uint64_t count = 0;
  AskOptions of_one = options;
  of_one.history = history;
  of_one.max_evidence = max_evidence;
  of_one.on_token = [&](const SampledToken& token) {
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
    of_one.on_text = hold(options.on_text);
    of_one.on_reasoning = hold(options.on_reasoning);
    of_one.on_warning = [&](std::string_view warning, const Message& note) {
      if (!options.on_warning) return;
      one.shown.push_back(
          [&options, name = std::string(warning), note] { options.on_warning(name, note); });
    };
  }
  LECTERN_ASSIGN(one.answer, session.Ask(question, of_one));
  one.logprob = count > 0 ? sum / static_cast<double>(count) : 0;
  return one;
}

double SupportOf(const Answer& answer) {
  double best = 0;
  for (const Evidence& one : answer.evidence) best = std::max(best, double{one.score});
  return best;
}

size_t ChooseAnswer(std::span<const AskedSession* const> asked) {
  const auto rank = [](const AskedSession* one) { return RankOf(*one); };
  return static_cast<size_t>(std::ranges::max_element(asked, {}, rank) - asked.begin());
}

bool AnswerChoice::WantsMore() const {
  if (num_asked_ == std::min(kMostAsked, ranked_.size())) return false;
  if (num_asked_ == 0) return true;
  return !is_sure() && ranked_[num_asked_].probability * most_factor_ >= best_;
}

void AnswerChoice::Add(const Answer& answer) {
  const double probability = ranked_[num_asked_++].probability;
  most_factor_ =
      std::exp(LogFactor(1, answer.refusal_probability ? std::optional<double>(0) : std::nullopt));
  if (!IsUnsupported(answer)) {
    best_ = std::max(best_, probability * std::exp(LogFactorOf(answer)));
  }
}

void AddCosts(const Answer& other, Answer& answer) {
  answer.kv.bytes_read += other.kv.bytes_read;
  answer.kv.window_bytes += other.kv.window_bytes;
  answer.timings_ms.prefill += other.timings_ms.prefill;
  answer.timings_ms.open += other.timings_ms.open;
}

}  // namespace lectern
