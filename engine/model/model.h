// A model that is ready to run: config, weights, tokenizer, chat template and fingerprint in one
// object, loaded from a folder or file. Documents and sessions share it.
#ifndef LECTERN_ENGINE_MODEL_MODEL_H_
#define LECTERN_ENGINE_MODEL_MODEL_H_

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constraint/token_trie.h"
#include "engine/model/adapter.h"
#include "engine/model/template/chat_template.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "engine/model/weights/config.h"
#include "engine/model/weights/weights.h"
#include "store/cancel_flag.h"
#include "store/catalog.h"

namespace lectern {

// How a model is loaded. The defaults are for a caller that has no store.
struct ModelOptions {
  Io io = Io::kMmap;       // of the weights; the small files are always read
  std::string store = {};  // whose DigestCache saves hashing the weights; empty: none
  bool rehash = false;     // hash them all the same
  WeightsType weights = WeightsType::kStored;
  uint64_t quota_bytes = 0;       // of the store, where quantised weights are kept; 0: none
  ThreadPool* threads = nullptr;  // to quantise with; nullptr: the calling thread does it
  const CancelFlag* cancel = nullptr;  // polled while weights are read, hashed and quantised
  // Used instead of the model's own template; empty: the model's own.
  std::optional<ChatSource> chat_template = {};
  std::string adapter = {};  // path of a LoRA adapter (Adapter::Load); empty: none
  uint32_t first_layers = 0;  // only so many layers are loaded, for trials; the adapter is ignored
                              // then. 0: all
};

class ModelSource;

// Immutable; thread-safe.
class Model {
 public:
  // Finds, reads and checks a model; takes minutes where many GB of weights are hashed or
  // quantised. `folder`: a folder or a file (OpenModelSource). Side effects in options.store, if
  // there is one: the DigestCache's entry, and files of quantised weights. Errors: all of
  // ModelSource, Weights, Tokenizer, Adapter::Load and chat_template.h; kMalformedModel also when
  // the tokenizer has more pieces than the model has embeddings; kUnsupportedModel when it lacks a
  // token of the chat template; kCancelled.
  static Result<std::shared_ptr<const Model>> Load(Env& env, const std::string& folder,
                                                   const ModelOptions& options = {});
  // The same for a source that the caller opened at `folder` with options.io. Its tensors are moved
  // out, also where an error follows: the source cannot give them again.
  static Result<std::shared_ptr<const Model>> Load(Env& env, const std::string& folder,
                                                   ModelSource& source,
                                                   const ModelOptions& options);

  // As given to Load.
  const std::string& folder() const { return folder_; }
  const ModelConfig& config() const { return config_; }
  const Weights& weights() const { return *weights_; }  // without the adapter, applied beside them
  // nullptr: the model is as it is. Not with ModelOptions::first_layers.
  const Adapter* adapter() const { return adapter_.get(); }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const ChatTemplate& chat_template() const { return *chat_template_; }
  // Identifies what the model computes: documents made with another fingerprint are refused.
  // SHA-256 over every weight tensor as stored, the compute precision, tokenizer, template prefix,
  // RoPE recipe, the other settings that change results, and the format version; of quantised
  // weights, over that and how they are quantised; with an adapter, over that and all that it adds.
  const Fingerprint& fingerprint() const { return fingerprint_; }
  // Bytes of weights that Load hashed for the fingerprint; 0: the DigestCache knew it.
  uint64_t hashed_bytes() const { return hashed_bytes_; }
  // Puts the fingerprint into the DigestCache of a store that was perhaps not there yet when the
  // model was loaded, for a later Load. Best effort, never an error (DigestCache::Keep). Does
  // nothing where `store` is empty, where the DigestCache knew the fingerprint (hashed_bytes() is
  // 0), where the weights are not what they were, or are so new that a change would not show in
  // their times.
  void KeepDigest(Env& env, const std::string& store) const;
  // Whether a token ends an answer. Such tokens are named by the model's files, or are control
  // tokens that end an answer in every published vocabulary that has them, such as "<|im_end|>".
  bool IsEndOfText(int32_t id) const;
  const std::vector<int32_t>& ends() const { return ends_; }  // all of them, ascending
  // The vocabulary as a tree, made at the first call. May throw std::bad_alloc.
  const TokenTrie& token_trie() const;
  // Clauses for the user, without a full stop: about settings that the model's files leave out or
  // that were ignored, about tensors that were skipped, and about what Lectern does not follow in
  // the chat template (ChatTemplate::assumptions). Most name no file.
  const std::vector<Message>& assumptions() const { return assumptions_; }

  // chat_template().EncodeDocument and EncodeQuestion with the model's tokenizer, and their codes.
  Result<FixedContext> EncodeDocument(std::string_view text, std::string_view date = "") const;
  Result<std::vector<int32_t>> EncodeQuestion(std::string_view question,
                                              const ChatHistory& history = {},
                                              std::string_view date = "") const;

 private:
  // Sets chat_template_: the caller's, else the model's own, else "plain" with an assumption.
  Status LoadChatTemplate(const ModelSource& source, const std::optional<ChatSource>& given);
  // Sets ends_ (IsEndOfText).
  void FindEnds();
  void AddAssumptions(const std::vector<std::string>& more);
  // Hashes everything in the fingerprint but the weights.
  void AddRest(Sha256& hash) const;
  // The DigestCache's key: a hash like the fingerprint's, with the place, size and times of each
  // weight file in place of its bytes. Nothing: a file was replaced since it was opened, or was
  // written to less than 2 s ago, so that another change need not show in its times.
  std::optional<std::array<uint8_t, 32>> DigestKey(Env& env) const;

  std::string folder_;
  ModelConfig config_;
  std::unique_ptr<Weights> weights_;
  std::shared_ptr<const Adapter> adapter_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<ChatTemplate> chat_template_;  // always there, once loaded
  std::vector<int32_t> ends_;                  // tokens that end an answer, ascending
  struct {
    std::once_flag once;
    std::unique_ptr<const TokenTrie> trie;
  } mutable token_trie_;
  std::vector<Message> assumptions_;
  Fingerprint stored_fingerprint_{};  // of the same model with its weights as stored
  Fingerprint fingerprint_{};
  uint64_t hashed_bytes_ = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_MODEL_H_
