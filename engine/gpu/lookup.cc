#include "engine/gpu/lookup.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "index/row_codes.h"
#include "index/row_limits.h"

namespace lectern {
namespace {

constexpr const char* kLookupUse = "a lookup";

// At least this share of the budget is left to rows and their fine codes. No measurement of it is
// on record.
constexpr double kLeastForRows = 0.25;
// So many rows are scored by fine codes for each row that is read. No measurement of it is on
// record.
constexpr double kRefinedRows = 4;

uint32_t NumClustered(const HeadIndex& head) { return head.num_rows() - head.num_exact(); }

// Rows of different heads do not share what is packed together.
size_t Padded(size_t rows) { return (rows + kSignBlock - 1) / kSignBlock * kSignBlock; }

// The level whose clusters the tail stands for.
size_t TailLevel(const HeadIndex& head) {
  const size_t finest = head.levels().size() - 1;
  return finest == 0 ? 0 : finest - 1;
}

// Where the rows of each group (cluster of TailLevel) begin, counted from the first clustered row;
// last, where they end: [groups + 1].
std::vector<uint32_t> GroupBegins(const HeadIndex& head) {
  const HeadIndex::Level& level = head.levels()[TailLevel(head)];
  std::vector<uint32_t> begins;
  for (const uint32_t child : level.children) {
    const uint32_t row = head.levels().size() == 1 ? child : head.levels().back().children[child];
    begins.push_back(row - head.num_exact());
  }
  return begins;
}

// The finest cluster that each group begins with; last, the number of finest clusters: [groups +
// 1].
std::vector<uint32_t> GroupClusters(const HeadIndex& head) {
  const size_t num_clusters = head.levels().back().num_clusters();
  if (head.levels().size() > 1) {
    const std::span<const uint32_t> children = head.levels()[TailLevel(head)].children;
    return {children.begin(), children.end()};
  }
  std::vector<uint32_t> begins(num_clusters + 1);
  std::iota(begins.begin(), begins.end(), 0u);
  return begins;
}

// The bytes of a head that are read whatever the lookup chooses.
uint64_t FixedBytesOf(const HeadIndex& head, bool tail) {
  const HeadIndex::Level& finest = head.levels().back();
  const HeadIndex::Level& of_tail = head.levels()[TailLevel(head)];
  return head.BlockBytes({0, head.num_exact()}) + finest.num_clusters() * finest.cluster_bytes() +
         (tail ? of_tail.num_clusters() * of_tail.mean_values.row_bytes() : 0);
}

// The type in which kernels read mean values beside rows of this type: those of q8 rows stay q8.
Dtype TailDtype(Dtype rows) { return rows == Dtype::kQ8 ? rows : QueryDtype(rows); }

// Mean values of a head, as kernels read them (DeviceKv), and zeros up to `num_rows`.
void AddMeanValues(const TypedRows& from, size_t num_rows, Dtype dtype, const Backend& backend,
                   std::vector<std::byte>& values, std::vector<f16>& scales) {
  const size_t numbers = num_rows * from.num_cols, first = values.size();
  values.resize(first + numbers * (dtype == Dtype::kQ8 ? 1 : 2));
  std::byte* to = values.data() + first;
  if (dtype != Dtype::kQ8) {
    std::vector<float> floats(from.num_rows * from.num_cols);
    const Rows<float> rows(floats.data(), from.num_rows, from.num_cols);
    backend.to_float_rows(from, rows);
    backend.from_float_rows(rows, dtype, to);
    return;
  }
  const size_t num_scales = scales.size() + numbers / kQ8Block;
  const std::byte* const end = from.row(from.num_rows);
  for (const std::byte* block = from.data; block < end; block += sizeof(f16) + kQ8Block) {
    std::memcpy(&scales.emplace_back(), block, sizeof(f16));
    std::memcpy(to, block + sizeof(f16), kQ8Block);
    to += kQ8Block;
  }
  scales.resize(num_scales);
}

// The mean values of all heads, which stand for rows that are not read, and the clusters that tell
// how many rows each stands for.
struct Tails {
  std::vector<std::byte> mean_values;  // as AddMeanValues leaves them, a head after the other
  std::vector<f16> scales;
  std::vector<float> deviations;         // of finest clusters
  std::vector<uint32_t> group_clusters;  // [heads][most_groups + 1]
};
// Makes them, with room for `most_groups` clusters of each head. Errors of VerifyMeanValues.
Result<Tails> MakeTails(std::span<const HeadIndex> heads, uint32_t most_groups,
                        const Backend& backend) {
  Tails tails;
  const Dtype dtype = TailDtype(heads.front().AsRows({}).dtype);
  for (size_t h = 0; h < heads.size(); ++h) {
    const HeadIndex& head = heads[h];
    const size_t level = TailLevel(head);
    const TypedRows& values = head.levels()[level].mean_values;
    assert(dtype != Dtype::kQ8 || values.dtype == Dtype::kQ8);
    LECTERN_RETURN_IF_ERROR(
        head.VerifyMeanValues(level, {0, static_cast<uint32_t>(values.num_rows)}));
    AddMeanValues(values, most_groups, dtype, backend, tails.mean_values, tails.scales);
    const HeadIndex::Level& finest = head.levels().back();
    for (const float variance : finest.variances) tails.deviations.push_back(std::sqrt(variance));
    const std::vector<uint32_t> begins = GroupClusters(head);
    tails.group_clusters.insert(tails.group_clusters.end(), begins.begin(), begins.end());
    tails.group_clusters.resize((h + 1) * (most_groups + 1), begins.back());
  }
  return tails;
}

// Per clustered row its three planes side by side, and the factor.
Status AddFineCodes(const HeadIndex& head, size_t plane_bytes, std::span<uint8_t> planes,
                    std::span<float> factors) {
  const size_t dim = head.levels().back().centroids.num_cols;
  std::array<std::vector<std::byte>, 3> of_rows;  // as MakeFinePlanes takes them
  for (uint32_t row = head.num_exact(), verified = row; row < head.num_rows(); ++row) {
    if (row >= verified) {
      LECTERN_ASSIGN(verified, head.VerifyFineCodesFrom(row));
    }
    const std::byte* const fine = head.FineCodes(row);
    const std::byte* const parts[] = {head.RowCodes(row), fine, fine + plane_bytes};
    for (size_t p = 0; p < 3; ++p) {
      of_rows[p].insert(of_rows[p].end(), parts[p], parts[p] + plane_bytes);
    }
    factors[row - head.num_exact()] = FineFactor(fine, dim);
  }
  MakeFinePlanes(of_rows[0], of_rows[1], of_rows[2]);
  for (size_t p = 0; p < 3; ++p) {
    const std::byte* from = of_rows[p].data();
    for (size_t i = 0; i < NumClustered(head); ++i, from += plane_bytes) {
      std::memcpy(planes.data() + (3 * i + p) * plane_bytes, from, plane_bytes);
    }
  }
  return {};
}

}  // namespace

bool DeviceCodes::Has(std::span<const HeadIndex> heads) {
  return std::ranges::all_of(heads, [](const HeadIndex& head) {
    return !head.levels().empty() && head.has_row_codes() && NumClustered(head) > 0 &&
           head.metric() == nullptr;
  });
}

uint64_t DeviceCodes::Bytes(std::span<const HeadIndex> heads) {
  uint64_t bytes = 0, most_groups = 0;
  for (const HeadIndex& head : heads) {
    const HeadIndex::Level& finest = head.levels().back();
    bytes +=
        Padded(NumClustered(head)) *
            (4 * PlaneBytes(finest.centroids.num_cols) + 2 * sizeof(float) + sizeof(uint32_t)) +
        finest.num_clusters() * (finest.centroids.num_cols * sizeof(uint16_t) + 2 * sizeof(float));
    most_groups = std::max<uint64_t>(most_groups, head.levels()[TailLevel(head)].num_clusters());
  }
  const size_t dim = heads.front().levels().back().centroids.num_cols;
  bytes += heads.size() * most_groups * RowBytes(TailDtype(heads.front().AsRows({}).dtype), dim);
  const size_t rotation = RotationSigns(dim).size();
  return bytes + (heads.size() * (2 * most_groups + 5) + 1 + rotation) * sizeof(uint32_t);
}

Result<std::unique_ptr<const DeviceCodes>> DeviceCodes::Bring(std::span<const HeadIndex> heads,
                                                              const Backend& backend,
                                                              DeviceStream& stream,
                                                              KvStaging* staging) {
  auto codes = std::make_unique<DeviceCodes>();
  const size_t dim = heads.front().levels().back().centroids.num_cols;
  const size_t plane_bytes = PlaneBytes(dim);
  codes->dtype_ = QueryDtype(heads.front().AsRows({}).dtype);
  std::vector<uint8_t> planes, fine_planes;
  std::vector<float> factors, fine_factors, floats;
  std::vector<uint32_t> clusters, row_begin, num_rows, cluster_begin = {0}, cluster_end;
  std::vector<uint16_t> centroids;
  std::vector<std::vector<uint32_t>> groups;
  DeviceRowCodes& view = codes->view_;
  for (const HeadIndex& head : heads) {
    const HeadIndex::Level& finest = head.levels().back();
    const auto num_clusters = static_cast<uint32_t>(finest.num_clusters());
    const uint32_t count = NumClustered(head);
    LECTERN_RETURN_IF_ERROR(head.VerifyRowCodes({head.num_exact(), head.num_rows()}));
    LECTERN_RETURN_IF_ERROR(head.VerifyCentroids(head.levels().size() - 1, {0, num_clusters}));
    const std::byte* const stored = head.RowCodes(head.num_exact());
    const size_t first = factors.size();
    row_begin.push_back(static_cast<uint32_t>(first));
    num_rows.push_back(count);
    planes.resize((first + Padded(count)) * plane_bytes);
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(planes.data() + (first + i) * plane_bytes, stored + i * head.row_code_bytes(),
                  plane_bytes);
    }
    factors.resize(first + Padded(count));
    RowFactors(stored, dim, std::span(factors).subspan(first, count));
    fine_planes.resize(3 * planes.size());
    fine_factors.resize(factors.size());
    LECTERN_RETURN_IF_ERROR(AddFineCodes(head, plane_bytes,
                                         std::span(fine_planes).subspan(3 * first * plane_bytes),
                                         std::span(fine_factors).subspan(first)));
    clusters.resize(factors.size());
    for (uint32_t i = 0; i < num_clusters; ++i) {
      const IndexRange rows = head.ClusterRows(i);
      std::fill(clusters.begin() + first + rows.begin - head.num_exact(),
                clusters.begin() + first + rows.end - head.num_exact(), i);
      cluster_end.push_back(rows.end - head.num_exact());
    }
    floats.resize(num_clusters * dim);
    const Rows<float> values(floats.data(), num_clusters, dim);
    backend.to_float_rows(finest.centroids, values);
    const size_t at = centroids.size();
    centroids.resize(at + floats.size());
    backend.from_float_rows(values, codes->dtype_,
                            reinterpret_cast<std::byte*>(centroids.data() + at));
    cluster_begin.push_back(cluster_begin.back() + num_clusters);
    view.most_clusters = std::max(view.most_clusters, num_clusters);
    groups.push_back(GroupBegins(head));
    codes->num_groups_.push_back(static_cast<uint32_t>(groups.back().size() - 1));
    view.most_rows = std::max(view.most_rows, count);
    view.all_rows += count;
    view.most_groups = std::max(view.most_groups, static_cast<uint32_t>(groups.back().size() - 1));
  }
  const uint16_t exponent = codes->dtype_ == Dtype::kBf16 ? 0x7F80 : 0x7C00;
  const auto is_infinite = [=](uint16_t bits) { return (bits & exponent) == exponent; };
  if (std::ranges::any_of(centroids, is_infinite)) return std::unique_ptr<const DeviceCodes>();
  std::vector<uint32_t> places = row_begin;
  const std::vector<uint32_t> rotation = RotationSigns(dim);
  LECTERN_ASSIGN(const Tails tails, MakeTails(heads, view.most_groups, backend));
  for (const auto& of : {std::cref(num_rows), std::cref(cluster_begin), std::cref(rotation),
                         std::cref(cluster_end), std::cref(tails.group_clusters)}) {
    places.insert(places.end(), of.get().begin(), of.get().end());
  }
  for (std::vector<uint32_t>& begins : groups) {
    begins.resize(view.most_groups + 1, begins.back());
    places.insert(places.end(), begins.begin(), begins.end());
  }
  const WaitsForStream wait(stream);  // what is uploaded is read until then
  const auto upload = [&](const auto& from, auto& to) -> Status {
    LECTERN_RETURN_IF_ERROR(to.Reserve(stream, from.size(), "row codes of a layer"));
    if (staging != nullptr) return staging->Upload(stream, std::span(from), to);
    return to.Upload(stream, from.data(), from.size());
  };
  LECTERN_RETURN_IF_ERROR(upload(planes, codes->planes_));
  LECTERN_RETURN_IF_ERROR(upload(factors, codes->factors_));
  LECTERN_RETURN_IF_ERROR(upload(fine_planes, codes->fine_planes_));
  LECTERN_RETURN_IF_ERROR(upload(fine_factors, codes->fine_factors_));
  LECTERN_RETURN_IF_ERROR(upload(clusters, codes->clusters_));
  LECTERN_RETURN_IF_ERROR(upload(places, codes->places_));
  LECTERN_RETURN_IF_ERROR(upload(centroids, codes->centroids_));
  LECTERN_RETURN_IF_ERROR(upload(tails.mean_values, codes->mean_values_));
  LECTERN_RETURN_IF_ERROR(upload(tails.scales, codes->mean_value_scales_));
  LECTERN_RETURN_IF_ERROR(upload(tails.deviations, codes->deviations_));
  LECTERN_RETURN_IF_ERROR(stream.Wait());
  view.planes = codes->planes_.data();
  view.factors = codes->factors_.data();
  view.fine_planes = codes->fine_planes_.data();
  view.fine_factors = codes->fine_factors_.data();
  view.clusters = codes->clusters_.data();
  view.row_begin = codes->places_.data();
  view.num_rows = view.row_begin + heads.size();
  view.cluster_begin = view.num_rows + heads.size();
  view.rotation = view.cluster_begin + heads.size() + 1;
  view.cluster_end = view.rotation + rotation.size();
  view.group_clusters = view.cluster_end + cluster_end.size();
  view.group_begin = view.group_clusters + tails.group_clusters.size();
  view.centroids = codes->centroids_.data();
  view.deviations = codes->deviations_.data();
  codes->tail_ = {.values = codes->mean_values_.data(),
                  .dtype = TailDtype(heads.front().AsRows({}).dtype),
                  .value_scales = codes->mean_value_scales_.data()};
  view.num_kv_heads = static_cast<uint32_t>(heads.size());
  view.plane_bytes = static_cast<uint32_t>(plane_bytes);
  return std::unique_ptr<const DeviceCodes>(std::move(codes));
}

