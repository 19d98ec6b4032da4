// Makes tokenizers of byte-pair vocabularies, which turn a text into tokens by merging pairs, the
// most important first.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_BPE_TOKENIZER_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_BPE_TOKENIZER_H_

#include <memory>
#include <string>
#include <vector>

#include "engine/model/tokenizer/bpe_model.h"
#include "engine/model/tokenizer/text_rules.h"
#include "engine/model/tokenizer/tokenizer.h"

namespace lectern {

// Makes a tokenizer. `identity`: the bytes that AddTo hashes; `assumptions`: for
// Tokenizer::assumptions. Codes of MakeVocabularyTokenizer.
Result<std::unique_ptr<Tokenizer>> MakeBpeTokenizer(BpeModel model, TextRules rules,
                                                    std::string identity,
                                                    std::vector<std::string> assumptions = {});

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_BPE_TOKENIZER_H_
