#include "engine/ask.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <new>

#include "engine/evidence.h"
#include "engine/index_cost.h"
#include "engine/tokenizer.h"
#include "index/window_attention.h"

namespace lectern {
namespace {

using Clock = std::chrono::steady_clock;
double Since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string Percent(double share) { return std::to_string(std::lround(100 * share)) + " %"; }

// What the user is told, one clause after the other.
void AddNote(Answer& answer, const std::string& note) {
  answer.note += (answer.note.empty() ? "" : "; ") + note;
}

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

// Of an answer, so many tokens have their place before it begins, each with so much text.
constexpr uint64_t kReservedTokens = 1024, kReservedBytes = 8;

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

Status InvalidOption(const char* param, const std::string& message) {
  return Status(Code::kInvalidArgument, message).WithParam(param);
}

Result<SelectionRule> ReadRule(const AskOptions& options) {
  static const std::map<std::string_view, Rule> kRules = {{"default", Rule::kDefault},
                                                          {"threshold", Rule::kThreshold},
                                                          {"cap", Rule::kCap},
                                                          {"top-p", Rule::kTopP}};
  const auto found = kRules.find(options.rule);
  if (found == kRules.end()) {
    return InvalidOption(
        "rule", "rule must be default, threshold, cap or top-p, not \"" + options.rule + "\"");
  }
  SelectionRule rule = {.kind = found->second};
  if (options.mass == 0) return rule;
  if (rule.kind != Rule::kTopP) return InvalidOption("mass", "mass goes with rule top-p alone");
  if (!(options.mass > 0 && options.mass < 1)) {
    return InvalidOption("mass", "mass must be above 0 and below 1");
  }
  rule.mass = options.mass;
  return rule;
}

// What the budget means to a rule that does not keep it.
void AddRuleNote(const SelectionRule& rule, Answer& answer) {
  if (rule.kind == Rule::kThreshold) {
    AddNote(answer,
            "rule threshold meets the budget only in the mean over many questions, and roughly");
  } else if (rule.kind == Rule::kTopP) {
    char percent[16];
    std::snprintf(percent, sizeof percent, "%g", 100 * rule.mass);
    AddNote(answer, "rule top-p has no budget: it reads what holds " + std::string(percent) +
                        " % of each head's attention, as centroids estimate it");
  }
}

Status Mismatch(const Document& document, const Model& model) {
  return {Code::kModelMismatch,
          "document \"" + document.row().name + "\" was indexed with model " +
              ToHex(document.row().fingerprint).substr(0, 16) + " (" + document.row().model_path +
              ", weights " + std::string(WeightsName(document.weights())) + "), but " +
              model.folder() + ", weights " + std::string(WeightsName(model.weights().type())) +
              ", is " + ToHex(model.fingerprint()).substr(0, 16) +
              "; give that model, or index the document again with this one"};
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

DocumentSession::DocumentSession(std::shared_ptr<const Document> document,
                                 std::shared_ptr<const Model> model, const Backend& backend,
                                 std::shared_ptr<ThreadPool> threads, const SessionDevice& device)
    : document_(std::move(document)),
      model_(std::move(model)),
      threads_(std::move(threads)),
      device_(device),
      transformer_(*model_, backend, *threads_, document_->shape().num_tokens,
                   device_.transformer.get()),
      rows_(size_t{model_->config().num_layers} * model_->config().num_kv_heads,
            document_->kv_dtype() == Dtype::kQ8 ? Dtype::kF16 : document_->kv_dtype(),
            model_->config().head_dim) {
  policies = document_->policies();
  logits_.resize(model_->config().vocab_size);
}

Result<std::unique_ptr<DocumentSession>> DocumentSession::Create(
    std::shared_ptr<const Document> document, std::shared_ptr<const Model> model,
    const Backend& backend, std::shared_ptr<ThreadPool> threads, double open_ms,
    const SessionDevice& device) {
  const ModelConfig& config = model->config();
  const ShardHeader& shape = document->shape();
  if (model->fingerprint() != document->row().fingerprint) return Mismatch(*document, *model);
  if (shape.num_layers != config.num_layers || shape.num_kv_heads != config.num_kv_heads ||
      shape.head_dim != config.head_dim) {
    return Status(Code::kCorrupt, "document \"" + document->row().name +
                                      "\": its shards have another shape than its model; index "
                                      "it again");
  }
  for (const int32_t id : document->tokens()) {
    if (id < 0 || static_cast<uint32_t>(id) >= config.vocab_size) {
      return Status(Code::kCorrupt, "document \"" + document->row().name +
                                        "\" holds a token that its model does not have; index it "
                                        "again");
    }
  }
  std::unique_ptr<DocumentSession> session(
      new DocumentSession(std::move(document), std::move(model), backend, std::move(threads),
                          device));
  if (device.transformer) {
    LECTERN_ASSIGN(session->stream_, DeviceStream::Create(device.transformer->device()));
  }
  if (device.document) {
    session->device_attention_ =
        std::make_unique<DeviceAttention>(session->stream_, device.document, backend);
    session->conversation_ = std::make_shared<DeviceConversation>(session->stream_, config,
                                                                  session->rows_.dtype(), backend);
    session->device_step_ = std::make_unique<DeviceStep>(session->stream_, device.document,
                                                         session->conversation_, config);
  }
  session->dense_bytes_ = session->document_->LayerBytes();
  session->open_ms_ = open_ms;
  return session;
}

// --- one forward pass -------------------------------------------------------------------------

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
  if (attends_there && status.ok()) status = device_step_->Finish();
  if (!status.ok()) {
    if (attends_there) (void)stream_->stream().Wait();
    Truncate(past);
    return status;
  }
  num_past_ = past + ids.size();
  if (attends_there) CountDeviceStep(kv_budget, tail, read_fraction);
  // The steps after this one are others.
  if (ids.size() > 1 || !mass_.empty()) LECTERN_RETURN_IF_ERROR(TakeDeviceEvidence());
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
void DocumentSession::CountDeviceStep(double kv_budget, bool tail, double& read_fraction) {
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
  pending_ = -1;
}

// --- one question -----------------------------------------------------------------------------

Status DocumentSession::CheckOptions(const AskOptions& options) const {
  if (!(options.kv_budget >= 0 && options.kv_budget <= 1)) {
    return InvalidOption("kv_budget", "kv_budget must be in (0, 1]");
  }
  if (!(options.sampling.temperature >= 0 && options.sampling.temperature <= 10)) {
    return InvalidOption("temperature", "temperature must be in [0, 10]");
  }
  if (!(options.sampling.top_p > 0 && options.sampling.top_p <= 1)) {
    return InvalidOption("top_p", "top_p must be in (0, 1]");
  }
  if (options.max_missed && !(*options.max_missed > 0 && *options.max_missed < 1)) {
    return InvalidOption("max_missed", "max_missed must be in (0, 1)");
  }
  if (options.max_session_rows > 0 && options.max_session_rows < kLeastSessionRows) {
    return InvalidOption("max_session_rows",
                         "max_session_rows must be at least " + std::to_string(kLeastSessionRows));
  }
  if (options.max_tokens < 1) return InvalidOption("max_tokens", "max_tokens must be at least 1");
  return {};
}

// For this question, its answer and all that was said before.
Status DocumentSession::ReserveRam(size_t num_tokens, size_t max_tokens, double kv_budget) {
  if (!document_->ram()) return {};
  const ModelConfig& config = model_->config();
  const Dtype dtype = document_->kv_dtype() == Dtype::kQ8 ? Dtype::kF16 : document_->kv_dtype();
  const uint64_t num_layer_heads = uint64_t{config.num_layers} * config.num_kv_heads;
  const uint64_t conversation = (num_past_ + num_tokens + max_tokens) * num_layer_heads * 2 *
                                RowBytes(dtype, config.head_dim);
  const bool looks_up = kv_budget < 1 && document_->has_clusters();
  const uint64_t num_document_tokens = document_->tokens().size();
  const uint64_t lookups = looks_up ? LookupBytes(config, num_tokens, num_document_tokens) : 0;
  // Sums, and the layer's logits with the last token.
  const uint64_t evidence =
      num_document_tokens * (2 * sizeof(double) + config.num_heads * sizeof(float));
  // And its row of shared steps.
  const uint64_t activations =
      ActivationBytes(config, num_tokens + 1) + config.vocab_size * sizeof(float);
  const uint64_t bytes = document_->layer_ram() + conversation + activations + lookups + evidence;
  return document_->ram()->Change(ram_share_, bytes, "the question",
                                  "index the document with q8 keys and values");
}

Result<double> DocumentSession::SmallestServed(bool tail) const {
  if (!document_->has_clusters()) return 0.0;
  return document_->SmallestBudget(policies, tail);
}

Result<const BudgetPlan*> DocumentSession::PlanFor(const Document& document, double kv_budget,
                                                   bool tail) {
  if (document.ReadsAll(kv_budget)) return static_cast<const BudgetPlan*>(nullptr);
  const bool has_floors = HasByteBudget(rule.kind);
  if (!plan_ || plan_->document != &document || plan_->policies != policies ||
      plan_->kv_budget != kv_budget || plan_->tail != tail || plan_->has_floors != has_floors) {
    LECTERN_ASSIGN(BudgetPlan plan, document.Plan(policies, kv_budget, tail, has_floors));
    plan_ = {&document, policies, kv_budget, tail, has_floors, std::move(plan)};
  }
  return &plan_->plan;
}

Result<std::span<const float>> DocumentSession::Prefill(std::span<const int32_t> ids,
                                                        const AskOptions& options, double& budget,
                                                        Answer& answer) {
  in_prefill_ = true;
  const bool exact = document_->ReadsAll(budget);
  mass_.assign(exact ? 0 : document_->tokens().size(), 0.0);
  document_mass_ = 0;
  auto logits = Step(ids, budget, options.tail, options.cancel);
  if (logits.ok() && !exact) {
    // The tail tells what was not read; without it the lookup does, for all rows of the question.
    if (!options.tail) {
      document_mass_ += totals_.missed * document_->num_full_layers() * model_->config().num_heads;
    }
    const Spread spread = FindSpread(document_->text(), document_->ranges(), mass_, document_mass_);
    mass_.clear();
    if (spread.IsWide()) logits = AnswerWideQuestion(spread, ids, options, budget, answer);
  }
  mass_.clear();
  in_prefill_ = false;
  return logits;
}

// Warns, or repeats the prefill with everything read.
Result<std::span<const float>> DocumentSession::AnswerWideQuestion(const Spread& spread,
                                                                   std::span<const int32_t> ids,
                                                                   const AskOptions& options,
                                                                   double& budget, Answer& answer) {
  const std::string found = "the question draws on much of the text (best passage " +
                            Percent(spread.best_passage) + " of the attention, " +
                            Percent(spread.missed) + " on what was not read)";
  if (options.fallback == Fallback::kWarn) {
    answer.warnings.push_back("whole_document");
    AddNote(answer, found + ": an exact answer may differ");
    return std::span<const float>(logits_);
  }
  AddNote(answer, found + ": everything was read instead");
  answer.kv.fallback = true;
  budget = 1;
  Truncate(num_past_ - ids.size());
  std::fill(squared_mass_.begin(), squared_mass_.end(), 0.0);
  totals_.missed = totals_.missed_bound = 0;
  return Step(ids, budget, options.tail, options.cancel);
}

void DocumentSession::AddEvidence(const AskOptions& options, Answer& answer) const {
  if (options.max_evidence == 0) return;
  answer.evidence = FindEvidence(document_->text(), document_->ranges(), squared_mass_,
                                 options.max_evidence, document_->pages());
  if (!answer.evidence.empty()) return;
  answer.warnings.push_back("no_evidence");
  AddNote(answer, "no passage got " + Percent(kMinPassageMass) +
                      " of the attention: there is no evidence for this answer");
}

Result<Answer> DocumentSession::Ask(std::string_view question, const AskOptions& options) {
  const size_t past = num_past_;
  const int32_t pending = pending_;
  ReleaseDevice();
  try {
    auto answer = Generate(question, options);
    ReleaseDevice();
    return answer;
  } catch (const std::bad_alloc&) {
    ReleaseDevice();
    Truncate(past);
    pending_ = pending;
    return Status(Code::kOutOfMemory,
                  "not enough memory to answer; close other sessions or ask a shorter question");
  }
}

Result<Answer> DocumentSession::Generate(std::string_view question, const AskOptions& options) {
  const auto start = Clock::now();
  LECTERN_RETURN_IF_ERROR(CheckOptions(options));
  LECTERN_ASSIGN(rule, ReadRule(options));
  double budget = options.kv_budget > 0 ? options.kv_budget : document_->default_kv_budget();
  policies = document_->policies();
  if (!options.layer_budget.empty()) policies.layers = options.layer_budget;
  if (!options.head_budget.empty()) policies.heads = options.head_budget;
  LECTERN_RETURN_IF_ERROR(CheckPolicies(policies));
  LECTERN_RETURN_IF_ERROR(PlanFor(*document_, budget, options.tail).status());
  const bool is_first = num_past_ == 0 && pending_ < 0;
  if (!is_first && !options.history.is_empty()) {
    return InvalidOption("turns",
                         "earlier turns and instructions come with a session's first question");
  }
  LECTERN_ASSIGN(const std::vector<int32_t> ids,
                 is_first ? model_->EncodeQuestion(question, options.history)
                          : model_->EncodeNextQuestion(pending_, question));
  const uint64_t used = document_->shape().num_tokens + num_past_ + ids.size();
  const uint64_t limit = model_->config().max_positions;
  if (ids.size() > kMaxQuestionTokens || used + 1 > limit) {
    return Status(Code::kContextTooLong,
                  "document (" + std::to_string(document_->shape().num_tokens) +
                      " tokens), conversation (" + std::to_string(num_past_) + ") and question (" +
                      std::to_string(ids.size()) + ") need more than the model's " +
                      std::to_string(limit) + " positions, or the question more than " +
                      std::to_string(kMaxQuestionTokens) +
                      " tokens; shorten the question or begin a new conversation");
  }
  LECTERN_RETURN_IF_ERROR(ReserveRam(ids.size(), options.max_tokens, budget));
  const uint64_t room = std::min<uint64_t>(options.max_tokens, limit - used);
  const size_t past_before = num_past_;
  totals_ = {};
  max_missed_ = options.max_missed.value_or(-1);
  max_session_rows = options.max_session_rows;
  const size_t num_rows = num_past_ + ids.size() + std::min(room, kReservedTokens);
  LECTERN_RETURN_IF_ERROR(PlaceRows(num_rows));
  if (!rows_on_device_) rows_.Reserve(num_rows);
  bound_held_everywhere_ = true;
  squared_mass_.assign(options.max_evidence > 0 ? document_->tokens().size() : 0, 0.0);

  Answer answer;
  answer.document = ToHex(document_->row().id);
  answer.document_tokens = document_->shape().num_tokens;
  answer.question_tokens = ids.size() - (pending_ >= 0);  // without the last of the answer before
  answer.timings_ms.open = open_ms_;
  auto logits = Prefill(ids, options, budget, answer);
  if (!logits.ok()) return std::move(logits).status();
  if (on_first_logits) on_first_logits(logits.value());
  answer.timings_ms.prefill = Since(start);

  answer.text.reserve(std::min(room, kReservedTokens) * kReservedBytes);
  Sampler sampler(options.sampling);
  TokenStream stream(model_->tokenizer(), /*strip_leading_space=*/true);
  answer.finish_reason = "length";
  int32_t pending = -1;
  const auto show = [&](const std::string& piece) {
    answer.text += piece;
    return piece.empty() || !options.on_text || options.on_text(piece);
  };
  for (uint64_t i = 0; i < room; ++i) {
    const int32_t id = sampler.Sample(logits.value());
    if (i == 0) answer.timings_ms.first_token = Since(start);
    pending = id;
    if (model_->IsEndOfText(id)) {
      answer.finish_reason = "stop";
      break;
    }
    ++answer.answer_tokens;
    if (!show(stream.Push(id)) || IsSet(options.cancel)) {
      answer.finish_reason = "cancelled";
      break;
    }
    if (i + 1 == room) break;
    logits = Step({&id, 1}, budget, options.tail, options.cancel);
    if (logits.status().code() == Code::kCancelled) {
      answer.finish_reason = "cancelled";
      break;
    }
    if (!logits.ok()) {
      Truncate(past_before);
      return std::move(logits).status();
    }
  }
  if (batch_) batch_->Leave(seat_);
  (void)show(stream.Flush());
  pending_ = pending;
  CompressRows();
  const uint64_t heads = uint64_t{model_->config().num_layers} * model_->config().num_kv_heads;
  answer.kv.session_rows = rows_on_device_ ? num_past_ : (rows_.total_rows() + heads - 1) / heads;
  LECTERN_RETURN_IF_ERROR(TakeDeviceEvidence());

  answer.timings_ms.total = Since(start);
  const double steps = static_cast<double>(totals_.decode_steps);
  if (totals_.decode_steps > 0) {
    answer.timings_ms.per_token = (answer.timings_ms.total - answer.timings_ms.first_token) / steps;
    answer.kv.read_fraction_decode = totals_.read_decode / steps;
  }
  const bool exact = document_->ReadsAll(budget);
  answer.kv.budget =
      exact && document_->retention().keeps_all() ? 1.0f : static_cast<float>(budget);
  answer.kv.rule = exact ? "exact" : options.rule;
  if (!exact) {
    answer.kv.layer_budget = policies.layers;
    answer.kv.head_budget = policies.heads;
    AddRuleNote(rule, answer);
  }
  answer.kv.read_fraction_prefill = totals_.read_prefill;
  answer.kv.bytes_read = totals_.bytes;
  answer.kv.window_bytes = totals_.window_bytes;
  answer.kv.missed_mass_estimate = totals_.missed / (steps + 1);
  if (options.max_missed && !exact) {
    answer.kv.missed_mass_bound = totals_.missed_bound / (steps + 1);
    answer.kv.max_missed_by = bound_held_everywhere_ ? "bound" : "estimate";
  }
  answer.kv.keep = document_->retention().keep;
  answer.kv.prefill_budget = document_->prefill_budget();
  if (answer.kv.keep < 1) answer.kv.retention = document_->retention().method;
  if (exact && budget < 1 && document_->has_clusters()) {
    AddNote(answer, "the document keeps " + Percent(document_->kept_share()) +
                        " of its rows, and all of them were read");
  } else if (exact && budget < 1) {
    AddNote(answer, document_->num_full_layers() == 0
                        ? "every layer of the model sees a window only, which was read whole"
                        : "the document is under 2,048 tokens: it has no clusters and was read "
                          "densely");
  }
  AddEvidence(options, answer);
  if (!device_.fallback.empty()) {
    answer.warnings.push_back("cpu_fallback");
    AddNote(answer, device_.fallback);
  }
  return answer;
}

}  // namespace lectern
