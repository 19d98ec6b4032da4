#include "store/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace lectern {
namespace {

class Crc32cTest : public testing::TestWithParam<Crc32cFunction> {};

// RFC 3720, B.4, and the check value of the CRC catalogue.
TEST_P(Crc32cTest, MatchesPublishedVectors) {
  const Crc32cFunction crc = GetParam();
  EXPECT_EQ(crc(0, "123456789", 9), 0xE3069283u);
  std::string bytes(32, '\0');
  EXPECT_EQ(crc(0, bytes.data(), 32), 0x8A9136AAu);
  bytes.assign(32, '\xFF');
  EXPECT_EQ(crc(0, bytes.data(), 32), 0x62A8AB43u);
  for (size_t i = 0; i < 32; ++i) bytes[i] = static_cast<char>(i);
  EXPECT_EQ(crc(0, bytes.data(), 32), 0x46DD794Eu);
  EXPECT_EQ(crc(0, nullptr, 0), 0u);
}

TEST_P(Crc32cTest, ContinuesWhereItStopped) {
  const std::string bytes = "clusters of keys, one after the other";
  const uint32_t whole = GetParam()(0, bytes.data(), bytes.size());
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const uint32_t first = GetParam()(0, bytes.data(), cut);
    EXPECT_EQ(GetParam()(first, bytes.data() + cut, bytes.size() - cut), whole);
  }
}

INSTANTIATE_TEST_SUITE_P(Both, Crc32cTest, testing::Values(&Crc32c, Crc32cOn(false)));

TEST(Crc32cTest, InstructionAndTableAgreeAtEveryLengthAndOffset) {
  const Crc32cFunction by_table = Crc32cOn(false);
  std::mt19937 random(1);
  std::vector<uint8_t> bytes(300);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  for (size_t offset = 0; offset < 9; ++offset) {
    for (size_t size = 0; offset + size <= bytes.size(); ++size) {
      const uint32_t seed = random();
      ASSERT_EQ(Crc32c(seed, bytes.data() + offset, size),
                by_table(seed, bytes.data() + offset, size));
    }
  }
}

// Long ones are taken in parts of several sizes.
TEST(Crc32cTest, InstructionAndTableAgreeOnLongBytes) {
  const Crc32cFunction by_table = Crc32cOn(false);
  std::mt19937 random(2);
  std::vector<uint8_t> bytes(200'000);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  for (const size_t about : {1536, 3072, 12288, 49152, 65536, 131072, 150000}) {
    for (size_t size = about - 9; size <= about + 9; ++size) {
      const uint32_t seed = random();
      const size_t offset = random() % 64;
      ASSERT_EQ(Crc32c(seed, bytes.data() + offset, size),
                by_table(seed, bytes.data() + offset, size))
          << size;
    }
  }
}

TEST(Crc32cTest, JoinsChecksumsOfParts) {
  std::mt19937 random(3);
  std::vector<uint8_t> bytes(5000);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  const uint32_t whole = Crc32c(0, bytes.data(), bytes.size());
  for (const size_t cut : {0, 1, 7, 512, 4999, 5000}) {
    const uint32_t first = Crc32c(0, bytes.data(), cut);
    const uint32_t second = Crc32c(0, bytes.data() + cut, bytes.size() - cut);
    EXPECT_EQ(Crc32cJoin(first, second, bytes.size() - cut), whole) << cut;
  }
}

}  // namespace
}  // namespace lectern
