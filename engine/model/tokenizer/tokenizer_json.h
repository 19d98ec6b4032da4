// Reads a tokenizer.json of Hugging Face's tokenizers, which is untrusted JSON, into a tokenizer.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_TOKENIZER_JSON_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_TOKENIZER_JSON_H_

#include <memory>
#include <string>
#include <string_view>

#include "engine/model/tokenizer/tokenizer.h"
#include "store/status.h"

namespace lectern {

// Makes the tokenizer that a tokenizer.json describes; `path` only names the file in messages. Its
// normalizer and pre_tokenizer are done step by step (tokenizer_json_rules.h); its model is BPE
// (byte-level, or of text with byte_fallback) or Unigram. Added tokens that are special, or marks
// of a template, are control tokens; the others are found in raw text. `truncation`, `padding` and
// `decoder` are ignored; of `post_processor` the token that it puts before a text is read (bos).
// The file names no end of text: eos_id() is -1.
//
// kUnsupportedModel: a member that would change results and is not implemented, such as other
// models, dropout, prefixes and suffixes of words. kMalformedModel, kLimitExceeded (more than 64
// MiB, or the limits of BpeModel::Make). Codes of MakeVocabularyTokenizer.
Result<std::unique_ptr<Tokenizer>> MakeJsonTokenizer(std::string_view bytes,
                                                     const std::string& path);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_TOKENIZER_JSON_H_