uint64_t DeviceLookup::MostBytes(std::span<const HeadIndex> heads) {
  DeviceRowCodes codes;
  codes.plane_bytes =
      static_cast<uint32_t>(PlaneBytes(heads.front().levels().back().centroids.num_cols));
  codes.num_kv_heads = static_cast<uint32_t>(heads.size());
  for (const HeadIndex& head : heads) {
    codes.most_rows = std::max(codes.most_rows, NumClustered(head));
    codes.all_rows += NumClustered(head);
    codes.most_groups = std::max(
        codes.most_groups, static_cast<uint32_t>(head.levels()[TailLevel(head)].num_clusters()));
    codes.most_clusters =
        std::max(codes.most_clusters, static_cast<uint32_t>(head.levels().back().num_clusters()));
  }
  // There are no more tails than clusters.
  const auto all_rows = static_cast<uint32_t>(codes.all_rows);
  return sizeof(float) * (CudaRowLookupScratch(codes, kMostLookupQueries, all_rows, all_rows) +
                          heads.size() * kMostLookupQueries * codes.most_clusters);
}

Result<bool> DeviceLookup::LookUp(const DeviceCodes& codes, const LookupArgs& args,
                                  std::vector<HeadSelection>& selections) {
  const size_t num_queries = args.queries.front().num_rows;
  if (num_queries >= too_many_queries_) return false;
  Result<bool> found = TryLookUp(codes, args, selections);
  if (found.ok() || found.status().code() != Code::kOutOfMemory) return found;
  too_many_queries_ = num_queries;
  return false;
}

