// How fast attention to a document is on a GPU: dense, and what lookups choose of it.
//
//   cuda_bench [--emulated]
//
// One layer of 32 kv heads of one query head each (Llama-2-7B), and of 8 of 4, head_dim 128, f16,
// clusters of 20 keys in the mean (5 % of the context) and uneven, which lie further apart in some
// heads than in others, so that what is chosen is uneven too. "step" is all of attention between
// projection and output: lookup, items, attention to the rows that are listed and to the tail of
// all others, join, as one graph. A token's lookup is by all its query rows (row_lookup.h), a
// question's by those of them that choose (question_lookup.h). A budget is a share of the bytes of
// keys and values, spent as asking spends it (engine/gpu/lookup.h): what it lists is less. The
// third choice is as in arXiv:2411.09688: a tenth of all keys is listed, whatever finding them
// reads. "evidence" is the squared attention of the rows that the last token listed, besides. "of
// copies" is how fast the bytes of a token's step are read that must be, as a share of what a copy
// on the device reads and writes: of dense attention all keys and values; of a lookup all
// centroids, the codes of the rows that get so far, rows that are listed, and of all others the
// means.
//
// Times are of one step that finds nothing of the document in the device's caches: before each
// there is a product with 256 MiB of weights, as in a model, and the time of such products alone is
// taken off. Graphs are launched often enough for some milliseconds, with the step and without it
// in turns; median of seven. First each step is compared, with all rows listed, to dense attention.
// --emulated: tiny shapes without a GPU, to see that it works; its times mean nothing.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "index/row_limits.h"
#include "kernels/cuda/attention/key_squares.h"
#include "kernels/cuda/lookup/question_lookup.h"
#include "kernels/cuda/lookup/row_lookup.h"
#include "kernels/cuda/rows/matmul.h"
#include "kernels/cuda/runtime/device.h"
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
// Numbers of which a part is drawn and repeated: rows differ, as they do not begin where it does.
template <typename T, typename Draw>
DeviceBuffer<T> Drawn(CudaStream& stream, size_t size, const Draw& draw) {
  constexpr size_t kMostDrawn = (1 << 22) - 3;
  std::vector<T> part(std::min(size, kMostDrawn));
  for (T& x : part) x = draw();
  auto buffer = Make<T>(stream, size);
  for (size_t at = 0; at < size; at += part.size()) {
    Check(buffer.Upload(stream, part.data(), std::min(part.size(), size - at), at));
  }
  Check(stream.Wait());
  return buffer;
}
DeviceBuffer<f16> Random(CudaStream& stream, size_t size, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  return Drawn<f16>(stream, size, [&] { return ToF16(normal(engine)); });
}
DeviceBuffer<uint8_t> RandomBytes(CudaStream& stream, size_t size) {
  std::mt19937 engine(6);
  return Drawn<uint8_t>(stream, size, [&] { return static_cast<uint8_t>(engine()); });
}

template <typename Enqueue>
CudaGraph Record(CudaStream& stream, const Enqueue& enqueue) {
  enqueue();  // what kernels are loaded for the first time is not captured
  Check(stream.Wait());
  CudaGraph graph;
  Check(CudaGraph::Begin(stream));
  enqueue();
  Check(CudaGraph::End(stream, graph));
  return graph;
}
// Microseconds of a launch.
double Launch(CudaStream& stream, const CudaGraph& graph, int count) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) Check(graph.Launch(stream));
  Check(stream.Wait());
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  return took.count() / count;
}
template <typename Run>
double MedianOfSeven(const Run& run) {
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) times.push_back(run());
  std::nth_element(times.begin(), times.begin() + 3, times.end());
  return times[3];
}

// How long steps take, on a device whose caches hold something else.
class Timer {
 public:
  Timer(CudaStream& stream, bool is_emulated)
      : stream_(stream),
        is_emulated_(is_emulated),
        cols_(is_emulated ? 32 : 4096),
        rows_(8 * cols_),
        weights_(Random(stream, rows_ * cols_, 8)),
        input_(Random(stream, cols_, 9)),
        output_(Make<float>(stream, rows_)),
        other_(Record(stream, [this] { Multiply(); })) {}

