#include "kernels/cuda/runtime/device.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/rows/rows.h"
#include "tests/kernels/cuda/cuda_case.h"

namespace lectern {
namespace {

class CudaDeviceTest : public CudaTest {};

TEST_P(CudaDeviceTest, BuffersHoldWhatWasUploaded) {
  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const auto buffer = Upload(values);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 256, 0u);
  EXPECT_EQ(Download(buffer), values);
  Expect(buffer.Upload(stream_, values.data(), 3, 997));
  std::vector<float> part(3);
  Expect(buffer.Download(stream_, part.data(), 3, 997));
  Wait();
  EXPECT_EQ(part, (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(buffer.Upload(stream_, values.data(), 2, 999).code, CudaCode::kInvalidArgument);
  EXPECT_EQ(buffer.Upload(stream_, values.data(), 1, SIZE_MAX).code, CudaCode::kInvalidArgument);
  EXPECT_EQ(buffer.Download(stream_, part.data(), 1001).code, CudaCode::kInvalidArgument);
}

TEST_P(CudaDeviceTest, TooMuchMemoryIsRefusedByName) {
  DeviceBuffer<float> buffer;
  for (const size_t size : {SIZE_MAX / 2, SIZE_MAX / 8, size_t{1} << 50}) {
    const CudaStatus status = DeviceBuffer<float>::Create(stream_, size, buffer);
    EXPECT_EQ(status.code, CudaCode::kOutOfDeviceMemory);
    EXPECT_EQ(buffer.data(), nullptr);
  }
  Expect(DeviceBuffer<float>::Create(stream_, 100, buffer));  // and the device goes on
  Wait();
}

TEST_P(CudaDeviceTest, GraphsRunAgainWhatWasRecorded) {
  const auto rows = Upload(std::vector<float>(64, 1));
  const auto bias = Upload(std::vector<float>(32, 0.5f));
  const CudaAddArgs add{{rows.data(), Dtype::kF32, 2, 32, 32}, bias.data(), 0};
  CudaGraph graph;
  EXPECT_EQ(graph.Launch(stream_).code, CudaCode::kInvalidArgument);
  Expect(CudaGraph::Begin(stream_));
  EXPECT_EQ(CudaGraph::Begin(stream_).code, CudaCode::kInvalidArgument);
  Expect(CudaAdd(stream_, add));
  Expect(CudaAdd(stream_, add));
  const CudaStatus recorded = CudaGraph::End(stream_, graph);
  ASSERT_TRUE(recorded.ok()) << CudaMessage(recorded);
  EXPECT_EQ(Download(rows), std::vector<float>(64, 1));  // nothing has run
  for (int i = 0; i < 3; ++i) Expect(graph.Launch(stream_));
  EXPECT_EQ(Download(rows), std::vector<float>(64, 4));
}

// It would end the recording.
TEST_P(CudaDeviceTest, WhatOthersAllocateOrCloseWaitsForTheEndOfARecording) {
  const auto rows = Upload(std::vector<float>(64, 1));
  const auto bias = Upload(std::vector<float>(32, 0.5f));
  CudaStream second;
  Expect(CudaStream::Create(stream_.kernels(), stream_.device().index, second));
  CudaGraph graph;
  Expect(CudaGraph::Begin(stream_));
  std::atomic<int> num_done = 0;
  std::vector<std::thread> others;
  others.emplace_back([&] {
    DeviceBuffer<float> buffer;
    EXPECT_TRUE(DeviceBuffer<float>::Create(stream_, 100, buffer).ok());
    ++num_done;
  });
  others.emplace_back([&] {
    { const CudaStream closed = std::move(second); }
    ++num_done;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  Expect(CudaAdd(stream_, {{rows.data(), Dtype::kF32, 2, 32, 32}, bias.data(), 0}));
  EXPECT_EQ(num_done, 0);
  Expect(CudaGraph::End(stream_, graph));
  for (std::thread& other : others) other.join();
  Expect(graph.Launch(stream_));
  EXPECT_EQ(Download(rows), std::vector<float>(64, 1.5f));
}

LECTERN_CUDA_TESTS(CudaDeviceTest);

// ---- Machines that are not as they should be

class CudaMachineTest : public testing::Test {
 protected:
  void TearDown() override { cuda_emulation::SetMachine({}); }
  CudaStatus List() { return ListCudaDevices(*lectern_cuda_kernels(), devices_); }
  std::vector<CudaDeviceInfo> devices_;
};

TEST_F(CudaMachineTest, EachHasItsOwnErrorAndWayOut) {
  cuda_emulation::SetMachine({.num_devices = 0});
  EXPECT_EQ(List().code, CudaCode::kNoGpu);
  EXPECT_EQ(CudaMessage(List()),
            "CUDA: count devices: no CUDA-capable device is detected; run on "
            "the CPU, or check what nvidia-smi says");
  cuda_emulation::SetMachine({.driver = 0});
  EXPECT_EQ(List().code, CudaCode::kNoGpu);
  EXPECT_NE(CudaMessage(List()).find("no NVIDIA driver"), std::string::npos);
  cuda_emulation::SetMachine({.driver = 11080});
  EXPECT_EQ(List().code, CudaCode::kDriverTooOld);
  EXPECT_NE(CudaMessage(List()).find("update the NVIDIA driver"), std::string::npos);
  cuda_emulation::SetMachine({.major = 7});
  EXPECT_EQ(List().code, CudaCode::kGpuTooOld);
  CudaStream stream;
  EXPECT_EQ(CudaStream::Create(*lectern_cuda_kernels(), 0, stream).code, CudaCode::kGpuTooOld);
  cuda_emulation::SetMachine({.num_devices = 2});
  EXPECT_TRUE(List().ok());
  EXPECT_EQ(devices_.size(), 2u);
  EXPECT_FALSE(CudaStream::Create(*lectern_cuda_kernels(), 2, stream).ok());
}

// A device with 99 KiB of shared memory has room for rows of 128 columns, not for those of 256.
TEST_F(CudaMachineTest, AttentionAsksForNoMoreSharedMemoryThanThereIs) {
  cuda_emulation::SetMachine({.shared_bytes = 101376});
  CudaStream stream;
  ASSERT_TRUE(CudaStream::Create(*lectern_cuda_kernels(), 0, stream).ok());
  DeviceBuffer<float> memory;
  ASSERT_TRUE(DeviceBuffer<float>::Create(stream, 1 << 16, memory).ok());
  ASSERT_TRUE(memory.Fill(stream, 0).ok());
  CudaAttendArgs args;
  args.scale = 1;
  args.sources[0].keys = args.sources[0].values = memory.data();
  args.items = reinterpret_cast<const AttentionItem*>(memory.data());  // of no entries
  args.max_items = 1;
  args.states = {memory.data() + 1024, memory.data() + 512, memory.data() + 768};
  args.queries = {memory.data(), Dtype::kF16, 128, 1, 1, 1, 128};
  EXPECT_TRUE(CudaAttend(stream, args).ok());
  EXPECT_TRUE(stream.Wait().ok()) << cuda_emulation::TakeReport();
  args.queries = {memory.data(), Dtype::kF16, 256, 1, 1, 1, 256};
  const CudaStatus status = CudaAttend(stream, args);
  EXPECT_EQ(CudaMessage(status), "CUDA: attend: a head_dim too wide for this GPU's shared memory");
}

TEST_F(CudaMachineTest, NothingIsLeftAllocated) {
  const uint64_t before = cuda_emulation::AllocatedBytes();
  {
    CudaStream stream;
    ASSERT_TRUE(CudaStream::Create(*lectern_cuda_kernels(), 0, stream).ok());
    DeviceBuffer<float> a, b;
    ASSERT_TRUE(DeviceBuffer<float>::Create(stream, 100, a).ok());
    ASSERT_TRUE(DeviceBuffer<float>::Create(stream, 50, b).ok());
    EXPECT_EQ(cuda_emulation::AllocatedBytes(), before + 600);
    a = std::move(b);
    ASSERT_TRUE(DeviceBuffer<float>::Create(stream, 10, a).ok());
  }
  EXPECT_EQ(cuda_emulation::AllocatedBytes(), before);
}

// Where it was not built, or not for this machine, that is said; a table is of this version.
TEST_F(CudaMachineTest, TheLibraryIsThereOrMissedByName) {
  std::string why;
  const CudaKernels* const kernels = LoadCudaKernels(&why);
  if (kernels == nullptr) {
    EXPECT_NE(why.find("liblectern_cuda.so.1"), std::string::npos) << why;
    GTEST_SKIP() << "NOT TESTED: " << why;
  }
  EXPECT_EQ(kernels->version, kCudaKernelsVersion);
  std::vector<CudaDeviceInfo> devices;
  const CudaStatus status = ListCudaDevices(*kernels, devices);
  EXPECT_TRUE(status.ok() || status.code == CudaCode::kNoGpu ||
              status.code == CudaCode::kDriverTooOld || status.code == CudaCode::kGpuTooOld)
      << CudaMessage(status);
}

}  // namespace
}  // namespace lectern
