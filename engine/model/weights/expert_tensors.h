// Gives each expert of a model tensors of its own, whatever its files join. Weights then plans,
// packs and names the matrices of an expert like those of any other part.
#ifndef LECTERN_ENGINE_MODEL_WEIGHTS_EXPERT_TENSORS_H_
#define LECTERN_ENGINE_MODEL_WEIGHTS_EXPERT_TENSORS_H_

#include "engine/model/formats/tensor_files.h"
#include "engine/model/weights/config.h"

namespace lectern {

// Splits tensors of all experts of a layer, [experts, rows, columns], into views of one expert
// each, named "model.layers.L.mlp.experts.N.up_proj.weight"; where gate and up are joined, those
// are split, too. Names of older GGUF files ("ffn_up.N") become these. TensorFiles::own_name leads
// back. Does nothing for a dense model. kMalformedModel: the number of experts is not that of
// `config`.
Status SplitExperts(const ModelConfig& config, TensorFiles* files);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_WEIGHTS_EXPERT_TENSORS_H_
