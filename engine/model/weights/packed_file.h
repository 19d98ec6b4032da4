// The file that keeps a model's packed matrices: its layout, and a check of its bytes that can
// begin before the model is known that they belong to. PackedWeights writes it, Model::Load begins
// the check.
//
//   <store>/weights/<32 hex digits of the fingerprint>.packed, 0600, replaced by rename:
//   header | entries, one a matrix | zeros up to a multiple of 64 | matrices, each at such a place
//
// An entry has place, shape, type and CRC-32C of a matrix.
#ifndef LECTERN_ENGINE_MODEL_WEIGHTS_PACKED_FILE_H_
#define LECTERN_ENGINE_MODEL_WEIGHTS_PACKED_FILE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/thread_pool.h"
#include "store/cancel_flag.h"
#include "store/catalog.h"
#include "store/env.h"

namespace lectern {

// The file's structs, as bytes on disk. They have no padding, as the assertions check.
struct PackedHeader {
  char magic[8] = {'L', 'E', 'C', 'T', 'P', 'A', 'K', '2'};  // the digit is the version
  Fingerprint fingerprint{};
  uint64_t num_matrices = 0;
};
static_assert(sizeof(PackedHeader) == 48);

struct PackedEntry {
  uint64_t offset, bytes;  // of the file
  uint64_t num_rows, num_cols;
  uint32_t type;  // PackedType
  uint32_t crc;   // of the bytes
};
static_assert(sizeof(PackedEntry) == 40);

// The file's head: where everything is.
struct PackedLayout {
  PackedHeader header;
  std::vector<PackedEntry> entries;
  uint64_t file_bytes = 0;

  size_t entries_bytes() const { return entries.size() * sizeof(PackedEntry); }
};

// An open file of packed weights and the check of its bytes against its own checksums. Open, Begin,
// Finish and Take are for one thread.
class PackedFile {
 public:
  // Opens the file and reads its head. nullptr: it cannot be opened or read, or its head is not one
  // of this version whose matrices lie in the file one behind the other. `cancel` is polled by the
  // check.
  static std::unique_ptr<PackedFile> Open(Env& env, const std::string& path, Io io,
                                          const CancelFlag* cancel);
  // Stops a check that was begun and waits for the piece of 4 MiB that it is at.
  ~PackedFile();

  // Begins the check on a thread of its own, in the order of the file. To be called once at most.
  // Where the system has no thread to give, Finish checks all.
  void Begin();
  // Whether every matrix has the bytes that its checksum is of. Does, on the caller's threads, what
  // the check has not come to. False also after a cancellation or an error of reading.
  bool Finish(ThreadPool* threads);

  const std::string& path() const { return path_; }
  const PackedLayout& layout() const { return layout_; }  // as the file says
  // The file itself; no other call afterwards. After Finish.
  std::unique_ptr<MappedFile> Take() { return std::move(file_); }

 private:
  struct Piece {
    size_t entry;
    uint64_t begin, bytes;
    uint32_t crc = 0;
  };
  // Checks pieces until none is left, one has failed, or stop_ is set. Any number of threads at
  // once.
  void CheckPieces();

  std::string path_;
  std::unique_ptr<MappedFile> file_;
  PackedLayout layout_;
  const CancelFlag* cancel_ = nullptr;
  std::vector<Piece> pieces_;
  std::atomic<size_t> next_ = 0;  // of pieces_; those before it are checked or being checked
  std::atomic<bool> failed_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_WEIGHTS_PACKED_FILE_H_
