// Reads the normalizer and the pre_tokenizer of a tokenizer.json into steps of TextRules.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_TOKENIZER_JSON_RULES_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_TOKENIZER_JSON_RULES_H_

#include <string>
#include <string_view>
#include <vector>

#include "engine/model/formats/json.h"
#include "engine/model/tokenizer/text_rules.h"
#include "store/status.h"

namespace lectern {

// JsonMember returns a member of an object, null where there is none; JsonType what its "type"
// says, "?" where it says nothing.
const Json& JsonMember(const Json& object, std::string_view key);
std::string_view JsonType(const Json& object);
bool JsonIsTrue(const Json& value);
std::string JsonExcerpt(const Json& value);
// Returns the parts of a Sequence, whose list is called `key`, or the one thing that there is.
std::vector<const Json*> JsonParts(const Json& value, std::string_view key);

// `path` only names the file in messages. kUnsupportedModel: a step that is not known or has no
// counterpart here. kMalformedModel.
Result<std::vector<NormalizerStep>> ReadJsonNormalizer(const Json& normalizer,
                                                       const std::string& path);

struct JsonPreTokenizer {
  std::vector<PreTokenizerStep> steps;
  bool is_byte_level = false;  // pieces are in GPT-2's alphabet
};
Result<JsonPreTokenizer> ReadJsonPreTokenizer(const Json& pre_tokenizer, const std::string& path);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_TOKENIZER_JSON_RULES_H_
