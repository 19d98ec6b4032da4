// Loads a LoRA adapter: small matrices that were trained to be added to a model's own, so that one
// model serves several purposes (arXiv:2106.09685, equation 3).
#ifndef LECTERN_ENGINE_MODEL_ADAPTER_H_
#define LECTERN_ENGINE_MODEL_ADAPTER_H_

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/weights/config.h"
#include "kernels/types.h"
#include "store/cancel_flag.h"
#include "store/env.h"
#include "store/status.h"

namespace lectern {

// An addition to one matrix W [out, in]: y = W x + scale B (A x). It is applied beside the matrix,
// which may be quantised and stays as it is.
struct LowRank {
  TypedRows a;      // [rank, in]
  TypedRows b;      // [out, rank]; rows in the order of the model's own matrix
  float scale = 0;  // alpha / rank, or alpha / sqrt(rank) (rsLoRA, arXiv:2312.03732)

  bool is_there() const { return a.data != nullptr; }
  size_t rank() const { return a.num_rows; }  // 0: it is not there
};

// The additions to one layer; those that are not there add nothing.
struct LayerAdapter {
  LowRank q, k, v, o, gate, up, down;
};

// How an adapter was taught to say that a document does not answer a question.
struct Refusal {
  std::string text;  // the sentence, such as "The document does not say."; not empty
  // (0, 1]: it is the answer where it is at least so likely, and only there; 1: where decoding
  // comes to it.
  double threshold = 1;
};

// How questions to a model with the adapter are asked, as the file lectern.json beside it says:
// {"focus": "only", "refusal": {"text": "The document does not say.", "threshold": 0.3}}. Each part
// may be missing.
struct AdapterSettings {
  std::optional<bool> focus;  // whether questions are read with a focus: "only" or "off"
  std::optional<Refusal> refusal;
};

// Immutable; thread-safe. Views live as long as the object.
class Adapter {
 public:
  // Reads an adapter for a model of this shape. `path`: a folder in the format of PEFT
  // (adapter_config.json and adapter_model.safetensors), or the path of that safetensors file, or a
  // GGUF file of llama.cpp's convert_lora_to_gguf.py. Tensors are f32, f16 or bf16. A matrix that
  // the model joins from several (qkv_proj, gate_up_proj) may be adapted as a whole. All matrices
  // are copied into memory, and no file stays open.
  // kNotFound (param "adapter"): no such file or folder, or a file that is missing in it.
  // kUnsupportedModel names what is not read: every method but plain LoRA (DoRA, too), biases,
  // whole modules, embeddings, other types, pairs that were trained beside a changed model (PiSSA),
  // a GGUF file that is no adapter or of an unknown architecture. kMalformedModel: half of a pair,
  // no pair at all, a rank above 4,096, a setting without its value, and shapes that are not the
  // model's
  // ("was made for another model"). Codes of the formats' parsers and of Env. May throw
  // std::bad_alloc.
  static Result<std::shared_ptr<const Adapter>> Load(Env& env, const std::string& path,
                                                     const ModelConfig& config, Io io);

  const LayerAdapter& layer(size_t i) const { return layers_[i]; }  // i < the model's layers
  const std::string& path() const { return path_; }
  // Matrices that it adds to; a pair for a joined matrix counts once for each part.
  size_t num_matrices() const { return num_matrices_; }
  size_t largest_rank() const { return largest_rank_; }
  const AdapterSettings& settings() const { return settings_; }  // no part of the digest
  uint64_t bytes() const { return memory_.size(); }              // memory that its matrices take
  // SHA-256 of all that it adds: part of the model's fingerprint.
  const std::array<uint8_t, 32>& digest() const { return digest_; }

 private:
  friend class AdapterLoader;
  std::string path_;
  std::vector<std::byte> memory_;
  std::vector<LayerAdapter> layers_;
  size_t num_matrices_ = 0, largest_rank_ = 0;
  AdapterSettings settings_;
  std::array<uint8_t, 32> digest_{};
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_ADAPTER_H_
