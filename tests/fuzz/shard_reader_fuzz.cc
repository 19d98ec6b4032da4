// ShardReader over damaged shards whose checksums fit: what is left are contradictions.
//
// The input is the payload of a shard, cut anywhere (a whole shard works too: its tables are
// ignored). It is filled up to whole blocks; then block table, footer and header CRC are made anew.
// The four bytes of header_crc are free in the input and say what else is wrong: Flag.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "store/crc32c.h"
#include "store/shard_layout.h"
#include "store/shard_reader.h"
#include "tests/store/env_for_tests.h"

namespace lectern {
namespace {

constexpr size_t kMaxBlocks = 16;

enum Flag : uint32_t {
  kLeaveHeader = 1,         // magic, version and sizes of the header are not repaired
  kOtherDocument = 1 << 8,  // what is expected is another shard
  kOtherModel = 1 << 9,
  kOtherGeneration = 1 << 10,
  kOtherTable = 1 << 11,
  kOtherLayer = 1 << 12,
  kWrongHeaderCrc = 1 << 13,
  kWrongTable = 1 << 14,
  kWrongBlock = 1 << 15,
};
constexpr uint32_t kWrongCrc = kWrongHeaderCrc | kWrongTable | kWrongBlock;

void Check(bool claim) {
  if (!claim) std::abort();
}

std::string MakePayload(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), std::min(size, kMaxBlocks * kBlockBytes));
  if (bytes.size() > kBlockBytes) {  // the rest of a whole shard: its tables
    bytes.resize(bytes.size() / kBlockBytes * kBlockBytes);
  }
  bytes.resize(std::max<size_t>(AlignUp(bytes.size(), kBlockBytes), kBlockBytes));
  return bytes;
}

// The header, repaired where the input asks for it, and written back.
ShardHeader SealHeader(std::string& bytes) {
  ShardHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const uint32_t flags = header.header_crc;
  if ((header.header_crc & kLeaveHeader) == 0) {
    std::memcpy(header.magic, kShardMagic, sizeof kShardMagic);
    header.major = kFormatMajor;
    header.block_bytes = kBlockBytes;
    header.payload_bytes = bytes.size();
    header.num_blocks = bytes.size() / kBlockBytes;
  }
  std::memcpy(bytes.data(), &header, sizeof header);
  header.header_crc = HeaderCrc(bytes.data()) ^ ((flags & kWrongHeaderCrc) != 0 ? 1 : 0);
  std::memcpy(bytes.data(), &header, sizeof header);
  return header;
}

void AppendTables(std::string& bytes, const ShardHeader& header, uint32_t flags) {
  const size_t num_blocks = bytes.size() / kBlockBytes;
  std::string table;
  for (size_t i = 0; i < num_blocks; ++i) {
    uint32_t crc = Crc32c(BlockSeed(header, i), bytes.data() + i * kBlockBytes, kBlockBytes);
    if ((flags & kWrongBlock) != 0 && i + 1 == num_blocks) crc ^= 1;
    table.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  }
  ShardFooter footer{};
  footer.file_bytes = bytes.size() + table.size() + sizeof footer;
  footer.table_crc = Crc32c(0, table.data(), table.size()) ^ ((flags & kWrongTable) != 0 ? 1 : 0);
  footer.header_crc = header.header_crc;
  std::memcpy(footer.end_magic, kShardEndMagic, sizeof footer.end_magic);
  bytes += table;
  bytes.append(reinterpret_cast<const char*>(&footer), sizeof footer);
}

// Whatever was accepted lies inside of the payload, and verifies unless its last block is wrong.
void CheckReader(const ShardReader& reader, bool is_whole) {
  uint64_t sum = 0;
  uint64_t end = kHeaderBytes;
  for (const SectionEntry& s : reader.sections()) {
    Check(s.offset >= end && s.offset + s.bytes <= reader.header().payload_bytes);
    end = s.offset + s.bytes;
    const auto bytes = reader.Section(SectionKind{s.kind}, s.kv_head, s.level);
    Check(bytes.ok() ? bytes->size() == s.bytes : !is_whole);
    if (bytes.ok()) {
      for (const std::byte byte : *bytes) sum += static_cast<uint64_t>(byte);
    }
    (void)reader.Array<uint64_t>(SectionKind{s.kind}, s.kv_head, s.level).ok();
    Check(reader.Find(SectionKind{s.kind}, s.kv_head, s.level) == &s);
    (void)reader.Verify(s.bytes, s.offset).ok();
  }
  Check(reader.VerifyAll().ok() == is_whole);
  // A later version may know more kinds; of this one there is none that is not listed.
  if (reader.Find(SectionKind{99999}, 0, 0) == nullptr) {
    Check(!reader.Section(SectionKind{99999}, 0, 0).ok());
  }
  if (sum == ~uint64_t{0}) std::abort();  // the bytes were read
}

ShardReader::Expected Wanted(const ShardHeader& header, uint32_t flags) {
  static constexpr uint8_t kOther[32] = {0xEE};
  ShardReader::Expected expected{};
  expected.kind = ShardKind{header.kind};
  expected.layer = header.layer + ((flags & kOtherLayer) != 0 ? 1 : 0);
  expected.document_id = (flags & kOtherDocument) != 0 ? kOther : header.document_id;
  expected.fingerprint = (flags & kOtherModel) != 0 ? kOther : header.fingerprint;
  expected.generation = header.generation + ((flags & kOtherGeneration) != 0 ? 1 : 0);
  if ((flags & kOtherTable) != 0) expected.table_crc = 1;
  return expected;
}

}  // namespace
}  // namespace lectern

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lectern;
  std::string bytes = MakePayload(data, size);
  uint32_t flags;
  std::memcpy(&flags, bytes.data() + offsetof(ShardHeader, header_crc), sizeof flags);
  const ShardHeader header = SealHeader(bytes);
  AppendTables(bytes, header, flags);
  BytesEnv env(std::move(bytes));
  const auto reader = ShardReader::Open(env, "fuzz.shard", Wanted(header, flags));
  if (reader.ok()) {
    CheckReader(**reader, (flags & kWrongBlock) == 0);
  } else {
    Check((flags & kWrongCrc) != 0 || reader.status().code() != Code::kChecksumMismatch);
    Check(!reader.status().message().empty());
  }
  return 0;
}