  // Microseconds that the step takes which `enqueue` enqueues.
  template <typename Enqueue>
  double Time(const Enqueue& enqueue) {
    const CudaGraph both = Record(stream_, [&] {
      Multiply();
      enqueue();
    });
    const auto step = [&](int count) {
      const double with = Launch(stream_, both, count);
      return with - Launch(stream_, other_, count);
    };
    if (is_emulated_) return step(1);
    step(3);  // warm-up
    const int count = std::max(1, static_cast<int>(5000 / Launch(stream_, both, 3)));
    return MedianOfSeven([&] { return step(count); });
  }
  // GB/s that a copy on the device reads and writes.
  double CopySpeed() {
    const size_t bytes = is_emulated_ ? size_t{1} << 16 : size_t{1} << 30;
    const auto from = Make<std::byte>(stream_, bytes), to = Make<std::byte>(stream_, bytes);
    const CudaGraph copy = Record(stream_, [&] {
      Check(stream_.kernels().copy_on_device(stream_.handle(), to.data(), from.data(), bytes));
    });
    const double us = MedianOfSeven([&] { return Launch(stream_, copy, is_emulated_ ? 1 : 5); });
    return 2e-3 * static_cast<double>(bytes) / us;
  }

 private:
  void Multiply() {
    Check(CudaMatMul(stream_, {.input = {input_.data(), Dtype::kF16, 1, cols_, cols_},
                               .weight = {weights_.data(), Dtype::kF16, rows_, cols_, cols_},
                               .output = {output_.data(), Dtype::kF32, 1, rows_, rows_},
                               .accumulate = false}));
  }

  CudaStream& stream_;
  const bool is_emulated_;
  const size_t cols_, rows_;
  DeviceBuffer<f16> weights_, input_;
  DeviceBuffer<float> output_;
  CudaGraph other_;
};

struct Layer {
  static constexpr uint32_t kGroupClusters = 16;

  Layer(CudaStream& s, const Shape& shape, uint32_t rows)
      : stream(s),
        heads(shape.heads),
        group(shape.group),
        context(rows),
        num_clusters((rows + kClusterRows - 1) / kClusterRows),
        num_groups((num_clusters + kGroupClusters - 1) / kGroupClusters),
        keys(Random(s, all_rows() * kDim, 1)),
        values(Random(s, all_rows() * kDim, 2)),
        means(Random(s, size_t{heads} * num_groups * kDim, 7)),
        centroids(Make<f16>(s, size_t{heads} * num_clusters * kDim)),
        planes(RandomBytes(s, all_rows() * kDim / 8)),
        fine_planes(RandomBytes(s, all_rows() * kDim / 8 * 3)),
        deviations(Put(s, std::vector<float>(size_t{heads} * num_clusters, 0.5f))),
        rotation(Put(s, std::vector<uint32_t>(2 * kDim / 32, 0x5A3C96E1))) {
    std::mt19937 engine(5);
    std::uniform_real_distribution<float> uniform(0.01f, 0.1f);
    factors = Drawn<float>(s, all_rows(), [&] { return uniform(engine); });
    PutCentroids();
    std::vector<uint32_t> of_rows(all_rows());
    for (size_t i = 0; i < of_rows.size(); ++i) {
      of_rows[i] = static_cast<uint32_t>(i % context);
    }
    positions = Put(s, of_rows);
    PutPlaces();
  }
  size_t all_rows() const { return size_t{heads} * context; }
  DeviceRowCodes Codes() const {
    return {.planes = planes.data(),
            .factors = factors.data(),
            .fine_planes = fine_planes.data(),
            .fine_factors = factors.data(),
            .clusters = clusters.data(),
            .row_begin = row_begin.data(),
            .num_rows = num_rows.data(),
            .group_begin = group_begin.data(),
            .group_clusters = group_clusters.data(),
            .centroids = centroids.data(),
            .cluster_begin = cluster_begin.data(),
            .cluster_end = cluster_end.data(),
            .deviations = deviations.data(),
            .rotation = rotation.data(),
            .num_kv_heads = heads,
            .most_rows = context,
            .most_groups = num_groups,
            .most_clusters = num_clusters,
            .all_rows = all_rows(),
            .plane_bytes = kDim / 8};
  }

