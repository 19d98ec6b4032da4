// Shared by the kernel tests: every way to run a kernel here, and random unaligned inputs.
#ifndef LECTERN_TESTS_KERNELS_KERNEL_CASE_H_
#define LECTERN_TESTS_KERNELS_KERNEL_CASE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "hwy/targets.h"
#include "kernels/backend.h"
#include "tests/kernels/matrix.h"

namespace lectern {

inline constexpr size_t kWidths[] = {1, 7, 8, 9, 31, 33, 1000};  // around whole vectors
inline constexpr Dtype kAllDtypes[] = {Dtype::kF32, Dtype::kF16, Dtype::kBf16, Dtype::kQ8};

// A backend; for "simd" also the Highway target that it is held to, else 0.
struct KernelRun {
  const Backend* backend;
  int64_t target;
};

// Every backend, "simd" once for each instruction set that this machine has.
inline std::vector<KernelRun> AllRuns() {
  // Not compiled: kernels/CMakeLists.txt says why.
  constexpr int64_t kLeftOut =
      HWY_SSSE3 | HWY_AVX3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV;
  std::vector<KernelRun> runs;
  for (const Backend& backend : AvailableBackends()) {
    if (std::string(backend.name) != "simd") {
      runs.push_back({&backend, 0});
      continue;
    }
    const int64_t attainable = HWY_TARGETS & ~kLeftOut;
    for (int64_t left = hwy::SupportedTargets() & attainable; left != 0; left &= left - 1) {
      runs.push_back({&backend, left & -left});
    }
  }
  return runs;
}

// The name of a test's instance: "simd_AVX2".
inline std::string RunName(const testing::TestParamInfo<KernelRun>& info) {
  const KernelRun& run = info.param;
  return run.target == 0 ? run.backend->name
                         : std::string(run.backend->name) + "_" + hwy::TargetName(run.target);
}

// A test that runs in every way; while it runs, all of Highway's kernels in the process are held to
// its target.
class KernelTest : public testing::TestWithParam<KernelRun> {
 protected:
  void SetUp() override {
    if (GetParam().target == 0) return;
    hwy::SetSupportedTargetsForTest(GetParam().target);
    hwy::GetChosenTarget().DeInit();
    ASSERT_STREQ(SimdTarget(), hwy::TargetName(GetParam().target));  // the forced one really runs
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }
  const Backend& kernels() const { return *GetParam().backend; }
  // The scalar definition itself, which nothing is learnt from comparing with.
  bool is_definition() const { return GetParam().target == 0 || GetParam().target == HWY_SCALAR; }
};

// Packed weights, as StoredMatrix: one byte off, nothing behind the last panel. Values that cannot
// be packed fail the test.
struct PackedMatrix {
  PackedMatrix(const Matrix& values, PackedType type)
      : rows{nullptr, type, values.rows.num_rows, values.rows.num_cols} {
    bytes.resize(1 + rows.bytes());
    rows.data = bytes.data() + 1;
    for (size_t r = 0; r < rows.num_rows; r += kPackedColumns) {
      const size_t end = std::min(r + kPackedColumns, rows.num_rows);
      EXPECT_TRUE(PackPanel(Rows<const float>(values.rows).Slice(r, end), type,
                            bytes.data() + 1 + r / kPackedColumns * rows.panel_bytes()));
    }
  }
  // Rows of blocks.
  explicit PackedMatrix(const TensorRows& blocks)
      : rows{nullptr, PackedTypeOf(blocks.type), blocks.num_rows, blocks.num_cols} {
    bytes.resize(1 + rows.bytes());
    rows.data = bytes.data() + 1;
    for (size_t r = 0; r < rows.num_rows; r += kPackedColumns) {
      const size_t end = std::min(r + kPackedColumns, rows.num_rows);
      EXPECT_TRUE(PackBlocks(blocks.Slice(r, end),
                             bytes.data() + 1 + r / kPackedColumns * rows.panel_bytes()));
    }
  }
  PackedMatrix(const PackedMatrix&) = delete;
  Matrix ToFloats() const {
    Matrix result(rows.num_rows, rows.num_cols);
    for (size_t r = 0; r < rows.num_rows; ++r) {
      for (size_t c = 0; c < rows.num_cols; ++c) result[r][c] = PackedElement(rows, r, c);
    }
    return result;
  }

  std::vector<std::byte> bytes;
  PackedRows rows;
};

// Where the scale of a block lies, an f16, and that of mins, where there is one, behind it. The
// scale of MXFP4 is a byte.
inline size_t ScaleAt(TensorType type) {
  switch (type) {
    case TensorType::kQ6_K:
      return 208;
    case TensorType::kQ2_K:
      return 80;
    case TensorType::kQ3_K:
      return 108;
    default:
      return 0;
  }
}

// Blocks of random bits with scales of about 1; of whole numbers, so that they are never infinite.
struct RandomBlocks {
  RandomBlocks(size_t num_rows, size_t num_cols, TensorType type, unsigned seed)
      : rows{nullptr, type, num_rows, num_cols} {
    bytes.resize(1 + num_rows * rows.row_bytes());
    rows.data = bytes.data() + 1;
    std::mt19937 engine(seed);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(engine());
    const bool has_min = type == TensorType::kQ4_1 || type == TensorType::kQ5_1 ||
                         type == TensorType::kQ4_K || type == TensorType::kQ5_K ||
                         type == TensorType::kQ2_K;
    for (size_t at = 1; at < bytes.size(); at += BlockBytes(type)) {
      const auto put = [&](size_t offset, float value) {
        const f16 half = ToF16(value);
        std::memcpy(&bytes[at + offset], &half, sizeof half);
      };
      if (type == TensorType::kMXFP4) {
        bytes[at] = static_cast<std::byte>(engine() % 8 + 124);
        continue;
      }
      put(ScaleAt(type), static_cast<float>(engine() % 16 + 1) / 8);
      if (has_min) put(ScaleAt(type) + 2, static_cast<float>(engine() % 16) / 4 - 2);
    }
  }
  RandomBlocks(const RandomBlocks&) = delete;

  std::vector<std::byte> bytes;
  TensorRows rows;
};

inline constexpr TensorType kBlockTypes[] = {
    TensorType::kQ8_0, TensorType::kQ4_0, TensorType::kQ4_1,   TensorType::kQ5_0,
    TensorType::kQ5_1, TensorType::kQ4_K, TensorType::kQ5_K,   TensorType::kQ6_K,
    TensorType::kQ2_K, TensorType::kQ3_K, TensorType::kIQ4_NL, TensorType::kIQ4_XS,
    TensorType::kMXFP4};

}  // namespace lectern

#endif  // LECTERN_TESTS_KERNELS_KERNEL_CASE_H_
