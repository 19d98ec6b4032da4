#include "kernels/cuda/rows/rows.h"

#include <cmath>

#include "kernels/element.h"
#include "kernels/glu.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/softcap.h"
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

// By fours in registers, two to eight of them a thread, and one by one: rows that are wider, or
// whose output's are not aligned.
TEST_P(CudaRowsTest, RmsNormMatchesScalarAroundVectorWidths) {
  for (const size_t width : {1, 7, 8, 33, 128, 512, 513, 516, 1000, 2048, 2052, 4096, 8192, 8196}) {
    for (const Dtype dtype : kPlainDtypes) {
      for (const size_t gap : {3, 4}) {
        SCOPED_TRACE(testing::Message() << width << " wide, dtype " << static_cast<int>(dtype)
                                        << ", " << gap << " between rows");
        const size_t num_rows = width > 600 ? 2 : 11;
        const Matrix input = Matrix::Random(num_rows, width, 1);
        const Matrix weight = Matrix::Random(1, width, 2);
        Matrix expected(num_rows, width);
        RmsNormScalar(
            {.input = input, .weight = weight.data, .epsilon = 1e-5f, .output = expected.rows});
        const auto in = Upload(input.data), weights = Upload(weight.data);
        const size_t stride = width + gap;
        const auto out = Make<std::byte>(num_rows * RowBytes(dtype, stride));
        Expect(CudaRmsNorm(stream_, {.input = {in.data(), Dtype::kF32, num_rows, width, width},
                                     .weight = weights.data(),
                                     .epsilon = 1e-5f,
                                     .output = {out.data(), dtype, num_rows, width, stride}}));
        const auto output = Download(out);
        for (size_t r = 0; r < num_rows; ++r) {
          const std::byte* const row = output.data() + r * RowBytes(dtype, stride);
          for (size_t c = 0; c < width; ++c) {
            ASSERT_NEAR(Stored(row, dtype, c), expected[r][c],
                        (1e-5 + Rounding(dtype)) * std::abs(expected[r][c]) + 1e-7);
          }
          for (size_t i = RowBytes(dtype, width); i < RowBytes(dtype, stride); ++i) {
            ASSERT_EQ(row[i], std::byte{0xFF});  // the gap is left alone
          }
        }
      }
    }
  }
}

// Tests aligned rows, which are read four columns at a time, and unaligned ones.
TEST_P(CudaRowsTest, RmsNormInPlaceAndUnaligned) {
  for (const size_t num_cols : {4, 36, 600, 2052}) {
    const size_t stride = num_cols + 4;
    Matrix input = Matrix::Random(3, stride, 1);
    const std::vector<float> weight(num_cols, 2);
    for (const size_t first : {0, 1}) {
      SCOPED_TRACE(::testing::Message() << num_cols << " columns from " << first);
      Matrix expected(3, num_cols);
      RmsNormScalar({.input = Rows<const float>(input[0] + first, 3, num_cols, stride),
                     .weight = weight,
                     .epsilon = 0,
                     .output = expected.rows});
      const auto rows = Upload(input.data), weights = Upload(weight);
      const DeviceRows in_place{rows.data() + first, Dtype::kF32, 3, num_cols, stride};
      Expect(CudaRmsNorm(stream_, {in_place, weights.data(), 0, in_place}));
      const auto output = Download(rows);
      for (size_t r = 0; r < 3; ++r) {
        for (size_t i = 0; i < stride; ++i) {
          const size_t c = i - first;  // of those that are normed, or past them
          const float right = c < num_cols ? expected[r][c] : input[r][i];
          EXPECT_NEAR(output[r * stride + i], right, 1e-5 * std::abs(right)) << r << ", " << i;
        }
      }
    }
  }
}

