// Stands in for CUDA's header of this name where kernels are compiled as ordinary C++: the names
// that they use, and no more. emulation.h says what runs them and what it finds.
#ifndef LECTERN_TESTS_KERNELS_CUDA_EMULATION_CUDA_RUNTIME_H_
#define LECTERN_TESTS_KERNELS_CUDA_EMULATION_CUDA_RUNTIME_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

// Marks functions that stand for the device's own work on the numbers of several threads: where
// ThreadSanitizer watches kernels (emulation.h), it takes their accesses for nobody's.
#if defined(__SANITIZE_THREAD__)
#define LECTERN_OF_THE_DEVICE __attribute__((no_sanitize("thread")))
extern "C" void __tsan_read16(void* address);
#else
#define LECTERN_OF_THE_DEVICE
#endif

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

// ---- Inside a kernel

extern dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace cuda_emulation {
// Only for threads of a kernel that runs. Each may let other threads run first; a mistake ends the
// launch with a report (emulation.h).
void SyncThreads();
void SyncWarp(uint32_t mask);
void Fence();
void MeetAtomically(const void* at);
// All lanes of `mask` meet; the last to come calls run(arguments of each lane, null outside).
void MeetWarp(uint32_t mask, const char* name, void* argument, void (*run)(void* const* lanes));
int Lane();
unsigned char* SharedBytes();
void CopyAsync(void* to, const void* from, size_t bytes);  // 16 bytes; the rest of them zero
void CommitCopies();
void WaitCopies(int groups_left);
bool DrawsLate();              // whether something is not seen yet
void WaitForEarlierKernels();  // what every thread of a launch that may overlap must do first

template <typename T>
struct Shuffle {
  T value;
  int from;
  T result;
  LECTERN_OF_THE_DEVICE static void Run(void* const* lanes) {
    for (int i = 0; i < 32; ++i) {
      if (lanes[i] == nullptr) continue;
      auto& lane = *static_cast<Shuffle*>(lanes[i]);
      const auto* source = static_cast<const Shuffle*>(lanes[lane.from]);
      // An absent lane's value is undefined: its bytes are NaN.
      if (source != nullptr) {
        lane.result = source->value;
      } else {
        std::memset(static_cast<void*>(&lane.result), 0xFF, sizeof(T));
      }
    }
  }
};
template <typename T>
T ShuffleFrom(uint32_t mask, T value, int from) {
  Shuffle<T> shuffle{value, from, {}};
  MeetWarp(mask, "shuffle", &shuffle, Shuffle<T>::Run);
  return shuffle.result;
}
struct Ballot {
  bool vote;
  uint32_t result;
};
uint32_t VoteOf(uint32_t mask, bool vote);
}  // namespace cuda_emulation

inline void __syncthreads() { cuda_emulation::SyncThreads(); }
inline void __syncwarp(uint32_t mask = 0xFFFFFFFFu) { cuda_emulation::SyncWarp(mask); }
template <typename T>
T __shfl_sync(uint32_t mask, T value, int lane) {
  return cuda_emulation::ShuffleFrom(mask, value, lane & 31);
}
template <typename T>
T __shfl_xor_sync(uint32_t mask, T value, int bits) {
  return cuda_emulation::ShuffleFrom(mask, value, cuda_emulation::Lane() ^ bits);
}
template <typename T>
T __shfl_up_sync(uint32_t mask, T value, unsigned delta) {
  const int lane = cuda_emulation::Lane(), from = lane - static_cast<int>(delta);
  return cuda_emulation::ShuffleFrom(mask, value, from < 0 ? lane : from);
}
inline uint32_t __ballot_sync(uint32_t mask, bool vote) {
  return cuda_emulation::VoteOf(mask, vote);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __int_as_float(int x) {
  float y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}
inline int __float_as_int(float x) {
  int y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}
// Relaxed, as the device's are.
template <typename T>
T AddAtomically(T* address, T value) {
  const T before = __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
#if defined(__SANITIZE_THREAD__)
  cuda_emulation::MeetAtomically(address);
#endif
  return before;
}
inline uint32_t atomicAdd(uint32_t* address, uint32_t value) {
  return AddAtomically(address, value);
}
inline unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
  // The number may be kept as uint64_t, which may be another type.
  using Aliased [[gnu::may_alias]] = unsigned long long;
  return AddAtomically<Aliased>(address, value);
}
inline void __threadfence() {
#if defined(__SANITIZE_THREAD__)
  cuda_emulation::Fence();
#endif
}
template <typename T>
T __ldcg(const T* address) {
  return *address;
}
using std::max;
using std::min;

// ---- Outside

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed = 1 };
struct cudaDeviceProp {
  char name[256];
  int major, minor, multiProcessorCount;
  size_t totalGlobalMem, sharedMemPerBlockOptin;
};
struct EmulatedStream;
struct EmulatedGraph;
using cudaStream_t = EmulatedStream*;
using cudaGraph_t = EmulatedGraph*;
using cudaGraphExec_t = EmulatedGraph*;
constexpr unsigned cudaStreamNonBlocking = 1;

// As CUDA's functions of these names, on the machine of SetMachine and with the faults of SetFaults
// (emulation.h). Work that is enqueued fails at once only where it cannot be recorded; else its
// first error is the stream's, which cudaStreamSynchronize returns from then on. Any thread.
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMalloc(void** data, size_t bytes);
cudaError_t cudaFree(void* data);
cudaError_t cudaMallocHost(void** data, size_t bytes);
cudaError_t cudaFreeHost(void* data);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
union cudaLaunchAttributeValue {
  int programmaticStreamSerializationAllowed;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};
struct cudaFuncAttributes {
  int ptxVersion;
};
namespace cuda_emulation {
// Enqueues `body` for each thread of the grid. cudaErrorInvalidValue: sizes that a device refuses,
// or more shared memory than AllowShared has allowed the kernel (48 KiB without). AllowShared
// refuses more than the machine has.
cudaError_t Launch(const cudaLaunchConfig_t& config, const void* kernel,
                   std::function<void()> body);
cudaError_t AllowShared(const void* kernel, int bytes);
}  // namespace cuda_emulation
template <typename... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Args...),
                               Args... args) {
  return cuda_emulation::Launch(*config, reinterpret_cast<const void*>(kernel),
                                [=] { kernel(args...); });
}
template <typename Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Kernel*) {
  *attributes = {90};
  return cudaSuccess;
}
template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute, int value) {
  return cuda_emulation::AllowShared(reinterpret_cast<const void*>(kernel), value);
}

#endif  // LECTERN_TESTS_KERNELS_CUDA_EMULATION_CUDA_RUNTIME_H_
