// Makes the tokenizer that all kinds of vocabularies share: it finds literals, normalises, cuts
// words and has these turned into pieces by the vocabulary's WordModel.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_VOCABULARY_TOKENIZER_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_VOCABULARY_TOKENIZER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/tokenizer/control_tokens.h"
#include "engine/model/tokenizer/text_list.h"
#include "engine/model/tokenizer/text_rules.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "engine/model/tokenizer/word_model.h"

namespace lectern {

// Everything that such a tokenizer is made of.
struct VocabularyParts {
  std::string_view kind;           // "SentencePiece"; a literal of the program
  std::string identity;            // what AddTo hashes
  TextList bytes;                  // [id]: TokenBytes
  ControlTokens controls;
  int32_t bos_id = -1, eos_id = -1;
  int32_t unknown_id = -1;  // -1: bytes without a piece become nothing
  bool joins_unknown = false;  // neighbouring unknown pieces are one
  TextRules rules;
  std::unique_ptr<WordModel> model;
  std::vector<std::string> assumptions;
};

// Makes the tokenizer and compiles its expressions. kUnsupportedModel: an expression that cannot be
// used. kMalformedModel: a bad charsmap. Where TextRules::normalizes_literals is set, also codes of
// Normalizer::Apply. kOutOfMemory.
Result<std::unique_ptr<Tokenizer>> MakeVocabularyTokenizer(VocabularyParts parts);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_VOCABULARY_TOKENIZER_H_
