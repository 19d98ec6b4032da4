#include "kernels/cuda/rows/row_cosines.h"

#include <cmath>

#include "tests/kernels/cuda/cuda_case.h"

namespace lectern {
namespace {

class CudaRowCosinesTest : public CudaTest {};

DeviceRows View(const DeviceBuffer<float>& rows, size_t num_rows, size_t num_cols) {
  return {rows.data(), Dtype::kF32, num_rows, num_cols, num_cols};
}

// Rows of many blocks, of few columns and of more than a warp has; near ones, as they are between
// layers, opposite ones and zeros.
TEST_P(CudaRowCosinesTest, AreThoseOfDoubles) {
  for (const auto& [num_rows, num_cols] :
       {std::pair<size_t, size_t>{1, 1}, {3, 31}, {70, 200}, {9, 2048}}) {
    SCOPED_TRACE(testing::Message() << num_rows << " rows of " << num_cols);
    const Matrix before = Matrix::Random(num_rows, num_cols, 1);
    Matrix after = Matrix::Random(num_rows, num_cols, 2);
    for (size_t c = 0; c < num_cols; ++c) {
      after.rows[0][c] = before.rows[0][c] * 1.5f + after.rows[0][c] * 0.1f;
      after.rows[num_rows / 2][c] = -3 * before.rows[num_rows / 2][c];
      if (num_rows > 2) after.rows[num_rows - 1][c] = 0;
    }
    const auto device_before = Upload(before.data), device_after = Upload(after.data);
    const auto cosines = Make<float>(num_rows);
    Expect(CudaRowCosines(stream_, {View(device_before, num_rows, num_cols),
                                    View(device_after, num_rows, num_cols), cosines.data()}));
    const std::vector<float> found = Download(cosines);
    for (size_t r = 0; r < num_rows; ++r) {
      double product = 0, before_squared = 0, after_squared = 0;
      for (size_t c = 0; c < num_cols; ++c) {
        const double b = before.rows[r][c], a = after.rows[r][c];
        product += b * a;
        before_squared += b * b;
        after_squared += a * a;
      }
      const double norms = std::sqrt(before_squared * after_squared);
      EXPECT_NEAR(found[r], norms > 0 ? product / norms : 1, 1e-5) << "row " << r;
    }
  }
}

TEST_P(CudaRowCosinesTest, RefusesWhatItCannotTake) {
  const auto rows = Make<float>(64);
  const auto run = [&](const DeviceRows& before, const DeviceRows& after, float* cosines) {
    return CudaRowCosines(stream_, {before, after, cosines}).code;
  };
  const DeviceRows good = View(rows, 4, 8);
  EXPECT_EQ(run(good, View(rows, 4, 4), rows.data()), CudaCode::kInvalidArgument);
  EXPECT_EQ(run(good, View(rows, 3, 8), rows.data()), CudaCode::kInvalidArgument);
  EXPECT_EQ(run(good, good, nullptr), CudaCode::kInvalidArgument);
  EXPECT_EQ(run(good, {nullptr, Dtype::kF32, 4, 8, 8}, rows.data()), CudaCode::kInvalidArgument);
  EXPECT_EQ(run(good, {rows.data(), Dtype::kF16, 4, 8, 8}, rows.data()),
            CudaCode::kInvalidArgument);
  EXPECT_EQ(run(View(rows, 0, 8), View(rows, 0, 8), nullptr), CudaCode::kOk);
}

LECTERN_CUDA_TESTS(CudaRowCosinesTest);

}  // namespace
}  // namespace lectern
