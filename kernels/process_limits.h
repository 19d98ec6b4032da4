// How many cores and how much memory this process may use: what its CPU affinity and its control
// groups (containers, systemd units, batch jobs; version 1 and 2) leave of the machine's.
#ifndef LECTERN_KERNELS_PROCESS_LIMITS_H_
#define LECTERN_KERNELS_PROCESS_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lectern {

// `root` is put before /proc and /sys: tests give a folder with files of their own. Nothing here
// fails; a file that is missing or cannot be understood sets no limit. Any thread.

// Cores' worth of time that the control group and those above it grant, the least of them, such as
// 1.5; nothing where none limits it.
std::optional<double> GroupCores(const std::string& root = "");

// Bytes of memory likewise (memory.max and memory.high; memory.limit_in_bytes of version 1). Page
// cache counts in it, but is given back when it is needed.
std::optional<uint64_t> GroupMemoryBytes(const std::string& root = "");

// Memory that a plan may use: seven eighths of GroupMemoryBytes. The last eighth is for memory that
// no plan counts (code, stacks, the allocator); it is a guess. Nothing where no group limits
// memory, or to more than the machine has.
std::optional<uint64_t> PlannedMemoryBytes(const std::string& root = "");

// Physical cores that the CPUs with these numbers belong to; a CPU whose core is not told counts as
// one.
size_t PhysicalCores(const std::vector<int>& cpus, const std::string& root = "");

// CPUs that this process may run on (sched_getaffinity).
std::vector<int> AllowedCpus();

// Physical cores among `cpus`, no more than whole cores of the control group's, at least 1.
size_t UsableCores(const std::vector<int>& cpus, const std::string& root = "");

}  // namespace lectern

#endif  // LECTERN_KERNELS_PROCESS_LIMITS_H_
