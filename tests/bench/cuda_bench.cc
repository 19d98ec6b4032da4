// How fast attention to a document is on a GPU: dense, and what lookups choose of it.
//
//   cuda_bench [--emulated]
//
// One layer of 32 kv heads of one query head each (Llama-2-7B), and of 8 of 4, head_dim 128, f16,
// clusters of 20 keys (5 % of the context), which lie further apart in some heads than in others,
// so that what one threshold chooses is uneven. "sparse" is the whole of a step: lookup, list of
// rows, items, attention, join, as one graph. Of one token by row codes: "row lookup", all row
// codes, the fine codes of four times as many rows as are listed, and the list of half of the share
// that is kept; "row step", it and the attention to these rows and to the tail of all others, that
// is all of a token's attention between projection and output; "evidence", the squared attention
// of the rows besides. Times are of one step: graphs launched often enough for some milliseconds,
// median of seven such runs. --emulated: tiny shapes without a GPU, to see that it works; its times
// mean nothing.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/types.h"
#include "tests/kernels/cuda_emulation/emulation.h"

namespace lectern {
namespace {

constexpr uint32_t kDim = 128, kClusterRows = 20;
constexpr float kScale = 0.08838834764831845f;
struct Shape {
  uint32_t heads, group;
};

void Check(const CudaStatus& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "cuda_bench: %s\n", CudaMessage(status).c_str());
  std::exit(1);
}

template <typename T>
DeviceBuffer<T> Make(CudaStream& stream, size_t size) {
  DeviceBuffer<T> buffer;
  Check(DeviceBuffer<T>::Create(stream, size, buffer));
  return buffer;
}
template <typename T>
DeviceBuffer<T> Put(CudaStream& stream, const std::vector<T>& values) {
  auto buffer = Make<T>(stream, values.size());
  Check(buffer.Upload(stream, values.data(), values.size()));
  Check(stream.Wait());
  return buffer;
}
// Normal numbers, of which a part is drawn and repeated.
DeviceBuffer<f16> Random(CudaStream& stream, size_t size, unsigned seed) {
  std::vector<f16> part(std::min<size_t>(size, 8 << 20));
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  for (f16& x : part) x = ToF16(normal(engine));
  auto buffer = Make<f16>(stream, size);
  for (size_t at = 0; at < size; at += part.size()) {
    Check(buffer.Upload(stream, part.data(), std::min(part.size(), size - at), at));
  }
  Check(stream.Wait());
  return buffer;
}

// Microseconds of a step that `enqueue` enqueues.
template <typename Enqueue>
double Time(CudaStream& stream, bool is_emulated, const Enqueue& enqueue) {
  CudaGraph graph;
  Check(CudaGraph::Begin(stream));
  enqueue();
  Check(CudaGraph::End(stream, graph));
  const auto run = [&](int count) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) Check(graph.Launch(stream));
    Check(stream.Wait());
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    return took.count() / count;
  };
  const double first = run(1), once = is_emulated ? first : run(3);  // warm-up
  if (is_emulated) return once;
  const int count = std::max(1, static_cast<int>(5000 / once));
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) times.push_back(run(count));
  std::nth_element(times.begin(), times.begin() + 3, times.end());
  return times[3];
}

struct Layer {
  Layer(CudaStream& s, const Shape& shape, uint32_t rows)
      : stream(s),
        heads(shape.heads),
        group(shape.group),
        context(rows),
        num_clusters(rows / kClusterRows),
        keys(Random(s, size_t{heads} * rows * kDim, 1)),
        values(Random(s, size_t{heads} * rows * kDim, 2)),
        centroids(Make<f16>(s, size_t{heads} * num_clusters * kDim)),
        counts(Put(s, std::vector<float>(size_t{heads} * num_clusters, kClusterRows))) {
    std::mt19937 engine(3);
    std::normal_distribution<float> normal;
    std::vector<f16> of_head(size_t{num_clusters} * kDim);
    for (uint32_t head = 0; head < heads; ++head) {
      const float spread = 0.5f + static_cast<float>(head % 8) / 4;
      for (f16& x : of_head) x = ToF16(spread * normal(engine));
      Check(centroids.Upload(s, of_head.data(), of_head.size(), head * of_head.size()));
      Check(s.Wait());
    }
    std::vector<uint32_t> begins, row_begins, row_ends;
    std::vector<HeadRows> of_heads;
    for (uint32_t head = 0; head < heads; ++head) {
      begins.push_back(head * num_clusters);
      of_heads.push_back({head * rows, head * rows, head * rows, (head + 1) * rows});
      for (uint32_t i = 0; i < num_clusters; ++i) {
        row_begins.push_back(head * rows + i * kClusterRows);
        row_ends.push_back(row_begins.back() + kClusterRows);
      }
    }
    begins.push_back(heads * num_clusters);
    cluster_begin = Put(s, begins);
    row_begin = Put(s, row_begins);
    row_end = Put(s, row_ends);
    head_rows = Put(s, of_heads);
  }
  CudaStream& stream;
  const uint32_t heads, group;
  uint32_t context, num_clusters;
  DeviceBuffer<f16> keys, values, centroids;
  DeviceBuffer<float> counts;
  DeviceBuffer<uint32_t> cluster_begin, row_begin, row_end;
  DeviceBuffer<HeadRows> head_rows;
};

