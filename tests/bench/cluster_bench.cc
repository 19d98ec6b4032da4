// How long the keys of a layer take to cluster: on a GPU by our kernel, by FAISS's own index where
// it was built with GPU support, and on the CPU.
//
//   cluster_bench [--emulated] [--heads N] [--keys N] [--threads N]
//
// Heads of keys of head_dim 128 (32 of 131,072), as many at the same time as there are threads and
// as fit into the GPU's free memory. "tree": what indexing makes of a head, clusters of 2 % of the
// keys in blocks, refined, grouped and encoded. "flat": faiss::Clustering over all keys of a head,
// 2 % and 5 % of them, ten iterations. "assigning": of the seconds, the share that threads waited
// for the assignment step. The CPU clusters one head a thread, once, and only makes trees.
// --emulated: tiny shapes without a GPU, to see that it works; its times mean nothing.
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "index/build.h"
#include "index/cuda_assigner.h"
#include "index/kmeans.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/thread_pool.h"
#include "tests/index/faiss_gpu.h"

namespace lectern {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  bool is_emulated = false;
  size_t heads = 32, keys = 131072, dim = 128, threads = DefaultThreads();
};

[[noreturn]] void Die(const std::string& message) {
  std::fprintf(stderr, "cluster_bench: %s\n", message.c_str());
  std::exit(1);
}

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Keys around centres, some closer than others, as a head's are.
std::vector<float> Keys(const Options& options) {
  const size_t num_centres = std::max<size_t>(1, options.keys / 64);
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> centres(num_centres * options.dim), keys(options.keys * options.dim);
  for (float& x : centres) x = normal(engine);
  for (size_t row = 0; row < options.keys; ++row) {
    const float spread = 0.2f + 0.8f * static_cast<float>(row % 7) / 7;
    const size_t centre = engine() % num_centres;
    for (size_t c = 0; c < options.dim; ++c) {
      keys[row * options.dim + c] = centres[centre * options.dim + c] + spread * normal(engine);
    }
  }
  return keys;
}

std::vector<float> UnitLength(std::vector<float> rows, size_t dim) {
  for (size_t row = 0; row < rows.size(); row += dim) {
    double squares = 0;
    for (size_t c = 0; c < dim; ++c) squares += double{rows[row + c]} * rows[row + c];
    for (size_t c = 0; c < dim; ++c) {
      rows[row + c] = static_cast<float>(rows[row + c] / std::sqrt(squares));
    }
  }
  return rows;
}

// Another assigner, and how long its calls took.
class TimedAssigner : public Assigner {
 public:
  TimedAssigner(Assigner& assigner, std::atomic<uint64_t>& nanoseconds)
      : assigner_(assigner), nanoseconds_(nanoseconds) {}
  void Hold(Rows<const float> points) override { assigner_.Hold(points); }
  Status SetCentroids(Rows<const float> centroids) override {
    return Timed([&] { return assigner_.SetCentroids(centroids); });
  }
  Status Assign(Rows<const float> points, std::span<uint32_t> labels,
                std::span<float> dots) override {
    return Timed([&] { return assigner_.Assign(points, labels, dots); });
  }
  size_t block_rows() const override { return assigner_.block_rows(); }

 private:
  template <typename Call>
  Status Timed(const Call& call) {
    const auto start = Clock::now();
    Status status = call();
    nanoseconds_ += static_cast<uint64_t>(SecondsSince(start) * 1e9);
    return status;
  }
  Assigner& assigner_;
  std::atomic<uint64_t>& nanoseconds_;
};

// Rows of the table: `heads` heads, as many at a time as there are assigners.
class Bench {
 public:
  Bench(const Options& options, std::vector<float> keys)
      : options_(options), keys_(std::move(keys)), unit_(UnitLength(keys_, options.dim)) {}

  // `assigner`: nullptr: the CPU.
  Status Tree(Assigner* assigner) const {
    BuildOptions build;
    build.assigner = assigner;
    return BuildTree(*DefaultBackend(), Rows(keys_), Rows(keys_), build).status();
  }
  Status Flat(Assigner* assigner, double share) const {
    KMeansOptions kmeans;
    kmeans.num_clusters = static_cast<uint32_t>(share * static_cast<double>(options_.keys));
    kmeans.assigner = assigner;
    return KMeans(*DefaultBackend(), Rows(unit_), kmeans).status();
  }

