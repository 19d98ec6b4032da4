#include "engine/model/model_source.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "engine/model/formats/safetensors.h"
#include "engine/model/gguf_model.h"
#include "engine/model/weights/architecture.h"
#include "engine/model/weights/expert_tensors.h"
#include "engine/model/weights/weights.h"

namespace lectern {
namespace {

// The param is the option that the user has to change.
Status NotFound(const std::string& message) {
  return Status(Code::kNotFound, message).WithParam("model");
}

constexpr uint64_t kMaxGenerationConfig = uint64_t{1} << 20;  // bytes; the rest is cut off

// Returns the name that a tensor of a language model has when the model is saved alone. Another
// model that wraps it puts a prefix before the name, and a model that was saved without its head
// (`is_body`) leaves one out.
std::string ModelName(std::string_view name, bool is_body) {
  constexpr std::pair<std::string_view, std::string_view> kPrefixes[] = {
      {"language_model.model.", "model."},
      {"language_model.lm_head.", "lm_head."},
      {"model.language_model.lm_head.", "lm_head."},
      {"model.language_model.", "model."}};
  for (const auto& [from, to] : kPrefixes) {
    if (name.starts_with(from)) return std::string(to) + std::string(name.substr(from.size()));
  }
  constexpr std::string_view kBody[] = {"embed_tokens.", "layers.", "norm."};
  const bool is_of_body =
      is_body && std::ranges::any_of(kBody, [&](auto begin) { return name.starts_with(begin); });
  return (is_of_body ? "model." : "") + std::string(name);
}

// Renames all tensors by ModelName and by the architecture's own table. TensorFiles::own_name leads
// back, so that messages have the names that stand in the files. A name that is taken stays as it
// is.
void UseModelNames(TensorFiles& files, const Architecture& architecture) {
  const bool is_body = files.tensors.contains("embed_tokens.weight");
  const auto own_names = std::make_shared<std::map<std::string, std::string, std::less<>>>();
  std::map<std::string, TensorFiles::Tensor, std::less<>> named;
  for (auto& [name, tensor] : files.tensors) {
    std::string other = ModelName(name, is_body);
    if (other != name && (files.tensors.contains(other) || named.contains(other))) other = name;
    // One architecture may have a name for another norm than the rest, so all are replaced at once.
    std::string ours = TensorNameOf(other, architecture);
    if (!named.contains(ours)) other = std::move(ours);
    if (other != name) own_names->emplace(other, name);
    named.emplace(std::move(other), std::move(tensor));
  }
  files.tensors = std::move(named);
  if (own_names->empty()) return;
  files.own_name = [own_names](std::string_view name) {
    const auto at = own_names->find(name);
    return at == own_names->end() ? std::string(name) : at->second;
  };
}

// A folder as transformers saves it: config.json, tokenizer.model or tokenizer.json, safetensors.
class FolderSource : public ModelSource {
 public:
  FolderSource(Env& env, std::string folder, Io io)
      : env_(env), folder_(std::move(folder)), io_(io) {}

  // To be called first: all else needs the configuration.
  Status ReadConfigFile() {
    const std::string path = folder_ + "/config.json";
    LECTERN_ASSIGN(const auto file, OpenWhole(env_, env_.Resolve(path), Io::kPread));
    LECTERN_ASSIGN(config_, ParseConfig({reinterpret_cast<const char*>(file->data()),
                                         static_cast<size_t>(file->size())},
                                        path));
    return ReadGenerationConfig();
  }
  // Adds the ends of answers that generation_config.json names beside config.json's. That file
  // tells how the model is used and not what it is: where it cannot be read it is left out, and an
  // assumption says so.
  Status ReadGenerationConfig() {
    const std::string path = folder_ + "/generation_config.json";
    LECTERN_ASSIGN(const bool exists, env_.Exists(path));
    if (!exists) return {};
    LECTERN_ASSIGN(const auto file, OpenWhole(env_, env_.Resolve(path), Io::kPread));
    const std::string_view text(reinterpret_cast<const char*>(file->data()),
                                static_cast<size_t>(std::min(file->size(), kMaxGenerationConfig)));
    const auto ends = ParseGenerationEnds(text, config_.vocab_size);
    if (!ends.ok()) {
      config_.assumptions.push_back(path + " is left out: " + ends.status().message());
      return {};
    }
    for (const int32_t id : *ends) {
      if (!std::ranges::count(config_.eos_ids, id)) config_.eos_ids.push_back(id);
    }
    return {};
  }
  const ModelConfig& config() const override { return config_; }
  Result<std::unique_ptr<Tokenizer>> MakeTokenizer() const override {
    // Where there are both, the first says which algorithm it is for, the other is a copy.
    LECTERN_ASSIGN(const bool has_piece_model, env_.Exists(folder_ + "/tokenizer.model"));
    LECTERN_ASSIGN(const bool has_json, env_.Exists(folder_ + "/tokenizer.json"));
    if (!has_json && !has_piece_model) {
      return NotFound(folder_ +
                      ": no tokenizer.model and no tokenizer.json; download the whole folder");
    }
    const bool is_json = has_json && !has_piece_model;
    return Tokenizer::Load(env_, folder_ + (is_json ? "/tokenizer.json" : "/tokenizer.model"));
  }
  Result<ChatSource> FindChatTemplate() const override {
    LECTERN_ASSIGN(std::optional<std::string> jinja, Read("/chat_template.jinja"));
    LECTERN_ASSIGN(const std::optional<std::string> config, Read("/tokenizer_config.json"));
    if (!jinja && config) {
      LECTERN_ASSIGN(jinja, ChatTemplateOf(*config, folder_ + "/tokenizer_config.json"));
    }
    ChatSource source{.name = std::string(kOwnTemplate), .jinja = std::move(jinja).value_or("")};
    if (config) {
      source.bos = TokenTextOf(*config, "bos_token");
      source.eos = TokenTextOf(*config, "eos_token");
    }
    return source;
  }

