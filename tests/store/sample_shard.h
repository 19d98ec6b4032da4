// Small shards for the tests of writer, reader and format.
#ifndef LECTERN_TESTS_STORE_SAMPLE_SHARD_H_
#define LECTERN_TESTS_STORE_SAMPLE_SHARD_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include "store/crc32c.h"
#include "store/shard_layout.h"
#include "store/shard_reader.h"
#include "store/shard_writer.h"

namespace lectern {

// Under AddressSanitizer a case of a sweep takes many times as long: fewer of them will do there.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

// For tests that sync by the thousand: in memory, where there is such a place.
inline std::filesystem::path MemoryDirectory() {
  std::error_code error;
  return std::filesystem::is_directory("/dev/shm", error) ? std::filesystem::path("/dev/shm")
                                                          : std::filesystem::temp_directory_path();
}

// A new folder, removed with everything in it when this object ends. The test fails where it cannot
// be made.
class TempDirectory {
 public:
  explicit TempDirectory(
      const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::random_device random;
    std::error_code error;
    bool is_made = false;
    while (!is_made && !error) {
      path_ = (parent / ("lectern-" + std::to_string(random()))).generic_string();
      is_made = std::filesystem::create_directory(path_, error);
    }
    EXPECT_TRUE(is_made) << path_ << ": " << error.message();
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, error);  // nobody else
  }
  ~TempDirectory() { std::filesystem::remove_all(path_); }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Files and folders directly in it.
  size_t num_files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::string path_;
};

// "" where the file cannot be read.
inline std::string ReadBytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Replaces the file's content; a failure is not reported.
inline void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Layer 1 of 2; document id 00 01 … 0f, fingerprint 20 21 … 3f.
inline ShardHeader SampleHeader() {
  ShardHeader header{};
  header.kind = static_cast<uint32_t>(ShardKind::kLayer);
  header.layer = 1;
  for (size_t i = 0; i < 16; ++i) header.document_id[i] = static_cast<uint8_t>(i);
  for (size_t i = 0; i < 32; ++i) header.fingerprint[i] = static_cast<uint8_t>(0x20 + i);
  header.generation = 7;
  header.num_tokens = 3;
  header.num_layers = 2;
  header.num_kv_heads = 2;
  header.head_dim = 2;
  header.kv_dtype = 1;  // f16
  header.num_levels = 2;
  return header;
}

inline ShardReader::Expected SampleExpected() {
  ShardReader::Expected expected{};
  expected.kind = ShardKind::kLayer;
  expected.layer = 1;
  expected.generation = 7;
  return expected;
}

struct SampleSection {
  SectionKind kind;
  uint32_t kv_head = 0;
  uint32_t level = 0;
  std::string bytes;
};

// The shard of FORMAT.md's example and of the golden file.
inline std::vector<SampleSection> SampleSections() {
  return {{SectionKind::kPositions, 0, 0, std::string("\0\0\0\0\1\0\0\0\2\0\0\0", 12)},
          {SectionKind::kRadii, 1, 2, ""},
          {SectionKind::kMeanValues, 1, 2, "mean"}};
}

// Writes "layer-001.shard" into `directory`, by way of `temp`. Errors of ShardWriter.
inline Result<ShardSummary> WriteShard(Env& env, const TempDirectory& temp,
                                       const TempDirectory& directory, const ShardHeader& header,
                                       const std::vector<SampleSection>& sections) {
  LECTERN_ASSIGN(auto writer, ShardWriter::Create(env, temp.path(), directory.path(),
                                                  "layer-001.shard", header));
  for (const SampleSection& s : sections) {
    LECTERN_RETURN_IF_ERROR(
        writer->AddSection(s.kind, s.kv_head, s.level, s.bytes.data(), s.bytes.size()));
  }
  return writer->Finish();
}

// The bytes of a shard that our writer makes of these. An error fails the test.
inline std::string ShardBytes(const ShardHeader& header,
                              const std::vector<SampleSection>& sections) {
  TempDirectory temp, directory;
  const auto summary = WriteShard(Env::Default(), temp, directory, header, sections);
  EXPECT_TRUE(summary.ok()) << summary.status().message();
  return ReadBytes(directory / "layer-001.shard");
}

// The bytes of the shard of SampleHeader and SampleSections. It is written once, because thousands
// of cases change a copy of it, and a disk takes long to sync each.
inline const std::string& SampleShard() {
  static const std::string bytes = ShardBytes(SampleHeader(), SampleSections());
  return bytes;
}

// Makes every checksum fit again after a test changed header or payload: only contradictions are
// left for the reader to find. `bytes` has the size of a whole shard, and keeps it.
inline void RepairShard(std::string& bytes) {
  ShardHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.header_crc = HeaderCrc(bytes.data());
  std::memcpy(bytes.data(), &header, sizeof header);
  const size_t num_blocks = (bytes.size() - sizeof(ShardFooter)) / (kBlockBytes + 4);
  char* table = bytes.data() + num_blocks * kBlockBytes;
  for (size_t i = 0; i < num_blocks; ++i) {
    const uint32_t crc = Crc32c(BlockSeed(header, i), bytes.data() + i * kBlockBytes, kBlockBytes);
    std::memcpy(table + 4 * i, &crc, 4);
  }
  ShardFooter footer{};
  footer.file_bytes = bytes.size();
  footer.table_crc = Crc32c(0, table, 4 * num_blocks);
  footer.header_crc = header.header_crc;
  std::memcpy(footer.end_magic, kShardEndMagic, sizeof footer.end_magic);
  std::memcpy(table + 4 * num_blocks, &footer, sizeof footer);
}

}  // namespace lectern

#endif  // LECTERN_TESTS_STORE_SAMPLE_SHARD_H_
