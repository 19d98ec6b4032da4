// Writes one shard: temp file, sections in order, fsync, rename, fsync of the directory.
#ifndef LECTERN_STORE_SHARD_WRITER_H_
#define LECTERN_STORE_SHARD_WRITER_H_

#include <memory>
#include <string>
#include <vector>

#include "store/env.h"
#include "store/shard_format.h"
#include "store/status.h"

namespace lectern {

// What Finish committed; goes into the catalog.
struct ShardSummary {
  std::string file;    // plain name, "layer-003.shard"
  uint64_t bytes = 0;  // of the file
  uint32_t table_crc = 0;
  uint32_t header_crc = 0;
};

// One thread at a time. Until Finish succeeds nothing is visible under the final name; a writer
// that is destroyed or failed removes its temp file.
class ShardWriter {
 public:
  // `header`: the identity and shape fields; the writer fills magic, version, offsets and CRCs.
  // `temp_dir` and `directory` are on one file system.
  static Result<std::unique_ptr<ShardWriter>> Create(Env& env, const std::string& temp_dir,
                                                     const std::string& directory,
                                                     const std::string& file,
                                                     const ShardHeader& header);
  ~ShardWriter();

  // Begins a section at the next aligned offset; a (kind, kv_head, level) may come once.
  Status BeginSection(SectionKind kind, uint32_t kv_head = 0, uint32_t level = 0);
  // Appends to the section begun last.
  Status Append(const void* data, size_t bytes);
  // A whole section in one call.
  Status AddSection(SectionKind kind, uint32_t kv_head, uint32_t level, const void* data,
                    size_t bytes);
  // Writes tables and footer, fsyncs, renames, fsyncs the directory. kNoSpace, kIoError, kReadOnly.
  // A failed fsync is never retried: the file is thrown away.
  Result<ShardSummary> Finish();

 private:
  struct Impl;
  explicit ShardWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lectern

#endif  // LECTERN_STORE_SHARD_WRITER_H_
