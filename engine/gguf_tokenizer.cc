// The vocabulary arrays of a GGUF file as a SentencePiece model or as byte pairs.
#include "engine/gguf_model.h"
#include "engine/safetensors.h"

namespace lectern {
namespace {

// Values of tokenizer.ggml.model.
constexpr std::string_view kSentencePiece = "llama", kBytePairs = "gpt2";

class TokenizerReader {
 public:
  TokenizerReader(const GgufTable& table, const std::string& path) : table_(table), path_(path) {}

  Result<TokenizerModel> Read() {
    LECTERN_RETURN_IF_ERROR(CheckKind());
    LECTERN_RETURN_IF_ERROR(ReadPieces());
    TakeMarksFromText(&model_);
    LECTERN_RETURN_IF_ERROR(ReadBool("tokenizer.ggml.add_space_prefix", &model_.add_dummy_prefix));
    model_.remove_extra_whitespaces = false;
    LECTERN_RETURN_IF_ERROR(
        ReadBool("tokenizer.ggml.remove_extra_whitespaces", &model_.remove_extra_whitespaces));
    LECTERN_RETURN_IF_ERROR(ReadMark("bos", &model_.bos_piece));
    LECTERN_RETURN_IF_ERROR(ReadMark("eos", &model_.eos_piece));
    return std::move(model_);
  }

  Result<BpeArrays> ReadBytePairs() {
    BpeArrays arrays;
    const std::string key = "tokenizer.ggml.pre";
    const auto* name = table_.Find<std::string_view>(key);
    if (name == nullptr) return Make(Code::kMalformedModel, key, "is missing");
    arrays.words = FindWordPatternByGgufName(*name);
    if (arrays.words == nullptr) {
      return Make(Code::kUnsupportedModel, key,
                  "is " + QuotedName(*name) + "; this build cuts words as " + KnownWordPatterns());
    }
    arrays.ignore_merges = arrays.words->ignore_merges;
    arrays.composes = arrays.words->composes;
    LECTERN_ASSIGN(const GgufArray* tokens, Array("tokenizer.ggml.tokens", true));
    for (const std::string_view text : tokens->Strings()) arrays.tokens.emplace_back(text);
    num_tokens_ = arrays.tokens.size();
    LECTERN_ASSIGN(arrays.types, ReadTypes());
    LECTERN_ASSIGN(const GgufArray* merges, Array("tokenizer.ggml.merges", true));
    for (const std::string_view text : merges->Strings()) arrays.merges.emplace_back(text);
    LECTERN_ASSIGN(const int64_t bos, MarkId("bos", arrays.words->adds_bos));
    LECTERN_ASSIGN(const int64_t eos, MarkId("eos", true));
    arrays.bos_id = static_cast<int32_t>(bos);
    arrays.eos_id = static_cast<int32_t>(eos);
    return arrays;
  }

 private:
  Status Make(Code code, const std::string& key, const std::string& what) const {
    return Status(code, path_ + ": \"" + key + "\" " + what).WithParam(key);
  }

  Status CheckKind() const {
    const std::string key = "tokenizer.ggml.model";
    const auto* name = table_.Find<std::string_view>(key);
    if (name == nullptr) return Make(Code::kMalformedModel, key, "is missing");
    if (*name == kSentencePiece || *name == kBytePairs) return {};
    return Make(Code::kUnsupportedModel, key,
                "is " + QuotedName(*name) +
                    "; this build runs \"llama\" (SentencePiece) and \"gpt2\" (byte-level BPE)");
  }

  // Of the array `key`, which must have as many items as there are pieces.
  Result<const GgufArray*> Array(const std::string& key, bool is_text) const {
    const auto* array = table_.Find<GgufArray>(key);
    if (array == nullptr) return Make(Code::kMalformedModel, key, "is missing or no array");
    const bool has_text = array->kind == GgufKind::kString;
    if (has_text != is_text || array->kind == GgufKind::kArray) {
      return Make(Code::kMalformedModel, key,
                  std::string("is no array of ") + (is_text ? "strings" : "numbers"));
    }
    if (is_text || array->count == num_tokens_) return array;
    return Make(Code::kMalformedModel, key,
                "has " + std::to_string(array->count) + " items for " +
                    std::to_string(num_tokens_) + " tokens");
  }

