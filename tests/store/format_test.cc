// FORMAT.md and the golden file against what this build writes and reads.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "tests/store/env_for_tests.h"
#include "tests/store/sample_shard.h"

namespace lectern {
namespace {

const std::string kGolden = LECTERN_SOURCE_DIR "/tests/golden/format-v1.shard";

// Lines of 16 bytes, those that are all zero left out.
std::string HexDump(const std::string& bytes) {
  std::string dump;
  for (size_t at = 0; at < bytes.size(); at += 16) {
    const std::string line = bytes.substr(at, 16);
    if (line.find_first_not_of('\0') == std::string::npos) continue;
    char text[32];
    std::snprintf(text, sizeof text, "%08zx ", at);
    dump += text;
    for (const char byte : line) {
      std::snprintf(text, sizeof text, " %02x", static_cast<unsigned char>(byte));
      dump += text;
    }
    dump += '\n';
  }
  return dump;
}

// LECTERN_PRINT_EXAMPLE=1 prints the dump, to be pasted into FORMAT.md when the format changes.
TEST(FormatTest, TheExampleInTheDocumentIsWhatTheWriterWrites) {
  const std::string dump = HexDump(SampleShard());
  if (std::getenv("LECTERN_PRINT_EXAMPLE") != nullptr) std::fputs(dump.c_str(), stdout);
  const std::string document = ReadBytes(LECTERN_SOURCE_DIR "/store/FORMAT.md");
  EXPECT_NE(document.find(dump), std::string::npos) << dump;
}

// LECTERN_WRITE_GOLDEN=1 writes the file anew: only for a new major version, under a new name.
TEST(FormatTest, ShardsOfVersion1StayReadable) {
  if (std::getenv("LECTERN_WRITE_GOLDEN") != nullptr) WriteBytes(kGolden, SampleShard());
  const auto reader = ShardReader::Open(Env::Default(), kGolden, SampleExpected());
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_TRUE((*reader)->VerifyAll().ok());
  EXPECT_EQ((*reader)->header().num_tokens, 3u);
  for (const SampleSection& s : SampleSections()) {
    const auto bytes = (*reader)->Section(s.kind, s.kv_head, s.level);
    ASSERT_TRUE(bytes.ok());
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()), s.bytes);
  }
}

TEST(FormatTest, TheWriterStillWritesVersion1) { EXPECT_EQ(SampleShard(), ReadBytes(kGolden)); }

}  // namespace
}  // namespace lectern
