// Tests whether a model reads plain English as well as a sound file of it would, for
// lectern-doctor: it finds conversions that are broken though every number in them is finite.
#ifndef LECTERN_TOOLS_DOCTOR_READING_TEST_H_
#define LECTERN_TOOLS_DOCTOR_READING_TEST_H_

#include "engine/model/model.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"
#include "tools/doctor/findings.h"

namespace lectern::doctor {

// About how many tokens the test reads, in two texts of 200 words: for estimates of the time that
// it takes.
inline constexpr size_t kReadingTokens = 600;

// The paragraph that is read: some 200 words of plain English.
std::string_view ReadingParagraph();

// Compares the perplexity of a built-in paragraph under the whole model with that of the same words
// in another order. A sound model expects the first far better than the second; a broken conversion
// (rows in another order, another RoPE, norms without their 1) does not. The table in the .cc has
// what breaks look like. Warns, never fails: a model that was trained on no English looks the same.
//
// `model` must have all of its layers. On the CPU, with all of `threads`; takes the time of
// kReadingTokens tokens. kLimitExceeded: the paragraph has fewer than 3 or more than 4,800 tokens
// in this vocabulary. Codes of Tokenizer::Encode.
Result<Finding> TestReading(const Model& model, const Backend& backend, ThreadPool& threads);

}  // namespace lectern::doctor

#endif  // LECTERN_TOOLS_DOCTOR_READING_TEST_H_
