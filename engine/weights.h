// The weights of a Llama-family model: safetensors, mapped or read, used as they are stored or
// quantised when they are loaded.
#ifndef LECTERN_ENGINE_WEIGHTS_H_
#define LECTERN_ENGINE_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config.h"
#include "engine/packed_weights.h"
#include "engine/sha256.h"
#include "kernels/types.h"
#include "store/env.h"
#include "store/status.h"

namespace lectern {

// What matrices are multiplied as. kStored: f32, f16 or bf16, as in the files. kQ8, kQ4: quantised
// in groups of 32 (kernels/packed_rows.h); under kQ4 the embedding and the output matrix, which
// matter most, are q8. What they are multiplied by is rounded to int8 (kernels/packed_matmul.h).
enum class WeightsType { kStored, kQ8, kQ4 };
std::string_view WeightsName(WeightsType type);  // "stored", "q8", "q4"
std::optional<WeightsType> ParseWeightsName(std::string_view name);

// Bytes that the matrices of such a model take when they are quantised. `type` is not kStored.
uint64_t PackedBytes(const ModelConfig& config, WeightsType type);

// Matrices are [out, in]; norms are widened to f32.
struct LayerWeights {
  WeightMatrix q, k, v, o;      // [heads * head_dim, hidden] x3, [hidden, heads * head_dim]
  WeightMatrix gate, up, down;  // [intermediate, hidden] x2, [hidden, intermediate]
  std::vector<float> attention_norm, mlp_norm;  // [hidden], before attention and before the MLP
  // Of what some models have besides; empty: not this one.
  std::vector<float> attention_post_norm, mlp_post_norm;  // [hidden], of what is added
  std::vector<float> q_norm, k_norm;                      // [head_dim], of each head before RoPE
  std::vector<float> q_bias, k_bias, v_bias, o_bias;      // [out] of its matrix
};

// Immutable; thread-safe. Views live as long as the object.
class Weights {
 public:
  // `io`: Io::kPread reads all of them into memory first, Io::kMmap as they are used. Of other
  // types than kStored only headers and norms are read in until Pack, and matrices are no views of
  // anything; kUnsupportedModel where one has rows that are not whole groups.
  // `folder` holds model.safetensors, or model.safetensors.index.json with its files. Headers and
  // every shape are checked against `config` before anything is allocated. A folder with only
  // pytorch_model*.bin or *.pt files: kUnsafeFormat with how to convert. kMissingFile,
  // kMalformedModel (file, tensor and offset named), kUnsupportedModel (dtype, or a tensor that
  // would change the result and is not in `config`), kTruncated, kLimitExceeded.
  static Result<std::unique_ptr<Weights>> Load(Env& env, const std::string& folder,
                                               const ModelConfig& config, Io io = Io::kMmap,
                                               WeightsType type = WeightsType::kStored);
  // Makes the matrices the quantised ones. Codes of PackedWeights::Open. Not for kStored.
  Status Pack(Env& env, const ModelConfig& config, const Fingerprint& fingerprint,
              const PackedWeightsOptions& options);

  const WeightMatrix& embedding() const { return embedding_; }  // [vocab, hidden]
  const WeightMatrix& output() const { return output_; }        // [vocab, hidden]; tied: embedding
  const std::vector<float>& final_norm() const { return final_norm_; }
  const LayerWeights& layer(size_t i) const { return layers_[i]; }
  uint64_t bytes() const { return bytes_; }  // of all tensors in use, as they are in the files
  WeightsType type() const { return type_; }
  const PackedWeights* packed() const { return packed_.get(); }  // nullptr: kStored, or no Pack yet

  // Feeds name, dtype, shape and bytes of every tensor in use, in name order. kTruncated, kIoError
  // where they are read now.
  Status AddTo(Sha256& hash) const;
  // The same without the bytes; in their place which files hold them, and their sizes, times and
  // inodes as they were when they were opened. False: they are others by now, or were written to
  // less than 2 s ago, so that a change need not show in their times.
  bool AddOriginsTo(Env& env, Sha256& hash) const;

 private:
  struct Tensor {
    std::string name;
    Dtype dtype;
    std::vector<uint64_t> shape;
    std::span<const std::byte> bytes;
    size_t file;
    uint64_t offset;  // in the file
  };
  const Tensor& Find(std::string_view name) const;
  std::vector<float> Vector(std::string_view name) const;
  WeightMatrix Matrix(std::string_view name) const;
  void BindNorms(const ModelConfig& config);  // tensors_ to the members below
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
  std::vector<std::string> packed_names_;  // of packed_'s matrices
  std::unique_ptr<PackedWeights> packed_;
  WeightMatrix embedding_, output_;
  std::vector<float> final_norm_;
  std::vector<LayerWeights> layers_;
  uint64_t bytes_ = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_WEIGHTS_H_
