#include "store/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace lectern {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // 0x1EDC6F41, bits reversed

// The checksum of each byte value on its own, computed bit by bit.
constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = MakeTable();

// One in the ring of polynomials over GF(2) modulo the CRC's polynomial, with bits reversed as in
// the CRC.
constexpr uint32_t kOne = 0x80000000;

// The product of two polynomials over GF(2) modulo the CRC's polynomial: shift and add, where
// adding is exclusive or.
constexpr uint32_t Product(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1) {
    product ^= (a & bit) != 0 ? b : 0;
    b = (b >> 1) ^ ((b & 1) != 0 ? kPolynomial : 0);  // b times x
  }
  return product;
}

// x to the power of 8 * bytes: appending so many bytes multiplies a checksum by this.
constexpr uint32_t Shift(size_t bytes) {
  uint32_t power = kOne, square = kOne >> 8;  // x^8
  for (; bytes > 0; bytes /= 2) {
    if (bytes % 2 == 1) power = Product(power, square);
    square = Product(square, square);
  }
  return power;
}

// Whether this CPU has the instruction, and the instruction for one byte and for eight. They work
// on checksums with all bits inverted; Crc32c inverts before and after.
#if defined(__x86_64__)
#define LECTERN_CRC_TARGET __attribute__((target("sse4.2")))

bool HasInstruction() { return __builtin_cpu_supports("sse4.2"); }
LECTERN_CRC_TARGET inline uint32_t AddByte(uint32_t crc, uint8_t byte) {
  return _mm_crc32_u8(crc, byte);
}
LECTERN_CRC_TARGET inline uint32_t AddWord(uint32_t crc, uint64_t word) {
  return static_cast<uint32_t>(_mm_crc32_u64(crc, word));
}

#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#define LECTERN_CRC_TARGET

bool HasInstruction() { return true; }
inline uint32_t AddByte(uint32_t crc, uint8_t byte) { return __crc32cb(crc, byte); }
inline uint32_t AddWord(uint32_t crc, uint64_t word) { return __crc32cd(crc, word); }

#else
#define LECTERN_CRC_TARGET

bool HasInstruction() { return false; }
uint32_t AddByte(uint32_t crc, uint8_t byte) { return (crc >> 8) ^ kTable[(crc ^ byte) & 0xFF]; }
uint32_t AddWord(uint32_t crc, uint64_t word) {
  for (int i = 0; i < 8; ++i) crc = AddByte(crc, static_cast<uint8_t>(word >> (8 * i)));
  return crc;
}

#endif

// Eight bytes, wherever they lie.
inline uint64_t Word(const uint8_t* data) {
  uint64_t word;
  std::memcpy(&word, data, sizeof word);
  return word;
}

// Processes the data in triples of kPart bytes, a multiple of 8. The instruction takes three
// cycles, and in a chain each waits for the one before; three independent checksums take the time
// of one. The first is then moved over the second part, and that over the third, by multiplying
// with the power of x that so many bytes stand for. Source: V. Gopal et al., "Fast CRC Computation
// for iSCSI Polynomial Using CRC32 Instruction", Intel, 2011.
template <size_t kPart>
LECTERN_CRC_TARGET uint32_t AddThrees(uint32_t crc, const uint8_t*& data, size_t& size) {
  constexpr uint32_t kShift = Shift(kPart);
  for (; size >= 3 * kPart; data += 3 * kPart, size -= 3 * kPart) {
    uint32_t second = 0, third = 0;
    for (size_t i = 0; i < kPart; i += 8) {
      crc = AddWord(crc, Word(data + i));
      second = AddWord(second, Word(data + kPart + i));
      third = AddWord(third, Word(data + 2 * kPart + i));
    }
    crc = Product(Product(crc, kShift) ^ second, kShift) ^ third;
  }
  return crc;
}

// Large triples first, because each combination costs a product; the rest word by word, then byte
// by byte.
LECTERN_CRC_TARGET uint32_t Extend(uint32_t crc, const uint8_t* data, size_t size) {
  crc = AddThrees<16384>(crc, data, size);
  crc = AddThrees<4096>(crc, data, size);
  crc = AddThrees<512>(crc, data, size);
  for (; size >= 8; data += 8, size -= 8) crc = AddWord(crc, Word(data));
  for (; size > 0; ++data, --size) crc = AddByte(crc, *data);
  return crc;
}

// Byte by byte with a table: the definition.
uint32_t ByTable(uint32_t crc, const void* data, size_t size) {
  const uint8_t* bytes = static_cast<const uint8_t*>(data);
  crc = ~crc;
  for (size_t i = 0; i < size; ++i) crc = (crc >> 8) ^ kTable[(crc ^ bytes[i]) & 0xFF];
  return ~crc;
}

uint32_t ByInstruction(uint32_t crc, const void* data, size_t size) {
  return ~Extend(~crc, static_cast<const uint8_t*>(data), size);
}

}  // namespace

Crc32cFunction Crc32cOn(bool has_instruction) { return has_instruction ? ByInstruction : ByTable; }

uint32_t Crc32c(uint32_t crc, const void* data, size_t size) {
  static const Crc32cFunction function = Crc32cOn(HasInstruction());
  return function(crc, data, size);
}

// The inversions before and after both checksums cancel out.
uint32_t Crc32cJoin(uint32_t first, uint32_t second, size_t second_size) {
  return Product(first, Shift(second_size)) ^ second;
}

}  // namespace lectern
