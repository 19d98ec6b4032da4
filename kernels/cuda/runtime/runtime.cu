// The table: devices, memory, streams and graphs by CUDA's runtime, and the launches.
#include "kernels/cuda/runtime/launch.cuh"

#include <cstring>
#include <new>
#include <shared_mutex>
#include <utility>

namespace lectern {

struct CudaGraphHandle {
  int device;
  cudaGraphExec_t exec;
};

namespace {

std::shared_mutex recordings;            // shared by those who record
thread_local bool is_recording = false;  // this thread: it would wait for itself

}  // namespace

WhileNobodyRecords::WhileNobodyRecords() : is_alone_(!is_recording) {
  if (is_alone_) recordings.lock();
}
WhileNobodyRecords::~WhileNobodyRecords() {
  if (is_alone_) recordings.unlock();
}

namespace {

CudaStatus CountDevices(int* count) {
  *count = 0;
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return {CudaCode::kNoGpu, "count devices", "no NVIDIA driver"};
  }
  return ToStatus(cudaGetDeviceCount(count), "count devices");
}

CudaStatus DescribeDevice(int device, CudaDeviceInfo* info) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error != cudaSuccess) return ToStatus(error, "describe a device");
  *info = {};
  info->index = device;
  std::memcpy(info->name, properties.name, sizeof info->name - 1);  // what is longer is cut
  info->major = properties.major;
  info->minor = properties.minor;
  info->num_multiprocessors = static_cast<uint32_t>(properties.multiProcessorCount);
  info->total_bytes = properties.totalGlobalMem;
  info->shared_bytes_per_block = static_cast<uint32_t>(properties.sharedMemPerBlockOptin);
  return {};
}

CudaStatus MeasureMemory(int device, uint64_t* free_bytes) {
  size_t free = 0, total = 0;
  cudaError_t error = cudaSetDevice(device);
  if (error == cudaSuccess) error = cudaMemGetInfo(&free, &total);
  *free_bytes = free;
  return ToStatus(error, "measure a device's memory");
}

CudaStatus Allocate(int device, size_t bytes, void** data) {
  const WhileNobodyRecords alone;
  cudaError_t error = cudaSetDevice(device);
  if (error == cudaSuccess) error = cudaMalloc(data, bytes == 0 ? 1 : bytes);
  if (error == cudaErrorMemoryAllocation) (void)cudaGetLastError();  // it is not the next call's
  return ToStatus(error, "allocate");
}
void Release(int device, void* data) {
  const WhileNobodyRecords alone;
  if (cudaSetDevice(device) == cudaSuccess) (void)cudaFree(data);
}
CudaStatus AllocatePinned(int device, size_t bytes, void** data) {
  const WhileNobodyRecords alone;
  cudaError_t error = cudaSetDevice(device);
  if (error == cudaSuccess) error = cudaMallocHost(data, bytes == 0 ? 1 : bytes);
  if (error != cudaSuccess) (void)cudaGetLastError();  // who can do without goes on
  return ToStatus(error, "allocate pinned memory");
}
void ReleasePinned(void* data) {
  const WhileNobodyRecords alone;
  (void)cudaFreeHost(data);
}

void SetOverlap(CudaStreamHandle* handle, bool is_wanted) {
  handle->overlaps =
      is_wanted && cudaSetDevice(handle->device) == cudaSuccess && KernelsCanOverlap();
}
void FreeStream(CudaStreamHandle* handle) {
  const WhileNobodyRecords alone;
  if (cudaSetDevice(handle->device) == cudaSuccess) {
    (void)cudaStreamSynchronize(handle->stream);
    FinishMatMul(handle);
    (void)cudaStreamDestroy(handle->stream);
  }
  delete handle;
}

CudaStatus CreateStream(int device, CudaStreamHandle** handle) {
  *handle = nullptr;
  cudaStream_t stream = nullptr;
  cudaError_t error = cudaSetDevice(device);
  if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return ToStatus(error, "create a stream");
  *handle = new (std::nothrow) CudaStreamHandle{device, stream};
  if (*handle != nullptr) {
    (*handle)->overlaps = KernelsCanOverlap();
    return {};
  }
  (void)cudaStreamDestroy(stream);
  return {CudaCode::kFailed, "create a stream", "no memory"};
}

CudaStatus Copy(CudaStreamHandle* handle, void* to, const void* from, size_t bytes,
                cudaMemcpyKind kind) {
  if (bytes == 0) return {};  // of pointers that may be none
  cudaError_t error = cudaSetDevice(handle->device);
  if (error == cudaSuccess) error = cudaMemcpyAsync(to, from, bytes, kind, handle->stream);
  return ToStatus(error, "copy");
}
CudaStatus CopyToDevice(CudaStreamHandle* handle, void* to, const void* from, size_t bytes) {
  return Copy(handle, to, from, bytes, cudaMemcpyHostToDevice);
}
CudaStatus CopyFromDevice(CudaStreamHandle* handle, void* to, const void* from, size_t bytes) {
  return Copy(handle, to, from, bytes, cudaMemcpyDeviceToHost);
}
CudaStatus CopyOnDevice(CudaStreamHandle* handle, void* to, const void* from, size_t bytes) {
  return Copy(handle, to, from, bytes, cudaMemcpyDeviceToDevice);
}
CudaStatus Fill(CudaStreamHandle* handle, void* to, uint8_t byte, size_t bytes) {
  if (bytes == 0) return {};
  cudaError_t error = cudaSetDevice(handle->device);
  if (error == cudaSuccess) error = cudaMemsetAsync(to, byte, bytes, handle->stream);
  return ToStatus(error, "fill");
}
CudaStatus Wait(CudaStreamHandle* handle) {
  cudaError_t error = cudaSetDevice(handle->device);
  if (error == cudaSuccess) error = cudaStreamSynchronize(handle->stream);
  return ToStatus(error, "wait for the device");
}

