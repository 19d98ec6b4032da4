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
      SplitPanel(q8.rows.group(row, 0), std::min(kPackedColumns, rows.num_rows - row),
                 rows.num_cols, high, low);
      high += rows.panel_bytes(), low += rows.low_panel_bytes();
    }
  }
  PlanesMatrix(const PlanesMatrix&) = delete;

  PackedMatrix q8;
  std::vector<std::byte> bytes;
  PackedRows rows;
};

// An input, rounded to int8.
struct Int8Input {
  explicit Int8Input(const Matrix& values)
      : steps(values.data.size()), scales(steps.size() / kPackedGroup), sums(scales.size()) {
    QuantiseRowsScalar({.input = values, .steps = steps, .scales = scales, .sums = sums});
    rows = {steps.data(), scales.data(), sums.data(), values.rows.num_rows, values.rows.num_cols};
    for (size_t r = 0; r < rows.num_rows; ++r) norms.push_back(BoundedNorm(rows, r));
  }
  Int8Input(const Int8Input&) = delete;

  std::vector<int8_t> steps;
  std::vector<float> scales, sums, norms;
  Int8Rows rows;
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
    for (size_t c = 0; c < k; ++c) heads.back()[r][c] *= std::ldexp(1.0f, static_cast<int>(r % 13) - 9);
  }
  heads.push_back(Matrix(n, k));  // every low nibble 15, or every one 0: nothing but what is open
  for (size_t r = 0; r < n; ++r) {
    for (size_t c = 0; c < k; ++c) {
      heads.back()[r][c] = c % 32 == 0 ? 127 : static_cast<float>((r + c) % 2 ? 16 * (c % 7) : 16 * (c % 7) + 15);
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
  inputs.push_back(Matrix(m, k, 127));  // the sign of what is open in every place
  for (size_t r = 0; r < m; ++r) {
    for (size_t c = 0; c < k; ++c) inputs.back()[r][c] *= (r + c) % 2 ? 1 : -1;
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
  for (const size_t m : {1, 2, 7, 15, 31}) {
    const Int8Input input(Matrix::Random(m, 288, 1));
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

// By this backend's own products and by sums in double.
TEST_P(PlanesTest, NoProductIsAboveItsBound) {
  constexpr size_t n = 53, panels = 4;
  for (const size_t k : {32, 288, 1024}) {
    for (const size_t m : {1, 3, 9}) {
      for (const Matrix& values : Inputs(m, k)) {
        const Int8Input input(values);
        for (const Matrix& head : Heads(n, k)) {
          const PlanesMatrix planes(head);
          Matrix likely(m, panels, NAN), most(m, panels, NAN), exact(m, n);
          for (const size_t begin : {0, 3}) {
            kernels().plane_bounds({.input = input.rows,
                                    .weight = planes.rows,
                                    .norms = input.norms,
                                    .likely = likely.rows,
                                    .most = most.rows,
                                    .panel_begin = begin,
                                    .panel_end = begin == 0 ? 3u : panels});
          }
          kernels().packed_matmul({.input = input.rows,
                                   .weight = planes.rows,
                                   .output = exact.rows,
                                   .column_begin = 0,
                                   .column_end = n});
          for (size_t r = 0; r < m; ++r) {
            for (size_t row = 0; row < n; ++row) {
              ASSERT_GE(most[r][row / 16], exact[r][row]) << r << ' ' << row << ' ' << k;
              double sum = 0;
              for (size_t c = 0; c < k; ++c) {
                sum += double{input.scales[(r * k + c) / 32]} * input.steps[r * k + c] *
                       PackedScale(planes.rows, row, c) * PackedStep(planes.rows, row, c);
              }
              ASSERT_GE(double{most[r][row / 16]}, sum) << r << ' ' << row << ' ' << k;
            }
            for (size_t p = 0; p < panels; ++p) ASSERT_LE(likely[r][p], most[r][p]);
          }
        }
      }
    }
  }
}

// A bound that is far above the products would be of no use.
TEST_P(PlanesTest, BoundsAreNarrow) {
  const Int8Input input(Matrix::Random(1, 640, 1));
  const PlanesMatrix planes(Matrix::Random(16, 640, 2));
  Matrix likely(1, 1), most(1, 1), exact(1, 16);
  kernels().plane_bounds({.input = input.rows,
                          .weight = planes.rows,
                          .norms = input.norms,
                          .likely = likely.rows,
                          .most = most.rows,
                          .panel_begin = 0,
                          .panel_end = 1});
  kernels().packed_matmul({.input = input.rows,
                           .weight = planes.rows,
                           .output = exact.rows,
                           .column_begin = 0,
                           .column_end = 16});
  const float largest = *std::max_element(exact[0], exact[0] + 16);
  // A low nibble is within 7.5 of its middle, 4.6 in the mean of squares, of steps of about 60.
  EXPECT_NEAR(most[0][0], largest, 0.1 * 640);
  EXPECT_NEAR(likely[0][0], largest, 0.1 * std::sqrt(640) * 4);
}

TEST_P(PlanesTest, BoundsAreThoseOfTheDefinition) {
  if (is_definition()) GTEST_SKIP() << "nothing to compare";
  for (const size_t m : {1, 5, 13}) {
    const Int8Input input(Matrix::Random(m, 288, 1));
    const PlanesMatrix planes(Matrix::Random(70, 288, 2));
    Matrix likely(m, 5), most(m, 5), expected_likely(m, 5), expected_most(m, 5);
    PlaneBoundsArgs args = {.input = input.rows,
                            .weight = planes.rows,
                            .norms = input.norms,
                            .likely = likely.rows,
                            .most = most.rows,
                            .panel_begin = 0,
                            .panel_end = 5};
    kernels().plane_bounds(args);
    args.likely = expected_likely.rows, args.most = expected_most.rows;
    PlaneBoundsScalar(args);
    for (size_t i = 0; i < m * 5; ++i) {
      const double error = 1e-5 * input.norms[i / 5] * std::sqrt(288);
      EXPECT_NEAR(likely.data[i], expected_likely.data[i], error);
      EXPECT_NEAR(most.data[i], expected_most.data[i], error);
    }
  }
}

TEST(BoundedNormTest, IsNoSmallerAndIsNaNWhereTheRowIs) {
  Matrix values = Matrix::Random(3, 320, 1);
  values[2][40] = INFINITY;
  const Int8Input input(values);
  for (size_t r = 0; r < 2; ++r) {
    double squares = 0;
    for (size_t c = 0; c < 320; ++c) {
      squares += std::pow(double{input.scales[r * 10 + c / 32]} * input.steps[r * 320 + c], 2);
    }
    EXPECT_GE(double{input.norms[r]}, std::sqrt(squares));
    EXPECT_LE(double{input.norms[r]}, std::sqrt(squares) * 1.00001);
  }
  EXPECT_TRUE(std::isnan(input.norms[2]));
}

INSTANTIATE_TEST_SUITE_P(Backends, PlanesTest, testing::ValuesIn(AllRuns()), RunName);

}  // namespace
}  // namespace lectern
