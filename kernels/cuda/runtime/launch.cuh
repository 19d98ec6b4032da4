// Enqueues kernels on streams, for the launches that the table of kernels.h holds.
#ifndef LECTERN_KERNELS_CUDA_RUNTIME_LAUNCH_CUH_
#define LECTERN_KERNELS_CUDA_RUNTIME_LAUNCH_CUH_

#include <cuda_runtime.h>

#include "kernels/cuda/runtime/kernels.h"

namespace lectern {

// A stream of the table. One thread at a time.
struct CudaStreamHandle {
  int device;
  cudaStream_t stream;
  void* blas = nullptr;  // cuBLAS's handle, and memory for it, from the first product on
  void* workspace = nullptr;
  bool overlaps = false;  // see Launch
};
// For what waits for the whole device, as cublasDestroy and cudaFree do: that is not permitted
// while any stream of it records a graph, and ends the recording. The constructor waits until no
// other thread records, and none begins to while the object lives. On the thread that records
// itself it does not wait, and protects nothing.
class WhileNobodyRecords {
 public:
  WhileNobodyRecords();
  ~WhileNobodyRecords();
  WhileNobodyRecords(const WhileNobodyRecords&) = delete;

 private:
  const bool is_alone_;
};

// Frees cuBLAS's handle and memory of a stream whose work has ended, where there are any.
void FinishMatMul(CudaStreamHandle* handle);
// Whether the thread's current device runs code in which kernels wait for earlier ones themselves.
bool KernelsCanOverlap();

// CUDA's result as a status; `during` must live forever.
inline CudaStatus ToStatus(cudaError_t error, const char* during) {
  switch (error) {
    case cudaSuccess:
      return {};
    case cudaErrorMemoryAllocation:
      return {CudaCode::kOutOfDeviceMemory, during, cudaGetErrorString(error)};
    case cudaErrorNoDevice:
      return {CudaCode::kNoGpu, during, cudaGetErrorString(error)};
    case cudaErrorInsufficientDriver:
      return {CudaCode::kDriverTooOld, during, cudaGetErrorString(error)};
    default:
      return {CudaCode::kFailed, during, cudaGetErrorString(error)};
  }
}

// Kernels take their arguments as one struct. A block's shared memory is all dynamic. On devices
// that can (compute capability 9.0 on, "programmatic dependent launch") launches of a stream
// overlap: a kernel's blocks are brought while the kernel before it ends, and then wait
// (WaitForEarlierKernels). A decode step is hundreds of short kernels, and the start of one need
// not wait for the end of the one before. A graph keeps this. How much time it saves is not
// measured yet (tests/GPU-PENDING.md).
template <typename Args>
CudaStatus Launch(CudaStreamHandle* stream, const CudaGrid& grid, const char* name,
                  void (*kernel)(Args), const Args& args) {
  cudaError_t error = cudaSetDevice(stream->device);  // of this thread: it may be another's turn
  constexpr uint32_t kAlwaysAllowed = 48 << 10;
  if (error == cudaSuccess && grid.shared_bytes > kAlwaysAllowed) {
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(grid.shared_bytes));
  }
  if (error != cudaSuccess) return ToStatus(error, name);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3{grid.x, grid.y, grid.z};
  config.blockDim = dim3{grid.threads, 1, 1};
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = stream->stream;
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &overlap;
  config.numAttrs = stream->overlaps ? 1 : 0;
  return ToStatus(cudaLaunchKernelEx(&config, kernel, args), name);
}

CudaLaunch<CudaMatMulArgs> LaunchMatMul;
CudaLaunch<CudaRmsNormArgs> LaunchRmsNorm;
CudaLaunch<CudaRopeArgs> LaunchRope;
CudaLaunch<CudaGluArgs> LaunchGlu;
CudaLaunch<CudaSoftcapArgs> LaunchSoftcap;
CudaLaunch<CudaAddArgs> LaunchAdd;
CudaLaunch<CudaStoreRowsArgs> LaunchStoreRows;
CudaLaunch<CudaAssignArgs> LaunchAssign;
CudaLaunch<CudaAttendArgs> LaunchAttend;
CudaLaunch<CudaJoinArgs> LaunchJoin;
CudaLaunch<CudaCutItemsArgs> LaunchCutItems;
CudaLaunch<CudaKeyLogitsArgs> LaunchKeyLogits;
CudaLaunch<CudaKeySquaresArgs> LaunchKeySquares;
CudaLaunch<CudaRowLookupPass> LaunchRowQueries;
CudaLaunch<CudaRowLookupPass> LaunchRowClusters;
CudaLaunch<CudaRowLookupPass> LaunchRowSlots;
CudaLaunch<CudaRowLookupPass> LaunchRowLogits;
CudaLaunch<CudaRowLookupPass> LaunchRowRefine;
CudaLaunch<CudaRowLookupPass> LaunchRowScores;
CudaLaunch<CudaRowListPass> LaunchRowList;
CudaLaunch<CudaRowLookupPass> LaunchRowTail;
CudaLaunch<CudaQuestionLookupPass> LaunchQuestionQueries;
CudaLaunch<CudaQuestionLookupPass> LaunchQuestionClusters;
CudaLaunch<CudaQuestionLookupPass> LaunchQuestionClusterScores;
CudaLaunch<CudaQuestionLookupPass> LaunchQuestionCoded;
CudaLaunch<CudaQuestionLookupPass> LaunchQuestionCodes;
CudaLaunch<CudaQuestionLookupPass> LaunchQuestionRefined;
CudaLaunch<CudaQuestionLookupPass> LaunchQuestionFineCodes;
CudaLaunch<CudaQuestionLookupPass> LaunchQuestionScores;
CudaLaunch<CudaQuestionLookupPass> LaunchQuestionTail;
CudaLaunch<CudaPlaceRowsArgs> LaunchPlaceRows;
CudaLaunch<CudaRowCosinesArgs> LaunchRowCosines;

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_RUNTIME_LAUNCH_CUH_