// A step of so many tokens over the layer.
class Step {
 public:
  Step(const Layer& layer, uint32_t num_tokens)
      : layer_(layer),
        stream_(layer.stream),
        heads_(layer.heads),
        group_(layer.group),
        rows_(num_tokens * group_),
        queries_(Random(stream_, size_t{num_tokens} * heads_ * group_ * kDim, 4)),
        per_item_(AttentionRowsPerItem(uint64_t{heads_} * layer.context, rows_,
                                       stream_.device().num_multiprocessors)) {
    view_ = {queries_.data(), Dtype::kF16, size_t{heads_} * group_ * kDim, num_tokens, heads_,
             group_,          kDim};
    std::vector<AttentionRange> all;
    for (uint32_t head = 0; head < heads_; ++head) {
      all.push_back({head, 0, head * layer.context, (head + 1) * layer.context});
    }
    const AttentionWork work = CutAttention(all, heads_, per_item_);
    max_items_ = static_cast<uint32_t>(work.items.size()) + heads_;
    dense_items_ = Put(stream_, work.items);
    dense_begin_ = Put(stream_, work.item_begin);
    num_dense_ = static_cast<uint32_t>(work.items.size());
    items_ = Make<AttentionItem>(stream_, max_items_);
    item_begin_ = Make<uint32_t>(stream_, heads_ + 1);
    num_items_ = Make<uint32_t>(stream_, 1);
    list_ = Make<uint32_t>(stream_, size_t{heads_} * layer.context);
    row_counts_ = Make<uint32_t>(stream_, heads_);
    out_ = Make<float>(stream_, size_t{max_items_} * rows_ * kDim);
    max_ = Make<float>(stream_, size_t{max_items_} * rows_);
    sum_ = Make<float>(stream_, size_t{max_items_} * rows_);
    result_ = Make<f16>(stream_, queries_.size());
    lookup_.queries = view_;
    lookup_.clusters = {layer.centroids.data(), layer.counts.data(), layer.cluster_begin.data(),
                        heads_ * layer.num_clusters, layer.num_clusters};
    lookup_.scale = kScale;
    scratch_ = Make<float>(stream_, CudaLookupScratch(view_, lookup_.clusters));
    scores_ = Make<float>(stream_, size_t{heads_} * layer.num_clusters);
    selected_ = Make<uint8_t>(stream_, size_t{heads_} * layer.num_clusters);
    lookup_.scratch = scratch_.data();
    lookup_.scores = scores_.data();
  }

  void Dense() { Attend(dense_items_, nullptr, num_dense_, dense_begin_, nullptr); }
  void Lookup() { Check(CudaLookup(stream_, lookup_)); }
  void Sparse() {
    Lookup();
    CudaSelectRowsArgs select = {};
    select.selected = selected_.data();
    select.row_begin = layer_.row_begin.data();
    select.row_end = layer_.row_end.data();
    select.cluster_begin = layer_.cluster_begin.data();
    select.heads = layer_.head_rows.data();
    select.num_kv_heads = heads_;
    select.rows = list_.data();
    select.counts = row_counts_.data();
    Check(CudaSelectRows(stream_, select));
    Check(CudaCutItems(stream_,
                       {layer_.head_rows.data(), row_counts_.data(), nullptr, 0, heads_, per_item_,
                        max_items_, items_.data(), item_begin_.data(), num_items_.data()}));
    Attend(items_, num_items_.data(), max_items_, item_begin_, list_.data());
  }
  // A threshold above which this share of all clusters lies.
  void Keep(double share) {
    lookup_.thresholds = nullptr;
    lookup_.selected = nullptr;
    Lookup();
    std::vector<float> scores(scores_.size());
    Check(scores_.Download(stream_, scores.data(), scores.size()));
    Check(stream_.Wait());
    const auto at = static_cast<size_t>((1 - share) * static_cast<double>(scores.size()));
    std::nth_element(scores.begin(), scores.begin() + static_cast<ptrdiff_t>(at), scores.end());
    thresholds_ = Put(stream_, std::vector<float>(heads_, scores[at]));
    lookup_.thresholds = thresholds_.data();
    lookup_.selected = selected_.data();
  }
  // Share of the rows that the last step read.
  double ReadShare() {
    std::vector<uint32_t> counts(heads_);
    Check(row_counts_.Download(stream_, counts.data(), heads_));
    Check(stream_.Wait());
    return std::accumulate(counts.begin(), counts.end(), 0.0) / (heads_ * layer_.context);
  }

