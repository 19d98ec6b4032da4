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

// Thread-safe after Open, except as Drop says. Spans and references live as long as the reader.
// With Io::kMmap a file that is cut or whose disk fails meanwhile is a SIGBUS, not an error
// (env.h).
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
  // contradicts itself, is another shard or none at all; kUnsupportedVersion; kIoError;
  // kLimitExceeded: too many open files; kOutOfMemory.
  static Result<std::unique_ptr<ShardReader>> Open(Env& env, const std::string& path,
                                                   const Expected& expected, Io io = Io::kMmap);
  // Opens the file and hints that Open will read its header and tables. A caller that maps several
  // files before it opens the first one has the system read all of them at once. Checks nothing.
  // Codes of Env::Map and Env::Mirror.
  static Result<std::unique_ptr<MappedFile>> Map(Env& env, const std::string& path, Io io);
  // Open for a file that is open already, not nullptr; `path` is for messages.
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
  // The whole section, verified; it stays in memory while the reader lives. kCorrupt if there is
  // none, kChecksumMismatch with file and block offset; with Io::kPread also kTruncated and
  // kIoError.
  Result<std::span<const std::byte>> Section(SectionKind kind, uint32_t kv_head,
                                             uint32_t level) const;
  // The same as an array of T, whose alignment is at most kSectionAlignment. kCorrupt also if the
  // size is no multiple of sizeof(T).
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
  // remembers them: the first touch pays, later ones cost one atomic load per block. Ok for 0
  // bytes. kCorrupt: the range leaves the payload. kChecksumMismatch; with Io::kPread also
  // kTruncated and kIoError.
  Status Verify(uint64_t offset, uint64_t bytes) const;
  // Hints that [offset, offset + bytes) will be verified soon: its unverified blocks are read in
  // the background. Reports no error; a range past the payload's end is cut.
  void ReadAhead(uint64_t offset, uint64_t bytes) const;
  // Share of the payload's blocks that are verified (and so loaded) now, in [0, 1].
  double verified_share() const;
  // Bytes that Drop would free: verified blocks, except those that sections read whole touch.
  uint64_t droppable_bytes() const;
  // Frees these blocks; the next Verify loads and checks them again. Only one call at a time, and
  // nobody may be calling Verify or Section meanwhile, nor with Io::kPread reading the blocks.
  void Drop() const;
  // Checks every block of the file, its block table and its footer as they are now, also those
  // verified before; keeps none of them in memory. Changes nothing that other calls see.
  // kChecksumMismatch names the first damaged block; with Io::kPread also kTruncated and kIoError.
  Status VerifyAll() const;

 private:
  struct Impl;
  explicit ShardReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Verify for many small ranges that often lie in the same block as the one before. One thread, and
// only while nothing is dropped. The shard must outlive it.
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
