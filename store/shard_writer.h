// Writes one shard file, section by section, such that after a crash at any moment it is there
// whole or not at all: into a temporary file, then fsync, rename, and fsync of the directory.
#ifndef LECTERN_STORE_SHARD_WRITER_H_
#define LECTERN_STORE_SHARD_WRITER_H_

#include <memory>
#include <string>
#include <vector>

#include "store/env.h"
#include "store/shard_format.h"
#include "store/status.h"

namespace lectern {

// The summary of a finished shard that the catalog stores.
struct ShardSummary {
  std::string file;    // plain name, "layer-003.shard"
  uint64_t bytes = 0;  // size of the file
  uint32_t table_crc = 0;   // of the block table, and so of every byte of the payload
  uint32_t header_crc = 0;  // of the header
};

// One thread at a time. Until Finish succeeds nothing is visible under the final name; a writer
// that fails or is destroyed removes its temporary file. After any error of any call the shard is
// gone, and later calls return the same error. After Finish has succeeded every call is kInternal.
class ShardWriter {
 public:
  // Begins a shard that becomes `directory`/`file`, a plain name. `header` gives the identity and
  // shape fields; the writer fills in magic, version, offsets and CRCs. `temp_dir` and `directory`
  // must be there, and on one file system. `env` must outlive the writer. kInternal: the header
  // breaks the format or `file` is no plain name, which is a bug of the caller. Codes of
  // Env::OpenWritable.
  static Result<std::unique_ptr<ShardWriter>> Create(Env& env, const std::string& temp_dir,
                                                     const std::string& directory,
                                                     const std::string& file,
                                                     const ShardHeader& header);
  ~ShardWriter();

  // Begins a section at the next multiple of kSectionAlignment. A (kind, kv_head, level) may occur
  // once, and must be one of the format; else kInternal. kLimitExceeded: more than kMaxSections.
  // kNoSpace, kIoError.
  Status BeginSection(SectionKind kind, uint32_t kv_head = 0, uint32_t level = 0);
  // Appends to the section that was begun last. `data` may be nullptr where `bytes` is 0.
  // kInternal: none was begun. kNoSpace, kIoError.
  Status Append(const void* data, size_t bytes);
  // Writes a whole section in one call. Codes of BeginSection and Append.
  Status AddSection(SectionKind kind, uint32_t kv_head, uint32_t level, const void* data,
                    size_t bytes);
  // Writes tables and footer, syncs, renames (which replaces a file of this name), and syncs the
  // directory. If only that last step fails, it removes the file again; if that fails too, the file
  // stays, perhaps not durable. Does not check that the sections are there that readers need.
  // kNoSpace, kIoError, kReadOnly. A failed fsync is never retried, because the system may have
  // dropped the data: the file is discarded.
  Result<ShardSummary> Finish();

 private:
  struct Impl;
  explicit ShardWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lectern

#endif  // LECTERN_STORE_SHARD_WRITER_H_
