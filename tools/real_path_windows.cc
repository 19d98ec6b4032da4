// The store's Resolve asks Windows for the final path. std::filesystem of GCC 12 follows no links
// there, and keeps the case of letters that the user typed.
#include "store/env.h"
#include "tools/document_argument.h"

namespace lectern::tools {

std::string RealPath(const std::string& path) {
  const std::string absolute = AbsolutePath(path);
  Env& env = Env::Default();
  // The part that exists is resolved; the rest stays as it is.
  for (std::string existing = absolute;;) {
    const auto info = env.Info(env.Resolve(existing));
    if (info.ok() && info->type != FileInfo::Type::kNone) {
      const std::string real = env.Resolve(existing);
      const std::string rest = absolute.substr(existing.size());
      return real.ends_with('/') && rest.starts_with('/') ? real + rest.substr(1) : real + rest;
    }
    const std::string parent = ParentDirectory(existing);
    if (parent.size() >= existing.size() || !IsAbsolutePath(parent)) return absolute;
    existing = parent;
  }
}

}  // namespace lectern::tools
