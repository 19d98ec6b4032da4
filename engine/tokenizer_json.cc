// Fields: the serialisation of huggingface/tokenizers, which nothing but its code describes.
#include "engine/tokenizer_json.h"

#include <algorithm>

#include "engine/json.h"
#include "engine/text.h"

namespace lectern {
namespace {

// As long as published files are, several times over: 17 MB, 150K pieces, 440K merges of two items.
constexpr size_t kMaxTokenizerJson = size_t{64} << 20;
constexpr JsonLimits kTokenizerLimits = {.max_depth = 16, .max_values = size_t{1} << 23};
constexpr uint64_t kMaxId = size_t{1} << 20;

const Json kNull;

// Members of an object; null for what is not there.
const Json& Member(const Json& object, std::string_view key) {
  const Json* member = object.Find(key);
  return member == nullptr ? kNull : *member;
}

std::string_view TypeOf(const Json& object) {
  const std::string* type = Member(object, "type").string();
  return type == nullptr ? std::string_view("?") : std::string_view(*type);
}

bool IsTrue(const Json& value) { return value.boolean() != nullptr && *value.boolean(); }

// Unless it is there and false: what the library takes a missing one for.
bool IsTrueByDefault(const Json& value) { return value.boolean() == nullptr || *value.boolean(); }

std::string Excerpt(const Json& value) {
  std::string text = value.Dump();
  return text.size() <= 300 ? text : CleanUtf8(text.substr(0, 300)).text + "…";
}

// The parts of a Sequence, whose list is called `key`, or the one thing that there is.
std::vector<const Json*> Parts(const Json& value, std::string_view key) {
  if (value.is_null()) return {};
  if (TypeOf(value) != "Sequence") return {&value};
  std::vector<const Json*> parts;
  if (const Json::Array* items = Member(value, key).array()) {
    for (const Json& item : *items) parts.push_back(&item);
  }
  return parts;
}

class TokenizerJsonReader {
 public:
  explicit TokenizerJsonReader(const std::string& path) : path_(path) {}

  Result<BpeModel> Read(std::string_view bytes) {
    // Most of the file; as a tree it takes twice the time and ten times the memory.
    const std::vector<JsonStream> streams = {
        {"model.vocab", true,
         [this](std::string& text, const Json& id) {
           return Place(std::move(text), id, PieceType::kNormal);
         }},
        {"model.merges", false,
         [this](std::string&, const Json& merge) { return ReadMerge(merge); }}};
    const Result<Json> root = ParseJson(bytes, kTokenizerLimits, streams);
    if (root.ok()) return Read(*root);
    const bool is_named = root.status().message().starts_with(path_);
    return is_named ? root.status()
                    : Status(root.status().code(), path_ + ": " + root.status().message());
  }

 private:
  Result<BpeModel> Read(const Json& root) {
    if (root.object() == nullptr) return Malformed("it is not an object");
    const Json& model = Member(root, "model");
    LECTERN_RETURN_IF_ERROR(CheckModel(model));
    LECTERN_RETURN_IF_ERROR(ReadNormalizer(Member(root, "normalizer")));
    LECTERN_RETURN_IF_ERROR(ReadPreTokenizer(Member(root, "pre_tokenizer")));
    if (Member(model, "vocab").object() == nullptr) return Malformed("\"vocab\" is not an object");
    if (Member(model, "merges").array() == nullptr) return Malformed("\"merges\" is not a list");
    LECTERN_RETURN_IF_ERROR(ReadAddedTokens(Member(root, "added_tokens")));
    LECTERN_RETURN_IF_ERROR(ReadPostProcessor(Member(root, "post_processor")));
    arrays_.ignore_merges = IsTrue(Member(model, "ignore_merges"));
    return BpeModel::Make(std::move(arrays_), path_);
  }

