// Copies files of weights into large pages once they are used for long. Every token reads all
// matrices, and the tables of small pages slow that down: with the released SmolLM2 (97 MB) a token
// takes about 0.7 times as long after the copy (tests/bench/RESULTS.md).
#ifndef LECTERN_ENGINE_MODEL_WEIGHTS_LARGE_PAGE_COPY_H_
#define LECTERN_ENGINE_MODEL_WEIGHTS_LARGE_PAGE_COPY_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "store/cancel_flag.h"
#include "store/env.h"

namespace lectern {

class LargePageCopy {
 public:
  LargePageCopy() = default;
  ~LargePageCopy();  // ends a copy that is being made
  LargePageCopy(const LargePageCopy&) = delete;
  LargePageCopy& operator=(const LargePageCopy&) = delete;

  // A file whose first `bytes` a pass reads. Experts, of which a pass reads a few, lie behind them
  // and stay mapped: copied, those that no token chooses would take memory for nothing.
  struct Part {
    const MappedFile* file;
    uint64_t bytes;
  };
  // The files that a pass reads, which outlive this; before the first pass.
  void SetFiles(std::vector<Part> files) { files_ = std::move(files); }

  // Counts a pass over the files. The kPassesBeforeCopy-th starts a thread that copies them
  // (MappedFile::CopyToLargePages), unless they exceed a quarter of the memory that is available:
  // larger copies would push other programs out. Thread-safe.
  void CountPass();
  // A copy takes as long as so many passes gain by it, about: 13 with the released SmolLM2, 32 with
  // Gemma 3 270M. Whoever makes fewer, such as a command for one short answer, needs none.
  static constexpr uint32_t kPassesBeforeCopy = 16;

  bool is_made() const { return is_made_; }  // of one file at least

 private:
  std::vector<Part> files_;
  std::atomic<uint32_t> num_passes_ = 0;
  std::atomic<bool> is_made_ = false;
  CancelFlag ends_ = false;
  std::thread thread_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_WEIGHTS_LARGE_PAGE_COPY_H_
