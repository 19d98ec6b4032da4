#include "tests/kernels/cuda_emulation/emulation.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "tests/kernels/cuda_emulation/block.h"

dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace cuda_emulation {

namespace {

// ---- The machine

struct State {
  std::recursive_mutex mutex;
  Machine machine;
  Faults faults;
  uint64_t seed = 0, num_launches = 0, allocated = 0;
  // Draws which writes of a launch others do not see yet (0: they see all); whether they see none.
  uint64_t late = 0;
  bool is_all_late = false;
  std::atomic<uint64_t> num_launch_calls = 0, num_waits = 0;
  std::string report;
  std::map<void*, size_t> allocations;
  std::map<const void*, int> shared_allowed;
  StackPool stacks;
  bool is_late = false;
  std::set<EmulatedStream*> streams;
};
State& Global() {
  static auto* const state = new State;
  return *state;
}
Block* block = nullptr;

// Bits that have nothing of those of neighbours: the end of SplitMix64.
uint64_t Mixed(uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

cudaError_t RunGrid(const cudaLaunchConfig_t& config, const std::function<void()>& body) {
  State& state = Global();
  const std::lock_guard lock(state.mutex);
  if (state.faults.launches_left == 0) return cudaErrorLaunchFailure;
  if (state.faults.launches_left != Faults::kNever) --state.faults.launches_left;
  const uint64_t launch = ++state.num_launches;
  gridDim = config.gridDim;
  blockDim = config.blockDim;
  const size_t count = size_t{gridDim.x} * gridDim.y * gridDim.z;
  uint64_t random = state.seed == 0 ? 0 : Mixed(state.seed * 0x9E3779B97F4A7C15u ^ launch) | 1;
  state.late = random;
  state.is_all_late = (random >> 33 & 1) != 0;
  const size_t first = random % count;
  const std::vector<uint64_t> order(2);
  // Their memory is given back by the host, which comes after their threads at the end alone.
  std::vector<std::unique_ptr<Block>> ended;
  Release(&order[0]);
  for (size_t i = 0; i < count; ++i) {
    // From a drawn block on, upwards or downwards.
    const size_t at = random >> 32 & 1 ? (first + count - i) % count : (first + i) % count;
    blockIdx = {static_cast<unsigned>(at % gridDim.x),
                static_cast<unsigned>(at / gridDim.x % gridDim.y),
                static_cast<unsigned>(at / gridDim.x / gridDim.y)};
    auto running = std::make_unique<Block>(state.stacks, random == 0 ? 0 : random + at + 1,
                                           config.dynamicSmemBytes, order.data());
    block = running.get();
    std::string report = running->Run(body);
    block = nullptr;
    if (kLeastStacks > 0) ended.push_back(std::move(running));
    if (report.empty()) continue;
    state.report = "block (" + std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) +
                   ", " + std::to_string(blockIdx.z) + "): " + report;
    return cudaErrorLaunchFailure;
  }
  Acquire(&order[1]);
  return cudaSuccess;
}

}  // namespace

void SyncThreads() { block->SyncThreads(); }
void SyncWarp(uint32_t mask) { block->SyncWarp(mask); }
void Fence() { block->Fence(); }
void MeetAtomically(const void* at) { block->MeetAtomically(at); }
void MeetWarp(uint32_t mask, const char* name, void* argument, void (*run)(void* const* lanes)) {
  block->MeetWarp(mask, name, argument, run);
}
void WaitForEarlierKernels() { block->WaitForEarlierKernels(); }
int Lane() { return block->lane(); }
unsigned char* SharedBytes() { return block->shared(); }
void CopyAsync(void* to, const void* from, size_t bytes) { block->CopyAsync(to, from, bytes); }
void CommitCopies() { block->CommitCopies(); }
void WaitCopies(int groups_left) { block->WaitCopies(groups_left); }

bool DrawsLate() {  // of a kernel's thread: the lock is held
  uint64_t& late = Global().late;
  if (late != 0) late = late * 6364136223846793005u + 1442695040888963407u;
  return Global().is_all_late || late >> 58 != 0;  // mostly, so that many in a row are
}

uint32_t VoteOf(uint32_t mask, bool vote) {
  Ballot ballot{vote, 0};
  MeetWarp(mask, "ballot", &ballot, [](void* const* lanes) {
    uint32_t result = 0;
    for (int i = 0; i < kWarp; ++i) {
      if (lanes[i] != nullptr && static_cast<Ballot*>(lanes[i])->vote) result |= 1u << i;
    }
    for (int i = 0; i < kWarp; ++i) {
      if (lanes[i] != nullptr) static_cast<Ballot*>(lanes[i])->result = result;
    }
  });
  return ballot.result;
}

void SetSeed(uint64_t seed) {
  const std::lock_guard lock(Global().mutex);
  Global().seed = seed;
}
void SetMachine(const Machine& machine) {
  const std::lock_guard lock(Global().mutex);
  Global().machine = machine;
}
void SetFaults(const Faults& faults) {
  const std::lock_guard lock(Global().mutex);
  Global().faults = faults;
}
std::string TakeReport() {
  const std::lock_guard lock(Global().mutex);
  return std::exchange(Global().report, {});
}
void SetLate(bool is_late) {
  const std::lock_guard lock(Global().mutex);
  Global().is_late = is_late;
}
uint64_t AllocatedBytes() {
  const std::lock_guard lock(Global().mutex);
  return Global().allocated;
}
uint64_t NumLaunches() {
  const std::lock_guard lock(Global().mutex);
  return Global().num_launches;
}
uint64_t NumLaunchCalls() { return Global().num_launch_calls; }
uint64_t NumWaits() { return Global().num_waits; }

}  // namespace cuda_emulation

