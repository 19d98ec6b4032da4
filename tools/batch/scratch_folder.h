// The folder of a worker on its machine: a store of one document at a time, and bundles.
#ifndef LECTERN_TOOLS_BATCH_SCRATCH_FOLDER_H_
#define LECTERN_TOOLS_BATCH_SCRATCH_FOLDER_H_

#include <string>

#include "engine/lectern.h"

namespace lectern::batch {

// A folder of one worker, which is removed with this object unless Keep was called. One thread.
class ScratchFolder {
 public:
  // "PARENT/lectern-batch-WORKER", in which every character of the name but ASCII letters, digits,
  // "-" and "." is a "_": a worker of the same name has the same folder.
  ScratchFolder(const std::string& parent, const std::string& worker);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  // Makes it, for the user alone; what is in it stays. IO_ERROR (param "scratch").
  api::Result<api::Done> Make();
  void Keep() { is_kept_ = true; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool is_made_ = false, is_kept_ = false;
};

}  // namespace lectern::batch

#endif  // LECTERN_TOOLS_BATCH_SCRATCH_FOLDER_H_