namespace {

// The number of rows that a layer's budget buys, and what is left of the budget beside the bytes
// that are read whatever is chosen.
struct Budget {
  double rows = 0, left = 0;  // clustered rows of all heads; bytes
  uint64_t fixed = 0;         // bytes
  RowCosts costs = {};
  bool is_enough = false;
};
// `all_codes`: every row code is read, so their bytes are fixed ones.
Budget BudgetOf(std::span<const HeadIndex> heads, double kv_budget, bool tail, bool all_codes) {
  Budget budget;
  double dense = 0;
  for (const HeadIndex& head : heads) {
    dense += static_cast<double>(head.dense_bytes());
    budget.rows += NumClustered(head);
    budget.fixed += FixedBytesOf(head, tail);
    if (all_codes) budget.fixed += NumClustered(head) * head.row_code_bytes();
  }
  budget.left = kv_budget * dense - static_cast<double>(budget.fixed);
  budget.costs = {static_cast<double>(heads.front().row_code_bytes()),
                  static_cast<double>(heads.front().fine_code_bytes()),
                  static_cast<double>(heads.front().BlockBytes({0, 1}))};
  budget.is_enough = budget.left >= kLeastForRows * kv_budget * dense;
  return budget;
}

// Row codes of the best clusters, as index/lookup.h's.
std::optional<DeviceLookup::Share> ShareByClusters(std::span<const HeadIndex> heads,
                                                   double kv_budget, bool tail,
                                                   size_t num_query_rows) {
  const Budget budget = BudgetOf(heads, kv_budget, tail, /*all_codes=*/false);
  if (!budget.is_enough) return {};
  RowLimits limits = LimitsOf(kv_budget, budget.rows, heads.size(), num_query_rows);
  limits.coded = std::min(limits.coded, budget.rows);
  const RowLimits rows = RowsOfBytes(budget.left, budget.costs, limits);
  DeviceLookup::Share share = {static_cast<uint32_t>(rows.coded),
                               static_cast<uint32_t>(rows.refined),
                               static_cast<uint32_t>(rows.read), 0};
  if (share.num_wanted == 0) return {};
  share.bytes = budget.fixed + share.num_coded * heads.front().row_code_bytes() +
                share.num_refined * heads.front().fine_code_bytes() +
                share.num_wanted * heads.front().BlockBytes({0, 1});
  return share;
}

}  // namespace

