// One forward pass of a session: where its rows are, what each layer attends to, and what is counted
// of it.
#include <algorithm>
#include <cmath>

#include "engine/ask.h"
#include "engine/attention_probabilities.h"
#include "index/window_attention.h"

namespace lectern {
namespace {

// What each row of a step counts in its selection: the query rows of the last token this much of
// the whole, those of the tokens before it share the rest. The next token is drawn from the last
// one's output; what the others find matters only through it. Measured, before variances counted in
// S, on 90 questions to 8K tokens at budget 0.05: answers equal to exact mode's from 83 to 93 %, KL
// of the first token from 0.20 to 0.06, for 6 % more mean error of attention outputs; shares of
// 0.3, 0.5, 0.7 and 0.85 in between.
constexpr float kLastTokenShare = 0.8f;
// Of the tokens before it at most so many choose, evenly spread: scoring every row of a long
// question takes longer than attending to the whole document. Measured with 31, 15 and 7
// (tools/evaluate/RESULTS.md): a question of 64 tokens to 131,072 takes 820, 550 and 420 ms, as many
// of 122 answers are those of exact mode, and the first token's KL begins to grow at 7.
constexpr size_t kChoosingTokens = 15;  // and up to 31 of documents below kLongDocument

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
  for (size_t i = 0; i < choosing; ++i) {
    count((2 * i + 1) * before / (2 * choosing),
          (1 - kLastTokenShare) / static_cast<float>(choosing));
  }
  count(before, kLastTokenShare);
  return weights;
}

}  // namespace

// States of all kv heads of a layer, R = tokens * group rows each.
struct DocumentSession::LayerStates {
  LayerStates(const ModelConfig& config, size_t num_tokens, float* output, Arena* arena)
      : numbers(arena), all(arena), lse(arena), document_lse(arena), outputs(arena) {
    const size_t rows = num_tokens * config.query_group();
    numbers.resize(config.num_kv_heads * rows * 4);
    for (size_t head = 0; head < config.num_kv_heads; ++head) {
      float* base = numbers.data() + head * rows * 4;
      all.push_back({{output + head * rows * config.head_dim, rows, config.head_dim},
                     {base, rows},
                     {base + rows, rows}});
      lse.emplace_back(base + 2 * rows, rows);
      document_lse.emplace_back(base + 3 * rows, rows);
      outputs.push_back(all.back().out);
    }
  }
  ArenaVector<float> numbers;
  ArenaVector<AttentionState> all;  // per kv head; out is [R, head_dim] of the caller
  ArenaVector<std::span<float>> lse, document_lse;
  ArenaVector<Rows<float>> outputs;
};

// They are on the device where attention to the document is, while there is room, but for rows that
// are compressed, which is done here.
Status DocumentSession::PlaceRows(size_t num_tokens) {
  const bool is_wanted = device_attention_ && max_session_rows == 0;
  if (!is_wanted) return rows_on_device_ ? BringRowsHere() : Status();
  if (!rows_on_device_ && num_past_ > 0) return {};
  const Status reserved = conversation_->Reserve(num_past_, num_tokens);
  if (reserved.ok()) {
    rows_on_device_ = true;
    return {};
  }
  if (reserved.code() != Code::kOutOfMemory) return reserved;
  return rows_on_device_ ? BringRowsHere() : Status();
}

Status DocumentSession::BringRowsHere() {
  LECTERN_RETURN_IF_ERROR(TakeDeviceEvidence());
  rows_.Truncate(0);  // of a call that failed
  LECTERN_RETURN_IF_ERROR(conversation_->Read(static_cast<uint32_t>(num_past_), rows_));
  rows_on_device_ = false;
  return {};
}

Status DocumentSession::StoreRows(uint32_t layer, size_t num_tokens) {
  if (rows_on_device_) {
    return conversation_->Append(layer, num_tokens, activations_->keys.data(),
                                 activations_->values.data(), static_cast<uint32_t>(num_past_));
  }
  const ModelConfig& config = model_->config();
  const size_t dim = config.head_dim, kv_cols = size_t{config.num_kv_heads} * dim;
  for (size_t head = 0; head < config.num_kv_heads; ++head) {
    rows_.Append(transformer_.backend(), layer * config.num_kv_heads + head,
                 {activations_->keys.data() + head * dim, num_tokens, dim, kv_cols},
                 {activations_->values.data() + head * dim, num_tokens, dim, kv_cols});
  }
  return {};
}

