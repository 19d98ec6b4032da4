#include "store/env.h"

namespace lectern {

Result<std::unique_ptr<MappedFile>> OpenWhole(Env& env, const std::string& path, Io io) {
  if (io == Io::kMmap) return env.Map(path);
  LECTERN_ASSIGN(auto file, env.Mirror(path));
  LECTERN_RETURN_IF_ERROR(file->Load(0, file->size()));
  return file;
}

}  // namespace lectern
