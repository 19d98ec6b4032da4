// Shared by the tests of CUDA kernels: every device that they run on here, and buffers.
//
// "emulated" runs the kernels on the CPU, threads in order; "emulated_shuffled" in a drawn order,
// which shows missing barriers; "gpu" on the first GPU, where liblectern_cuda.so.1 was built and
// there is one, else it is skipped, loudly.
#ifndef LECTERN_TESTS_KERNELS_CUDA_CUDA_CASE_H_
#define LECTERN_TESTS_KERNELS_CUDA_CUDA_CASE_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/cuda/runtime/device.h"
#include "tests/kernels/cuda_emulation/emulation.h"
#include "tests/kernels/matrix.h"

namespace lectern {

enum class CudaMachine { kEmulated, kEmulatedShuffled, kGpu };

inline std::string CudaMachineName(const ::testing::TestParamInfo<CudaMachine>& info) {
  switch (info.param) {
    case CudaMachine::kEmulated:
      return "emulated";
    case CudaMachine::kEmulatedShuffled:
      return "emulated_shuffled";
    default:
      return "gpu";
  }
}

// The bits of `values` in this type of 16 bits; `values` become the numbers that the bits stand
// for.
inline std::vector<uint16_t> RoundTo(Dtype dtype, Matrix& values) {
  std::vector<uint16_t> bits(values.data.size());
  auto* const bytes = reinterpret_cast<std::byte*>(bits.data());
  FromFloatRowsScalar(values.rows, dtype, bytes);
  ToFloatRowsScalar({bytes, dtype, values.rows.num_rows, values.rows.num_cols}, values.rows);
  return bits;
}

// A test that runs on each machine, with a stream of its own. SetUp skips, with the reason, where
// there is no GPU; TearDown fails the test if the emulation has found a mistake. Errors of CUDA
// fail it.
class CudaTest : public ::testing::TestWithParam<CudaMachine> {
 public:
  void SetUp() override {
    std::string why;
    const bool is_gpu = GetParam() == CudaMachine::kGpu;
    const CudaKernels* const kernels = is_gpu ? LoadCudaKernels(&why) : lectern_cuda_kernels();
    if (kernels == nullptr) GTEST_SKIP() << "NOT TESTED ON A GPU: " << why;
    cuda_emulation::SetSeed(GetParam() == CudaMachine::kEmulatedShuffled ? Seed() : 0);
    cuda_emulation::SetMachine({});
    std::vector<CudaDeviceInfo> devices;
    const CudaStatus listed = ListCudaDevices(*kernels, devices);
    if (is_gpu && !listed.ok()) GTEST_SKIP() << "NOT TESTED ON A GPU: " << CudaMessage(listed);
    ASSERT_TRUE(listed.ok()) << CudaMessage(listed);
    ASSERT_TRUE(CudaStream::Create(*kernels, devices[0].index, stream_).ok());
  }
  void TearDown() override {
    if (GetParam() == CudaMachine::kGpu) return;
    EXPECT_EQ(cuda_emulation::TakeReport(), "");
  }

  // Fails the test with what went wrong.
  void Expect(const CudaStatus& status) const {
    EXPECT_TRUE(status.ok()) << CudaMessage(status) << "\n" << cuda_emulation::TakeReport();
  }
  void Wait() { Expect(stream_.Wait()); }  // until all work of the stream is done

  // A copy of `values` on the device, without the first `skipped`; it is there when this returns.
  template <typename T>
  DeviceBuffer<T> Upload(const std::vector<T>& values, size_t skipped = 0) {
    DeviceBuffer<T> buffer;
    const size_t size = values.size() - skipped;
    Expect(DeviceBuffer<T>::Create(stream_, size, buffer));
    Expect(buffer.Upload(stream_, values.data() + skipped, size));
    Wait();
    return buffer;
  }
  // A buffer whose bytes are NaN as floats of any kind.
  template <typename T>
  DeviceBuffer<T> Make(size_t size) {
    DeviceBuffer<T> buffer;
    Expect(DeviceBuffer<T>::Create(stream_, size, buffer));
    Expect(buffer.Fill(stream_, 0xFF));
    return buffer;
  }
  // The buffer's content after all work of the stream.
  template <typename T>
  std::vector<T> Download(const DeviceBuffer<T>& buffer) {
    std::vector<T> values(buffer.size());
    Expect(buffer.Download(stream_, values.data(), values.size()));
    Wait();
    return values;
  }

 protected:
  // LECTERN_EMULATION_SEED=N tries other orders, by hand.
  static uint64_t Seed() {
    const char* const given = std::getenv("LECTERN_EMULATION_SEED");
    return given == nullptr ? 20241122 : std::strtoull(given, nullptr, 10);
  }

  CudaStream stream_;
};

// With AddressSanitizer, which takes ten times as long, one order is enough; to ThreadSanitizer all
// are the same.
inline std::vector<CudaMachine> CudaMachines() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return {CudaMachine::kEmulatedShuffled, CudaMachine::kGpu};
#else
  return {CudaMachine::kEmulated, CudaMachine::kEmulatedShuffled, CudaMachine::kGpu};
#endif
}

#define LECTERN_CUDA_TESTS(Suite) \
  INSTANTIATE_TEST_SUITE_P(Machines, Suite, ::testing::ValuesIn(CudaMachines()), CudaMachineName)

}  // namespace lectern

#endif  // LECTERN_TESTS_KERNELS_CUDA_CUDA_CASE_H_
