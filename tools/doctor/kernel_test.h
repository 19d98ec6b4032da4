// Tests whether this machine multiplies right, with this model's weights.
#ifndef LECTERN_TOOLS_DOCTOR_KERNEL_TEST_H_
#define LECTERN_TOOLS_DOCTOR_KERNEL_TEST_H_

#include "engine/model/model.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"
#include "tools/doctor/findings.h"

namespace lectern::doctor {

// The first layer's work for a few tokens, kernel by kernel: each kernel of `fast` and its scalar
// definition get the same inputs, those of the definition's layer, so that a rounding that falls to
// the other side is not carried on. Fails where an output differs by more than float sums may, and
// where weights give values that are not finite.
//
// Activations that are multiplied with packed weights are rounded to int8, on purpose. The effect on
// the products is measured beside exact products, and compared with what the widths of the steps let
// expect: more is an error, too.
Finding TestKernels(const Model& model, const Backend& fast, ThreadPool& threads);

}  // namespace lectern::doctor

#endif  // LECTERN_TOOLS_DOCTOR_KERNEL_TEST_H_