// ---- The runtime's functions

using cuda_emulation::Global;

struct EmulatedGraph {
  std::vector<std::function<cudaError_t()>> work;
};
struct EmulatedStream {
  std::unique_ptr<EmulatedGraph> recording;
  cudaError_t error = cudaSuccess;  // sticks
  std::vector<std::function<cudaError_t()>> late;
  // Runs it now or later, or records it.
  cudaError_t Enqueue(std::function<cudaError_t()> work) {
    if (recording) {
      recording->work.push_back(std::move(work));
      return cudaSuccess;
    }
    if (Global().is_late) {
      const std::lock_guard lock(Global().mutex);
      late.push_back(std::move(work));
      return cudaSuccess;
    }
    if (error == cudaSuccess) error = work();
    return cudaSuccess;  // as on a device, errors of the work come later
  }
  void RunLate() {
    const std::lock_guard lock(Global().mutex);
    for (const auto& work : std::exchange(late, {})) {
      if (error == cudaSuccess) error = work();
    }
  }
};

namespace cuda_emulation {

cudaError_t Launch(const cudaLaunchConfig_t& config, const void* kernel,
                   std::function<void()> body) {
  const auto& [grid, threads, shared, stream, attributes, num_attributes] = config;
  const size_t count = size_t{threads.x} * threads.y * threads.z;
  const std::lock_guard lock(Global().mutex);
  const auto allowed = Global().shared_allowed.find(kernel);
  const size_t most =
      allowed == Global().shared_allowed.end() ? 48 << 10 : static_cast<size_t>(allowed->second);
  const bool is_possible = count >= 1 && count <= 1024 && grid.x >= 1 && grid.y >= 1 &&
                           grid.z >= 1 && grid.y <= 65535 && grid.z <= 65535 && shared <= most;
  if (!is_possible) return cudaErrorInvalidValue;
  ++Global().num_launch_calls;
  return stream->Enqueue([=] { return RunGrid(config, body); });
}

cudaError_t AllowShared(const void* kernel, int bytes) {
  if (bytes < 0 || static_cast<uint32_t>(bytes) > Global().machine.shared_bytes) {
    return cudaErrorInvalidValue;
  }
  const std::lock_guard lock(Global().mutex);
  Global().shared_allowed[kernel] = bytes;
  return cudaSuccess;
}

}  // namespace cuda_emulation

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
  }
  return "unknown error";
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) {
  const auto& machine = Global().machine;
  *count = 0;
  if (machine.driver < 12000) return cudaErrorInsufficientDriver;
  if (machine.num_devices == 0) return cudaErrorNoDevice;
  *count = machine.num_devices;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = Global().machine.driver;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const auto& machine = Global().machine;
  if (device < 0 || device >= machine.num_devices) return cudaErrorInvalidDevice;
  *properties = {
      "emulated",           machine.major,       0, static_cast<int>(machine.num_multiprocessors),
      machine.memory_bytes, machine.shared_bytes};
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return device >= 0 && device < Global().machine.num_devices ? cudaSuccess
                                                              : cudaErrorInvalidDevice;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(Global().mutex);
  *total = Global().machine.memory_bytes;
  *free = *total - std::min<uint64_t>(*total, Global().allocated);
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** data, size_t bytes) {
  auto& state = Global();
  const std::lock_guard lock(state.mutex);
  if (bytes > state.machine.memory_bytes - state.allocated) return cudaErrorMemoryAllocation;
  if (state.faults.allocations_left == 0) return cudaErrorMemoryAllocation;
  if (state.faults.allocations_left != cuda_emulation::Faults::kNever) {
    --state.faults.allocations_left;
  }
  // Exactly so many bytes, so that AddressSanitizer finds reads past them.
  *data = ::operator new(std::max<size_t>(bytes, 1), std::align_val_t(256));
  std::memset(*data, 0xFF, bytes);
  state.allocations[*data] = bytes;
  state.allocated += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  auto& state = Global();
  const std::lock_guard lock(state.mutex);
  for (EmulatedStream* const stream : state.streams) stream->RunLate();
  const auto found = state.allocations.find(data);
  if (found == state.allocations.end()) return cudaErrorInvalidValue;
  state.allocated -= found->second;
  state.allocations.erase(found);
  ::operator delete(data, std::align_val_t(256));
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, size_t bytes) {
  if (!Global().faults.has_pinned) return cudaErrorMemoryAllocation;
  *data = std::malloc(std::max<size_t>(bytes, 1));
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new EmulatedStream;
  const std::lock_guard lock(Global().mutex);
  Global().streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    const std::lock_guard lock(Global().mutex);
    stream->RunLate();
    Global().streams.erase(stream);
  }
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream->recording) return cudaErrorStreamCaptureUnsupported;
  ++Global().num_waits;
  if (Global().is_late) stream->RunLate();
  return stream->error;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (stream->recording && kind != cudaMemcpyDeviceToDevice) {
    return cudaErrorStreamCaptureUnsupported;
  }
  return stream->Enqueue([=] {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return cudaSuccess;
  });
}
cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t stream) {
  return stream->Enqueue([=] {
    if (bytes > 0) std::memset(to, byte, bytes);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  stream->recording = std::make_unique<EmulatedGraph>();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = stream->recording.release();
  if (!Global().faults.can_record) {
    delete std::exchange(*graph, nullptr);
    return cudaErrorStreamCaptureUnsupported;
  }
  return *graph != nullptr ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new EmulatedGraph(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  ++Global().num_launch_calls;
  for (const auto& work : exec->work) (void)stream->Enqueue(work);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
