// Tests whether a model reads plain English, as a model does whose file is not damaged.
#ifndef LECTERN_TOOLS_DOCTOR_READING_TEST_H_
#define LECTERN_TOOLS_DOCTOR_READING_TEST_H_

#include "engine/model/model.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"
#include "tools/doctor/findings.h"

namespace lectern::doctor {

// Tokens that the model reads for it, about: for estimates of the time that it takes.
inline constexpr size_t kReadingTokens = 600;

std::string_view ReadingParagraph();  // what is read

// The perplexity of a built-in paragraph under the whole model, and of the same words in another
// order. A model that reads expects the first far better than the second; one whose conversion is
// broken (rows in another order, another RoPE, norms without their 1) does not.
// kLimitExceeded: the vocabulary has no tokens for it. Codes of Tokenizer::Encode.
Result<Finding> TestReading(const Model& model, const Backend& backend, ThreadPool& threads);

}  // namespace lectern::doctor

#endif  // LECTERN_TOOLS_DOCTOR_READING_TEST_H_