  CudaStream& stream;
  const uint32_t heads, group, context, num_clusters, num_groups;
  DeviceBuffer<f16> keys, values, means, centroids;
  DeviceBuffer<uint8_t> planes, fine_planes;
  DeviceBuffer<float> deviations, factors;
  DeviceBuffer<uint32_t> rotation, positions, clusters;
  DeviceBuffer<uint32_t> row_begin, num_rows, group_begin, cluster_begin, cluster_end,
      group_clusters;
  DeviceBuffer<ExtraRange> tails;

 private:
  // The same directions in all heads.
  void PutCentroids() {
    std::mt19937 engine(3);
    std::normal_distribution<float> normal;
    std::vector<float> directions(size_t{num_clusters} * kDim);
    for (float& x : directions) x = normal(engine);
    std::vector<f16> of_head(directions.size());
    for (uint32_t head = 0; head < heads; ++head) {
      const float spread = 0.5f + static_cast<float>(head % 8) / 4;
      std::transform(directions.begin(), directions.end(), of_head.begin(),
                     [&](float x) { return ToF16(spread * x); });
      Check(centroids.Upload(stream, of_head.data(), of_head.size(), head * of_head.size()));
      Check(stream.Wait());
    }
  }
  // Clusters end anywhere, in each head elsewhere: their sizes are those of random cuts.
  void PutPlaces() {
    std::mt19937 engine(10);
    std::vector<uint32_t> all_cuts(context - 1), cuts(num_clusters - 1);
    std::iota(all_cuts.begin(), all_cuts.end(), 1);
    std::vector<uint32_t> rows, of_clusters, ends, of_rows, group_rows, of_groups;
    std::vector<ExtraRange> ranges;
    for (uint32_t head = 0; head < heads; ++head) {
      rows.push_back(head * context);
      of_clusters.push_back(head * num_clusters);
      std::sample(all_cuts.begin(), all_cuts.end(), cuts.begin(), cuts.size(), engine);
      group_rows.push_back(0);
      of_groups.push_back(0);
      for (uint32_t i = 1; i <= num_clusters; ++i) {
        const uint32_t begin = i > 1 ? cuts[i - 2] : 0;
        ends.push_back(i < num_clusters ? cuts[i - 1] : context);
        of_rows.insert(of_rows.end(), ends.back() - begin, i - 1);
        if (i % kGroupClusters > 0 && i < num_clusters) continue;
        group_rows.push_back(ends.back());
        of_groups.push_back(i);
      }
      ranges.push_back({1, head * num_groups, (head + 1) * num_groups});
    }
    of_clusters.push_back(heads * num_clusters);
    row_begin = Put(stream, rows);
    num_rows = Put(stream, std::vector<uint32_t>(heads, context));
    group_begin = Put(stream, group_rows);
    cluster_begin = Put(stream, of_clusters);
    cluster_end = Put(stream, ends);
    clusters = Put(stream, of_rows);
    group_clusters = Put(stream, of_groups);
    tails = Put(stream, ranges);
  }
};

// States of attention to some items.
struct Parts {
  Parts() = default;
  Parts(CudaStream& stream, size_t num_items, size_t num_rows)
      : items(Make<AttentionItem>(stream, num_items)),
        out(Make<float>(stream, num_items * num_rows * kDim)),
        max(Make<float>(stream, num_items * num_rows)),
        sum(Make<float>(stream, num_items * num_rows)) {}
  DeviceBuffer<AttentionItem> items;
  DeviceBuffer<float> out, max, sum;
};