 private:
  void Attend(const DeviceBuffer<AttentionItem>& items, const uint32_t* num_items,
              uint32_t max_items, const DeviceBuffer<uint32_t>& item_begin, const uint32_t* rows) {
    CudaAttendArgs args;
    args.queries = view_;
    args.scale = kScale;
    args.sources[0].keys = layer_.keys.data();
    args.sources[0].values = layer_.values.data();
    args.sources[0].rows = rows;
    args.items = items.data();
    args.num_items = num_items;
    args.max_items = max_items;
    args.states = {out_.data(), max_.data(), sum_.data()};
    Check(CudaAttend(stream_, args));
    CudaJoinArgs join = {};
    join.lists[0] = {args.states, item_begin.data()};
    join.num_lists = 1;
    join.num_tokens = view_.num_tokens;
    join.num_kv_heads = heads_;
    join.group = group_;
    join.head_dim = kDim;
    join.dtype = Dtype::kF16;
    join.output = result_.data();
    Check(CudaJoin(stream_, join));
  }

  const Layer& layer_;
  CudaStream& stream_;
  const uint32_t heads_, group_;
  uint32_t rows_;
  DeviceBuffer<f16> queries_, result_;
  uint32_t per_item_, max_items_ = 0, num_dense_ = 0;
  DeviceQueries view_;
  CudaLookupArgs lookup_ = {};
  DeviceBuffer<AttentionItem> dense_items_, items_;
  DeviceBuffer<uint32_t> dense_begin_, item_begin_, num_items_, list_, row_counts_;
  DeviceBuffer<float> out_, max_, sum_, scratch_, scores_, thresholds_;
  DeviceBuffer<uint8_t> selected_;
};

// A step of one token by row codes.
class RowStep {
 public:
  RowStep(const Layer& layer, double share)
      : layer_(layer),
        stream_(layer.stream),
        groups_((layer.context + kGroupRows - 1) / kGroupRows),
        queries_(Random(stream_, size_t{layer.heads} * layer.group * kDim, 4)),
        means_(Random(stream_, size_t{layer.heads} * groups_ * kDim, 7)) {
    lookup_.codes = Codes();
    lookup_.queries = {queries_.data(), Dtype::kF16, queries_.size(), 1, layer.heads,
                       layer.group,     kDim};
    lookup_.scale = kScale;
    const auto all_rows = static_cast<double>(lookup_.codes.all_rows);
    lookup_.num_wanted = static_cast<uint32_t>(share / 2 * all_rows);
    lookup_.num_refined = 4 * lookup_.num_wanted;
    rows_ = Make<uint32_t>(stream_, lookup_.num_wanted);
    counts_ = Make<uint32_t>(stream_, layer.heads);
    const size_t queries = size_t{layer.heads} * layer.group;
    scratch_ = Make<float>(stream_, CudaRowLookupScratch(lookup_.codes, layer.group));
    masses_ = Make<float>(stream_, queries * (3 + groups_));
    lookup_.first_row = places_.data();  // heads are as far apart here as there
    lookup_.scratch = scratch_.data();
    lookup_.rows = rows_.data();
    lookup_.counts = counts_.data();
    lookup_.lse = masses_.data();
    lookup_.tail_lse = masses_.data() + queries;
    lookup_.tail = masses_.data() + 3 * queries;
    PrepareAttention();
    PrepareEvidence();
  }
  void Lookup() { Check(CudaRowLookup(stream_, lookup_)); }
  void Attend() {
    Check(CudaCutItems(stream_, cut_));
    Check(CudaAttend(stream_, attend_));
    Check(CudaJoin(stream_, join_));
  }
  void Evidence() { Check(CudaKeySquares(stream_, squares_args_)); }

 private:
  static constexpr uint32_t kGroupRows = 320;