// Relaxed: the first launch of a kernel may load it.
CudaStatus BeginCapture(CudaStreamHandle* handle) {
  if (is_recording) {
    return {CudaCode::kInvalidArgument, "record a graph", "this thread records another"};
  }
  cudaError_t error = cudaSetDevice(handle->device);
  recordings.lock_shared();
  if (error == cudaSuccess) {
    error = cudaStreamBeginCapture(handle->stream, cudaStreamCaptureModeRelaxed);
  }
  is_recording = error == cudaSuccess;
  if (!is_recording) recordings.unlock_shared();
  return ToStatus(error, "record a graph");
}
// The recording's lock is given back whatever happens.
CudaStatus EndCapture(CudaStreamHandle* handle, CudaGraphHandle** result) {
  *result = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaError_t error = cudaStreamEndCapture(handle->stream, &graph);
  if (std::exchange(is_recording, false)) recordings.unlock_shared();
  if (error != cudaSuccess) (void)cudaGetLastError();  // the stream is as before
  if (error == cudaSuccess) error = cudaGraphInstantiate(&exec, graph, 0);
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  if (error != cudaSuccess) return ToStatus(error, "record a graph");
  *result = new (std::nothrow) CudaGraphHandle{handle->device, exec};
  if (*result != nullptr) return {};
  (void)cudaGraphExecDestroy(exec);
  return {CudaCode::kFailed, "record a graph", "no memory"};
}
CudaStatus LaunchGraph(CudaStreamHandle* handle, CudaGraphHandle* graph) {
  cudaError_t error = cudaSetDevice(handle->device);
  if (error == cudaSuccess) error = cudaGraphLaunch(graph->exec, handle->stream);
  return ToStatus(error, "launch a graph");
}
void FreeGraph(CudaGraphHandle* graph) {
  if (cudaSetDevice(graph->device) == cudaSuccess) (void)cudaGraphExecDestroy(graph->exec);
  delete graph;
}

// The table with every function of this library in its place.
CudaKernels MakeTable() {
  CudaKernels table = {};
  table.version = kCudaKernelsVersion;
  table.count_devices = CountDevices;
  table.describe_device = DescribeDevice;
  table.measure_memory = MeasureMemory;
  table.allocate = Allocate;
  table.release = Release;
  table.allocate_pinned = AllocatePinned;
  table.release_pinned = ReleasePinned;
  table.create_stream = CreateStream;
  table.free_stream = FreeStream;
  table.set_overlap = SetOverlap;
  table.free_graph = FreeGraph;
  table.copy_to_device = CopyToDevice;
  table.copy_from_device = CopyFromDevice;
  table.copy_on_device = CopyOnDevice;
  table.fill = Fill;
  table.wait = Wait;
  table.begin_capture = BeginCapture;
  table.end_capture = EndCapture;
  table.launch_graph = LaunchGraph;
  table.matmul = LaunchMatMul;
  table.rms_norm = LaunchRmsNorm;
  table.rope = LaunchRope;
  table.glu = LaunchGlu;
  table.softcap = LaunchSoftcap;
  table.add = LaunchAdd;
  table.store_rows = LaunchStoreRows;
  table.assign = LaunchAssign;
  table.attend = LaunchAttend;
  table.join = LaunchJoin;
  table.cut_items = LaunchCutItems;
  table.key_logits = LaunchKeyLogits;
  table.key_squares = LaunchKeySquares;
  table.row_queries = LaunchRowQueries;
  table.row_clusters = LaunchRowClusters;
  table.row_slots = LaunchRowSlots;
  table.row_logits = LaunchRowLogits;
  table.row_refine = LaunchRowRefine;
  table.row_scores = LaunchRowScores;
  table.row_list = LaunchRowList;
  table.row_tail = LaunchRowTail;
  table.question_queries = LaunchQuestionQueries;
  table.question_clusters = LaunchQuestionClusters;
  table.question_cluster_scores = LaunchQuestionClusterScores;
  table.question_coded = LaunchQuestionCoded;
  table.question_codes = LaunchQuestionCodes;
  table.question_refined = LaunchQuestionRefined;
  table.question_fine_codes = LaunchQuestionFineCodes;
  table.question_scores = LaunchQuestionScores;
  table.question_tail = LaunchQuestionTail;
  table.place_rows = LaunchPlaceRows;
  table.row_cosines = LaunchRowCosines;
  return table;
}

}  // namespace
}  // namespace lectern

extern "C" const lectern::CudaKernels* lectern_cuda_kernels(void) {
  static const lectern::CudaKernels table = lectern::MakeTable();
  return &table;
}
