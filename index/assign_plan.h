// How many heads are clustered on a GPU at the same time, and in how much of its memory.
#ifndef LECTERN_INDEX_ASSIGN_PLAN_H_
#define LECTERN_INDEX_ASSIGN_PLAN_H_

#include <cstddef>
#include <cstdint>

#include "store/status.h"

namespace lectern {

struct AssignShape {
  size_t num_points = 0;     // keys of a head, >= 1
  size_t num_centroids = 0;  // the most that are expected (MostCentroids); with more it is slower
  size_t dim = 0;            // >= 1
  size_t num_heads = 1;      // that are wanted at the same time: threads of the host
};

struct AssignPlan {
  size_t dim = 0;
  size_t num_heads = 0;      // at the same time, >= 1
  size_t block_rows = 0;     // points that are assigned at a time, >= 1
  bool holds_points = true;  // false: a head's points do not fit; blocks of them are copied
  uint64_t head_bytes = 0;   // of device memory, for each head
  uint64_t rows_bytes = 0;   // of these, for points, centroids and results
  uint64_t total_bytes() const { return num_heads * head_bytes; }
};

// Points, centroids and results of a head, and what a stream and cuBLAS take. kOutOfMemory, param
// "device_memory": `device_bytes` do not hold all centroids and a block of points.
Result<AssignPlan> PlanCudaAssign(const AssignShape& shape, uint64_t device_bytes);

// Of device memory, for a head: points, labels and products, centroids, each aligned.
inline constexpr size_t kAssignAlign = 256;
uint64_t AssignRowsBytes(size_t num_points, size_t num_centroids, size_t dim);
inline constexpr size_t kLeastAssignRows = 1024;  // points that a plan has room for at least
inline constexpr size_t kMostAssignRows = 65536;  // that are assigned at a time: milliseconds

}  // namespace lectern

#endif  // LECTERN_INDEX_ASSIGN_PLAN_H_
