#include <filesystem>

#include "engine/model/formats/path_text.h"
#include "tools/document_argument.h"

namespace lectern::tools {

std::string RealPath(const std::string& path) {
  const std::string absolute = AbsolutePath(path);
  std::error_code error;
  const std::filesystem::path real = std::filesystem::weakly_canonical(PathOf(absolute), error);
  return error ? absolute : TextOf(real);
}

}  // namespace lectern::tools
