#include "kernels/process_limits.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace lectern {
namespace {

// Without its line end; empty if the file cannot be read.
std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The whole text as a number; nothing for "max", an empty file and anything else.
std::optional<int64_t> Number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc() && end == text.data() + text.size() && !text.empty();
  return is_whole ? std::optional(number) : std::nullopt;
}

// The parts between separators; empty ones count, except one at the end.
std::vector<std::string> Split(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, by);) parts.push_back(part);
  return parts;
}

bool Has(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// mountinfo writes a space in a path as \040, and other odd characters likewise in octal.
std::string Unescaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 3 < text.size();
    if (is_escape) {
      out += static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// One mounted hierarchy of control groups.
struct Mount {
  std::string root, point;  // the group that is shown at the folder `point`
  bool is_v2;
  std::vector<std::string> controllers;  // of version 1
};

// Reads lines such as "36 25 0:31 /root /point rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct".
// The number of optional fields before " - " varies, so the line is split there first.
std::vector<Mount> Mounts(const std::string& root) {
  std::vector<Mount> mounts;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - ");
    if (dash == line.npos) continue;
    const auto before = Split(line.substr(0, dash), ' '), after = Split(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.size() < 3 || !after[0].starts_with("cgroup")) continue;
    mounts.push_back(
        {Unescaped(before[3]), Unescaped(before[4]), after[0] == "cgroup2", Split(after[2], ',')});
  }
  return mounts;
}

// The path of this process's group in the hierarchy of `controller`, which version 2 ignores: it
// has one hierarchy. Nothing if the file names none. The file has lines such as
// "4:cpu,cpuacct:/a/b" (version 1) and "0::/a/b" (version 2).
std::optional<std::string> GroupOf(const std::string& root, const Mount& mount,
                                   std::string_view controller) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const bool is_it = mount.is_v2 ? line.starts_with("0::") : Has(Split(names, ','), controller);
    if (is_it) return line.substr(second + 1);
  }
  return std::nullopt;
}

// Folders of the process's group and of all groups above it that are visible. In a container the
// mounted hierarchy may begin at the container's own group, while /proc gives the group's path as
// the host sees it; the part that the mount hides is then cut off.
std::vector<std::string> GroupFolders(const std::string& root, const Mount& mount,
                                      std::string_view controller) {
  const auto group = GroupOf(root, mount, controller);
  if (!group) return {};
  std::string below = *group;
  if (mount.root != "/") {
    const bool is_inside = below == mount.root || below.starts_with(mount.root + "/");
    below = is_inside ? below.substr(mount.root.size()) : "";
  }
  if (below.find("/..") != below.npos) below.clear();  // the group lies outside the mounted part
  std::vector<std::string> folders;
  for (;;) {
    while (below.ends_with('/')) below.pop_back();
    folders.push_back(root + mount.point + below);
    if (below.empty()) return folders;
    below.resize(below.rfind('/'));
  }
}

// The smallest limit that `read` finds in the folders of the process's groups. A parent may be
// stricter than its child, hence all of them are asked.
template <typename Limit, typename Read>
std::optional<Limit> LeastLimit(const std::string& root, std::string_view controller, Read read) {
  std::optional<Limit> least;
  for (const Mount& mount : Mounts(root)) {
    if (!mount.is_v2 && !Has(mount.controllers, controller)) continue;
    for (const std::string& folder : GroupFolders(root, mount, controller)) {
      const std::optional<Limit> limit = read(folder, mount.is_v2);
      if (limit) least = least ? std::min(*least, *limit) : *limit;
    }
  }
  return least;
}

