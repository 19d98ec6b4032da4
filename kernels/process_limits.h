// Tells how many cores and how much memory this process may use: the machine's, less what its CPU
// affinity and its control groups (containers, systemd units, batch jobs; version 1 and 2)
// withhold.
#ifndef LECTERN_KERNELS_PROCESS_LIMITS_H_
#define LECTERN_KERNELS_PROCESS_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lectern {

// Every function that reads files takes `root`, a folder put before /proc and /sys, so that tests
// can supply files of their own; the default reads the system's. None of them fails: a file that is
// missing or cannot be understood sets no limit. Any thread may call them. The files are read anew
// at each call.

// Cores' worth of CPU time that the process's control group and its parents grant: the smallest of
// their limits, such as 1.5. Nothing where none of them sets a limit.
std::optional<double> GroupCores(const std::string& root = "");

// The smallest memory limit of the same groups, in bytes (memory.max and memory.high; in version 1
// memory.limit_in_bytes and the hierarchical limit of memory.stat); nothing where none is set. Page
// cache counts towards it, but the kernel gives that back when memory runs short.
std::optional<uint64_t> GroupMemoryBytes(const std::string& root = "");

// Memory that a plan may use: seven eighths of GroupMemoryBytes. The last eighth is left for memory
// that no plan counts (code, stacks, the allocator); the share is a guess, and no measurement is on
// record. Too small a rest ends the process where the kernel finds no memory. Nothing where no
// group limits memory, or where the limit is not below the machine's memory.
std::optional<uint64_t> PlannedMemoryBytes(const std::string& root = "");

// Memory that the process can still take without the system having to swap: the system's estimate
// (MemAvailable), and not more than what its control groups' limits leave beside what they use.
// Page cache counts as free, because the kernel gives it back. Nothing where the system does not
// say.
std::optional<uint64_t> AvailableMemoryBytes(const std::string& root = "");

// Number of physical cores that the CPUs with these numbers (each named once) belong to. A CPU
// whose core the system does not name counts as a core of its own. 0 for no CPUs.
size_t PhysicalCores(const std::vector<int>& cpus, const std::string& root = "");

// Numbers of the CPUs that the calling thread may run on (sched_getaffinity), ascending. Where the
// system does not say, all of the machine's, at least one.
std::vector<int> AllowedCpus();

// Cores to use by default: the physical cores among `cpus`, at most the whole cores that the
// control groups grant (GroupCores, rounded down), at least 1.
size_t UsableCores(const std::vector<int>& cpus, const std::string& root = "");

}  // namespace lectern

#endif  // LECTERN_KERNELS_PROCESS_LIMITS_H_
