#include "tools/batch/scratch_folder.h"

#include <filesystem>
#include <string_view>

namespace lectern::batch {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder(const std::string& parent, const std::string& worker) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";
  std::string name = "lectern-batch-" + worker;
  for (char& c : name) {
    if (kPlain.find(c) == std::string_view::npos) c = '_';
  }
  path_ = (fs::path(parent) / name).string();
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (is_made_ && !is_kept_) fs::remove_all(path_, ignored);
}

api::Result<api::Done> ScratchFolder::Make() {
  std::error_code error;
  fs::create_directories(path_, error);
  is_made_ = !error;
  if (!error) fs::permissions(path_, fs::perms::owner_all, error);
  if (!error) return api::Done();
  return api::Error{LECTERN_IO_ERROR, "\"" + path_ + "\": " + error.message(), "scratch"};
}

}  // namespace lectern::batch
