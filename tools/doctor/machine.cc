#include "tools/doctor/machine.h"

#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include "engine/build_info.h"
#include "engine/seconds.h"
#include "kernels/cuda/device.h"
#include "kernels/thread_pool.h"
#include "tools/quantities.h"

namespace lectern::doctor {
namespace {

using tools::Bytes;

constexpr double kSlowDisk = 100e6;  // bytes a second
constexpr uint64_t kLittleMemory = uint64_t{1} << 30, kLittleDisk = uint64_t{1} << 30;

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<uint64_t> Number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end != text.data() ? std::optional(number) : std::nullopt;
}

// A file of this process's control group (version 2), or of one above it, as `Take` likes it.
template <typename Take>
void ForEachGroup(const std::string& file, Take take) {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::")) continue;
    for (std::string group = line.substr(3);;) {
      take(FirstLine("/sys/fs/cgroup" + group + "/" + file));
      if (group.size() <= 1) return;
      group.resize(group.rfind('/'));
    }
  }
}

// Cores that control groups leave us; 0: they set no limit.
double CoresOfGroup() {
  double cores = 0;
  ForEachGroup("cpu.max", [&](const std::string& line) {
    std::istringstream fields(line);
    double quota = 0, period = 0;
    if (!(fields >> quota >> period) || period <= 0) return;  // "max 100000"
    cores = cores == 0 ? quota / period : std::min(cores, quota / period);
  });
  return cores;
}

std::string Rounded(double number) {
  std::ostringstream text;
  text.precision(3);
  text << number;
  return text.str();
}

// The nearest folder at or above `path` that there is.
std::string ExistingFolder(Env& env, std::string path) {
  for (;;) {
    const auto there = env.Exists(path);
    const size_t slash = path.find_last_of('/');
    if ((there.ok() && *there) || slash == std::string::npos) break;
    path = slash == 0 ? "/" : path.substr(0, slash);
  }
  return path.empty() ? "." : path;
}

struct DiskSpeed {
  double write = 0, read = 0;  // bytes a second; 0: not measured
};

DiskSpeed MeasureDisk(const std::string& folder) {
  constexpr size_t kPiece = 1 << 20, kPieces = 64;
  constexpr double kLongest = 2;  // seconds of each
  const int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return {};
  std::vector<char> piece(kPiece);
  for (size_t i = 0; i < kPiece; ++i) piece[i] = static_cast<char>(i * 2654435761u >> 13);
  DiskSpeed speed;
  size_t written = 0, read_back = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (written < kPieces && SecondsSince(begin) < kLongest &&
         write(file, piece.data(), kPiece) == static_cast<ssize_t>(kPiece)) {
    ++written;
  }
  if (written > 0 && fsync(file) == 0) {
    speed.write = static_cast<double>(written * kPiece) / SecondsSince(begin);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);  // so that it is read from the disk
    const auto again = std::chrono::steady_clock::now();
    while (read_back < written && SecondsSince(again) < kLongest &&
           pread(file, piece.data(), kPiece, static_cast<off_t>(read_back * kPiece)) > 0) {
      ++read_back;
    }
    speed.read = static_cast<double>(read_back * kPiece) / SecondsSince(again);
  }
  close(file);
  return speed;
}

}  // namespace

Finding CheckInstructionSet(const Backend* backend) {
  Finding finding{.name = "instructions", .text = SimdTarget()};
  const auto build = ParseJson(BuildInfoJson());
  const Json* const built = build.ok() ? build->Find("instruction_sets") : nullptr;
  finding.values = {{"instruction_set", SimdTarget()},
                    {"built", built != nullptr ? *built : Json()},
                    {"kernels", backend != nullptr ? backend->name : ""}};
  if (built != nullptr && built->array() != nullptr) {
    std::string names;
    for (const Json& name : *built->array()) {
      names += (names.empty() ? "" : ", ") + *name.string();
    }
    finding.text += " of " + names;
  }
  const char* const forced = std::getenv("LECTERN_BACKEND");
  if (backend == nullptr) {
    finding.text += "; LECTERN_BACKEND is \"" + std::string(forced ? forced : "") + "\"";
    finding.code = Code::kInvalidArgument;
    return finding.Worsen(Verdict::kFail, "unset LECTERN_BACKEND, or name scalar or simd in it");
  }
  finding.text += ", kernels: " + std::string(backend->name);
  if (std::string_view(backend->name) == "scalar") {
    finding.Worsen(Verdict::kWarn,
                   "unset LECTERN_BACKEND: scalar kernels are the definitions, "
                   "many times slower");
  }
  const std::string_view target = SimdTarget();
  if (target.starts_with("EMU") || target.starts_with("SCALAR") || target == "SSE2") {
    finding.Worsen(Verdict::kWarn,
                   "this processor has none of the fast instruction sets: expect "
                   "a tenth of the usual speed");
  }
  return finding;
}

