#include "engine/missed_margin.h"

#include <algorithm>
#include <cmath>

namespace lectern {
namespace {

constexpr const char* kQuestions[] = {"What is this document about?", "Who is responsible for it?",
                                      "How much does it cost, and when does it end?",
                                      "What is the name of the second one?"};
constexpr uint32_t kAnswerTokens = 2;  // the second is the answer's only step
constexpr double kBudgets[] = {0.2, 0.1, 0.05};

double LogOdds(double share) {
  const double p = std::clamp(share, 1e-6, 1 - 1e-6);
  return std::log(p / (1 - p));
}

}  // namespace

std::span<const char* const> GenericQuestions() { return kQuestions; }

double TrulyMissed(const DocumentRead& read, std::span<const std::span<float>> lse,
                   std::span<const float> weights) {
  double missed = 0;
  for (size_t h = 0; h < lse.size(); ++h) {
    for (size_t r = 0; r < lse[h].size(); ++r) {
      const double share = 1 - std::exp(std::min(0.0, double{read.read_lse[h][r]} - lse[h][r]));
      const double weight =
          weights.empty() ? 1 / static_cast<double>(lse[h].size()) : double{weights[r]};
      missed += weight * share / static_cast<double>(lse.size());
    }
  }
  return missed;
}

double MissedScore(const Missed& missed) {
  return LogOdds(missed.truth) - LogOdds(missed.estimate);
}

double ConformalMargin(const std::vector<Missed>& samples, double coverage) {
  std::vector<double> scores;
  for (const Missed& sample : samples) scores.push_back(MissedScore(sample));
  const auto rank =
      static_cast<size_t>(std::ceil(coverage * static_cast<double>(scores.size() + 1)));  // from 1
  const auto at = scores.begin() + static_cast<ptrdiff_t>(std::min(rank, scores.size()) - 1);
  std::nth_element(scores.begin(), at, scores.end());
  return std::max(0.0, *at);
}

Status LookUpBeside(DocumentSession& session, std::string_view question, uint32_t max_tokens,
                    Proof proof, const LookedUp& body) {
  LECTERN_ASSIGN(const double smallest, session.SmallestServed(true));
  Status failed;
  std::vector<float> output;
  session.on_layer = [&](const DocumentSession::LayerStep& step) {
    for (const double budget : kBudgets) {
      if (!failed.ok() || budget < smallest) continue;
      const auto read =
          session.AttendAgain(step.layer, step.num_tokens, budget, true, output, proof);
      if (!read.ok()) {
        failed = read.status();
      } else if (!read->exact) {  // which misses nothing of what is stored
        body(budget, step, *read);
      }
    }
  };
  AskOptions exact;
  exact.kv_budget = 1;
  exact.max_tokens = max_tokens;
  exact.max_evidence = 0;
  const Status asked = session.Ask(question, exact).status();
  session.on_layer = {};
  session.Forget();
  return asked.ok() ? failed : asked;
}

Result<std::vector<Missed>> SampleMissed(DocumentSession& session,
                                         const std::function<bool()>& stopped) {
  std::vector<Missed> samples;
  if (!session.indexed().has_clusters()) return samples;
  for (const char* question : kQuestions) {
    if (stopped()) return Status(Code::kCancelled, "measuring was cancelled");
    LECTERN_RETURN_IF_ERROR(LookUpBeside(
        session, question, kAnswerTokens, Proof::kReadMass,
        [&](double, const DocumentSession::LayerStep& step, const DocumentRead& read) {
          samples.push_back({TrulyMissed(read, step.lse, step.weights), read.missed_mass});
        }));
  }
  return samples;
}

Result<std::optional<double>> MeasureMargin(std::shared_ptr<const Document> document,
                                            const Model& model, const Backend& backend,
                                            ThreadPool& threads,
                                            const std::function<bool()>& stopped) {
  const std::shared_ptr<void> nothing;
  LECTERN_ASSIGN(
      const auto session,
      DocumentSession::Create(std::move(document), std::shared_ptr<const Model>(nothing, &model),
                              backend, std::shared_ptr<ThreadPool>(nothing, &threads), 0));
  LECTERN_ASSIGN(const std::vector<Missed> samples, SampleMissed(*session, stopped));
  if (samples.empty()) return std::optional<double>();
  return std::optional<double>(ConformalMargin(samples, kMissedCoverage));
}

}  // namespace lectern
