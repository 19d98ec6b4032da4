// A model, opened and identified: config, weights, tokenizer, template, fingerprint.
#ifndef LECTERN_ENGINE_MODEL_H_
#define LECTERN_ENGINE_MODEL_H_

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config.h"
#include "engine/tokenizer.h"
#include "engine/weights.h"
#include "store/catalog.h"

namespace lectern {

// The plain template, the one of the bundled reader: the fixed context is "<bos>{document}", a
// question follows as "\n\nQuestion: {question}\nAnswer:". The two parts are tokenised apart.
struct PromptTemplate {
  static constexpr std::string_view kName = "plain";
  static constexpr std::string_view kQuestionPrefix = "\n\nQuestion: ";
  static constexpr std::string_view kQuestionSuffix = "\nAnswer:";
  // What the document shard keeps and the fingerprint covers: all before the document.
  static constexpr std::string_view kPrefix = "plain 1: <bos>";
};

// The fixed context: template prefix and document. Positions are 0 … size - 1.
struct FixedContext {
  std::vector<int32_t> ids;
  std::vector<TokenizedText::Range> ranges;  // of the text; the prefix has {0, 0}
  size_t num_prefix = 0;                     // tokens before the document
};

struct ModelOptions {
  Io io = Io::kMmap;       // of the weights; the small files are always read
  std::string store = {};  // whose DigestCache saves hashing the weights; empty: none
  bool rehash = false;     // hash them all the same
  WeightsType weights = WeightsType::kStored;
  uint64_t quota_bytes = 0;       // of the store, where quantised weights are kept
  ThreadPool* threads = nullptr;  // to quantise with; nullptr: the caller's
};

// Immutable; thread-safe.
class Model {
 public:
  // `folder`: or file, as OpenModelSource has it. Everything that ModelSource, Weights and
  // Tokenizer can answer; kMalformedModel also when the tokenizer has more pieces than the model
  // has embeddings.
  static Result<std::shared_ptr<const Model>> Load(Env& env, const std::string& folder,
                                                   const ModelOptions& options = {});

  const std::string& folder() const { return folder_; }
  const ModelConfig& config() const { return config_; }
  const Weights& weights() const { return *weights_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
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
  // Tokens of the template around a question; text that looks like control tokens is plain text.
  Result<std::vector<int32_t>> EncodeQuestion(std::string_view question) const;

 private:
  void AddRest(Sha256& hash) const;
  // What the fingerprint is made from, by the files' places and times; none: they changed just now.
  std::optional<std::array<uint8_t, 32>> DigestKey(Env& env) const;

  std::string folder_;
  ModelConfig config_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<Tokenizer> tokenizer_;
  Fingerprint stored_fingerprint_{};  // of the same model with its weights as stored
  Fingerprint fingerprint_{};
  uint64_t hashed_bytes_ = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_H_
