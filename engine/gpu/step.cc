#include "engine/gpu/step.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/attention/attention_probabilities.h"
#include "engine/gpu/linear_layers.h"
#include "kernels/cuda/attention/key_squares.h"
#include "kernels/cuda/lookup/question_lookup.h"
#include "kernels/cuda/lookup/row_lookup.h"

namespace lectern {
namespace {

constexpr const char* kStepUse = "a step's attention";

enum PartOf : size_t { kConversation, kExact, kSelected };
// The log-sum-exps that lse_ holds of a layer: of all keys, and of the conversation's alone,
// [kv heads][R]; of the tail, and of everything that the lookup knew,
// [kv heads][rows that choose].
enum LseOf : size_t { kOfAll, kOfConversation, kOfTail, kOfLookup, kNumLse };

}  // namespace

// Offsets are those of what all layers have together.
struct DeviceStep::Layer {
  DeviceDocument::Use use;
  DeviceDocument::CodesUse codes_use;  // of sparse ones
  bool is_windowed = false, is_sparse = false;
  uint64_t bytes = 0;
  // In windowed layers: the rows of each head, and where the first token of the conversation would
  // stand among them.
  uint32_t num_rows = 0, end_position = 0;
  // The rows that are read whatever the lookup chooses: their items in fixed_.exact_items, and in
  // fixed_.places where each head's items begin [kv heads + 1].
  uint32_t first_item = 0, num_items = 0;
  size_t item_begin = 0;
  // For evidence, in fixed_.places: how many of these rows each head has [kv heads], and, where
  // the layer is sparse, which.
  size_t exact_counts = 0, exact_rows = 0;
  uint32_t most_exact = 0;
  // In sparse layers: in fixed_.places the first row of each head that has codes [kv heads]; in
  // fixed_.extra the entries of its tail [kv heads].
  size_t first_coded = 0, extra = 0;
  DeviceLookup::Share share;
  uint32_t rows_per_item = 0, most_items = 0;
};

Status DeviceStep::Part::Reserve(DeviceStream& stream, size_t num_items, size_t num_rows,
                                 size_t dim) {
  LECTERN_RETURN_IF_ERROR(out.Reserve(stream, num_items * num_rows * dim, kStepUse));
  LECTERN_RETURN_IF_ERROR(max.Reserve(stream, num_items * num_rows, kStepUse));
  return sum.Reserve(stream, num_items * num_rows, kStepUse);
}

DeviceStep::DeviceStep(std::shared_ptr<DeviceStream> stream,
                       std::shared_ptr<DeviceDocument> document,
                       std::shared_ptr<DeviceConversation> conversation, const ModelConfig& config,
                       KvStaging& staging)
    : stream_(std::move(stream)),
      document_(std::move(document)),
      conversation_(std::move(conversation)),
      config_(config),
      staging_(staging) {}

DeviceStep::~DeviceStep() = default;

void DeviceStep::LetGo() {
  plan_.reset();
  layers_.clear();
}

void DeviceStep::Release() {
  LetGo();
  refused_.reset();
}

// Gets the device ready for a step, and says whether it can run there. It cannot if the caller
// wants another rule, a bound on missed mass or budgets by head, or if memory does not suffice; a
// plan that was refused once is not tried again.
Result<bool> DeviceStep::Begin(const StepPlan& plan) {
  const bool is_plain =
      plan.rule.kind == Rule::kDefault && plan.max_missed < 0 && plan.selector == nullptr;
  if (!is_plain || plan.conversation != conversation_.get()) {
    Release();
    return false;
  }
  if (plan.budgets != nullptr && !plan.budgets->heads.empty()) return false;
  const Plan wanted = {
      .num_tokens = plan.num_tokens,
      .budgets = plan.budgets != nullptr ? plan.budgets->layers : std::vector<double>(),
      .tail = plan.tail,
      .weights = {plan.weights.begin(), plan.weights.end()},
      .has_squares = !plan.sums->squares.empty(),
      .has_masses = !plan.sums->masses.empty()};
  if (refused_ == wanted) return false;
  step_plan_ = plan;
  bool is_ready = plan_ == wanted;
  if (!is_ready) {
    LECTERN_ASSIGN(is_ready, Prepare(wanted));
  }
  if (is_ready) {
    const Status begun = BeginPass(plan.num_past);
    if (begun.ok() || begun.code() != Code::kOutOfMemory) {
      LECTERN_RETURN_IF_ERROR(begun);
      return true;
    }
    LECTERN_RETURN_IF_ERROR(CollectSums());
  }
  refused_ = wanted;
  return false;
}

Result<bool> DeviceStep::Prepare(const Plan& plan) {
  LetGo();
  plan_ = plan;
  const WaitsForStream wait(*stream_);
  Result<bool> is_ready = TryPrepare();
  if (is_ready.ok() && *is_ready) {
    ++key_;
    return true;
  }
  LetGo();
  if (!is_ready.ok() && is_ready.status().code() == Code::kOutOfMemory) return false;
  return is_ready;
}

Result<bool> DeviceStep::TryPrepare() {
  fixed_.host_places.clear();
  fixed_.host_items.clear();
  fixed_.host_extra.clear();
  choosing_.host_rows.clear();
  choosing_.host_weights.clear();
  for (uint32_t r = 0; r < plan_->weights.size(); ++r) {
    if (!(plan_->weights[r] > 0)) continue;
    choosing_.host_rows.push_back(r);
    choosing_.host_weights.push_back(plan_->weights[r]);
  }
  if (is_question() && plan_->weights.empty()) {
    choosing_.host_rows.resize(num_rows());
    std::iota(choosing_.host_rows.begin(), choosing_.host_rows.end(), 0u);
    choosing_.host_weights.assign(num_rows(), 1 / static_cast<float>(num_rows()));
  }
  const Document& document = document_->document();
  for (uint32_t number = 0; number < config_.num_layers; ++number) {
    LECTERN_ASSIGN(const std::span<const HeadIndex> heads, document.Heads(number));
    LECTERN_ASSIGN(const bool is_there, AddLayer(number, heads));
    if (!is_there) return false;
  }
  LECTERN_RETURN_IF_ERROR(TakeMemory());
  return true;
}

Result<bool> DeviceStep::AddLayer(uint32_t number, std::span<const HeadIndex> heads) {
  const Document& document = document_->document();
  // Another session that needs room could else drop what is on its way to the device.
  const Document::LayerUse use(document, number);
  Layer& layer = layers_.emplace_back();
  LECTERN_ASSIGN(layer.use, document_->UseLayer(number, heads, *stream_, staging_));
  if (layer.use.layer() == nullptr) return false;
  const std::vector<uint32_t>& first_row = layer.use.layer()->first_row;
  const double budget = plan_->budgets.empty() ? 1 : plan_->budgets[number];
  layer.is_windowed = document.is_windowed(number);
  layer.is_sparse = !layer.is_windowed && budget < 1 && document.has_clusters();
  if (layer.is_windowed) {
    layer.num_rows = heads.front().num_rows();
    layer.end_position = document.shape().num_tokens - heads.front().positions().front();
  }
  const uint32_t num_multiprocessors = stream_->device().info().num_multiprocessors;
  std::vector<AttentionRange> ranges;
  uint64_t num_exact = 0;
  layer.exact_counts = fixed_.host_places.size();
  for (uint32_t h = 0; h < heads.size(); ++h) {
    const uint32_t count = layer.is_sparse ? heads[h].num_exact() : heads[h].num_rows();
    ranges.push_back({h, 0, first_row[h], first_row[h] + count});
    fixed_.host_places.push_back(count);
    layer.most_exact = std::max(layer.most_exact, count);
    num_exact += count;
    if (!layer.is_sparse) layer.bytes += heads[h].dense_bytes();
  }
  const AttentionWork work =
      CutAttention(ranges, config_.num_kv_heads,
                   AttentionRowsPerItem(num_exact, ranges.size(), num_rows(), num_multiprocessors));
  layer.first_item = static_cast<uint32_t>(fixed_.host_items.size());
  layer.num_items = static_cast<uint32_t>(work.items.size());
  fixed_.host_items.insert(fixed_.host_items.end(), work.items.begin(), work.items.end());
  layer.item_begin = fixed_.host_places.size();
  fixed_.host_places.insert(fixed_.host_places.end(), work.item_begin.begin(),
                            work.item_begin.end());
  if (!layer.is_sparse) return true;
  if (is_question() && num_chosen() > kMostChosenQueries) return false;

  LECTERN_ASSIGN(layer.codes_use, document_->UseCodes(number, heads, *stream_, staging_));
  const DeviceCodes* const codes = layer.codes_use.codes();
  if (codes == nullptr) return false;
  const auto share = is_question()
                         ? DeviceLookup::ShareOfQuestion(heads, budget, plan_->tail, num_rows())
                         : DeviceLookup::ShareOfToken(heads, budget, plan_->tail, num_rows());
  if (!share) return false;
  layer.share = *share;
  layer.bytes = share->bytes;
  layer.exact_rows = fixed_.host_places.size();
  for (const AttentionRange& range : ranges) {
    for (uint32_t row = range.begin; row < range.end; ++row) fixed_.host_places.push_back(row);
  }
  layer.first_coded = fixed_.host_places.size();
  layer.extra = fixed_.host_extra.size();
  uint64_t num_entries = share->num_wanted;
  for (uint32_t h = 0; h < heads.size(); ++h) {
    fixed_.host_places.push_back(first_row[h] + heads[h].num_exact());
    if (!plan_->tail) continue;
    const uint32_t first = h * codes->view().most_groups;
    fixed_.host_extra.push_back({1, first, first + codes->num_groups(h)});
    num_entries += codes->num_groups(h);
  }
  const uint64_t num_ranges = 2 * heads.size();
  layer.rows_per_item =
      AttentionRowsPerItem(num_entries, num_ranges, num_rows(), num_multiprocessors);
  layer.most_items =
      static_cast<uint32_t>(MostAttentionItems(num_entries, num_ranges, layer.rows_per_item));
  return true;
}

Status DeviceStep::TakeMemory() {
  const size_t kv_heads = config_.num_kv_heads, dim = config_.head_dim;
  const size_t q_cols = size_t{config_.num_heads} * dim;
  size_t exact_items = 0, selected_items = 0, num_wanted = 0, scratch = 0, tail = 0;
  for (const Layer& layer : layers_) {
    exact_items = std::max<size_t>(exact_items, layer.num_items);
    if (!layer.is_sparse) continue;
    const DeviceRowCodes& codes = layer.codes_use.codes()->view();
    selected_items = std::max<size_t>(selected_items, layer.most_items);
    num_wanted = std::max<size_t>(num_wanted, layer.share.num_wanted);
    tail = std::max(tail, num_queries() * codes.most_groups);
    const size_t of_layer =
        is_question() ? CudaQuestionLookupScratch(codes, num_chosen(), layer.share.num_coded,
                                                  layer.share.num_refined)
                      : CudaRowLookupScratch(codes, num_rows(), layer.share.num_coded,
                                             layer.share.num_refined);
    scratch = std::max(scratch, of_layer);
  }
  const auto take = [this](auto& array, size_t size) {
    return array.Reserve(*stream_, size, kStepUse);
  };
  LECTERN_RETURN_IF_ERROR(parts_[kExact].Reserve(*stream_, exact_items, num_rows(), dim));
  LECTERN_RETURN_IF_ERROR(parts_[kSelected].Reserve(*stream_, selected_items, num_rows(), dim));
  LECTERN_RETURN_IF_ERROR(take(parts_[kSelected].items, selected_items));
  LECTERN_RETURN_IF_ERROR(take(parts_[kSelected].item_begin, kv_heads + 2));
  LECTERN_RETURN_IF_ERROR(take(parts_[kConversation].item_begin, kv_heads + 2));
  LECTERN_RETURN_IF_ERROR(take(step_, kv_heads + 1));
  LECTERN_RETURN_IF_ERROR(take(query_rows_, plan_->num_tokens * q_cols));
  LECTERN_RETURN_IF_ERROR(take(lookup_.known_lse, num_queries()));
  LECTERN_RETURN_IF_ERROR(take(lookup_.scratch, scratch));
  LECTERN_RETURN_IF_ERROR(take(lookup_.tail, tail));
  LECTERN_RETURN_IF_ERROR(take(lookup_.rows, num_wanted));
  LECTERN_RETURN_IF_ERROR(take(lookup_.counts, kv_heads));
  lse_.host.assign(layers_.size() * kNumLse * num_queries(), -INFINITY);
  const auto upload = [&](const auto& from, auto& to) -> Status {
    LECTERN_RETURN_IF_ERROR(take(to, from.size()));
    return to.Upload(*stream_, from.data(), from.size());
  };
  LECTERN_RETURN_IF_ERROR(upload(lse_.host, lse_.device));
  LECTERN_RETURN_IF_ERROR(upload(fixed_.host_places, fixed_.places));
  LECTERN_RETURN_IF_ERROR(upload(fixed_.host_items, fixed_.exact_items));
  LECTERN_RETURN_IF_ERROR(upload(fixed_.host_extra, fixed_.extra));
  LECTERN_RETURN_IF_ERROR(upload(choosing_.host_rows, choosing_.rows));
  LECTERN_RETURN_IF_ERROR(upload(choosing_.host_weights, choosing_.weights));
  for (const bool is_squares : {false, true}) {
    if (!(is_squares ? plan_->has_squares : plan_->has_masses)) continue;
    DeviceArray<uint64_t>& units = is_squares ? observed_.squares : observed_.masses;
    LECTERN_RETURN_IF_ERROR(take(units, document_->document().tokens().size()));
    LECTERN_RETURN_IF_ERROR(units.Clear(*stream_));
  }
  queries_ = {.data = query_rows_.data(),
              .dtype = QueryDtype(document_->document().kv_dtype()),
              .stride = q_cols,
              .num_tokens = static_cast<uint32_t>(plan_->num_tokens),
              .num_kv_heads = config_.num_kv_heads,
              .group = group(),
              .head_dim = config_.head_dim};
  said_.capacity = 0;
  return stream_->Wait();
}

Status DeviceStep::BeginPass(uint32_t num_past) {
  const size_t kv_heads = config_.num_kv_heads;
  std::vector<uint32_t> step(kv_heads + 1, num_past + static_cast<uint32_t>(plan_->num_tokens));
  step.front() = num_past;
  const WaitsForStream wait(*stream_);  // what is uploaded is read until then
  if (said_.capacity != conversation_->capacity()) {
    LECTERN_RETURN_IF_ERROR(FollowConversation());
  }
  LECTERN_RETURN_IF_ERROR(step_.Upload(*stream_, step.data(), step.size()));
  const Part& part = parts_[kConversation];
  LECTERN_RETURN_IF_ERROR(stream_->Check(
      CudaCutItems(stream_->stream(), {.list_begin = said_.begin.data(),
                                       .counts = step_.data() + 1,
                                       .extra = nullptr,
                                       .num_extra = 0,
                                       .num_kv_heads = config_.num_kv_heads,
                                       .rows_per_item = said_.rows_per_item,
                                       .max_items = static_cast<uint32_t>(part.items.size()),
                                       .items = part.items.data(),
                                       .item_begin = part.item_begin.data(),
                                       .num_items = part.item_begin.data() + kv_heads + 1})));
  return stream_->Wait();
}

Status DeviceStep::FollowConversation() {
  const size_t kv_heads = config_.num_kv_heads;
  const uint32_t capacity = conversation_->capacity();
  const uint64_t all_rows = uint64_t{capacity} * kv_heads;
  said_.capacity = 0;  // until all of it is there
  said_.rows_per_item = AttentionRowsPerItem(all_rows, kv_heads, num_rows(),
                                             stream_->device().info().num_multiprocessors);
  const size_t most_items = MostAttentionItems(all_rows, kv_heads, said_.rows_per_item);
  std::vector<uint32_t> begin;  // of each head's rows
  for (uint32_t h = 0; h < kv_heads; ++h) begin.push_back(h * capacity);
  Part& part = parts_[kConversation];
  LECTERN_RETURN_IF_ERROR(part.Reserve(*stream_, most_items, num_rows(), config_.head_dim));
  LECTERN_RETURN_IF_ERROR(part.items.Reserve(*stream_, most_items, kStepUse));
  LECTERN_RETURN_IF_ERROR(said_.begin.Reserve(*stream_, kv_heads, kStepUse));
  LECTERN_RETURN_IF_ERROR(said_.begin.Upload(*stream_, begin.data(), kv_heads));
  LECTERN_RETURN_IF_ERROR(stream_->Wait());
  said_.capacity = capacity;
  ++key_;
  return {};
}

// Enqueues one layer's attention. With codes: conversation and exact rows first, whose joined
// log-sum-exp the lookup needs, then the lookup and the rows it chose; at the end all parts are
// joined into the output.
Status DeviceStep::Attend(uint32_t number, Activations& a, size_t row) {
  DeviceStream& stream = *a.stream;
  const Layer& layer = layers_[number];
  const size_t num_tokens = plan_->num_tokens;
  const size_t q_cols = size_t{config_.num_heads} * config_.head_dim;
  const size_t kv_cols = size_t{config_.num_kv_heads} * config_.head_dim;
  float* const projected = a.device->projected.data() + row * q_cols;
  LECTERN_RETURN_IF_ERROR(stream.Check(
      CudaStoreRows(stream.stream(), {.input = {projected, Dtype::kF32, num_tokens, q_cols, q_cols},
                                      .num_heads = 1,
                                      .head_dim = static_cast<uint32_t>(q_cols),
                                      .dtype = queries_.dtype,
                                      .output = query_rows_.data(),
                                      .scales = nullptr,
                                      .rows_per_head = static_cast<uint32_t>(num_tokens),
                                      .first_position = 0})));
  LECTERN_RETURN_IF_ERROR(conversation_->Store(stream.stream(), number, num_tokens,
                                               a.device->keys + row * kv_cols,
                                               a.device->values + row * kv_cols, 0, step_.data()));
  LECTERN_RETURN_IF_ERROR(AttendConversation(stream, number));
  LECTERN_RETURN_IF_ERROR(AttendExact(stream, layer));
  if (layer.is_sparse) {
    LECTERN_RETURN_IF_ERROR(Join(stream, layer, kSelected, nullptr, lookup_.known_lse.data()));
    LECTERN_RETURN_IF_ERROR(LookUp(stream, number));
    LECTERN_RETURN_IF_ERROR(AttendSelected(stream, layer));
  }
  LECTERN_RETURN_IF_ERROR(
      Join(stream, layer, kSelected + layer.is_sparse, projected, Lse(number, kOfAll)));
  return is_observed() && !layer.is_windowed ? Observe(stream, number) : Status();
}

Result<StepRead> DeviceStep::Finish() {
  {
    const WaitsForStream wait(*stream_);
    LECTERN_RETURN_IF_ERROR(lse_.device.Download(*stream_, lse_.host.data(), lse_.host.size()));
    LECTERN_RETURN_IF_ERROR(stream_->Wait());
  }
  StepRead read;
  const Document& document = document_->document();
  for (uint32_t number = 0; number < config_.num_layers; ++number) {
    const LayerRead layer = CountsOf(number);
    if (layer.is_windowed) {
      read.window_bytes += layer.bytes;
      continue;
    }
    const double missed =
        step_plan_.is_measured && layer.is_sparse
            ? document.missed_calibration().Estimate(number, step_plan_.kv_budget,
                                                     layer.uncalibrated_missed)
            : layer.uncalibrated_missed;
    lectern::AddLayer({.num_layers = document.num_full_layers(),
                       .bytes = layer.bytes,
                       .dense_bytes = document.LayerBytes(),
                       .missed = missed},
                      read);
    step_plan_.sums->document_mass += layer.document_mass;
  }
  // The passes after a question are others.
  if (plan_->num_tokens > 1 || plan_->has_masses) LECTERN_RETURN_IF_ERROR(CollectSums());
  return read;
}

CudaAttendArgs DeviceStep::AttendArgs(size_t part) const {
  CudaAttendArgs args;
  args.queries = queries_;
  args.scale = scale();
  args.softcap = config_.attention_softcap;
  args.states = parts_[part].states();
  return args;
}

Status DeviceStep::AttendConversation(DeviceStream& stream, uint32_t number) {
  const Part& part = parts_[kConversation];
  CudaAttendArgs args = AttendArgs(kConversation);
  args.sources[0] = conversation_->View(number);
  args.sources[0].step = step_.data();
  if (layers_[number].is_windowed) args.sources[0].window = config_.window;
  args.items = part.items.data();
  args.num_items = part.item_begin.data() + config_.num_kv_heads + 1;
  args.max_items = static_cast<uint32_t>(part.items.size());
  return stream.Check(CudaAttend(stream.stream(), args));
}

Status DeviceStep::AttendExact(DeviceStream& stream, const Layer& layer) {
  CudaAttendArgs args = AttendArgs(kExact);
  args.sources[0] = layer.use.layer()->rows.view();
  if (layer.is_windowed) {
    args.sources[0].rows_per_head = layer.num_rows;
    args.sources[0].first_position = layer.end_position;
    args.sources[0].step = step_.data();
    args.sources[0].window = config_.window;
  }
  args.items = fixed_.exact_items.data() + layer.first_item;
  args.max_items = layer.num_items;
  return stream.Check(CudaAttend(stream.stream(), args));
}

Status DeviceStep::LookUp(DeviceStream& stream, uint32_t number) {
  const Layer& layer = layers_[number];
  const DeviceCodes& codes = *layer.codes_use.codes();
  const Part& part = parts_[kSelected];
  uint32_t* const item_begin = part.item_begin.data();
  const CudaCodesLookupArgs args = {.codes = codes.view(),
                                    .queries = queries_,
                                    .scale = scale(),
                                    .softcap = config_.attention_softcap,
                                    .known_lse = lookup_.known_lse.data(),
                                    .num_coded = layer.share.num_coded,
                                    .num_refined = layer.share.num_refined,
                                    .num_wanted = layer.share.num_wanted,
                                    .scratch = lookup_.scratch.data(),
                                    .first_row = Place(layer.first_coded),
                                    .rows = lookup_.rows.data(),
                                    .counts = lookup_.counts.data(),
                                    .lse = Lse(number, kOfLookup),
                                    .tail = lookup_.tail.data(),
                                    .tail_lse = Lse(number, kOfTail),
                                    .cut = {.list_begin = nullptr,
                                            .counts = lookup_.counts.data(),
                                            .extra = fixed_.extra.data() + layer.extra,
                                            .num_extra = plan_->tail ? 1u : 0u,
                                            .num_kv_heads = config_.num_kv_heads,
                                            .rows_per_item = layer.rows_per_item,
                                            .max_items = layer.most_items,
                                            .items = part.items.data(),
                                            .item_begin = item_begin,
                                            .num_items = item_begin + config_.num_kv_heads + 1}};
  if (!is_question()) {
    return stream.Check(CudaRowLookup(stream.stream(), {args, nullptr}));
  }
  return stream.Check(CudaQuestionLookup(
      stream.stream(), {args, choosing_.rows.data(), choosing_.weights.data(), num_chosen()}));
}

Status DeviceStep::AttendSelected(DeviceStream& stream, const Layer& layer) {
  const Part& part = parts_[kSelected];
  const DeviceCodes& codes = *layer.codes_use.codes();
  CudaAttendArgs args = AttendArgs(kSelected);
  args.sources[0] = layer.use.layer()->rows.view();
  args.sources[0].rows = lookup_.rows.data();
  if (plan_->tail) {
    args.sources[1] = codes.tail();
    args.sources[1].logits = lookup_.tail.data();
    args.sources[1].logits_stride = codes.view().most_groups;
    args.num_sources = 2;
  }
  args.items = part.items.data();
  args.num_items = part.item_begin.data() + config_.num_kv_heads + 1;
  args.max_items = layer.most_items;
  return stream.Check(CudaAttend(stream.stream(), args));
}

Status DeviceStep::Join(DeviceStream& stream, const Layer& layer, size_t num_parts, float* output,
                        float* lse) {
  CudaJoinArgs args = {};
  args.num_lists = static_cast<uint32_t>(num_parts);
  args.num_tokens = queries_.num_tokens;
  args.num_kv_heads = config_.num_kv_heads;
  args.group = group();
  args.head_dim = config_.head_dim;
  args.dtype = Dtype::kF32;
  args.output = output;
  args.lse = lse;
  for (size_t i = 0; i < num_parts; ++i) {
    args.lists[i] = {parts_[i].states(),
                     i == kExact ? Place(layer.item_begin) : parts_[i].item_begin.data()};
  }
  return stream.Check(CudaJoin(stream.stream(), args));
}

Status DeviceStep::Observe(DeviceStream& stream, uint32_t number) {
  const Layer& layer = layers_[number];
  const DeviceDocument::Layer& document = *layer.use.layer();
  const uint32_t last = queries_.num_tokens - 1;
  if (plan_->has_masses) {
    LECTERN_RETURN_IF_ERROR(
        Join(stream, layer, kConversation + 1, nullptr, Lse(number, kOfConversation)));
  }
  CudaKeySquaresArgs args = {.queries = queries_,
                             .scale = scale(),
                             .softcap = config_.attention_softcap,
                             .source = document.rows.view(),
                             .counts = Place(layer.exact_counts),
                             .most_entries = layer.most_exact,
                             .lse = Lse(number, kOfAll) + last * group(),
                             .lse_stride = num_rows(),
                             .positions = document.positions.data(),
                             .squares = plan_->has_squares ? observed_.squares.data() : nullptr,
                             .masses = plan_->has_masses ? observed_.masses.data() : nullptr,
                             .least = kNegligibleSquares};
  args.queries.data = query_rows_.data() + last * queries_.stride;
  args.queries.num_tokens = 1;
  if (layer.is_sparse) args.source.rows = Place(layer.exact_rows);
  LECTERN_RETURN_IF_ERROR(stream.Check(CudaKeySquares(stream.stream(), args)));
  if (!layer.is_sparse) return {};
  args.source.rows = lookup_.rows.data();
  args.counts = lookup_.counts.data();
  args.most_entries = layer.share.num_wanted;
  return stream.Check(CudaKeySquares(stream.stream(), args));
}

float* DeviceStep::Lse(uint32_t number, size_t kind) const {
  return lse_.device.data() + (number * kNumLse + kind) * num_queries();
}

DeviceStep::LayerRead DeviceStep::CountsOf(uint32_t number) const {
  const Layer& layer = layers_[number];
  LayerRead read = {
      .is_windowed = layer.is_windowed, .is_sparse = layer.is_sparse, .bytes = layer.bytes};
  const float* const lse = lse_.host.data() + number * kNumLse * num_queries();
  const auto of = [&](size_t kind) { return lse + kind * num_queries(); };
  const size_t rows = num_rows(), choosing = num_chosen();
  for (size_t h = 0; h < config_.num_kv_heads; ++h) {
    // The tail's share of all mass, or without a tail of the mass that the lookup found: a mean
    // over heads and, by their weights, query rows.
    for (size_t i = 0; layer.is_sparse && i < choosing; ++i) {
      const size_t row = choosing_.host_rows.empty() ? i : choosing_.host_rows[i];
      const double weight = choosing_.host_rows.empty() ? 1 / static_cast<double>(rows)
                                                        : double{choosing_.host_weights[i]};
      const float all = plan_->tail ? of(kOfAll)[h * rows + row] : of(kOfLookup)[h * choosing + i];
      read.uncalibrated_missed +=
          weight * std::exp(double{of(kOfTail)[h * choosing + i]} - all) / config_.num_kv_heads;
    }
    // The document's share is 1 - exp(conversation - all).
    for (size_t r = rows - group(); plan_->has_masses && !layer.is_windowed && r < rows; ++r) {
      const size_t at = h * rows + r;
      read.document_mass -= std::expm1(double{of(kOfConversation)[at]} - of(kOfAll)[at]);
    }
  }
  return read;
}

Status DeviceStep::CollectSums() {
  if (!plan_) return {};
  AttentionSums& sums = *step_plan_.sums;
  Status status;
  if (plan_->has_masses) status = AddUnits(observed_.masses, sums.masses);
  if (status.ok() && plan_->has_squares) status = AddUnits(observed_.squares, sums.squares);
  LetGo();
  return status;
}

Status DeviceStep::AddUnits(const DeviceArray<uint64_t>& units, std::span<double> sums) {
  std::vector<uint64_t> found(sums.size());
  const WaitsForStream wait(*stream_);
  LECTERN_RETURN_IF_ERROR(units.Download(*stream_, found.data(), found.size()));
  LECTERN_RETURN_IF_ERROR(stream_->Wait());
  for (size_t i = 0; i < found.size(); ++i) {
    sums[i] += static_cast<double>(found[i]) / kSquareUnits;
  }
  return {};
}

}  // namespace lectern