std::optional<DeviceLookup::Share> DeviceLookup::ShareOfToken(std::span<const HeadIndex> heads,
                                                              double kv_budget, bool tail,
                                                              size_t num_query_rows) {
  return ShareByClusters(heads, kv_budget, tail, num_query_rows);
}

std::optional<DeviceLookup::Share> DeviceLookup::ShareOfQuestion(std::span<const HeadIndex> heads,
                                                                 double kv_budget, bool tail,
                                                                 size_t num_query_rows) {
  const Budget budget = BudgetOf(heads, kv_budget, tail, /*all_codes=*/true);
  const double row_bytes = budget.costs.row, fine_bytes = budget.costs.fine_code;
  if (!budget.is_enough || budget.left < row_bytes + kRefinedRows * fine_bytes) {
    return ShareByClusters(heads, kv_budget, tail, num_query_rows);
  }
  const auto refined = static_cast<uint32_t>(
      std::min(budget.rows, kRefinedRows * budget.left / (row_bytes + kRefinedRows * fine_bytes)));
  const auto wanted = static_cast<uint32_t>(
      std::min<double>((budget.left - refined * fine_bytes) / row_bytes, refined));
  return Share{static_cast<uint32_t>(budget.rows), refined, wanted,
               budget.fixed + wanted * heads.front().BlockBytes({0, 1}) +
                   refined * heads.front().fine_code_bytes()};
}

