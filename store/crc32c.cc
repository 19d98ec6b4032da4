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

#if defined(__x86_64__)

bool HasInstruction() { return __builtin_cpu_supports("sse4.2"); }

__attribute__((target("sse4.2"))) uint32_t Extend(uint32_t crc, const uint8_t* data, size_t size) {
  uint64_t state = crc;
  for (; size >= 8; data += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    state = _mm_crc32_u64(state, word);
  }
  crc = static_cast<uint32_t>(state);
  for (; size > 0; ++data, --size) crc = _mm_crc32_u8(crc, *data);
  return crc;
}

#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)

bool HasInstruction() { return true; }

uint32_t Extend(uint32_t crc, const uint8_t* data, size_t size) {
  for (; size >= 8; data += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    crc = __crc32cd(crc, word);
  }
  for (; size > 0; ++data, --size) crc = __crc32cb(crc, *data);
  return crc;
}

#else

bool HasInstruction() { return false; }
uint32_t Extend(uint32_t crc, const uint8_t*, size_t) { return crc; }

#endif

// One byte a step: the definition.
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

}  // namespace lectern
