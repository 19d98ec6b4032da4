#include "engine/model/tokenizer/added_tokens.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "engine/model/formats/excerpt.h"
#include "engine/model/formats/json.h"

namespace lectern {
namespace {

// Allows for 1 M tokens (kMaxId) of a few members each.
constexpr JsonLimits kLimits = {.max_values = 1u << 23};

constexpr uint64_t kMaxId = uint64_t{1} << 20;  // as many pieces as a tokenizer.model may have

// A token of either file, before it has its place.
struct AddedToken {
  std::string text;
  bool is_special;
};

// Reads one of the files into the model. Tokens are gathered first, because their ids may come in
// any order.
class AddedTokensReader {
 public:
  AddedTokensReader(const std::string& path, TokenizerModel* model) : path_(path), model_(*model) {}

  // Reads an added_tokens.json.
  Status ReadTokens(std::string_view json) {
    LECTERN_RETURN_IF_ERROR(Parse(json));
    for (const auto& [text, id] : *root_.object()) {
      const auto number = id.unsigned_integer();
      if (!number) return Malformed(Shown(text) + " is " + Shown(id) + ", not a whole number");
      if (!added_.try_emplace(*number, AddedToken{text, LooksLikeMark(text)}).second) {
        return Malformed("two tokens have the id " + std::to_string(*number));
      }
    }
    return PlaceAll();
  }

  // Reads a tokenizer_config.json. add_eos_token is checked and has no effect.
  Status ReadConfig(std::string_view json) {
    LECTERN_RETURN_IF_ERROR(Parse(json));
    if (const Json* decoder = Member("added_tokens_decoder")) {
      if (decoder->object() == nullptr) return Wrong("added_tokens_decoder", "an object");
      for (const auto& [id, token] : *decoder->object()) {
        LECTERN_RETURN_IF_ERROR(ReadDecoded(id, token));
      }
      LECTERN_RETURN_IF_ERROR(PlaceAll());
    }
    LECTERN_RETURN_IF_ERROR(ReadMark("bos_token", &model_.bos_piece));
    LECTERN_RETURN_IF_ERROR(ReadMark("eos_token", &model_.eos_piece));
    bool adds_bos = true, adds_eos = false;
    LECTERN_RETURN_IF_ERROR(ReadBool("add_bos_token", &adds_bos));
    LECTERN_RETURN_IF_ERROR(ReadBool("add_eos_token", &adds_eos));
    if (!adds_bos) model_.bos_piece.clear();
    return ReadBool("add_prefix_space", &model_.add_dummy_prefix);
  }

 private:
  // Parses the file, which must be an object.
  Status Parse(std::string_view json) {
    Result<Json> root = ParseJson(json, kLimits);
    if (!root.ok()) return Status(root.status().code(), path_ + ": " + root.status().message());
    root_ = std::move(root).value();
    return root_.object() != nullptr ? Status() : Malformed("it is not an object");
  }

