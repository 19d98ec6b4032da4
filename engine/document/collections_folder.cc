#include "engine/document/collections_folder.h"

#include <algorithm>

#include "engine/model/formats/text.h"

namespace lectern {
namespace {

constexpr size_t kMaxCollectionName = 80;  // bytes; three times as many in a file's name
constexpr std::string_view kSuffix = ".db";

std::string FolderOf(const std::string& store) { return store + "/collections"; }

// The name with every byte but small letters, digits, "-" and "_" as "%41".
std::string FileNameOf(std::string_view name) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string file;
  for (const char c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (is_plain) {
      file += c;
    } else {
      file += '%';
      file += kDigits[static_cast<uint8_t>(c) >> 4];
      file += kDigits[static_cast<uint8_t>(c) & 15];
    }
  }
  return file;
}

}  // namespace

Status CheckCollectionName(std::string_view name) {
  const auto wrong = [&](const std::string& why) {
    return Status(Code::kInvalidArgument, "the collection's name " + why).WithParam("collection");
  };
  if (name.empty()) return wrong("is empty");
  if (name.size() > kMaxCollectionName) {
    return wrong("is longer than " + std::to_string(kMaxCollectionName) + " bytes");
  }
  if (!IsValidUtf8(name)) return wrong("is not valid UTF-8");
  const auto is_control = [](char c) { return static_cast<uint8_t>(c) < 32 || c == 127; };
  if (std::ranges::any_of(name, is_control)) return wrong("has control characters");
  return {};
}

Result<std::vector<std::string>> CollectionFiles(Env& env, const std::string& store) {
  std::vector<std::string> paths;
  const std::string folder = FolderOf(store);
  LECTERN_ASSIGN(const bool exists, env.Exists(folder));
  if (!exists) return paths;
  LECTERN_ASSIGN(const std::vector<std::string> files, env.List(folder));
  for (const std::string& file : files) {
    if (file.ends_with(kSuffix)) paths.push_back(folder + "/" + file);
  }
  return paths;
}

Result<std::string> NewCollectionPath(Env& env, const std::string& store, std::string_view name) {
  LECTERN_RETURN_IF_ERROR(env.MakeDirectory(FolderOf(store)));
  // A collection that was renamed keeps its file, so that another one may need its name.
  for (size_t number = 1;; ++number) {
    const std::string path = FolderOf(store) + "/" + FileNameOf(name) +
                             (number > 1 ? "." + std::to_string(number) : "") +
                             std::string(kSuffix);
    LECTERN_ASSIGN(const bool exists, env.Exists(path));
    if (!exists) return path;
  }
}

Result<std::string> FindCollection(Env& env, const std::string& store, std::string_view name) {
  LECTERN_ASSIGN(std::vector<std::string> paths, CollectionFiles(env, store));
  // Most collections lie where their names say.
  const std::string likely = FolderOf(store) + "/" + FileNameOf(name) + std::string(kSuffix);
  std::stable_partition(paths.begin(), paths.end(),
                        [&](const std::string& path) { return path == likely; });
  std::string damaged;
  for (const std::string& path : paths) {
    auto collection = Collection::Open(env, path, "", Collection::Mode::kReadOnly);
    const bool is_likely = path == likely;
    if (!collection.ok()) {
      if (is_likely) damaged = path;
      continue;
    }
    const auto own = (*collection)->name();
    if (own.ok() && *own == name) return path;
    if (!own.ok() && is_likely) damaged = path;
  }
  return damaged;
}

Status RemoveCollectionFile(Env& env, const std::string& path) {
  LECTERN_RETURN_IF_ERROR(env.Remove(path));
  for (const char* suffix : {"-journal", "-wal", "-shm"}) {
    LECTERN_ASSIGN(const bool exists, env.Exists(path + suffix));
    if (exists) LECTERN_RETURN_IF_ERROR(env.Remove(path + suffix));
  }
  return env.SyncDirectory(ParentDirectory(path));
}

}  // namespace lectern