 private:
  // Reads the text of a file of the folder; none: it is not there.
  Result<std::optional<std::string>> Read(const char* file) const {
    const std::string path = folder_ + file;
    LECTERN_ASSIGN(const bool exists, env_.Exists(path));
    if (!exists) return std::optional<std::string>();
    LECTERN_ASSIGN(const auto map, OpenWhole(env_, env_.Resolve(path), Io::kPread));
    return std::optional(std::string(reinterpret_cast<const char*>(map->data()), map->size()));
  }

  Result<TensorFiles> OpenTensors() override {
    LECTERN_ASSIGN(TensorFiles files, OpenSafetensors(env_, folder_, io_));
    UseModelNames(files, *FindArchitecture(config_.architecture));
    return files;
  }

  Env& env_;
  const std::string folder_;
  const Io io_;
  ModelConfig config_;
};

// Reads the first bytes of a file, at most `most`.
Result<std::string> BeginOf(Env& env, const std::string& path, uint64_t most) {
  LECTERN_ASSIGN(const auto file, env.Mirror(path));
  std::string bytes(static_cast<size_t>(std::min(file->size(), most)), '\0');
  if (!bytes.empty()) LECTERN_RETURN_IF_ERROR(file->ReadAt(0, bytes.data(), bytes.size()));
  return bytes;
}

// The error for a path with nothing that looks like a model.
Status NoModel(const std::string& path) {
  return NotFound("no model at " + path +
                  "; give the path of a folder with config.json, model.safetensors and "
                  "tokenizer.model or tokenizer.json, or of a .gguf file");
}

constexpr std::string_view kGguf = ".gguf";

// The error for a file that does not begin like GGUF. It names the kind of file by the first bytes,
// because names say nothing: Ollama's blobs have none.
Status NoGguf(const std::string& path, std::string_view begin) {
  if (begin.starts_with("version https://git-lfs.github.com/")) {
    return NotFound(path + " is a note of Git LFS in the place of the file; \"git lfs pull\" "
                           "brings it");
  }
  if (IsPickleName(path)) return UnsafeFormat(path);
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
  if (path.ends_with(".safetensors") || path.ends_with(".json")) {
    return NotFound(path + " is one file of a model; give its folder: " + folder);
  }
  if (path.ends_with(kGguf)) {
    return Status(Code::kMalformedModel,
                  path + ": no GGUF file, though it is called one; download it again");
  }
  return NoModel(path);
}

// Finds the models in a folder that are GGUF files, each by its first part. An "mmproj" file, with
// which a model sees or hears, counts as a model only where there is nothing else.
Result<std::set<std::string>> GgufModelsIn(Env& env, const std::string& folder) {
  std::set<std::string> models, others;
  LECTERN_ASSIGN(const std::vector<std::string> names, env.List(folder));
  for (const std::string& name : names) {
    if (!name.ends_with(kGguf)) continue;
    const bool is_other = name.find("mmproj") != std::string::npos;
    (is_other ? others : models).insert(GgufParts(folder + "/" + name)[0]);
  }
  return models.empty() ? others : models;
}

// Opens a GGUF model after checking that all its parts are there.
Result<std::unique_ptr<ModelSource>> OpenParts(Env& env, const std::string& path, Io io) {
  const std::vector<std::string> parts = GgufParts(path);
  for (size_t i = 0; i < parts.size(); ++i) {
    LECTERN_ASSIGN(const bool exists, env.Exists(env.Resolve(parts[i])));
    if (exists) continue;
    return NotFound("part " + std::to_string(i + 1) + " of " + std::to_string(parts.size()) +
                    " is missing: " + parts[i] + "; download it, too");
  }
  return OpenGgufModel(env, parts, io);
}

// Opens the only GGUF model of a folder; kAmbiguous lists them where there are several.
Result<std::unique_ptr<ModelSource>> OpenGgufIn(Env& env, const std::string& folder,
                                                const std::set<std::string>& models, Io io) {
  if (models.size() == 1) return OpenParts(env, *models.begin(), io);
  std::string list;
  for (const std::string& model : models) list += (list.empty() ? "" : ", ") + model;
  return Status(Code::kAmbiguous, folder + " holds several models; give one of " + list)
      .WithParam("model");
}

// The error for a folder that has neither config.json nor GGUF files: it says what the folder
// holds instead, and the way out.
Status NoModelIn(Env& env, const std::string& folder) {
  LECTERN_ASSIGN(const bool is_adapter, env.Exists(folder + "/adapter_config.json"));
  if (is_adapter) {
    return Status(Code::kUnsupportedModel,
                  folder +
                      " holds an adapter (LoRA), which changes a model and is none. Merge it into "
                      "its model: in Python, peft's AutoPeftModelForCausalLM.from_pretrained(old)"
                      ".merge_and_unload().save_pretrained(new)");
  }
  LECTERN_ASSIGN(const std::vector<std::string> names, env.List(folder));
  for (const std::string& name : names) {
    if (IsPickleName(name)) return UnsafeFormat(folder + "/" + name);
  }
  for (const std::string& name : names) {
    if (!name.ends_with(".safetensors")) continue;
    return NotFound(folder + " holds " + name +
                    " but no config.json, which says what the model is; download the whole folder");
  }
  return NoModel(folder);
}

// Whether the folder itself, not one below it, has a .safetensors file.
Result<bool> HasSafetensors(Env& env, const std::string& folder) {
  LECTERN_ASSIGN(const std::vector<std::string> names, env.List(folder));
  return std::ranges::any_of(names,
                             [](const auto& name) { return name.ends_with(".safetensors"); });
}

}  // namespace

Result<TensorFiles*> ModelSource::Tensors() {
  if (!tensors_) {
    LECTERN_ASSIGN(TensorFiles files, OpenTensors());
    LECTERN_RETURN_IF_ERROR(SplitExperts(config(), &files));
    LECTERN_ASSIGN(skipped_, Weights::DropUnneeded(files, config()));
    tensors_ = std::move(files);
  }
  return &*tensors_;
}

std::vector<std::string> ModelSource::assumptions() const {
  // Names in the message: a model of images and text may skip hundreds of tensors.
  constexpr size_t kShown = 3;
  std::vector<std::string> all = config().assumptions;
  if (skipped_.empty()) return all;
  const size_t count = skipped_.size();
  std::string text = count == 1 ? "skipped 1 tensor that a text model does not need: "
                                : "skipped " + std::to_string(count) +
                                      " tensors that a text model does not need: ";
  for (size_t i = 0; i < std::min(count, kShown); ++i) text += (i > 0 ? ", " : "") + skipped_[i];
  all.push_back(text + (count > kShown ? ", …" : ""));
  return all;
}

Result<std::unique_ptr<ModelSource>> OpenModelSource(Env& env, const std::string& path, Io io) {
  const std::string resolved = env.Resolve(path);
  LECTERN_ASSIGN(const FileInfo info, env.Info(resolved));
  if (info.type == FileInfo::Type::kRegular) {
    // 64 bytes hold GGUF's magic number and the first line of a Git LFS note.
    LECTERN_ASSIGN(const std::string begin, BeginOf(env, resolved, 64));
    if (begin.starts_with("GGUF")) return OpenParts(env, path, io);
    return NoGguf(path, begin);
  }
  if (info.type != FileInfo::Type::kDirectory) return NoModel(path);

  LECTERN_ASSIGN(const bool has_config, env.Exists(path + "/config.json"));
  LECTERN_ASSIGN(const bool has_safetensors, HasSafetensors(env, path));
  // A folder of GGUF files often also has the config.json of the model that they were made from.
  if (!has_config || !has_safetensors) {
    LECTERN_ASSIGN(const auto models, GgufModelsIn(env, path));
    if (!models.empty()) return OpenGgufIn(env, path, models, io);
  }
  if (!has_config) return NoModelIn(env, path);
  auto source = std::make_unique<FolderSource>(env, path, io);
  LECTERN_RETURN_IF_ERROR(source->ReadConfigFile());
  return std::unique_ptr<ModelSource>(std::move(source));
}

}  // namespace lectern
