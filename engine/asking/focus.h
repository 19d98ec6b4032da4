// Chooses the part of a document that a question's words, and the model's retrieval heads, point
// to, for focused reading: answers are then made from that part alone. Small models find a fact
// among thousands of tokens badly, and among a few hundred well.
#ifndef LECTERN_ENGINE_ASKING_FOCUS_H_
#define LECTERN_ENGINE_ASKING_FOCUS_H_

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "engine/document/document.h"
#include "store/status.h"

namespace lectern {

// So many of the passages that fit the question best are read, each with its neighbours and its
// headings. Right answers to 96 facts about five joined texts of 1.4K to 6K tokens, chosen by words
// and retrieval heads:
//   passages                          1    2    3    5   all, at the automatic budget
//   SmolLM2-135M                     12   11    -    -    6
//   Gemma 3 270M                     16   20   20    -   12
//   SmolLM2-135M with an adapter     55   53   47   44   23 (after 0.6 of 2.6 million tokens)
// With one, the last refuses 12 facts wrongly, with two 9. By words alone, and with an adapter that
// was trained on more passages, 5 were best: two or fewer had missed the answer too often.
inline constexpr size_t kFocusedPassages = 2;

// Whether a focus helps a model is not to be seen from the 48 planted facts
// (engine/indexing/planted_facts.h) and answers forced on the model: log-probability a token of the
// true answer, with a focus less with all of the text in view, mean and standard error, in nats:
//   text                              0.7K tokens     the same among 1K tokens of other text
//   SmolLM2-135M                     0.18 +- 0.11     0.20 +- 0.20
//   Gemma 3 270M                    -0.02 +- 0.05    -0.26 +- 0.10
//   SmolLM2-135M with an adapter     0.33 +- 0.09
//   bundled reader                   0.59 +- 0.19
// A focus doubles the right answers of the first three about 5K tokens, and the last one has none
// to such text: what a focus changes most about so short a text is how an answer begins.

// [tokens of the fixed context]: whether focused reading reads the token. `retrieved`: where the
// model's retrieval heads looked from the question (AttentionSums::retrieved); passages are then
// ranked by RankOf. Empty or all 0: by words alone; then no token is read if no passage shares a
// word with the question, or the question has stop words alone. Codes of Document::words and
// WordSupport. Thread-safe.
//
// How often the right passage was among the best five, or beside one of these, with the adapter of
// tools/reader after 1.05 million tokens: by words alone 27 of 40 facts about five real documents,
// with its heads 34 (weight 1), 35 (3 and 6).
Result<std::vector<bool>> FocusTokens(const Document& document, std::string_view question,
                                      std::span<const double> retrieved = {});

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_FOCUS_H_
