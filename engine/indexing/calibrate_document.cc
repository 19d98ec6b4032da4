#include "engine/indexing/calibrate_document.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/indexing/calibration_questions.h"
#include "engine/indexing/measure_missed.h"
#include "engine/indexing/teacher_forcing.h"

namespace lectern {
namespace {

// Tokens of each answer that are forced at a smaller budget. The first tokens of an answer diverge
// most, so that more of them would cost time and make predictions less cautious.
constexpr size_t kForcedTokens = 4;

// Steps and layers whose missed attention is compared, at the least: the margin covers 99 of 100.
constexpr size_t kLeastSamples = 100;

// The budgets that are tried. Documents of 3K to 31K tokens keep the default limit between 0.05 and
// 0.14 with two real models (tools/evaluate/RESULTS.md); the larger budgets are for those that do
// not.
constexpr double kFirst = 0.1, kSmaller = 0.05, kLarger[] = {0.2, 0.4};

// A budget that a document can serve is a float away from one that it cannot.
constexpr double kRoom = 1.001;

constexpr size_t kNumQuestions = 4;  // of CalibrationQuestions

class Calibrator {
 public:
  Calibrator(DocumentSession& session, double max_divergence, const std::function<bool()>& stopped)
      : session_(session), max_divergence_(max_divergence), stopped_(stopped) {}

  Result<Calibration> Run() {
    questions_ = CalibrationQuestions(session_.text());
    for (size_t i = 0; i < questions_.size(); ++i) LECTERN_RETURN_IF_ERROR(AskExact(i));
    LECTERN_RETURN_IF_ERROR(MeasureDivergences());
    return Calibration{CalibrateMissed(samples_, session_.indexed().num_layers()),
                       measured_.empty() ? DivergenceCurve() : FitDivergenceCurve(measured_)};
  }

 private:
  Status CheckStopped() const {
    if (stopped_()) return {Code::kCancelled, "measuring was cancelled"};
    return {};
  }

  // The most tokens of an exact answer: so many that there are kLeastSamples samples at each
  // budget.
  uint32_t NumTokens() const {
    const size_t samples_a_pass = questions_.size() * session_.indexed().num_full_layers();
    const size_t passes = (kLeastSamples + samples_a_pass - 1) / samples_a_pass;
    return static_cast<uint32_t>(std::clamp<size_t>(passes, kForcedTokens, kMostCalibrationTokens));
  }

  // Asks one question exactly, with lookups beside it, and keeps the samples and the first tokens
  // of the answer.
  Status AskExact(size_t number) {
    LECTERN_RETURN_IF_ERROR(CheckStopped());
    LECTERN_ASSIGN(
        ExactAnswer exact,
        LookUpBeside(session_, questions_[number], NumTokens(), /*bound=*/false,
                     [&](double kv_budget, const LayerStep& step, const DocumentRead& read) {
                       samples_.push_back({.truth = TrulyMissed(read, step.lse, step.weights),
                                           .estimate = read.uncalibrated_missed,
                                           .layer = step.layer,
                                           .kv_budget = kv_budget,
                                           .question = number});
                     }));
    exact.ids.resize(std::min(exact.ids.size(), kForcedTokens));
    exact.logits.resize(exact.ids.size());
    exact_.push_back(std::move(exact));
    return {};
  }

  Status MeasureDivergences() {
    LECTERN_ASSIGN(const double smallest, session_.SmallestServed(true));
    least_ = smallest * kRoom;
    LECTERN_ASSIGN(double divergence, Measure(kFirst));
    if (divergence <= max_divergence_) return Measure(kSmaller).status();
    for (const double budget : kLarger) {
      if (divergence <= max_divergence_) break;
      LECTERN_ASSIGN(divergence, Measure(budget));
    }
    return {};
  }

  // The mean divergence at this budget, or at the smallest that the document serves; the one that
  // is known where that was measured already, and 0 where everything would be read.
  Result<double> Measure(double kv_budget) {
    kv_budget = std::max(kv_budget, least_);
    if (session_.indexed().ReadsAll(kv_budget)) return 0.0;
    for (const auto& [budget, divergence] : measured_) {
      if (budget == kv_budget) return divergence;
    }
    AskOptions options;
    options.kv_budget = static_cast<float>(kv_budget);
    options.max_evidence = 0;
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < questions_.size(); ++i) {
      LECTERN_RETURN_IF_ERROR(CheckStopped());
      LECTERN_ASSIGN(const ForcedAnswer forced,
                     AskForced(session_, questions_[i], exact_[i], options));
      session_.Forget();
      sum = std::accumulate(forced.divergences.begin(), forced.divergences.end(), sum);
      count += forced.divergences.size();
    }
    measured_.emplace_back(kv_budget, sum / static_cast<double>(count));
    return measured_.back().second;
  }

  DocumentSession& session_;
  const double max_divergence_;
  const std::function<bool()>& stopped_;
  std::vector<std::string> questions_;
  std::vector<ExactAnswer> exact_;  // of each question
  std::vector<MissedSample> samples_;
  std::vector<std::pair<double, double>> measured_;  // budget, divergence
  double least_ = 0;                                 // budget
};

}  // namespace

uint64_t CalibrationBytes(const ModelConfig& config) {
  // All questions' first tokens, one whole answer, and two softmaxes (Divergence).
  return (kNumQuestions * kForcedTokens + kMostCalibrationTokens + 2) * config.vocab_size *
         sizeof(float);
}

Result<Calibration> CalibrateDocument(std::shared_ptr<const Document> document, const Model& model,
                                      const Backend& backend, ThreadPool& threads,
                                      double max_divergence, const std::function<bool()>& stopped,
                                      const Placement& placement) {
  if (!document->has_clusters()) return Calibration();
  const std::shared_ptr<void> nothing;
  LECTERN_ASSIGN(const auto session,
                 DocumentSession::Create(
                     std::move(document), std::shared_ptr<const Model>(nothing, &model), backend,
                     std::shared_ptr<ThreadPool>(nothing, &threads), 0, placement));
  return Calibrator(*session, max_divergence, stopped).Run();
}

}  // namespace lectern