// How many rows a step reads: those that a budget buys, or a share of the keys.
struct Choice {
  double budget, keys;  // one of them 0
};
RowLimits RowsOf(const Choice& choice, const Layer& layer, uint32_t num_query_rows,
                 bool is_question) {
  const auto rows = static_cast<double>(layer.all_rows());
  if (choice.keys > 0) {
    const double read = choice.keys * rows;
    return {is_question ? rows : std::min(rows, 4 * read), std::min(rows, 2 * read), read};
  }
  // Bytes in a store: of a row of f16, of its codes, and of a centroid with two numbers.
  const double row = 4 * kDim, fine = kDim / 4 + 1, code = kDim / 8 + 1, centroid = 2 * kDim + 8;
  const double clusters = rows / kClusterRows, groups = clusters / Layer::kGroupClusters;
  const double left = choice.budget * row * rows - clusters * centroid - groups * 2 * kDim;
  // As DeviceLookup of engine/gpu/lookup.h.
  if (!is_question || left - rows * code < choice.budget * row * rows / 4) {
    RowLimits limits = LimitsOf(choice.budget, rows, layer.heads, num_query_rows);
    limits.coded = std::min(limits.coded, rows);
    return RowsOfBytes(left, {code, fine, row}, limits);
  }
  const double read = std::min((left - rows * code) / (row + 4 * fine), rows);
  return {rows, std::min(4 * read, rows), read};
}

// A step of so many tokens over the layer: dense, and as Choose says.
class Step {
 public:
  Step(const Layer& layer, uint32_t num_tokens)
      : layer_(layer),
        stream_(layer.stream),
        num_rows_(num_tokens * layer.group),
        queries_(Random(stream_, size_t{num_rows_} * layer.heads * kDim, 4)),
        view_{.data = queries_.data(),
              .dtype = Dtype::kF16,
              .stride = size_t{layer.heads} * layer.group * kDim,
              .num_tokens = num_tokens,
              .num_kv_heads = layer.heads,
              .group = layer.group,
              .head_dim = kDim},
        result_(Make<f16>(stream_, queries_.size())),
        lse_(Make<float>(stream_, size_t{layer.heads} * num_rows_)) {
    std::vector<AttentionRange> all;
    for (uint32_t head = 0; head < layer.heads; ++head) {
      all.push_back({head, 0, head * layer.context, (head + 1) * layer.context});
    }
    const AttentionWork work =
        CutAttention(all, layer.heads, RowsPerItem(layer.all_rows(), all.size()));
    dense_ = Parts(stream_, work.items.size(), num_rows_);
    dense_.items = Put(stream_, work.items);
    dense_begin_ = Put(stream_, work.item_begin);
  }

  void Dense() { AttendAndJoin(dense_, dense_begin_.data(), {}, nullptr); }