Finding CheckGpu() {
  Finding finding{.name = "gpu", .text = ""};
  Json::Array names, gpus;
  for (const Backend& backend : AvailableBackends()) names.emplace_back(backend.name);
  std::string why;
  std::vector<CudaDeviceInfo> devices;
  const CudaKernels* const kernels = LoadCudaKernels(&why);
  if (kernels != nullptr) {
    const CudaStatus listed = ListCudaDevices(*kernels, devices);
    if (!listed.ok()) why = CudaMessage(listed);
  }
  for (const CudaDeviceInfo& device : devices) {
    gpus.emplace_back(device.name);
    finding.text += (finding.text.empty() ? "" : ", ") + std::string("cuda:") +
                    std::to_string(device.index) + " " + device.name;
  }
  finding.text += devices.empty() ? "none (" + why + ")" : "; used where --device says so";
  finding.values = {{"usable", !devices.empty()},
                    {"gpus", std::move(gpus)},
                    {"backends", std::move(names)}};
  return finding;
}

Finding CheckThreads(uint64_t num_threads) {
  const size_t cores = DefaultThreads(), logical = std::thread::hardware_concurrency();
  const uint64_t used = num_threads > 0 ? num_threads : cores;
  const double of_group = CoresOfGroup();
  Finding finding{.name = "threads",
                  .text = std::to_string(used) + " of " + std::to_string(cores) +
                          " physical cores (" + std::to_string(logical) + " logical)"};
  finding.values = {{"threads", used},
                    {"physical_cores", uint64_t{cores}},
                    {"logical_cores", uint64_t{logical}},
                    {"group_cores", of_group > 0 ? Json(of_group) : Json()}};
  if (of_group > 0) finding.text += ", control group: " + Rounded(of_group);
  if (of_group > 0 && static_cast<double>(used) > std::ceil(of_group)) {
    finding.Worsen(Verdict::kWarn,
                   "--threads " + std::to_string(static_cast<int>(std::ceil(of_group))) +
                       ": more threads than the control group has cores wait for each other");
  } else if (used > cores) {
    finding.Worsen(Verdict::kWarn, "--threads " + std::to_string(cores) +
                                       ": more threads than cores are no faster");
  }
  return finding;
}

Finding CheckBlas() {
  std::string library;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        const std::string_view name = info->dlpi_name;
        const std::string_view file = name.substr(name.rfind('/') + 1);
        if (file.starts_with("libopenblas") || file.starts_with("libblas") ||
            file.starts_with("libmkl") || file.starts_with("libblis")) {
          *static_cast<std::string*>(found) = name;
        }
        return 0;
      },
      &library);
  char resolved[PATH_MAX];
  if (!library.empty() && realpath(library.c_str(), resolved)) library = resolved;
  Finding finding{.name = "blas", .text = library.empty() ? "built in" : library};
  finding.values = {{"library", library}};
  // Nothing that Lectern does is fast by it, and this one's threads look for work as the process
  // begins, for some 40 ms.
  const bool has_threads = library.find("/openblas-pthread/") != std::string::npos;
  finding.values["has_threads"] = has_threads;
  if (has_threads) {
    finding.text += " (libopenblas0-serial starts faster: it has no threads)";
  }
  return finding;
}

