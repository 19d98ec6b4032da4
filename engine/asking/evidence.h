// Turns attention mass per token into evidence: passages of the document, and a judgement of how
// widely a question draws on it.
#ifndef LECTERN_ENGINE_ASKING_EVIDENCE_H_
#define LECTERN_ENGINE_ASKING_EVIDENCE_H_

#include <string_view>
#include <vector>

#include "engine/asking/evidence_passages.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "engine/requests/requests.h"

namespace lectern {

// Where words tell nothing, passages with a smaller share of the mass are no evidence. Measured
// with the bundled reader on generated documents of 3K to 16K tokens at budget 0.1: the first
// passage of 193 rightly answered questions had 0.312 or more; that of 125 answers "The document
// does not say." had at most 0.18. It holds for that reader alone: with SmolLM2-135M and Gemma 3
// 270M, four questions of five that a text does not answer have a passage of more, always the same
// few ones.
inline constexpr double kMinPassageMass = 0.2;

// Signals beside attention by which evidence is chosen. Each may be empty.
struct EvidenceSignals {
  // How far the passages share words with question and answer, [passages]: WordSupport::OfAnswer.
  std::span<const double> support, probability;
  // AttentionSums::retrieved, [tokens of the fixed context]; empty or all 0: the model has no heads
  // that retrieve, or they were not watched.
  std::span<const double> retrieved = {};
};

// The share of each passage in a mass per token, [passages]; all 0 without mass. A token counts for
// the passage that holds its last byte, because tokens begin with their space. May throw
// std::bad_alloc.
std::vector<double> SharesOfPassages(std::span<const Passage> passages,
                                     std::span<const TokenizedText::Range> ranges,
                                     std::span<const double> mass);

// The rank of a passage by its support and its share of the attention of heads that retrieve.
// Higher is better; for passages of one question.
double RankOf(double support, double retrieved);

// Finds the passages that support an answer, by its words and by its attention.
// `ranges` [tokens of the fixed context]: their bytes; template tokens have none.
// `mass` [tokens]: squares of the attention probabilities that the answer's steps gave to each
// token, summed over layers and heads, unnormalised.
// `signals`: without a support above 0, words tell nothing, and attention decides alone.
// Returns at most `max_passages`, best first; 0: none. Equal passages count once: their masses are
// added, the one of most support is returned and names the others' places. A passage's mass is its
// share of the text's, its score its probability. May throw std::bad_alloc.
//
// With words, passages that share any are ranked by support plus a weight times the logarithm of
// their share of the attention: that of the heads that retrieve, or else of all heads' squares
// (kRetrieval, kAttention, and how far below the best one they may be, kMostBelow: evidence.cc).
// Their scores, the probabilities that they support the answer, do not rank them: an answer may be
// wrong and copied from anywhere, and the passage that fits the question is then worth more. With a
// rule before, passages of at least kLeastScore came first, the likeliest was always shown, and
// those below 0.05 beside others were not. The right passage first / among three, 439 facts (the
// adapter: 354) about texts that no model was trained with, and of the rightly answered ones:
//                            before                         now
//   SmolLM2-135M      277/339, 21/26 of 26          312/372, 19/26 of 26
//   Gemma 3 270M      277/340, 56/58 of 61          308/380, 56/58 of 61
//   with an adapter   258/283, 192/194 of 196       268/316, 192/194 of 196
// Without words, passages are ranked by mass; neighbours of one kind under one heading are joined
// while they stay within kMostJoinedBytes (evidence.cc) and on one page, except those that have
// several places; and those of at least kMinPassageMass are returned. Their score is 0.
//
// Why squares: heads that retrieve look at few tokens. Squared, each probability counts by itself,
// and heads that look everywhere hardly count, without a table of heads.
// Measured on documents of 4K tokens and more against the plain sum, heads weighted by their
// concentration, and the 2, 4 or 8 heads that were most concentrated at the first step: squares and
// the sum put the fact first for 90 of 90 rightly answered single facts, squares by more (mass of
// the first passage minus that of the second: median 0.61 instead of 0.36, lowest tenth 0.38
// instead of 0.24). Choosing heads loses facts (77, 86 and 89 of 90).
std::vector<Evidence> FindEvidence(const PassagesOfText& document,
                                   std::span<const TokenizedText::Range> ranges,
                                   std::span<const double> mass, uint32_t max_passages,
                                   const EvidenceSignals& signals = {});

// The passages with the largest shares of the mass, largest first, at most kMostAttended; those
// without any are left out. May throw std::bad_alloc.
std::vector<AttendedPassage> FindAttended(std::span<const Passage> passages,
                                          std::span<const TokenizedText::Range> ranges,
                                          std::span<const double> mass);

// Whether one of these passages is likely to support the answer: its score is at least kLeastScore.
// With the models' own answers to 210 facts about 30 real texts, and to 248 questions that these
// texts do not answer (158 look as if they did), as many right answers had evidence, and as many
// unanswered questions had none (before retrieval heads ranked passages, the adapter after 1.05
// million tokens):
//                             right answers   of these, right passage first   unanswered
//   SmolLM2-135M                  24 of 29             21 of 23               198 of 248
//   Gemma 3 270M                  37 of 44             24 of 26               168 of 248
//   SmolLM2 with an adapter       53 of 55             49 of 51               216 of 248
//   bundled reader                 1 of 3               1 of 2                221 of 248
// Rules fitted to the same answers with more of their words, with attention and with the model's
// own probabilities separated no better in cross-validation over texts; nor does the share of
// retrieval heads (area under the curve with Gemma's answers 0.861 without and with it). The
// probability of an adapter's own refusal (Refusal in engine/model/adapter.h) adds little to the
// score, too: with 439 facts and 85 unanswered questions about six held-out documents, both
// together find 82 % of the latter where a tenth of the right answers is lost, the score alone
// 80 % (cross-validated over documents; areas 0.955 and 0.905).
bool HasEvidence(std::span<const Evidence> evidence);

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
