#include "engine/model/formats/tensor_files.h"

#include <algorithm>
#include <cstring>

#include "engine/model/formats/safetensors.h"

namespace lectern {
namespace {

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

std::string Join(const std::string& folder, std::string_view name) {
  return folder + "/" + std::string(name);
}

// The types of safetensors that we compute with; nothing: another one.
std::optional<TensorType> TypeOf(std::string_view dtype) {
  for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kBf16}) {
    if (dtype == TensorTypeName(type)) return type;
  }
  return std::nullopt;
}

// Loads the header of a file, so that ParseSafetensors can read it; the data stays on disk. A
// length that is too large is cut here and refused there.
Status LoadHeader(const MappedFile& map) {
  uint64_t length = 0;
  LECTERN_RETURN_IF_ERROR(map.Load(0, std::min<uint64_t>(sizeof length, map.size())));
  if (map.size() >= sizeof length) std::memcpy(&length, map.data(), sizeof length);
  length = sizeof length + std::min(length, kMaxSafetensorsHeader);
  return map.Load(0, std::min(length, map.size()));
}

// Opens a file and adds its tensors. kMalformedModel: a tensor is in two files.
Status AddFile(Env& env, const std::string& path, Io io, TensorFiles* all) {
  LECTERN_ASSIGN(TensorFiles::File file, OpenModelFile(env, path, io));
  LECTERN_RETURN_IF_ERROR(LoadHeader(*file.map));
  LECTERN_ASSIGN(const SafetensorsTable table,
                 ParseSafetensors({file.map->data(), file.map->size()}, path));
  const size_t index = all->files.size();
  for (const auto& [name, entry] : table) {
    const auto [at, is_new] = all->tensors.try_emplace(
        name, TensorFiles::Tensor{TypeOf(entry.dtype), entry.dtype, entry.shape, entry.begin,
                                  entry.end, index});
    if (is_new) continue;
    return Status(Code::kMalformedModel, path + ": tensor " + QuotedName(name) + " is also in " +
                                             all->files[at->second.file].path);
  }
  all->files.push_back(std::move(file));
  return Status();
}

// Checks that the index and the headers of the files name the same tensors in the same files.
Status CompareWithIndex(const SafetensorsIndex& index, const std::string& folder,
                        const TensorFiles& all) {
  for (const auto& [name, file] : index) {
    const auto at = all.tensors.find(name);
    if (at != all.tensors.end() && all.files[at->second.file].path == Join(folder, file)) {
      continue;
    }
    return Status(Code::kMalformedModel, Join(folder, file) + ": tensor " + QuotedName(name) +
                                             " is not in it, but the index says so");
  }
  for (const auto& [name, tensor] : all.tensors) {
    if (index.contains(name)) continue;
    return Status(Code::kMalformedModel, all.files[tensor.file].path + ": tensor " +
                                             QuotedName(name) + " is not in the index");
  }
  return Status();
}

// Opens the files that the index names, each once, and checks that they hold the tensors which the
// index places in them.
Status AddIndexed(Env& env, const std::string& folder, Io io, TensorFiles* all) {
  const std::string index_path = Join(folder, kIndexFile);
  LECTERN_ASSIGN(const auto map, env.Mirror(env.Resolve(index_path)));
  // One byte more than the parser takes: a larger file is not read, and refused there.
  LECTERN_RETURN_IF_ERROR(map->Load(0, std::min(map->size(), kMaxSafetensorsIndex + 1)));
  LECTERN_ASSIGN(const SafetensorsIndex index,
                 ParseSafetensorsIndex({reinterpret_cast<const char*>(map->data()),
                                        std::min(map->size(), kMaxSafetensorsIndex + 1)},
                                       index_path));
  std::vector<std::string> names;
  for (const auto& [tensor, file] : index) names.push_back(file);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const std::string& name : names) {
    const std::string path = Join(folder, name);
    LECTERN_ASSIGN(const bool exists, env.Exists(env.Resolve(path)));
    if (!exists) {
      return Status(Code::kNotFound, path + " is missing, which " + std::string(kIndexFile) +
                                         " names; download it, too")
          .WithParam("model");
    }
    LECTERN_RETURN_IF_ERROR(AddFile(env, path, io, all));
  }
  return CompareWithIndex(index, folder, *all);
}

// The error for a folder without safetensors; it tells users of pickle files how to convert them.
Status NoWeights(Env& env, const std::string& folder) {
  LECTERN_ASSIGN(const std::vector<std::string> names, env.List(folder));
  for (const std::string& name : names) {
    if (IsPickleName(name)) return UnsafeFormat(Join(folder, name));
  }
  return Status(Code::kNotFound, folder + ": no " + std::string(kSingleFile) + " and no " +
                                     std::string(kIndexFile) + "; download the whole folder")
      .WithParam("model");
}

}  // namespace

std::string TensorFiles::Shown(std::string_view name) const {
  return QuotedName(own_name ? own_name(name) : std::string(name));
}

bool TensorFiles::HasBlocks() const {
  return std::any_of(tensors.begin(), tensors.end(), [](const auto& named) {
    return named.second.type && !PlainDtype(*named.second.type);
  });
}

Result<TensorFiles::File> OpenModelFile(Env& env, const std::string& path, Io io) {
  TensorFiles::File file;
  file.path = path;
  file.resolved = env.Resolve(path);
  LECTERN_ASSIGN(file.info, env.Info(file.resolved));
  LECTERN_ASSIGN(file.map, io == Io::kMmap ? env.Map(file.resolved) : env.Mirror(file.resolved));
  return file;
}

// As transformers does, the single file is taken where there are both.
Result<TensorFiles> OpenSafetensors(Env& env, const std::string& folder, Io io) {
  TensorFiles all;
  LECTERN_ASSIGN(const bool is_single, env.Exists(Join(folder, kSingleFile)));
  if (is_single) {
    LECTERN_RETURN_IF_ERROR(AddFile(env, Join(folder, kSingleFile), io, &all));
    return all;
  }
  LECTERN_ASSIGN(const bool is_indexed, env.Exists(Join(folder, kIndexFile)));
  if (!is_indexed) return NoWeights(env, folder);
  LECTERN_RETURN_IF_ERROR(AddIndexed(env, folder, io, &all));
  return all;
}

}  // namespace lectern
