// Chooses the part of a document that a question's words, and the model's retrieval heads, point to,
// for focused reading: answers are then made from that part alone. Small models find a fact among thousands of tokens badly, and
// among a few hundred well.
#ifndef LECTERN_ENGINE_ASKING_FOCUS_H_
#define LECTERN_ENGINE_ASKING_FOCUS_H_

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "engine/document/document.h"
#include "store/status.h"

namespace lectern {

// So many passages with the most support by the question's words are read, each with its neighbours
// and its headings. Right answers to 96 facts about five joined texts of 1.4K to 6K tokens:
//   passages                          3    5    8   12   18   25   all, at the automatic budget
//   SmolLM2-135M                     12   11   10   11    -    -    6
//   Gemma 3 270M                      -   19    -   20    -    -   12
//   SmolLM2-135M with an adapter     46   46   35   37   36   32   23
// Without neighbours the last row is 42 (5) to 38 (25), with two on each side 41 to 31.
inline constexpr size_t kFocusedPassages = 5;

// [tokens of the fixed context]: whether focused reading reads the token. `retrieved`: where the
// model's retrieval heads looked from the question (AttentionSums::retrieved); passages are then
// ranked by RankOf. Empty or all 0: by words alone; then no token is read if no passage shares a
// word with the question, or the question has stop words alone. Codes of Document::words and
// WordSupport. Thread-safe.
//
// How often the right passage was among the five, or beside one of these, with the adapter of
// tools/reader after 1.05 million tokens: by words alone 27 of 40 facts about five real documents,
// with its heads 34 (weight 1), 35 (3 and 6).
Result<std::vector<bool>> FocusTokens(const Document& document, std::string_view question,
                                      std::span<const double> retrieved = {});

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_FOCUS_H_