TEST_P(CudaRowsTest, RmsNormRefusesWhatItCannotTake) {
  const auto rows = Make<float>(64);
  const DeviceRows good{rows.data(), Dtype::kF32, 2, 32, 32};
  DeviceRows bad = good;
  const auto refuses = [&](const DeviceRows& input, const DeviceRows& output) {
    return CudaRmsNorm(stream_, {input, rows.data(), 0, output}).code == CudaCode::kInvalidArgument;
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

TEST_P(CudaRowsTest, RopeMatchesScalar) {
  for (const uint32_t head_dim : {2, 64, 80}) {
    for (const uint32_t half : {head_dim / 2, head_dim / 4}) {
      for (const Dtype dtype : kPlainDtypes) {
        SCOPED_TRACE(testing::Message() << head_dim << " wide, " << half << " pairs, dtype "
                                        << static_cast<int>(dtype));
        const size_t cols = 3 * head_dim;
        const Matrix input = Matrix::Random(5, cols, 1), angles = Matrix::Random(5, half, 2);
        Matrix cosine(5, half), sine(5, half), expected = input;
        for (size_t i = 0; i < angles.data.size(); ++i) {
          cosine.data[i] = std::cos(angles.data[i]);
          sine.data[i] = std::sin(angles.data[i]);
        }
        RopeScalar({.heads = expected.rows, .head_dim = head_dim, .cosine = cosine, .sine = sine});
        const auto in = Upload(input.data), cosines = Upload(cosine.data),
                   sines = Upload(sine.data);
        const auto out = Make<std::byte>(5 * RowBytes(dtype, cols));
        const bool in_place = dtype == Dtype::kF32;
        const DeviceRows heads{in.data(), Dtype::kF32, 5, cols, cols};
        const DeviceRows output{out.data(), dtype, 5, cols, cols};
        Expect(CudaRope(stream_, {heads, head_dim, cosines.data(), sines.data(), half, 0.5f,
                                  in_place ? heads : output}));
        std::vector<std::byte> got = Download(out);
        if (in_place) {
          const auto floats = Download(in);
          std::memcpy(got.data(), floats.data(), got.size());
        }
        for (size_t i = 0; i < 5 * cols; ++i) {
          const double want = 0.5 * expected.data[i];
          ASSERT_NEAR(Stored(got.data(), dtype, i), want, Rounding(dtype) * std::abs(want) + 1e-6);
        }
      }
    }
  }
}

TEST_P(CudaRowsTest, GluMatchesScalar) {
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    for (const size_t width : {1, 6, 8, 1027}) {
      for (const Dtype dtype : kPlainDtypes) {
        const Matrix gate = Matrix::Random(3, width, 1, 4), up = Matrix::Random(3, width, 2);
        Matrix expected(3, width);
        GluScalar({.gate = gate, .up = up, .output = expected.rows, .activation = activation});
        const auto gates = Upload(gate.data), ups = Upload(up.data);
        const auto out = Make<std::byte>(3 * RowBytes(dtype, width));
        Expect(CudaGlu(stream_, {.gate = {gates.data(), Dtype::kF32, 3, width, width},
                                 .up = {ups.data(), Dtype::kF32, 3, width, width},
                                 .output = {out.data(), dtype, 3, width, width},
                                 .activation = activation}));
        const auto got = Download(out);
        for (size_t i = 0; i < 3 * width; ++i) {
          const double want = expected.data[i];
          ASSERT_NEAR(Stored(got.data(), dtype, i), want,
                      (1e-5 + Rounding(dtype)) * std::abs(want) + 1e-6);
        }
      }
    }
  }
}

TEST_P(CudaRowsTest, SoftcapAndAddMatchTheirDefinitions) {
  Matrix logits = Matrix::Random(4, 301, 1, 100);
  logits[0][0] = kInf;
  logits[3][2] = -kInf;
  const auto rows = Upload(logits.data);
  const auto bias = Upload(Matrix::Random(1, 300, 2).data);
  const DeviceRows view{rows.data(), Dtype::kF32, 4, 300, 301};
  Expect(CudaSoftcap(stream_, {view, 30}));
  Expect(CudaAdd(stream_, {view, bias.data(), 0}));
  Expect(CudaAdd(stream_, {view, bias.data(), 0}));
  const Matrix added = Matrix::Random(1, 300, 2);
  SoftcapScalar({.logits = Rows<float>(logits[0], 4, 300, 301), .cap = 30});
  const auto got = Download(rows);
  for (size_t r = 0; r < 4; ++r) {
    for (size_t c = 0; c < 300; ++c) {
      ASSERT_NEAR(got[301 * r + c], logits[r][c] + 2 * added[0][c], 1e-4);
    }
    EXPECT_EQ(got[301 * r + 300], logits[r][300]);  // behind a row
  }
}

// As prefill and decode store them: bits of FromFloatRows, at positions of each head.
TEST_P(CudaRowsTest, StoredRowsAreThoseOfTheCpu) {
  constexpr uint32_t kHeads = 3, kDim = 64, kRoom = 12;
  Matrix input = Matrix::Random(4, kHeads * kDim, 1);
  for (size_t c = 0; c < kDim; ++c) input[2][c] = 0;  // a block of zeros: scale 0
  input[3][1] = 1e9f;                                 // the largest scale there is
  const auto rows = Upload(input.data);
  const auto step = Upload(std::vector<uint32_t>{2});
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBf16, Dtype::kQ8}) {
    const bool is_q8 = dtype == Dtype::kQ8;
    const size_t row_bytes = is_q8 ? kDim : RowBytes(dtype, kDim);
    const auto out = Make<std::byte>(kHeads * kRoom * row_bytes);
    const auto scales = Make<f16>(kHeads * kRoom * kDim / kQ8Block);
    Expect(CudaStoreRows(stream_,
                         {.input = {rows.data(), Dtype::kF32, 4, kHeads * kDim, kHeads * kDim},
                          .num_heads = kHeads,
                          .head_dim = kDim,
                          .dtype = dtype,
                          .output = out.data(),
                          .scales = scales.data(),
                          .rows_per_head = kRoom,
                          .first_position = 5,
                          .step = step.data()}));
    const auto got = Download(out);
    const auto got_scales = Download(scales);
    for (size_t head = 0; head < kHeads; ++head) {
      for (size_t t = 0; t < 4; ++t) {
        std::vector<std::byte> expected(RowBytes(dtype, kDim));
        FromFloatRowsScalar({input[t] + head * kDim, 1, kDim}, dtype, expected.data());
        const size_t row = head * kRoom + 5 + 2 + t;
        const std::byte* const at = got.data() + row * row_bytes;
        if (!is_q8) {
          ASSERT_EQ(std::memcmp(at, expected.data(), row_bytes), 0);
          continue;
        }
        for (size_t b = 0; b < kDim / kQ8Block; ++b) {
          const std::byte* const block = expected.data() + b * (kQ8Block + 2);
          ASSERT_EQ(std::memcmp(&got_scales[row * 2 + b], block, 2), 0);
          ASSERT_EQ(std::memcmp(at + b * kQ8Block, block + 2, kQ8Block), 0);
        }
      }
      for (size_t i = 0; i < 7 * row_bytes; ++i) {  // rows of other positions
        ASSERT_EQ(got[head * kRoom * row_bytes + i], std::byte{0xFF});
      }
    }
  }
}