  // For one token by all its rows, else by num_chosen.
  void Choose(const Choice& choice, uint32_t num_chosen) {
    const uint32_t heads = layer_.heads;
    num_chosen_ = num_chosen;
    const RowLimits rows = RowsOf(choice, layer_, num_rows_, is_question());
    num_coded_ = static_cast<uint32_t>(rows.coded);
    num_refined_ = static_cast<uint32_t>(rows.refined);
    num_wanted_ = static_cast<uint32_t>(rows.read);
    const DeviceRowCodes codes = layer_.Codes();
    scratch_ = {};  // given back first
    scratch_ = Make<float>(
        stream_, is_question()
                     ? CudaQuestionLookupScratch(codes, num_chosen, num_coded_, num_refined_)
                     : CudaRowLookupScratch(codes, num_rows_, num_coded_, num_refined_));
    std::vector<uint32_t> chosen;
    for (uint32_t i = 0; i < num_chosen; ++i) chosen.push_back(i * num_rows_ / num_chosen);
    chosen_ = Put(stream_, chosen);
    weights_ = Put(stream_, std::vector<float>(num_chosen, 1 / static_cast<float>(num_chosen)));
    listed_ = Make<uint32_t>(stream_, num_wanted_);
    counts_ = Make<uint32_t>(stream_, heads);
    lookup_lse_ = Make<float>(stream_, size_t{2} * heads * num_rows_);
    tail_ = Make<float>(stream_, size_t{heads} * num_rows_ * layer_.num_groups);
    squares_ = Put(stream_, std::vector<uint64_t>(layer_.context));
    const uint64_t entries = num_wanted_ + uint64_t{heads} * layer_.num_groups;
    per_item_ = RowsPerItem(entries, uint64_t{2} * heads);
    chosen_parts_ = {};
    chosen_parts_ =
        Parts(stream_, MostAttentionItems(entries, uint64_t{2} * heads, per_item_), num_rows_);
    chosen_begin_ = Make<uint32_t>(stream_, heads + 2);
  }
  void Lookup() {
    float* const tail_lse = lookup_lse_.data() + size_t{layer_.heads} * num_rows_;
    // Heads are as far apart among the keys as among the codes.
    const CudaCodesLookupArgs args = {.codes = layer_.Codes(),
                                      .queries = view_,
                                      .scale = kScale,
                                      .num_coded = num_coded_,
                                      .num_refined = num_refined_,
                                      .num_wanted = num_wanted_,
                                      .scratch = scratch_.data(),
                                      .first_row = layer_.row_begin.data(),
                                      .rows = listed_.data(),
                                      .counts = counts_.data(),
                                      .lse = lookup_lse_.data(),
                                      .tail = tail_.data(),
                                      .tail_lse = tail_lse,
                                      .cut = Cut()};
    Check(is_question()
              ? CudaQuestionLookup(stream_, {args, chosen_.data(), weights_.data(), num_chosen_})
              : CudaRowLookup(stream_, {args, nullptr}));
  }
  // To what was listed, and the tail.
  void Attend() {
    DeviceKv tail;
    tail.values = layer_.means.data();
    tail.logits = tail_.data();
    tail.logits_stride = layer_.num_groups;
    AttendAndJoin(chosen_parts_, chosen_begin_.data(), tail, Cut().num_items);
  }
  // That must be read of one layer: rows of f16; codes and their factors, of fine codes the cluster
  // too; centroids with two numbers.
  double dense_bytes() const { return 4.0 * kDim * static_cast<double>(layer_.all_rows()); }
  double bytes() const {
    const double clusters = double{1} * layer_.heads * layer_.num_clusters;
    const double groups = double{1} * layer_.heads * layer_.num_groups;
    return clusters * (2 * kDim + 8) + num_coded_ * (kDim / 8 + 4.0) +
           num_refined_ * (3 * kDim / 8 + 8.0) + num_wanted_ * 4.0 * kDim + groups * 2 * kDim;
  }
  double listed_share() const {
    return static_cast<double>(num_wanted_) / static_cast<double>(layer_.all_rows());
  }
  // Enqueues the sums of squared attention of the last token.
  void Evidence() {
    CudaKeySquaresArgs args = {.queries = view_,
                               .scale = kScale,
                               .source = Rows(),
                               .counts = counts_.data(),
                               .most_entries = std::min(layer_.context, num_wanted_),
                               .lse = lse_.data() + num_rows_ - layer_.group,
                               .lse_stride = num_rows_,
                               .positions = layer_.positions.data(),
                               .squares = squares_.data(),
                               .least = 1e-6f};
    args.source.rows = listed_.data();
    args.queries.data = queries_.data() + (view_.num_tokens - 1) * view_.stride;
    args.queries.num_tokens = 1;
    Check(CudaKeySquares(stream_, args));
  }
  std::vector<f16> Result() {
    std::vector<f16> result(result_.size());
    Check(result_.Download(stream_, result.data(), result.size()));
    Check(stream_.Wait());
    return result;
  }

