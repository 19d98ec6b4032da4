// Reads one shard file, mapped or copied to memory, and verifies the checksum of each block before
// its bytes are first used.
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
  // The identity that the file must have. Kind and layer always count; fields that are not set are
  // not compared.
  struct Expected {
    ShardKind kind;
    uint32_t layer = 0;                    // 0 for a document shard
    const uint8_t* document_id = nullptr;  // [16]; nullptr: any
    const uint8_t* fingerprint = nullptr;  // [32]; nullptr: any
    uint64_t generation = 0;               // 0: any
    std::optional<uint32_t> table_crc;     // as the catalog lists it
  };
  // Opens the file by `io` and checks header, footer, block table and section table: sizes, bounds,
  // alignment, overlap, duplicates, version, features, and the identity. Reads no section.
  // kMissingFile; kTruncated: shorter or longer than it says; kChecksumMismatch; kCorrupt: it
  // contradicts itself or is another shard; kUnsupportedVersion; kIoError.
  static Result<std::unique_ptr<ShardReader>> Open(Env& env, const std::string& path,
                                                   const Expected& expected, Io io = Io::kMmap);
  // Opens the file and hints that Open will read its header and tables. A caller that maps several
  // files before it opens the first one has the system read all of them at once.
  static Result<std::unique_ptr<MappedFile>> Map(Env& env, const std::string& path, Io io);
  // The same for a file that is open already; `path` is for messages.
  static Result<std::unique_ptr<ShardReader>> Open(std::unique_ptr<MappedFile> file,
                                                   const std::string& path,
                                                   const Expected& expected);
  ~ShardReader();

  const std::string& path() const;
  const ShardHeader& header() const;
  std::span<const SectionEntry> sections() const;  // in file order

  // Finds a section without verifying its bytes, for callers that verify ranges themselves. nullptr
  // if there is none.
  const SectionEntry* Find(SectionKind kind, uint32_t kv_head, uint32_t level) const;
  // The whole section, verified; it stays in memory while the reader lives. kNotFound if there is
  // none, kChecksumMismatch with file and block offset; with Io::kPread also kTruncated and
  // kIoError.
  Result<std::span<const std::byte>> Section(SectionKind kind, uint32_t kv_head,
                                             uint32_t level) const;
  // The same as an array. kCorrupt if the size is no multiple of sizeof(T).
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

  // The bytes of the file; readable only where Verify or Section succeeded.
  const std::byte* data() const;
  // Loads and checks the blocks that [offset, offset + bytes) touches, header included, and
  // remembers them: the first touch pays, later ones cost one atomic load per block. Codes of
  // Section.
  Status Verify(uint64_t offset, uint64_t bytes) const;
  // Hints that [offset, offset + bytes) will be verified soon: its unverified blocks are read in
  // the background.
  void ReadAhead(uint64_t offset, uint64_t bytes) const;
  // Share of the file's blocks that are verified now, in [0, 1].
  double verified_share() const;
  // Bytes that Drop would free: verified blocks, except those of sections that were read whole.
  uint64_t droppable_bytes() const;
  // Frees these blocks; the next Verify loads and checks them again. With Io::kPread nobody may be
  // reading them.
  void Drop() const;
  // Checks every block of the file as it is now, also those verified before; keeps none of them in
  // memory.
  Status VerifyAll() const;

 private:
  struct Impl;
  explicit ShardReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Verify for many small ranges that often lie in the same block as the one before. One thread, and
// only while nothing is dropped.
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
