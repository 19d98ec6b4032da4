// Tests whether a model's tokenizer turns text into tokens and back without a fault.
#ifndef LECTERN_TOOLS_DOCTOR_SELF_TEST_H_
#define LECTERN_TOOLS_DOCTOR_SELF_TEST_H_

#include "engine/model/tokenizer/tokenizer.h"
#include "tools/doctor/findings.h"

namespace lectern::doctor {

// Turns built-in texts into tokens and back. Fails where places in the text are wrong or a control
// token is made; warns where text comes back changed, as by vocabularies that normalise or lack
// characters.
Finding TestTokenizer(const Tokenizer& tokenizer);

}  // namespace lectern::doctor

#endif  // LECTERN_TOOLS_DOCTOR_SELF_TEST_H_
