// Makes tokenizers of SentencePiece's vocabularies, whatever file they come from.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_PIECE_TOKENIZER_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_PIECE_TOKENIZER_H_

#include <memory>
#include <string>

#include "engine/model/tokenizer/text_rules.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "engine/model/tokenizer/tokenizer_model.h"

namespace lectern {

// Returns the rules that follow from `model` alone.
TextRules RulesOf(const TokenizerModel& model);

// `model`: checked (CheckTokenizerModel); `identity`: what AddTo hashes.
Result<std::unique_ptr<Tokenizer>> MakePieceTokenizer(TokenizerModel model, TextRules rules,
                                                      std::string identity);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_PIECE_TOKENIZER_H_
