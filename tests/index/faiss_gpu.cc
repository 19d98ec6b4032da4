#include "tests/index/faiss_gpu.h"

#include <cuda_runtime_api.h>
#include <faiss/gpu/GpuIndexFlat.h>
#include <faiss/gpu/StandardGpuResources.h>
#include <faiss/gpu/utils/DeviceUtils.h>
#include <faiss/impl/FaissException.h>

#include <algorithm>
#include <cassert>
#include <string>

namespace lectern {
namespace {

using idx_t = decltype(faiss::Index::ntotal);

Status OutOfMemory(const std::string& what) {
  return Status(Code::kOutOfMemory, what + "; free memory of the GPU, or cluster on the CPU")
      .WithParam("device_memory");
}

Status FromCuda(cudaError_t error) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();  // clears it, or the next call would report it again
  const std::string message = std::string("CUDA: ") + cudaGetErrorString(error);
  if (error == cudaErrorMemoryAllocation) return OutOfMemory(message);
  return {Code::kIoError, message};
}

Status FromFaiss(const faiss::FaissException& error) {
  const std::string message = std::string("FAISS: ") + error.what();
  return message.find("alloc") != std::string::npos ? OutOfMemory(message)
                                                    : Status(Code::kInternal, message);
}

struct FreeOnDevice {
  void operator()(float* data) const { (void)cudaFree(data); }
};

class FaissGpuAssigner : public Assigner {
 public:
  // Throws FaissException.
  FaissGpuAssigner(int device, const FaissGpuPlan& plan)
      : plan_(plan.assign), labels_(plan.assign.block_rows) {
    resources_.setPinnedMemory(0);  // points are copied in our own blocks
    resources_.setTempMemory(plan.temp_bytes);
    faiss::gpu::GpuIndexFlatConfig config;
    config.device = device;
    index_ = std::make_unique<faiss::gpu::GpuIndexFlat>(&resources_, static_cast<int>(plan_.dim),
                                                        faiss::METRIC_INNER_PRODUCT, config);
  }

  // FAISS's index needs no hold; only the points are kept on the device.
  void Hold(Rows<const float> points) override {
    held_ = points;
    is_uploaded_ = false;
  }

  Status SetCentroids(Rows<const float> centroids) override try {
    index_->reset();
    index_->add(static_cast<idx_t>(centroids.num_rows), centroids.data);
    return {};
  } catch (const faiss::FaissException& error) {
    return FromFaiss(error);
  }

  Status Assign(Rows<const float> points, std::span<uint32_t> labels,
                std::span<float> dots) override try {
    assert(points.num_cols == plan_.dim && points.stride == plan_.dim);
    const faiss::gpu::DeviceScope device(index_->getDevice());
    const size_t skipped = HeldBefore(held_, points);
    const bool is_held = plan_.holds_points && skipped != kNotHeld;
    if (is_held) LECTERN_RETURN_IF_ERROR(UploadHeld());
    for (size_t begin = 0; begin < points.num_rows; begin += block_rows()) {
      const size_t rows = std::min(block_rows(), points.num_rows - begin);
      const float* const from =
          is_held ? on_device_.get() + (skipped + begin) * plan_.dim : points[begin];
      index_->search(static_cast<idx_t>(rows), from, 1, dots.data() + begin, labels_.data());
      for (size_t i = 0; i < rows; ++i) {  // FAISS gives -1 where no product was a number
        labels[begin + i] = static_cast<uint32_t>(std::max<idx_t>(labels_[i], 0));
      }
    }
    return {};
  } catch (const faiss::FaissException& error) {
    return FromFaiss(error);
  }

  size_t block_rows() const override { return labels_.size(); }

 private:
  Status UploadHeld() {
    if (is_uploaded_) return {};
    const size_t floats = held_.num_rows * plan_.dim;
    if (floats > size_) {
      on_device_.reset();
      size_ = 0;
      void* data = nullptr;
      LECTERN_RETURN_IF_ERROR(FromCuda(cudaMalloc(&data, floats * sizeof(float))));
      on_device_.reset(static_cast<float*>(data));
      size_ = floats;
    }
    LECTERN_RETURN_IF_ERROR(FromCuda(
        cudaMemcpy(on_device_.get(), held_.data, floats * sizeof(float), cudaMemcpyHostToDevice)));
    is_uploaded_ = true;
    return {};
  }

  const AssignPlan plan_;
  faiss::gpu::StandardGpuResources resources_;  // a stream and cuBLAS's handle of its own
  std::unique_ptr<faiss::gpu::GpuIndexFlat> index_;
  std::unique_ptr<float, FreeOnDevice> on_device_;  // the held points
  size_t size_ = 0;
  std::vector<idx_t> labels_;
  Rows<const float> held_;
  bool is_uploaded_ = false;
};

Status CheckDevice(int device) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && device >= 0 && device < count) return {};
  (void)cudaGetLastError();
  const std::string why = error != cudaSuccess ? std::string(cudaGetErrorString(error))
                                               : "there is no GPU " + std::to_string(device);
  return Status(Code::kInvalidArgument, "FAISS on a GPU: " + why + "; cluster on the CPU")
      .WithParam("device");
}

// Checks free memory before FAISS takes any, because FAISS ends the process where cuBLAS finds no
// memory for itself.
Status CheckMemory(int device, uint64_t bytes) {
  const faiss::gpu::DeviceScope scope(device);
  size_t free_bytes = 0, total = 0;
  LECTERN_RETURN_IF_ERROR(FromCuda(cudaMemGetInfo(&free_bytes, &total)));
  if (free_bytes >= bytes) return {};
  return OutOfMemory("clustering a head by FAISS needs " + std::to_string(bytes) +
                     " bytes of the GPU's memory, and " + std::to_string(free_bytes) + " are free");
}

}  // namespace

bool HasFaissGpu() { return true; }

Result<Assigners> MakeFaissGpuAssigners(int device, const FaissGpuPlan& plan) try {
  LECTERN_RETURN_IF_ERROR(CheckDevice(device));
  Assigners assigners;
  for (size_t head = 0; head < plan.assign.num_heads; ++head) {
    const Status memory = CheckMemory(device, plan.assign.head_bytes);
    if (!memory.ok() && assigners.empty()) return memory;
    if (!memory.ok()) break;
    assigners.push_back(std::make_unique<FaissGpuAssigner>(device, plan));
  }
  return assigners;
} catch (const faiss::FaissException& error) {
  return FromFaiss(error);
}

}  // namespace lectern
