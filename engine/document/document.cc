#include "engine/document/document.h"

#include <algorithm>

#include "engine/document/kv_spill.h"
#include "engine/model/formats/json.h"
#include "engine/requests/option.h"
#include "engine/requests/report_json.h"
#include "index/lookup.h"

namespace lectern {
namespace {

// Token ranges must ascend and stay inside the text: evidence cuts the text by them.
bool RangesFit(std::span<const TokenizedText::Range> ranges, size_t text_bytes) {
  uint64_t begin = 0;
  for (const TokenizedText::Range& range : ranges) {
    if (range.begin < begin || range.end < range.begin || range.end > text_bytes) return false;
    begin = range.begin;
  }
  return true;
}

// Sections that Heads reads once and that stay in memory.
bool IsKept(const SectionEntry& section) {
  switch (SectionKind{section.kind}) {
    case SectionKind::kPositions:
    case SectionKind::kKeyCounts:
    case SectionKind::kChildren:
    case SectionKind::kThresholds:
    case SectionKind::kQueryMetric:
    case SectionKind::kBlockScores:
    case SectionKind::kPlainBlockScores:
    case SectionKind::kFullBlockScores:
      return true;
    default:
      return false;
  }
}

// Bytes of the blocks that kept sections lie in, since blocks are read and verified whole.
uint64_t KeptBytes(const ShardReader& shard) {
  std::vector<bool> is_kept(shard.header().num_blocks);
  for (const SectionEntry& section : shard.sections()) {
    if (!IsKept(section)) continue;
    for (uint64_t at = section.offset / kBlockBytes * kBlockBytes;
         at < section.offset + section.bytes; at += kBlockBytes) {
      is_kept[at / kBlockBytes] = true;
    }
  }
  return static_cast<uint64_t>(std::count(is_kept.begin(), is_kept.end(), true)) * kBlockBytes;
}

// Bytes of the heads' metrics, which HeadIndex keeps as matrices of float.
uint64_t MetricBytes(const ShardReader& shard) {
  const uint64_t dim = shard.header().head_dim;
  uint64_t bytes = 0;
  for (const SectionEntry& section : shard.sections()) {
    if (SectionKind{section.kind} == SectionKind::kQueryMetric) bytes += dim * dim * sizeof(float);
  }
  return bytes;
}

// Whether the layer's header fits the document's. A windowed layer has no clusters, whatever the
// document has.
bool IsLayerOf(const ShardHeader& layer, const ShardHeader& document) {
  const bool clusters = layer.window_size == 0;
  return layer.num_tokens == document.num_tokens && layer.num_layers == document.num_layers &&
         layer.num_kv_heads == document.num_kv_heads && layer.head_dim == document.head_dim &&
         layer.kv_dtype == document.kv_dtype &&
         layer.num_levels == (clusters ? document.num_levels : 0) &&
         layer.num_sinks == (clusters ? document.num_sinks : 0) &&
         layer.num_window == (clusters ? document.num_window : 0);
}

}  // namespace

Result<std::shared_ptr<const Document>> Document::Open(Env& env, const std::string& directory,
                                                       const DocumentRow& row,
                                                       const std::vector<ShardSummary>& shards,
                                                       const DocumentOptions& options) {
  auto document = std::make_shared<Document>();
  LECTERN_ASSIGN(document->lease_, env.LockDirectory(directory, Lease::kShared));
  LECTERN_RETURN_IF_ERROR(document->contents_.Open(env, directory, row, shards));
  const ShardReader& shard = document->contents_.shard();
  LECTERN_ASSIGN(document->tokens_, shard.Array<int32_t>(SectionKind::kTokens, 0, 0));
  LECTERN_ASSIGN(document->ranges_,
                 shard.Array<TokenizedText::Range>(SectionKind::kTokenRanges, 0, 0));
  if (document->tokens_.size() != shard.header().num_tokens ||
      document->ranges_.size() != document->tokens_.size() ||
      !RangesFit(document->ranges_, document->text().size())) {
    return CorruptDocument(shard.path(), "text, tokens and their ranges contradict each other");
  }
  // The model section is JSON with the options of indexing; each one that is absent keeps its
  // default.
  LECTERN_ASSIGN(const auto model, shard.Section(SectionKind::kModel, 0, 0));
  const Result<Json> json = ParseJson({reinterpret_cast<const char*>(model.data()), model.size()});
  if (!json.ok()) return CorruptDocument(shard.path(), "its index options are damaged");
  LECTERN_RETURN_IF_ERROR(document->ReadBudget(*json));
  if (const Json* missed = json->Find("missed")) {
    auto calibration = ParseMissedCalibration(*missed, document->num_layers());
    if (!calibration) return CorruptDocument(shard.path(), "its calibration is damaged");
    document->missed_calibration_ = *std::move(calibration);
  }
  if (const Json* const heads = json->Find("retrieval_heads")) {
    document->retrieval_heads_ = ParseRetrievalHeads(*heads, shard.header().num_layers);
    if (!document->retrieval_heads_) {
      return CorruptDocument(shard.path(), "its retrieval heads are damaged");
    }
  }
  for (const auto& [key, name] : {std::pair("layer_budget", &document->policies_.layers),
                                  std::pair("head_budget", &document->policies_.heads)}) {
    const Json* const policy = json->Find(key);
    if (policy == nullptr) continue;
    if (policy->string() == nullptr) return CorruptDocument(shard.path(), "its plan is damaged");
    *name = *policy->string();
  }
  if (const Json* const weights = json->Find("weights")) {
    const auto type = ParseWeightsName(weights->string() != nullptr ? *weights->string() : "");
    if (!type) return CorruptDocument(shard.path(), "its kind of weights is damaged");
    document->weights_ = *type;
  }
  if (const Json* const chat = json->Find("template")) {
    if (chat->string() == nullptr)
      return CorruptDocument(shard.path(), "its chat template is damaged");
    document->chat_template_ = *chat->string();
  }
  for (const auto& [key, out] : {std::pair("template_text", &document->template_text_),
                                 std::pair("template_date", &document->template_date_),
                                 std::pair("adapter", &document->adapter_)}) {
    const Json* const found = json->Find(key);
    if (found == nullptr) continue;
    if (found->string() == nullptr)
      return CorruptDocument(shard.path(), "its chat template is damaged");
    *out = *found->string();
  }
  LECTERN_RETURN_IF_ERROR(document->ReadRetention(*json));
  const std::optional<double> prefill_budget = ReadPrefillBudget(*json);
  if (!prefill_budget) return CorruptDocument(shard.path(), "how it was prefilled is damaged");
  document->prefill_budget_ = *prefill_budget;
  LECTERN_RETURN_IF_ERROR(document->ReadStatistics());
  // All files are mapped before the first is waited for.
  std::vector<std::unique_ptr<MappedFile>> files;
  for (uint32_t layer = 0; layer < shard.header().num_layers; ++layer) {
    LECTERN_ASSIGN(files.emplace_back(),
                   ShardReader::Map(env, directory + "/" + LayerFile(layer), options.io));
  }
  for (uint32_t layer = 0; layer < shard.header().num_layers; ++layer) {
    auto& entry = document->layers_.emplace_back(std::make_unique<Layer>());
    LECTERN_ASSIGN(entry->shard, OpenShardOf(row, shards, directory, LayerFile(layer),
                                             std::move(files[layer]), ShardKind::kLayer, layer));
    if (!IsLayerOf(entry->shard->header(), shard.header())) {
      return CorruptDocument(entry->shard->path(), "its shape is not the document's");
    }
    document->num_full_layers_ += !document->is_windowed(layer);
  }
  if (document->has_clusters() && document->num_full_layers_ == 0) {
    return CorruptDocument(shard.path(), "it has clusters, but every layer sees a window only");
  }
  document->ram_ = options.ram;
  LECTERN_RETURN_IF_ERROR(document->ReserveRam());
  return std::shared_ptr<const Document>(std::move(document));
}

Result<std::optional<ChatSource>> Document::chat_source() const {
  if (chat_template_ == kOwnTemplate) return std::optional<ChatSource>();
  if (chat_template_ == kFileTemplate) {
    return std::optional(ChatSource{.name = chat_template_, .jinja = template_text_});
  }
  LECTERN_ASSIGN(ChatSource source, ChatFormatNamed(chat_template_));
  return std::optional(std::move(source));
}

Document::~Document() {
  if (!ram_) return;
  ram_->Unregister(this);
  for (const auto& layer : layers_) ram_->AddPages(-static_cast<int64_t>(layer->pages.load()));
}

Status Document::ReserveRam() {
  uint64_t kept = contents_.BytesKept();
  for (const auto& layer : layers_) {
    const uint64_t kept_of_layer = KeptBytes(*layer->shard);
    kept += kept_of_layer + MetricBytes(*layer->shard);
    layer_ram_ = std::max(layer_ram_, layer->shard->header().payload_bytes - kept_of_layer);
  }
  if (!ram_) return {};
  LECTERN_ASSIGN(ram_share_, ram_->Reserve(kept, "opening document \"" + row().name + "\"",
                                           "close other documents"));
  ram_->Register(this, [this] {
    for (uint32_t layer = 0; layer < layers_.size(); ++layer) DropPages(layer);
  });
  return {};
}

void Document::CountPages(uint32_t layer) const {
  if (!ram_) return;
  const Layer& entry = *layers_[layer];
  const uint64_t now = entry.shard->droppable_bytes();
  ram_->AddPages(static_cast<int64_t>(now) - static_cast<int64_t>(entry.pages.exchange(now)));
  if (ram_->IsExceeded()) DropPages(layer);
}

void Document::DropPages(uint32_t layer) const {
  const Layer& entry = *layers_[layer];
  const std::unique_lock alone(entry.use, std::try_to_lock);
  if (!alone) return;
  const std::lock_guard lock(entry.mutex);  // nobody is loading the heads
  entry.shard->Drop();
  ram_->AddPages(-static_cast<int64_t>(entry.pages.exchange(0)));
}

Status Document::ReadStatistics() {
  const ShardReader& shard = contents_.shard();
  if (shard.Find(SectionKind::kStatistics, 0, 0) == nullptr) return {};
  LECTERN_ASSIGN(const auto bytes, shard.Section(SectionKind::kStatistics, 0, 0));
  const Result<Json> json = ParseJson({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const Json* const cosines = json.ok() ? json->Find("cosine") : nullptr;
  if (cosines != nullptr && cosines->array() != nullptr) {
    for (const Json& cosine : *cosines->array()) cosines_.push_back(cosine.number().value_or(2));
  }
  const bool fits = std::all_of(cosines_.begin(), cosines_.end(),
                                [](double cosine) { return std::abs(cosine) <= 1 + 1e-9; });
  if (!fits || cosines_.size() != num_layers()) {
    return CorruptDocument(shard.path(), "its statistics are damaged");
  }
  return {};
}

Status Document::ReadRetention(const Json& options) {
  const Result<Retention> retention = lectern::ReadRetention(options);
  const double all =
      double{1} * num_layers() * shape().num_kv_heads * static_cast<double>(shape().num_tokens);
  const Json* const kept = options.Find("kept_rows");
  if (kept != nullptr) {
    kept_share_ = static_cast<double>(kept->unsigned_integer().value_or(0)) / all;
  }
  if (!retention.ok() || !(kept_share_ > 0 && kept_share_ <= 1)) {
    return CorruptDocument(contents_.shard().path(), "what it keeps is damaged");
  }
  retention_ = *retention;
  return {};
}

Status Document::ReadBudget(const Json& options) {
  const auto damaged = [this] {
    return CorruptDocument(contents_.shard().path(), "its index options are damaged");
  };
  const Json* const budget = options.Find("kv_budget");
  if (budget == nullptr || !kShare.Holds(budget->number().value_or(0))) return damaged();
  budget_.kv_budget = static_cast<float>(*budget->number());
  if (const Json* const is_auto = options.Find("kv_budget_auto")) {
    if (!is_auto->boolean()) return damaged();
    budget_.is_auto = *is_auto->boolean();
  }
  if (const Json* const most = options.Find("max_divergence")) {
    if (!(most->number().value_or(0) > 0)) return damaged();
    budget_.max_divergence = static_cast<float>(*most->number());
  }
  if (const Json* const curve = options.Find("divergence")) {
    auto parsed = ParseDivergenceCurve(*curve);
    if (!parsed) return damaged();
    budget_.curve = *std::move(parsed);
  }
  return {};
}

ChosenBudget Document::ChooseBudget(float kv_budget, float max_divergence) const {
  ChosenBudget chosen;
  chosen.max_divergence = double{max_divergence > 0 ? max_divergence : budget_.max_divergence};
  const bool wants_auto = kv_budget == kAutoBudget || (kv_budget == 0 && budget_.is_auto);
  const DivergenceCurve& curve = budget_.curve;
  if (!wants_auto) {
    chosen.kv_budget = double{kv_budget > 0 ? kv_budget : budget_.kv_budget};
  } else if (curve.is_measured()) {
    chosen.is_auto = true;
    chosen.kv_budget = curve.SmallestBudget(chosen.max_divergence);
  } else {
    chosen.is_auto = budget_.is_auto;  // a document without clusters has nothing to measure
    chosen.kv_budget = double{budget_.kv_budget};
  }
  if (ReadsAll(chosen.kv_budget)) {
    chosen.divergence = 0;
  } else if (curve.is_measured()) {
    chosen.divergence = curve.At(chosen.kv_budget);
  }
  return chosen;
}

Result<std::span<const double>> Document::CosineSums() const {
  const ShardReader& shard = contents_.shard();
  if (shard.Find(SectionKind::kCosineSums, 0, 0) == nullptr) return std::span<const double>();
  LECTERN_ASSIGN(const auto sums, shard.Array<double>(SectionKind::kCosineSums, 0, 0));
  if (sums.size() == tokens_.size() / kChunkTokens * num_layers()) return sums;
  return CorruptDocument(shard.path(), "its sums are not one per chunk and layer");
}

void Document::ReadHeadsAhead() const {
  for (const auto& layer : layers_) {
    if (layer->is_loaded.load(std::memory_order_acquire)) continue;
    for (const SectionEntry& s : layer->shard->sections()) {
      if (IsKept(s)) layer->shard->ReadAhead(s.offset, s.bytes);
    }
  }
}

Result<std::vector<double>> Document::Floors(const PlanPolicies& policies, bool tail) const {
  ReadHeadsAhead();
  std::vector<double> floors;
  for (uint32_t layer = 0; layer < num_layers(); ++layer) {
    if (is_windowed(layer)) continue;
    LECTERN_ASSIGN(const auto heads, Heads(layer));
    if (HeadsCompete(policies)) {
      floors.push_back(lectern::SmallestBudget(heads, tail));
      continue;
    }
    for (size_t h = 0; h < heads.size(); ++h) {
      floors.push_back(lectern::SmallestBudget(heads.subspan(h, 1), tail));
    }
  }
  return floors;
}

// Collects the policies' input from all layers that are not windowed, makes the plan, then inserts
// the windowed layers.
Result<BudgetPlan> Document::Plan(const PlanPolicies& policies, double kv_budget, bool tail,
                                  bool has_floors) const {
  ReadHeadsAhead();
  PolicyInput input;  // of the layers that are not windowed
  input.num_layers = num_full_layers();
  input.num_kv_heads = shape().num_kv_heads;
  input.num_protected = shape().num_sinks + shape().num_window;
  input.kept_share = kept_share_;
  input.kv_budget = std::min(1.0, kv_budget / kept_share_);
  for (uint32_t layer = 0; layer < num_layers(); ++layer) {
    if (is_windowed(layer)) continue;
    if (!cosines_.empty()) input.cosine.push_back(cosines_[layer]);
    LECTERN_ASSIGN(const auto heads, Heads(layer));
    for (const HeadIndex& head : heads) {
      input.rows.push_back(head.num_rows());
      input.block_scores.push_back(head.block_scores());
      input.plain_block_scores.push_back(head.plain_block_scores());
      input.full_block_scores.push_back(head.full_block_scores());
    }
  }
  for (auto* scores : {&input.block_scores, &input.plain_block_scores, &input.full_block_scores}) {
    if (std::any_of(scores->begin(), scores->end(), [](auto head) { return head.empty(); })) {
      scores->clear();
    }
  }
  LECTERN_ASSIGN(std::vector<double> floors, Floors(policies, tail));
  if (!has_floors) std::fill(floors.begin(), floors.end(), 0.0);
  LECTERN_ASSIGN(BudgetPlan plan, MakePlan(policies, input, floors));
  // Windowed layers are read whole: they get a share of 1.
  for (uint32_t layer = 0; layer < num_layers(); ++layer) {
    if (!is_windowed(layer)) continue;
    plan.layers.insert(plan.layers.begin() + layer, 1.0);
    if (plan.heads.empty()) continue;
    plan.heads.insert(plan.heads.begin() + layer * shape().num_kv_heads, shape().num_kv_heads, 1.0);
  }
  return plan;
}

Result<DocumentPlan> Document::StoredPlan() const {
  DocumentPlan stored;
  stored.layer_budget = policies_.layers;
  stored.head_budget = policies_.heads;
  const ChosenBudget chosen = ChooseBudget(0, 0);
  stored.kv_budget = chosen.kv_budget;
  stored.is_auto = chosen.is_auto;
  stored.max_divergence = chosen.max_divergence;
  stored.divergence = chosen.divergence;
  stored.cosine = cosines_;
  stored.layers.assign(num_layers(), 1.0);
  if (!has_clusters()) return stored;
  uint32_t first = 0;
  while (is_windowed(first)) ++first;
  LECTERN_ASSIGN(const auto heads, Heads(first));
  const bool is_full = !heads.front().full_block_scores().empty();
  if (!heads.front().block_scores().empty()) stored.stats = is_full ? "full" : "window";
  if (stored.kv_budget >= 1) return stored;
  LECTERN_ASSIGN(BudgetPlan plan, Plan(policies_, stored.kv_budget, true, true));
  stored.layers = std::move(plan.layers);
  stored.heads = std::move(plan.heads);
  // The report also shows what KV-Compress's competition would give each layer.
  if (auto competed = Plan({"kv-compress", "global"}, stored.kv_budget, true, true);
      competed.ok()) {
    stored.competed = std::move(competed->layers);
  }
  return stored;
}

Result<double> Document::SmallestBudget(const PlanPolicies& policies, bool tail) const {
  LECTERN_ASSIGN(const std::vector<double> floors, Floors(policies, tail));
  double rows = 0, least = 0;
  auto floor = floors.begin();
  for (uint32_t layer = 0; layer < num_layers(); ++layer) {
    if (is_windowed(layer)) continue;
    LECTERN_ASSIGN(const auto heads, Heads(layer));
    double of_layer = 0;
    for (const HeadIndex& head : heads) {
      const double head_rows = head.num_rows();
      if (!HeadsCompete(policies)) least += std::ceil(*floor++ * head_rows);
      of_layer += head_rows;
    }
    if (HeadsCompete(policies)) least += std::ceil(*floor++ * of_layer);
    rows += of_layer;
  }
  return least / rows * kept_share_;
}

Result<std::span<const HeadIndex>> Document::Heads(uint32_t layer) const {
  const Layer& entry = *layers_[layer];
  if (entry.is_loaded.load(std::memory_order_acquire)) {
    return std::span<const HeadIndex>(entry.heads);
  }
  std::lock_guard lock(entry.mutex);
  if (entry.heads.empty()) {
    std::vector<HeadIndex> heads;
    for (uint32_t head = 0; head < shape().num_kv_heads; ++head) {
      LECTERN_ASSIGN(HeadIndex index, HeadIndex::Load(*entry.shard, head));
      heads.push_back(std::move(index));
    }
    entry.heads = std::move(heads);
    entry.is_loaded.store(true, std::memory_order_release);
  }
  return std::span<const HeadIndex>(entry.heads);
}

void Document::ReadAhead(uint32_t layer, bool rows) const {
  const ShardReader& shard = *layers_[layer]->shard;
  for (const SectionEntry& s : shard.sections()) {
    const bool is_rows = s.kind == static_cast<uint32_t>(SectionKind::kRows);
    if (is_rows == rows) shard.ReadAhead(s.offset, s.bytes);
  }
}

void Document::ReadWholeAhead() const {
  // The first question reads most of the blocks of a document of some thousand tokens. One hint for
  // each layer keeps the disk at work, where hints for runs of blocks, a layer ahead, let it wait.
  // The limit bounds the bytes that are read in vain; documents of 20 and 88 MB were measured.
  constexpr uint64_t kMostBytes = uint64_t{128} << 20;
  if (ram_ || is_asked_for_.exchange(true, std::memory_order_relaxed)) return;
  uint64_t bytes = 0;
  for (const auto& layer : layers_) bytes += layer->shard->header().payload_bytes;
  if (bytes > kMostBytes) return;
  for (const auto& layer : layers_)
    layer->shard->ReadAhead(0, layer->shard->header().payload_bytes);
}

void Document::ReadAheadCodes(uint32_t layer) const {
  if (layer == 0) ReadWholeAhead();
  ReadAhead(layer, false);
}

void Document::ReadAheadRows(uint32_t layer) const {
  // Reading ahead before the need is known must cost little beside what is surely needed. The share
  // was chosen without measurement.
  constexpr double kMost = 0.75;
  if (is_windowed(layer) || (layer > 0 && layers_[layer - 1]->shard->verified_share() > kMost)) {
    ReadAhead(layer, true);
  }
}

uint64_t Document::LayerBytes() const {
  return uint64_t{2} * shape().num_kv_heads * shape().num_tokens *
         RowBytes(kv_dtype(), shape().head_dim);
}

Status Document::VerifyAll() const {
  LECTERN_RETURN_IF_ERROR(contents_.shard().VerifyAll());
  for (uint32_t layer = 0; layer < num_layers(); ++layer) {
    LECTERN_RETURN_IF_ERROR(layers_[layer]->shard->VerifyAll());
    const auto heads = Heads(layer);
    if (!heads.ok()) return heads.status();
  }
  return {};
}

}  // namespace lectern
