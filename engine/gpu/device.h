// Opens the GPU of an engine, counts the memory that is taken of it, and turns its errors into
// Lectern's.
//
// Everything on the GPU goes through the table of kernels/cuda/runtime/kernels.h, so that the
// engine has no part of CUDA in it and tests can put an emulated device in its place.
#ifndef LECTERN_ENGINE_GPU_DEVICE_H_
#define LECTERN_ENGINE_GPU_DEVICE_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "kernels/cuda/runtime/device.h"
#include "kernels/dtype.h"
#include "kernels/function_ref.h"
#include "store/ram_limit.h"
#include "store/status.h"

namespace lectern {

// Thread-safe.
class Device {
 public:
  // Opens GPU number `index`; `kernels` must outlive it. `memory_bytes`: bytes of its memory that
  // may be taken; 0: the free ones, less a reserve of a twentieth, at least 256 MiB. Nothing is
  // taken yet. kInvalidArgument, param "device", where the driver does not describe it;
  // kOutOfMemory, param "device_memory", where more is asked for than is free.
  static Result<std::shared_ptr<Device>> Open(const CudaKernels& kernels, int index,
                                              uint64_t memory_bytes);

  const CudaKernels& kernels() const { return kernels_; }
  const CudaDeviceInfo& info() const { return info_; }
  const std::shared_ptr<RamLimit>& memory() const { return memory_; }
  std::string name() const { return "cuda:" + std::to_string(info_.index); }

  // The Status of a result. kOutOfMemory, param "device_memory"; kIoError where the device is lost
  // to this process, which CheckAlive says from then on; kInternal for what a kernel refuses.
  Status Check(const CudaStatus& status) const;
  Status Check(Status status) const;  // the same for a Status that FromCuda made
  // kIoError if the device was lost before.
  Status CheckAlive() const;

 private:
  Device(const CudaKernels& kernels, const CudaDeviceInfo& info, uint64_t memory_bytes);

  const CudaKernels& kernels_;
  const CudaDeviceInfo info_;
  const std::shared_ptr<RamLimit> memory_;
  mutable std::atomic<bool> is_lost_ = false;
};

// Bytes that a stream takes: half is given to cuBLAS as its workspace
// (kernels/cuda/rows/matmul_cublas.cu), and half is for what cuBLAS keeps besides.
inline constexpr uint64_t kDeviceStreamBytes = uint64_t{64} << 20;

// A queue of work, and what it takes of the device's memory. One thread at a time.
class DeviceStream {
 public:
  // kOutOfMemory, param "device_memory", where the limit leaves no kDeviceStreamBytes; kIoError
  // where the device is lost; errors of Device::Check.
  static Result<std::shared_ptr<DeviceStream>> Create(std::shared_ptr<const Device> device);

  const Device& device() const { return *device_; }
  CudaStream& stream() { return stream_; }
  // Device::Check; but while the stream records, a failure does not make the device a lost one.
  Status Check(const CudaStatus& status) const;
  // Returns when all that was enqueued has run; its errors may show up here.
  Status Wait() { return Check(stream_.Wait()); }

  // Records everything that `enqueue` enqueues into `graph`; nothing of it runs. Returns the error
  // of `enqueue` and lets its exceptions through; else kIoError or kOutOfMemory where the recording
  // cannot begin or end. After all of these no recording goes on, the device does not count as
  // lost, and `graph` must not be launched: it may hold an old recording, a part of one, or none.
  // kInternal: this thread records already; that recording goes on.
  Status Record(CudaGraph& graph, FunctionRef<Status()> enqueue);
  bool is_recording() const { return is_recording_; }

 private:
  std::shared_ptr<const Device> device_;
  RamLimit::Share share_;
  CudaStream stream_;
  bool is_recording_ = false;
};

// Waits at the end of a scope for the work of a stream, so that after an error nothing of it still
// reads or writes what the caller is about to let go. Errors of the work are not reported here.
class WaitsForStream {
 public:
  explicit WaitsForStream(DeviceStream& stream) : stream_(stream) {}
  ~WaitsForStream() { (void)stream_.stream().Wait(); }
  WaitsForStream(const WaitsForStream&) = delete;