  DeviceBuffer<uint8_t> Bytes(size_t size) {
    std::mt19937 engine(6);
    std::vector<uint8_t> bytes(size);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(engine());
    return Put(stream_, bytes);
  }
  DeviceRowCodes Codes() {
    const uint32_t heads = layer_.heads, context = layer_.context;
    const size_t all_rows = size_t{heads} * context;
    std::mt19937 engine(5);
    std::uniform_real_distribution<float> uniform(0.01f, 0.1f);
    std::vector<float> factors(all_rows);
    for (float& factor : factors) factor = uniform(engine);
    std::vector<uint32_t> clusters, places;
    for (uint32_t i = 0; i < all_rows; ++i) {
      clusters.push_back(std::min(i % context / kClusterRows, layer_.num_clusters - 1));
    }
    for (uint32_t h = 0; h < heads; ++h) places.push_back(h * context);
    places.insert(places.end(), heads, context);
    for (uint32_t h = 0; h < heads; ++h) {
      for (uint32_t g = 0; g <= groups_; ++g) places.push_back(std::min(g * kGroupRows, context));
    }
    planes_ = Bytes(all_rows * kDim / 8);
    fine_planes_ = Bytes(all_rows * kDim / 8 * 3);
    factors_ = Put(stream_, factors);
    clusters_ = Put(stream_, clusters);
    places_ = Put(stream_, places);
    rotation_ = Put(stream_, std::vector<uint32_t>(2 * kDim / 32, 0x5A3C96E1));
    return {.planes = planes_.data(),
            .factors = factors_.data(),
            .fine_planes = fine_planes_.data(),
            .fine_factors = factors_.data(),
            .clusters = clusters_.data(),
            .row_begin = places_.data(),
            .num_rows = places_.data() + heads,
            .group_begin = places_.data() + 2 * heads,
            .centroids = layer_.centroids.data(),
            .cluster_begin = layer_.cluster_begin.data(),
            .rotation = rotation_.data(),
            .num_kv_heads = heads,
            .most_rows = context,
            .most_groups = groups_,
            .most_clusters = layer_.num_clusters,
            .all_rows = all_rows,
            .plane_bytes = kDim / 8};
  }
  // Over what was listed, and the tail.
  void PrepareAttention() {
    const uint32_t heads = layer_.heads, group = layer_.group;
    const uint64_t entries = lookup_.num_wanted + uint64_t{heads} * groups_;
    const uint32_t per_item =
        AttentionRowsPerItem(entries, group, stream_.device().num_multiprocessors);
    const auto max_items =
        static_cast<uint32_t>(MostAttentionItems(entries, uint64_t{2} * heads, per_item));
    std::vector<ExtraRange> tails;
    for (uint32_t h = 0; h < heads; ++h) tails.push_back({1, h * groups_, (h + 1) * groups_});
    tails_ = Put(stream_, tails);
    items_ = Make<AttentionItem>(stream_, max_items);
    item_begin_ = Make<uint32_t>(stream_, heads + 2);
    out_ = Make<float>(stream_, size_t{max_items} * group * kDim);
    states_ = Make<float>(stream_, size_t{2} * max_items * group);
    result_ = Make<f16>(stream_, queries_.size());
    cut_ = {.heads = nullptr,
            .counts = counts_.data(),
            .extra = tails_.data(),
            .num_extra = 1,
            .num_kv_heads = heads,
            .rows_per_item = per_item,
            .max_items = max_items,
            .items = items_.data(),
            .item_begin = item_begin_.data(),
            .num_items = item_begin_.data() + heads + 1};
    attend_.queries = lookup_.queries;
    attend_.scale = kScale;
    attend_.num_sources = 2;
    attend_.sources[0].keys = layer_.keys.data();
    attend_.sources[0].values = layer_.values.data();
    attend_.sources[0].rows = rows_.data();
    attend_.sources[1].values = means_.data();
    attend_.sources[1].logits = lookup_.tail;
    attend_.sources[1].logits_stride = groups_;
    attend_.items = items_.data();
    attend_.num_items = cut_.num_items;
    attend_.max_items = max_items;
    attend_.states = {out_.data(), states_.data(), states_.data() + size_t{max_items} * group};
    join_.lists[0] = {attend_.states, item_begin_.data()};
    join_.num_lists = 1;
    join_.num_tokens = 1;
    join_.num_kv_heads = heads;
    join_.group = group;
    join_.head_dim = kDim;
    join_.dtype = Dtype::kF16;
    join_.output = result_.data();
    join_.lse = masses_.data() + size_t{2} * heads * group;
  }
  void PrepareEvidence() {
    std::vector<uint32_t> positions;
    for (uint32_t i = 0; i < layer_.heads * layer_.context; ++i) {
      positions.push_back(i % layer_.context);
    }
    positions_ = Put(stream_, positions);
    squares_ = Put(stream_, std::vector<uint64_t>(layer_.context));
    squares_args_ = {.queries = lookup_.queries,
                     .scale = kScale,
                     .source = attend_.sources[0],
                     .counts = counts_.data(),
                     .most_entries = std::min(layer_.context, lookup_.num_wanted),
                     .lse = join_.lse,
                     .positions = positions_.data(),
                     .squares = squares_.data(),
                     .least = 1e-6f};
  }

