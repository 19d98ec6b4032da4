// Remembers which catalogs this process has checked page by page. Internal to store/.
#ifndef LECTERN_STORE_CHECKED_FILES_H_
#define LECTERN_STORE_CHECKED_FILES_H_

#include <cstddef>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "store/env.h"

namespace lectern {

// The catalogs whose pages were checked last, and in which state of the file: a check reads all of
// it, which would make every question to a store of many documents slow. Thread-safe.
class CheckedFiles {
 public:
  // The process's; it is never destroyed, because threads may use it while the process exits.
  static CheckedFiles& Instance();
  // Whether the file at `path` was checked in this state.
  bool IsChecked(const std::string& path, const FileInfo& info);
  // Keeps a file that was checked, unless it was changed in the last two seconds: it may change
  // again within one tick of the file system's clock. The 16 files that came last stay.
  void Add(const std::string& path, const FileInfo& info);

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::string, FileInfo>> files_;
};

}  // namespace lectern

#endif  // LECTERN_STORE_CHECKED_FILES_H_
