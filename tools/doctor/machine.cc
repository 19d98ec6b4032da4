#include "tools/doctor/machine.h"

#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "engine/api/build_info.h"
#include "engine/requests/seconds.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/process_limits.h"
#include "tools/default_reader.h"
#include "tools/find_program.h"
#include "tools/quantities.h"

namespace lectern::doctor {
namespace {

using tools::Bytes;

// Limits of the warnings: chosen, not measured.
constexpr double kSlowDisk = 100e6;  // bytes a second
constexpr uint64_t kLittleMemory = uint64_t{1} << 30, kLittleDisk = uint64_t{1} << 30;

// Three significant digits.
std::string Rounded(double number) {
  std::ostringstream text;
  text.precision(3);
  text << number;
  return text.str();
}

// The nearest folder at or above `path` that exists; "." where a relative path has none.
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

// Writes and reads up to 64 MiB in a file without a name (O_TMPFILE), which goes when it is closed,
// also if this process is killed. Not measured where the file system has no such files or may not
// be written.
DiskSpeed MeasureDisk(const std::string& folder) {
  constexpr size_t kPiece = 1 << 20, kPieces = 64;
  constexpr double kLongest = 2;  // seconds of each
  const int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return {};
  std::vector<char> piece(kPiece);
  // Bytes that look random: a file system that compresses would write next to nothing else.
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
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);  // else it would be read from memory
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

namespace {

// The name of one of Highway's targets in the words of users; others are known by their own (AVX2,
// NEON).
std::string InstructionSetName(std::string_view target) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"AVX3_DL", "AVX-512 with VNNI"},  {"AVX3_ZEN4", "AVX-512 with VNNI"},
      {"AVX3_SPR", "AVX-512 with VNNI"}, {"AVX3", "AVX-512"},
      {"SCALAR", "plain C++"},           {"EMU128", "none (plain C++)"}};
  for (const auto& [name, words] : kNames) {
    if (target == name) return std::string(words);
  }
  return std::string(target);  // AVX2, SSE4, NEON, …
}

}  // namespace