// The first row of a windowed layer's cache that the token of row `end` - 1 sees.
uint32_t DocumentSession::FirstInWindow(size_t cache, size_t end) const {
  const std::span<const uint32_t> tokens = rows_.tokens(cache).first(end);
  const uint32_t seen = tokens.back() + 1, window = model_->config().window;
  const auto first = std::ranges::lower_bound(tokens, seen - std::min(seen, window));
  return static_cast<uint32_t>(first - tokens.begin());
}

// Causal attention over the tokens after the fixed context, these included.
Status DocumentSession::AttendQuestion(uint32_t layer, size_t num_tokens,
                                       std::span<const Rows<const float>> queries,
                                       const LayerStates& states) {
  if (!rows_on_device_) {
    AttendQuestionHere(layer, num_tokens, states);
    return {};
  }
  const ModelConfig& config = model_->config();
  for (const AttentionState& state : states.all) ResetState(state);
  return conversation_->Attend({.queries = queries,
                                .num_tokens = num_tokens,
                                .softcap = config.attention_softcap,
                                .states = states.all},
                               layer, static_cast<uint32_t>(num_past_),
                               config.is_windowed(layer) ? config.window : 0);
}

void DocumentSession::AttendQuestionHere(uint32_t layer, size_t num_tokens,
                                         const LayerStates& states) {
  const ModelConfig& config = model_->config();
  const size_t group = config.query_group(), rows = num_tokens * group;
  const size_t blocks = (rows + kQueryRowsPerItem - 1) / kQueryRowsPerItem;
  const size_t scratch_size = AttendScratch(std::min(rows, kQueryRowsPerItem), config.head_dim);
  ArenaVector<float> scratch(threads_->num_threads() * scratch_size, &arena_);
  ArenaVector<uint32_t> visible(config.num_kv_heads * rows, &arena_);
  const bool is_windowed = config.is_windowed(layer);
  ArenaVector<uint32_t> first(is_windowed ? visible.size() : 0, &arena_);
  threads_->ParallelFor(blocks * config.num_kv_heads, [&](size_t item, size_t slot) {
    const size_t head = item / blocks, begin = item % blocks * kQueryRowsPerItem;
    const size_t end = std::min(begin + kQueryRowsPerItem, rows);
    const AttentionState state = states.all[head].Slice(begin, end);
    const size_t cache = layer * config.num_kv_heads + head;
    const size_t before = rows_.num_rows(cache) - num_tokens;
    const auto seen = std::span<uint32_t>(visible).subspan(head * rows + begin, end - begin);
    for (size_t r = begin; r < end; ++r) {
      seen[r - begin] = static_cast<uint32_t>(before + r / group + 1);
    }
    std::span<uint32_t> from;
    if (is_windowed) {
      from = std::span<uint32_t>(first).subspan(head * rows + begin, end - begin);
      for (size_t r = begin; r < end; ++r) {
        from[r - begin] = FirstInWindow(cache, seen[r - begin]);
      }
    }
    ResetState(state);
    transformer_.backend().attend(
        {.queries = transformer_.Grouped(activations_->queries, head, num_tokens).Slice(begin, end),
         .keys = rows_.Keys(cache, seen.back()),
         .values = rows_.Values(cache, seen.back()),
         .scale = 1 / std::sqrt(static_cast<float>(config.head_dim)),
         .softcap = config.attention_softcap,
         .visible = seen,
         .first = from,
         .state = state,
         .logits = {},
         .scratch = {scratch.data() + slot * scratch_size, scratch_size}});
  });
}

