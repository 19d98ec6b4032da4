// Loads the weights of a Llama-family model: its tensors are mapped or read from their files, and
// are used as they are stored or packed when they are loaded.
#ifndef LECTERN_ENGINE_MODEL_WEIGHTS_WEIGHTS_H_
#define LECTERN_ENGINE_MODEL_WEIGHTS_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/formats/sha256.h"
#include "engine/model/formats/tensor_files.h"
#include "engine/model/weights/config.h"
#include "engine/model/weights/large_page_copy.h"
#include "engine/model/weights/packed_weights.h"
#include "store/cancel_flag.h"
#include "store/env.h"
#include "store/status.h"

namespace lectern {

// The form in which matrices are multiplied. kStored: f32, f16, bf16 or blocks, as in the files.
// kQ8, kQ4: f32, f16 and bf16 are quantised in groups of 32 (kernels/packed_rows.h); under kQ4 the
// embedding and the output matrix, which matter most, are q8. Blocks are not rounded a second time:
// whatever the type, they are packed with the values that they have. Activations are rounded to
// int8 before they are multiplied with a packed matrix (kernels/packed_matmul.h).
enum class WeightsType { kStored, kQ8, kQ4 };
std::string_view WeightsName(WeightsType type);  // "stored", "q8", "q4"
std::optional<WeightsType> ParseWeightsName(std::string_view name);  // nullopt: no such name

// One expert of a layer: [width, hidden] x2, [hidden, width]; biases [out] or empty.
struct ExpertWeights {
  WeightMatrix gate, up, down;
  std::vector<float> gate_bias, up_bias, down_bias;
};

// Matrices are [out, in]; norms are widened to f32, with the 1 added where config.norms_from_one.
struct LayerWeights {
  WeightMatrix q, k, v, o;      // [heads * head_dim, hidden] x3, [hidden, heads * head_dim]
  // [intermediate, hidden] x2, [hidden, intermediate]; in a layer with experts those of the shared
  // one, or empty.
  WeightMatrix gate, up, down;
  std::vector<ExpertWeights> experts;  // [ExpertsConfig::count] where the layer has experts
  // Scores the experts: [experts, hidden], as f32, because equal scores must stay equal and the
  // order of close ones must not depend on how matrices are packed.
  std::vector<float> router;
  // The rest is there only in some models; empty: not in this one.
  std::vector<float> attention_norm, mlp_norm;  // [hidden], before attention and before the MLP
  std::vector<float> attention_post_norm, mlp_post_norm;  // [hidden], of what is added
  // Before RoPE: [head_dim], of each head, or [out] of its matrix, of all heads together.
  std::vector<float> q_norm, k_norm;
  std::vector<float> sinks;  // [heads]: each query head's learned logit
  std::vector<float> q_bias, k_bias, v_bias, o_bias;      // [out] of its matrix
  std::vector<float> gate_bias, up_bias, down_bias;       // [out] of its matrix
  std::vector<float> router_bias;                         // [experts]
  // [hidden]: the shared expert's output is multiplied by the sigmoid of its product with the
  // input.
  std::vector<float> shared_gate;
};

// Immutable; thread-safe. Views live as long as the object.
class Weights {
 public:
  // Every shape is checked against `config` before anything is allocated. Tensors that are used as
  // they are stored are loaded; if any matrix is to be packed, no matrix has values until Pack.
  // `files`: after DropUnneeded, else kUnsupportedModel for a tensor that is not needed.
  // kMalformedModel (file, tensor and offset named), kUnsupportedModel (a type, rows that are not
  // whole groups, or a tensor that would change the result and is not in `config`), kTruncated,
  // kIoError, kCancelled.
  static Result<std::unique_ptr<Weights>> Load(TensorFiles files, const ModelConfig& config,
                                               WeightsType type = WeightsType::kStored,
                                               const CancelFlag* cancel = nullptr);
  // Takes tensors out of `files` that a text model does not need: of images and sound, of layers
  // that predict more than one token, tables that old files saved, biases of zeros and scales of
  // one; for that it reads small biases and scales. Returns their names, as the files have them,
  // without a tied model's output matrix, which is taken out, too. kTruncated, kIoError; then some
  // tensors are already out.
  static Result<std::vector<std::string>> DropUnneeded(TensorFiles& files,
                                                       const ModelConfig& config);
  // Returns the bytes that the weights will take, of packed matrices those that they take when
  // packed. Codes of Load.
  static Result<uint64_t> BytesInUse(const TensorFiles& files, const ModelConfig& config,
                                     WeightsType type);
  bool needs_packing() const { return needs_packing_; }
  bool has_blocks() const;  // whether a tensor in use has a type of blocks in its file
  // Packs the matrices and makes the views of all; to be called once, before other threads use
  // this, where needs_packing(). Not again after an error. `begun` and codes: PackedWeights::Open.
  Status Pack(Env& env, const ModelConfig& config, const Fingerprint& fingerprint,
              const PackedWeightsOptions& options, std::unique_ptr<PackedFile> begun = nullptr);

