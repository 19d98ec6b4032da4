#include "kernels/cuda/rows.h"

#include <cmath>

#include "kernels/element.h"
#include "kernels/rms_norm.h"
#include "tests/kernels/cuda/cuda_case.h"

namespace lectern {
namespace {

// A stored value of `dtype` as float, and how far rounding to it may be off, relative.
float Stored(const std::byte* row, Dtype dtype, size_t c) { return LoadElement(row, dtype, c); }
double Rounding(Dtype dtype) {
  return dtype == Dtype::kF16 ? 0x1p-11 : dtype == Dtype::kBf16 ? 0x1p-8 : 0;
}
constexpr Dtype kPlainDtypes[] = {Dtype::kF32, Dtype::kF16, Dtype::kBf16};

class CudaRowsTest : public CudaTest {};

TEST_P(CudaRowsTest, RmsNormMatchesScalarAroundVectorWidths) {
  for (const size_t width : {1, 7, 8, 33, 128, 512, 513, 1000, 1028}) {
    for (const Dtype dtype : kPlainDtypes) {
      SCOPED_TRACE(testing::Message() << width << " wide, dtype " << static_cast<int>(dtype));
      const Matrix input = Matrix::Random(11, width, 1), weight = Matrix::Random(1, width, 2);
      Matrix expected(11, width);
      RmsNormScalar(
          {.input = input, .weight = weight.data, .epsilon = 1e-5f, .output = expected.rows});
      const auto in = Upload(input.data), weights = Upload(weight.data);
      const size_t stride = width + 3;
      const auto out = Make<std::byte>(11 * RowBytes(dtype, stride));
      Expect(CudaRmsNorm(stream_, {.input = {in.data(), Dtype::kF32, 11, width, width},
                                   .weight = weights.data(),
                                   .epsilon = 1e-5f,
                                   .output = {out.data(), dtype, 11, width, stride}}));
      const auto output = Download(out);
      for (size_t r = 0; r < 11; ++r) {
        const std::byte* const row = output.data() + r * RowBytes(dtype, stride);
        for (size_t c = 0; c < width; ++c) {
          ASSERT_NEAR(Stored(row, dtype, c), expected[r][c],
                      (1e-5 + Rounding(dtype)) * std::abs(expected[r][c]) + 1e-7);
        }
        EXPECT_EQ(row[RowBytes(dtype, width)], std::byte{0xFF});  // the gap is left alone
      }
    }
  }
}

TEST_P(CudaRowsTest, RmsNormInPlaceAndUnaligned) {
  Matrix input = Matrix::Random(3, 601, 1);
  const std::vector<float> weight(600, 2);
  Matrix expected(3, 600);
  RmsNormScalar({.input = Rows<const float>(input[0] + 1, 3, 600, 601),
                 .weight = weight,
                 .epsilon = 0,
                 .output = expected.rows});
  const auto rows = Upload(input.data), weights = Upload(weight);
  const DeviceRows in_place{rows.data() + 1, Dtype::kF32, 3, 600, 601};
  Expect(CudaRmsNorm(stream_, {in_place, weights.data(), 0, in_place}));
  const auto output = Download(rows);
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(output[r * 601], input[r][0]);
    for (size_t c = 0; c < 600; ++c) {
      EXPECT_NEAR(output[r * 601 + 1 + c], expected[r][c], 1e-5 * std::abs(expected[r][c]));
    }
  }
}

TEST_P(CudaRowsTest, RmsNormRefusesWhatItCannotTake) {
  const auto rows = Make<float>(64);
  const DeviceRows good{rows.data(), Dtype::kF32, 2, 32, 32};
  DeviceRows bad = good;
  const auto refuses = [&](const DeviceRows& input, const DeviceRows& output) {
    return CudaRmsNorm(stream_, {input, rows.data(), 0, output}).code ==
           CudaCode::kInvalidArgument;
  };
  bad.num_rows = 1;
  EXPECT_TRUE(refuses(good, bad));
  bad = good;
  bad.stride = 31;
  EXPECT_TRUE(refuses(bad, good));
  bad = good;
  bad.dtype = Dtype::kQ8;
  EXPECT_TRUE(refuses(good, bad));
  bad = good;
  bad.data = reinterpret_cast<char*>(rows.data()) + 2;
  EXPECT_TRUE(refuses(bad, good));
  bad.data = nullptr;
  EXPECT_TRUE(refuses(good, bad));
}

LECTERN_CUDA_TESTS(CudaRowsTest);

}  // namespace
}  // namespace lectern
