#include "store/shard_reader.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <tuple>

#include "store/catalog.h"  // ToHex
#include "store/crc32c.h"
#include "store/shard_layout.h"

namespace lectern {
namespace {

// One block, its checksum and the footer.
constexpr uint64_t kSmallestFile = kBlockBytes + sizeof(uint32_t) + sizeof(ShardFooter);
constexpr char kWayOut[] = "; index the document again";

// The sections' sort key for lookups.
auto Key(const SectionEntry& s) { return std::tuple(s.kind, s.kv_head, s.level); }

// A set of block numbers that threads read and change without a lock.
using Bits = std::vector<std::atomic<uint64_t>>;
uint64_t Bit(uint64_t i) { return uint64_t{1} << (i % 64); }
// A thread that sees the bit also sees everything that was written before it was set (acquire with
// the release below): the bytes of the loaded block.
bool HasBit(const Bits& bits, uint64_t i) {
  return (bits[i / 64].load(std::memory_order_acquire) & Bit(i)) != 0;
}
// Sets the bit; false if it was set already.
bool SetBit(Bits& bits, uint64_t i) {
  return (bits[i / 64].fetch_or(Bit(i), std::memory_order_release) & Bit(i)) == 0;
}

}  // namespace

// The reader's state: constant after Load, but for the sets of blocks.
struct ShardReader::Impl {
  std::string path;
  std::unique_ptr<MappedFile> file;
  ShardHeader header{};
  std::vector<uint32_t> block_crcs;
  std::vector<SectionEntry> sections;  // in file order
  std::vector<uint32_t> by_key;        // indexes of sections, by (kind, kv_head, level)
  // One bit per block: `verified` blocks are loaded and checked, `kept` blocks belong to sections
  // that were read whole.
  mutable Bits verified, kept;
  mutable std::atomic<uint64_t> num_droppable = 0;  // verified and not kept
  // One thread loads a block: lock i guards block numbers i % 16.
  mutable std::array<std::mutex, 16> loading;

  Impl(std::string p, std::unique_ptr<MappedFile> f) : path(std::move(p)), file(std::move(f)) {}

  // An error of this file, with the way out that damage has: indexing again.
  Status Error(Code code, const std::string& what) const {
    return Status(code, path + ": " + what + kWayOut);
  }

  // The checks come in an order such that a cut file is kTruncated, another magic is kCorrupt (no
  // shard at all), and any other changed byte of the header is kChecksumMismatch. Nothing is used
  // before the header's CRC is checked.
  Status CheckHeaderBlock() {
    const uint64_t size = file->size();
    if (size < sizeof kShardMagic) return Error(Code::kTruncated, "the file is cut short");
    LECTERN_RETURN_IF_ERROR(file->Load(0, std::min<uint64_t>(size, kHeaderBytes)));
    if (std::memcmp(file->data(), kShardMagic, sizeof kShardMagic) != 0) {
      return Error(Code::kCorrupt, "not a shard (its first bytes are wrong)");
    }
    if (size < kHeaderBytes) return Error(Code::kTruncated, "the file is cut short");
    std::memcpy(&header, file->data(), sizeof header);
    if (HeaderCrc(file->data()) != header.header_crc) {
      return Error(Code::kChecksumMismatch, "checksum mismatch in the header");
    }
    return {};
  }

  // A greater major version or a feature that is not known means that the bytes may mean something
  // else. A greater minor version is read: it only adds.
  Status CheckVersion() const {
    if (header.major > kFormatMajor) {
      return Status(Code::kUnsupportedVersion,
                    path + ": file " + std::to_string(header.major) + ", this build reads " +
                        std::to_string(kFormatMajor) +
                        "; use a newer Lectern or index the document again");
    }
    if (header.major == 0) return Error(Code::kCorrupt, "format version 0");
    if ((header.required_features & ~kKnownFeatures) != 0) {
      return Status(Code::kUnsupportedVersion,
                    path +
                        ": needs a feature that this build lacks; use a newer Lectern or index "
                        "the document again");
    }
    return {};
  }

  // Compares the sizes that the header claims with the file's size.
  Status CheckSizes() const {
    const uint64_t size = file->size();
    if (header.block_bytes != kBlockBytes) return Error(Code::kCorrupt, "wrong block size");
    if (header.payload_bytes % kBlockBytes != 0 || header.payload_bytes == 0 ||
        header.num_blocks != header.payload_bytes / kBlockBytes) {
      return Error(Code::kCorrupt, "payload and block count contradict each other");
    }
    if (size < kSmallestFile || header.payload_bytes > size ||
        header.num_blocks * sizeof(uint32_t) + sizeof(ShardFooter) != size - header.payload_bytes) {
      return Error(Code::kTruncated, "the file has " + std::to_string(size) +
                                         " bytes, which is not what its header says");
    }
    return {};
  }

