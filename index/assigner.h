// The interface of K-means' assignment step, with two implementations: the CPU's kernels
// (kmeans.cc, the default) and our kernel on a CUDA device (cuda_assigner.h).
#ifndef LECTERN_INDEX_ASSIGNER_H_
#define LECTERN_INDEX_ASSIGNER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/types.h"
#include "store/status.h"

namespace lectern {

// Assigns points of one head at a time to their nearest centroids. Rows are packed: stride ==
// num_cols. An assigner serves one thread at a time; different assigners may run in parallel. After
// an error it accepts other points and centroids as before. The CPU's never fails; a device's has
// kOutOfMemory (param "device_memory") where its memory does not hold the centroids, kIoError and
// kInternal.
class Assigner {
 public:
  virtual ~Assigner() = default;

  // Announces the points of most calls of Assign from now on. They must stay in place and unchanged
  // until the next Hold, so that a device copies them only once. No rows: nothing is held.
  virtual void Hold(Rows<const float> points) = 0;

  // Sets the centroids for the calls of Assign from now on; at least one. They are copied.
  virtual Status SetCentroids(Rows<const float> centroids) = 0;

  // labels[i] = argmax_j points_i . c_j, dots[i] = that product. Accepts any rows with the columns
  // of the centroids; a range of held rows is not copied again. Both spans have room for all
  // points. SetCentroids was called before. Among equal products the label is the lowest.
  virtual Status Assign(Rows<const float> points, std::span<uint32_t> labels,
                        std::span<float> dots) = 0;

  // Rows after which a caller should check whether it was cancelled; a block takes milliseconds.
  virtual size_t block_rows() const = 0;
};

// Makes an assigner hold points as long as this object lives, and none afterwards.
class HeldPoints {
 public:
  HeldPoints(Assigner& assigner, Rows<const float> points) : assigner_(assigner) {
    assigner.Hold(points);
  }
  ~HeldPoints() { assigner_.Hold({}); }

 private:
  Assigner& assigner_;
};

inline constexpr size_t kNotHeld = SIZE_MAX;
// Number of held rows before these points, or kNotHeld if the points are not all among the held
// rows. Compares addresses; both have packed rows of at least one column.
inline size_t HeldBefore(Rows<const float> held, Rows<const float> points) {
  const auto begin = reinterpret_cast<uintptr_t>(held.data);
  const auto at = reinterpret_cast<uintptr_t>(points.data);
  const size_t row_bytes = points.num_cols * sizeof(float);
  if (held.num_rows == 0 || held.num_cols != points.num_cols || at < begin) return kNotHeld;
  const size_t rows = (at - begin) / row_bytes;
  if ((at - begin) % row_bytes != 0 || rows + points.num_rows > held.num_rows) return kNotHeld;
  return rows;
}

// One assigner for each head that is clustered at the same time; at least one.
using Assigners = std::vector<std::unique_ptr<Assigner>>;

}  // namespace lectern

#endif  // LECTERN_INDEX_ASSIGNER_H_
