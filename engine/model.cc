#include "engine/model.h"

#include <algorithm>
#include <filesystem>

#include "store/shard_format.h"

namespace lectern {
namespace {

constexpr std::string_view kComputePrecision = "f32 activations, weights as stored";

Result<ModelConfig> ReadConfig(Env& env, const std::string& path) {
  LECTERN_ASSIGN(const auto file, OpenWhole(env, env.Resolve(path), Io::kPread));
  return ParseConfig({reinterpret_cast<const char*>(file->data()), file->size()}, path);
}

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

}  // namespace

Result<std::shared_ptr<const Model>> Model::Load(Env& env, const std::string& folder, Io io) {
  LECTERN_ASSIGN(const bool exists, env.Exists(folder));
  if (!exists) {
    return Status(Code::kNotFound, "no model folder at " + folder +
                                       "; give the path of a folder with config.json, "
                                       "model.safetensors and tokenizer.model")
        .WithParam("model");
  }
  auto model = std::make_shared<Model>();
  model->folder_ = folder;
  LECTERN_ASSIGN(model->config_, ReadConfig(env, folder + "/config.json"));
  LECTERN_ASSIGN(model->weights_, Weights::Load(env, folder, model->config_, io));
  LECTERN_ASSIGN(model->tokenizer_, Tokenizer::Load(env, folder + "/tokenizer.model"));
  if (model->tokenizer_->vocab_size() > model->config_.vocab_size) {
    return Status(Code::kMalformedModel, folder + ": the tokenizer has " +
                                             std::to_string(model->tokenizer_->vocab_size()) +
                                             " pieces, the model " +
                                             std::to_string(model->config_.vocab_size) +
                                             " embeddings; they do not belong together");
  }
  model->inverse_frequencies_ = InverseFrequencies(model->config_.rope, model->config_.head_dim);

  Sha256 hash;
  model->weights_->AddTo(hash);
  hash.UpdateText(kComputePrecision);
  model->tokenizer_->AddTo(hash);
  hash.UpdateText(PromptTemplate::kPrefix);
  AddRope(hash, model->config_);
  Add(hash, model->config_.rms_norm_epsilon);
  Add(hash, model->config_.num_heads);
  Add(hash, model->config_.num_kv_heads);
  Add(hash, model->config_.head_dim);
  Add(hash, kFormatMajor);
  model->fingerprint_ = hash.Finish();
  return std::shared_ptr<const Model>(std::move(model));
}

bool Model::IsEndOfText(int32_t id) const {
  return id == tokenizer_->eos_id() ||
         std::find(config_.eos_ids.begin(), config_.eos_ids.end(), id) != config_.eos_ids.end();
}

Result<FixedContext> Model::EncodeDocument(std::string_view text) const {
  LECTERN_ASSIGN(TokenizedText tokens, tokenizer_->Encode(text));
  FixedContext context;
  if (tokenizer_->bos_id() >= 0) {
    context.ids.push_back(tokenizer_->bos_id());
    context.ranges.push_back({0, 0});
  }
  context.num_prefix = context.ids.size();
  context.ids.insert(context.ids.end(), tokens.ids.begin(), tokens.ids.end());
  context.ranges.insert(context.ranges.end(), tokens.ranges.begin(), tokens.ranges.end());
  return context;
}

Result<std::vector<int32_t>> Model::EncodeQuestion(std::string_view question) const {
  std::string text(PromptTemplate::kQuestionPrefix);
  text += question;
  text += PromptTemplate::kQuestionSuffix;
  LECTERN_ASSIGN(TokenizedText tokens, tokenizer_->EncodeContinuation(text));
  return std::move(tokens.ids);
}

}  // namespace lectern
