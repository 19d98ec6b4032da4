// Activations of gated linear units: glu.h defines them. C++17, for device code too.
#ifndef LECTERN_KERNELS_ACTIVATION_H_
#define LECTERN_KERNELS_ACTIVATION_H_

#include <cstdint>

namespace lectern {

enum class Activation : uint8_t { kSilu, kGeluTanh };

}  // namespace lectern

#endif  // LECTERN_KERNELS_ACTIVATION_H_
