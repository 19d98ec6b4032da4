#include "index/cuda_assigner.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string>

#include "index/cuda_status.h"
#include "kernels/cuda/clustering/assign.h"
#include "kernels/cuda/runtime/device.h"

namespace lectern {
namespace {

// An assigner whose device memory is one piece of floats: points at the front, results behind them,
// centroids at the end. The piece is divided anew when the number of centroids changes; if the held
// points no longer fit beside them, points are copied block by block.
class CudaAssigner : public Assigner {
 public:
  static Status Create(const CudaKernels& kernels, int device, const AssignPlan& plan,
                       std::unique_ptr<Assigner>& made) {
    auto assigner = std::make_unique<CudaAssigner>();
    assigner->dim_ = plan.dim;
    const size_t size = static_cast<size_t>(plan.rows_bytes / sizeof(float));
    LECTERN_RETURN_IF_ERROR(FromCuda(CudaStream::Create(kernels, device, assigner->stream_)));
    LECTERN_RETURN_IF_ERROR(
        FromCuda(DeviceBuffer<float>::Create(assigner->stream_, size, assigner->memory_)));
    assigner->labels_ = HostBuffer<uint32_t>(assigner->stream_, plan.block_rows);
    assigner->dots_ = HostBuffer<float>(assigner->stream_, plan.block_rows);
    made = std::move(assigner);
    return {};
  }

  ~CudaAssigner() override {
    if (stream_.handle() != nullptr) (void)stream_.Wait();
  }

  void Hold(Rows<const float> points) override {
    held_ = points;
    is_uploaded_ = false;
  }

  Status SetCentroids(Rows<const float> centroids) override {
    assert(centroids.num_rows >= 1 && centroids.num_cols == dim_);
    const size_t floats = centroids.num_rows * dim_;
    if (centroids.num_rows != num_centroids_) LECTERN_RETURN_IF_ERROR(MakeRoom(centroids.num_rows));
    if (centroids_.size() < floats) centroids_ = HostBuffer<float>(stream_, floats);
    std::memcpy(centroids_.data(), centroids.data, floats * sizeof(float));
    LECTERN_RETURN_IF_ERROR(
        FromCuda(memory_.Upload(stream_, centroids_.data(), floats, CentroidsAt())));
    return Wait();  // the caller may set other centroids at once
  }

  Status Assign(Rows<const float> points, std::span<uint32_t> labels,
                std::span<float> dots) override {
    assert(points.num_cols == dim_ && points.stride == dim_ && num_centroids_ > 0);
    Status status = AssignRows(points, labels, dots);
    if (!status.ok()) (void)stream_.Wait();  // until nothing reads the caller's rows any more
    return status;
  }

  size_t block_rows() const override { return labels_.size(); }

 private:
  static constexpr size_t kAlign = kAssignAlign / sizeof(float);

  static size_t Aligned(size_t floats) { return (floats + kAlign - 1) / kAlign * kAlign; }
  size_t CentroidsAt() const {
    return memory_.size() / kAlign * kAlign - Aligned(num_centroids_ * dim_);
  }

  // Assigns as Assign does, without its wait after an error. Held points are uploaded once and
  // assigned where they lie; other points, and held ones that do not fit, go up block by block.
  Status AssignRows(Rows<const float> points, std::span<uint32_t> labels, std::span<float> dots) {
    const size_t block = std::min(block_rows(), room_);
    const size_t skipped = HeldBefore(held_, points);
    const bool is_held = skipped != kNotHeld && held_.num_rows <= room_;
    if (is_held) LECTERN_RETURN_IF_ERROR(UploadHeld());
    for (size_t begin = 0; begin < points.num_rows; begin += block) {
      const Rows<const float> some = points.Slice(begin, std::min(begin + block, points.num_rows));
      const size_t at = is_held ? skipped + begin : 0;
      if (!is_held) LECTERN_RETURN_IF_ERROR(UploadOthers(some));
      LECTERN_RETURN_IF_ERROR(AssignBlock(at, some.num_rows));
      std::copy_n(labels_.data(), some.num_rows, labels.data() + begin);
      std::copy_n(dots_.data(), some.num_rows, dots.data() + begin);
    }
    return {};
  }

