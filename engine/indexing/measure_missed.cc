#include "engine/indexing/measure_missed.h"

#include <algorithm>
#include <cmath>

namespace lectern {
namespace {

constexpr const char* kQuestions[] = {"What is this document about?", "Who is responsible for it?",
                                      "How much does it cost, and when does it end?",
                                      "What is the name of the second one?"};
constexpr double kBudgets[] = {0.2, 0.1, 0.05, 0.02};

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

Status LookUpBeside(DocumentSession& session, std::string_view question, uint32_t max_tokens,
                    bool bound, const LookedUp& body) {
  LECTERN_ASSIGN(const double smallest, session.SmallestServed(true));
  Status failed;
  std::vector<float> output;
  session.probe().on_layer = [&](const LayerStep& step) {
    for (const double budget : kBudgets) {
      if (!failed.ok() || budget < smallest) continue;
      const auto read =
          session.AttendAgain(budget, true, output, bound);
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
  session.probe().on_layer = {};
  session.Forget();
  return asked.ok() ? failed : asked;
}

// Asks the document the generic questions and compares, at every layer and several budgets, the
// estimate of missed attention with the truth, which an exact reading beside it gives.
Result<MissedCalibration> MeasureMissed(std::shared_ptr<const Document> document,
                                        const Model& model, const Backend& backend,
                                        ThreadPool& threads, const std::function<bool()>& stopped,
                                        const Placement& placement) {
  if (!document->has_clusters()) return MissedCalibration();
  const std::shared_ptr<void> nothing;
  LECTERN_ASSIGN(const auto session,
                 DocumentSession::Create(
                     std::move(document), std::shared_ptr<const Model>(nothing, &model), backend,
                     std::shared_ptr<ThreadPool>(nothing, &threads), 0, placement));
  std::vector<MissedSample> samples;
  for (size_t i = 0; i < std::size(kQuestions); ++i) {
    if (stopped()) return Status(Code::kCancelled, "measuring was cancelled");
    LECTERN_RETURN_IF_ERROR(LookUpBeside(
        *session, kQuestions[i], kGenericAnswerTokens, /*bound=*/false,
        [&](double kv_budget, const LayerStep& step, const DocumentRead& read) {
          samples.push_back({.truth = TrulyMissed(read, step.lse, step.weights),
                             .estimate = read.uncalibrated_missed,
                             .layer = step.layer,
                             .kv_budget = kv_budget,
                             .question = i});
        }));
  }
  return CalibrateMissed(samples, session->indexed().num_layers());
}

}  // namespace lectern