  const std::byte* table() const { return file->data() + header.payload_bytes; }
  uint64_t table_bytes() const { return header.num_blocks * sizeof(uint32_t); }

  // Every bit of the footer behind the table is determined by the rest of the file, so any
  // difference is damage.
  Status CheckFooter(const std::byte* at) const {
    ShardFooter wanted{};
    wanted.file_bytes = file->size();
    wanted.table_crc = Crc32c(0, at, table_bytes());
    wanted.header_crc = header.header_crc;
    std::memcpy(wanted.end_magic, kShardEndMagic, sizeof wanted.end_magic);
    if (std::memcmp(at + table_bytes(), &wanted, sizeof wanted) == 0) return {};
    return Error(Code::kChecksumMismatch, "checksum mismatch in the block table or footer");
  }

  // Finds files that were swapped or copied from elsewhere. table_crc pins the content to the one
  // that the catalog saw committed.
  Status CheckIdentity(const Expected& expected) const {
    if (header.kind != static_cast<uint32_t>(expected.kind) || header.layer != expected.layer) {
      return Error(Code::kCorrupt, "the shard of another layer or kind (kind " +
                                       std::to_string(header.kind) + ", layer " +
                                       std::to_string(header.layer) + ")");
    }
    if (expected.document_id != nullptr &&
        std::memcmp(expected.document_id, header.document_id, sizeof header.document_id) != 0) {
      return Error(Code::kCorrupt, "the shard of document " + ToHex(header.document_id));
    }
    if (expected.generation != 0 && expected.generation != header.generation) {
      return Error(Code::kCorrupt, "the shard of generation " + std::to_string(header.generation));
    }
    if (expected.fingerprint != nullptr &&
        std::memcmp(expected.fingerprint, header.fingerprint, sizeof header.fingerprint) != 0) {
      return Error(Code::kCorrupt,
                   "made with another model (fingerprint " + ToHex(header.fingerprint) + ")");
    }
    if (expected.table_crc && *expected.table_crc != Crc32c(0, table(), table_bytes())) {
      return Error(Code::kCorrupt, "not the file that the catalog lists");
    }
    return {};
  }

  void LoadBlockTable() {
    block_crcs.resize(header.num_blocks);
    std::memcpy(block_crcs.data(), table(), table_bytes());
    verified = Bits((header.num_blocks + 63) / 64);
    kept = Bits(verified.size());
  }

  // Reads the section table, which lies in the payload and is verified like it.
  Status LoadSections() {
    const uint64_t offset = header.section_table_offset;
    const uint64_t bytes = uint64_t{header.num_sections} * sizeof(SectionEntry);
    if (header.num_sections > kMaxSections || offset % kSectionAlignment != 0 ||
        offset < kHeaderBytes || offset > header.payload_bytes ||
        bytes > header.payload_bytes - offset) {
      return Error(Code::kCorrupt, "the section table lies outside of the payload");
    }
    LECTERN_RETURN_IF_ERROR(VerifyBlocks(offset, bytes, /*keep=*/false));
    sections.resize(header.num_sections);
    if (bytes > 0) std::memcpy(sections.data(), file->data() + offset, bytes);
    LECTERN_RETURN_IF_ERROR(CheckSections());
    return IndexSections();
  }

  // Sections must ascend without overlap, end before the section table, and be of the format.
  Status CheckSections() const {
    uint64_t end = kHeaderBytes;  // where the section before ends
    for (const SectionEntry& s : sections) {
      const std::string name = "section " + std::to_string(&s - sections.data());
      if (const std::string error = SectionError(header, s); !error.empty()) {
        return Error(Code::kCorrupt, name + ": " + error);
      }
      if (s.offset % kSectionAlignment != 0 || s.offset < end ||
          s.offset > header.section_table_offset ||
          s.bytes > header.section_table_offset - s.offset) {
        return Error(Code::kCorrupt, name + " overlaps another or lies outside of the payload");
      }
      end = s.offset + s.bytes;
    }
    return {};
  }

  // Sorts the sections' numbers by key, for Find, and finds duplicates.
  Status IndexSections() {
    by_key.resize(sections.size());
    for (uint32_t i = 0; i < by_key.size(); ++i) by_key[i] = i;
    std::sort(by_key.begin(), by_key.end(),
              [&](uint32_t a, uint32_t b) { return Key(sections[a]) < Key(sections[b]); });
    for (size_t i = 1; i < by_key.size(); ++i) {
      if (Key(sections[by_key[i - 1]]) == Key(sections[by_key[i]])) {
        return Error(Code::kCorrupt, "section " + std::to_string(by_key[i]) + " comes twice");
      }
    }
    return {};
  }

