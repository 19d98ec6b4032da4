// The table: devices, memory, streams and graphs by CUDA's runtime, and the launches.
#include "kernels/cuda/launch.cuh"

#include <cstring>
#include <new>

namespace lectern {

struct CudaGraphHandle {
  int device;
  cudaGraphExec_t exec;
};

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
  cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error == cudaSuccess) error = cudaSetDevice(device);
  size_t free = 0, total = 0;
  if (error == cudaSuccess) error = cudaMemGetInfo(&free, &total);
  if (error != cudaSuccess) return ToStatus(error, "describe a device");
  *info = {};
  info->index = device;
  std::memcpy(info->name, properties.name, sizeof info->name - 1);  // what is longer is cut
  info->major = properties.major;
  info->minor = properties.minor;
  info->num_multiprocessors = static_cast<uint32_t>(properties.multiProcessorCount);
  info->total_bytes = total;
  info->free_bytes = free;
  info->shared_bytes_per_block = static_cast<uint32_t>(properties.sharedMemPerBlockOptin);
  return {};
}

CudaStatus Allocate(int device, size_t bytes, void** data) {
  cudaError_t error = cudaSetDevice(device);
  if (error == cudaSuccess) error = cudaMalloc(data, bytes == 0 ? 1 : bytes);
  if (error == cudaErrorMemoryAllocation) (void)cudaGetLastError();  // it is not the next call's
  return ToStatus(error, "allocate");
}
void Release(int device, void* data) {
  if (cudaSetDevice(device) == cudaSuccess) (void)cudaFree(data);
}
CudaStatus AllocatePinned(size_t bytes, void** data) {
  const cudaError_t error = cudaMallocHost(data, bytes == 0 ? 1 : bytes);
  if (error != cudaSuccess) (void)cudaGetLastError();  // who can do without goes on
  return ToStatus(error, "allocate pinned memory");
}
void ReleasePinned(void* data) { (void)cudaFreeHost(data); }

void FreeStream(CudaStreamHandle* handle) {
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
  if (*handle == nullptr) {
    (void)cudaStreamDestroy(stream);
    return {CudaCode::kFailed, "create a stream", "no memory"};
  }
  const CudaStatus status = PrepareMatMul(*handle);
  if (!status.ok()) {
    FreeStream(*handle);
    *handle = nullptr;
  }
  return status;
}

CudaStatus Copy(CudaStreamHandle* handle, void* to, const void* from, size_t bytes,
                cudaMemcpyKind kind) {
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
  cudaError_t error = cudaSetDevice(handle->device);
  if (error == cudaSuccess) error = cudaMemsetAsync(to, byte, bytes, handle->stream);
  return ToStatus(error, "fill");
}
CudaStatus Wait(CudaStreamHandle* handle) {
  cudaError_t error = cudaSetDevice(handle->device);
  if (error == cudaSuccess) error = cudaStreamSynchronize(handle->stream);
  return ToStatus(error, "wait for the device");
}

CudaStatus BeginCapture(CudaStreamHandle* handle) {
  cudaError_t error = cudaSetDevice(handle->device);
  if (error == cudaSuccess) {
    error = cudaStreamBeginCapture(handle->stream, cudaStreamCaptureModeThreadLocal);
  }
  return ToStatus(error, "record a graph");
}
CudaStatus EndCapture(CudaStreamHandle* handle, CudaGraphHandle** result) {
  *result = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaError_t error = cudaStreamEndCapture(handle->stream, &graph);
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

CudaKernels MakeTable() {
  CudaKernels table = {};
  table.version = kCudaKernelsVersion;
  table.count_devices = CountDevices;
  table.describe_device = DescribeDevice;
  table.allocate = Allocate;
  table.release = Release;
  table.allocate_pinned = AllocatePinned;
  table.release_pinned = ReleasePinned;
  table.create_stream = CreateStream;
  table.free_stream = FreeStream;
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
  table.embed = LaunchEmbed;
  table.glu = LaunchGlu;
  table.softcap = LaunchSoftcap;
  table.add = LaunchAdd;
  table.store_rows = LaunchStoreRows;
  table.assign = LaunchAssign;
  table.attend = LaunchAttend;
  table.join = LaunchJoin;
  table.lookup_masses = LaunchLookupMasses;
  table.lookup_scores = LaunchLookupScores;
  table.lookup_parts = LaunchLookupParts;
  table.lookup_lse = LaunchLookupLse;
  table.lookup_sums = LaunchLookupSums;
  table.select_rows = LaunchSelectRows;
  table.cut_items = LaunchCutItems;
  table.key_logits = LaunchKeyLogits;
  table.key_squares = LaunchKeySquares;
  table.row_queries = LaunchRowQueries;
  table.row_logits = LaunchRowLogits;
  table.row_scores = LaunchRowScores;
  table.row_digits = LaunchRowDigits;
  table.row_counts = LaunchRowCounts;
  table.row_refine = LaunchRowRefine;
  table.row_list = LaunchRowList;
  table.row_tail = LaunchRowTail;
  table.question_queries = LaunchQuestionQueries;
  table.question_clusters = LaunchQuestionClusters;
  table.question_codes = LaunchQuestionCodes;
  table.question_fine_codes = LaunchQuestionFineCodes;
  table.question_scores = LaunchQuestionScores;
  table.question_tail = LaunchQuestionTail;
  table.place_rows = LaunchPlaceRows;
  return table;
}

}  // namespace
}  // namespace lectern

extern "C" const lectern::CudaKernels* lectern_cuda_kernels(void) {
  static const lectern::CudaKernels table = lectern::MakeTable();
  return &table;
}
