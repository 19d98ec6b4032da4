#include "engine/attention/host_step.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/attention/attention_probabilities.h"
#include "engine/attention/retrieval_attention.h"
#include "engine/attention/sinks.h"

namespace lectern {
namespace {

// Weight of the pass's last token in the selection of what the pass reads; earlier tokens share the
// rest. The next token is drawn from the last token's output, but that output also depends on what
// the tokens before it found in lower layers.
// Measured at a budget of 0.1 on real text (SmolLM2-135M at 6.5K tokens, Gemma 3 270M at 14K; 8
// questions each). KL of the first token: 0.014 and 0.0115 with a share of 0.8, 0.010 and 0.0114
// with 0.4, 0.008 and 0.015 with 0.2. Errors of attention outputs are a sixth smaller with 0.4 than
// with 0.8.
constexpr float kLastTokenShare = 0.4f;
// The most tokens before the last one whose rows choose, evenly spread: scoring every row of a long
// question takes longer than attending to the whole document. Measured with 31, 15 and 7
// (tools/evaluate/RESULTS.md): a question of 64 tokens to 131,072 takes 820, 550 and 420 ms; as
// many of 122 answers equal exact mode's, and the first token's KL begins to grow at 7.
constexpr size_t kChoosingTokens = 15;  // up to 31 for documents below kLongDocument

// So many of a question's rows count for its retrieval heads at most, evenly spread, the last one
// among them: longer questions are rare, and each row is scored once more. By hand.
constexpr size_t kMostRetrievingTokens = 64;

}  // namespace

std::vector<float> RowWeights(size_t num_tokens, size_t group, size_t document_tokens) {
  if (num_tokens == 1) return {};
  const size_t most = std::clamp(kChoosingTokens * kLongDocument / document_tokens, kChoosingTokens,
                                 2 * kChoosingTokens + 1);
  const size_t before = num_tokens - 1, choosing = std::min(before, most);
  std::vector<float> weights(num_tokens * group, 0.0f);
  const auto count = [&](size_t token, float weight) {
    std::fill_n(weights.begin() + static_cast<ptrdiff_t>(token * group), group,
                weight / static_cast<float>(group));
  };
  // The middle of each of `choosing` equal stretches of the earlier tokens.
  for (size_t i = 0; i < choosing; ++i) {
    count((2 * i + 1) * before / (2 * choosing),
          (1 - kLastTokenShare) / static_cast<float>(choosing));
  }
  count(before, kLastTokenShare);
  return weights;
}

// Attention states of all kv heads of a layer, with R = tokens * group rows each.
struct HostStep::LayerStates {
  // Makes empty states whose sums are in output_of(kv head) [R, head_dim], which is overwritten.
  template <typename OutputOf>
  LayerStates(const ModelConfig& config, size_t num_tokens, const OutputOf& output_of, Arena* arena)
      : numbers(arena), all(arena), lse(arena), document_lse(arena), outputs(arena) {
    const size_t rows = num_tokens * config.query_group();
    numbers.resize(config.num_kv_heads * rows * 4);
    for (size_t head = 0; head < config.num_kv_heads; ++head) {
      float* base = numbers.data() + head * rows * 4;
      all.push_back({output_of(head), {base, rows}, {base + rows, rows}});
      lse.emplace_back(base + 2 * rows, rows);
      document_lse.emplace_back(base + 3 * rows, rows);
      outputs.push_back(all.back().out);
      ResetState(all.back());
    }
  }
  ArenaVector<float> numbers;
  ArenaVector<AttentionState> all;  // per kv head; out is [R, head_dim] of the caller
  ArenaVector<std::span<float>> lse, document_lse;
  ArenaVector<Rows<float>> outputs;
};

Result<bool> HostStep::Begin(const StepPlan& plan) {
  plan_ = plan;
  reads_.assign(plan.attends_apart ? plan.num_tokens : 1, {});
  if (plan.num_tokens > 1 && !plan.attends_apart) {
    document_.ReadAheadCodes(0);
    document_.ReadAheadRows(0);
  }
  return true;
}

Status HostStep::Attend(uint32_t layer, Activations& a, size_t /*row*/) {
  if (IsSet(plan_.cancel)) return {Code::kCancelled, "the answer was cancelled"};
  const ModelConfig& config = transformer_.model().config();
  layer_ = layer;
  activations_ = &a;
  observed_.num_queries = config.query_group();
  const Document::LayerUse use(document_, layer);
  part_ = {.first = 0, .num_tokens = plan_.attends_apart ? 1 : plan_.num_tokens};
  for (; part_.first < plan_.num_tokens; part_.first += part_.num_tokens) {
    LECTERN_RETURN_IF_ERROR(AttendPart());
  }
  return {};
}

Rows<float> HostStep::Queries(size_t kv_head) const {
  const size_t group = transformer_.model().config().query_group();
  return transformer_.Grouped(activations_->queries, kv_head, plan_.num_tokens)
      .Slice(part_.first * group, (part_.first + part_.num_tokens) * group);
}

Rows<float> HostStep::Attended(size_t kv_head) const {
  const size_t group = transformer_.model().config().query_group();
  return transformer_.Grouped(activations_->attended, kv_head, plan_.num_tokens)
      .Slice(part_.first * group, (part_.first + part_.num_tokens) * group);
}

HostStep::PartSums HostStep::SumsOfPart() const {
  AttentionSums& sums = *plan_.sums;
  if (part_.first == 0) return {sums.masses, sums.squares, sums.retrieved};
  const TokenSums& later = plan_.later_sums[part_.first - 1];
  return {{}, later.squares, later.retrieved};
}

Status HostStep::AttendPart() {
  const ModelConfig& config = transformer_.model().config();
  const bool is_windowed = document_.is_windowed(layer_);
  const PartSums sums = SumsOfPart();
  const bool is_observed = !is_windowed && (!sums.masses.empty() || !sums.squares.empty());
  const bool reads_ahead = part_.num_tokens > 1 && layer_ + 1 < config.num_layers;
  if (reads_ahead) document_.ReadAheadCodes(layer_ + 1);
  const size_t kv_cols = size_t{config.num_kv_heads} * config.head_dim;
  LECTERN_RETURN_IF_ERROR(plan_.conversation->Append(
      layer_, part_.num_tokens, activations_->keys.data() + part_.first * kv_cols,
      activations_->values.data() + part_.first * kv_cols,
      plan_.num_past + static_cast<uint32_t>(part_.first)));
  arena_.Reset();
  // Memory of a layer: output states, their log-sum-exps, and the queries grouped by kv head.
  LayerStates states(
      config, part_.num_tokens, [this](size_t head) { return Attended(head); }, &arena_);
  LECTERN_RETURN_IF_ERROR(AttendLayer(document_, plan_, layer_, /*bound=*/false, /*as_stored=*/false,
                                      is_observed ? &observed_ : nullptr, states, document_read_));
  if (reads_ahead) document_.ReadAheadRows(layer_ + 1);
  if (probe_.on_layer && !is_windowed) {
    probe_.on_layer({layer_, part_.num_tokens, document_read_, states.outputs, states.lse,
                     states.document_lse, plan_.weights});
  }
  if (is_observed) CollectEvidence(layer_, states);
  if (!is_windowed) LECTERN_RETURN_IF_ERROR(WatchHeads(layer_, states));
  if (plan_.observes_conversation) {
    ArenaVector<Rows<const float>> queries(&arena_);
    for (size_t head = 0; head < config.num_kv_heads; ++head) queries.push_back(Queries(head));
    static_cast<HostConversation*>(plan_.conversation)
        ->AddSquaredAttention(QueryOf(states, queries), layer_, states.lse);
  }
  Count(layer_);
  return {};
}

RowQuery HostStep::QueryOf(const LayerStates& states,
                           std::span<const Rows<const float>> queries) const {
  return {.queries = queries,
          .num_tokens = part_.num_tokens,
          .softcap = transformer_.model().config().attention_softcap,
          .states = states.all};
}

// The document and the conversation are two attention states, which are joined exactly.
Status HostStep::AttendLayer(const Document& document, const StepPlan& plan, uint32_t layer,
                             bool bound, bool as_stored, ObservedLogits* observed,
                             LayerStates& states, DocumentRead& read) {
  const ModelConfig& config = transformer_.model().config();
  const size_t kv_heads = config.num_kv_heads;
  ArenaVector<Rows<const float>> queries(&arena_);
  for (size_t head = 0; head < kv_heads; ++head) queries.push_back(Queries(head));
  const size_t rows = part_.num_tokens * config.query_group();
  ArenaVector<float> output(kv_heads * rows * config.head_dim, &arena_);
  LayerStates conversation(
      config, part_.num_tokens,
      [&](size_t head) {
        return Rows<float>(output.data() + head * rows * config.head_dim, rows, config.head_dim);
      },
      &arena_);
  // Sinks are on the side of what is read whatever the document's lookup chooses.
  const std::vector<float>& sinks = transformer_.model().weights().layer(layer).sinks;
  for (size_t head = 0; head < kv_heads && !sinks.empty(); ++head) {
    BeginState(conversation.all[head], sinks, head, config.query_group(), 0);
  }
  const uint32_t num_past = plan.num_past + static_cast<uint32_t>(part_.first);
  LECTERN_RETURN_IF_ERROR(plan.conversation->Attend(QueryOf(conversation, queries), layer, num_past,
                                                    config.is_windowed(layer) ? config.window : 0));
  for (size_t head = 0; head < kv_heads; ++head) {
    const AttentionState& state = conversation.all[head];
    for (size_t r = 0; r < state.num_rows(); ++r) {
      conversation.lse[head][r] = state.max[r] + std::log(state.sum[r]);
    }
  }
  const BudgetPlan* const budgets = plan.budgets;
  std::span<const double> head_budgets;
  if (budgets != nullptr && !budgets->heads.empty()) {
    head_budgets = std::span(budgets->heads).subspan(layer * kv_heads, kv_heads);
  }
  LECTERN_RETURN_IF_ERROR(
      AttendDocument({.query = {.backend = transformer_.backend(),
                                .threads = transformer_.threads(),
                                .rows = QueryOf(states, queries),
                                .row_weights = plan.weights,
                                .is_cancelled = [&plan] { return IsSet(plan.cancel); },
                                .workspace = workspace_},
                      .document = document,
                      .layer = layer,
                      .first_position = document.shape().num_tokens + num_past,
                      .kv_budget = budgets != nullptr ? budgets->layers[layer] : 1,
                      .tail = plan.tail,
                      .head_budgets = head_budgets,
                      .calibration = plan.is_measured ? &document.missed_calibration() : nullptr,
                      .nominal_budget = plan.kv_budget,
                      .max_missed = plan.max_missed,
                      .bound = bound,
                      .as_stored = as_stored,
                      .other_lse = conversation.lse,
                      .selector = probe_.selector ? &probe_.selector : plan.selector,
                      .rule = plan.rule,
                      .observed = observed,
                      .device = &document == &document_ ? device_ : nullptr,
                      .ranks = &document == &document_ ? ranks_ : nullptr},
                     read));
  for (size_t head = 0; head < kv_heads; ++head) {
    const AttentionState& state = states.all[head];
    for (size_t r = 0; r < state.num_rows(); ++r) {
      states.document_lse[head][r] = state.max[r] + std::log(state.sum[r]);
    }
    MergeStates(state, conversation.all[head]);
    FinishState(state, state.out, states.lse[head]);
  }
  return {};
}

Result<DocumentRead> HostStep::AttendBeside(const Document& document, const BudgetPlan* budgets,
                                            double kv_budget, bool tail, bool is_measured,
                                            const SelectionRule& rule, std::vector<float>& output,
                                            bool bound, bool as_stored) {
  const ModelConfig& config = transformer_.model().config();
  StepPlan plan = plan_;
  plan.budgets = budgets;
  plan.kv_budget = kv_budget;
  plan.tail = tail;
  plan.is_measured = is_measured;
  plan.rule = rule;
  plan.cancel = nullptr;
  output.resize(plan.num_tokens * config.num_heads * config.head_dim);
  const size_t rows = plan.num_tokens * config.query_group();
  LayerStates states(
      config, plan.num_tokens,
      [&](size_t head) {
        return Rows<float>(output.data() + head * rows * config.head_dim, rows, config.head_dim);
      },
      &arena_);
  // The running pass has the layer of its own document in use.
  std::optional<Document::LayerUse> use;
  if (&document != &document_) use.emplace(document, layer_);
  DocumentRead read;
  LECTERN_RETURN_IF_ERROR(
      AttendLayer(document, plan, layer_, bound, as_stored, nullptr, states, read));
  return read;
}

// Adds the last token's attention to the sums, because the last token chooses the next one. The
// document's mass matters of questions alone, which have one part.
void HostStep::CollectEvidence(uint32_t layer, const LayerStates& states) {
  const ModelConfig& config = transformer_.model().config();
  const size_t group = config.query_group(), first = (part_.num_tokens - 1) * group;
  const PartSums sums = SumsOfPart();
  const auto heads = document_.Heads(layer);
  if (!heads.ok()) return;  // it was readable a moment ago; give no evidence
  for (uint32_t head = 0; head < config.num_kv_heads; ++head) {
    const std::span<const float> lse = states.lse[head].subspan(first, group);
    AddProbabilities(transformer_.backend(), heads.value()[head], document_read_, head, observed_,
                     lse, sums.masses, sums.squares);
    for (size_t r = 0; part_.first == 0 && r < group; ++r) {
      plan_.sums->document_mass +=
          std::exp(double{states.document_lse[head][first + r]} - lse[r]);
    }
  }
}

// The rows of one query head that count in this pass, and how much each does: copies of queries and
// log-sum-exps, because a head's rows lie `query_group` apart.
struct HostStep::HeadRows {
  HeadRows(const ModelConfig& config, size_t num_tokens, Arena* arena)
      : num_rows(std::min(num_tokens, kMostRetrievingTokens)),
        queries(num_rows * config.head_dim, arena),
        lse(num_rows, arena),
        weights(num_rows, arena) {}
  const size_t num_rows;
  ArenaVector<float> queries, lse, weights;
};

Status HostStep::AddHead(uint32_t query_head, const LayerStates& states, bool last_row_only,
                         HeadRows& rows, std::span<double> sums) {
  const ModelConfig& config = transformer_.model().config();
  const size_t group = config.query_group(), dim = config.head_dim;
  const size_t count = last_row_only ? 1 : rows.num_rows;
  const uint32_t kv_head = query_head / static_cast<uint32_t>(group);
  const Rows<float> queries = Queries(kv_head);
  for (size_t i = 0; i < count; ++i) {
    // The last of `count` equal stretches' tokens, so that the question's last one is among them.
    const size_t token =
        last_row_only ? part_.num_tokens - 1 : (i + 1) * part_.num_tokens / count - 1;
    const size_t row = token * group + query_head % group;
    std::copy_n(queries[row], dim, rows.queries.data() + i * dim);
    rows.lse[i] = states.lse[kv_head][row];
    rows.weights[i] = 1 / static_cast<float>(count);
  }
  LECTERN_ASSIGN(const auto heads, document_.Heads(layer_));
  return AddHeadAttention({.backend = transformer_.backend(),
                           .threads = transformer_.threads(),
                           .head = heads[kv_head],
                           .read = document_read_,
                           .kv_head = kv_head,
                           .queries = {rows.queries.data(), count, dim},
                           .lse = std::span(rows.lse).first(count),
                           .weights = std::span(rows.weights).first(count),
                           .softcap = config.attention_softcap,
                           .workspace = head_workspace_},
                          sums);
}

// A question's rows count for heads of both kinds, the rows of an answer's tokens for those that
// look from where the next token is drawn.
Status HostStep::WatchHeads(uint32_t layer, const LayerStates& states) {
  const ModelConfig& config = transformer_.model().config();
  const bool is_question = part_.num_tokens > 1;
  const bool is_watched = is_question && probe_.on_head;
  const std::span<double> retrieved = SumsOfPart().retrieved;
  const std::span<const RetrievalWeights> heads = plan_.sums->heads;
  const bool retrieves = !retrieved.empty() && !heads[layer].is_empty();
  if (!is_watched && !retrieves) return {};
  HeadRows rows(config, part_.num_tokens, &arena_);
  for (uint32_t head = 0; retrieves && head < config.num_heads; ++head) {
    if (is_question && heads[layer].all_rows[head] > 0) {
      LECTERN_RETURN_IF_ERROR(AddHead(head, states, false, rows, retrieved));
    }
    if (heads[layer].last_row[head] > 0) {
      LECTERN_RETURN_IF_ERROR(AddHead(head, states, true, rows, retrieved));
    }
  }
  for (uint32_t head = 0; is_watched && head < config.num_heads; ++head) {
    std::vector<double> all_rows(document_.tokens().size()), last_row(all_rows.size());
    LECTERN_RETURN_IF_ERROR(AddHead(head, states, false, rows, all_rows));
    LECTERN_RETURN_IF_ERROR(AddHead(head, states, true, rows, last_row));
    probe_.on_head({layer, head, all_rows, last_row});
  }
  return {};
}

void HostStep::Count(uint32_t layer) {
  const DocumentRead& read = document_read_;
  StepRead& sum = reads_[plan_.attends_apart ? part_.first : 0];
  sum.window_bytes += read.window_bytes;
  if (document_.is_windowed(layer)) return;
  AddLayer({.num_layers = document_.num_full_layers(),
            .bytes = read.bytes,
            .dense_bytes = read.dense_bytes,
            .missed = read.missed_mass,
            .missed_bound = read.missed_bound},
           sum);
  if (read.bounded && read.missed_bound > plan_.max_missed) sum.bound_holds = false;
}

}  // namespace lectern