  // Divides the memory for so many centroids.
  Status MakeRoom(size_t num_centroids) {
    num_centroids_ = 0;
    const size_t size = memory_.size() / kAlign * kAlign;
    const size_t of_centroids = Aligned(num_centroids * dim_);
    // Points, labels and products are aligned beside the centroids, each at the cost of at most
    // kAlign floats.
    const size_t least = of_centroids + 3 * kAlign + (dim_ + 2);
    if (size < least) {
      return Status(Code::kOutOfMemory,
                    std::to_string(num_centroids) + " centroids of " + std::to_string(dim_) +
                        " numbers need " + std::to_string(least * sizeof(float)) +
                        " bytes of the GPU's memory, and clustering was given " +
                        std::to_string(memory_.size() * sizeof(float)) +
                        ": allow more, or cluster on the CPU")
          .WithParam("device_memory");
    }
    num_centroids_ = num_centroids;
    room_ = (size - of_centroids - 3 * kAlign) / (dim_ + 2);
    // Held points keep their place at the front.
    is_uploaded_ = is_uploaded_ && held_.num_rows <= room_;
    return {};
  }

  Status UploadHeld() {
    if (is_uploaded_) return {};
    LECTERN_RETURN_IF_ERROR(UploadRows(held_));
    is_uploaded_ = true;
    return {};
  }
  Status UploadOthers(Rows<const float> points) {
    is_uploaded_ = false;  // these points overwrite the held ones
    return UploadRows(points);
  }
  Status UploadRows(Rows<const float> points) {
    return FromCuda(memory_.Upload(stream_, points.data, points.num_rows * dim_));
  }

  // Assigns points from row `at` of the device's memory on and copies the results into labels_ and
  // dots_.
  Status AssignBlock(size_t at, size_t num_points) {
    float* const dots = memory_.data() + Aligned(room_ * dim_);
    auto* const labels = reinterpret_cast<uint32_t*>(dots + Aligned(room_));
    LECTERN_RETURN_IF_ERROR(
        FromCuda(CudaAssign(stream_, {.points = memory_.data() + at * dim_,
                                      .centroids = memory_.data() + CentroidsAt(),
                                      .num_points = static_cast<uint32_t>(num_points),
                                      .num_centroids = static_cast<uint32_t>(num_centroids_),
                                      .num_cols = static_cast<uint32_t>(dim_),
                                      .labels = labels,
                                      .dots = dots})));
    const auto download = [&](void* to, const void* from) {
      return stream_.kernels().copy_from_device(stream_.handle(), to, from, num_points * 4);
    };
    LECTERN_RETURN_IF_ERROR(FromCuda(download(labels_.data(), labels)));
    LECTERN_RETURN_IF_ERROR(FromCuda(download(dots_.data(), dots)));
    return Wait();
  }

  Status Wait() { return FromCuda(stream_.Wait()); }

  CudaStream stream_;
  DeviceBuffer<float> memory_;
  HostBuffer<uint32_t> labels_;
  HostBuffer<float> dots_, centroids_;
  size_t dim_ = 0;
  size_t num_centroids_ = 0;
  size_t room_ = 0;  // points that fit beside the centroids
  Rows<const float> held_;
  bool is_uploaded_ = false;
};

}  // namespace

Result<Assigners> MakeCudaAssigners(const CudaKernels& kernels, int device,
                                    const AssignPlan& plan) {
  Assigners assigners;
  for (size_t head = 0; head < plan.num_heads; ++head) {
    std::unique_ptr<Assigner> made;
    const Status status = CudaAssigner::Create(kernels, device, plan, made);
    if (status.ok()) {
      assigners.push_back(std::move(made));
      continue;
    }
    if (status.code() != Code::kOutOfMemory) return status;
    if (!assigners.empty()) break;
    return Status(Code::kOutOfMemory, "clustering a head on the GPU needs " +
                                          std::to_string(plan.head_bytes) +
                                          " bytes of its memory: " + status.message())
        .WithParam("device_memory");
  }
  return assigners;
}

}  // namespace lectern