  const SectionEntry* Find(SectionKind kind, uint32_t kv_head, uint32_t level) const {
    const std::tuple key(static_cast<uint32_t>(kind), kv_head, level);
    const auto less = [&](uint32_t i, const auto& k) { return Key(sections[i]) < k; };
    const auto it = std::lower_bound(by_key.begin(), by_key.end(), key, less);
    return it != by_key.end() && Key(sections[*it]) == key ? &sections[*it] : nullptr;
  }

  // Checks the CRC of a block whose content is `bytes`.
  Status CheckBlock(uint64_t block, const std::byte* bytes) const {
    if (Crc32c(BlockSeed(header, block), bytes, kBlockBytes) == block_crcs[block]) return {};
    return Error(Code::kChecksumMismatch,
                 "checksum mismatch in the block at byte " + std::to_string(block * kBlockBytes));
  }

  // Makes the blocks of a range verified. `keep`: they are never dropped, because callers hold
  // spans of them.
  Status VerifyBlocks(uint64_t offset, uint64_t bytes, bool keep) const {
    if (offset > header.payload_bytes || bytes > header.payload_bytes - offset) {
      return Error(Code::kCorrupt, "a range lies outside of the payload");
    }
    if (bytes == 0) return {};
    const uint64_t last = (offset + bytes - 1) / kBlockBytes;
    for (uint64_t block = offset / kBlockBytes; block <= last; ++block) {
      if (!HasBit(verified, block)) LECTERN_RETURN_IF_ERROR(LoadBlock(block));
      if (keep && SetBit(kept, block)) num_droppable.fetch_sub(1, std::memory_order_relaxed);
    }
    return {};
  }

  // Loads and checks one block. Others that need the same block wait; other blocks go on, but for
  // those that share its lock.
  Status LoadBlock(uint64_t block) const {
    // Another thread may have loaded it while this one waited.
    const std::lock_guard lock(loading[block % loading.size()]);
    if (HasBit(verified, block)) return {};
    LECTERN_RETURN_IF_ERROR(file->Load(block * kBlockBytes, kBlockBytes));
    LECTERN_RETURN_IF_ERROR(CheckBlock(block, file->data() + block * kBlockBytes));
    SetBit(verified, block);
    num_droppable.fetch_add(1, std::memory_order_relaxed);
    return {};
  }

  // Hints for runs of blocks that are not verified; verified ones are in memory.
  void ReadAhead(uint64_t offset, uint64_t bytes) const {
    const uint64_t end =
        std::min((offset + bytes + kBlockBytes - 1) / kBlockBytes, header.num_blocks);
    for (uint64_t block = offset / kBlockBytes; block < end;) {
      const uint64_t begin = block;
      while (block < end && !HasBit(verified, block)) ++block;
      if (begin < block) file->WillNeed(begin * kBlockBytes, (block - begin) * kBlockBytes);
      while (block < end && HasBit(verified, block)) ++block;
    }
  }

  double VerifiedShare() const {
    uint64_t count = 0;
    for (const auto& bits : verified) count += std::popcount(bits.load(std::memory_order_relaxed));
    return static_cast<double>(count) / static_cast<double>(header.num_blocks);
  }

  // The bit is cleared before the pages go: a thread that sees it cleared loads the block again.
  void Drop() const {
    for (uint64_t block = 0; block < header.num_blocks; ++block) {
      if (!HasBit(verified, block) || HasBit(kept, block)) continue;
      verified[block / 64].fetch_and(~Bit(block), std::memory_order_relaxed);
      num_droppable.fetch_sub(1, std::memory_order_relaxed);
      file->DontNeed(block * kBlockBytes, kBlockBytes);
    }
  }

  // Checks the file as it is now, block by block, through a buffer of its own.
  Status VerifyAll() const {
    std::vector<std::byte> bytes(
        std::max<uint64_t>(kBlockBytes, table_bytes() + sizeof(ShardFooter)));
    LECTERN_RETURN_IF_ERROR(
        file->ReadAt(header.payload_bytes, bytes.data(), table_bytes() + sizeof(ShardFooter)));
    LECTERN_RETURN_IF_ERROR(CheckFooter(bytes.data()));
    for (uint64_t block = 0; block < header.num_blocks; ++block) {
      LECTERN_RETURN_IF_ERROR(file->ReadAt(block * kBlockBytes, bytes.data(), kBlockBytes));
      LECTERN_RETURN_IF_ERROR(CheckBlock(block, bytes.data()));
    }
    return {};
  }