// Document and question are two attention states, joined exactly.
Status DocumentSession::AttendLayer(const Document& document, uint32_t layer, size_t num_tokens,
                                    double kv_budget, bool tail, const CancelFlag* cancel,
                                    LayerStates& states, bool bound, ObservedLogits* observed,
                                    DocumentRead& read) {
  const ModelConfig& config = model_->config();
  ArenaVector<Rows<const float>> queries(&arena_);
  for (size_t head = 0; head < config.num_kv_heads; ++head) {
    queries.push_back(transformer_.Grouped(activations_->queries, head, num_tokens));
    ResetState(states.all[head]);
  }
  ArenaVector<float> question(num_tokens * config.num_heads * config.head_dim, &arena_);
  LayerStates question_states(config, num_tokens, question.data(), &arena_);
  LECTERN_RETURN_IF_ERROR(AttendQuestion(layer, num_tokens, queries, question_states));
  for (size_t head = 0; head < config.num_kv_heads; ++head) {
    const AttentionState& state = question_states.all[head];
    for (size_t r = 0; r < state.num_rows(); ++r) {
      question_states.lse[head][r] = state.max[r] + std::log(state.sum[r]);
    }
  }
  const std::vector<float> weights =
      RowWeights(num_tokens, config.query_group(), document.shape().num_tokens);
  // Measured with the default rule by the document's plan; others have to prove what they miss.
  const bool is_measured = rule.kind == Rule::kDefault && policies == document.policies() && tail &&
                           !selector && document.missed_calibration().is_measured();
  LECTERN_ASSIGN(const BudgetPlan* const plan, PlanFor(document, kv_budget, tail));
  std::span<const double> head_budgets;
  if (plan != nullptr && !plan->heads.empty()) {
    head_budgets = std::span(plan->heads).subspan(layer * config.num_kv_heads, config.num_kv_heads);
  }
  LECTERN_RETURN_IF_ERROR(
      AttendDocument({.document = document,
                      .backend = transformer_.backend(),
                      .threads = *threads_,
                      .layer = layer,
                      .queries = queries,
                      .num_tokens = num_tokens,
                      .first_position = document.shape().num_tokens + num_past_,
                      .softcap = config.attention_softcap,
                      .kv_budget = plan != nullptr ? plan->layers[layer] : 1,
                      .tail = tail,
                      .head_budgets = head_budgets,
                      .calibration = is_measured ? &document.missed_calibration() : nullptr,
                      .nominal_budget = kv_budget,
                      .max_missed = max_missed_,
                      .bound = bound,
                      .states = states.all,
                      .other_lse = question_states.lse,
                      .is_cancelled = [cancel] { return IsSet(cancel); },
                      .selector = selector ? &selector : nullptr,
                      .row_weights = weights,
                      .workspace = workspace_,
                      .rule = rule,
                      .observed = observed,
                      .device = &document == document_.get() ? device_attention_.get() : nullptr},
                     read));
  for (size_t head = 0; head < config.num_kv_heads; ++head) {
    const AttentionState& state = states.all[head];
    for (size_t r = 0; r < state.num_rows(); ++r) {
      states.document_lse[head][r] = state.max[r] + std::log(state.sum[r]);
    }
    MergeStates(state, question_states.all[head]);
    FinishState(state, state.out, states.lse[head]);
  }
  return {};
}

Result<DocumentRead> DocumentSession::AttendAgain(uint32_t layer, size_t num_tokens,
                                                  double kv_budget, bool tail,
                                                  std::vector<float>& output, bool bound) {
  output.resize(num_tokens * model_->config().num_heads * model_->config().head_dim);
  LayerStates states(model_->config(), num_tokens, output.data(), &arena_);
  const Document& document = attended_again != nullptr ? *attended_again : *document_;
  DocumentRead read;
  LECTERN_RETURN_IF_ERROR(AttendLayer(document, layer, num_tokens, kv_budget, tail, nullptr, states,
                                      bound, nullptr, read));
  return read;
}

// Of the last token, whose attention chooses the next one.
void DocumentSession::CollectEvidence(uint32_t layer, size_t num_tokens, const DocumentRead& read,
                                      const LayerStates& states) {
  const ModelConfig& config = model_->config();
  const size_t group = config.query_group(), first = (num_tokens - 1) * group;
  const auto heads = document_->Heads(layer);
  if (!heads.ok()) return;  // it was readable a moment ago; no evidence then
  for (uint32_t head = 0; head < config.num_kv_heads; ++head) {
    const std::span<const float> lse = states.lse[head].subspan(first, group);
    AddProbabilities(transformer_.backend(), heads.value()[head], read, head, observed_, lse, mass_,
                     squared_mass_);
    for (size_t r = 0; r < group; ++r) {
      document_mass_ += std::exp(double{states.document_lse[head][first + r]} - lse[r]);
    }
  }
}

