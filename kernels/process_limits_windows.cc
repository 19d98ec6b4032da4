// The limits of Windows: of the job that the process is in, if any, and of its CPU affinity. Files
// below `root` have no meaning here.
#include <windows.h>

#include <psapi.h>  // needs windows.h before it

#include <algorithm>
#include <bit>
#include <thread>

#include "kernels/process_limits.h"

namespace lectern {
namespace {

MEMORYSTATUSEX MachineMemory() {
  MEMORYSTATUSEX memory{};
  memory.dwLength = sizeof memory;
  GlobalMemoryStatusEx(&memory);
  return memory;
}

// CPUs of the process's group, bit by bit; 0 where the system does not say.
DWORD_PTR AffinityMask() {
  DWORD_PTR mask = 0, system = 0;
  return GetProcessAffinityMask(GetCurrentProcess(), &mask, &system) ? mask : 0;
}

}  // namespace

std::optional<double> GroupCores(const std::string&) {
  JOBOBJECT_CPU_RATE_CONTROL_INFORMATION rate{};
  if (!QueryInformationJobObject(nullptr, JobObjectCpuRateControlInformation, &rate, sizeof rate,
                                 nullptr)) {
    return std::nullopt;
  }
  constexpr DWORD kHardCap =
      JOB_OBJECT_CPU_RATE_CONTROL_ENABLE | JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP;
  if ((rate.ControlFlags & kHardCap) != kHardCap || rate.CpuRate == 0) return std::nullopt;
  // The rate counts 10,000 parts of all the machine's CPUs.
  return rate.CpuRate / 10'000.0 * std::max(1u, std::thread::hardware_concurrency());
}

std::optional<uint64_t> GroupMemoryBytes(const std::string&) {
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits{};
  if (!QueryInformationJobObject(nullptr, JobObjectExtendedLimitInformation, &limits, sizeof limits,
                                 nullptr)) {
    return std::nullopt;
  }
  std::optional<uint64_t> least;
  const DWORD flags = limits.BasicLimitInformation.LimitFlags;
  const auto take = [&](DWORD flag, uint64_t bytes) {
    if ((flags & flag) != 0) least = std::min(least.value_or(UINT64_MAX), bytes);
  };
  take(JOB_OBJECT_LIMIT_PROCESS_MEMORY, limits.ProcessMemoryLimit);
  take(JOB_OBJECT_LIMIT_JOB_MEMORY, limits.JobMemoryLimit);
  return least;
}

std::optional<uint64_t> PlannedMemoryBytes(const std::string&) {
  const auto group = GroupMemoryBytes();
  if (!group) return std::nullopt;
  const uint64_t machine = MachineMemory().ullTotalPhys;
  if (machine != 0 && *group >= machine) return std::nullopt;
  return *group - *group / 8;
}

std::optional<uint64_t> AvailableMemoryBytes(const std::string&) {
  const MEMORYSTATUSEX memory = MachineMemory();
  if (memory.ullTotalPhys == 0) return std::nullopt;
  // The memory that may be committed counts, too: Windows promises none that it does not have.
  uint64_t available = std::min(memory.ullAvailPhys, memory.ullAvailPageFile);
  if (const auto group = GroupMemoryBytes()) {
    PROCESS_MEMORY_COUNTERS used{};
    GetProcessMemoryInfo(GetCurrentProcess(), &used, sizeof used);
    available = std::min(available, *group - std::min<uint64_t>(*group, used.PagefileUsage));
  }
  return available;
}

size_t PhysicalCores(const std::vector<int>& cpus, const std::string&) {
  DWORD bytes = 0;
  GetLogicalProcessorInformation(nullptr, &bytes);
  std::vector<SYSTEM_LOGICAL_PROCESSOR_INFORMATION> parts(bytes / sizeof(parts[0]));
  if (!GetLogicalProcessorInformation(parts.data(), &bytes)) parts.clear();
  ULONG_PTR left = 0;  // CPUs whose core is not counted yet
  size_t beyond = 0;   // CPUs that no mask of one group names
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu >= 64) {
      ++beyond;
    } else {
      left |= ULONG_PTR{1} << cpu;
    }
  }
  size_t cores = 0;
  for (const auto& part : parts) {
    if (part.Relationship != RelationProcessorCore || (part.ProcessorMask & left) == 0) continue;
    ++cores;
    left &= ~part.ProcessorMask;
  }
  return cores + static_cast<size_t>(std::popcount(left)) + beyond;
}

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  const DWORD_PTR mask = AffinityMask();
  for (int cpu = 0; cpu < 64; ++cpu) {
    if ((mask >> cpu & 1) != 0) cpus.push_back(cpu);
  }
  const int all = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (cpus.empty()) {
    for (int cpu = 0; cpu < all; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

size_t UsableCores(const std::vector<int>& cpus, const std::string&) {
  size_t cores = PhysicalCores(cpus);
  if (const auto granted = GroupCores()) cores = std::min(cores, static_cast<size_t>(*granted));
  return std::max<size_t>(1, cores);
}

}  // namespace lectern
