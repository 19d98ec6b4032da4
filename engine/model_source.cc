#include "engine/model_source.h"

#include <cstring>
#include <set>

#include "engine/gguf_model.h"

namespace lectern {
namespace {

// config.json, tokenizer.model or tokenizer.json, and safetensors, as transformers saves them.
class FolderSource : public ModelSource {
 public:
  FolderSource(Env& env, std::string folder, Io io)
      : env_(env), folder_(std::move(folder)), io_(io) {}

  Status ReadConfigFile() {
    const std::string path = folder_ + "/config.json";
    LECTERN_ASSIGN(const auto file, OpenWhole(env_, env_.Resolve(path), Io::kPread));
    LECTERN_ASSIGN(config_, ParseConfig({reinterpret_cast<const char*>(file->data()),
                                         static_cast<size_t>(file->size())},
                                        path));
    return {};
  }
  const ModelConfig& config() const override { return config_; }
  Result<std::unique_ptr<Tokenizer>> MakeTokenizer() const override {
    // Where there are both, the first says which algorithm it is for, the other is a copy.
    LECTERN_ASSIGN(const bool has_piece_model, env_.Exists(folder_ + "/tokenizer.model"));
    LECTERN_ASSIGN(const bool has_json, env_.Exists(folder_ + "/tokenizer.json"));
    const bool is_json = has_json && !has_piece_model;
    return Tokenizer::Load(env_, folder_ + (is_json ? "/tokenizer.json" : "/tokenizer.model"));
  }
  Result<std::optional<ChatSource>> FindChatTemplate() const override {
    LECTERN_ASSIGN(std::optional<std::string> jinja, Read("/chat_template.jinja"));
    LECTERN_ASSIGN(const std::optional<std::string> config, Read("/tokenizer_config.json"));
    if (!jinja && config) {
      LECTERN_ASSIGN(jinja, ChatTemplateOf(*config, folder_ + "/tokenizer_config.json"));
    }
    if (!jinja || jinja->empty()) return std::optional<ChatSource>();
    ChatSource source{.name = std::string(kOwnTemplate), .jinja = *std::move(jinja)};
    if (config) {
      source.bos = TokenTextOf(*config, "bos_token");
      source.eos = TokenTextOf(*config, "eos_token");
    }
    return std::optional(std::move(source));
  }

 private:
  // The text of a file of the folder; none: it is not there.
  Result<std::optional<std::string>> Read(const char* file) const {
    const std::string path = folder_ + file;
    LECTERN_ASSIGN(const bool exists, env_.Exists(path));
    if (!exists) return std::optional<std::string>();
    LECTERN_ASSIGN(const auto map, OpenWhole(env_, env_.Resolve(path), Io::kPread));
    return std::optional(std::string(reinterpret_cast<const char*>(map->data()), map->size()));
  }

  Result<TensorFiles> OpenTensors() override { return OpenSafetensors(env_, folder_, io_); }

  Env& env_;
  const std::string folder_;
  const Io io_;
  ModelConfig config_;
};

// Whether a file begins as GGUF does, whatever its name is: Ollama's blobs have none.
Result<bool> IsGguf(Env& env, const std::string& path) {
  LECTERN_ASSIGN(const auto file, env.Mirror(path));
  char magic[4] = {};
  if (file->size() >= sizeof magic) LECTERN_RETURN_IF_ERROR(file->ReadAt(0, magic, sizeof magic));
  return std::memcmp(magic, "GGUF", sizeof magic) == 0;
}

Status NoModel(const std::string& path) {
  return Status(Code::kNotFound,
                "no model at " + path +
                    "; give the path of a folder with config.json, model.safetensors and "
                    "tokenizer.model or tokenizer.json, or of a .gguf file")
      .WithParam("model");
}

// The models of a folder that are GGUF files: their first parts.
Result<std::set<std::string>> GgufModelsIn(Env& env, const std::string& folder) {
  std::set<std::string> models;
  LECTERN_ASSIGN(const std::vector<std::string> names, env.List(folder));
  for (const std::string& name : names) {
    if (name.ends_with(".gguf")) models.insert(GgufParts(folder + "/" + name)[0]);
  }
  return models;
}

}  // namespace

Result<TensorFiles*> ModelSource::Tensors() {
  if (!tensors_) {
    LECTERN_ASSIGN(tensors_, OpenTensors());
  }
  return &*tensors_;
}

Result<std::unique_ptr<ModelSource>> OpenModelSource(Env& env, const std::string& path, Io io) {
  const std::string resolved = env.Resolve(path);
  LECTERN_ASSIGN(const FileInfo info, env.Info(resolved));
  if (info.type == FileInfo::Type::kRegular) {
    LECTERN_ASSIGN(const bool is_gguf, IsGguf(env, resolved));
    if (is_gguf) return OpenGgufModel(env, GgufParts(path), io);
    return Status(Code::kMalformedModel,
                  path + ": no GGUF file; give the folder of a model in safetensors");
  }
  if (info.type != FileInfo::Type::kDirectory) return NoModel(path);

  LECTERN_ASSIGN(const bool has_config, env.Exists(path + "/config.json"));
  if (!has_config) {
    LECTERN_ASSIGN(const auto models, GgufModelsIn(env, path));
    if (models.size() == 1) return OpenGgufModel(env, GgufParts(*models.begin()), io);
    if (models.size() > 1) {
      std::string list;
      for (const std::string& model : models) list += (list.empty() ? "" : ", ") + model;
      return Status(Code::kAmbiguous, path + " holds several models; give one of " + list)
          .WithParam("model");
    }
  }
  auto source = std::make_unique<FolderSource>(env, path, io);
  LECTERN_RETURN_IF_ERROR(source->ReadConfigFile());
  return std::unique_ptr<ModelSource>(std::move(source));
}

}  // namespace lectern