// A layer's attention, and what is counted of it.
Status DocumentSession::AttendStep(uint32_t layer, size_t num_tokens, double kv_budget, bool tail,
                                   const CancelFlag* cancel, double& read_fraction) {
  const ModelConfig& config = model_->config();
  if (IsSet(cancel)) return {Code::kCancelled, "the answer was cancelled"};
  const bool is_windowed = document_->is_windowed(layer);
  const bool is_observed = !is_windowed && (!mass_.empty() || !squared_mass_.empty());
  observed_.num_queries = config.query_group();
  const bool reads_ahead = num_tokens > 1 && layer + 1 < config.num_layers;
  if (reads_ahead) document_->ReadAheadCodes(layer + 1);
  const Document::LayerUse use(*document_, layer);
  LECTERN_RETURN_IF_ERROR(StoreRows(layer, num_tokens));
  arena_.Reset();
  LayerStates states(config, num_tokens, activations_->attended.data(), &arena_);
  LECTERN_RETURN_IF_ERROR(AttendLayer(*document_, layer, num_tokens, kv_budget, tail, cancel,
                                      states, /*bound=*/false, is_observed ? &observed_ : nullptr,
                                      read_));
  if (reads_ahead) document_->ReadAheadRows(layer + 1);
  const DocumentRead& read = read_;
  if (on_layer && !is_windowed) {
    const std::vector<float> weights =
        RowWeights(num_tokens, config.query_group(), document_->shape().num_tokens);
    on_layer({layer, num_tokens, read, states.outputs, states.lse, states.document_lse, weights});
  }
  if (is_observed) CollectEvidence(layer, num_tokens, read, states);
  if (max_session_rows > 0) CollectSessionAttention(layer, num_tokens, states);
  totals_.window_bytes += read.window_bytes;
  if (is_windowed) return {};
  const double num_layers = document_->num_full_layers();
  read_fraction +=
      static_cast<double>(read.bytes) / static_cast<double>(read.dense_bytes) / num_layers;
  totals_.bytes += read.bytes;
  totals_.missed += read.missed_mass / num_layers;
  totals_.missed_bound += read.missed_bound / num_layers;
  if (read.bounded && read.missed_bound > max_missed_) bound_held_everywhere_ = false;
  return {};
}

Result<std::span<const float>> DocumentSession::Step(std::span<const int32_t> ids, double kv_budget,
                                                     bool tail, const CancelFlag* cancel) {
  assert(!ids.empty() && ids.size() <= kMaxQuestionTokens);
  const size_t past = num_past_;
  if (!activations_ || activations_->max_tokens < ids.size()) {
    activations_ =
        std::make_unique<Activations>(model_->config(), ids.size(), threads_->num_threads());
    activations_->stream = stream_;
  }
  LECTERN_RETURN_IF_ERROR(PlaceRows(past + ids.size()));
  LECTERN_ASSIGN(const bool attends_there, BeginDeviceStep(ids.size(), kv_budget, tail));
  if (!attends_there && ids.size() > 1) {
    document_->ReadAheadCodes(0);
    document_->ReadAheadRows(0);
  }
  activations_->attends_on_device = attends_there;
  activations_->graph_key = attends_there ? device_step_->key() : 0;
  transformer_.Embed(ids, document_->shape().num_tokens + past, *activations_);
  double read_fraction = 0;
  const auto attend = [&](uint32_t layer, Activations& a, size_t row) -> Status {
    if (!attends_there) {
      return AttendStep(layer, ids.size(), kv_budget, tail, cancel, read_fraction);
    }
    if (IsSet(cancel)) return {Code::kCancelled, "the answer was cancelled"};
    return device_step_->Attend(layer, a, row);
  };
  const bool is_shared = batch_ && ids.size() == 1;
  const auto attend_own = [&](uint32_t layer) { return attend(layer, *activations_, 0); };
  Status status;
  if (is_shared) {
    status = batch_->Run(seat_, *activations_, logits_, attend, cancel);
  } else if (ids.size() == 1) {
    status = transformer_.RunToken(*activations_, attend_own);
  } else {
    status = transformer_.RunLayers(ids.size(), *activations_, attend_own);
  }
  if (status.ok() && !is_shared) {
    status = transformer_.Logits(ids.size() - 1, 1, *activations_,
                                 {logits_.data(), 1, logits_.size()});
  }
  if (attends_there && status.ok()) {
    status = FinishDeviceStep(ids.size(), kv_budget, tail, read_fraction);
  }
  if (!status.ok()) {
    if (attends_there) (void)stream_->stream().Wait();
    Truncate(past);
    return status;
  }
  num_past_ = past + ids.size();
  if (in_prefill_) {
    totals_.read_prefill += read_fraction;
  } else {
    totals_.read_decode += read_fraction;
    ++totals_.decode_steps;
  }
  return std::span<const float>(logits_);
}

