// Names the activations of gated linear units that models use; glu.h defines them. Valid C++17,
// because device code includes it too.
#ifndef LECTERN_KERNELS_ACTIVATION_H_
#define LECTERN_KERNELS_ACTIVATION_H_

#include <cstdint>

namespace lectern {

// kSilu: SwiGLU. kGeluTanh: GeGLU with GELU's tanh approximation. kClampedSilu: gpt-oss's SwiGLU,
// which device code does not compute.
enum class Activation : uint8_t { kSilu, kGeluTanh, kClampedSilu };

}  // namespace lectern

#endif  // LECTERN_KERNELS_ACTIVATION_H_
