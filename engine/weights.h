// The weights of a Llama-family model: safetensors, mapped or read, used as they are stored.
#ifndef LECTERN_ENGINE_WEIGHTS_H_
#define LECTERN_ENGINE_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config.h"
#include "engine/sha256.h"
#include "kernels/types.h"
#include "store/env.h"
#include "store/status.h"

namespace lectern {

// Matrices are [out, in] as stored (f32, f16 or bf16); norms are widened to f32.
struct LayerWeights {
  TypedRows q, k, v, o;      // [heads * head_dim, hidden] x3, [hidden, heads * head_dim]
  TypedRows gate, up, down;  // [intermediate, hidden] x2, [hidden, intermediate]
  std::vector<float> attention_norm, mlp_norm;  // [hidden]
};

// Immutable; thread-safe. Views live as long as the object.
class Weights {
 public:
  // `io`: Io::kPread reads all of them into memory first, Io::kMmap as they are used.
  // `folder` holds model.safetensors, or model.safetensors.index.json with its files. Headers and
  // every shape are checked against `config` before anything is allocated. A folder with only
  // pytorch_model*.bin or *.pt files: kUnsafeFormat with how to convert. kMissingFile,
  // kMalformedModel (file, tensor and offset named), kUnsupportedModel (dtype, or a tensor that
  // would change the result and is not in `config`), kTruncated, kLimitExceeded.
  static Result<std::unique_ptr<Weights>> Load(Env& env, const std::string& folder,
                                               const ModelConfig& config, Io io = Io::kMmap);

  const TypedRows& embedding() const { return embedding_; }  // [vocab, hidden]
  const TypedRows& output() const { return output_; }        // [vocab, hidden]; tied: embedding
  const std::vector<float>& final_norm() const { return final_norm_; }
  const LayerWeights& layer(size_t i) const { return layers_[i]; }
  uint64_t bytes() const { return bytes_; }  // of all tensors in use

  // Feeds name, dtype, shape and bytes of every tensor in use, in name order.
  void AddTo(Sha256& hash) const;
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
  TypedRows View(std::string_view name) const;  // of a tensor in use; a vector is [n, 1]
  void BindViews(const ModelConfig& config);    // tensors_ to the members below
  void AddShape(const Tensor& tensor, Sha256& hash) const;
  struct File {
    std::string path;  // links followed
    FileInfo info;
    std::unique_ptr<MappedFile> bytes;
  };
  std::vector<File> files_;
  std::vector<Tensor> tensors_;  // by name
  TypedRows embedding_, output_;
  std::vector<float> final_norm_;
  std::vector<LayerWeights> layers_;
  uint64_t bytes_ = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_WEIGHTS_H_