// Reads the CPU quota of one group: time granted per period gives cores. Nothing where there is no
// quota.
std::optional<double> CoresIn(const std::string& folder, bool is_v2) {
  std::optional<int64_t> quota, period;  // microseconds
  if (is_v2) {
    const auto fields = Split(FirstLine(folder + "/cpu.max"), ' ');  // "max 100000"
    if (fields.size() < 2) return std::nullopt;
    quota = Number(fields[0]), period = Number(fields[1]);
  } else {
    quota = Number(FirstLine(folder + "/cpu.cfs_quota_us"));  // -1: none
    period = Number(FirstLine(folder + "/cpu.cfs_period_us"));
  }
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

// Reads the memory limits of one group and returns the smaller one, in bytes; nothing where there
// is none.
std::optional<uint64_t> BytesIn(const std::string& folder, bool is_v2) {
  constexpr int64_t kNone = int64_t{1} << 62;  // version 1 writes about 2^63 for "no limit"
  std::optional<uint64_t> least;
  const auto take = [&](std::optional<int64_t> bytes) {  // empty for "max"
    if (!bytes || *bytes < 0 || *bytes >= kNone) return;
    least = std::min(least.value_or(UINT64_MAX), static_cast<uint64_t>(*bytes));
  };
  if (is_v2) {
    take(Number(FirstLine(folder + "/memory.max")));
    take(Number(
        FirstLine(folder + "/memory.high")));  // past it the kernel throttles the process to a halt
    return least;
  }
  take(Number(FirstLine(folder + "/memory.limit_in_bytes")));
  // A container cannot see its parents' folders, but this line of memory.stat includes their
  // limits: "hierarchical_memory_limit 268435456".
  std::ifstream statistics(folder + "/memory.stat");
  for (std::string name, value; statistics >> name >> value;) {
    if (name == "hierarchical_memory_limit") take(Number(value));
  }
  return least;
}

// Reads what the memory limits of one group leave beside what it uses, page cache apart, in bytes;
// nothing where there is no limit. What the system does not say is not used.
std::optional<uint64_t> BytesLeftIn(const std::string& folder, bool is_v2) {
  const auto limit = BytesIn(folder, is_v2);
  if (!limit) return std::nullopt;
  const char* const usage = is_v2 ? "/memory.current" : "/memory.usage_in_bytes";
  int64_t used = Number(FirstLine(folder + usage)).value_or(0);
  std::ifstream statistics(folder + "/memory.stat");
  for (std::string name, value; statistics >> name >> value;) {
    if (name == (is_v2 ? "file" : "total_cache")) used -= Number(value).value_or(0);
  }
  return *limit - std::min(*limit, static_cast<uint64_t>(std::max<int64_t>(used, 0)));
}

// Bytes that a line of /proc/meminfo gives, such as "MemTotal:       16384000 kB"; nothing where
// the file has no such line.
std::optional<uint64_t> MachineMemory(const std::string& root, std::string_view name) {
  std::ifstream file(root + "/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string first;
    uint64_t kilobytes = 0;
    if (fields >> first >> kilobytes && first == name) return kilobytes * 1024;
  }
  return std::nullopt;
}

// A number from the CPU's topology folder, or -1 where the system has none (containers, other
// kernels).
int64_t Topology(const std::string& root, int cpu, const char* name) {
  const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
  return Number(FirstLine(root + folder + name)).value_or(-1);
}

}  // namespace

std::optional<double> GroupCores(const std::string& root) {
  return LeastLimit<double>(root, "cpu", CoresIn);
}

std::optional<uint64_t> GroupMemoryBytes(const std::string& root) {
  return LeastLimit<uint64_t>(root, "memory", BytesIn);
}

std::optional<uint64_t> PlannedMemoryBytes(const std::string& root) {
  const auto group = GroupMemoryBytes(root);
  if (!group) return std::nullopt;
  const auto machine = MachineMemory(root, "MemTotal:");
  if (machine && *group >= *machine) return std::nullopt;
  return *group - *group / 8;
}

std::optional<uint64_t> AvailableMemoryBytes(const std::string& root) {
  const auto available = MachineMemory(root, "MemAvailable:");
  if (!available) return std::nullopt;
  const auto left = LeastLimit<uint64_t>(root, "memory", BytesLeftIn);
  return std::min(*available, left.value_or(UINT64_MAX));
}

size_t PhysicalCores(const std::vector<int>& cpus, const std::string& root) {
  std::set<std::pair<int64_t, int64_t>> cores;
  size_t unknown = 0;
  for (const int cpu : cpus) {
    const int64_t core = Topology(root, cpu, "core_id");
    if (core < 0) {
      ++unknown;
    } else {
      cores.insert({Topology(root, cpu, "physical_package_id"), core});
    }
  }
  return cores.size() + unknown;
}

std::vector<int> AllowedCpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> cpus;
  // Fails when the machine has more CPUs than cpu_set_t.
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    cpus.resize(std::max(1u, std::thread::hardware_concurrency()));
    for (size_t i = 0; i < cpus.size(); ++i) cpus[i] = static_cast<int>(i);
    return cpus;
  }
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  }
  return cpus;
}

size_t UsableCores(const std::vector<int>& cpus, const std::string& root) {
  size_t cores = PhysicalCores(cpus, root);
  if (const auto granted = GroupCores(root)) {
    // The cap of 1e6 keeps the conversion defined for absurd quotas.
    cores = std::min(cores, static_cast<size_t>(std::min(*granted, 1e6)));
  }
  return std::max<size_t>(1, cores);
}

}  // namespace lectern
