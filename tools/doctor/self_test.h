// Tests whether a model's tokenizer turns text into tokens and back without a fault.
#ifndef LECTERN_TOOLS_DOCTOR_SELF_TEST_H_
#define LECTERN_TOOLS_DOCTOR_SELF_TEST_H_

#include "engine/model/tokenizer/tokenizer.h"
#include "tools/doctor/findings.h"

namespace lectern::doctor {

// Turns built-in texts (English, white space, other scripts, code, text that looks like control
// tokens) into tokens and back. Fails where a token's place in the text is wrong or text becomes a
// control token, which would let a document speak as the system. Warns where a text comes back
// changed, as with vocabularies that normalise text or lack characters: such a model does not see
// the difference.
Finding TestTokenizer(const Tokenizer& tokenizer);

}  // namespace lectern::doctor

#endif  // LECTERN_TOOLS_DOCTOR_SELF_TEST_H_
