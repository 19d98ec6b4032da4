// Runs one forward pass of a session: chooses who attends, embeds, runs the layers, and counts.
#include <cassert>
#include <chrono>

#include "engine/asking/ask.h"

namespace lectern {

// Runs the model over `ids`, which follow the conversation so far, and returns the logits of the
// last one. If the step fails, the conversation is as it was before.
Result<std::span<const float>> DocumentSession::Step(std::span<const int32_t> ids, double kv_budget,
                                                     bool tail, const CancelFlag* cancel) {
  LECTERN_RETURN_IF_ERROR(Pass(ids, kv_budget, tail, cancel, nullptr));
  return std::span<const float>(buffers_.logits);
}

Status DocumentSession::Pass(std::span<const int32_t> ids, double kv_budget, bool tail,
                             const CancelFlag* cancel, TokensAhead* ahead) {
  assert(!ids.empty() && ids.size() <= kMaxQuestionTokens);
  if (!buffers_.activations || buffers_.activations->max_tokens < ids.size()) {
    buffers_.activations =
        std::make_unique<Activations>(model_->config(), ids.size(), threads_->num_threads());
    buffers_.activations->stream = stream_;
  }
  const size_t past = conversation_.num_tokens();
  LECTERN_RETURN_IF_ERROR(
      conversation_.Place(past + ids.size(), settings_.max_session_rows == 0));
  const BudgetPlan* budgets = focus_.rows ? &focus_.rows->plan() : nullptr;
  if (!focus_.rows) {
    LECTERN_ASSIGN(budgets, PlanFor(*document_, kv_budget, tail, plans_.pass));
  }
  const std::vector<float> weights =
      RowWeights(ahead ? 1 : ids.size(), query_group(), document_->shape().num_tokens);
  const bool observes_conversation = settings_.max_session_rows > 0 && !totals_.is_aside;
  LECTERN_ASSIGN(
      StepAttention* const attention,
      attention_.Begin({.num_tokens = ids.size(),
                        .attends_apart = ahead != nullptr,
                        .num_past = static_cast<uint32_t>(past),
                        .kv_budget = kv_budget,
                        .budgets = budgets,
                        .tail = tail,
                        .rule = settings_.rule,
                        .selector = focus_.rows ? &focus_.rows->selector() : nullptr,
                        .is_measured = IsMeasured(*document_, tail),
                        .max_missed = settings_.max_missed,
                        .weights = weights,
                        .conversation = &conversation_.current(),
                        .sums = &sums_,
                        .later_sums = ahead ? ahead->sums() : std::span<const TokenSums>(),
                        .observes_conversation = observes_conversation,
                        .cancel = cancel}));
  const Status status = RunLayers(ids, *attention, cancel, ahead);
  Result<StepRead> read = status.ok() ? attention->Finish() : status;
  if (!read.ok()) {
    attention->GiveUp();
    conversation_.Truncate(past);
    return std::move(read).status();
  }
  conversation_.Add(ahead ? 1 : ids.size());
  totals_.Add(*read);
  if (ahead) ahead->EndPass(attention_.host().reads());
  return {};
}

// Runs all layers with this attention and writes the last token's logits into buffers_.
Status DocumentSession::RunLayers(std::span<const int32_t> ids, StepAttention& attention,
                                  const CancelFlag* cancel, TokensAhead* ahead) {
  Activations& a = *buffers_.activations;
  a.graph_key = attention.graph_key();
  a.attends_on_device = a.graph_key > 0;
  transformer_.Embed(ids, document_->shape().num_tokens + conversation_.num_tokens(), a);
  std::chrono::duration<double> attended{};
  const auto attend = [&](uint32_t layer, Activations& all, size_t row) -> Status {
    if (IsSet(cancel)) return {Code::kCancelled, "the answer was cancelled"};
    const auto start = std::chrono::steady_clock::now();
    Status status = attention.Attend(layer, all, row);
    attended += std::chrono::steady_clock::now() - start;
    return status;
  };
  const Rows<float> logits(buffers_.logits.data(), 1, buffers_.logits.size());
  if (shared_.batch && (ahead || ids.size() == 1)) {
    LECTERN_RETURN_IF_ERROR(shared_.batch->Run(shared_.seat, a, ahead ? ahead->logits() : logits,
                                               attend, cancel, settings_.wanted));
    if (shared_.ahead.is_on()) shared_.ahead.TookAttention(attended.count(), ids.size());
    return {};
  }
  // Nobody waits for a session whose pass has several tokens.
  if (shared_.batch) shared_.batch->Leave(shared_.seat);
  const auto attend_own = [&](uint32_t layer) { return attend(layer, a, 0); };
  if (ids.size() == 1) {
    LECTERN_RETURN_IF_ERROR(transformer_.RunToken(a, attend_own));
  } else {
    LECTERN_RETURN_IF_ERROR(transformer_.RunLayers(ids.size(), a, attend_own));
  }
  return transformer_.Logits(ids.size() - 1, 1, a, logits, settings_.wanted);
}

// Draws of tokens alone look at few logits; probabilities, schemas and trials do at all.
WantedLogits DocumentSession::WantedOf(const NextPrompt& next, const AskOptions& options) const {
  const bool is_watched = options.on_token || probe_.on_token || next.constraint ||
                          (next.barred && next.barred->is_open());
  return is_watched ? WantedLogits() : WantedBy(options.sampling);
}

// Calibration holds only for the settings that it was measured with.
bool DocumentSession::IsMeasured(const Document& document, bool tail) const {
  return settings_.rule.kind == Rule::kDefault && settings_.policies == document.policies() &&
         tail && !probe_.selector && !focus_.rows && document.missed_calibration().is_measured();
}

Result<DocumentRead> DocumentSession::AttendAgain(double kv_budget, bool tail,
                                                  std::vector<float>& output, bool bound,
                                                  bool as_stored) {
  const Document& document = probe_.attended_again != nullptr ? *probe_.attended_again : *document_;
  LECTERN_ASSIGN(const BudgetPlan* const budgets,
                 PlanFor(document, kv_budget, tail, plans_.beside));
  return attention_.host().AttendBeside(document, budgets, kv_budget, tail,
                                        IsMeasured(document, tail), settings_.rule, output, bound,
                                        as_stored);
}

Result<const BudgetPlan*> DocumentSession::PlanFor(const Document& document, double kv_budget,
                                                   bool tail, std::optional<KeptPlan>& kept) const {
  if (document.ReadsAll(kv_budget)) return static_cast<const BudgetPlan*>(nullptr);
  const PlanPolicies& policies = settings_.policies;
  const bool has_floors = HasByteBudget(settings_.rule.kind);
  if (!kept || kept->document != &document || kept->policies != policies ||
      kept->kv_budget != kv_budget || kept->tail != tail || kept->has_floors != has_floors) {
    LECTERN_ASSIGN(BudgetPlan plan, document.Plan(policies, kv_budget, tail, has_floors));
    kept = {&document, policies, kv_budget, tail, has_floors, std::move(plan)};
  }
  return &kept->plan;
}

// An automatic budget was measured with the document's own policies. Another policy may need more
// at the least, and then gets it.
Status DocumentSession::MakePassPlan(ChosenBudget& chosen, bool tail) {
  const Status status = PlanFor(*document_, chosen.kv_budget, tail, plans_.pass).status();
  if (status.code() != Code::kBudgetTooSmall || !chosen.is_auto) return status;
  LECTERN_ASSIGN(const double smallest, SmallestServed(tail));
  constexpr double kRounding = 1 + 1e-9;  // so that no whole row is lost to rounding
  chosen.kv_budget = std::min(1.0, smallest * kRounding);
  chosen.divergence = document_->divergence_curve().At(chosen.kv_budget);
  return PlanFor(*document_, chosen.kv_budget, tail, plans_.pass).status();
}

Result<double> DocumentSession::SmallestServed(bool tail) const {
  if (!document_->has_clusters()) return 0.0;
  return document_->SmallestBudget(settings_.policies, tail);
}

void DocumentSession::CompressRows() {
  if (settings_.max_session_rows > 0) conversation_.rows().Compress(settings_.max_session_rows);
}

void DocumentSession::Forget() {
  conversation_.Truncate(0);
  said_ = {};
}

Result<std::unique_ptr<DocumentSession>> AsDocumentSession(std::unique_ptr<Session> session) {
  auto* const whole = dynamic_cast<DocumentSession*>(session.get());
  if (whole == nullptr) {
    return Status(Code::kInvalidArgument,
                  "the document is in parts, because it is longer than the model's room; take a "
                  "shorter one, or a model with more positions")
        .WithParam("document");
  }
  static_cast<void>(session.release());
  return std::unique_ptr<DocumentSession>(whole);
}

void DocumentSession::Totals::Add(const StepRead& read) {
  (in_prefill ? prefill_fraction : decode_fraction) += read.fraction;
  if (!in_prefill) ++decode_steps;
  all.bytes += read.bytes;
  all.window_bytes += read.window_bytes;
  all.missed += read.missed;
  all.missed_bound += read.missed_bound;
  all.bound_holds &= read.bound_holds;
}

}  // namespace lectern
