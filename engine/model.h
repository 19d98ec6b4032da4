// A model, opened and identified: config, weights, tokenizer, template, fingerprint.
#ifndef LECTERN_ENGINE_MODEL_H_
#define LECTERN_ENGINE_MODEL_H_

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/cancel_flag.h"
#include "engine/chat_template.h"
#include "engine/config.h"
#include "engine/tokenizer.h"
#include "engine/weights.h"
#include "store/catalog.h"

namespace lectern {

struct ModelOptions {
  Io io = Io::kMmap;       // of the weights; the small files are always read
  std::string store = {};  // whose DigestCache saves hashing the weights; empty: none
  bool rehash = false;     // hash them all the same
  WeightsType weights = WeightsType::kStored;
  uint64_t quota_bytes = 0;       // of the store, where quantised weights are kept
  ThreadPool* threads = nullptr;  // to quantise with; nullptr: the caller's
  const CancelFlag* cancel = nullptr;  // polled while weights are read, hashed and quantised
  // The name of a format (chat_template.h); empty: the model's own.
  std::string chat_template = {};
  uint32_t first_layers = 0;  // only these many are loaded, for trials; 0: all
};

class ModelSource;

// Immutable; thread-safe.
class Model {
 public:
  // `folder`: or file, as OpenModelSource has it. Everything that ModelSource, Weights,
  // Tokenizer and chat_template.h can answer; kMalformedModel also when the tokenizer has more
  // pieces than the model has embeddings; kUnsupportedModel when it lacks a token of the chat
  // template; kCancelled.
  static Result<std::shared_ptr<const Model>> Load(Env& env, const std::string& folder,
                                                   const ModelOptions& options = {});
  // Of a source that was found there with options.io; its tensors are moved away.
  static Result<std::shared_ptr<const Model>> Load(Env& env, const std::string& folder,
                                                   ModelSource& source,
                                                   const ModelOptions& options);

  const std::string& folder() const { return folder_; }
  const ModelConfig& config() const { return config_; }
  const Weights& weights() const { return *weights_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const ChatTemplate& chat_template() const { return chat_template_; }
  // SHA-256 over every weight tensor as stored, the compute precision, tokenizer, template prefix,
  // RoPE recipe and format version; of quantised weights, over that and how they are quantised.
  const Fingerprint& fingerprint() const { return fingerprint_; }
  // Bytes of weights that were hashed for it; 0: a DigestCache knew it.
  uint64_t hashed_bytes() const { return hashed_bytes_; }
  // For a later Load, in a store that was perhaps not there yet. Does nothing where the weights are
  // not what they were or so new that a change would not show.
  void KeepDigest(Env& env, const std::string& store) const;
  bool IsEndOfText(int32_t id) const;

  Result<FixedContext> EncodeDocument(std::string_view text) const;
  // What follows the document: what was said before, a first question and the template around them,
  // in which text that looks like control tokens is plain text.
  Result<std::vector<int32_t>> EncodeQuestion(std::string_view question,
                                              const ChatHistory& history = {}) const;
  // What follows an answer: `last`, the last token of it that was sampled and not yet fed (-1:
  // none), unless the template ends answers itself; and another question.
  Result<std::vector<int32_t>> EncodeNextQuestion(int32_t last, std::string_view question) const;

 private:
  void AddRest(Sha256& hash) const;
  // What the fingerprint is made from, by the files' places and times; none: they changed just now.
  std::optional<std::array<uint8_t, 32>> DigestKey(Env& env) const;

  std::string folder_;
  ModelConfig config_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<Tokenizer> tokenizer_;
  ChatTemplate chat_template_;
  Fingerprint stored_fingerprint_{};  // of the same model with its weights as stored
  Fingerprint fingerprint_{};
  uint64_t hashed_bytes_ = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_H_