  Status CheckModel(const Json& model) const {
    if (model.object() == nullptr) return Malformed("it has no \"model\"");
    const Json& type = Member(model, "type");
    if (!type.is_null() && TypeOf(model) != "BPE") {
      return Unsupported("model type " + Excerpt(type) + "; supported: BPE");
    }
    if (IsTrue(Member(model, "byte_fallback"))) return SentencePieceNeeded("byte_fallback");
    if (const Json& dropout = Member(model, "dropout"); dropout.number().value_or(0) != 0) {
      return Unsupported("dropout " + Excerpt(dropout) + "; supported: none");
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json& value = Member(model, key);
      if (value.is_null() || (value.string() != nullptr && value.string()->empty())) continue;
      return Unsupported(std::string(key) + " " + Excerpt(value) + "; supported: none");
    }
    return Status();  // unk_token is never used: BpeModel has a piece for every byte
  }

  Status ReadNormalizer(const Json& normalizer) {
    for (const Json* part : Parts(normalizer, "normalizers")) {
      if (TypeOf(*part) != "NFC") {
        return Unsupported("normalizer " + Excerpt(*part) + "; supported: NFC, none");
      }
      arrays_.composes = true;
    }
    return Status();
  }

  Status ReadPreTokenizer(const Json& pre_tokenizer) {
    const std::vector<const Json*> parts = Parts(pre_tokenizer, "pretokenizers");
    for (const Json* part : parts) {
      if (TypeOf(*part) == "Metaspace") return SentencePieceNeeded("Metaspace");
    }
    if (parts.empty() || parts.size() > 2 || TypeOf(*parts.back()) != "ByteLevel") {
      return UnknownPreTokenizer(pre_tokenizer);
    }
    const Json& byte_level = *parts.back();
    if (IsTrueByDefault(Member(byte_level, "add_prefix_space"))) {
      return Unsupported("pre_tokenizer with add_prefix_space true; supported: false");
    }
    const bool uses_regex = IsTrueByDefault(Member(byte_level, "use_regex"));
    if (parts.size() == 1) {
      if (uses_regex) arrays_.words = &WordPatternNamed("gpt2");
    } else if (TypeOf(*parts[0]) == "Digits") {
      const bool single = IsTrue(Member(*parts[0], "individual_digits"));
      if (uses_regex && single) arrays_.words = &WordPatternNamed("smollm");
    } else if (TypeOf(*parts[0]) == "Split" && !uses_regex) {
      arrays_.words = FindSplit(*parts[0]);
    }
    return arrays_.words == nullptr ? UnknownPreTokenizer(pre_tokenizer) : Status();
  }

  // As the patterns match every character, both ways to write a split keep all of the text.
  static const WordPattern* FindSplit(const Json& split) {
    const std::string* regex = Member(Member(split, "pattern"), "Regex").string();
    const std::string* behavior = Member(split, "behavior").string();
    const bool inverts = IsTrue(Member(split, "invert"));
    if (regex == nullptr || behavior == nullptr) return nullptr;
    if (*behavior != "Isolated" && !(*behavior == "Removed" && inverts)) return nullptr;
    return FindWordPatternByRegex(*regex);
  }

  Status ReadAddedTokens(const Json& added) {
    if (added.is_null()) return Status();
    if (added.array() == nullptr) return Malformed("\"added_tokens\" is not a list");
    for (const Json& token : *added.array()) {
      const std::string* content = Member(token, "content").string();
      if (content == nullptr) return Malformed("an added token has no \"content\"");
      const PieceType type =
          IsTrue(Member(token, "special")) ? PieceType::kControl : PieceType::kUserDefined;
      LECTERN_RETURN_IF_ERROR(Place(*content, Member(token, "id"), type));
    }
    return Status();
  }