  const Layer& layer_;
  CudaStream& stream_;
  const uint32_t groups_;
  DeviceBuffer<f16> queries_, means_, result_;
  DeviceBuffer<uint8_t> planes_, fine_planes_;
  DeviceBuffer<float> factors_, scratch_, masses_, out_, states_;  // LSEs, of tails, of all; tails
  DeviceBuffer<uint32_t> rotation_, clusters_, places_, rows_, counts_, item_begin_, positions_;
  DeviceBuffer<ExtraRange> tails_;
  DeviceBuffer<AttentionItem> items_;
  DeviceBuffer<uint64_t> squares_;
  CudaRowLookupArgs lookup_ = {};
  CudaCutItemsArgs cut_ = {};
  CudaAttendArgs attend_ = {};
  CudaJoinArgs join_ = {};
  CudaKeySquaresArgs squares_args_ = {};
};

// Kernels that a row step launches with its evidence, whatever the shape: as the emulation counts.
uint64_t CountRowLaunches() {
  const CudaKernels& kernels = *lectern_cuda_kernels();
  CudaStream stream;
  Check(CudaStream::Create(kernels, 0, stream));
  const Layer layer(stream, {2, 1}, 640);
  RowStep step(layer, 0.1);
  const uint64_t before = cuda_emulation::NumLaunches();
  step.Lookup();
  step.Attend();
  step.Evidence();
  Check(stream.Wait());
  return cuda_emulation::NumLaunches() - before;
}

int Run(bool is_emulated) {
  std::string why;
  const CudaKernels* const kernels = is_emulated ? lectern_cuda_kernels() : LoadCudaKernels(&why);
  if (kernels == nullptr) {
    std::fprintf(stderr, "cuda_bench: %s\n", why.c_str());
    return 1;
  }
  std::vector<CudaDeviceInfo> devices;
  Check(ListCudaDevices(*kernels, devices));
  CudaStream stream;
  Check(CudaStream::Create(*kernels, devices[0].index, stream));
  using Sizes = std::vector<uint32_t>;
  for (const Shape& shape : {Shape{32, 1}, Shape{8, 4}}) {
    std::printf(
        "%s, one layer, %u kv heads of %u query heads, head_dim %u, f16, clusters of %u\n\n",
        devices[0].name, shape.heads, shape.group, kDim, kClusterRows);
    std::printf(
        "| context | tokens | kept | dense us | lookup us | sparse us | times | read | "
        "row lookup us | row step us | times | evidence us |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (const uint32_t context : is_emulated ? Sizes{640} : Sizes{32768, 131072, 524288}) {
      const Layer layer(stream, shape, context);
      for (const uint32_t tokens : is_emulated ? Sizes{1, 20} : Sizes{1, 1024, 4096}) {
        Step step(layer, tokens);
        const double dense = Time(stream, is_emulated, [&] { step.Dense(); });
        for (const double keep : {0.3, 0.1}) {
          step.Keep(keep);
          const double lookup = Time(stream, is_emulated, [&] { step.Lookup(); });
          const double sparse = Time(stream, is_emulated, [&] { step.Sparse(); });
          std::printf("| %u | %u | %.0f %% | %.1f | %.1f | %.1f | %.2f | %.3f | ", context, tokens,
                      100 * keep, dense, lookup, sparse, dense / sparse, step.ReadShare());
          if (tokens == 1) {
            RowStep rows(layer, keep);
            const double row_lookup = Time(stream, is_emulated, [&] { rows.Lookup(); });
            const double row_step = Time(stream, is_emulated, [&] {
              rows.Lookup();
              rows.Attend();
            });
            std::printf("%.1f | %.1f | %.2f | %.1f |\n", row_lookup, row_step, dense / row_step,
                        Time(stream, is_emulated, [&] { rows.Evidence(); }));
          } else {
            std::printf("– | – | – | – |\n");
          }
          std::fflush(stdout);
        }
      }
    }
    std::printf("\n");
  }
  std::printf("A row step with its evidence is %llu kernels.\n",
              static_cast<unsigned long long>(CountRowLaunches()));
  return 0;
}

}  // namespace
}  // namespace lectern

int main(int argc, char** argv) {
  return lectern::Run(argc > 1 && std::strcmp(argv[1], "--emulated") == 0);
}
