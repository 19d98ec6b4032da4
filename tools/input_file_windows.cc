// By the store's file calls, which take paths of any length and in Unicode; stdin by the C library.
#include <cstdio>
#include <cstring>

#include "store/env.h"
#include "tools/input_file.h"

namespace lectern::tools {
namespace {

api::Error TooLarge(const std::string& name) {
  return {LECTERN_LIMIT_EXCEEDED, name + " is larger than 1 GiB; index it in parts", "file"};
}

api::Error Wrong(const Status& status) {
  return {static_cast<lectern_code>(status.code()), status.message(), "file"};
}

api::Result<std::string> ReadStdin() {
  constexpr size_t kPiece = size_t{1} << 20;
  std::string bytes;
  for (;;) {
    const size_t filled = bytes.size();
    bytes.resize(filled + kPiece);
    const size_t count = std::fread(bytes.data() + filled, 1, kPiece, stdin);
    bytes.resize(filled + count);
    if (bytes.size() > kMaxInputBytes) return TooLarge("stdin");
    if (count > 0) continue;
    if (std::ferror(stdin) == 0) return bytes;
    return api::Error{LECTERN_IO_ERROR, "read stdin failed", "file"};
  }
}

api::Result<std::string> ReadNamed(const std::string& path) {
  const std::string name = "\"" + path + "\"";
  Env& env = Env::Default();
  const std::string real = env.Resolve(path);
  const auto info = env.Info(real);
  if (!info.ok()) return Wrong(info.status());
  switch (info->type) {
    case FileInfo::Type::kNone:
      return api::Error{LECTERN_NOT_FOUND, name + " is not there", "file"};
    case FileInfo::Type::kDirectory:
      return api::Error{LECTERN_INVALID_ARGUMENT, name + " is a directory; give a file", "file"};
    default:
      break;
  }
  if (info->bytes > kMaxInputBytes) return TooLarge(name);
  const auto file = OpenWhole(env, real, Io::kPread);
  if (!file.ok()) return Wrong(file.status());
  return std::string(reinterpret_cast<const char*>((*file)->data()), (*file)->size());
}

}  // namespace

api::Result<std::string> ReadInputFile(const std::string& path) {
  auto bytes = path == "-" ? ReadStdin() : ReadNamed(path);
  if (bytes.ok() && bytes->empty()) {
    const std::string name = path == "-" ? "stdin" : "\"" + path + "\"";
    return api::Error{LECTERN_EMPTY_DOCUMENT, name + " is empty", "file"};
  }
  return bytes;
}

}  // namespace lectern::tools
