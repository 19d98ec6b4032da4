// Reads the two files beside a tokenizer.model that change its vocabulary: the tokens that were
// added to it, and the settings with which transformers uses it. Tokenizer::Load calls them.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_ADDED_TOKENS_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_ADDED_TOKENS_H_

#include <string>
#include <string_view>

#include "engine/model/tokenizer/tokenizer_model.h"
#include "store/status.h"

namespace lectern {

// Reads an added_tokens.json, {"<|user|>": 32010, …}, into `model`. Marks of a template become
// control pieces; other tokens become user-defined pieces, which are found in raw text. Ids go on
// where the vocabulary ends, and may leave some out; an id of the vocabulary may be named again, or
// anew where its piece is a control piece or unused. `path` only names the file in messages.
// kMalformedModel (also an id from 2^20 on, two tokens of one id, and another text for the id of a
// piece that is neither a control piece nor unused), kLimitExceeded. After an error `model` is of
// no use; after success it is not checked yet (CheckTokenizerModel).
Status ReadAddedTokens(std::string_view json, const std::string& path, TokenizerModel* model);

// Reads a tokenizer_config.json; call it after ReadAddedTokens. It takes `added_tokens_decoder`,
// whose `special` tokens become control pieces; `bos_token` and `eos_token`, which become control
// pieces, too, and count as none (see TokenizerModel::assumptions) where the vocabulary lacks them;
// `add_bos_token`, which, if false, means that no text begins with the bos token; and
// `add_prefix_space`. `add_eos_token` changes nothing: a prompt is not the end of a text. A member
// that is missing changes nothing; a bos_token or eos_token that is null means none. Codes and
// state of `model` as for ReadAddedTokens.
Status ReadTokenizerConfig(std::string_view json, const std::string& path, TokenizerModel* model);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_ADDED_TOKENS_H_
