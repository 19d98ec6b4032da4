// The assignment step of a document's clustering on a device: as many heads at a time as there is
// memory for, in what the prefill has given back.
#ifndef LECTERN_ENGINE_GPU_CLUSTERING_H_
#define LECTERN_ENGINE_GPU_CLUSTERING_H_

#include "engine/gpu/device.h"
#include "index/assign_plan.h"
#include "index/assigner.h"

namespace lectern {

struct DeviceClustering {
  RamLimit::Share memory;  // of the device
  Assigners assigners;     // at least one
};
// kOutOfMemory, param "device_memory", where there is none for one head; errors of Device::Check.
Result<DeviceClustering> MakeDeviceClustering(const Device& device, const AssignShape& shape);

// Of the host, for a head: what is copied from and to the device at full speed.
uint64_t PinnedAssignBytes(const AssignShape& shape);

}  // namespace lectern

#endif  // LECTERN_ENGINE_GPU_CLUSTERING_H_