  // An added token may be in the vocabulary, too; holes between ids are unused pieces.
  Status Place(std::string text, const Json& id_value, PieceType type) {
    const auto id = id_value.unsigned_integer();
    if (!id || *id >= kMaxId) {
      return Malformed("the id of piece " + Excerpt(Json(text)) + " is " + Excerpt(id_value) +
                       "; it must be a whole number below " + std::to_string(kMaxId));
    }
    if (*id >= arrays_.tokens.size()) {
      arrays_.tokens.resize(*id + 1);
      arrays_.types.resize(*id + 1, PieceType::kUnused);
    }
    const bool same = type != PieceType::kNormal && arrays_.types[*id] == PieceType::kNormal &&
                      arrays_.tokens[*id] == text;
    if (arrays_.types[*id] != PieceType::kUnused && !same) {
      return Malformed("pieces " + Excerpt(Json(arrays_.tokens[*id])) + " and " +
                       Excerpt(Json(text)) + " both have the id " + std::to_string(*id));
    }
    arrays_.tokens[*id] = std::move(text);
    arrays_.types[*id] = type;
    return Status();
  }

  // "left right", or a list of the two.
  Status ReadMerge(const Json& merge) {
    const Json::Array* pair = merge.array();
    if (const std::string* text = merge.string()) {
      arrays_.merges.push_back(*text);
    } else if (pair != nullptr && pair->size() == 2 && (*pair)[0].string() != nullptr &&
               (*pair)[1].string() != nullptr) {
      arrays_.merges.push_back(*(*pair)[0].string() + ' ' + *(*pair)[1].string());
    } else {
      return Malformed("merge " + std::to_string(arrays_.merges.size()) + " is " + Excerpt(merge) +
                       ", not two pieces");
    }
    return Status();
  }

  // Puts bos before a text: {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": …}]}.
  Status ReadPostProcessor(const Json& processor) {
    for (const Json* part : Parts(processor, "processors")) {
      if (TypeOf(*part) == "ByteLevel") continue;  // trims offsets
      if (TypeOf(*part) != "TemplateProcessing") {
        return Unsupported("post_processor " + Excerpt(*part) +
                           "; supported: ByteLevel, TemplateProcessing, none");
      }
      const Json::Array* single = Member(*part, "single").array();
      if (single == nullptr || single->empty()) return Malformed("a template has no \"single\"");
      const Json& first = Member(single->front(), "SpecialToken");
      if (first.is_null()) continue;
      const std::string* text = Member(first, "id").string();
      const auto at = text == nullptr
                          ? arrays_.tokens.end()
                          : std::find(arrays_.tokens.begin(), arrays_.tokens.end(), *text);
      if (at == arrays_.tokens.end()) {
        return Malformed("post_processor: " + Excerpt(first) + " is no token");
      }
      arrays_.bos_id = static_cast<int32_t>(at - arrays_.tokens.begin());
    }
    return Status();
  }

  Status UnknownPreTokenizer(const Json& pre_tokenizer) const {
    return Unsupported("pre_tokenizer " + Excerpt(pre_tokenizer) + "; supported: those of " +
                       KnownWordPatterns());
  }
  Status SentencePieceNeeded(const std::string& sign) const {
    return Unsupported(sign +
                       " is that of a SentencePiece vocabulary; put the model's "
                       "tokenizer.model beside it");
  }
  Status Malformed(const std::string& what) const {
    return Status(Code::kMalformedModel, path_ + ": " + what);
  }
  Status Unsupported(const std::string& what) const {
    return Status(Code::kUnsupportedModel, path_ + ": " + what);
  }

  const std::string& path_;
  BpeArrays arrays_;
};

}  // namespace

Result<BpeModel> ParseTokenizerJson(std::string_view bytes, const std::string& path) {
  if (bytes.size() > kMaxTokenizerJson) {
    return Status(Code::kLimitExceeded,
                  path + ": larger than " + std::to_string(kMaxTokenizerJson) + " bytes");
  }
  return TokenizerJsonReader(path).Read(bytes);
}

}  // namespace lectern