 private:
  DeviceStream& stream_;
};

// Device memory that counts against the limit.
template <typename T>
class DeviceArray {
 public:
  // Room for `size` elements at least; where it grows, the old content is lost and the device is
  // waited for. Documents may lose rows and codes that nobody uses to make room. kOutOfMemory
  // (param "device_memory") says what it is for (`what`); this and errors of Device::Check leave it
  // empty. kIoError, and nothing changes, while the stream records: who must give memory back first
  // may wait for the recording.
  Status Reserve(DeviceStream& stream, size_t size, const char* what) {
    if (size <= buffer_.size()) return {};
    if (stream.is_recording()) return {Code::kIoError, "memory is wanted while a step is recorded"};
    buffer_ = DeviceBuffer<T>();
    share_ = RamLimit::Share();
    LECTERN_ASSIGN(share_, stream.device().memory()->Reserve(
                               size * sizeof(T), what,
                               "give a smaller model or shorter text, or run on the CPU (" +
                                   OptionName("device", "cpu") + ")"));
    const Status status =
        stream.Check(DeviceBuffer<T>::Create(stream.stream(), size, buffer_));
    if (!status.ok()) share_ = RamLimit::Share();
    return status;
  }
  T* data() const { return buffer_.data(); }
  size_t size() const { return buffer_.size(); }
  bool empty() const { return buffer_.size() == 0; }

  // Copies `count` elements from the host to the array, from element `at` on. Enqueued: the host's
  // memory must stay as it is until the stream was waited for. Neither Upload nor Download may be
  // called while the stream records, which is not checked. kInternal past size(); errors of
  // Device::Check.
  Status Upload(DeviceStream& stream, const T* from, size_t count, size_t at = 0) const {
    return stream.Check(buffer_.Upload(stream.stream(), from, count, at));
  }
  // Copies to the host; `to` is filled once the stream was waited for. Errors of Upload.
  Status Download(DeviceStream& stream, T* to, size_t count, size_t at = 0) const {
    return stream.Check(buffer_.Download(stream.stream(), to, count, at));
  }
  // Sets all bytes of the array to 0; enqueued. Errors of Device::Check.
  Status Clear(DeviceStream& stream) const {
    return stream.Check(buffer_.Fill(stream.stream(), 0));
  }

 private:
  RamLimit::Share share_;  // given back when the memory is
  DeviceBuffer<T> buffer_;
};

// The type that queries are rounded to before they meet rows of this type on a device.
inline Dtype QueryDtype(Dtype rows) { return rows == Dtype::kBf16 ? Dtype::kBf16 : Dtype::kF16; }

// Whether a call failed because the device's memory, not the host's, is too small.
inline bool IsForWantOfDeviceMemory(const Status& status) {
  return status.code() == Code::kOutOfMemory && status.param() == "device_memory";
}

struct DeviceChoice {
  std::shared_ptr<Device> device;  // nullptr: the CPU
  Message fallback;                // why, where "auto" found no GPU; else empty
};
// `name`: "cpu" or empty, "cuda" (the first GPU), "cuda:N", "auto" (the first GPU, or else the
// CPU). `memory_bytes`: as in Device::Open. `kernels`: nullptr: of liblectern_cuda.so.1, which is
// then loaded. kInvalidArgument, param "device": no such name or GPU, no driver, one too old, no
// library; the message says which and the way out. kOutOfMemory, param "device_memory": more than
// the GPU has free. With "auto" each of these is a fallback and no error.
Result<DeviceChoice> ChooseDevice(const std::string& name, uint64_t memory_bytes,
                                  const CudaKernels* kernels);

}  // namespace lectern

#endif  // LECTERN_ENGINE_GPU_DEVICE_H_
