#include "kernels/quant_blocks.h"

#include "kernels/convert.h"
#include "kernels/element.h"

namespace lectern {
namespace {

struct Traits {
  const char* name;
  size_t values, bytes;  // of a block
};
constexpr Traits kTraits[kNumTensorTypes] = {
    {"F32", 1, 4},      {"F16", 1, 2},      {"BF16", 1, 2},       {"Q8_0", 32, 34},
    {"Q4_0", 32, 18},   {"Q4_1", 32, 20},   {"Q5_0", 32, 22},     {"Q5_1", 32, 24},
    {"Q4_K", 256, 144}, {"Q5_K", 256, 176}, {"Q6_K", 256, 210},   {"Q2_K", 256, 84},
    {"Q3_K", 256, 110}, {"IQ4_NL", 32, 18}, {"IQ4_XS", 256, 136}, {"MXFP4", 32, 17}};

int ByteAt(const std::byte* block, size_t at) { return std::to_integer<int>(block[at]); }

// The four low bits of value i of 32: 16 bytes hold them, the first 16 values in the low nibbles.
int NibbleOf(const std::byte* nibbles, size_t i) {
  return i < 16 ? ByteAt(nibbles, i) & 15 : ByteAt(nibbles, i - 16) >> 4;
}

float F16At(const std::byte* block, size_t at) { return ToFloat(LoadUnaligned<f16>(block + at)); }

// A group with one scale, no min and steps of 0.
BlockGroup Plain(float scale) { return {scale, 0, {1, 1}, {0, 0}, {}}; }

// Q8_0: d, then 32 steps.
BlockGroup ReadQ8(const std::byte* block) {
  BlockGroup group = Plain(F16At(block, 0));
  std::memcpy(group.steps, block + 2, kBlockGroup);
  return group;
}

// Q4_0, Q4_1, Q5_0, Q5_1: d, then m (types _1), then the fifth bits (types Q5), then the four low
// bits.
BlockGroup ReadSmall(const std::byte* block, bool has_min, bool has_fifth) {
  BlockGroup group = Plain(F16At(block, 0));
  block += 2;
  if (has_min) {
    group.min = F16At(block, 0);
    group.min_parts[0] = group.min_parts[1] = 1;
    block += 2;
  }
  const uint32_t fifths = has_fifth ? LoadUnaligned<uint32_t>(block) : 0;
  if (has_fifth) block += 4;
  const int zero = has_min ? 0 : has_fifth ? 16 : 8;
  for (size_t i = 0; i < kBlockGroup; ++i) {
    const int fifth = static_cast<int>(fifths >> i & 1) << 4;
    group.steps[i] = static_cast<int8_t>((NibbleOf(block, i) | fifth) - zero);
  }
  return group;
}

// Group j of a Q4_K or Q5_K block: d, dmin, 12 bytes of scales and mins, for Q5_K 32 bytes of fifth
// bits, then 128 bytes of four bits.
BlockGroup ReadK(const std::byte* block, size_t j, bool has_fifth) {
  BlockGroup group = Plain(F16At(block, 0));
  group.min = F16At(block, 2);
  const std::byte* packed = block + 4;  // 6 bits each of 8 scales and 8 mins
  int scale, min;
  // Groups 0 … 3 have their 6 bits in one byte each; groups 4 … 7 take 4 bits from one byte and
  // their upper 2 bits from the spare ones of groups 0 … 3.
  if (j < 4) {
    scale = ByteAt(packed, j) & 63;
    min = ByteAt(packed, j + 4) & 63;
  } else {
    scale = (ByteAt(packed, j + 4) & 15) | ByteAt(packed, j - 4) >> 6 << 4;
    min = ByteAt(packed, j + 4) >> 4 | ByteAt(packed, j) >> 6 << 4;
  }
  group.parts[0] = group.parts[1] = scale;
  group.min_parts[0] = group.min_parts[1] = -min;
  const std::byte* fifths = block + 16;
  const std::byte* nibbles = fifths + (has_fifth ? 32 : 0) + j / 2 * 32;
  for (size_t i = 0; i < kBlockGroup; ++i) {
    const int four = j % 2 == 0 ? ByteAt(nibbles, i) & 15 : ByteAt(nibbles, i) >> 4;
    const int fifth = has_fifth ? (ByteAt(fifths, i) >> j & 1) << 4 : 0;
    group.steps[i] = static_cast<int8_t>(four | fifth);
  }
  return group;
}

// Group j of a Q6_K block: 128 bytes of four low bits, 64 bytes of two high bits, 16 scales, d.
// Within 128 values, groups 0 and 2 share the bytes of four bits, groups 1 and 3 the next 32 bytes;
// all four groups share the bytes of two bits.
BlockGroup ReadQ6(const std::byte* block, size_t j) {
  BlockGroup group = Plain(F16At(block, 208));
  const std::byte* fours = block + j / 4 * 64 + j % 2 * 32;
  const std::byte* twos = block + 128 + j / 4 * 32;
  for (size_t half = 0; half < 2; ++half) {
    group.parts[half] = static_cast<int8_t>(block[192 + 2 * j + half]);
  }
  for (size_t i = 0; i < kBlockGroup; ++i) {
    const int four = j % 4 < 2 ? ByteAt(fours, i) & 15 : ByteAt(fours, i) >> 4;
    const int two = ByteAt(twos, i) >> (2 * (j % 4)) & 3;
    group.steps[i] = static_cast<int8_t>((four | two << 4) - 32);
  }
  return group;
}

// The two bits of value i of group j: within 128 values the four groups share 32 bytes.
int TwoBits(const std::byte* twos, size_t j, size_t i) {
  return ByteAt(twos, j / 4 * 32 + i) >> (2 * (j % 4)) & 3;
}

// Group j of a Q2_K block: 16 bytes with a scale and a min each, 64 bytes of two bits, d, dmin.
BlockGroup ReadQ2(const std::byte* block, size_t j) {
  BlockGroup group = Plain(F16At(block, 80));
  group.min = F16At(block, 82);
  for (size_t half = 0; half < 2; ++half) {
    group.parts[half] = ByteAt(block, 2 * j + half) & 15;
    group.min_parts[half] = -(ByteAt(block, 2 * j + half) >> 4);
  }
  for (size_t i = 0; i < kBlockGroup; ++i) {
    group.steps[i] = static_cast<int8_t>(TwoBits(block + 16, j, i));
  }
  return group;
}

// Group j of a Q3_K block: 32 bytes of third bits, 64 bytes of two bits, 12 bytes of 16 scales, d.
// The lower four bits of the scales lie in 8 bytes, those of the first 8 in the low nibbles; their
// upper two bits in 4 bytes, those of scales 0 … 3 in the lowest bits.
BlockGroup ReadQ3(const std::byte* block, size_t j) {
  BlockGroup group = Plain(F16At(block, 108));
  const std::byte *lower = block + 96, *upper = block + 104;
  for (size_t half = 0; half < 2; ++half) {
    const size_t s = 2 * j + half;
    const int four = s < 8 ? ByteAt(lower, s) & 15 : ByteAt(lower, s - 8) >> 4;
    const int two = ByteAt(upper, s % 4) >> (2 * (s / 4)) & 3;
    group.parts[half] = (four | two << 4) - 32;
  }
  for (size_t i = 0; i < kBlockGroup; ++i) {
    const int third = (ByteAt(block, i) >> j & 1) << 2;
    group.steps[i] = static_cast<int8_t>((TwoBits(block + 32, j, i) | third) - 4);
  }
  return group;
}

// Sets the steps to the levels that 32 codes of four bits stand for.
void SetLevels(const std::byte* nibbles, const int8_t (&levels)[16], BlockGroup& group) {
  for (size_t i = 0; i < kBlockGroup; ++i) group.steps[i] = levels[NibbleOf(nibbles, i)];
}

// IQ4_NL: d, then the codes.
BlockGroup ReadIq4Nl(const std::byte* block) {
  BlockGroup group = Plain(F16At(block, 0));
  SetLevels(block + 2, kIq4Levels, group);
  return group;
}

// Group j of an IQ4_XS block: d, 2 bytes with the upper two bits of 8 scales, 4 bytes with their
// lower four bits, then the codes.
BlockGroup ReadIq4Xs(const std::byte* block, size_t j) {
  BlockGroup group = Plain(F16At(block, 0));
  const int four = ByteAt(block, 4 + j / 2) >> (4 * (j % 2)) & 15;
  const int two = LoadUnaligned<uint16_t>(block + 2) >> (2 * j) & 3;
  group.parts[0] = group.parts[1] = (four | two << 4) - 32;
  SetLevels(block + 8 + 16 * j, kIq4Levels, group);
  return group;
}

// MXFP4: the scale's byte, then the codes.
BlockGroup ReadMxfp4(const std::byte* block) {
  BlockGroup group = Plain(E8m0Scale(std::to_integer<uint8_t>(*block)));
  SetLevels(block + 1, kE2m1Levels, group);
  return group;
}

}  // namespace

const char* TensorTypeName(TensorType type) { return kTraits[static_cast<size_t>(type)].name; }
size_t BlockValues(TensorType type) { return kTraits[static_cast<size_t>(type)].values; }
size_t BlockBytes(TensorType type) { return kTraits[static_cast<size_t>(type)].bytes; }

// Finds the block of a group, since some types have several groups of 32 in a block, and reads the
// group by its type.
BlockGroup ReadBlockGroup(TensorType type, const std::byte* row, size_t group) {
  const size_t groups = BlockValues(type) / kBlockGroup;
  const std::byte* block = row + group / groups * BlockBytes(type);
  const size_t j = group % groups;
  switch (type) {
    case TensorType::kQ8_0:
      return ReadQ8(block);
    case TensorType::kQ4_0:
      return ReadSmall(block, false, false);
    case TensorType::kQ4_1:
      return ReadSmall(block, true, false);
    case TensorType::kQ5_0:
      return ReadSmall(block, false, true);
    case TensorType::kQ5_1:
      return ReadSmall(block, true, true);
    case TensorType::kQ4_K:
      return ReadK(block, j, false);
    case TensorType::kQ5_K:
      return ReadK(block, j, true);
    case TensorType::kQ6_K:
      return ReadQ6(block, j);
    case TensorType::kQ2_K:
      return ReadQ2(block, j);
    case TensorType::kQ3_K:
      return ReadQ3(block, j);
    case TensorType::kIQ4_NL:
      return ReadIq4Nl(block);
    case TensorType::kIQ4_XS:
      return ReadIq4Xs(block, j);
    case TensorType::kMXFP4:
      return ReadMxfp4(block);
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBf16:
      break;
  }
  assert(false && "plain values have no groups");
  return {};
}

void TensorToFloats(const TensorRows& rows, Rows<float> out) {
  assert(out.num_rows == rows.num_rows && out.num_cols == rows.num_cols);
  if (const auto dtype = PlainDtype(rows.type)) {
    return ToFloatRowsScalar({rows.data, *dtype, rows.num_rows, rows.num_cols}, out);
  }
  for (size_t r = 0; r < rows.num_rows; ++r) {
    for (size_t c = 0; c < rows.num_cols; c += kBlockGroup) {
      const BlockGroup group = ReadBlockGroup(rows.type, rows.row(r), c / kBlockGroup);
      for (size_t i = 0; i < kBlockGroup; ++i) out[r][c + i] = group.Value(i);
    }
  }
}

}  // namespace lectern
