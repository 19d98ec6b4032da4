// A model folder, opened and identified: config, weights, tokenizer, template, fingerprint.
#ifndef LECTERN_ENGINE_MODEL_H_
#define LECTERN_ENGINE_MODEL_H_

#include <memory>
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

// Immutable; thread-safe.
class Model {
 public:
  // Everything that Config, Weights and Tokenizer can answer; kMalformedModel also when the
  // tokenizer has more pieces than the model has embeddings.
  // `io` is of the weights; the small files are always read.
  static Result<std::shared_ptr<const Model>> Load(Env& env, const std::string& folder,
                                                   Io io = Io::kMmap);

  const std::string& folder() const { return folder_; }
  const ModelConfig& config() const { return config_; }
  const Weights& weights() const { return *weights_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::vector<float>& inverse_frequencies() const { return inverse_frequencies_; }
  // SHA-256 over every weight tensor as stored, the compute precision, tokenizer, template prefix,
  // RoPE recipe and format version.
  const Fingerprint& fingerprint() const { return fingerprint_; }
  bool IsEndOfText(int32_t id) const;

  Result<FixedContext> EncodeDocument(std::string_view text) const;
  // Tokens of the template around a question; text that looks like control tokens is plain text.
  Result<std::vector<int32_t>> EncodeQuestion(std::string_view question) const;

 private:
  std::string folder_;
  ModelConfig config_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<float> inverse_frequencies_;
  Fingerprint fingerprint_{};
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_H_
