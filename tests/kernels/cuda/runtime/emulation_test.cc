// The emulated device finds what it says it finds: kernels with one mistake each.
#include "tests/kernels/cuda_emulation/emulation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/primitives.cuh"
#include "tests/kernels/matrix.h"

namespace lectern {
namespace {

struct Args {
  const float* in = nullptr;
  float* out = nullptr;
  int mistake = 0;
};

// Turns 128 numbers around by way of shared memory. Mistake 1: no barrier. 2: a thread does not
// wait for earlier kernels.
__global__ void ReverseKernel(const Args args) {
  if (args.mistake != 2 || threadIdx.x != 64) WaitForEarlierKernels();
  auto* const shared = reinterpret_cast<float*>(SharedMemory());
  shared[threadIdx.x] = args.in[threadIdx.x];
  if (args.mistake != 1) __syncthreads();
  args.out[threadIdx.x] = shared[127 - threadIdx.x];
}

// Mistake 1: half of the block does not come. 2: lanes of a warp part ways. 3: a shuffle without
// its upper half. 4: a write past shared memory.
__global__ void BarrierKernel(const Args args) {
  WaitForEarlierKernels();
  if (args.mistake == 1 && threadIdx.x >= 64) return;
  if (args.mistake == 2 && threadIdx.x == 5) {
    (void)__ballot_sync(0xFFFFFFFFu, true);
  } else {
    args.out[threadIdx.x] = __shfl_xor_sync(args.mistake == 3 ? 0xFFFFu : 0xFFFFFFFFu, 1.0f, 1);
  }
  if (args.mistake == 4) reinterpret_cast<float*>(SharedMemory())[128] = 0;
  __syncthreads();
}

// 512 numbers by cp.async. Mistake 1: not waited for; 2: waited for, but others' are read without
// a barrier; 3: read before the wait; 4: not aligned.
__global__ void CopyKernel(const Args args) {
  WaitForEarlierKernels();
  auto* const shared = reinterpret_cast<float*>(SharedMemory());
  CopyAsync16(shared + 4 * threadIdx.x, args.in + 4 * threadIdx.x + (args.mistake == 4 ? 1 : 0),
              16);
  CommitCopies();
  if (args.mistake == 3) args.out[threadIdx.x] = shared[4 * threadIdx.x];
  if (args.mistake != 1) WaitCopies<0>();
  if (args.mistake != 2) __syncthreads();
  if (args.mistake != 3) args.out[threadIdx.x] = shared[4 * (127 - threadIdx.x)];
}

class EmulationTest : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "their mistakes are races";
#endif
    cuda_emulation::SetMachine({});
    cuda_emulation::SetSeed(0);
    for (int i = 0; i < 512; ++i) in_.push_back(static_cast<float>(i));
    ASSERT_TRUE(CudaStream::Create(*lectern_cuda_kernels(), 0, stream_).ok());
  }
  void TearDown() override { cuda_emulation::SetSeed(0); }

  // Runs a block of 128 threads with `shared` bytes of shared memory, which leaves its results in out_.
  // Returns the report of its mistake, "" if it made none.
  std::string Run(void (*kernel)(Args), int mistake, uint64_t seed = 0, uint32_t shared = 512) {
    cuda_emulation::SetSeed(seed);
    out_.assign(128, NAN);
    CudaStream stream;
    EXPECT_TRUE(CudaStream::Create(*lectern_cuda_kernels(), 0, stream).ok());
    const CudaStatus status = Launch(stream.handle(), {.threads = 128, .shared_bytes = shared},
                                     "test", kernel, Args{in_.data(), out_.data(), mistake});
    EXPECT_TRUE(status.ok()) << CudaMessage(status);
    const std::string report = cuda_emulation::TakeReport();
    EXPECT_EQ(stream.Wait().ok(), report.empty());  // and the stream stays failed
    return report;
  }
  // Seeds of 1 … 20 for which any number is not what `right` has.
  int NumSeedsWrong(void (*kernel)(Args), int mistake, uint32_t shared) {
    EXPECT_EQ(Run(kernel, 0, 0, shared), "");
    const std::vector<float> right = out_;
    int wrong = 0;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      EXPECT_EQ(Run(kernel, mistake, seed, shared), "");
      wrong += !SameBits(out_.data(), right.data(), 128);
    }
    return wrong;
  }

  alignas(16) std::vector<float> in_;
  std::vector<float> out_;
  CudaStream stream_;
};

