#include "store/checked_files.h"

#include <algorithm>
#include <chrono>

namespace lectern {
namespace {

constexpr size_t kMostCheckedFiles = 16;
constexpr std::chrono::nanoseconds kSettled = std::chrono::seconds(2);

}  // namespace

CheckedFiles& CheckedFiles::Instance() {
  static CheckedFiles* const files = new CheckedFiles;
  return *files;
}

bool CheckedFiles::IsChecked(const std::string& path, const FileInfo& info) {
  const std::lock_guard lock(mutex_);
  return std::ranges::find(files_, std::pair(path, info)) != files_.end();
}

void CheckedFiles::Add(const std::string& path, const FileInfo& info) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  if (now - std::chrono::nanoseconds(std::max(info.modified_ns, info.changed_ns)) < kSettled)
    return;
  const std::lock_guard lock(mutex_);
  std::erase_if(files_, [&](const auto& file) { return file.first == path; });
  files_.emplace_back(path, info);
  if (files_.size() > kMostCheckedFiles) files_.erase(files_.begin());
}

}  // namespace lectern
