// Reads the experts of gpt-oss as its folders hold them: all of a layer in one tensor, gate and up
// in turns, and either transposed numbers or the parts of MXFP4 apart from each other:
//
// clang-format off
//   gate_up_proj         [experts, hidden, 2 * width]: column 2 i is row i of gate, 2 i + 1 of up
//   gate_up_proj_bias    [experts, 2 * width], likewise
//   gate_up_proj_blocks  [experts, 2 * width, hidden / 32, 16]: row 2 i is row i of gate; byte b of
//                        a block holds values 2 b, in its low nibble, and 2 b + 1
//   gate_up_proj_scales  [experts, 2 * width, hidden / 32]
//   down_proj            [experts, width, hidden]: its parts likewise, but without turns
// clang-format on
//
// Source: GptOssExperts and convert_moe_packed_tensors of transformers 5.24.
#ifndef LECTERN_ENGINE_MODEL_WEIGHTS_INTERLEAVED_EXPERTS_H_
#define LECTERN_ENGINE_MODEL_WEIGHTS_INTERLEAVED_EXPERTS_H_

#include "engine/model/formats/tensor_files.h"
#include "engine/model/weights/config.h"

namespace lectern {

// Replaces these tensors by one for each matrix and bias of each expert, in the usual order of
// numbers and blocks (kernels/quant_blocks.h). They are in a file that is derived from the others,
// which must outlive its use, as they do in Weights: nothing is read now. kMalformedModel: a shape
// that is not of `config`, or blocks without scales; kOutOfMemory.
Status ArrangeExperts(const ModelConfig& config, TensorFiles* files);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_WEIGHTS_INTERLEAVED_EXPERTS_H_