// Rows of 16 bytes and more by 16 at a time, others by 2; what lies between the places stays.
TEST_P(CudaRowsTest, RowsGoToTheirPlaces) {
  constexpr uint32_t kRows = 37, kPlaces = 80;
  std::vector<uint32_t> places(kRows);
  for (uint32_t i = 0; i < kRows; ++i) places[i] = (i * 27 + 5) % kPlaces;
  const auto at = Upload(places);
  constexpr uint32_t kWidths[] = {256, 2, 18, 16};
  std::vector<std::vector<std::byte>> rows;
  std::vector<DeviceBuffer<std::byte>> from, to;
  CudaPlaceRowsArgs args;
  args.num_arrays = 4;
  args.places = at.data();
  args.num_rows = kRows;
  for (size_t a = 0; a < 4; ++a) {
    rows.emplace_back(size_t{kRows} * kWidths[a]);
    for (size_t i = 0; i < rows[a].size(); ++i) rows[a][i] = static_cast<std::byte>(7 * i + a);
    from.push_back(Upload(rows[a]));
    to.push_back(Make<std::byte>(size_t{kPlaces} * kWidths[a]));
    args.arrays[a] = {from[a].data(), to[a].data(), kWidths[a]};
  }
  Expect(CudaPlaceRows(stream_, args));
  for (size_t a = 0; a < 4; ++a) {
    std::vector<std::byte> expected(to[a].size(), std::byte{0xFF});
    for (size_t i = 0; i < kRows; ++i) {
      std::copy_n(rows[a].begin() + static_cast<ptrdiff_t>(i * kWidths[a]), kWidths[a],
                  expected.begin() + static_cast<ptrdiff_t>(size_t{places[i]} * kWidths[a]));
    }
    EXPECT_EQ(Download(to[a]), expected);
  }
  args.arrays[1].row_bytes = 3;
  EXPECT_EQ(CudaPlaceRows(stream_, args).code, CudaCode::kInvalidArgument);
  args.arrays[1] = {from[0].data() + 2, to[0].data(), 256};
  EXPECT_EQ(CudaPlaceRows(stream_, args).code, CudaCode::kInvalidArgument);
  args.num_arrays = 5;
  EXPECT_EQ(CudaPlaceRows(stream_, args).code, CudaCode::kInvalidArgument);
}

LECTERN_CUDA_TESTS(CudaRowsTest);

}  // namespace
}  // namespace lectern