Finding CheckInstructionSet(const Backend* backend) {
  Finding finding{.name = "instructions", .text = "uses " + InstructionSetName(SimdTarget())};
  const auto build = ParseJson(BuildInfoJson());
  const Json* const built = build.ok() ? build->Find("instruction_sets") : nullptr;
  finding.values = {{"instruction_set", SimdTarget()},
                    {"built", built != nullptr ? *built : Json()},
                    {"kernels", backend != nullptr ? backend->name : ""}};
  if (built != nullptr && built->array() != nullptr) {
    std::string names;
    for (const Json& name : *built->array()) {
      names += (names.empty() ? "" : ", ") + InstructionSetName(*name.string());
    }
    finding.text += "; this program was built for: " + names;
  }
  const char* const forced = std::getenv("LECTERN_BACKEND");
  if (backend == nullptr) {
    finding.text = "LECTERN_BACKEND is \"" + std::string(forced ? forced : "") +
                   "\", which names no kernels that this machine can run";
    finding.code = Code::kInvalidArgument;
    return finding.Worsen(Verdict::kFail, "unset LECTERN_BACKEND, or name scalar or simd in it");
  }
  if (std::string_view(backend->name) == "scalar") {
    finding.text = "uses the slow reference kernels, as LECTERN_BACKEND is \"scalar\"";
    finding.Worsen(Verdict::kWarn, "unset LECTERN_BACKEND: the fast kernels are many times faster");
  }
  const std::string_view target = SimdTarget();
  if (target.starts_with("EMU") || target.starts_with("SCALAR") || target == "SSE2") {
    finding.Worsen(
        Verdict::kWarn,
        "this processor has none of the fast instruction sets: expect a tenth of the usual "
        "speed");
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
  if (devices.empty()) {
    // The usual case is no failure: most machines have no such GPU, and the library is a package of
    // its own.
    const bool is_missing = why.find("liblectern_cuda.so.1: cannot open shared") != why.npos;
    finding.text = is_missing ? "none is used; for an NVIDIA GPU, liblectern_cuda.so.1 would have "
                                "to be installed"
                              : "none can be used: " + why;
  } else {
    finding.text += "; used with --device cuda";
  }
  finding.values = {{"usable", !devices.empty()},
                    {"gpus", std::move(gpus)},
                    {"backends", std::move(names)}};
  return finding;
}

Finding CheckThreads(uint64_t num_threads) {
  const std::vector<int> cpus = AllowedCpus();
  const size_t cores = PhysicalCores(cpus), logical = std::thread::hardware_concurrency();
  const uint64_t usable = UsableCores(cpus), used = num_threads > 0 ? num_threads : usable;
  const std::optional<double> granted = GroupCores();
  Finding finding{.name = "threads",
                  .text = std::to_string(used) + (used == 1 ? " thread is" : " threads are") +
                          " used; this process may run on " + std::to_string(cores) +
                          (cores == 1 ? " physical core (" : " physical cores (") +
                          std::to_string(logical) + " logical CPUs in the machine)"};
  finding.values = {{"threads", used},
                    {"physical_cores", uint64_t{cores}},
                    {"logical_cores", uint64_t{logical}},
                    {"group_cores", granted ? Json(*granted) : Json()}};
  if (granted) {
    finding.text +=
        ", of which its container or control group grants the time of " + Rounded(*granted);
  }
  if (used > usable) {
    finding.Worsen(Verdict::kWarn, "--threads " + std::to_string(usable) +
                                       ": more threads than usable cores wait for each other");
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
  // Debian's libblas.so.3 is a link to one of several libraries: the real file tells which.
  char resolved[PATH_MAX];
  if (!library.empty() && realpath(library.c_str(), resolved)) library = resolved;
  Finding finding{.name = "blas", .text = library.empty() ? "compiled in" : library};
  finding.values = {{"library", library}};
  // Lectern gains nothing from OpenBLAS's threads, and they spin for some 40 ms as the process
  // begins.
  const bool has_threads = library.find("/openblas-pthread/") != std::string::npos;
  finding.values["has_threads"] = has_threads;
  if (has_threads) {
    finding.text +=
        "; programs start faster with the package libopenblas0-serial, as Lectern needs no "
        "threads of this library";
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
  if (const auto group = GroupMemoryBytes()) limit(*group, "its container or control group");
  rlimit address{};
  if (getrlimit(RLIMIT_AS, &address) == 0 && address.rlim_cur != RLIM_INFINITY) {
    limit(address.rlim_cur, "ulimit -v");
  }
  return memory;
}

Finding CheckMemory(const Memory& memory) {
  Finding finding{
      .name = "memory",
      .text = Bytes(memory.available) + " available of " + Bytes(memory.total) + " in the machine"};
  if (memory.limited_by != "the machine") finding.text += "; limited by " + memory.limited_by;
  finding.values = {{"total_bytes", memory.total},
                    {"available_bytes", memory.available},
                    {"limited_by", memory.limited_by}};
  if (memory.available < kLittleMemory) {
    finding.Worsen(Verdict::kWarn,
                   "close other programs, raise the limit, or use a small model "
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
  // 0x01021994: TMPFS_MAGIC of statfs(2).
  const bool is_memory = statfs(folder.c_str(), &system) == 0 && system.f_type == 0x01021994;
  const int64_t page = sysconf(_SC_PAGESIZE);
  Finding finding{.name = "disk", .text = Bytes(*free) + " free in " + folder};
  finding.values = {{"path", folder},
                    {"free_bytes", *free},
                    {"read_bytes_per_second", speed.read > 0 ? Json(speed.read) : Json()},
                    {"write_bytes_per_second", speed.write > 0 ? Json(speed.write) : Json()},
                    {"page_bytes", page},
                    {"is_memory", is_memory}};
  if (speed.read > 0) {
    finding.text += ", reads " + Bytes(static_cast<uint64_t>(speed.read)) + "/s and writes " +
                    Bytes(static_cast<uint64_t>(speed.write)) + "/s (a test with 64 MiB)";
  } else {
    finding.text += "; its speed is not known, as no file can be written there";
  }
  if (is_memory) {
    finding.Worsen(Verdict::kWarn,
                   "this folder is in memory: documents would use memory and be lost when the "
                   "machine stops; give --store a folder on a disk");
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
  const std::string program = tools::FindProgram("pdftotext");
  if (!program.empty()) {
    Finding finding{.name = "pdf", .text = "PDF files are read with " + program};
    finding.values["pdftotext"] = program;
    return finding;
  }
  Finding finding{.name = "pdf",
                  .text = "PDF files cannot be read: the program pdftotext is not installed"};
  finding.values["pdftotext"] = Json();
  return finding.Worsen(Verdict::kWarn, "install poppler-utils");
}

Finding CheckReader() {
  auto reader = tools::DefaultReader();
  if (!reader.ok()) {
    return Finding::Failed("reader",
                           Status(Code::kNotFound, reader.error().message).WithParam("model"),
                           "install Lectern's tools whole, or name a model with --model");
  }
  Finding finding{.name = "reader", .text = "documents are read by "};
  finding.values["model"] = reader->model;
  finding.values["adapter"] = reader->adapter;
  finding.values["bundled"] = reader->is_bundled();
  if (!reader->is_bundled()) {
    finding.text += std::string(tools::kReleasedModel) + ", " + reader->model;
    return finding;
  }
  finding.text += tools::kBundledModel;
  return finding.Worsen(Verdict::kWarn, std::string("index-document --yes fetches ") +
                                            tools::kReleasedModel +
                                            " (90 MB), or name a model with --model");
}

}  // namespace lectern::doctor