  // Reads and checks what Open needs (header, block table, section table) and fills in the state.
  // Each check relies on those before it: the CRC comes before any field is used, the version
  // before what a newer one may mean otherwise, the sizes before the tables are touched, the footer
  // before the CRCs of blocks are trusted.
  Status Load(const Expected& expected) {
    LECTERN_RETURN_IF_ERROR(CheckHeaderBlock());
    LECTERN_RETURN_IF_ERROR(CheckVersion());
    LECTERN_RETURN_IF_ERROR(CheckSizes());
    LECTERN_RETURN_IF_ERROR(file->Load(header.payload_bytes, table_bytes() + sizeof(ShardFooter)));
    LECTERN_RETURN_IF_ERROR(CheckFooter(table()));
    if (const std::string error = HeaderError(header); !error.empty()) {
      return Error(Code::kCorrupt, "header: " + error);
    }
    LECTERN_RETURN_IF_ERROR(CheckIdentity(expected));
    LoadBlockTable();
    return LoadSections();
  }
};

ShardReader::ShardReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ShardReader::~ShardReader() = default;

Result<std::unique_ptr<ShardReader>> ShardReader::Open(Env& env, const std::string& path,
                                                       const Expected& expected, Io io) {
  LECTERN_ASSIGN(std::unique_ptr<MappedFile> file, Map(env, path, io));
  return Open(std::move(file), path, expected);
}

Result<std::unique_ptr<MappedFile>> ShardReader::Map(Env& env, const std::string& path, Io io) {
  LECTERN_ASSIGN(std::unique_ptr<MappedFile> file,
                 io == Io::kMmap ? env.Map(path) : env.Mirror(path));
  // Needed first: the header, and at the end the section table, block table and footer.
  const uint64_t size = file->size();
  // An upper guess of the tables' size: the section table is rarely larger than a block.
  const uint64_t tables = 2 * kBlockBytes + size / kBlockBytes * sizeof(uint32_t);
  file->WillNeed(0, std::min<uint64_t>(kHeaderBytes, size));
  file->WillNeed(size - std::min(tables, size), std::min(tables, size));
  return file;
}

Result<std::unique_ptr<ShardReader>> ShardReader::Open(std::unique_ptr<MappedFile> file,
                                                       const std::string& path,
                                                       const Expected& expected) {
  auto impl = std::make_unique<Impl>(path, std::move(file));
  LECTERN_RETURN_IF_ERROR(impl->Load(expected));
  return std::unique_ptr<ShardReader>(new ShardReader(std::move(impl)));
}

const std::string& ShardReader::path() const { return impl_->path; }
const ShardHeader& ShardReader::header() const { return impl_->header; }
std::span<const SectionEntry> ShardReader::sections() const { return impl_->sections; }
const std::byte* ShardReader::data() const { return impl_->file->data(); }

const SectionEntry* ShardReader::Find(SectionKind kind, uint32_t kv_head, uint32_t level) const {
  return impl_->Find(kind, kv_head, level);
}

Result<std::span<const std::byte>> ShardReader::Section(SectionKind kind, uint32_t kv_head,
                                                        uint32_t level) const {
  const SectionEntry* entry = impl_->Find(kind, kv_head, level);
  if (entry == nullptr) {
    return impl_->Error(Code::kCorrupt, "no section of kind " +
                                             std::to_string(static_cast<uint32_t>(kind)) +
                                             " for kv head " + std::to_string(kv_head) +
                                             ", level " + std::to_string(level));
  }
  LECTERN_RETURN_IF_ERROR(impl_->VerifyBlocks(entry->offset, entry->bytes, /*keep=*/true));
  return std::span<const std::byte>(data() + entry->offset, entry->bytes);
}

Status ShardReader::Verify(uint64_t offset, uint64_t bytes) const {
  return impl_->VerifyBlocks(offset, bytes, /*keep=*/false);
}

void ShardReader::ReadAhead(uint64_t offset, uint64_t bytes) const {
  impl_->ReadAhead(offset, bytes);
}
double ShardReader::verified_share() const { return impl_->VerifiedShare(); }

uint64_t ShardReader::droppable_bytes() const {
  return impl_->num_droppable.load(std::memory_order_relaxed) * kBlockBytes;
}

void ShardReader::Drop() const { impl_->Drop(); }
Status ShardReader::VerifyAll() const { return impl_->VerifyAll(); }

}  // namespace lectern
