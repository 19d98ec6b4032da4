// Makes tokenizers of SentencePiece's vocabularies, whatever file they come from: tokenizer.model,
// tokenizer.json or GGUF.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_PIECE_TOKENIZER_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_PIECE_TOKENIZER_H_

#include <memory>
#include <string>

#include "engine/model/tokenizer/text_rules.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "engine/model/tokenizer/tokenizer_model.h"
#include "kernels/function_ref.h"

namespace lectern {

// Returns the rules from a text to words that follow from `model` alone; a tokenizer.json states
// others.
TextRules RulesOf(const TokenizerModel& model);

// Makes a tokenizer. `model`: checked (CheckTokenizerModel). `identity` returns the bytes that
// AddTo hashes; it is called once, while another thread makes tables of the same model. Codes of
// MakeVocabularyTokenizer.
Result<std::unique_ptr<Tokenizer>> MakePieceTokenizer(std::shared_ptr<const TokenizerModel> model,
                                                      TextRules rules,
                                                      FunctionRef<std::string()> identity);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_PIECE_TOKENIZER_H_
