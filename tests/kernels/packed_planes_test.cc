#include "kernels/packed_planes.h"

#include <cmath>

#include "tests/kernels/kernel_case.h"

namespace lectern {
namespace {

// A matrix in planes, and the same as q8. Own bytes, one byte off every alignment.
struct PlanesMatrix {
  PlanesMatrix(const Matrix& values) : q8(values, PackedType::kQ8) {  // NOLINT: as PackedMatrix
    rows = {nullptr, PackedType::kQ8Planes, q8.rows.num_rows, q8.rows.num_cols};
    bytes.resize(1 + rows.bytes());
    std::byte* high = bytes.data() + 1;
    rows.Set(high);
    std::byte* low = high + rows.num_panels() * rows.panel_bytes();
    for (size_t row = 0; row < rows.num_rows; row += kPackedColumns) {
      SplitPanel(q8.rows.group(row, 0), rows.num_cols, high, low);
      high += rows.panel_bytes(), low += rows.low_panel_bytes();
    }
  }
  PlanesMatrix(const PlanesMatrix&) = delete;

  PackedMatrix q8;
  std::vector<std::byte> bytes;
  PackedRows rows;
};

// Heads that are as bad as can be for bounds, beside ordinary ones.
std::vector<Matrix> Heads(size_t n, size_t k) {
  std::vector<Matrix> heads;
  heads.push_back(Matrix::Random(n, k, 1));
  heads.push_back(Matrix::Random(n, k, 2, 1e-7f));  // scales that are subnormal as f16
  heads.push_back(Matrix::Random(n, k, 3, 3e4f));
  heads.push_back(Matrix(n, k, 0));
  heads.push_back(Matrix::Random(n, k, 4));  // norms of all sizes
  for (size_t r = 0; r < n; ++r) {
    for (size_t c = 0; c < k; ++c)
      heads.back()[r][c] *= std::ldexp(1.0f, static_cast<int>(r % 13) - 9);
  }
  heads.push_back(Matrix(n, k));  // low nibbles of 15, of 0, or in turns: as far off as can be
  for (size_t r = 0; r < n; ++r) {
    for (size_t c = 0; c < k; ++c) {
      const bool is_15 = r % 3 == 0 || (r % 3 == 1 && c % 2 == 0);
      const size_t step = 16 * (c % 7) + (is_15 ? 15 : 0);
      heads.back()[r][c] = c % 32 == 0 ? 127 : static_cast<float>(step);
    }
  }
  return heads;
}
std::vector<Matrix> Inputs(size_t m, size_t k) {
  std::vector<Matrix> inputs;
  inputs.push_back(Matrix::Random(m, k, 5));
  inputs.push_back(Matrix::Random(m, k, 6, 1e-36f));
  inputs.push_back(Matrix::Random(m, k, 7, 1e15f));
  inputs.push_back(Matrix(m, k, 0));
  for (const size_t turn : {1, 2}) {  // as large as can be, all of one sign or in turns
    inputs.push_back(Matrix(m, k, 127));
    for (size_t r = 0; r < m; ++r) {
      for (size_t c = 0; c < k; ++c) inputs.back()[r][c] *= (r + turn * c) % 2 == turn % 2 ? -1 : 1;
    }
  }
  return inputs;
}

class PlanesTest : public KernelTest {};

TEST_P(PlanesTest, HoldTheStepsOfQ8) {
  const PlanesMatrix planes(Matrix::Random(37, 96, 1));
  ASSERT_EQ(planes.rows.bytes(), 3u * (64 + 3 * (32 + 256) + 3 * 256));
  for (size_t r = 0; r < 37; ++r) {
    for (size_t c = 0; c < 96; ++c) {
      ASSERT_EQ(PackedStep(planes.rows, r, c), PackedStep(planes.q8.rows, r, c)) << r << ' ' << c;
      ASSERT_EQ(PackedScale(planes.rows, r, c), PackedScale(planes.q8.rows, r, c));
    }
  }
  const PackedRows part = planes.rows.Slice(16, 37);
  EXPECT_EQ(PackedElement(part, 20, 95), PackedElement(planes.q8.rows, 36, 95));
}

TEST_P(PlanesTest, MultiplyToTheBitsOfQ8) {
  for (const size_t m : {1, 2, 7, 15, 16, 31, 101}) {
    const Int8Matrix input(QuantiseRowsScalar, Matrix::Random(m, 288, 1));
    for (const Matrix& head : Heads(37, 288)) {
      const PlanesMatrix planes(head);
      Matrix expected(m, 37, 3), output(m, 37, 3), part(m, 37, NAN);
      const auto multiply = [&](const PackedRows& weight, Rows<float> to, size_t begin, size_t end,
                                bool accumulate) {
        kernels().packed_matmul({.input = input.rows,
                                 .weight = weight,
                                 .output = to,
                                 .column_begin = begin,
                                 .column_end = end,
                                 .accumulate = accumulate});
      };
      multiply(planes.q8.rows, expected.rows, 0, 37, true);
      multiply(planes.rows, output.rows, 0, 37, true);
      ASSERT_TRUE(SameBits(output[0], expected[0], m * 37)) << m;
      multiply(planes.q8.rows, expected.rows, 0, 37, false);
      for (const size_t begin : {32, 0, 16}) {
        multiply(planes.rows, part.rows, begin, std::min<size_t>(begin + 16, 37), false);
      }
      ASSERT_TRUE(SameBits(part[0], expected[0], m * 37)) << m;
    }
  }
}

// The bounds of all panels, a few panels at a time.
struct Bounds {
  Bounds(const Backend& kernels, const PlaneInput& input, const PackedRows& weight)
      : likely(input.rows.num_rows, weight.num_panels(), NAN), most(likely) {
    for (size_t begin = 0; begin < weight.num_panels(); begin += 3) {
      kernels.plane_bounds({.input = input,
                            .weight = weight,
                            .likely = likely.rows,
                            .most = most.rows,
                            .panel_begin = begin,
                            .panel_end = std::min(begin + 3, weight.num_panels())});
    }
  }
  Matrix likely, most;
};

// By this backend's own products and by sums in double.
TEST_P(PlanesTest, NoProductIsAboveItsBound) {
  constexpr size_t n = 53;
#if defined(__SANITIZE_ADDRESS__)  // looks for accesses, which fewer show too
  const std::vector<size_t> widths = {32, 288}, counts = {1, 3};
#else
  const std::vector<size_t> widths = {32, 288, 1024}, counts = {1, 3, 9};
#endif
  for (const size_t k : widths) {
    const std::vector<Matrix> heads = Heads(n, k);
    for (const size_t m : counts) {
      for (const Matrix& values : Inputs(m, k)) {
        const Int8Matrix rows(QuantiseRowsScalar, values);
        for (size_t h = 0; h < heads.size(); ++h) {
          const PlanesMatrix planes(heads[h]);
          Matrix exact(m, n);
          kernels().packed_matmul({.input = rows.rows,
                                   .weight = planes.rows,
                                   .output = exact.rows,
                                   .column_begin = 0,
                                   .column_end = n});
          for (const size_t known : {size_t{0}, size_t{3}, k / 8}) {
            PlaneInput input;
            ASSERT_TRUE(input.Set(rows.rows, known));
            const Bounds bounds(kernels(), input, planes.rows);
            for (size_t r = 0; r < m; ++r) {
              for (size_t row = 0; row < n; ++row) {
                const float most = bounds.most[r][row / 16];
                ASSERT_GE(most, exact[r][row]) << h << ": " << r << ' ' << row << ' ' << k;
                double sum = 0;
                for (size_t c = 0; known == 0 && c < k; ++c) {
                  sum += double{rows.scales[(r * k + c) / 32]} * rows.steps[r * k + c] *
                         PackedScale(planes.rows, row, c) * PackedStep(planes.rows, row, c);
                }
                ASSERT_TRUE(known > 0 || double{most} >= sum) << h << ": " << r << ' ' << row;
              }
              for (size_t p = 0; p < 4; ++p) ASSERT_LE(bounds.likely[r][p], bounds.most[r][p]);
            }
          }
        }
      }
    }
  }
}

// A bound that is far above the products would be of no use; the more is known, the nearer it is.
TEST_P(PlanesTest, BoundsAreNarrow) {
  const Int8Matrix rows(QuantiseRowsScalar, Matrix::Random(1, 640, 1));
  const PlanesMatrix planes(Matrix::Random(16, 640, 2));
  Matrix exact(1, 16);
  kernels().packed_matmul({.input = rows.rows,
                           .weight = planes.rows,
                           .output = exact.rows,
                           .column_begin = 0,
                           .column_end = 16});
  const float largest = *std::max_element(exact[0], exact[0] + 16);
  float before = kInf;
  for (const size_t known : {0, 20, 40, 80}) {
    PlaneInput input;
    ASSERT_TRUE(input.Set(rows.rows, known));
    const Bounds bounds(kernels(), input, planes.rows);
    EXPECT_LT(bounds.most.data[0], before);
    before = bounds.most.data[0];
    if (known == 0) {
      // A low nibble is within 7.5 of its middle, 4.6 in the mean of squares, of steps of about 60.
      EXPECT_NEAR(before, largest, 0.1 * 640);
      EXPECT_NEAR(bounds.likely.data[0], largest, 0.1 * std::sqrt(640) * 4);
    } else if (known == 80) {
      EXPECT_NEAR(before, largest, 0.002 * 640);  // what may be rounded off
      EXPECT_NEAR(bounds.likely.data[0], largest, 1e-5 * 640);
    }
  }
}

TEST_P(PlanesTest, BoundsAreThoseOfTheDefinition) {
  for (const size_t m : {1, 5, 13}) {
    const Int8Matrix rows(QuantiseRowsScalar, Matrix::Random(m, 288, 1));
    const PlanesMatrix planes(Matrix::Random(70, 288, 2));
    for (const size_t known : {0, 7}) {
      PlaneInput input;
      ASSERT_TRUE(input.Set(rows.rows, known));
      const Bounds bounds(kernels(), input, planes.rows);
      const Bounds expected(AvailableBackends()[0], input, planes.rows);
      for (size_t i = 0; i < m * 5; ++i) {
        EXPECT_NEAR(bounds.likely.data[i], expected.likely.data[i], 1e-4 * 288);
        EXPECT_NEAR(bounds.most.data[i], expected.most.data[i], 1e-4 * 288);
      }
    }
  }
}

TEST(PlaneInputTest, KnowsTheLargestPlacesAndRefusesWhatHasNoBounds) {
  Matrix values(2, 64, 1);
  values[0][17] = 50, values[1][63] = -20;
  PlaneInput input;
  ASSERT_TRUE(input.Set(Int8Matrix(QuantiseRowsScalar, values).rows, 2));
  EXPECT_EQ(input.known, (std::vector<uint32_t>{2, 7}));
  EXPECT_NEAR(input.reaches[1] / kOpenUnit, std::sqrt(24), 1e-4);  // of what is not known
  for (const float bad : {kInf, -kInf, NAN, 1e30f}) {
    values[1][40] = bad;
    EXPECT_FALSE(input.Set(Int8Matrix(QuantiseRowsScalar, values).rows, 2)) << bad;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, PlanesTest, testing::ValuesIn(AllRuns()), RunName);

}  // namespace
}  // namespace lectern
