#include "kernels/cuda/attention/key_squares.h"

#include <cmath>
#include <numeric>

#include "tests/kernels/cuda/attention/device_kv.h"
#include "tests/kernels/cuda/cuda_case.h"

namespace lectern {
namespace {

// Lists of rows, queries of all heads, and what is added by position.
struct SquaresCase {
  std::vector<uint32_t> counts = {61, 0, 130, 1};
  uint32_t num_tokens = 1, group = 4, dim = 64;
  Dtype dtype = Dtype::kF16;
  float softcap = 0, least = 0;
  uint32_t lse_padding = 0;
  bool has_nothing = false;  // of the first query row of each head the LSE is -inf
};

class CudaKeySquaresTest : public CudaTest {
 protected:
  static constexpr uint32_t kRows = 150, kPositions = 400;
  static constexpr float kScale = 0.25f;

  static Matrix Worth(const std::vector<std::byte>& bits, Dtype dtype, size_t rows, size_t cols) {
    Matrix result(rows, cols);
    ToFloatRowsScalar({bits.data(), dtype, rows, cols}, result.rows);
    return result;
  }
  static std::vector<std::byte> Bits(const Matrix& values, Dtype dtype) {
    std::vector<std::byte> bits(values.data.size() * 2);
    FromFloatRowsScalar(values.rows, dtype, bits.data());
    return bits;
  }

  void Check(const SquaresCase& of) {
    SCOPED_TRACE(testing::Message() << "type " << static_cast<int>(of.dtype) << ", " << of.dim
                                    << " wide, " << of.num_tokens * of.group << " rows");
    const Dtype queries_in = of.dtype == Dtype::kBf16 ? Dtype::kBf16 : Dtype::kF16;
    const auto heads = static_cast<uint32_t>(of.counts.size());
    const uint32_t num_rows = of.num_tokens * of.group, cols = heads * of.group * of.dim;
    const float deviation = 4 / std::sqrt(static_cast<float>(of.dim));
    const auto bits = Bits(Matrix::Random(of.num_tokens, cols, 1, deviation), queries_in);
    const Matrix queries = Worth(bits, queries_in, of.num_tokens, cols);
    const StoredMatrix stored(Matrix::Random(kRows, of.dim, 2), of.dtype);
    const Matrix keys = Worth(Bits(stored.ToFloats(), queries_in), queries_in, kRows, of.dim);
    DeviceRowsOfKv kv(*this, stored, stored);
    kv.view.values = nullptr;

    // A row of one head may be one of another, too; and two rows of one position.
    std::vector<uint32_t> list, positions(kRows);
    const uint32_t stride = num_rows + of.lse_padding;
    std::vector<float> lse;
    for (uint32_t h = 0; h < heads; ++h) {
      for (uint32_t i = 0; i < of.counts[h]; ++i) list.push_back((i * 37 + h) % kRows);
      for (uint32_t r = 0; r < num_rows; ++r) {
        lse.push_back(of.has_nothing && r == 0 ? -kInf : 0.5f + 0.1f * static_cast<float>(r % 7));
      }
      lse.resize((h + 1) * stride, std::nanf(""));
    }
    for (uint32_t i = 0; i < kRows; ++i) positions[i] = i * 71 % (kPositions - 1);
    positions[5] = positions[9];
    std::vector<double> expected(kPositions, 0.0), units(kPositions, 1.0);
    std::vector<double> expected_masses(kPositions, 0.0), mass_units(kPositions, 1.0);
    for (uint32_t h = 0, entry = 0; h < heads; ++h) {
      for (uint32_t i = 0; i < of.counts[h]; ++i, ++entry) {
        double sum = 0, mass = 0;
        for (uint32_t r = 0; r < num_rows; ++r) {
          const float* const query = queries[r / of.group] + (h * of.group + r % of.group) * of.dim;
          double logit = 0;
          for (uint32_t c = 0; c < of.dim; ++c) logit += double{query[c]} * keys[list[entry]][c];
          logit *= kScale;
          if (of.softcap > 0) logit = of.softcap * std::tanh(logit / of.softcap);
          const double share = logit - lse[h * stride + r];
          if (!(lse[h * stride + r] > -kInf)) continue;
          sum += std::exp(2 * std::min(share, 1.0));
          mass += std::exp(std::min(share, 1.0));
        }
        expected_masses[positions[list[entry]]] += mass;
        mass_units[positions[list[entry]]] += 1;
        ASSERT_TRUE(of.least == 0 || std::abs(sum - of.least) > 1e-5);  // not left to rounding
        if (sum < of.least) continue;
        expected[positions[list[entry]]] += sum;
        units[positions[list[entry]]] += 1;
      }
    }

    std::vector<uint64_t> before(kPositions);
    std::iota(before.begin(), before.end(), uint64_t{1} << 33);
    const auto squares = Upload(before), masses = Upload(before);
    const auto device_queries = Upload(bits);
    const auto device_list = Upload(list), counts = Upload(of.counts);
    const auto device_positions = Upload(positions);
    const auto device_lse = Upload(lse);
    kv.view.rows = device_list.data();
    const CudaKeySquaresArgs args = {.queries = {device_queries.data(), queries_in, cols,
                                                 of.num_tokens, heads, of.group, of.dim},
                                     .scale = kScale,
                                     .softcap = of.softcap,
                                     .source = kv.view,
                                     .counts = counts.data(),
                                     .most_entries = *std::ranges::max_element(of.counts) + 3,
                                     .lse = device_lse.data(),
                                     .lse_stride = of.lse_padding > 0 ? stride : 0,
                                     .positions = device_positions.data(),
                                     .squares = squares.data(),
                                     .masses = masses.data(),
                                     .least = of.least};
    Expect(CudaKeySquares(stream_, args));
    const std::vector<uint64_t> got = Download(squares);
    for (size_t i = 0; i < kPositions; ++i) {
      const auto added = static_cast<double>(got[i] - before[i]);
      ASSERT_NEAR(added, expected[i] * kSquareUnits, 1e-4 * expected[i] * kSquareUnits + units[i])
          << "position " << i;
    }
    const std::vector<uint64_t> got_masses = Download(masses);
    for (size_t i = 0; i < kPositions; ++i) {
      const auto added = static_cast<double>(got_masses[i] - before[i]);
      ASSERT_NEAR(added, expected_masses[i] * kSquareUnits,
                  1e-4 * expected_masses[i] * kSquareUnits + mass_units[i])
          << "position " << i;
    }
    // Once more adds the same, bit for bit.
    Expect(CudaKeySquares(stream_, args));
    const std::vector<uint64_t> twice = Download(squares);
    for (size_t i = 0; i < kPositions; ++i) ASSERT_EQ(twice[i] - got[i], got[i] - before[i]);
  }
};

TEST_P(CudaKeySquaresTest, AreAddedByPosition) {
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16, Dtype::kQ8}) {
    for (const uint32_t dim : {8u, 64u, 96u, 128u, 256u}) {
      if (dtype == Dtype::kQ8 && dim % kQ8Block != 0) continue;
      Check({.dim = dim, .dtype = dtype});
    }
  }
  Check({.group = 1, .softcap = 2, .has_nothing = true});
  Check({.counts = {200}, .group = 16});
  Check({.counts = {64, 65}, .lse_padding = 5});
  Check({.counts = {64, 65}, .num_tokens = 9, .group = 3, .has_nothing = true});
  Check({.counts = std::vector<uint32_t>(150, 2), .group = 1, .dim = 8});
  Check({.counts = {0, 0}});
}

