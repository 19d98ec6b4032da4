// Holds a model's weights on a device: matrices as f16 or bf16, everything else in f32.
#ifndef LECTERN_ENGINE_GPU_WEIGHTS_H_
#define LECTERN_ENGINE_GPU_WEIGHTS_H_

#include <vector>

#include "engine/gpu/device.h"
#include "engine/model/model.h"
#include "kernels/backend.h"
#include "kernels/cuda/rows/rows.h"
#include "kernels/thread_pool.h"

namespace lectern {

// kBf16 where all matrices of the layers are bf16, else kF16: f32, q8, q4 and blocks are multiplied
// with the values that they have, rounded to 11 bits.
Dtype DeviceWeightsDtype(const Weights& weights, size_t num_layers);

// Immutable after Load; thread-safe.
class DeviceWeights {
 public:
  struct Matrix {
    DeviceArray<uint16_t> data;
    size_t num_rows = 0, num_cols = 0;
  };
  // The weights of a layer, as LayerWeights; vectors that the layer lacks are empty. The matrices
  // of q, k and v are one matrix, one below the other, and so are those of gate and up, which saves
  // products. Rows of q and k whose pairs are neighbours in the file (RopeRecipe::has_neighbours)
  // are put into the order in which they are not.
  struct Layer {
    Matrix qkv, o, gate_up, down;
    DeviceArray<float> attention_norm, mlp_norm, attention_post_norm, mlp_post_norm;
    DeviceArray<float> q_norm, k_norm, q_bias, k_bias, v_bias, o_bias;
  };

  // Uploads the weights of all layers, the final norm and the output matrix, but neither the
  // embedding nor an adapter. Borrows all arguments until it returns, and waits for the stream
  // before that, also after an error. kOutOfMemory (CheckDevicePlan) says what is needed before
  // anything is uploaded; kUnsupportedModel: a matrix has an element that is not finite in dtype()
  // (norms and biases are not checked); errors of DeviceArray and Device::Check.
  static Result<std::unique_ptr<DeviceWeights>> Load(DeviceStream& stream, const Model& model,
                                                     const Backend& backend, ThreadPool& threads);

  Dtype dtype() const { return dtype_; }
  const Layer& layer(size_t i) const { return layers_[i]; }
  const Matrix& output() const { return output_; }
  const DeviceArray<float>& final_norm() const { return final_norm_; }
  // Rows [first, first + count) of a matrix.
  DeviceRows Rows(const Matrix& matrix, size_t first, size_t count) const {
    return {matrix.data.data() + first * matrix.num_cols, dtype_, count, matrix.num_cols,
            matrix.num_cols};
  }
  DeviceRows Rows(const Matrix& matrix) const { return Rows(matrix, 0, matrix.num_rows); }

 private:
  friend class DeviceWeightsLoader;
  Dtype dtype_ = Dtype::kF16;
  std::vector<Layer> layers_;
  Matrix output_;
  DeviceArray<float> final_norm_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_GPU_WEIGHTS_H_