  const WeightMatrix& embedding() const { return embedding_; }  // [vocab, hidden]
  const WeightMatrix& output() const { return output_; }        // [vocab, hidden]; tied: embedding
  // [hidden], as f32; with the 1 added where config.norms_from_one, and times config.logit_scale,
  // so that what the output matrix gives is the logits.
  const std::vector<float>& final_norm() const { return final_norm_; }
  const LayerWeights& layer(size_t i) const { return layers_[i]; }
  uint64_t bytes() const { return bytes_; }  // of all tensors in use, as they are in the files
  WeightsType type() const { return type_; }
  const PackedWeights* packed() const { return packed_.get(); }  // nullptr: no Pack

  // To be told of each pass over all matrices: those that are used for long are copied.
  LargePageCopy& copy() const { return copy_; }

  // Feeds the number of tensors in use, then name, type, shape, size and bytes of each, in name
  // order. kTruncated and kIoError where they are read only now; kCancelled. After an error `hash`
  // is of no use.
  Status AddTo(Sha256& hash, const CancelFlag* cancel = nullptr) const;
  // Does the same without the bytes: in their place are the files that hold them, with their sizes,
  // times and inodes as they were when they were opened. False: the files are others by now, or
  // were written to less than 2 s ago, so that a change need not show in their times; `hash` is
  // then of no use.
  bool AddOriginsTo(Env& env, Sha256& hash) const;

 private:
  struct Tensor {
    std::string name;
    TensorType type;
    std::vector<uint64_t> shape;
    std::span<const std::byte> bytes;
    size_t file;
    uint64_t offset;  // in the file
    std::optional<PackedType> packing;
    size_t packed = 0;  // its place among the packed matrices, if it has a packing
  };
  const Tensor& Find(std::string_view name) const;
  std::vector<float> Vector(std::string_view name) const;
  WeightMatrix Matrix(std::string_view name) const;
  // Sizes layers_ and fills it and final_norm_ with the norms and biases of tensors_, as f32. Where
  // config.norms_from_one, the 1 is added to the norms here, and nobody adds it later.
  void BindNorms(const ModelConfig& config);
  // Makes the views of matrices, after BindNorms and packing.
  void BindMatrices(const ModelConfig& config);
  void AddShape(const Tensor& tensor, Sha256& hash) const;
  struct File {
    std::string path;  // links followed
    FileInfo info;
    std::unique_ptr<MappedFile> bytes;
  };
  std::vector<File> files_;
  std::vector<Tensor> tensors_;  // by name
  WeightsType type_ = WeightsType::kStored;
  bool needs_packing_ = false;
  std::unique_ptr<PackedWeights> packed_;
  WeightMatrix embedding_, output_;
  std::vector<float> final_norm_;
  std::vector<LayerWeights> layers_;
  uint64_t bytes_ = 0;
  mutable LargePageCopy copy_;  // the last member, as it reads files until it goes
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_WEIGHTS_WEIGHTS_H_
