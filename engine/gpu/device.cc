#include "engine/gpu/device.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "index/cuda_status.h"

namespace lectern {
namespace {

// Where no limit is given, at least so much of a GPU's free memory is left for the driver and for
// others. Chosen without measurement.
constexpr uint64_t kLeastReserve = uint64_t{256} << 20;

Status NoDevice(const Message& message) {
  return Status(Code::kInvalidArgument, message).WithParam("device");
}

// "cuda:3" -> 3, "cuda" -> none; false: it is neither.
bool ParseName(const std::string& name, std::optional<int>& index) {
  constexpr std::string_view kPrefix = "cuda";
  if (!name.starts_with(kPrefix)) return false;
  if (name.size() == kPrefix.size()) return true;
  if (name[kPrefix.size()] != ':') return false;
  const char* const begin = name.data() + kPrefix.size() + 1;
  const char* const end = name.data() + name.size();
  int number = 0;
  const auto [last, error] = std::from_chars(begin, end, number);
  if (begin == end || last != end || error != std::errc() || number < 0) return false;
  index = number;
  return true;
}

// Opens the GPU of this index, or the first one. Loads the kernels where `kernels` is nullptr.
// Errors as ChooseDevice.
Result<std::shared_ptr<Device>> OpenNamed(std::optional<int> index, uint64_t memory_bytes,
                                          const CudaKernels* kernels) {
  std::string why;
  if (kernels == nullptr) kernels = LoadCudaKernels(&why);
  if (kernels == nullptr) {
    return NoDevice("the kernels for GPUs cannot be loaded: " + why +
                    "; install liblectern_cuda.so.1 beside liblectern.so.1, or run on the CPU (" +
                    OptionName("device", "cpu") + ")");
  }
  std::vector<CudaDeviceInfo> devices;
  const CudaStatus listed = ListCudaDevices(*kernels, devices);
  if (!listed.ok()) return NoDevice(CudaMessage(listed));
  if (!index) return Device::Open(*kernels, devices.front().index, memory_bytes);
  for (const CudaDeviceInfo& info : devices) {
    if (info.index == *index) return Device::Open(*kernels, info.index, memory_bytes);
  }
  std::string names;
  for (const CudaDeviceInfo& info : devices) {
    names += (names.empty() ? "cuda:" : ", cuda:") + std::to_string(info.index) + " (" + info.name +
             ")";
  }
  return NoDevice("there is no cuda:" + std::to_string(*index) +
                  " of compute capability 8.0 or later; there is " + names);
}

}  // namespace

Device::Device(const CudaKernels& kernels, const CudaDeviceInfo& info, uint64_t memory_bytes)
    : kernels_(kernels),
      info_(info),
      memory_(std::make_shared<RamLimit>(memory_bytes, RamLimit::Kind::kDevice)) {}

Result<std::shared_ptr<Device>> Device::Open(const CudaKernels& kernels, int index,
                                             uint64_t memory_bytes) {
  CudaDeviceInfo info;
  const CudaStatus described = kernels.describe_device(index, &info);
  if (!described.ok()) return NoDevice(CudaMessage(described));
  uint64_t free_bytes = 0;
  const CudaStatus measured = kernels.measure_memory(index, &free_bytes);
  if (!measured.ok()) return NoDevice(CudaMessage(measured));
  if (memory_bytes > free_bytes) {
    return Status(Code::kOutOfMemory, "cuda:" + std::to_string(index) + " (" + info.name +
                                          ") has " + std::to_string(free_bytes >> 20) +
                                          " MiB free of " + std::to_string(info.total_bytes >> 20) +
                                          ", less than device_memory (" +
                                          std::to_string(memory_bytes >> 20) +
                                          " MiB): allow less, or end what else uses the GPU")
        .WithParam("device_memory");
  }
  if (memory_bytes == 0) {
    const uint64_t reserve = std::max(kLeastReserve, free_bytes / 20);
    memory_bytes = free_bytes - std::min(free_bytes, reserve);
  }
  return std::shared_ptr<Device>(new Device(kernels, info, memory_bytes));
}

Status Device::Check(const CudaStatus& status) const { return Check(FromCuda(status)); }

Status Device::Check(Status status) const {
  if (status.code() != Code::kIoError) return status;
  is_lost_ = true;
  return {Code::kIoError, status.message() + "; " + name() + " (" + info_.name +
                              ") is lost to this process: start it again, or run on the CPU (" +
                              OptionName("device", "cpu") + ")"};
}

Status Device::CheckAlive() const {
  if (!is_lost_) return {};
  return {Code::kIoError, name() + " (" + info_.name +
                              ") failed before and is lost to this process: start it again, or "
                              "run on the CPU (" +
                              OptionName("device", "cpu") + ")"};
}

Result<std::shared_ptr<DeviceStream>> DeviceStream::Create(std::shared_ptr<const Device> device) {
  auto stream = std::make_shared<DeviceStream>();
  stream->device_ = std::move(device);
  LECTERN_RETURN_IF_ERROR(stream->device_->CheckAlive());
  LECTERN_ASSIGN(stream->share_, stream->device_->memory()->Reserve(
                                     kDeviceStreamBytes, "a conversation",
                                     "close other conversations, or run on the CPU"));
  LECTERN_RETURN_IF_ERROR(stream->Check(CudaStream::Create(
      stream->device_->kernels(), stream->device_->info().index, stream->stream_)));
  return stream;
}

Status DeviceStream::Check(const CudaStatus& status) const {
  return is_recording_ ? FromCuda(status) : device_->Check(status);
}

Status DeviceStream::Record(CudaGraph& graph, FunctionRef<Status()> enqueue) {
  LECTERN_RETURN_IF_ERROR(FromCuda(CudaGraph::Begin(stream_)));
  is_recording_ = true;
  const auto end = [&] {
    is_recording_ = false;
    return FromCuda(CudaGraph::End(stream_, graph));
  };
  Status enqueued;
  try {
    enqueued = enqueue();
  } catch (...) {  // the stream is not left recording
    (void)end();
    throw;
  }
  const Status ended = end();
  return enqueued.ok() ? ended : enqueued;
}

Result<DeviceChoice> ChooseDevice(const std::string& name, uint64_t memory_bytes,
                                  const CudaKernels* kernels) {
  std::optional<int> index;
  if (name.empty() || name == "cpu") return DeviceChoice();
  const bool is_auto = name == "auto";
  if (!is_auto && !ParseName(name, index)) {
    return NoDevice(OptionName("device", name) + " is none of cpu, cuda, cuda:N and auto");
  }
  auto device = OpenNamed(index, memory_bytes, kernels);
  if (device.ok()) return DeviceChoice{std::move(device).value(), {}};
  if (is_auto) return DeviceChoice{nullptr, device.status().wordings()};
  return std::move(device).status();
}

}  // namespace lectern
