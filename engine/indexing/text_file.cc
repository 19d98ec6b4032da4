#include "engine/indexing/text_file.h"

#include "engine/indexing/index_context.h"

namespace lectern {

// Checks the file before it reads it, so that folders, devices and files of more than 1 GiB have
// messages of their own.
Result<TextFile> ReadTextFile(Env& env, const std::string& path) {
  const auto wrong = [&](Code code, const char* what) {
    return Status(code, "\"" + path + "\" " + what).WithParam("path");
  };
  TextFile file;
  file.source = env.Resolve(path);
  const auto found = env.Info(file.source);
  if (!found.ok()) return Status(found.status()).WithParam("path");
  const FileInfo& info = *found;
  if (info.type == FileInfo::Type::kNone) return wrong(Code::kNotFound, "is not there");
  if (info.type == FileInfo::Type::kDirectory) {
    return wrong(Code::kInvalidArgument, "is a folder; give a file");
  }
  if (info.type == FileInfo::Type::kOther) {
    return wrong(Code::kInvalidArgument, "is no regular file; read it and give its text");
  }
  if (info.bytes == 0) return wrong(Code::kEmptyDocument, "is empty");
  if (info.bytes > kMaxDocumentBytes) {
    return wrong(Code::kLimitExceeded, "is larger than 1 GiB; split it");
  }
  auto whole = OpenWhole(env, file.source, Io::kPread);
  if (!whole.ok()) return std::move(whole).status().WithParam("path");
  file.bytes.assign(reinterpret_cast<const char*>((*whole)->data()), (*whole)->size());
  // A PDF would be indexed as garbage, and its user would learn that only from the answers.
  if (file.bytes.starts_with("%PDF-")) {
    return wrong(Code::kInvalidArgument, "is a PDF, not text; give the text that is in it");
  }
  return file;
}

}  // namespace lectern
