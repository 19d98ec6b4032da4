// Runs the assignment step of a document's clustering on a device: as many heads at a time as fit
// into the memory that the prefill has given back.
#ifndef LECTERN_ENGINE_GPU_CLUSTERING_H_
#define LECTERN_ENGINE_GPU_CLUSTERING_H_

#include "engine/gpu/device.h"
#include "index/assign_plan.h"
#include "index/assigner.h"

namespace lectern {

struct DeviceClustering {
  RamLimit::Share memory;  // of the device; given back when this is destroyed
  Assigners assigners;     // at least one
};
// Plans for the memory that is free now, and takes it. kOutOfMemory, param "device_memory", where
// there is none for one head; kIoError where the device is lost; errors of Device::Check.
Result<DeviceClustering> MakeDeviceClustering(const Device& device, const AssignShape& shape);

// Bytes of host memory for one head: the copies from and to the device run at full speed only from
// memory that is pinned.
uint64_t PinnedAssignBytes(const AssignShape& shape);

}  // namespace lectern

#endif  // LECTERN_ENGINE_GPU_CLUSTERING_H_
