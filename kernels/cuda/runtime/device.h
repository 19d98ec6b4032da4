// A CUDA device as the rest of Lectern sees it: memory, streams, graphs and errors, in plain C++.
//
// The code that runs on the device lies in a library of its own, liblectern_cuda.so.1, which is
// loaded when a device is asked for: liblectern starts on machines that have neither a GPU nor a
// driver, and has no part of the CUDA toolkit in it. The library is met through one table of
// functions (kernels.h), so that tests can put an emulation in its place.
//
// Thread rule: a stream is used by one thread at a time; different streams by different threads.
// Work of a stream runs in the order it was enqueued, and errors of it may show up at any later
// call for that stream, at the latest in Wait(). After kFailed a device is lost to the process.
// Errors are CudaStatus; only lack of host memory throws (bad_alloc). Moving by assignment swaps
// the two sides.
#ifndef LECTERN_KERNELS_CUDA_RUNTIME_DEVICE_H_
#define LECTERN_KERNELS_CUDA_RUNTIME_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/runtime/kernels.h"

namespace lectern {

// "CUDA: rms_norm: out of memory" and the way out, for the user; of a status that is not ok.
std::string CudaMessage(const CudaStatus& status);

// The table of liblectern_cuda.so.1, loaded at the first call: from the directory of the code that
// calls, then by the system's search path. nullptr: not there, or of another version; `why` (may be
// nullptr) says. Later calls return the same. Any thread; the table lives forever.
const CudaKernels* LoadCudaKernels(std::string* why);

// Devices that these kernels can run on, in the driver's order. kNoGpu where there is none,
// kDriverTooOld, kGpuTooOld where all are below compute capability 8.0, kFailed. `devices` is
// replaced; after an error its content means nothing.
CudaStatus ListCudaDevices(const CudaKernels& kernels, std::vector<CudaDeviceInfo>& devices);

// An ordered queue of work on one device. Moved, not copied; waits for its work when destroyed.
class CudaStream {
 public:
  // Creates a stream on device number `device` and puts it into `stream`, whose former queue is
  // waited for and freed first, also before an error. Takes the device into use. kGpuTooOld: below
  // compute capability 8.0; kNoGpu, kOutOfDeviceMemory, kFailed. `kernels` must outlive the stream.
  static CudaStatus Create(const CudaKernels& kernels, int device, CudaStream& stream);
  CudaStream() = default;  // no queue: only Create and assignment may follow
  CudaStream(CudaStream&& from) noexcept { *this = std::move(from); }
  CudaStream& operator=(CudaStream&& from) noexcept {
    std::swap(kernels_, from.kernels_);
    std::swap(handle_, from.handle_);
    std::swap(info_, from.info_);
    return *this;
  }
  ~CudaStream();

  const CudaKernels& kernels() const { return *kernels_; }
  CudaStreamHandle* handle() const { return handle_; }
  const CudaDeviceInfo& device() const { return info_; }
  // Waits until all enqueued work has run; returns its first error.
  CudaStatus Wait();

 private:
  const CudaKernels* kernels_ = nullptr;
  CudaStreamHandle* handle_ = nullptr;
  CudaDeviceInfo info_ = {};
};

// The one owner of device memory: `size` elements, contents undefined. 256-byte aligned.
template <typename T>
class DeviceBuffer {
 public:
  // Puts memory of the stream's device into `buffer`, whose former memory is released first. An
  // error (kOutOfDeviceMemory, kFailed) leaves it empty. `size` may be 0. Waits for other threads'
  // recordings (CudaGraph), and, to release memory, for the device; else for nothing. Not for a
  // thread that records.
  static CudaStatus Create(const CudaStream& stream, size_t size, DeviceBuffer& buffer) {
    buffer = DeviceBuffer();
    if (size > SIZE_MAX / sizeof(T)) return {CudaCode::kOutOfDeviceMemory, "allocate", "too large"};
    void* data = nullptr;
    const CudaStatus status =
        stream.kernels().allocate(stream.device().index, size * sizeof(T), &data);
    if (!status.ok()) return status;
    buffer.kernels_ = &stream.kernels();
    buffer.device_ = stream.device().index;
    buffer.data_ = static_cast<T*>(data);
    buffer.size_ = size;
    return {};
  }
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& from) noexcept { *this = std::move(from); }
  DeviceBuffer& operator=(DeviceBuffer&& from) noexcept {
    std::swap(kernels_, from.kernels_);
    std::swap(device_, from.device_);
    std::swap(data_, from.data_);
    std::swap(size_, from.size_);
    return *this;
  }
  // Waits for the device where work may still use it, and for other threads' recordings.
  ~DeviceBuffer() {
    if (data_ != nullptr) kernels_->release(device_, data_);
  }

  T* data() const { return data_; }  // of the device: not to be followed on the host
  size_t size() const { return size_; }

