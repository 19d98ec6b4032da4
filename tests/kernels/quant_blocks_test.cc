// Blocks of quantised values: worth what PyPI's gguf says they are, and the same when packed.
#include "kernels/quant_blocks.h"

#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>

#include "kernels/packed_rows.h"
#include "tests/kernels/kernel_case.h"

namespace lectern {
namespace {

struct Golden {
  TensorType type;
  std::string blocks;         // a row of them
  std::vector<float> values;  // by gguf.quants.dequantize
};

// tests/golden/make_gguf_golden.py; ggml's numbers of types.
std::vector<Golden> ReadGoldens() {
  const std::map<uint32_t, TensorType> types = {
      {8, TensorType::kQ8_0},  {2, TensorType::kQ4_0},    {3, TensorType::kQ4_1},
      {6, TensorType::kQ5_0},  {7, TensorType::kQ5_1},    {12, TensorType::kQ4_K},
      {13, TensorType::kQ5_K}, {14, TensorType::kQ6_K},   {10, TensorType::kQ2_K},
      {11, TensorType::kQ3_K}, {20, TensorType::kIQ4_NL}, {23, TensorType::kIQ4_XS},
      {39, TensorType::kMXFP4}};
  std::ifstream file(LECTERN_SOURCE_DIR "/tests/golden/gguf/blocks.bin", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<Golden> goldens;
  for (size_t at = 0; at < bytes.size();) {
    uint32_t head[3];
    std::memcpy(head, bytes.data() + at, sizeof head);
    Golden golden = {types.at(head[0]), bytes.substr(at + sizeof head, head[2]), {}};
    golden.values.resize(head[1]);
    at += sizeof head + head[2];
    std::memcpy(golden.values.data(), bytes.data() + at, head[1] * sizeof(float));
    at += head[1] * sizeof(float);
    goldens.push_back(golden);
  }
  return goldens;
}

TensorRows RowsOf(const Golden& golden) {
  return {reinterpret_cast<const std::byte*>(golden.blocks.data()), golden.type, 1,
          golden.values.size()};
}

TEST(QuantBlocksTest, AreWorthWhatGgufSays) {
  const std::vector<Golden> goldens = ReadGoldens();
  // Each type of random bits and by llama.cpp.
  ASSERT_EQ(goldens.size(), 2 * std::size(kBlockTypes));
  for (const Golden& golden : goldens) {
    const TensorRows rows = RowsOf(golden);
    ASSERT_EQ(rows.row_bytes(), golden.blocks.size()) << TensorTypeName(golden.type);
    Matrix values(1, rows.num_cols);
    TensorToFloats(rows, values.rows);
    EXPECT_EQ(values.data, golden.values) << TensorTypeName(golden.type);
    EXPECT_GT(std::abs(values.data[7]) + std::abs(values.data[300]), 0);
  }
}

TEST(QuantBlocksTest, PlainValuesAreWhatTheyAre) {
  const Matrix values = Matrix::Random(3, 7, 1);
  for (const auto& [type, dtype] :
       {std::pair(TensorType::kF32, Dtype::kF32), std::pair(TensorType::kF16, Dtype::kF16),
        std::pair(TensorType::kBf16, Dtype::kBf16)}) {
    const StoredMatrix stored(values, dtype);
    const TensorRows rows = {stored.rows.data, type, 3, 7};
    EXPECT_EQ(rows.row_bytes(), stored.rows.row_bytes());
    Matrix floats(3, 7);
    TensorToFloats(rows, floats.rows);
    EXPECT_EQ(floats.data, stored.ToFloats().data);
  }
}

// Nothing is rounded: every value of every row, in full and in part-filled panels.
TEST(QuantBlocksTest, PackingChangesNoValue) {
  for (const Golden& golden : ReadGoldens()) {
    // Rows that are whole blocks: the golden's row, turned by a block each time.
    const size_t block = BlockBytes(golden.type), num_rows = 16 + 5;
    std::string bytes;
    std::string row = golden.blocks;
    for (size_t r = 0; r < num_rows; ++r) {
      bytes += row;
      row = row.substr(block) + row.substr(0, block);
    }
    const TensorRows rows = {reinterpret_cast<const std::byte*>(bytes.data()), golden.type,
                             num_rows, golden.values.size()};
    Matrix values(num_rows, rows.num_cols);
    TensorToFloats(rows, values.rows);
    const PackedMatrix packed(rows);
    EXPECT_EQ(packed.ToFloats().data, values.data) << TensorTypeName(golden.type);
  }
}

TEST(QuantBlocksTest, ScalesThatAreNotFiniteAreRefused) {
  for (const Golden& golden : ReadGoldens()) {
    Golden bad = golden;
    // The low byte is MXFP4's scale: 255 is NaN by its specification, 225 is beyond what products
    // can hold.
    for (const uint16_t bits : golden.type == TensorType::kMXFP4
                                   ? std::array<uint16_t, 3>{225, 254, 255}
                                   : std::array<uint16_t, 3>{0x7C00, 0xFC00, 0x7E00}) {
      const size_t size = golden.type == TensorType::kMXFP4 ? 1 : sizeof bits;
      std::memcpy(bad.blocks.data() + ScaleAt(golden.type), &bits, size);
      const TensorRows rows = RowsOf(bad);
      const PackedRows panel = {nullptr, PackedTypeOf(bad.type), 1, rows.num_cols};
      std::vector<std::byte> out(panel.bytes());
      EXPECT_FALSE(PackBlocks(rows, out.data())) << TensorTypeName(golden.type);
      EXPECT_TRUE(PackBlocks(RowsOf(golden), out.data()));
    }
  }
}

// Every byte of E8M0 that is accepted, also those whose powers of two are no normal floats.
TEST(QuantBlocksTest, EveryScaleOfMxfp4IsKept) {
  constexpr size_t kBytes = 225;
  std::string bytes;
  for (size_t e = 0; e < kBytes; ++e) {
    bytes += static_cast<char>(e);
    for (int i = 0; i < 16; ++i) bytes += static_cast<char>(16 * ((3 * i + 5) % 16) + i);
  }
  const TensorRows rows = {reinterpret_cast<const std::byte*>(bytes.data()), TensorType::kMXFP4, 1,
                           32 * kBytes};
  Matrix values(1, rows.num_cols);
  TensorToFloats(rows, values.rows);
  for (size_t e = 0; e < kBytes; ++e) {
    EXPECT_EQ(values[0][32 * e + 7], std::ldexp(12.0f, static_cast<int>(e) - 128)) << e;
  }
  EXPECT_EQ(PackedMatrix(rows).ToFloats().data, values.data);
}

}  // namespace
}  // namespace lectern