  // Finds a member; nullptr: it is missing or null.
  const Json* Member(std::string_view key) const {
    const Json* value = root_.Find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  // Reads an entry of "added_tokens_decoder": its key is the id, as text.
  Status ReadDecoded(const std::string& id, const Json& token) {
    uint64_t number = 0;
    const char* const end = id.data() + id.size();
    const auto [stop, error] = std::from_chars(id.data(), end, number);
    if (id.empty() || error != std::errc() || stop != end) {
      return Malformed("\"added_tokens_decoder\" has the id " + Shown(id));
    }
    const Json *text = token.Find("content"), *special = token.Find("special");
    if (text == nullptr || text->string() == nullptr ||
        (special != nullptr && special->boolean() == nullptr)) {
      return Malformed("\"added_tokens_decoder\": token " + id + " is " + Shown(token));
    }
    const bool is_special = special != nullptr && *special->boolean();
    added_.insert_or_assign(number, AddedToken{*text->string(), is_special});
    return Status();
  }

  // Places the tokens in the order of ids, so that those beyond the vocabulary follow it.
  Status PlaceAll() {
    for (const auto& [id, token] : added_) LECTERN_RETURN_IF_ERROR(Place(id, token));
    added_.clear();
    return Status();
  }

  // Gives a token its id: behind the vocabulary, in place of an unused or control piece, or where
  // it is already; there only a special token changes the piece's type. Any other piece of another
  // text means that the files do not belong together.
  Status Place(uint64_t id, const AddedToken& token) {
    std::vector<TokenizerPiece>& pieces = model_.pieces;
    if (id >= kMaxId) return Malformed(Named(id, token.text) + " has an id that is too large");
    // Ids that are left out are never made from text.
    while (id > pieces.size()) {
      pieces.push_back({"[unused " + std::to_string(pieces.size()) + "]", 0, PieceType::kUnused});
    }
    if (id == pieces.size()) {
      pieces.push_back({token.text, 0, TypeOf(token)});
      return Status();
    }
    TokenizerPiece& piece = pieces[id];
    const bool is_text = piece.type == PieceType::kNormal || piece.type == PieceType::kUserDefined;
    if (piece.text == token.text) {
      const bool may_change = is_text || piece.type == PieceType::kUnused;
      if (token.is_special && may_change) piece.type = PieceType::kControl;
      return Status();
    }
    if (piece.type != PieceType::kControl && piece.type != PieceType::kUnused) {
      return Malformed(Named(id, token.text) + " is " + Shown(piece.text) + " in tokenizer.model");
    }
    piece = {token.text, 0, TypeOf(token)};
    return Status();
  }

  // Added tokens that are no marks of a template are found in raw text.
  static PieceType TypeOf(const AddedToken& token) {
    const bool is_control = token.is_special || LooksLikeMark(token.text);
    return is_control ? PieceType::kControl : PieceType::kUserDefined;
  }

  // Reads the token `key`: a text, or an object with the text as "content"; null: there is none.
  // `piece` keeps its value where the file does not name one.
  Status ReadMark(const std::string& key, std::string* piece) const {
    const Json* value = root_.Find(key);
    if (value == nullptr) return Status();
    if (value->is_null()) return piece->clear(), Status();
    const Json* text = value->object() != nullptr ? value->Find("content") : value;
    if (text == nullptr || text->string() == nullptr) return Wrong(key, "a token");
    const auto at =
        std::find_if(model_.pieces.begin(), model_.pieces.end(),
                     [&](const TokenizerPiece& known) { return known.text == *text->string(); });
    if (at == model_.pieces.end()) {
      model_.assumptions.push_back("tokenizer_config.json: \"" + key + "\" is " +
                                   Shown(*text->string()) +
                                   ", which the vocabulary does not have, and is ignored");
      return piece->clear(), Status();
    }
    // It is the beginning or the end of a text, whatever it was in the vocabulary.
    at->type = PieceType::kControl;
    *piece = *text->string();
    return Status();
  }

  // `out` keeps its value where the file does not say.
  Status ReadBool(const std::string& key, bool* out) const {
    const Json* value = Member(key);
    if (value == nullptr) return Status();
    if (value->boolean() == nullptr) return Wrong(key, "true or false");
    *out = *value->boolean();
    return Status();
  }

  static std::string Shown(const Json& value) { return Excerpt(value.Dump(), 100); }
  static std::string Named(uint64_t id, const std::string& text) {
    return "added token " + std::to_string(id) + " " + Shown(text);
  }
  Status Malformed(const std::string& what) const {
    return Status(Code::kMalformedModel, path_ + ": " + what);
  }
  Status Wrong(const std::string& key, const std::string& wanted) const {
    return Malformed("\"" + key + "\" must be " + wanted + ", not " + Shown(*root_.Find(key)));
  }

  const std::string& path_;
  TokenizerModel& model_;
  Json root_;
  std::map<uint64_t, AddedToken> added_;
};

}  // namespace

Status ReadAddedTokens(std::string_view json, const std::string& path, TokenizerModel* model) {
  return AddedTokensReader(path, model).ReadTokens(json);
}

Status ReadTokenizerConfig(std::string_view json, const std::string& path, TokenizerModel* model) {
  return AddedTokensReader(path, model).ReadConfig(json);
}

}  // namespace lectern
