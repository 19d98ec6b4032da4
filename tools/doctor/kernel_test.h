// Tests whether the fast kernels of this machine compute right on the first layer of a model, for
// lectern-doctor: it finds wrong instructions, bad memory and damaged weights.
#ifndef LECTERN_TOOLS_DOCTOR_KERNEL_TEST_H_
#define LECTERN_TOOLS_DOCTOR_KERNEL_TEST_H_

#include "engine/model/model.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"
#include "tools/doctor/findings.h"

namespace lectern::doctor {

// Runs the first layer on a few tokens, kernel by kernel, with the kernels of `fast` and with their
// scalar definitions, and compares each pair of outputs. Both get the same inputs, the definition's
// outputs so far: an error of one kernel, or a rounding that falls to the other side, is not
// carried on to the next. Fails with kInternal where outputs differ by more than sums of floats in
// another order may: all kernels are compared, and the text names the worst. Fails with
// kMalformedModel where the definition itself gives a value that is not finite, because of the
// weights; nothing after it is compared, and it goes before any difference. Never warns.
//
// Inputs that are multiplied with packed weights are rounded to int8, on purpose. The effect on the
// products is measured against exact products and compared with the effect that the widths of the
// rounding steps let expect; a larger one is a failure, too.
//
// Needs only the model's first layer. Takes about as long as that layer's work for 12 tokens
// without SIMD. Uses all of `threads`.
Finding TestKernels(const Model& model, const Backend& fast, ThreadPool& threads);

}  // namespace lectern::doctor

#endif  // LECTERN_TOOLS_DOCTOR_KERNEL_TEST_H_