Result<bool> DeviceLookup::TryLookUp(const DeviceCodes& codes, const LookupArgs& args,
                                     std::vector<HeadSelection>& selections) {
  const DeviceRowCodes& view = codes.view();
  const size_t num_heads = args.heads.size(), num_queries = args.queries.front().num_rows;
  const size_t dim = args.queries.front().num_cols, all_queries = num_heads * num_queries;
  if (args.rule.kind != Rule::kDefault || !args.head_budgets.empty() || args.bound ||
      !args.row_codes) {
    return false;
  }
  const bool is_question = num_queries > kMostLookupQueries;
  const auto share = is_question
                         ? ShareOfQuestion(args.heads, args.kv_budget, args.tail, num_queries)
                         : ShareOfToken(args.heads, args.kv_budget, args.tail, num_queries);
  if (!share) return false;
  FindChoosing(args, is_question);
  const auto num_choosing = static_cast<uint32_t>(host_choosing_.size());
  if (num_choosing > kMostChosenQueries) return false;
  const WaitsForStream wait(*stream_);  // what is uploaded is read until then
  LECTERN_RETURN_IF_ERROR(BringInputs(codes, args));
  const size_t scratch =
      is_question
          ? CudaQuestionLookupScratch(view, num_choosing, share->num_coded, share->num_refined)
          : CudaRowLookupScratch(view, static_cast<uint32_t>(num_queries), share->num_coded,
                                 share->num_refined);
  const size_t num_lse = num_heads * num_choosing;
  num_masses_ = 2 * num_lse;
  host_found_.resize(num_heads + share->num_wanted);
  host_masses_.resize(num_masses_);
  LECTERN_RETURN_IF_ERROR(scratch_.Reserve(*stream_, scratch, kLookupUse));
  LECTERN_RETURN_IF_ERROR(found_.Reserve(*stream_, host_found_.size(), kLookupUse));
  LECTERN_RETURN_IF_ERROR(
      masses_.Reserve(*stream_, num_masses_ + all_queries * view.most_groups, kLookupUse));
  CudaCodesLookupArgs lookup;
  lookup.codes = view;
  lookup.queries = {.data = queries_.data(),
                    .dtype = codes.dtype(),
                    .stride = all_queries * dim,
                    .num_tokens = 1,
                    .num_kv_heads = static_cast<uint32_t>(num_heads),
                    .group = static_cast<uint32_t>(num_queries),
                    .head_dim = static_cast<uint32_t>(dim)};
  lookup.scale = args.scale;
  lookup.softcap = args.softcap;
  lookup.known_lse = args.known_lse.empty() ? nullptr : known_.data();
  lookup.num_coded = share->num_coded;
  lookup.num_refined = share->num_refined;
  lookup.num_wanted = share->num_wanted;
  lookup.scratch = scratch_.data();
  lookup.rows = found_.data() + num_heads;
  lookup.counts = found_.data();
  lookup.lse = masses_.data();
  lookup.tail_lse = masses_.data() + num_lse;
  lookup.tail = masses_.data() + num_masses_;
  CudaStream& stream = stream_->stream();
  LECTERN_RETURN_IF_ERROR(stream_->Check(
      is_question
          ? CudaQuestionLookup(stream, {lookup, choosing_.data(), weights_.data(), num_choosing})
          : CudaRowLookup(stream, {lookup, weights_.data()})));
  LECTERN_RETURN_IF_ERROR(found_.Download(*stream_, host_found_.data(), host_found_.size()));
  LECTERN_RETURN_IF_ERROR(masses_.Download(*stream_, host_masses_.data(), host_masses_.size()));
  LECTERN_RETURN_IF_ERROR(stream_->Wait());
  Select(codes, args, *share, selections);
  return true;
}

