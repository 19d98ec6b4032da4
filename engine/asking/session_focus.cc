// Focused reading: decides whether a session's question is read with a focus, and finds it.
#include <algorithm>
#include <numeric>

#include "engine/asking/ask.h"
#include "engine/asking/focus.h"
#include "engine/document/layer_shard.h"
#include "engine/requests/options.h"

namespace lectern {
namespace {

// Adds the first and the last tokens, which every question to a longer document reads: the model
// was trained to rely on its first rows, and the last ones lead over to the question.
void AddEnds(std::vector<bool>& tokens) {
  const auto size = static_cast<ptrdiff_t>(tokens.size());
  std::fill_n(tokens.begin(), std::min<ptrdiff_t>(size, kSinkTokens), true);
  std::fill_n(tokens.rbegin(), std::min<ptrdiff_t>(size, kWindowTokens), true);
}

}  // namespace

Result<bool> DocumentSession::WantsFocus(const AskOptions& options, double kv_budget) const {
  const bool is_plain = (options.kv_budget == 0 || options.kv_budget == kAutoBudget) &&
                        options.rule == "default" && !options.max_missed;
  const bool is_implied = options.focus == "auto" && is_plain && model_->adapter() != nullptr &&
                          model_->adapter()->settings().focus == true;
  const bool is_named = options.focus == "only" || options.focus == "words";
  const bool is_wanted = is_implied || (is_named && options.kv_budget != 1);
  if (is_wanted && options.max_missed) {
    return Status(Code::kInvalidArgument,
                  OptionName("focus") + " " + options.focus + " and " + OptionName("max_missed") +
                      " exclude each other: what is not read is not estimated")
        .WithParam("focus");
  }
  // Where the budget is all of the document, there is nothing to read first.
  if (options.focus == "words" && document_->ReadsAll(kv_budget)) return false;
  // On a device a short document, which has no clusters, is read whole: its rows are few there.
  return is_wanted && document_->num_full_layers() > 0 &&
         (document_->has_clusters() || !placement_.document);
}

Result<BudgetPlan> DocumentSession::PlanBeside(const std::vector<bool>& tokens,
                                               double kv_budget) const {
  const auto num_given = static_cast<double>(std::count(tokens.begin(), tokens.end(), true));
  LECTERN_ASSIGN(const double smallest, SmallestServed(/*tail=*/false));
  const double rest = kv_budget - num_given / static_cast<double>(tokens.size());
  return document_->Plan(settings_.policies, std::max(rest, smallest), /*tail=*/false,
                         HasByteBudget(settings_.rule.kind));
}

Status DocumentSession::Focus(std::string_view question, std::span<const int32_t> ids,
                              std::span<const int32_t> refusal, const AskOptions& options,
                              double kv_budget, Answer& answer) {
  if (!sums_.retrieved.empty()) {
    focus_.rows.reset();
    LECTERN_RETURN_IF_ERROR(Step(ids, kv_budget, options.tail, options.cancel).status());
    std::optional<double> refused;
    if (!refusal.empty()) {
      LECTERN_ASSIGN(const std::vector<double> logprobs,
                     LogProbabilitiesOf(refusal, kv_budget, options));
      refused = std::accumulate(logprobs.begin(), logprobs.end(), 0.0);
    }
    conversation_.Truncate(conversation_.num_tokens() - ids.size());
    // The receipt counts all bytes; its shares are those of the pass that answers.
    const StepRead read = totals_.all;
    totals_ = {};
    totals_.all.bytes = read.bytes, totals_.all.window_bytes = read.window_bytes;
    totals_.unfocused_refusal = refused;
  }
  LECTERN_ASSIGN(std::vector<bool> tokens, FocusTokens(*document_, question, sums_.retrieved));
  std::ranges::fill(sums_.retrieved, 0.0);
  if (std::ranges::find(tokens, true) != tokens.end()) {
    if (!document_->has_clusters()) AddEnds(tokens);
    if (options.focus == "words") {
      LECTERN_ASSIGN(BudgetPlan plan, PlanBeside(tokens, kv_budget));
      focus_.rows.emplace(std::move(tokens), std::move(plan));
    } else {
      focus_.rows.emplace(std::move(tokens), document_->num_layers());
    }
  } else if (!focus_.rows && options.focus != "auto") {
    // With a focus there is one from the question before: a follow-up such as "And when?".
    AddNote(answer, "no passage shares a word with the question, which is read without focus");
  }
  return {};
}

}  // namespace lectern