  // A first head alone, untimed: libraries load, and buffers are touched.
  template <typename Cluster>
  void Row(const char* by, const char* what, Assigners& assigners, const Cluster& cluster) const {
    std::atomic<uint64_t> nanoseconds = 0;
    Check(cluster(assigners.front().get()));
    const size_t at_a_time = std::min(assigners.size(), options_.heads);
    ThreadPool threads(at_a_time);
    const auto start = Clock::now();
    for (size_t done = 0; done < options_.heads; done += at_a_time) {
      threads.ParallelFor(std::min(at_a_time, options_.heads - done), [&](size_t i, size_t) {
        TimedAssigner timed(*assigners[i], nanoseconds);
        Check(cluster(&timed));
      });
    }
    const double seconds = SecondsSince(start);
    const double share = static_cast<double>(nanoseconds) / 1e9 / seconds;
    Print(by, what, options_.heads, at_a_time, seconds,
          std::to_string(std::lround(100 * share / static_cast<double>(at_a_time))) + " %");
  }
  void CpuRow() const {
    ThreadPool threads(options_.threads);
    const auto start = Clock::now();
    threads.ParallelFor(options_.threads, [&](size_t, size_t) { Check(Tree(nullptr)); });
    Print("CPU", "tree", options_.threads, options_.threads, SecondsSince(start), "-");
  }

 private:
  lectern::Rows<const float> Rows(const std::vector<float>& rows) const {
    return {rows.data(), options_.keys, options_.dim};
  }
  static void Check(const Status& status) {
    if (!status.ok()) Die(status.message());
  }
  void Print(const char* by, const char* what, size_t heads, size_t at_a_time, double seconds,
             const std::string& assigning) const {
    std::printf("| %s | %s | %zu | %zu | %zu | %.2f | %s |\n", by, what, options_.keys, heads,
                at_a_time, seconds, assigning.c_str());
    std::fflush(stdout);
  }

  const Options& options_;
  const std::vector<float> keys_, unit_;
};

void RunAll(const Bench& bench, const char* by, Result<Assigners> assigners) {
  if (!assigners.ok()) {
    std::fprintf(stderr, "cluster_bench: NOT RUN: %s\n", assigners.status().message().c_str());
    return;
  }
  bench.Row(by, "tree", *assigners, [&](Assigner* a) { return bench.Tree(a); });
  bench.Row(by, "flat, 2 %", *assigners, [&](Assigner* a) { return bench.Flat(a, 0.02); });
  bench.Row(by, "flat, 5 %", *assigners, [&](Assigner* a) { return bench.Flat(a, 0.05); });
}

int Run(const Options& options) {
  std::string why;
  const CudaKernels* const kernels =
      options.is_emulated ? lectern_cuda_kernels() : LoadCudaKernels(&why);
  if (kernels == nullptr) Die(why);
  std::vector<CudaDeviceInfo> devices;
  const CudaStatus listed = ListCudaDevices(*kernels, devices);
  if (!listed.ok()) Die(CudaMessage(listed));

  const Bench bench(options, Keys(options));
  const AssignShape shape = {
      .num_points = options.keys,
      .num_centroids = MostCentroids(options.keys, {0.05}),
      .dim = options.dim,
      .num_heads = std::min(options.heads, options.threads),
  };
  uint64_t free_bytes = 0;
  const CudaStatus measured = kernels->measure_memory(devices[0].index, &free_bytes);
  if (!measured.ok()) Die(CudaMessage(measured));
  const uint64_t bytes = free_bytes / 10 * 9;
  std::printf("%s, %zu threads, FAISS %s, head_dim %zu\n\n", devices[0].name, options.threads,
              FaissVersion(), options.dim);
  std::printf("| by | what | keys | heads | at a time | seconds | assigning |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  const auto plan = PlanCudaAssign(shape, bytes);
  if (!plan.ok()) Die(plan.status().message());
  RunAll(bench, "CUDA", MakeCudaAssigners(*kernels, devices[0].index, *plan));
  if (HasFaissGpu() && !options.is_emulated) {
    const auto faiss_plan = PlanFaissGpu(shape, bytes);
    if (!faiss_plan.ok()) Die(faiss_plan.status().message());
    RunAll(bench, "FAISS", MakeFaissGpuAssigners(devices[0].index, *faiss_plan));
  }
  bench.CpuRow();
  return 0;
}

// "--heads 8" into a size of at least 1.
size_t Number(int argc, char** argv, int i) {
  const long number = i + 1 < argc ? std::strtol(argv[i + 1], nullptr, 10) : 0;
  if (number < 1) Die(std::string(argv[i]) + " needs a number of at least 1");
  return static_cast<size_t>(number);
}

}  // namespace
}  // namespace lectern

int main(int argc, char** argv) {
  lectern::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--emulated") {
      options = {.is_emulated = true, .heads = 3, .keys = 300, .dim = 16, .threads = 2};
    } else if (option == "--heads") {
      options.heads = lectern::Number(argc, argv, i++);
    } else if (option == "--keys") {
      options.keys = lectern::Number(argc, argv, i++);
    } else if (option == "--threads") {
      options.threads = lectern::Number(argc, argv, i++);
    } else {
      lectern::Die("unknown option " + option);
    }
  }
  return lectern::Run(options);
}
