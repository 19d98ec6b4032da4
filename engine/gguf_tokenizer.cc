// The vocabulary arrays of a GGUF file as a SentencePiece model.
#include "engine/gguf_model.h"
#include "engine/safetensors.h"

namespace lectern {
namespace {

class TokenizerReader {
 public:
  TokenizerReader(const GgufTable& table, const std::string& path) : table_(table), path_(path) {}

  Result<TokenizerModel> Read() {
    LECTERN_RETURN_IF_ERROR(CheckKind());
    LECTERN_RETURN_IF_ERROR(ReadPieces());
    LECTERN_RETURN_IF_ERROR(ReadBool("tokenizer.ggml.add_space_prefix", &model_.add_dummy_prefix));
    model_.remove_extra_whitespaces = false;
    LECTERN_RETURN_IF_ERROR(
        ReadBool("tokenizer.ggml.remove_extra_whitespaces", &model_.remove_extra_whitespaces));
    LECTERN_RETURN_IF_ERROR(ReadMark("bos", true, &model_.bos_piece));
    LECTERN_RETURN_IF_ERROR(ReadMark("eos", false, &model_.eos_piece));
    return std::move(model_);
  }

 private:
  Status Make(Code code, const std::string& key, const std::string& what) const {
    return Status(code, path_ + ": \"" + key + "\" " + what).WithParam(key);
  }

  Status CheckKind() const {
    const std::string key = "tokenizer.ggml.model";
    const auto* name = table_.Find<std::string_view>(key);
    if (name == nullptr) return Make(Code::kMalformedModel, key, "is missing");
    if (*name == "llama") return {};
    return Make(Code::kUnsupportedModel, key,
                "is " + QuotedName(*name) + (*name == "gpt2" ? ", byte-level BPE" : "") +
                    "; this build runs \"llama\" (SentencePiece)");
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
    if (is_text || array->count == model_.pieces.size()) return array;
    return Make(Code::kMalformedModel, key,
                "has " + std::to_string(array->count) + " items for " +
                    std::to_string(model_.pieces.size()) + " tokens");
  }

  Status ReadPieces() {
    model_.kind = TokenizerModel::Kind::kBpe;
    LECTERN_ASSIGN(const GgufArray* tokens, Array("tokenizer.ggml.tokens", true));
    for (const std::string_view text : tokens->Strings()) {
      model_.pieces.push_back({.text = std::string(text)});
    }
    LECTERN_ASSIGN(const GgufArray* scores, Array("tokenizer.ggml.scores", false));
    const std::vector<double> numbers = scores->Numbers();
    const std::string types_key = "tokenizer.ggml.token_type";
    LECTERN_ASSIGN(const GgufArray* types, Array(types_key, false));
    const std::vector<double> kinds = types->Numbers();
    for (size_t id = 0; id < model_.pieces.size(); ++id) {
      TokenizerPiece& piece = model_.pieces[id];
      piece.score = static_cast<float>(numbers[id]);
      if (!(kinds[id] >= 1 && kinds[id] <= 6)) {
        return Make(Code::kMalformedModel, types_key,
                    "has a type that does not exist, of token " + std::to_string(id));
      }
      piece.type = static_cast<PieceType>(static_cast<int>(kinds[id]));
      model_.byte_fallback |= piece.type == PieceType::kByte;
    }
    return {};
  }

  Status ReadBool(const std::string& key, bool* out) const {
    if (!table_.keys.contains(key)) return {};
    const bool* value = table_.Find<bool>(key);
    if (value == nullptr) return Make(Code::kMalformedModel, key, "must be true or false");
    *out = *value;
    return {};
  }

  // The piece of "tokenizer.ggml.<which>_token_id"; "" where there is none or it is not `added`.
  Status ReadMark(const std::string& which, bool can_be_left_out, std::string* piece) const {
    const std::string key = "tokenizer.ggml." + which + "_token_id";
    piece->clear();
    bool is_added = true;
    if (can_be_left_out) {
      LECTERN_RETURN_IF_ERROR(ReadBool("tokenizer.ggml.add_" + which + "_token", &is_added));
    }
    if (!table_.keys.contains(key) || !is_added) return {};
    const std::optional<uint64_t> id = table_.Whole(key);
    if (!id || *id >= model_.pieces.size()) {
      return Make(Code::kMalformedModel, key,
                  "must be a token id below " + std::to_string(model_.pieces.size()));
    }
    if (model_.pieces[*id].type != PieceType::kControl) {
      return Make(
          Code::kUnsupportedModel, key,
          "names token " + QuotedName(model_.pieces[*id].text) + ", which is not a control token");
    }
    *piece = model_.pieces[*id].text;
    return {};
  }

  const GgufTable& table_;
  const std::string& path_;
  TokenizerModel model_;
};

}  // namespace

Result<TokenizerModel> ReadGgufTokenizer(const GgufTable& table, const std::string& path) {
  return TokenizerReader(table, path).Read();
}

}  // namespace lectern
