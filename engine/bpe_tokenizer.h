// Byte-level BPE: text to tokens by merging pairs, the most important first.
#ifndef LECTERN_ENGINE_BPE_TOKENIZER_H_
#define LECTERN_ENGINE_BPE_TOKENIZER_H_

#include <memory>
#include <string>

#include "engine/bpe_model.h"
#include "engine/tokenizer.h"

namespace lectern {

// `file`: the bytes that the vocabulary came from, for AddTo. There is no dummy prefix: a text is
// encoded alike wherever it stands. kInternal: the pattern does not compile.
Result<std::unique_ptr<Tokenizer>> MakeBpeTokenizer(BpeModel model, std::string file);

}  // namespace lectern

#endif  // LECTERN_ENGINE_BPE_TOKENIZER_H_