Memory AvailableMemory() {
  Memory memory{.limited_by = "the machine"};
  std::ifstream file("/proc/meminfo");
  for (std::string name, unit; file >> name;) {
    uint64_t kilobytes = 0;
    if (!(file >> kilobytes)) break;
    std::getline(file, unit);
    if (name == "MemTotal:") memory.total = kilobytes * 1024;
    if (name == "MemAvailable:") memory.available = kilobytes * 1024;
  }
  const auto limit = [&](uint64_t bytes, const char* by) {
    if (bytes < memory.available) memory.available = bytes, memory.limited_by = by;
  };
  uint64_t group = UINT64_MAX;
  ForEachGroup("memory.max", [&](const std::string& line) {
    if (const auto bytes = Number(line)) group = std::min(group, *bytes);  // else "max"
  });
  limit(group, "its control group");
  rlimit address{};
  if (getrlimit(RLIMIT_AS, &address) == 0 && address.rlim_cur != RLIM_INFINITY) {
    limit(address.rlim_cur, "ulimit -v");
  }
  return memory;
}

Finding CheckMemory(const Memory& memory) {
  Finding finding{.name = "memory",
                  .text = Bytes(memory.available) + " of " + Bytes(memory.total) +
                          " to be had, as " + memory.limited_by + " has it"};
  finding.values = {{"total_bytes", memory.total},
                    {"available_bytes", memory.available},
                    {"limited_by", memory.limited_by}};
  if (memory.available < kLittleMemory) {
    finding.Worsen(Verdict::kWarn,
                   "close other programs, raise the limit, or take a small model "
                   "with --weights q4");
  }
  return finding;
}

Finding CheckDisk(Env& env, const std::string& store, uint64_t* free_bytes) {
  const std::string folder = ExistingFolder(env, store);
  const auto free = env.FreeBytes(folder);
  if (!free.ok())
    return Finding::Failed("disk", free.status(), "give --store a folder that can be read");
  *free_bytes = *free;
  const DiskSpeed speed = MeasureDisk(folder);
  struct statfs system {};
  const bool is_memory = statfs(folder.c_str(), &system) == 0 && system.f_type == 0x01021994;
  const int64_t page = sysconf(_SC_PAGESIZE);
  Finding finding{.name = "disk", .text = Bytes(*free) + " free at " + folder};
  finding.values = {{"path", folder},
                    {"free_bytes", *free},
                    {"read_bytes_per_second", speed.read > 0 ? Json(speed.read) : Json()},
                    {"write_bytes_per_second", speed.write > 0 ? Json(speed.write) : Json()},
                    {"page_bytes", page},
                    {"is_memory", is_memory}};
  if (speed.read > 0) {
    finding.text += ", read at " + Bytes(static_cast<uint64_t>(speed.read)) + "/s, written at " +
                    Bytes(static_cast<uint64_t>(speed.write)) + "/s (64 MiB, once)";
  } else {
    finding.text += "; its speed cannot be measured (no file can be written there)";
  }
  if (is_memory) {
    finding.Worsen(Verdict::kWarn,
                   "this file system is memory, which documents would take and be "
                   "lost from: give --store a folder on a disk");
  }
  if (speed.read > 0 && speed.read < kSlowDisk) {
    finding.Worsen(Verdict::kWarn, "a slow disk: give --store a folder on a faster one");
  }
  if (*free < kLittleDisk) {
    finding.Worsen(Verdict::kWarn,
                   "make room, or give --store another folder: a document takes "
                   "far more than its text");
  }
  return finding;
}

Finding CheckPdf() {
  const char* const variable = std::getenv("PATH");
  std::istringstream folders(variable ? variable : "");
  Finding finding{.name = "pdf", .text = "pdftotext is not there: PDF files cannot be read"};
  finding.values["pdftotext"] = Json();
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string program = folder + "/pdftotext";
    if (access(program.c_str(), X_OK) != 0) continue;
    finding.text = program;
    finding.values["pdftotext"] = program;
    return finding;
  }
  return finding.Worsen(Verdict::kWarn, "install poppler-utils");
}

}  // namespace lectern::doctor
