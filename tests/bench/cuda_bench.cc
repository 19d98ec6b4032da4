// How fast attention to a document is on a GPU: dense, and what lookups choose of it.
//
//   cuda_bench [--emulated]
//
// One layer of 32 kv heads of one query head each (Llama-2-7B), and of 8 of 4, head_dim 128, f16,
// clusters of 20 keys (5 % of the context), which lie further apart in some heads than in others,
// so that what one threshold chooses is uneven. "sparse" is the whole of a step: lookup, list of
// rows, items, attention, join, as one graph. "row lookup", of one token: all row codes, the fine
// codes of four times as many rows as are listed, and the list of half of the share that is kept.
// Times are of one step: graphs launched often enough for some milliseconds, median of seven such
// runs. --emulated: tiny shapes without a GPU, to see that it works; its times mean nothing.
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

// The lookup of one token by row codes.
class RowStep {
 public:
  RowStep(const Layer& layer, double share)
      : stream_(layer.stream),
        planes_(Bytes(size_t{layer.heads} * layer.context * kDim / 8)),
        fine_planes_(Bytes(size_t{layer.heads} * layer.context * kDim / 8 * 3)),
        queries_(Random(stream_, size_t{layer.heads} * layer.group * kDim, 4)),
        rotation_(Put(stream_, std::vector<uint32_t>(2 * kDim / 32, 0x5A3C96E1))),
        factors_(Put(stream_, std::vector<float>(size_t{layer.heads} * layer.context, 0.01f))) {
    const uint32_t heads = layer.heads, context = layer.context, group = layer.group;
    constexpr uint32_t kGroupRows = 320;
    const uint32_t groups = (context + kGroupRows - 1) / kGroupRows;
    std::vector<uint32_t> clusters, places;
    for (uint32_t i = 0; i < heads * context; ++i) {
      clusters.push_back(std::min(i % context / kClusterRows, layer.num_clusters - 1));
    }
    for (uint32_t h = 0; h < heads; ++h) places.push_back(h * context);
    places.insert(places.end(), heads, context);
    for (uint32_t h = 0; h < heads; ++h) {
      for (uint32_t g = 0; g <= groups; ++g) places.push_back(std::min(g * kGroupRows, context));
    }
    clusters_ = Put(stream_, clusters);
    places_ = Put(stream_, places);
    args_.codes = {.planes = planes_.data(),
                   .factors = factors_.data(),
                   .fine_planes = fine_planes_.data(),
                   .fine_factors = factors_.data(),
                   .clusters = clusters_.data(),
                   .row_begin = places_.data(),
                   .num_rows = places_.data() + heads,
                   .group_begin = places_.data() + 2 * heads,
                   .centroids = layer.centroids.data(),
                   .cluster_begin = layer.cluster_begin.data(),
                   .rotation = rotation_.data(),
                   .num_kv_heads = heads,
                   .most_rows = context,
                   .most_groups = groups,
                   .most_clusters = layer.num_clusters,
                   .all_rows = uint64_t{heads} * context,
                   .plane_bytes = kDim / 8};
    args_.queries = {queries_.data(), Dtype::kF16, size_t{heads} * group * kDim, 1, heads,
                     group,           kDim};
    args_.scale = kScale;
    args_.num_wanted = static_cast<uint32_t>(share / 2 * static_cast<double>(args_.codes.all_rows));
    args_.num_refined = 4 * args_.num_wanted;
    scratch_ = Make<float>(stream_, CudaRowLookupScratch(args_.codes, group));
    rows_ = Make<uint32_t>(stream_, args_.num_wanted);
    counts_ = Make<uint32_t>(stream_, heads);
    lse_ = Make<float>(stream_, size_t{heads} * group);
    tail_ = Make<float>(stream_, size_t{heads} * group * groups);
    tail_lse_ = Make<float>(stream_, size_t{heads} * group);
    args_.scratch = scratch_.data();
    args_.rows = rows_.data();
    args_.counts = counts_.data();
    args_.lse = lse_.data();
    args_.tail = tail_.data();
    args_.tail_lse = tail_lse_.data();
  }
  void Lookup() { Check(CudaRowLookup(stream_, args_)); }

 private:
  DeviceBuffer<uint8_t> Bytes(size_t size) {
    std::mt19937 engine(6);
    std::vector<uint8_t> bytes(size);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(engine()) & 63;
    return Put(stream_, bytes);
  }
  CudaStream& stream_;
  DeviceBuffer<uint8_t> planes_, fine_planes_;
  DeviceBuffer<f16> queries_;
  DeviceBuffer<uint32_t> rotation_;
  DeviceBuffer<float> factors_, scratch_, lse_, tail_, tail_lse_;
  DeviceBuffer<uint32_t> clusters_, places_, rows_, counts_;
  CudaRowLookupArgs args_ = {};
};

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
        "row lookup us |\n|---|---|---|---|---|---|---|---|---|\n");
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
            std::printf("%.1f |\n", Time(stream, is_emulated, [&] { rows.Lookup(); }));
          } else {
            std::printf("– |\n");
          }
          std::fflush(stdout);
        }
      }
    }
    std::printf("\n");
  }
  return 0;
}

}  // namespace
}  // namespace lectern

int main(int argc, char** argv) {
  return lectern::Run(argc > 1 && std::strcmp(argv[1], "--emulated") == 0);
}