 private:
  bool is_question() const { return view_.num_tokens > 1; }
  // Cuts the listed rows and the tail into items for attention.
  CudaCutItemsArgs Cut() const {
    return {.list_begin = nullptr,
            .counts = counts_.data(),
            .extra = layer_.tails.data(),
            .num_extra = 1,
            .num_kv_heads = layer_.heads,
            .rows_per_item = per_item_,
            .max_items = static_cast<uint32_t>(chosen_parts_.items.size()),
            .items = chosen_parts_.items.data(),
            .item_begin = chosen_begin_.data(),
            .num_items = chosen_begin_.data() + layer_.heads + 1};
  }
  uint32_t RowsPerItem(uint64_t num_entries, uint64_t num_ranges) const {
    return AttentionRowsPerItem(num_entries, num_ranges, num_rows_,
                                stream_.device().num_multiprocessors);
  }
  DeviceKv Rows() const {
    DeviceKv rows;
    rows.keys = layer_.keys.data();
    rows.values = layer_.values.data();
    return rows;
  }
  // num_items, of the device: to what was listed and the tail; nullptr: to all rows.
  void AttendAndJoin(const Parts& parts, const uint32_t* item_begin, const DeviceKv& tail,
                     const uint32_t* num_items) {
    CudaAttendArgs args;
    args.queries = view_;
    args.scale = kScale;
    args.sources[0] = Rows();
    if (num_items != nullptr) {
      args.sources[0].rows = listed_.data();
      args.sources[1] = tail;
      args.num_sources = 2;
    }
    args.items = parts.items.data();
    args.num_items = num_items;
    args.max_items = static_cast<uint32_t>(parts.items.size());
    args.states = {parts.out.data(), parts.max.data(), parts.sum.data()};
    Check(CudaAttend(stream_, args));
    CudaJoinArgs join = {};
    join.lists[0] = {args.states, item_begin};
    join.num_lists = 1;
    join.num_tokens = view_.num_tokens;
    join.num_kv_heads = layer_.heads;
    join.group = layer_.group;
    join.head_dim = kDim;
    join.dtype = Dtype::kF16;
    join.output = result_.data();
    join.lse = lse_.data();
    Check(CudaJoin(stream_, join));
  }

  const Layer& layer_;
  CudaStream& stream_;
  const uint32_t num_rows_;  // of a kv head
  DeviceBuffer<f16> queries_;
  const DeviceQueries view_;
  DeviceBuffer<f16> result_;
  DeviceBuffer<float> lse_, lookup_lse_, scratch_, weights_, tail_;
  uint32_t num_chosen_ = 0, num_coded_ = 0, num_refined_ = 0, num_wanted_ = 0, per_item_ = 0;
  Parts dense_, chosen_parts_;
  DeviceBuffer<uint32_t> dense_begin_, chosen_begin_, chosen_, listed_, counts_;
  DeviceBuffer<uint64_t> squares_;
};

constexpr Shape kSmallShape = {2, 2};
constexpr uint32_t kSmallContext = 640, kSmallQuestion = 20;

// Where all rows are listed, a step finds what dense attention does.
void CheckSteps(CudaStream& stream) {
  const Layer layer(stream, kSmallShape, kSmallContext);
  for (const uint32_t tokens : {1u, kSmallQuestion}) {
    Step step(layer, tokens);
    step.Dense();
    const std::vector<f16> dense = step.Result();
    step.Choose({.budget = 0, .keys = 1}, tokens);
    step.Lookup();
    step.Attend();
    const std::vector<f16> chosen = step.Result();
    float most = 0;
    for (size_t i = 0; i < dense.size(); ++i) {
      most = std::fmax(most, std::fabs(ToFloat(chosen[i]) - ToFloat(dense[i])));
    }
    if (most <= 1e-3f) continue;
    std::fprintf(stderr, "cuda_bench: a step of %u tokens is off by %g\n", tokens, most);
    std::exit(1);
  }
}

