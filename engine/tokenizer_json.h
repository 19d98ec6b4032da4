// A tokenizer.json (Hugging Face tokenizers), read by us: untrusted JSON in, a checked byte-level
// BPE vocabulary out.
#ifndef LECTERN_ENGINE_TOKENIZER_JSON_H_
#define LECTERN_ENGINE_TOKENIZER_JSON_H_

#include <string>
#include <string_view>

#include "engine/bpe_model.h"
#include "store/status.h"

namespace lectern {

// `path` only names the file in messages. What would change results and is not done here is refused
// by name: another model than byte-level BPE, dropout, prefixes and suffixes of words, normalizers
// but NFC, pre-tokenizers but the published patterns (pre_tokenizer.h), added tokens that are found
// in raw text (bpe_model.h). `truncation`, `padding` and `decoder` are not for what we do; of
// `post_processor` the token that it puts before a text is read (bos).
// kMalformedModel, kLimitExceeded, kUnsupportedModel.
Result<BpeModel> ParseTokenizerJson(std::string_view bytes, const std::string& path);

}  // namespace lectern

#endif  // LECTERN_ENGINE_TOKENIZER_JSON_H_
