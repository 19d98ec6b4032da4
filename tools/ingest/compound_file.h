// Reads compound files (MS-CFB, "OLE"): a file system of storages and streams in one file, in which
// Office programs before 2007 and Outlook keep their documents.
//
// The code is our own and not libgsf's: 200 lines read the format, libgsf's reader of it had two
// heap overflows in 2024 (CVE-2024-36474, CVE-2024-42415), and the Windows build would need it too.
// Both read the same streams (RESULTS.md).
#ifndef LECTERN_TOOLS_INGEST_COMPOUND_FILE_H_
#define LECTERN_TOOLS_INGEST_COMPOUND_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/lectern.h"

namespace lectern::tools {

// Numbers in files of Microsoft's: the lowest byte first. 0 where the bytes end before.
uint16_t Uint16At(std::string_view bytes, size_t at);
uint32_t Uint32At(std::string_view bytes, size_t at);
uint64_t Uint64At(std::string_view bytes, size_t at);

class CompoundFile {
 public:
  struct Entry {
    std::string name;  // UTF-8
    bool is_storage = false;
    std::vector<uint32_t> children;  // of a storage: numbers of entries, in the file's order

    uint32_t first_sector = 0;
    uint64_t size = 0;  // that the file says; bytes of a stream
  };
  static constexpr uint32_t kRoot = 0;

  // Whether the bytes begin as a compound file does.
  static bool IsOne(std::string_view bytes);

  // Reads the directory; `bytes` must outlive the result. Linear time and memory below that of the
  // bytes. INVALID_ARGUMENT (param "file"; the message begins with a verb): it is none, or is
  // damaged: an entry is in the directory's tree twice, or a chain of sectors is a circle.
  static api::Result<CompoundFile> Open(std::string_view bytes);

  const Entry& entry(uint32_t number) const { return entries_[number]; }
  // The entry of this name in a storage, in any case of letters (ASCII).
  std::optional<uint32_t> Find(uint32_t storage, std::string_view name) const;

  // The bytes of a stream; fewer than its size where the file is cut off. INVALID_ARGUMENT: its
  // chain of sectors is a circle, or the streams that were read together are much larger than the
  // file, because they share sectors.
  api::Result<std::string> Read(uint32_t stream);
  // Whether a stream that was read ends before its size.
  bool is_cut_off() const { return is_cut_off_; }

 private:
  explicit CompoundFile(std::string_view bytes) : bytes_(bytes) {}
  bool ReadTables();
  bool ReadDirectory();
  std::string_view Sector(uint32_t sector) const;
  std::optional<std::string> ReadChain(uint32_t first, uint64_t size,
                                       const std::vector<uint32_t>& next, bool is_mini) const;

  std::string_view bytes_;
  uint32_t sector_bytes_ = 512;
  std::vector<uint32_t> next_, next_mini_;  // sectors behind each sector
  std::string mini_stream_;                 // holds the small streams, in sectors of 64 bytes
  std::vector<Entry> entries_;
  uint64_t num_read_ = 0;
  bool is_cut_off_ = false;
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_COMPOUND_FILE_H_