TEST_F(EmulationTest, DrawnOrdersShowAMissingBarrier) {
  EXPECT_EQ(NumSeedsWrong(ReverseKernel, 0, 512), 0);
  EXPECT_EQ(NumSeedsWrong(ReverseKernel, 1, 512), 20);
  EXPECT_EQ(NumSeedsWrong(CopyKernel, 0, 2048), 0);
  EXPECT_EQ(NumSeedsWrong(CopyKernel, 2, 2048), 20);
}

TEST_F(EmulationTest, ThreadsThatWaitForeverAreReported) {
  EXPECT_EQ(Run(BarrierKernel, 0), "");
  EXPECT_EQ(Run(BarrierKernel, 1),
            "block (0, 0, 0): deadlock: 64 threads ended, 64 wait for __syncthreads");
}

TEST_F(EmulationTest, ThreadsThatDoNotWaitForEarlierKernelsAreReported) {
  EXPECT_EQ(Run(ReverseKernel, 0), "");
  EXPECT_EQ(Run(ReverseKernel, 2), "block (0, 0, 0): a thread did not wait for earlier kernels");
}

#ifdef __SANITIZE_THREAD__

// Two blocks of 64 threads turn pairs of numbers around, the last one to end adds all up. Mistakes,
// which change nothing of what comes out here: 1: a shuffle takes the place of __syncwarp. 2: both
// blocks write the same number to the same place. 3: no barrier before the block is counted. 4: no
// fence before, 5: none after.
struct SumArgs {
  const float* in;
  float* out;  // [130]
  uint32_t* counter;
  int mistake;
};
__global__ void SumKernel(const SumArgs args) {
  WaitForEarlierKernels();
  auto* const is_last = reinterpret_cast<uint32_t*>(SharedMemory());
  auto* const values = reinterpret_cast<float*>(SharedMemory() + 16);
  const uint32_t at = blockIdx.x * 64 + threadIdx.x;
  values[threadIdx.x] = args.in[at];
  if (args.mistake == 1) {
    (void)__shfl_xor_sync(kAllLanes, 0.0f, 1);
  } else {
    __syncwarp();
  }
  args.out[at] = values[threadIdx.x ^ 1];
  if (args.mistake == 2 && threadIdx.x == 0) args.out[129] = 1;
  if (args.mistake != 3) __syncthreads();
  if (threadIdx.x == 0) {
    if (args.mistake != 4) __threadfence();
    *is_last = atomicAdd(args.counter, 1u) == 1 ? 1 : 0;
    if (args.mistake != 5) __threadfence();
  }
  __syncthreads();
  if (*is_last == 0 || threadIdx.x > 0) return;
  float sum = 0;
  for (uint32_t i = 0; i < 128; ++i) sum += __ldcg(args.out + i);
  args.out[128] = sum;
}

void RunSum(int mistake) {
  std::vector<float> in(128, 1.0f), out(130, 0.0f);
  std::vector<uint32_t> counter(1, 0u);
  CudaStream stream;
  const bool is_done =
      CudaStream::Create(*lectern_cuda_kernels(), 0, stream).ok() &&
      Launch(stream.handle(), {.x = 2, .threads = 64, .shared_bytes = 16 + 64 * 4}, "test",
             SumKernel, SumArgs{in.data(), out.data(), counter.data(), mistake})
          .ok() &&
      stream.Wait().ok();
  std::exit(is_done && out[128] == 128 ? 0 : 1);
}

TEST(EmulatedOrderDeathTest, RacesOfThreadsWarpsAndBlocksAreReported) {
  constexpr int kFoundARace = 66;  // ThreadSanitizer's status
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(RunSum(0), testing::ExitedWithCode(0), "");
  for (int mistake = 1; mistake <= 5; ++mistake) {
    EXPECT_EXIT(RunSum(mistake), testing::ExitedWithCode(kFoundARace), "data race") << mistake;
  }
}

#endif

// Code before the wait would read memory that earlier kernels have not written yet, on a GPU alone.
TEST_F(EmulationTest, EveryKernelBeginsWithTheWait) {
  int num_kernels = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(LECTERN_SOURCE_DIR "/kernels/cuda")) {
    if (entry.path().extension() != ".cu") continue;
    std::stringstream file;
    file << std::ifstream(entry.path()).rdbuf();
    const std::string text = file.str();
    for (size_t at = 0; (at = text.find("__global__", at)) != std::string::npos; ++num_kernels) {
      at = text.find_first_not_of(" \n", text.find(") {\n", at) + 3);
      EXPECT_TRUE(text.substr(at).starts_with("WaitForEarlierKernels();"))
          << entry.path() << ": " << text.substr(at, 60);
    }
  }
  EXPECT_GE(num_kernels, 31);
}

