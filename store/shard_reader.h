// Reads one shard, mapped or copied; every byte is verified before it is first used.
#ifndef LECTERN_STORE_SHARD_READER_H_
#define LECTERN_STORE_SHARD_READER_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/env.h"
#include "store/shard_format.h"
#include "store/status.h"

namespace lectern {

// Thread-safe after Open. Spans live as long as the reader.
class ShardReader {
 public:
  // Opens the file by `io` and checks header, footer, block table, section table: sizes, bounds,
  // alignment, overlap, duplicates, version, features. Touches no section. `expected` is compared
  // field by field where it is set (kind, layer, document id, fingerprint, generation).
  // kMissingFile, kTruncated (also: longer than it says), kChecksumMismatch, kCorrupt,
  // kUnsupportedVersion, kIoError.
  struct Expected {
    ShardKind kind;
    uint32_t layer = 0;
    const uint8_t* document_id = nullptr;  // [16]
    const uint8_t* fingerprint = nullptr;  // [32]
    uint64_t generation = 0;
    std::optional<uint32_t> table_crc;  // of the catalog
  };
  static Result<std::unique_ptr<ShardReader>> Open(Env& env, const std::string& path,
                                                   const Expected& expected, Io io = Io::kMmap);
  // The file, with a hint that Open comes to it: of several files all are then read at a time.
  static Result<std::unique_ptr<MappedFile>> Map(Env& env, const std::string& path, Io io);
  // The same over a file that is open already; `path` is for messages.
  static Result<std::unique_ptr<ShardReader>> Open(std::unique_ptr<MappedFile> file,
                                                   const std::string& path,
                                                   const Expected& expected);
  ~ShardReader();

  const std::string& path() const;
  const ShardHeader& header() const;
  std::span<const SectionEntry> sections() const;  // in file order

  // A section's place without verifying its bytes: for the caller that verifies ranges itself.
  // nullptr when there is none.
  const SectionEntry* Find(SectionKind kind, uint32_t kv_head, uint32_t level) const;
  // The whole section, verified: it stays while the reader lives. kNotFound when there is none,
  // kChecksumMismatch with file and block offset; by Io::kPread also kTruncated and kIoError.
  Result<std::span<const std::byte>> Section(SectionKind kind, uint32_t kv_head,
                                             uint32_t level) const;
  // The same as elements. kCorrupt when the size is no multiple of sizeof(T).
  template <typename T>
  Result<std::span<const T>> Array(SectionKind kind, uint32_t kv_head, uint32_t level) const {
    LECTERN_ASSIGN(const std::span<const std::byte> bytes, Section(kind, kv_head, level));
    if (bytes.size() % sizeof(T) != 0) {
      return Status(Code::kCorrupt, path() +
                                        ": section size is no multiple of its element; "
                                        "index the document again");
    }
    return std::span<const T>(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
  }

  // The bytes of the file; there and verified only where Verify or Section said so.
  const std::byte* data() const;
  // Loads and checks the blocks that [offset, offset + bytes) of the file touches and remembers
  // them: the first touch pays, later ones are one atomic load per block. The header's block is
  // included. Codes of Section.
  Status Verify(uint64_t offset, uint64_t bytes) const;
  // A hint that [offset, offset + bytes) will be verified soon: what is not yet is read meanwhile.
  void ReadAhead(uint64_t offset, uint64_t bytes) const;
  // Of the file's blocks, those that are verified now: [0, 1].
  double verified_share() const;
  // Bytes of blocks that Drop would let go: verified, and no section's that was read whole.
  uint64_t droppable_bytes() const;
  // Lets go of them, so that they take no memory; the next Verify loads and checks them again. By
  // Io::kPread nobody may be reading them.
  void Drop() const;
  // Every block of the file as it is now, also those verified before; keeps none of them.
  Status VerifyAll() const;

 private:
  struct Impl;
  explicit ShardReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Verify for many small ranges that often lie in the block of the one before, on one thread, while
// nothing is dropped.
class VerifiedBlock {
 public:
  explicit VerifiedBlock(const ShardReader& shard) : shard_(shard) {}
  // Codes of ShardReader::Verify. bytes >= 1.
  Status Verify(uint64_t offset, uint64_t bytes) {
    const uint64_t last = (offset + bytes - 1) / kBlockBytes;
    if (last == block_ && offset / kBlockBytes == block_) return {};
    LECTERN_RETURN_IF_ERROR(shard_.Verify(offset, bytes));
    block_ = last;
    return {};
  }

 private:
  const ShardReader& shard_;
  uint64_t block_ = UINT64_MAX;
};

}  // namespace lectern

#endif  // LECTERN_STORE_SHARD_READER_H_
