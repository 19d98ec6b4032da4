#include "kernels/cuda/rows/matmul.h"

#include <cmath>

#include "kernels/element.h"
#include "tests/kernels/cuda/cuda_case.h"

namespace lectern {
namespace {

class CudaMatMulTest : public CudaTest {};

TEST_P(CudaMatMulTest, IsInputTimesTransposedWeight) {
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16}) {
    for (const Dtype out_type : {Dtype::kF32, dtype}) {
      const bool accumulate = out_type == Dtype::kF32;
      const StoredMatrix input(Matrix::Random(5, 72, 1), dtype);
      const StoredMatrix weight(Matrix::Random(9, 72, 2), dtype);
      const Matrix x = input.ToFloats(), w = weight.ToFloats(), before = Matrix::Random(5, 12, 3);
      const auto inputs = Upload(input.bytes, 1), weights = Upload(weight.bytes, 1);
      const StoredMatrix stored(before, out_type);
      const auto out = Upload(stored.bytes, 1);
      Expect(CudaMatMul(stream_, {.input = {inputs.data(), dtype, 5, 72, 72},
                                  .weight = {weights.data(), dtype, 9, 72, 72},
                                  .output = {out.data(), out_type, 5, 9, 12},
                                  .accumulate = accumulate}));
      const auto got = Download(out);
      for (size_t m = 0; m < 5; ++m) {
        for (size_t n = 0; n < 9; ++n) {
          double expected = accumulate ? double{before[m][n]} : 0;
          for (size_t k = 0; k < 72; ++k) expected += double{x[m][k]} * w[n][k];
          const double rounding = out_type == Dtype::kF32 ? 0 : 0x1p-8 * std::abs(expected);
          EXPECT_NEAR(LoadElement(got.data(), out_type, 12 * m + n), expected,
                      rounding + 1e-4);  // tensor cores truncate sums
        }
        EXPECT_NEAR(LoadElement(got.data(), out_type, 12 * m + 9), before[m][9], 0.02);  // a gap
      }
    }
  }
}

TEST_P(CudaMatMulTest, RefusesWhatItCannotTake) {
  const auto memory = Make<float>(64);
  const CudaMatMulArgs good{{memory.data(), Dtype::kF16, 2, 8, 8},
                            {memory.data(), Dtype::kF16, 3, 8, 8},
                            {memory.data(), Dtype::kF32, 2, 3, 3}};
  const auto refuses = [&](auto change) {
    CudaMatMulArgs args = good;
    change(args);
    return CudaMatMul(stream_, args).code == CudaCode::kInvalidArgument;
  };
  EXPECT_TRUE(refuses([](auto& a) { a.weight.num_cols = 7; }));
  EXPECT_TRUE(refuses([](auto& a) { a.output.num_cols = 2; }));
  EXPECT_TRUE(refuses([](auto& a) { a.weight.dtype = Dtype::kBf16; }));
  EXPECT_TRUE(refuses([](auto& a) { a.input.dtype = a.weight.dtype = Dtype::kF32; }));
  EXPECT_TRUE(refuses([](auto& a) { a.output.dtype = Dtype::kBf16; }));
  EXPECT_TRUE(refuses([](auto& a) {
    a.output.dtype = Dtype::kF16;
    a.accumulate = true;
  }));
  EXPECT_TRUE(refuses([](auto& a) { a.input.num_rows = a.output.num_rows = size_t{1} << 32; }));
}

LECTERN_CUDA_TESTS(CudaMatMulTest);

}  // namespace
}  // namespace lectern