// Kernels that a step launches with its evidence, whatever the shape: as the emulation counts.
unsigned long long CountLaunches(uint32_t num_tokens) {
  CudaStream stream;
  Check(CudaStream::Create(*lectern_cuda_kernels(), 0, stream));
  const Layer layer(stream, kSmallShape, kSmallContext);
  Step step(layer, num_tokens);
  step.Choose({.budget = 0, .keys = 0.1}, num_tokens);
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
  CheckSteps(stream);
  Timer timer(stream, is_emulated);
  const double copy_speed = timer.CopySpeed();  // GB/s
  std::printf("%s: a copy on the device reads and writes %.0f GB/s.\n\n", devices[0].name,
              copy_speed);
  // How fast a token's bytes are read, in percent of a copy. Questions compute more than they read.
  const auto of_copies = [&](uint32_t tokens, double bytes, double us) {
    if (tokens > 1) return std::string("-");
    return std::to_string(std::lround(100 * bytes / (us * 1e3 * copy_speed))) + " %";
  };
  using Sizes = std::vector<uint32_t>;
  for (const Shape& shape : {Shape{32, 1}, Shape{8, 4}}) {
    std::printf("One layer, %u kv heads of %u query heads, head_dim %u, f16, clusters of %u\n\n",
                shape.heads, shape.group, kDim, kClusterRows);
    std::printf(
        "| context | tokens | rows that choose | budget | keys listed | dense us | of copies | "
        "lookup us | of dense | step us | times | of copies | step without overlap us | "
        "evidence us |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (const uint32_t context : is_emulated ? Sizes{640} : Sizes{8192, 32768, 131072, 524288}) {
      const Layer layer(stream, shape, context);
      for (const uint32_t tokens : is_emulated ? Sizes{1, 20} : Sizes{1, 1024, 4096}) {
        Step step(layer, tokens);
        const double dense = timer.Time([&] { step.Dense(); });
        const Sizes of_question = is_emulated ? Sizes{16, 20} : Sizes{16, 64};
        for (const uint32_t choosing : tokens == 1 ? Sizes{shape.group} : of_question) {
          for (const Choice& choice :
               {Choice{0.3, 0}, Choice{0.1, 0}, Choice{0.05, 0}, Choice{0, 0.1}}) {
            if (is_emulated && choice.budget == 0.05) continue;  // of few keys it buys none
            step.Choose(choice, choosing);
            const double lookup = timer.Time([&] { step.Lookup(); });
            const auto whole = [&] {
              step.Lookup();
              step.Attend();
            };
            const double all = timer.Time(whole);
            kernels->set_overlap(stream.handle(), false);
            const double apart = timer.Time(whole);
            kernels->set_overlap(stream.handle(), true);
            const double evidence = timer.Time([&] { step.Evidence(); });
            const std::string budget =
                choice.budget > 0 ? std::to_string(choice.budget).substr(0, 4) : "-";
            std::printf(
                "| %u | %u | %u | %s | %.1f %% | %.1f | %s | %.1f | %.1f %% | %.1f | %.2f | %s | "
                "%.1f | %.1f |\n",
                context, tokens, choosing, budget.c_str(), 100 * step.listed_share(), dense,
                of_copies(tokens, step.dense_bytes(), dense).c_str(), lookup, 100 * lookup / dense,
                all, dense / all, of_copies(tokens, step.bytes(), all).c_str(), apart, evidence);
            std::fflush(stdout);
          }
        }
      }
    }
    std::printf("\n");
  }
  std::printf("With its evidence a token's step is %llu kernels, a question's %llu.\n",
              CountLaunches(1), CountLaunches(kSmallQuestion));
  return 0;
}

}  // namespace
}  // namespace lectern

int main(int argc, char** argv) {
  return lectern::Run(argc > 1 && std::strcmp(argv[1], "--emulated") == 0);
}