  // These copy `count` elements from or to the buffer's element `at` on, or set all bytes.
  // Enqueued: until the stream has come this far, the host's memory must stay as it is (Upload) or
  // is not filled yet (Download). kInvalidArgument: more than the buffer holds. 0 elements are
  // fine.
  CudaStatus Upload(CudaStream& stream, const T* from, size_t count, size_t at = 0) const {
    if (at > size_ || count > size_ - at) {
      return {CudaCode::kInvalidArgument, "upload", "more than the buffer holds"};
    }
    return stream.kernels().copy_to_device(stream.handle(), data_ + at, from, count * sizeof(T));
  }
  // Copies to the host; enqueued. Errors as Upload's.
  CudaStatus Download(CudaStream& stream, T* to, size_t count, size_t at = 0) const {
    if (at > size_ || count > size_ - at) {
      return {CudaCode::kInvalidArgument, "download", "more than the buffer holds"};
    }
    return stream.kernels().copy_from_device(stream.handle(), to, data_ + at, count * sizeof(T));
  }
  // Sets all bytes of the buffer to `byte`; enqueued.
  CudaStatus Fill(CudaStream& stream, uint8_t byte) const {
    return stream.kernels().fill(stream.handle(), data_, byte, size_ * sizeof(T));
  }

 private:
  const CudaKernels* kernels_ = nullptr;
  int device_ = 0;
  T* data_ = nullptr;
  size_t size_ = 0;
};

// Memory of the host that a device copies to and from: `size` elements, pinned, which is fast, or,
// where that cannot be had, pageable. Contents undefined. Its owner keeps it until the copies
// ended.
template <typename T>
class HostBuffer {
 public:
  HostBuffer() = default;
  // Throws std::bad_alloc where there is no pageable memory either.
  HostBuffer(const CudaStream& stream, size_t size) : size_(size) {
    void* data = nullptr;
    const bool is_pinned =
        size <= SIZE_MAX / sizeof(T) &&
        stream.kernels().allocate_pinned(stream.device().index, size * sizeof(T), &data).ok();
    if (is_pinned) {
      kernels_ = &stream.kernels();
      pinned_ = static_cast<T*>(data);
    } else {
      pageable_.resize(size);
    }
  }
  HostBuffer(HostBuffer&& from) noexcept { *this = std::move(from); }
  HostBuffer& operator=(HostBuffer&& from) noexcept {
    std::swap(kernels_, from.kernels_);
    std::swap(pinned_, from.pinned_);
    std::swap(pageable_, from.pageable_);
    std::swap(size_, from.size_);
    return *this;
  }
  ~HostBuffer() {
    if (pinned_ != nullptr) kernels_->release_pinned(pinned_);
  }

  T* data() { return pinned_ != nullptr ? pinned_ : pageable_.data(); }
  size_t size() const { return size_; }

 private:
  const CudaKernels* kernels_ = nullptr;
  T* pinned_ = nullptr;
  std::vector<T> pageable_;
  size_t size_ = 0;
};

// Records what is enqueued on a stream between Begin and End, so that one call can enqueue it
// again: a decode step is some hundred small kernels, and launching each one takes a few
// microseconds.
class CudaGraph {
 public:
  // From here to End, by the same thread, the stream's work is recorded and does not run. Other
  // threads that allocate or release memory of a device, or pinned memory, or free a stream wait
  // for End. kInvalidArgument: this thread records already; kFailed. After an error nothing is
  // recorded.
  static CudaStatus Begin(CudaStream& stream) {
    return stream.kernels().begin_capture(stream.handle());
  }
  // Ends the recording and puts it into `graph`, whose former recording is freed; none of its work
  // has run. Between Begin and End nothing may be copied from or to the host, and nobody may wait
  // for the stream. After an error (kFailed) the graph is empty and the recording has ended.
  static CudaStatus End(CudaStream& stream, CudaGraph& graph);
  CudaGraph() = default;
  CudaGraph(CudaGraph&& from) noexcept { *this = std::move(from); }
  CudaGraph& operator=(CudaGraph&& from) noexcept {
    std::swap(kernels_, from.kernels_);
    std::swap(handle_, from.handle_);
    return *this;
  }
  ~CudaGraph();
  // Enqueues the recorded work again, with the pointers and sizes of the recording; the buffers
  // must still be there. kInvalidArgument: the graph is empty.
  CudaStatus Launch(CudaStream& stream) const {
    if (handle_ != nullptr) return kernels_->launch_graph(stream.handle(), handle_);
    return {CudaCode::kInvalidArgument, "launch a graph", "none was recorded"};
  }

 private:
  const CudaKernels* kernels_ = nullptr;
  CudaGraphHandle* handle_ = nullptr;
};

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_RUNTIME_DEVICE_H_