Result<bool> DocumentSession::BeginDeviceStep(size_t num_tokens, double kv_budget, bool tail) {
  const bool is_plain = rule.kind == Rule::kDefault && !selector && !on_layer && max_missed_ < 0;
  if (!rows_on_device_ || !is_plain) {
    ReleaseDevice();
    return false;
  }
  LECTERN_ASSIGN(const BudgetPlan* const plan, PlanFor(*document_, kv_budget, tail));
  if (plan != nullptr && !plan->heads.empty()) return false;
  const DeviceStep::Plan wanted = {
      .num_tokens = num_tokens,
      .budgets = plan != nullptr ? plan->layers : std::vector<double>(),
      .tail = tail,
      .weights = RowWeights(num_tokens, query_group(), document_->shape().num_tokens),
      .has_squares = !squared_mass_.empty(),
      .has_masses = !mass_.empty()};
  if (refused_ == wanted) return false;
  bool is_ready = device_step_->plan() != nullptr && *device_step_->plan() == wanted;
  if (!is_ready) {
    LECTERN_ASSIGN(is_ready, device_step_->Prepare(wanted, device_attention_->staging()));
  }
  if (is_ready) {
    const Status begun = device_step_->Begin(static_cast<uint32_t>(num_past_));
    if (begun.ok() || begun.code() != Code::kOutOfMemory) {
      LECTERN_RETURN_IF_ERROR(begun);
      return true;
    }
    LECTERN_RETURN_IF_ERROR(TakeDeviceEvidence());
  }
  refused_ = wanted;
  return false;
}

// What AttendStep counts of a layer.
Status DocumentSession::FinishDeviceStep(size_t num_tokens, double kv_budget, bool tail,
                                         double& read_fraction) {
  LECTERN_RETURN_IF_ERROR(device_step_->Finish());
  const double num_layers = document_->num_full_layers();
  const MissedCalibration& calibration = document_->missed_calibration();
  const bool is_measured = policies == document_->policies() && tail && calibration.is_measured();
  for (uint32_t layer = 0; layer < model_->config().num_layers; ++layer) {
    const DeviceStep::LayerRead read = device_step_->Read(layer);
    if (read.is_windowed) {
      totals_.window_bytes += read.bytes;
      continue;
    }
    read_fraction +=
        static_cast<double>(read.bytes) / static_cast<double>(document_->LayerBytes()) / num_layers;
    totals_.bytes += read.bytes;
    const double missed = is_measured && read.is_sparse
                              ? calibration.Estimate(layer, kv_budget, read.uncalibrated_missed)
                              : read.uncalibrated_missed;
    totals_.missed += missed / num_layers;
    document_mass_ += read.document_mass;
  }
  // The steps after a question are others.
  return num_tokens > 1 || !mass_.empty() ? TakeDeviceEvidence() : Status();
}

Status DocumentSession::TakeDeviceEvidence() {
  if (!device_step_ || device_step_->plan() == nullptr) return {};
  const Status status = device_step_->AddEvidence(mass_, squared_mass_);
  device_step_->Release();
  return status;
}

void DocumentSession::ReleaseDevice() {
  refused_.reset();
  if (device_step_) device_step_->Release();
}

// By the last tokens of the step, as many as KV-Compress observes.
void DocumentSession::CollectSessionAttention(uint32_t layer, size_t num_tokens,
                                              const LayerStates& states) {
  const ModelConfig& config = model_->config();
  const size_t group = config.query_group(), observed = std::min(num_tokens, kObservedTokens);
  const size_t first = (num_tokens - observed) * group, count = observed * group;
  ArenaVector<float> logits(&arena_), scratch(AttendScratch(count, config.head_dim), &arena_);
  for (uint32_t head = 0; head < config.num_kv_heads; ++head) {
    const size_t cache = layer * config.num_kv_heads + head, rows = rows_.num_rows(cache);
    logits.resize(count * rows);
    transformer_.backend().key_logits(
        {.queries = transformer_.Grouped(activations_->queries, head, num_tokens)
                        .Slice(first, first + count),
         .keys = rows_.Keys(cache, rows),
         .scale = 1 / std::sqrt(static_cast<float>(config.head_dim)),
         .logits = {logits.data(), count, rows},
         .scratch = scratch});
    Softcap(transformer_.backend(), {logits.data(), count, rows}, config.attention_softcap);
    const std::span<float> squares = rows_.squared_attention(cache);
    for (size_t r = 0; r < count; ++r) {
      const float lse = states.lse[head][first + r];
      const size_t visible = rows - observed + r / group + 1;
      const size_t seen_from = config.is_windowed(layer) ? FirstInWindow(cache, visible) : 0;
      for (size_t i = seen_from; i < visible; ++i) {
        squares[i] += std::exp(2 * (logits[r * rows + i] - lse));
      }
    }
  }
}

void DocumentSession::CompressRows() {
  if (max_session_rows > 0) rows_.Compress(max_session_rows);
}

void DocumentSession::Truncate(size_t num_tokens) {
  rows_.Truncate(static_cast<uint32_t>(num_tokens));
  num_past_ = num_tokens;
}

void DocumentSession::Forget() {
  Truncate(0);
  fed_ = {};
  history_ = {};
}

}  // namespace lectern
