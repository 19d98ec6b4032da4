#include "engine/model.h"

#include <algorithm>
#include <filesystem>

#include "engine/digest_cache.h"
#include "store/shard_format.h"

namespace lectern {
namespace {

constexpr std::string_view kComputePrecision = "f32 activations, weights as stored";
// Before the type's name; the number is that of the way in which PackPanel finds scales and steps
// and packed_matmul.h multiplies with them.
constexpr std::string_view kQuantised = "weights quantised 2: ";

template <typename T>
void Add(Sha256& hash, T value) {
  hash.Update(&value, sizeof value);
}

void AddRope(Sha256& hash, const ModelConfig& config) {
  const RopeRecipe& rope = config.rope;
  Add(hash, static_cast<uint32_t>(rope.kind));
  Add(hash, rope.theta);
  if (rope.kind == RopeRecipe::Kind::kLlama3) {
    Add(hash, rope.factor);
    Add(hash, rope.low_freq_factor);
    Add(hash, rope.high_freq_factor);
    Add(hash, rope.original_max_positions);
  }
}

Fingerprint FingerprintOf(const Fingerprint& stored, WeightsType type) {
  if (type == WeightsType::kStored) return stored;
  Sha256 hash;
  hash.Update(stored.data(), stored.size());
  hash.UpdateText(std::string(kQuantised) + std::string(WeightsName(type)));
  return hash.Finish();
}

}  // namespace

Result<ModelConfig> ReadModelConfig(Env& env, const std::string& folder) {
  const std::string path = folder + "/config.json";
  LECTERN_ASSIGN(const auto file, OpenWhole(env, env.Resolve(path), Io::kPread));
  return ParseConfig({reinterpret_cast<const char*>(file->data()), file->size()}, path);
}

Result<const ChatFormat*> ReadChatFormat(Env& env, const std::string& folder,
                                         std::string_view name) {
  if (!name.empty()) return ChatFormatNamed(name);
  for (const char* file : {"/chat_template.jinja", "/tokenizer_config.json"}) {
    const std::string path = folder + file;
    LECTERN_ASSIGN(const bool exists, env.Exists(path));
    if (!exists) continue;
    LECTERN_ASSIGN(const auto map, OpenWhole(env, env.Resolve(path), Io::kPread));
    std::string text(reinterpret_cast<const char*>(map->data()), map->size());
    if (path.ends_with(".json")) {
      LECTERN_ASSIGN(text, ChatTemplateOf(text, path));
    }
    return RecognizeChatFormat(text, path);
  }
  return RecognizeChatFormat("", folder);
}

Result<std::shared_ptr<const Model>> Model::Load(Env& env, const std::string& folder,
                                                 const ModelOptions& options) {
  LECTERN_ASSIGN(const bool exists, env.Exists(folder));
  if (!exists) {
    return Status(Code::kNotFound, "no model folder at " + folder +
                                       "; give the path of a folder with config.json, "
                                       "model.safetensors and tokenizer.model or tokenizer.json")
        .WithParam("model");
  }
  auto model = std::make_shared<Model>();
  model->folder_ = folder;
  LECTERN_ASSIGN(model->config_, ReadModelConfig(env, folder));
  LECTERN_ASSIGN(model->weights_,
                 Weights::Load(env, folder, model->config_, options.io, options.weights));
  // Where there are both, the first says which algorithm it is for, the other is a copy.
  LECTERN_ASSIGN(const bool has_piece_model, env.Exists(folder + "/tokenizer.model"));
  LECTERN_ASSIGN(const bool has_json, env.Exists(folder + "/tokenizer.json"));
  const bool is_json = has_json && !has_piece_model;
  LECTERN_ASSIGN(model->tokenizer_,
                 Tokenizer::Load(env, folder + (is_json ? "/tokenizer.json" : "/tokenizer.model")));
  if (model->tokenizer_->vocab_size() > model->config_.vocab_size) {
    return Status(Code::kMalformedModel, folder + ": the tokenizer has " +
                                             std::to_string(model->tokenizer_->vocab_size()) +
                                             " pieces, the model " +
                                             std::to_string(model->config_.vocab_size) +
                                             " embeddings; they do not belong together");
  }
  LECTERN_ASSIGN(const ChatFormat* format, ReadChatFormat(env, folder, options.chat_template));
  LECTERN_ASSIGN(model->chat_template_, ChatTemplate::Make(*format, *model->tokenizer_));
  model->inverse_frequencies_ = InverseFrequencies(model->config_.rope, model->config_.head_dim);

  const auto key = options.rehash ? std::nullopt : model->DigestKey(env);
  const auto known =
      key ? DigestCache(env, options.store).Find(folder, *key) : std::optional<Fingerprint>();
  if (known) {
    model->stored_fingerprint_ = *known;
  } else {
    Sha256 hash;
    LECTERN_RETURN_IF_ERROR(model->weights_->AddTo(hash));
    model->AddRest(hash);
    model->stored_fingerprint_ = hash.Finish();
    model->hashed_bytes_ = model->weights_->bytes();
    model->KeepDigest(env, options.store);
  }
  model->fingerprint_ = FingerprintOf(model->stored_fingerprint_, options.weights);
  if (options.weights != WeightsType::kStored) {
    LECTERN_RETURN_IF_ERROR(model->weights_->Pack(env, model->config_, model->fingerprint_,
                                                  {.store = options.store,
                                                   .quota_bytes = options.quota_bytes,
                                                   .io = options.io,
                                                   .threads = options.threads}));
  }
  return std::shared_ptr<const Model>(std::move(model));
}

// All but the weights.
void Model::AddRest(Sha256& hash) const {
  hash.UpdateText(kComputePrecision);
  tokenizer_->AddTo(hash);
  hash.UpdateText(chat_template_.identity());
  AddRope(hash, config_);
  Add(hash, config_.rms_norm_epsilon);
  Add(hash, config_.num_heads);
  Add(hash, config_.num_kv_heads);
  Add(hash, config_.head_dim);
  Add(hash, kFormatMajor);
}

std::optional<std::array<uint8_t, 32>> Model::DigestKey(Env& env) const {
  Sha256 hash;
  if (!weights_->AddOriginsTo(env, hash)) return std::nullopt;
  AddRest(hash);
  return hash.Finish();
}

void Model::KeepDigest(Env& env, const std::string& store) const {
  if (store.empty() || hashed_bytes_ == 0) return;
  if (const auto key = DigestKey(env)) {
    DigestCache(env, store).Keep(folder_, *key, stored_fingerprint_);
  }
}

bool Model::IsEndOfText(int32_t id) const {
  return id == tokenizer_->eos_id() || chat_template_.IsEnd(id) ||
         std::find(config_.eos_ids.begin(), config_.eos_ids.end(), id) != config_.eos_ids.end();
}

Result<FixedContext> Model::EncodeDocument(std::string_view text) const {
  return chat_template_.EncodeDocument(*tokenizer_, text);
}

Result<std::vector<int32_t>> Model::EncodeQuestion(std::string_view question) const {
  return chat_template_.EncodeQuestion(*tokenizer_, question);
}

Result<std::vector<int32_t>> Model::EncodeNextQuestion(int32_t last,
                                                       std::string_view question) const {
  const bool is_said = chat_template_.ends_answers() && IsEndOfText(last);
  return chat_template_.EncodeNextQuestion(*tokenizer_, is_said ? -1 : last, question);
}

}  // namespace lectern
