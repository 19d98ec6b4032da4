#include "kernels/packed_matmul.h"

#include <cmath>

#include "tests/kernels/kernel_case.h"

namespace lectern {
namespace {

using PackedMatMul = void (*)(const PackedMatMulArgs&);

void Multiply(PackedMatMul matmul, const Int8Rows& input, const PackedRows& weight,
              Rows<float> output, size_t begin, size_t end, bool accumulate = false) {
  matmul({.input = input,
          .weight = weight,
          .output = output,
          .column_begin = begin,
          .column_end = end,
          .accumulate = accumulate});
}

class PackedMatMulTest : public KernelTest {};
// The larger tests, on what has code of its own: Highway's scalar target runs the definition
// (packed_matmul_simd.cc), which PackedMatMulTest is enough to see.
class PackedBlocksTest : public KernelTest {};

TEST_P(PackedMatMulTest, QuantisesByHand) {
  Matrix input(2, 64);
  input[0][3] = 127, input[0][4] = -2.5f, input[0][5] = 3.5f, input[0][6] = 0.4f;  // scale 1
  input[0][32] = -63.5f, input[0][33] = 0.25f, input[0][63] = 0.75f;               // scale 0.5
  input[1][0] = 1e-38f;  // its scale would not be a normal float
  input[1][40] = 5, input[1][50] = -kInf;
  const Int8Matrix rows(kernels().quantise_rows, input);
  std::vector<int8_t> expected(128);
  expected[3] = 127, expected[4] = -2, expected[5] = 4;
  expected[32] = -127, expected[33] = 0, expected[63] = 2;
  EXPECT_EQ(rows.steps, expected);
  EXPECT_EQ(rows.scales[0], 1);
  EXPECT_EQ(rows.scales[1], 0.5f);
  EXPECT_EQ(rows.scales[2], 0);
  EXPECT_TRUE(std::isnan(rows.scales[3]));
  EXPECT_EQ(rows.sums[0], 127 - 2 + 4);
  EXPECT_EQ(rows.sums[1], 0.5f * (-127 + 2));
  EXPECT_EQ(rows.sums[2], 0);
  EXPECT_TRUE(std::isnan(rows.sums[3]));
  const std::vector<HalfSums> half_sums = {{127 - 2 + 4, 0}, {-127, 2}, {}, {}};
  EXPECT_EQ(rows.half_sums, half_sums);
}

TEST_P(PackedMatMulTest, QuantisesToTheBitsOfTheDefinition) {
  for (const float size : {1.0f, 1e-36f, 1e37f}) {
    Matrix input = Matrix::Random(7, 96, 3, size);
    input[2][40] = NAN;
    for (int i = 0; i < 32; ++i) input[3][i] = (i % 2 ? 0.5f : -0.5f) * static_cast<float>(i);
    input[3][0] = 127;  // ties
    const Int8Matrix expected(QuantiseRowsScalar, input), rows(kernels().quantise_rows, input);
    EXPECT_EQ(rows.steps, expected.steps);
    EXPECT_TRUE(SameBits(rows.scales.data(), expected.scales.data(), rows.scales.size()));
    EXPECT_TRUE(SameBits(rows.sums.data(), expected.sums.data(), rows.sums.size()));
    EXPECT_EQ(rows.half_sums, expected.half_sums);
    for (size_t r = 0; r < 7; ++r) {
      for (size_t c = 0; c < 96; ++c) {
        if (r == 2 && c / 32 == 1) continue;
        const double half = expected.scales[r * 3 + c / 32] / 2;
        EXPECT_NEAR(expected.Value(r, c), input[r][c], half * 1.0001 + 1e-36);
      }
    }
  }
}

// The values (scale times step) and minimums of packed weights, each looked up once.
struct WeightParts {
  explicit WeightParts(const PackedRows& rows)
      : num_rows(rows.num_rows), num_cols(rows.num_cols), has_halves(PackedScales(rows.type) > 1) {
    for (size_t c = 0; c < num_rows; ++c) {
      for (size_t k = 0; k < num_cols; ++k) {
        values.push_back(double{PackedScale(rows, c, k)} * PackedStep(rows, c, k));
        mins.push_back(PackedMin(rows, c, k));
      }
    }
  }
  const size_t num_rows, num_cols;
  const bool has_halves;
  std::vector<double> values, mins;  // scale * step; [num_rows, num_cols]
};

// The sum of values in double, and `error` times that of its groups' magnitudes.
void ExpectNearTheValues(const Int8Matrix& input, const WeightParts& weight, const Matrix& output,
                         double start, double error) {
  std::vector<double> values(weight.num_cols);
  for (size_t r = 0; r < input.rows.num_rows; ++r) {
    for (size_t k = 0; k < weight.num_cols; ++k) values[k] = input.Value(r, k);
    for (size_t c = 0; c < weight.num_rows; ++c) {
      const double* const steps = weight.values.data() + c * weight.num_cols;
      const double* const mins = weight.mins.data() + c * weight.num_cols;
      double sum = start, magnitude = std::abs(start);
      for (size_t k = 0; k < weight.num_cols; k += kPackedGroup) {
        double group = 0, min = 0, size = 0, min_size = 0;
        for (size_t i = k; i < k + kPackedGroup; ++i) {
          const double product = values[i] * steps[i];
          group += product;
          size += std::abs(product);
          min += values[i] * mins[i];
          min_size += std::abs(values[i] * mins[i]);
        }
        sum += group + min;
        // Halves with scales of their own are summed one after the other.
        magnitude += weight.has_halves ? size + min_size : std::abs(group) + std::abs(min);
      }
      ASSERT_NEAR(output[r][c], sum, error * magnitude) << r << ", " << c;
    }
  }
}

TEST_P(PackedMatMulTest, MultipliesWhatRowsAndWeightsAreWorth) {
  const double error = kernels().packed_matmul == PackedMatMulScalar ? 1e-7 : 1e-5;
  for (const PackedType type : {PackedType::kQ8, PackedType::kQ4}) {
    for (const size_t k : {32, 288}) {
      for (const size_t n : {1, 15, 16, 33}) {
        const PackedMatrix weight(Matrix::Random(n, k, 2), type);
        const WeightParts parts(weight.rows);
        for (const size_t m : {1, 7, 79}) {
          const Int8Matrix input(QuantiseRowsScalar, Matrix::Random(m, k, 1));
          Matrix output(m, n, 3);
          const bool accumulate = k == 288;
          Multiply(kernels().packed_matmul, input.rows, weight.rows, output.rows, 0, n, accumulate);
          ExpectNearTheValues(input, parts, output, accumulate ? 3 : 0, error);
        }
      }
    }
  }
}

// Blocks of files, with every kind of scale and min; their steps reach -128.
TEST_P(PackedBlocksTest, MultipliesWhatTheyAreWorth) {
  const double error = kernels().packed_matmul == PackedMatMulScalar ? 2e-6 : 1e-5;
  for (const TensorType type : kBlockTypes) {
    for (const size_t k : {size_t{256}, size_t{768}}) {
      const RandomBlocks blocks(37, k, type, 2);
      const PackedMatrix weight(blocks.rows);
      const WeightParts parts(weight.rows);
      for (const size_t m : {1, 5, 79}) {
        const Int8Matrix input(QuantiseRowsScalar, Matrix::Random(m, k, 1));
        Matrix output(m, 37, 3);
        Multiply(kernels().packed_matmul, input.rows, weight.rows, output.rows, 0, 37, true);
        ExpectNearTheValues(input, parts, output, 3, error);
      }
    }
  }
}

// Sums of the largest steps, of all signs: nothing on the way saturates.
TEST_P(PackedMatMulTest, LargestStepsDoNotSaturate) {
  constexpr size_t m = 79;
  for (const PackedType type : {PackedType::kQ8, PackedType::kQ4}) {
    const float most = type == PackedType::kQ8 ? 127 : 7,
                least = type == PackedType::kQ8 ? -127 : -8;
    Matrix values(20, 64), rows(m, 64);
    for (size_t c = 0; c < 20; ++c) {
      for (size_t k = 0; k < 64; ++k) values[c][k] = c % 4 < 2 || k % (c % 4) ? most : least;
      if (c % 4 == 1) std::fill_n(values[c], 64, least);
    }
    for (size_t r = 0; r < m; ++r) {
      for (size_t k = 0; k < 64; ++k) rows[r][k] = r % 3 == 0 || k % (r % 3 + 1) ? 127 : -127;
    }
    const PackedMatrix weight(values, type);
    const Matrix worth = weight.ToFloats();
    const Int8Matrix input(kernels().quantise_rows, rows);
    Matrix output(m, 20);
    Multiply(kernels().packed_matmul, input.rows, weight.rows, output.rows, 0, 20);
    for (size_t r = 0; r < m; ++r) {
      for (size_t c = 0; c < 20; ++c) {
        double sum = 0;
        for (size_t k = 0; k < 64; ++k) sum += double{rows[r][k]} * worth[c][k];
        ASSERT_NEAR(output[r][c], sum, 1e-6 * 127 * 127 * 64) << r << ", " << c;
      }
    }
  }
}

// The promise of matmul.h: bits depend on the row and on the weight's row, on nothing else.
TEST_P(PackedBlocksTest, SameBitsForAnyGroupingOfQuantisedRowsAndColumns) {
  constexpr size_t m = 115, n = 70, k = 288;  // more than a block of each
  const Matrix rows = Matrix::Random(m, k, 1);
  const Int8Matrix input(kernels().quantise_rows, rows);
  for (const PackedType type : {PackedType::kQ8, PackedType::kQ4}) {
    const PackedMatrix weight(Matrix::Random(n, k, 2), type);
    Matrix whole(m, n);
    Multiply(kernels().packed_matmul, input.rows, weight.rows, whole.rows, 0, n);
    for (const size_t count : {1, 2, 3, 5, 13, 16, 100, 112}) {
      const size_t some = count < 13 ? 29 : m;
      Matrix output(some, n, NAN);
      for (size_t r = 0; r < some; r += count) {
        const size_t end = std::min(r + count, some);
        const Int8Matrix part(kernels().quantise_rows, Rows<const float>(rows.rows).Slice(r, end));
        Multiply(kernels().packed_matmul, part.rows, weight.rows, output.rows.Slice(r, end), 0, n);
      }
      EXPECT_TRUE(SameBits(output[0], whole[0], some * n)) << count << " rows at a time";
    }
    const Int8Matrix some(kernels().quantise_rows, Rows<const float>(rows.rows).Slice(0, 29));
    for (const size_t columns : {16, 48}) {
      Matrix output(29, n, NAN);
      for (size_t c = 0; c < n; c += columns) {
        Multiply(kernels().packed_matmul, some.rows, weight.rows, output.rows, c,
                 std::min(c + columns, n));
      }
      EXPECT_TRUE(SameBits(output[0], whole[0], 29 * n)) << columns << " columns at a time";
    }
  }
}

TEST_P(PackedBlocksTest, SameBitsForAnyGroupingOfRows) {
  constexpr size_t m = 79, n = 70, k = 512;  // all together take another way than parts
  const Matrix rows = Matrix::Random(m, k, 1);
  const Int8Matrix input(kernels().quantise_rows, rows);
  for (const TensorType type : kBlockTypes) {
    const RandomBlocks blocks(n, k, type, 2);
    const PackedMatrix weight(blocks.rows);
    Matrix whole(m, n);
    Multiply(kernels().packed_matmul, input.rows, weight.rows, whole.rows, 0, n);
    for (const size_t count : {1, 7, 13}) {
      Matrix output(m, n, NAN);
      for (size_t r = 0; r < m; r += count) {
        const size_t end = std::min(r + count, m);
        const Int8Matrix part(kernels().quantise_rows, Rows<const float>(rows.rows).Slice(r, end));
        for (const size_t begin : {size_t{0}, size_t{48}}) {
          const size_t stop = begin == 0 ? 48 : n;
          Multiply(kernels().packed_matmul, part.rows, weight.rows, output.rows.Slice(r, end),
                   begin, stop);
        }
      }
      EXPECT_TRUE(SameBits(output[0], whole[0], m * n)) << TensorTypeName(type) << ", " << count;
    }
  }
}

// Rows that fill tiles and rows that do not, more rows and columns than a block has, and blocks of
// k that are whole and cut.
TEST(AmxTest, HasTheBitsOfSimd) {
  const Backend* const amx = FindBackend("amx");
  if (!amx) GTEST_SKIP() << "this machine has no AMX, or its system does not allow it";
  for (const TensorType type : kBlockTypes) {
    for (const size_t k : {256, 768}) {
      const RandomBlocks blocks(134, k, type, 2);
      const PackedMatrix weight(blocks.rows);
      for (const size_t m : {9, 15, 16, 17, 40, 201}) {
        const Int8Matrix input(amx->quantise_rows, Matrix::Random(m, k, 1));
        Matrix expected = Matrix::Random(m, 134, 3), output = expected;
        for (const size_t begin : {0, 64, 112}) {
          const size_t end = begin == 0 ? 64 : begin == 64 ? 112 : 134;
          const bool accumulate = begin != 64;
          Multiply(PackedMatMulSimd, input.rows, weight.rows, expected.rows, begin, end,
                   accumulate);
          Multiply(amx->packed_matmul, input.rows, weight.rows, output.rows, begin, end,
                   accumulate);
        }
        EXPECT_TRUE(SameBits(output[0], expected[0], m * 134))
            << TensorTypeName(type) << ", " << m << " rows, " << k << " deep";
      }
    }
  }
}

TEST_P(PackedMatMulTest, WritesItsColumnsOnly) {
  const Int8Matrix input(kernels().quantise_rows, Matrix::Random(15, 64, 1));
  const PackedMatrix weight(Matrix::Random(50, 64, 2), PackedType::kQ8);
  Matrix output(15, 60, 7);  // rows of 50 columns with a gap of 10
  Multiply(kernels().packed_matmul, input.rows, weight.rows, Rows<float>(output[0], 15, 50, 60), 16,
           39);
  for (size_t r = 0; r < 15; ++r) {
    for (size_t c = 0; c < 60; ++c) EXPECT_EQ(output[r][c] == 7, c < 16 || c >= 39);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, PackedMatMulTest, testing::ValuesIn(AllRuns()), RunName);

std::vector<KernelRun> RunsWithOwnCode() {
  std::vector<KernelRun> runs = AllRuns();
  std::erase_if(runs, [](const KernelRun& run) { return run.target == HWY_SCALAR; });
  return runs;
}
INSTANTIATE_TEST_SUITE_P(Backends, PackedBlocksTest, testing::ValuesIn(RunsWithOwnCode()), RunName);

}  // namespace
}  // namespace lectern
