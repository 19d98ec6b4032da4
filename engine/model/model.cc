#include "engine/model/model.h"

#include <algorithm>

#include "engine/model/digest_cache.h"
#include "engine/model/model_source.h"
#include "store/shard_format.h"
#include "store/store.h"

namespace lectern {
namespace {

// Parts of the fingerprint. Each names a way of computing: if a build computes otherwise, its text
// must change, and documents of the old way are then refused, because their keys differ.
constexpr std::string_view kComputePrecision = "f32 activations, weights as stored";
// Stands before the type's name for quantised weights. The number is raised when PackPanel finds
// scales and steps, or packed_matmul.h multiplies with them, in another way.
constexpr std::string_view kQuantised = "weights quantised 2: ";

// The same for a file's own blocks (Q4_K and the like): the number is raised when they are
// multiplied in another way.
constexpr std::string_view kBlocks = "blocks by int8 1";

// Control tokens that end an answer wherever a vocabulary has them, as llama.cpp knows them
// (special_eog_ids of llama-vocab.cpp).
constexpr std::string_view kEndTokens[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
    "<\uFF5Cend\u2581of\u2581sentence\uFF5C>", "[e~["};

// Hashes a number by its bytes.
template <typename T>
void Add(Sha256& hash, T value) {
  hash.Update(&value, sizeof value);
}

// Hashes a RoPE recipe: only the fields that its kind uses, so that an unused default may change.
void AddRope(Sha256& hash, const RopeRecipe& rope) {
  using Kind = RopeRecipe::Kind;
  Add(hash, static_cast<uint32_t>(rope.kind));
  Add(hash, rope.theta);
  if (rope.kind == Kind::kLlama3) {
    Add(hash, rope.factor);
    Add(hash, rope.low_freq_factor);
    Add(hash, rope.high_freq_factor);
    Add(hash, rope.original_max_positions);
  } else if (rope.kind != Kind::kDefault) {
    for (const double number : {rope.factor, rope.original_max_positions, rope.beta_fast,
                                rope.beta_slow, rope.truncate ? 1.0 : 0.0, rope.attention_factor}) {
      Add(hash, number);
    }
  }
  for (const auto* factors : {&rope.short_factors, &rope.long_factors}) {
    for (const double factor : *factors) Add(hash, factor);
  }
  // Where pairs are not neighbours nothing is added, so that documents of older builds keep their
  // model.
  if (rope.has_neighbours) hash.UpdateText("neighbouring pairs");
  if (rope.divisors.empty()) return;
  hash.UpdateText("divided frequencies");
  for (const float divisor : rope.divisors) Add(hash, divisor);
}

// Adds to a fingerprint the properties that a plain Llama lacks. For a plain Llama this adds
// nothing, so that documents from before these properties existed keep their model.
void AddParts(Sha256& hash, const ModelConfig& config) {
  const ModelConfig plain;
  const auto add = [&](std::string_view name, auto value, auto usual) {
    if (value == usual) return;
    hash.UpdateText(name);
    Add(hash, value);
  };
  add("rope dims", config.rope.dims, config.head_dim);
  add("activation", config.activation, plain.activation);
  add("embedding scale", config.embedding_scale, plain.embedding_scale);
  add("query scale", config.query_scale, plain.query_scale);
  add("residual scale", config.residual_scale, plain.residual_scale);
  add("logit scale", config.logit_scale, plain.logit_scale);
  add("attention softcap", config.attention_softcap, plain.attention_softcap);
  add("logit softcap", config.logit_softcap, plain.logit_softcap);
  add("centred norms", config.centred_norms, plain.centred_norms);
  add("parallel", config.parallel, plain.parallel);
  add("norms from one", config.norms_from_one, plain.norms_from_one);
  add("activation limit", config.glu_limit, plain.glu_limit);
  add("activation alpha", config.glu_alpha, plain.glu_alpha);
  add("experts of a token", config.experts.used, plain.experts.used);
  add("experts normalised", config.experts.normalised, plain.experts.normalised);
  for (size_t layer = 0; layer < config.unturned.size(); ++layer) {
    add("unturned layer", config.unturned[layer] ? layer : config.num_layers,
        size_t{config.num_layers});
  }
  add("window", config.window, plain.window);
  if (config.window == 0) return;
  hash.Update(config.attention.data(), config.attention.size());
  AddRope(hash, config.local_rope);
}

// The fingerprint of a model whose weights are computed with as `type`, from that of the stored
// ones.
Fingerprint FingerprintOf(const Fingerprint& stored, WeightsType type) {
  if (type == WeightsType::kStored) return stored;
  Sha256 hash;
  hash.Update(stored.data(), stored.size());
  hash.UpdateText(std::string(kQuantised) + std::string(WeightsName(type)));
  return hash.Finish();
}

// The number is raised when an adapter is applied in another way.
constexpr std::string_view kAdapter = "adapter lora 1";

Fingerprint WithAdapter(const Fingerprint& base, const Adapter* adapter) {
  if (!adapter) return base;
  Sha256 hash;
  hash.Update(base.data(), base.size());
  hash.UpdateText(kAdapter);
  hash.Update(adapter->digest().data(), adapter->digest().size());
  return hash.Finish();
}

// Begins the check of the packed weights that this model had when it was last loaded, so that they
// are read while the tokenizer is made. nullptr: none are known.
std::unique_ptr<PackedFile> BeginPackedCheck(Env& env, const std::string& folder,
                                             const ModelOptions& options, const Adapter* adapter) {
  if (options.store.empty() || options.first_layers > 0) return nullptr;
  const auto stored = DigestCache(env, options.store).Guess(folder);
  if (!stored) return nullptr;
  const Fingerprint fingerprint = WithAdapter(FingerprintOf(*stored, options.weights), adapter);
  auto file = PackedFile::Open(env, PackedWeightsPath(options.store, fingerprint), options.io,
                               options.cancel);
  if (file) file->Begin();
  return file;
}

// Drops all layers but the first `count` from both, for trials (ModelOptions::first_layers).
void KeepFirstLayers(uint32_t count, ModelConfig* config, TensorFiles* files) {
  for (uint32_t layer = count; layer < config->num_layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    std::erase_if(files->tensors,
                  [&](const auto& tensor) { return tensor.first.starts_with(prefix); });
  }
  config->num_layers = std::min(config->num_layers, count);
  config->attention.resize(config->num_layers);
  auto& dense_layers = config->experts.dense_layers;
  if (!dense_layers.empty()) dense_layers.resize(config->num_layers);
  if (!config->unturned.empty()) config->unturned.resize(config->num_layers);
}

}  // namespace

Result<std::shared_ptr<const Model>> Model::Load(Env& env, const std::string& folder,
                                                 const ModelOptions& options) {
  LECTERN_ASSIGN(const auto source, OpenModelSource(env, folder, options.io));
  return Load(env, folder, *source, options);
}

// Loads the parts, then finds the fingerprint: from the DigestCache if the files are those that it
// knows, else by hashing every weight. Weights are packed last, because the file that keeps them is
// named by the fingerprint; the file that was used last time is checked meanwhile.
Result<std::shared_ptr<const Model>> Model::Load(Env& env, const std::string& folder,
                                                 ModelSource& source, const ModelOptions& options) {
  auto model = std::make_shared<Model>();
  model->folder_ = folder;
  model->config_ = source.config();
  if (!options.adapter.empty() && options.first_layers == 0) {
    LECTERN_ASSIGN(model->adapter_,
                   Adapter::Load(env, options.adapter, model->config_, options.io));
  }
  auto packed = BeginPackedCheck(env, folder, options, model->adapter_.get());
  LECTERN_ASSIGN(model->tokenizer_, source.MakeTokenizer());
  LECTERN_RETURN_IF_ERROR(model->LoadChatTemplate(source, options.chat_template));
  model->FindEnds();
  model->AddAssumptions(model->tokenizer_->assumptions());
  LECTERN_ASSIGN(TensorFiles* const files, source.Tensors());
  model->AddAssumptions(source.assumptions());
  if (options.first_layers > 0) KeepFirstLayers(options.first_layers, &model->config_, files);
  LECTERN_ASSIGN(model->weights_,
                 Weights::Load(std::move(*files), model->config_, options.weights, options.cancel));
  if (model->tokenizer_->vocab_size() > model->config_.vocab_size) {
    return Status(Code::kMalformedModel, folder + ": the tokenizer has " +
                                             std::to_string(model->tokenizer_->vocab_size()) +
                                             " pieces, the model " +
                                             std::to_string(model->config_.vocab_size) +
                                             " embeddings; they do not belong together");
  }

  // Without a key (files too new) nothing is looked up: the weights are hashed.
  const auto key = options.rehash ? std::nullopt : model->DigestKey(env);
  const auto known =
      key ? DigestCache(env, options.store).Find(folder, *key) : std::optional<Fingerprint>();
  if (known) {
    model->stored_fingerprint_ = *known;
  } else {
    Sha256 hash;
    LECTERN_RETURN_IF_ERROR(model->weights_->AddTo(hash, options.cancel));
    model->AddRest(hash);
    model->stored_fingerprint_ = hash.Finish();
    model->hashed_bytes_ = model->weights_->bytes();
    // Kept now and again after indexing (Model::KeepDigest): the store may not exist yet.
    model->KeepDigest(env, options.store);
  }
  // A file of packed weights goes when no document has its fingerprint, so that the weights beside
  // an adapter have a file of their own.
  model->fingerprint_ = WithAdapter(FingerprintOf(model->stored_fingerprint_, options.weights),
                                    model->adapter_.get());
  if (model->weights_->needs_packing()) {
    LECTERN_RETURN_IF_ERROR(model->weights_->Pack(env, model->config_, model->fingerprint_,
                                                  {.store = options.store,
                                                   .quota_bytes = options.quota_bytes,
                                                   .io = options.io,
                                                   .threads = options.threads,
                                                   .cancel = options.cancel},
                                                  std::move(packed)));
  }
  return std::shared_ptr<const Model>(std::move(model));
}

// The order is part of the fingerprint: changing it would orphan all documents.
void Model::AddRest(Sha256& hash) const {
  hash.UpdateText(kComputePrecision);
  tokenizer_->AddTo(hash);
  hash.UpdateText(chat_template_->identity());
  AddRope(hash, config_.rope);
  AddParts(hash, config_);
  Add(hash, config_.rms_norm_epsilon);
  Add(hash, config_.num_heads);
  Add(hash, config_.num_kv_heads);
  Add(hash, config_.head_dim);
  Add(hash, kFormatMajor);
  if (weights_->has_blocks()) hash.UpdateText(kBlocks);
}

std::optional<std::array<uint8_t, 32>> Model::DigestKey(Env& env) const {
  Sha256 hash;
  if (!weights_->AddOriginsTo(env, hash)) return std::nullopt;
  AddRest(hash);
  return hash.Finish();
}

// hashed_bytes_ is 0 where the cache gave the fingerprint: then it is there already.
void Model::KeepDigest(Env& env, const std::string& store) const {
  if (store.empty() || hashed_bytes_ == 0) return;
  if (const auto key = DigestKey(env)) {
    DigestCache(env, store).Keep(folder_, *key, stored_fingerprint_);
  }
}

// A file of the user's keeps the model's texts of bos and eos, which the file does not give; a
// built-in template takes them from the tokenizer (ChatTemplate::Make).
Status Model::LoadChatTemplate(const ModelSource& source, const std::optional<ChatSource>& given) {
  LECTERN_ASSIGN(ChatSource chosen, source.FindChatTemplate());
  if (given && given->name == kFileTemplate) {
    chosen.name = given->name, chosen.jinja = given->jinja;  // with the model's own tokens
  } else if (given) {
    chosen = *given;
  } else if (chosen.jinja.empty()) {
    LECTERN_ASSIGN(chosen, ChatFormatNamed(kPlainTemplate));
    assumptions_.push_back(AskedPlainly(SuggestedChatFormat(*tokenizer_)));
  }
  LECTERN_ASSIGN(chat_template_, ChatTemplate::Make(std::move(chosen), *tokenizer_, folder_));
  AddAssumptions(chat_template_->assumptions());
  return {};
}

void Model::AddAssumptions(const std::vector<std::string>& more) {
  assumptions_.insert(assumptions_.end(), more.begin(), more.end());
}

// Gathers ends from three places: config files, the tokenizer's eos, and known marks. As in
// llama.cpp, one of them is taken back where a vocabulary uses it inside an answer.
void Model::FindEnds() {
  const auto id_of = [&](std::string_view text) { return tokenizer_->ControlId(text); };
  const auto has = [&](std::string_view text) { return id_of(text) >= 0; };
  ends_ = config_.eos_ids;
  ends_.push_back(tokenizer_->eos_id());
  for (const std::string_view text : kEndTokens) ends_.push_back(id_of(text));
  // Where a vocabulary has these further tokens, "<|end|>" or "</s>" ends only a part of an answer,
  // or nothing.
  const bool ends_parts = has("<|call|>") || has("<|calls|>");
  if (ends_parts && (has("<|return|>") || has("<|flush|>"))) std::erase(ends_, id_of("<|end|>"));
  if (has("<|tool_response>") || has("<|plamo:eos|>")) std::erase(ends_, id_of("</s>"));
  std::erase_if(ends_, [](int32_t id) { return id < 0; });
  std::ranges::sort(ends_);
  ends_.erase(std::unique(ends_.begin(), ends_.end()), ends_.end());
}

bool Model::IsEndOfText(int32_t id) const { return std::ranges::binary_search(ends_, id); }

const TokenTrie& Model::token_trie() const {
  std::call_once(token_trie_.once,
                 [&] { token_trie_.trie = std::make_unique<const TokenTrie>(*tokenizer_); });
  return *token_trie_.trie;
}

Result<FixedContext> Model::EncodeDocument(std::string_view text, std::string_view date) const {
  return chat_template_->EncodeDocument(*tokenizer_, text, date);
}

Result<std::vector<int32_t>> Model::EncodeQuestion(std::string_view question,
                                                   const ChatHistory& history,
                                                   std::string_view date) const {
  return chat_template_->EncodeQuestion(*tokenizer_, question, history, date);
}

}  // namespace lectern
