#include "index/kmeans.h"

#include <faiss/Clustering.h>
#include <faiss/Index.h>
#include <faiss/impl/FaissException.h>
#include <omp.h>

#include <algorithm>
#include <limits>
#include <new>
#include <numeric>

namespace lectern {
namespace {

// Thrown to leave FAISS early, with the reason: cancelled, or an error of the assigner.
struct Stopped {
  Status status;
};

using idx_t = decltype(faiss::Index::ntotal);  // nested up to FAISS 1.7.3, faiss::idx_t after it

// Assigns by the backend's kernel. A stock IndexFlatIP would start OpenMP and BLAS threads inside
// each of ours.
class CpuAssigner : public Assigner {
 public:
  explicit CpuAssigner(const Backend& backend) : backend_(backend) {}

  void Hold(Rows<const float>) override {}
  Status SetCentroids(Rows<const float> centroids) override {
    centroids_.assign(centroids.data, centroids.data + centroids.num_rows * centroids.num_cols);
    scratch_.resize(AssignScratch(centroids.num_rows, centroids.num_cols));
    return {};
  }
  Status Assign(Rows<const float> points, std::span<uint32_t> labels,
                std::span<float> dots) override {
    const size_t cols = points.num_cols;
    backend_.assign_nearest({.points = points,
                             .centroids = {centroids_.data(), centroids_.size() / cols, cols},
                             .labels = labels,
                             .dots = dots,
                             .scratch = scratch_});
    return {};
  }
  size_t block_rows() const override { return 4096; }

 private:
  const Backend& backend_;
  std::vector<float> centroids_, scratch_;
};

// The index that faiss::Clustering works with: add() takes centroids, search() finds the best one
// for each point.
class AssignIndex : public faiss::Index {
 public:
  AssignIndex(Assigner& assigner, int dim, const KMeansOptions& options)
      : faiss::Index(dim, faiss::METRIC_INNER_PRODUCT),
        assigner_(assigner),
        options_(options),
        block_labels_(assigner.block_rows()) {
    is_trained = true;
  }

  void add(idx_t n, const float* x) override {
    Check(assigner_.SetCentroids({x, static_cast<size_t>(n), static_cast<size_t>(d)}));
    ntotal = n;
  }
  void reset() override { ntotal = 0; }
  void search(idx_t n, const float* x, idx_t /*k = 1*/, float* distances, idx_t* labels,
              const faiss::SearchParameters* = nullptr) const override {
    const size_t cols = static_cast<size_t>(d), total = static_cast<size_t>(n);
    const size_t block = block_labels_.size();
    for (size_t begin = 0; begin < total; begin += block) {
      if (options_.is_cancelled && options_.is_cancelled()) {
        throw Stopped{{Code::kCancelled, "clustering was cancelled"}};
      }
      const size_t rows = std::min(block, total - begin);
      Check(assigner_.Assign({x + begin * cols, rows, cols}, {block_labels_.data(), rows},
                             {distances + begin, rows}));
      std::copy_n(block_labels_.begin(), rows, labels + begin);
    }
  }

 private:
  static void Check(Status status) {
    if (!status.ok()) throw Stopped{std::move(status)};
  }

  Assigner& assigner_;
  const KMeansOptions& options_;
  mutable std::vector<uint32_t> block_labels_;
};

// The update step of faiss::Clustering is an OpenMP region. The setting is local to this thread, so
// other threads of the host keep theirs.
class SingleOpenMpThread {
 public:
  SingleOpenMpThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~SingleOpenMpThread() { omp_set_num_threads(before_); }

 private:
  const int before_;
};

// Runs FAISS's K-means and returns the label of each point. Throws Stopped, faiss::FaissException
// and bad_alloc; the assigner then holds no points.
std::vector<uint32_t> Train(const Backend& backend, Rows<const float> points,
                            const KMeansOptions& options) {
  const SingleOpenMpThread single;
  faiss::ClusteringParameters parameters;
  parameters.niter = static_cast<int>(options.num_iterations);
  parameters.seed = static_cast<int>(options.seed & 0x3FFFFFFF);
  parameters.spherical = true;
  parameters.min_points_per_centroid = 1;  // FAISS would warn on stderr about fewer
  // More would make FAISS subsample.
  parameters.max_points_per_centroid = std::numeric_limits<int>::max() / 2;
  const int d = static_cast<int>(points.num_cols);
  CpuAssigner cpu(backend);
  Assigner& assigner = options.assigner == nullptr ? cpu : *options.assigner;
  const HeldPoints held(assigner, points);
  AssignIndex index(assigner, d, options);
  faiss::Clustering clustering(d, static_cast<int>(options.num_clusters), parameters);
  const auto n = static_cast<idx_t>(points.num_rows);
  clustering.train(n, points.data, index);

  // One more assignment, to the last centroids, which train() left in the index: it returns no
  // labels.
  std::vector<float> dots(points.num_rows);
  std::vector<idx_t> labels(points.num_rows);
  index.search(n, points.data, 1, dots.data(), labels.data());
  return {labels.begin(), labels.end()};
}

}  // namespace

Result<std::vector<uint32_t>> KMeans(const Backend& backend, Rows<const float> points,
                                     const KMeansOptions& options) {
  assert(points.stride == points.num_cols && options.num_clusters >= 1);
  try {
    if (points.num_rows <= options.num_clusters) {
      std::vector<uint32_t> labels(points.num_rows);
      std::iota(labels.begin(), labels.end(), 0u);
      return labels;
    }
    if (options.num_clusters == 1) return std::vector<uint32_t>(points.num_rows, 0u);
    return Train(backend, points, options);
  } catch (const Stopped& stopped) {
    return stopped.status;
  } catch (const std::bad_alloc&) {
    return Status(Code::kOutOfMemory, "not enough memory to cluster the keys");
  } catch (const faiss::FaissException& error) {
    return Status(Code::kInternal, std::string("FAISS: ") + error.what());
  }
}

#define LECTERN_TEXT_2(x) #x
#define LECTERN_TEXT(x) LECTERN_TEXT_2(x)
const char* FaissVersion() {
  return LECTERN_TEXT(FAISS_VERSION_MAJOR) "." LECTERN_TEXT(FAISS_VERSION_MINOR) "." LECTERN_TEXT(
      FAISS_VERSION_PATCH);
}

}  // namespace lectern
