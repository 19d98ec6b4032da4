// Reads the normalizer and the pre_tokenizer of a tokenizer.json into steps of TextRules, for
// tokenizer_json.cc.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_TOKENIZER_JSON_RULES_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_TOKENIZER_JSON_RULES_H_

#include <string>
#include <string_view>
#include <vector>

#include "engine/model/formats/json.h"
#include "engine/model/tokenizer/text_rules.h"
#include "store/status.h"

namespace lectern {

// Returns a member of an object, a reference into it; a null value, which is static, where there is
// none, or `object` is no object.
const Json& JsonMember(const Json& object, std::string_view key);
// Returns the text of "type", a view into `object`; "?" where there is none.
std::string_view JsonType(const Json& object);
// Whether a value is true; false for everything else, a missing one too.
bool JsonIsTrue(const Json& value);
// The value for a message, cut to 300 bytes.
std::string JsonExcerpt(const Json& value);
// Returns the parts of a "Sequence", whose list is called `key`, none where it has no list; the
// value itself if it is of another type; nothing for null. Pointers are into `value`.
std::vector<const Json*> JsonParts(const Json& value, std::string_view key);

// Reads a normalizer, sequences in sequences included; null has no steps. `path` only names the
// file in messages. kUnsupportedModel: a step that is not known or has no counterpart here.
// kMalformedModel: a step without its fields. Expressions are not compiled here.
Result<std::vector<NormalizerStep>> ReadJsonNormalizer(const Json& normalizer,
                                                       const std::string& path);

// The steps of a pre_tokenizer.
struct JsonPreTokenizer {
  std::vector<PreTokenizerStep> steps;
  bool is_byte_level = false;  // pieces are in GPT-2's alphabet
};
// The same for the pre_tokenizer. kMalformedModel: a Split without its pattern or behavior, a
// behavior that does not exist, a Metaspace replacement that is not one character. Other fields
// that are missing have the defaults of Hugging Face's tokenizers. kUnsupportedModel also behind
// ByteLevel, for all but Digits and Splits by plain ASCII.
Result<JsonPreTokenizer> ReadJsonPreTokenizer(const Json& pre_tokenizer, const std::string& path);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_TOKENIZER_JSON_RULES_H_
