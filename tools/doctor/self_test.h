// Whether text and numbers come out right on this machine, with this model.
#ifndef LECTERN_TOOLS_DOCTOR_SELF_TEST_H_
#define LECTERN_TOOLS_DOCTOR_SELF_TEST_H_

#include "engine/model.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"
#include "tools/doctor/findings.h"

namespace lectern::doctor {

// Built-in texts to tokens and back. Fails where places in the text are wrong or a control token is
// made; warns where text comes back changed, as by vocabularies that normalise or lack characters.
Finding TestTokenizer(const Tokenizer& tokenizer);

// The first layer's output for a few tokens with the kernels of `fast`, against the scalar
// definitions.
Finding TestKernels(const Model& model, const Backend& fast, ThreadPool& threads);

}  // namespace lectern::doctor

#endif  // LECTERN_TOOLS_DOCTOR_SELF_TEST_H_
