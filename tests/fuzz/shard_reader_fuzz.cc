// ShardReader over damaged shards whose checksums fit: what is left are contradictions.
//
// The input is the payload of a shard, cut anywhere (a whole shard works too: its tables are
// ignored). It is filled up to whole blocks; then block table, footer and header CRC are made anew.
// The four bytes of header_crc are free in the input: unless bit 0 of the first is set, magic,
// version and sizes of the header are repaired as well.
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
  if ((header.header_crc & 1) == 0) {
    std::memcpy(header.magic, kShardMagic, sizeof kShardMagic);
    header.major = kFormatMajor;
    header.block_bytes = kBlockBytes;
    header.payload_bytes = bytes.size();
    header.num_blocks = bytes.size() / kBlockBytes;
  }
  std::memcpy(bytes.data(), &header, sizeof header);
  header.header_crc = HeaderCrc(bytes.data());
  std::memcpy(bytes.data(), &header, sizeof header);
  return header;
}

void AppendTables(std::string& bytes, const ShardHeader& header) {
  const size_t num_blocks = bytes.size() / kBlockBytes;
  std::string table;
  for (size_t i = 0; i < num_blocks; ++i) {
    const uint32_t crc = Crc32c(BlockSeed(header, i), bytes.data() + i * kBlockBytes, kBlockBytes);
    table.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  }
  ShardFooter footer{};
  footer.file_bytes = bytes.size() + table.size() + sizeof footer;
  footer.table_crc = Crc32c(0, table.data(), table.size());
  footer.header_crc = header.header_crc;
  std::memcpy(footer.end_magic, kShardEndMagic, sizeof footer.end_magic);
  bytes += table;
  bytes.append(reinterpret_cast<const char*>(&footer), sizeof footer);
}

// Whatever was accepted lies inside of the payload and verifies.
void CheckReader(const ShardReader& reader) {
  uint64_t sum = 0;
  uint64_t end = kHeaderBytes;
  for (const SectionEntry& s : reader.sections()) {
    Check(s.offset >= end && s.offset + s.bytes <= reader.header().payload_bytes);
    end = s.offset + s.bytes;
    const auto bytes = reader.Section(SectionKind{s.kind}, s.kv_head, s.level);
    Check(bytes.ok() && bytes->size() == s.bytes);
    for (const std::byte byte : *bytes) sum += static_cast<uint64_t>(byte);
    (void)reader.Array<uint64_t>(SectionKind{s.kind}, s.kv_head, s.level).ok();
    Check(reader.Find(SectionKind{s.kind}, s.kv_head, s.level) == &s);
    (void)reader.Verify(s.bytes, s.offset).ok();
  }
  Check(reader.VerifyAll().ok());
  if (sum == ~uint64_t{0}) std::abort();  // the bytes were read
}

}  // namespace
}  // namespace lectern

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lectern;
  std::string bytes = MakePayload(data, size);
  const ShardHeader header = SealHeader(bytes);
  AppendTables(bytes, header);
  BytesEnv env(std::move(bytes));
  ShardReader::Expected expected{};
  expected.kind = ShardKind{header.kind};
  expected.layer = header.layer;
  const auto reader = ShardReader::Open(env, "fuzz.shard", expected);
  if (reader.ok()) {
    CheckReader(**reader);
  } else {
    Check(reader.status().code() != Code::kChecksumMismatch && !reader.status().message().empty());
  }
  return 0;
}
