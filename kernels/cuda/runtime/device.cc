#include "kernels/cuda/runtime/device.h"

#include "kernels/cuda/runtime/find_in_library.h"

namespace lectern {
namespace {

struct Loaded {
  const CudaKernels* kernels = nullptr;
  std::string why;
};

// Loads the library and takes its table; or says why it cannot.
Loaded Load() {
  using Entry = const CudaKernels*();
  const FoundFunction found = FindInLibrary(kCudaLibraryName, "lectern_cuda_kernels");
  if (found.function == nullptr) return {nullptr, found.why};
  auto* const entry = reinterpret_cast<Entry*>(found.function);
  const CudaKernels* const kernels = entry();
  if (kernels->version != kCudaKernelsVersion) {
    return {nullptr, std::string(kCudaLibraryName) + " is of another version of Lectern"};
  }
  return {kernels, {}};
}

const char* WayOut(CudaCode code) {
  switch (code) {
    case CudaCode::kNoGpu:
      return "; run on the CPU, or check what nvidia-smi says";
    case CudaCode::kDriverTooOld:
      return "; update the NVIDIA driver";
    case CudaCode::kGpuTooOld:
      return "; a GPU of compute capability 8.0 or later is needed";
    case CudaCode::kOutOfDeviceMemory:
      return "; free memory of the GPU, or run on the CPU";
    default:
      return "";
  }
}

}  // namespace

std::string CudaMessage(const CudaStatus& status) {
  return std::string("CUDA: ") + status.during + ": " + status.reason + WayOut(status.code);
}

const CudaKernels* LoadCudaKernels(std::string* why) {
  static const Loaded loaded = Load();  // never unloaded: streams may outlive their users
  if (loaded.kernels == nullptr && why != nullptr) *why = loaded.why;
  return loaded.kernels;
}

CudaStatus ListCudaDevices(const CudaKernels& kernels, std::vector<CudaDeviceInfo>& devices) {
  devices.clear();
  int count = 0;
  CudaStatus status = kernels.count_devices(&count);
  if (!status.ok()) return status;
  for (int device = 0; device < count; ++device) {
    CudaDeviceInfo info;
    status = kernels.describe_device(device, &info);
    if (!status.ok()) return status;
    if (info.major >= 8) devices.push_back(info);
  }
  if (!devices.empty()) return {};
  if (count > 0) {
    return {CudaCode::kGpuTooOld, "list devices", "no GPU of compute capability 8.0 or later"};
  }
  return {CudaCode::kNoGpu, "list devices", "no GPU"};
}

CudaStatus CudaStream::Create(const CudaKernels& kernels, int device, CudaStream& stream) {
  stream = CudaStream();
  CudaDeviceInfo info;
  CudaStatus status = kernels.describe_device(device, &info);
  if (!status.ok()) return status;
  if (info.major < 8) {
    return {CudaCode::kGpuTooOld, "create a stream", "compute capability below 8.0"};
  }
  CudaStreamHandle* handle = nullptr;
  status = kernels.create_stream(device, &handle);
  if (!status.ok()) return status;
  stream.kernels_ = &kernels;
  stream.handle_ = handle;
  stream.info_ = info;
  return {};
}

CudaStream::~CudaStream() {
  if (handle_ != nullptr) kernels_->free_stream(handle_);
}

CudaStatus CudaStream::Wait() { return kernels_->wait(handle_); }

CudaStatus CudaGraph::End(CudaStream& stream, CudaGraph& graph) {
  graph = CudaGraph();
  const CudaStatus status = stream.kernels().end_capture(stream.handle(), &graph.handle_);
  if (status.ok()) graph.kernels_ = &stream.kernels();
  return status;
}

CudaGraph::~CudaGraph() {
  if (handle_ != nullptr) kernels_->free_graph(handle_);
}

}  // namespace lectern
