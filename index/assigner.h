// Who does the assignment step of K-means: the CPU's kernels (kmeans.cc, the default) or a CUDA
// device (cuda_assigner.h).
#ifndef LECTERN_INDEX_ASSIGNER_H_
#define LECTERN_INDEX_ASSIGNER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/types.h"
#include "store/status.h"

namespace lectern {

// Of one head at a time. Rows are packed: stride == num_cols. One thread at a time; different ones
// by different threads. After an error it takes other points and centroids as before.
class Assigner {
 public:
  virtual ~Assigner() = default;

  // The points of most calls of Assign from now on, which stay where and as they are until the next
  // Hold: a device copies them once. No rows: nothing is held.
  virtual void Hold(Rows<const float> points) = 0;

  // Those of the calls of Assign from now on, at least one; not kept after the call.
  virtual Status SetCentroids(Rows<const float> centroids) = 0;

  // labels[i] = argmax_j points_i . c_j, dots[i] that product. Any rows; those of a range that is
  // held are not copied again. Among equal products a label is the lowest, but for FAISS's.
  virtual Status Assign(Rows<const float> points, std::span<uint32_t> labels,
                        std::span<float> dots) = 0;

  // Rows of one call after which a caller may want to see whether it was cancelled: milliseconds.
  virtual size_t block_rows() const = 0;
};

// Points that an assigner holds while this lives.
class HeldPoints {
 public:
  HeldPoints(Assigner& assigner, Rows<const float> points) : assigner_(assigner) {
    assigner.Hold(points);
  }
  ~HeldPoints() { assigner_.Hold({}); }

 private:
  Assigner& assigner_;
};

// How many rows of those that are held come before these points; kNotHeld: these are others.
inline constexpr size_t kNotHeld = SIZE_MAX;
inline size_t HeldBefore(Rows<const float> held, Rows<const float> points) {
  const auto begin = reinterpret_cast<uintptr_t>(held.data);
  const auto at = reinterpret_cast<uintptr_t>(points.data);
  const size_t row_bytes = points.num_cols * sizeof(float);
  if (held.num_rows == 0 || held.num_cols != points.num_cols || at < begin) return kNotHeld;
  const size_t rows = (at - begin) / row_bytes;
  if ((at - begin) % row_bytes != 0 || rows + points.num_rows > held.num_rows) return kNotHeld;
  return rows;
}

// One for each head that is clustered at the same time, at least one.
using Assigners = std::vector<std::unique_ptr<Assigner>>;

}  // namespace lectern

#endif  // LECTERN_INDEX_ASSIGNER_H_
