// Names the activations of gated linear units that models use; glu.h defines them. Valid C++17,
// because device code includes it too.
#ifndef LECTERN_KERNELS_ACTIVATION_H_
#define LECTERN_KERNELS_ACTIVATION_H_

#include <cstdint>

namespace lectern {

// kSilu: SwiGLU. kGeluTanh: GeGLU with GELU's tanh approximation.
enum class Activation : uint8_t { kSilu, kGeluTanh };

}  // namespace lectern

#endif  // LECTERN_KERNELS_ACTIVATION_H_