void DeviceLookup::FindChoosing(const LookupArgs& args, bool is_question) {
  const auto num_queries = static_cast<uint32_t>(args.queries.front().num_rows);
  host_choosing_.clear();
  host_weights_.clear();
  for (uint32_t r = 0; r < num_queries; ++r) {
    const float weight =
        args.row_weights.empty() ? 1 / static_cast<float>(num_queries) : args.row_weights[r];
    if (is_question && !(weight > 0)) continue;
    host_choosing_.push_back(r);
    host_weights_.push_back(weight);
  }
}

Status DeviceLookup::BringInputs(const DeviceCodes& codes, const LookupArgs& args) {
  const size_t num_heads = args.heads.size(), num_queries = args.queries.front().num_rows;
  const size_t dim = args.queries.front().num_cols;
  host_queries_.resize(num_heads * num_queries * dim);
  host_known_.clear();
  for (size_t h = 0; h < num_heads; ++h) {
    backend_.from_float_rows(
        args.queries[h], codes.dtype(),
        reinterpret_cast<std::byte*>(host_queries_.data() + h * num_queries * dim));
    if (args.known_lse.empty()) continue;
    host_known_.insert(host_known_.end(), args.known_lse[h].begin(), args.known_lse[h].end());
  }
  const auto bring = [this](const auto& from, auto& to) -> Status {
    LECTERN_RETURN_IF_ERROR(to.Reserve(*stream_, from.size(), kLookupUse));
    return to.Upload(*stream_, from.data(), from.size());
  };
  LECTERN_RETURN_IF_ERROR(bring(host_queries_, queries_));
  LECTERN_RETURN_IF_ERROR(bring(host_known_, known_));
  LECTERN_RETURN_IF_ERROR(bring(host_choosing_, choosing_));
  return bring(host_weights_, weights_);
}