TEST_F(EmulationTest, LanesThatDivergeAreReported) {
  EXPECT_EQ(Run(BarrierKernel, 2),
            "block (0, 0, 0): lanes of a warp diverged: some wait for shuffle, another for ballot");
  EXPECT_EQ(Run(BarrierKernel, 3), "block (0, 0, 0): shuffle: a lane that its mask leaves out");
}

TEST_F(EmulationTest, WritesPastSharedMemoryAreReported) {
  EXPECT_EQ(Run(BarrierKernel, 4), "block (0, 0, 0): a write past shared memory");
}

TEST_F(EmulationTest, CopiesArriveWhenTheyAreWaitedFor) {
  EXPECT_EQ(Run(CopyKernel, 1, 0, 2048),
            "block (0, 0, 0): a thread ended before its copies had arrived");
  EXPECT_EQ(Run(CopyKernel, 3, 0, 2048), "");
  for (const float x : out_) EXPECT_TRUE(std::isnan(x));
  EXPECT_EQ(Run(CopyKernel, 4, 0, 2048),
            "block (0, 0, 0): cp.async of an address that is not aligned");
  EXPECT_EQ(Run(CopyKernel, 0, 0, 512), "block (0, 0, 0): cp.async to what is not shared memory");
}

TEST_F(EmulationTest, SharedMemoryPast48KiBMustBeAllowedAndThere) {
  EXPECT_EQ(Run(ReverseKernel, 0, 0, 100 << 10), "");  // Launch asks for it
  cuda_emulation::SetMachine({.shared_bytes = 64 << 10});
  const CudaStatus status = Launch(stream_.handle(), {.threads = 128, .shared_bytes = 100 << 10},
                                   "test", ReverseKernel, Args{});
  EXPECT_EQ(status.code, CudaCode::kFailed);
  const CudaStatus threads =
      Launch(stream_.handle(), {.threads = 1025}, "test", ReverseKernel, Args{});
  EXPECT_EQ(threads.code, CudaCode::kFailed);
}

// a, b and the product as matrices, whatever lanes hold them.
struct ProductArgs {
  const f16* a;  // [16][16]
  const f16* b;  // [8][16]: columns
  float* d;      // [16][8]
};
__global__ void ProductKernel(const ProductArgs args) {
  WaitForEarlierKernels();
  auto* const shared = reinterpret_cast<f16*>(SharedMemory());
  const uint32_t lane = threadIdx.x;
  for (uint32_t i = lane; i < 256; i += 32) shared[i] = args.a[i];
  for (uint32_t i = lane; i < 128; i += 32) {
    shared[256 + i] = args.b[i];
    shared[384 + i % 16 * 8 + i / 16] = args.b[i];  // [16][8]: rows
  }
  __syncthreads();
  uint32_t a[4], b[4], turned[4];
  LoadMatrices(a, shared + lane % 16 * 16 + lane / 16 * 8);
  LoadMatrices(b, shared + 256 + lane % 8 * 16 + lane / 8 % 2 * 8);
  LoadTransposedMatrices(turned, shared + 384 + lane % 16 * 8);
  float d[4] = {1, 1, 1, 1};
  MultiplyAdd<f16>(d, a, b[0], b[1]);
  MultiplyAdd<f16>(d, a, turned[0], turned[1]);
  for (uint32_t i = 0; i < 4; ++i) {
    args.d[(lane / 4 + 8 * (i / 2)) * 8 + 2 * (lane % 4) + i % 2] = d[i];
  }
}

TEST_F(EmulationTest, MatrixInstructionsAreThoseOfThePtxIsa) {
  const Matrix a = Matrix::Random(16, 16, 1), b = Matrix::Random(8, 16, 2);
  std::vector<f16> halves_a, halves_b;
  for (const float x : a.data) halves_a.push_back(ToF16(x));
  for (const float x : b.data) halves_b.push_back(ToF16(x));
  std::vector<float> d(128, NAN);
  const CudaStatus status =
      Launch(stream_.handle(), {.threads = 32, .shared_bytes = 1024}, "test", ProductKernel,
             ProductArgs{halves_a.data(), halves_b.data(), d.data()});
  ASSERT_TRUE(status.ok());
  ASSERT_TRUE(stream_.Wait().ok()) << cuda_emulation::TakeReport();
  for (size_t row = 0; row < 16; ++row) {
    for (size_t col = 0; col < 8; ++col) {
      double expected = 1;
      for (size_t k = 0; k < 16; ++k) {
        expected += 2.0 * ToFloat(halves_a[row * 16 + k]) * ToFloat(halves_b[col * 16 + k]);
      }
      EXPECT_NEAR(d[row * 8 + col], expected, 1e-4) << row << ", " << col;
    }
  }
}

}  // namespace
}  // namespace lectern
