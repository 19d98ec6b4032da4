// Turns attention mass per token into evidence: passages of the document, and a judgement of how
// widely a question draws on it.
#ifndef LECTERN_ENGINE_ASKING_EVIDENCE_H_
#define LECTERN_ENGINE_ASKING_EVIDENCE_H_

#include <string_view>
#include <vector>

#include "engine/document/page_map.h"
#include "engine/document/passages.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "engine/requests/requests.h"

namespace lectern {

// Passages with a smaller share of the mass are no evidence. Measured with the bundled reader on
// generated documents of 3K to 16K tokens at budget 0.1: the first passage of 193 rightly answered
// questions had 0.312 or more; that of 125 answers "The document does not say." had at most 0.18
// (0.146 for the 79 on 4K tokens and more).
inline constexpr double kMinPassageMass = 0.2;

// Finds the passages that the answer used.
// `mass` [tokens of the fixed context]: squares of the attention probabilities that the answer's
// steps gave to each token, summed over layers and heads, unnormalised. `ranges` [tokens]: their
// bytes; template tokens have none.
// `passages`: the text's (SplitPassages). Those with equal words (PlainText) count once: their
// masses are added, the first is returned and names the others' places. The best `max_passages` by
// mass are taken; neighbours of one kind under one heading are joined while they stay within
// kMaxPassageBytes and on one of `pages`, except those that have several places. Those of at least
// kMinPassageMass are returned, largest first, with their headings and pages. A passage's mass is
// its share of the whole text's. Attention shows what was used; it does not prove support.
//
// Why squares: heads that retrieve look at few tokens. Squared, each probability counts by itself,
// and heads that look everywhere hardly count, without a table of heads.
// Measured on documents of 4K tokens and more against the plain sum, heads weighted by their
// concentration, and the 2, 4 or 8 heads that were most concentrated at the first step: squares and
// the sum put the fact first for 90 of 90 rightly answered single facts, squares by more (mass of
// the first passage minus that of the second: median 0.61 instead of 0.36, lowest tenth 0.38
// instead of 0.24). Choosing heads loses facts (77, 86 and 89 of 90).
// `support` [passages], of WordSupport for question and answer, joins attention where it is there:
// passages are then ranked by both, stay single, and are returned also for less attention than
// kMinPassageMass if SupportProbability calls them more likely than not. Where that leaves none,
// attention alone decides.
std::vector<Evidence> FindEvidence(std::string_view text, std::span<const Passage> passages,
                                   std::span<const TokenizedText::Range> ranges,
                                   std::span<const double> mass, uint32_t max_passages,
                                   std::span<const PageMapEntry> pages = {},
                                   std::span<const double> support = {});

// How widely the last token of a question attends to the text, from its prefill at a budget. A
// question about the whole document (count, summarise) has no passage that stands out, or much of
// its attention lies on rows that were not read.
struct Spread {
  double best_passage = 0;  // share of the attention paid to the text, unread rows included
  double missed = 0;        // estimated share of unread rows
  bool IsWide() const;
};
// Limits of IsWide. Measured on 456 prefills of the bundled reader (eight documents of 8K tokens)
// at budgets 0.2, 0.1 and 0.05, the questions found wide were: 1, 31 and 31 of 40 like "Summarise
// the document."; 0, 1 and 1 of 3 about common words; 1, 4 and 4 of 5 of variable tracking; 2, 4
// and 9 of 104 others. The mean of missed mass over all rows of a question depends more on the
// budget than on the question, so only the last row counts.
inline constexpr double kLeastBestPassage = 0.17, kLittleMissed = 0.05, kMostMissed = 0.3;
// `mass` [tokens]: attention probabilities (not squared) of the rows that were read, summed over
// layers and heads. `document_mass`: an estimate of the same sum over all rows, read or not.
Spread FindSpread(std::span<const Passage> passages, std::span<const TokenizedText::Range> ranges,
                  std::span<const double> mass, double document_mass);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_EVIDENCE_H_