void DeviceLookup::Select(const DeviceCodes& codes, const LookupArgs& args, const Share& share,
                          std::vector<HeadSelection>& selections) const {
  const size_t num_heads = args.heads.size(), num_choosing = host_choosing_.size();
  auto row = host_found_.begin() + static_cast<ptrdiff_t>(num_heads);
  selections.resize(num_heads);
  for (size_t h = 0; h < num_heads; ++h) {
    const HeadIndex& head = args.heads[h];
    HeadSelection& selection = selections[h];
    selection.Clear(head.levels().size());
    const auto num_clusters = static_cast<uint32_t>(head.levels().back().num_clusters());
    selection.looked_up.back() = {{0, num_clusters}};
    const uint32_t count =
        std::min<uint32_t>(host_found_[h], static_cast<uint32_t>(host_found_.end() - row));
    selection.rows.assign(row, row + count);
    row += count;
    for (uint32_t& at : selection.rows) at += head.num_exact();
    // Codes are read for all heads together; a head is charged in proportion to its rows.
    const uint64_t code_bytes =
        share.num_coded * head.row_code_bytes() + share.num_refined * head.fine_code_bytes();
    selection.bytes = FixedBytesOf(head, args.tail) + head.BlockBytes({0, count}) +
                      code_bytes * NumClustered(head) / codes.view().all_rows;
    const float* const lse = host_masses_.data() + h * num_choosing;
    const float* const tail_lse = lse + num_heads * num_choosing;
    for (size_t i = 0; i < num_choosing; ++i) {
      selection.missed_mass += host_weights_[i] * std::exp(double{tail_lse[i]} - lse[i]);
    }
  }
}

// Downloads the tail's log masses. Groups whose rows are all listed have none left (-infinity for
// every query row) and are dropped; the others become ranges of clusters.
Status DeviceLookup::BringTail(const DeviceCodes& codes, const LookupArgs& args,
                               std::vector<HeadSelection>& selections) {
  const size_t num_heads = args.heads.size(), num_queries = args.queries.front().num_rows;
  const size_t most_groups = codes.view().most_groups;
  host_masses_.resize(num_heads * num_queries * most_groups);
  LECTERN_RETURN_IF_ERROR(
      masses_.Download(*stream_, host_masses_.data(), host_masses_.size(), num_masses_));
  LECTERN_RETURN_IF_ERROR(stream_->Wait());
  for (size_t h = 0; h < num_heads; ++h) {
    const HeadIndex& head = args.heads[h];
    LogitTail& tail = selections[h].logit_tail;
    tail.level = TailLevel(head);
    const float* const of_head = host_masses_.data() + h * num_queries * most_groups;
    std::vector<uint32_t> kept;
    for (uint32_t g = 0; g < head.levels()[tail.level].num_clusters(); ++g) {
      bool is_left = false;
      for (size_t r = 0; r < num_queries; ++r) is_left |= of_head[r * most_groups + g] > -INFINITY;
      if (is_left) kept.push_back(g);
    }
    for (size_t r = 0; r < num_queries; ++r) {
      for (const uint32_t g : kept) tail.logits.push_back(of_head[r * most_groups + g]);
    }
    for (const uint32_t g : kept) {
      if (!tail.clusters.empty() && tail.clusters.back().end == g) {
        ++tail.clusters.back().end;
      } else {
        tail.clusters.push_back({g, g + 1});
      }
    }
  }
  return {};
}

}  // namespace lectern
