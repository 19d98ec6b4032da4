#include "engine/model/weights/large_page_copy.h"

#include <system_error>

#include "kernels/process_limits.h"

namespace lectern {

LargePageCopy::~LargePageCopy() {
  ends_ = true;
  if (thread_.joinable()) thread_.join();
}

void LargePageCopy::CountPass() {
  // Only the pass that reaches the number starts the thread.
  if (num_passes_.load(std::memory_order_relaxed) >= kPassesBeforeCopy) return;
  if (num_passes_.fetch_add(1, std::memory_order_relaxed) + 1 != kPassesBeforeCopy) return;
  uint64_t bytes = 0;
  for (const Part& part : files_) bytes += part.bytes;
  if (bytes > AvailableMemoryBytes().value_or(0) / 4) return;
  try {
    thread_ = std::thread([this] {
      for (const Part& part : files_) {
        if (part.file->CopyToLargePages(part.bytes, &ends_)) is_made_ = true;
      }
    });
  } catch (const std::system_error&) {
    // No thread is to be had: the files stay mapped.
  }
}

}  // namespace lectern
