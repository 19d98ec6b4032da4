// The steps from a text to words, as a vocabulary's file describes them. tokenizer_json_rules.cc,
// piece_tokenizer.cc and gguf_tokenizer.cc make them; vocabulary_tokenizer.cc carries them out.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_TEXT_RULES_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_TEXT_RULES_H_

#include <vector>

#include "engine/model/tokenizer/literals.h"
#include "engine/model/tokenizer/normalizer.h"
#include "engine/model/tokenizer/pre_tokenizer.h"

namespace lectern {

// The rules of one vocabulary. The members are applied in this order; each stretch between literals
// goes through the rest by itself.
struct TextRules {
  std::vector<Literal> literals;  // found in the raw text, before anything else
  LiteralOrder literal_order = LiteralOrder::kFromLeft;
  std::vector<NormalizerStep> normalizer;
  std::vector<Literal> kept;                 // by a step kSentencePiece
  std::vector<Literal> normalized_literals;  // found in the normalised text
  bool normalizes_literals = false;  // normalized_literals are not written in that form yet
  std::vector<PreTokenizerStep> words;  // cut what is left into words
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_TEXT_RULES_H_