  Status ReadPieces() {
    model_.kind = TokenizerModel::Kind::kBpe;
    LECTERN_ASSIGN(const GgufArray* tokens, Array("tokenizer.ggml.tokens", true));
    for (const std::string_view text : tokens->Strings()) {
      model_.pieces.push_back({.text = std::string(text)});
    }
    num_tokens_ = model_.pieces.size();
    LECTERN_ASSIGN(const GgufArray* scores, Array("tokenizer.ggml.scores", false));
    const std::vector<double> numbers = scores->Numbers();
    LECTERN_ASSIGN(const std::vector<PieceType> types, ReadTypes());
    for (size_t id = 0; id < num_tokens_; ++id) {
      TokenizerPiece& piece = model_.pieces[id];
      piece.score = static_cast<float>(numbers[id]);
      piece.type = types[id];
      model_.byte_fallback |= piece.type == PieceType::kByte;
    }
    return {};
  }

  Result<std::vector<PieceType>> ReadTypes() const {
    const std::string key = "tokenizer.ggml.token_type";
    LECTERN_ASSIGN(const GgufArray* array, Array(key, false));
    std::vector<PieceType> types;
    for (const double kind : array->Numbers()) {
      if (!(kind >= 1 && kind <= 6)) {
        return Make(Code::kMalformedModel, key,
                    "has a type that does not exist, of token " + std::to_string(types.size()));
      }
      types.push_back(static_cast<PieceType>(static_cast<int>(kind)));
    }
    return types;
  }

  Status ReadBool(const std::string& key, bool* out) const {
    if (!table_.keys.contains(key)) return {};
    const bool* value = table_.Find<bool>(key);
    if (value == nullptr) return Make(Code::kMalformedModel, key, "must be true or false");
    *out = *value;
    return {};
  }

  // "tokenizer.ggml.<which>_token_id"; -1 where there is none or it is not put before a text
  // ("add_bos_token", or else `is_added`). The end of a text is one whether it is added or not.
  Result<int64_t> MarkId(const std::string& which, bool is_added) const {
    const std::string key = "tokenizer.ggml." + which + "_token_id";
    if (which == "bos") {
      LECTERN_RETURN_IF_ERROR(ReadBool("tokenizer.ggml.add_bos_token", &is_added));
    }
    if (!table_.keys.contains(key) || !is_added) return int64_t{-1};
    const std::optional<uint64_t> id = table_.Whole(key);
    if (id && *id < num_tokens_) return static_cast<int64_t>(*id);
    return Make(Code::kMalformedModel, key,
                "must be a token id below " + std::to_string(num_tokens_));
  }

  // Its piece; "" where there is none.
  Status ReadMark(const std::string& which, std::string* piece) const {
    piece->clear();
    LECTERN_ASSIGN(const int64_t id, MarkId(which, true));
    if (id < 0) return {};
    const TokenizerPiece& found = model_.pieces[static_cast<size_t>(id)];
    if (found.type != PieceType::kControl) {
      return Make(Code::kUnsupportedModel, "tokenizer.ggml." + which + "_token_id",
                  "names token " + QuotedName(found.text) + ", which is not a control token");
    }
    *piece = found.text;
    return {};
  }

  const GgufTable& table_;
  const std::string& path_;
  TokenizerModel model_;
  size_t num_tokens_ = 0;
};

}  // namespace

Result<TokenizerModel> ReadGgufTokenizer(const GgufTable& table, const std::string& path) {
  return TokenizerReader(table, path).Read();
}

bool IsGgufBytePairs(const GgufTable& table) {
  const auto* name = table.Find<std::string_view>("tokenizer.ggml.model");
  return name != nullptr && *name == kBytePairs;
}

Result<BpeArrays> ReadGgufBytePairs(const GgufTable& table, const std::string& path) {
  return TokenizerReader(table, path).ReadBytePairs();
}

std::string IdentityOf(const BpeArrays& arrays) {
  std::string identity = "byte pairs\n" + std::string(arrays.words->name) + '\n' +
                         std::to_string(arrays.bos_id) + ' ' + std::to_string(arrays.eos_id) + '\n';
  for (size_t id = 0; id < arrays.tokens.size(); ++id) {
    identity += std::to_string(static_cast<int>(arrays.types[id])) + arrays.tokens[id] + '\n';
  }
  for (const std::string& merge : arrays.merges) identity += merge + '\n';
  return identity;
}

}  // namespace lectern