TEST_P(CudaKeySquaresTest, LeaveOutRowsOfSmallSums) { Check({.counts = {90, 90}, .least = 0.7f}); }

TEST_P(CudaKeySquaresTest, RefusesWhatItCannotTake) {
  const auto memory = Make<float>(1024);
  auto* const words = reinterpret_cast<uint32_t*>(memory.data());
  const CudaKeySquaresArgs good = {
      .queries = {memory.data(), Dtype::kF16, 64, 1, 1, 1, 64},
      .scale = 1,
      .source = {.keys = memory.data(), .values = nullptr, .dtype = Dtype::kF16},
      .counts = words,
      .most_entries = 1,
      .lse = memory.data(),
      .positions = words,
      .squares = reinterpret_cast<uint64_t*>(words)};
  const auto refused = [&](auto change) {
    CudaKeySquaresArgs args = good;
    change(args);
    EXPECT_EQ(CudaKeySquares(stream_, args).code, CudaCode::kInvalidArgument);
  };
  refused([](auto& args) { args.scale = 0; });
  refused([](auto& args) { args.softcap = -1; });
  refused([](auto& args) { args.least = NAN; });
  refused([](auto& args) { args.source.keys = nullptr; });
  refused([](auto& args) { args.counts = nullptr; });
  refused([](auto& args) { args.lse = nullptr; });
  refused([](auto& args) { args.positions = nullptr; });
  refused([](auto& args) { args.squares = nullptr; });
  refused([](auto& args) { args.source.dtype = Dtype::kBf16; });
  refused([](auto& args) { args.source.dtype = Dtype::kQ8; });  // no scales
  refused([](auto& args) { args.queries.head_dim = 12; });
  CudaKeySquaresArgs nothing = good;
  nothing.most_entries = 0;
  Expect(CudaKeySquares(stream_, nothing));
}

LECTERN_CUDA_TESTS(CudaKeySquaresTest);

}  // namespace
}  // namespace lectern
