// Plans the clustering of kv heads on a GPU: how many heads at the same time, and how much device
// memory each gets. For index building (engine/indexing).
#ifndef LECTERN_INDEX_ASSIGN_PLAN_H_
#define LECTERN_INDEX_ASSIGN_PLAN_H_

#include <cstddef>
#include <cstdint>

#include "store/status.h"

namespace lectern {

// The work that a plan is made for.
struct AssignShape {
  size_t num_points = 0;     // keys of a head, >= 1
  size_t num_centroids = 0;  // most that are expected (MostCentroids); more of them run slower
  size_t dim = 0;            // >= 1
  size_t num_heads = 1;      // heads wanted at the same time: the host's threads; 0 counts as 1
};

struct AssignPlan {
  size_t dim = 0;
  size_t num_heads = 0;      // heads clustered at the same time, >= 1
  size_t block_rows = 0;     // points assigned by one call, >= 1
  bool holds_points = true;  // false: a head's points do not fit and are copied in blocks
  uint64_t head_bytes = 0;   // device memory of each head
  uint64_t rows_bytes = 0;   // part of head_bytes for points, centroids and results
  uint64_t total_bytes() const { return num_heads * head_bytes; }
};

// Plans memory for Lectern's own kernel: points, centroids and results of a head, and what a stream
// and cuBLAS take. Allocates nothing and asks no device. Plans as many heads as fit, at most those
// that are wanted; if not even one head's points fit, one head with all of `device_bytes`, whose
// points are copied in blocks. kOutOfMemory (param "device_memory") if `device_bytes` cannot hold
// the stream, all centroids and kLeastAssignRows points (or all points, if there are fewer).
Result<AssignPlan> PlanCudaAssign(const AssignShape& shape, uint64_t device_bytes);

// Bytes that arrays on the device are aligned to, as cudaMalloc aligns.
inline constexpr size_t kAssignAlign = 256;
// Bytes of device memory that a head's points, labels, products and centroids take, each array
// aligned to kAssignAlign.
uint64_t AssignRowsBytes(size_t num_points, size_t num_centroids, size_t dim);
// A plan has room for at least so many points; with less memory it is refused, and the CPU
// clusters. By hand; no measurement is on record: smaller calls would spend their time on launches.
inline constexpr size_t kLeastAssignRows = 1024;
// A call for so many takes milliseconds, so that cancelling is prompt.
inline constexpr size_t kMostAssignRows = 65536;  // the most points of one call

}  // namespace lectern

#endif  // LECTERN_INDEX_ASSIGN_PLAN_H_
