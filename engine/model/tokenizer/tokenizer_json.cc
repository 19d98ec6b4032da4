// Fields and defaults follow the serialisation of huggingface/tokenizers, which nothing but its
// code describes (tokenizers/src/models, normalizers, pre_tokenizers, processors).
#include "engine/model/tokenizer/tokenizer_json.h"

#include <algorithm>

#include "engine/model/formats/json.h"
#include "engine/model/tokenizer/bpe_tokenizer.h"
#include "engine/model/tokenizer/piece_tokenizer.h"
#include "engine/model/tokenizer/tokenizer_json_rules.h"

namespace lectern {
namespace {

// The limits are published files' sizes several times over: 17 MB, 150K pieces, 440K merges of two
// items.
constexpr size_t kMaxTokenizerJson = size_t{64} << 20;
constexpr JsonLimits kTokenizerLimits = {.max_depth = 16, .max_values = size_t{1} << 23};
constexpr uint64_t kMostPieces = size_t{1} << 20;

// Reads one file. The vocabulary is filled while the file is parsed, before its model's other
// members are seen.
class TokenizerJsonReader {
 public:
  explicit TokenizerJsonReader(const std::string& path) : path_(path) {}

  // Parses the file; vocabulary and merges go straight into the arrays.
  Result<std::unique_ptr<Tokenizer>> Read(std::string_view bytes) {
    // Vocabulary and merges are most of the file; as a tree they take twice the time and ten times
    // the memory.
    const std::vector<JsonStream> streams = {
        {"model.vocab", true,
         [this](std::string& text, const Json& id) {
           return Place(std::move(text), id, PieceType::kNormal);
         }},
        {"model.vocab", false, [this](std::string&, const Json& piece) { return Append(piece); }},
        {"model.merges", false,
         [this](std::string&, const Json& merge) { return ReadMerge(merge); }}};
    const Result<Json> root = ParseJson(bytes, kTokenizerLimits, streams);
    if (root.ok()) return Read(*root, bytes);
    const bool is_named = root.status().message().starts_with(path_);
    return is_named ? root.status()
                    : Status(root.status().code(), path_ + ": " + root.status().message());
  }

 private:
  // Reads everything but vocabulary and merges, which are in the arrays by now.
  Result<std::unique_ptr<Tokenizer>> Read(const Json& root, std::string_view bytes) {
    if (root.object() == nullptr) return Malformed("it is not an object");
    const Json& model = JsonMember(root, "model");
    if (model.object() == nullptr) return Malformed("it has no \"model\"");
    LECTERN_ASSIGN(rules_.normalizer, ReadJsonNormalizer(JsonMember(root, "normalizer"), path_));
    LECTERN_ASSIGN(words_, ReadJsonPreTokenizer(JsonMember(root, "pre_tokenizer"), path_));
    rules_.normalizes_literals = true;
    const bool is_unigram = JsonType(model) == "Unigram";
    LECTERN_RETURN_IF_ERROR(is_unigram ? ReadUnigram(model) : ReadBpe(model));
    LECTERN_RETURN_IF_ERROR(ReadAddedTokens(JsonMember(root, "added_tokens")));
    LECTERN_RETURN_IF_ERROR(ReadPostProcessor(JsonMember(root, "post_processor")));
    rules_.words = std::move(words_.steps);
    if (is_unigram) return MakeUnigram(std::string(bytes));
    const bool splits = !arrays_.how.is_byte_level && WordsAreIndependent(arrays_);
    if (splits) rules_.words.push_back({.kind = PreTokenizerStep::Kind::kSpaceMarks});
    LECTERN_ASSIGN(BpeModel made, BpeModel::Make(std::move(arrays_), path_));
    return Named(MakeBpeTokenizer(std::move(made), std::move(rules_), std::string(bytes)));
  }

  // Adds to the error of a bad expression which file has it.
  Result<std::unique_ptr<Tokenizer>> Named(Result<std::unique_ptr<Tokenizer>> made) const {
    if (made.ok()) return made;
    return Status(made.status().code(), path_ + ": " + made.status().message());
  }

  // Reads the model "BPE". Members that would change results and are not implemented are refused.
  Status ReadBpe(const Json& model) {
    const Json& type = JsonMember(model, "type");
    if (!type.is_null() && JsonType(model) != "BPE") {
      return Unsupported("model type " + JsonExcerpt(type) + "; supported: BPE, Unigram");
    }
    if (const Json& dropout = JsonMember(model, "dropout"); dropout.number().value_or(0) != 0) {
      return Unsupported("dropout " + JsonExcerpt(dropout) + "; supported: none");
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json& value = JsonMember(model, key);
      if (value.is_null() || (value.string() != nullptr && value.string()->empty())) continue;
      return Unsupported(std::string(key) + " " + JsonExcerpt(value) + "; supported: none");
    }
    if (JsonMember(model, "vocab").object() == nullptr) {
      return Malformed("\"vocab\" is not an object");
    }
    if (JsonMember(model, "merges").array() == nullptr)
      return Malformed("\"merges\" is not a list");
    arrays_.how = {.is_byte_level = words_.is_byte_level,
                   .ignore_merges = JsonIsTrue(JsonMember(model, "ignore_merges")),
                   .drops_first = true,
                   .last_merge_wins = true,
                   .joins_unknown = JsonIsTrue(JsonMember(model, "fuse_unk"))};
    if (const std::string* unknown = JsonMember(model, "unk_token").string()) {
      arrays_.unknown_id = IdOf(*unknown);
    }
    if (JsonIsTrue(JsonMember(model, "byte_fallback"))) FindBytePieces();
    return Status();
  }

  // Reads the model "Unigram".
  Status ReadUnigram(const Json& model) {
    if (JsonMember(model, "vocab").array() == nullptr) return Malformed("\"vocab\" is not a list");
    const Json& unknown = JsonMember(model, "unk_id");
    const auto id = unknown.unsigned_integer();
    if (!unknown.is_null() && (!id || *id >= arrays_.tokens.size())) {
      return Malformed("\"unk_id\" is " + JsonExcerpt(unknown));
    }
    if (id) arrays_.unknown_id = static_cast<int32_t>(*id);
    if (JsonIsTrue(JsonMember(model, "byte_fallback"))) FindBytePieces();
    return Status();
  }

  // Gives type byte to pieces such as "<0x0A>".
  void FindBytePieces() {
    for (size_t i = 0; i < arrays_.tokens.size(); ++i) {
      if (arrays_.types[i] != PieceType::kNormal) continue;
      const bool is_byte = TokenizerPiece{arrays_.tokens[i], 0, PieceType::kByte}.byte() >= 0;
      if (is_byte) arrays_.types[i] = PieceType::kByte, has_byte_pieces_ = true;
    }
  }

  // Makes a tokenizer like those of SentencePiece's unigram vocabularies, because these files are
  // made from its trainer's.
  Result<std::unique_ptr<Tokenizer>> MakeUnigram(std::string identity) {
    TokenizerModel model;
    model.kind = TokenizerModel::Kind::kUnigram;
    model.byte_fallback = has_byte_pieces_;
    model.unknown_id = arrays_.unknown_id;
    const size_t num_scored = scores_.size();
    scores_.resize(arrays_.tokens.size());
    for (size_t i = 0; i < arrays_.tokens.size(); ++i) {
      // An added token of the vocabulary is one of its pieces, too.
      const bool is_piece = i < num_scored && arrays_.types[i] == PieceType::kUserDefined &&
                            !IsTemplateMark(arrays_.tokens[i]);
      const PieceType type = is_piece ? PieceType::kNormal : arrays_.types[i];
      model.pieces.push_back({std::move(arrays_.tokens[i]), scores_[i], type});
    }
    model.rules = TokenizerModel::Rules::kTokenizers;
    TakeMarksFromText(&model);
    model.bos_id = arrays_.bos_id;
    LECTERN_RETURN_IF_ERROR(CheckTokenizerModel(model, path_));
    return Named(MakePieceTokenizer(std::make_shared<const TokenizerModel>(std::move(model)),
                                    std::move(rules_), [&] { return std::move(identity); }));
  }

  // The id of a piece with this text; -1: none.
  int32_t IdOf(std::string_view text) const {
    const auto at = std::find(arrays_.tokens.begin(), arrays_.tokens.end(), text);
    return at == arrays_.tokens.end() ? -1 : static_cast<int32_t>(at - arrays_.tokens.begin());
  }

  // Reads "added_tokens". Their ids may be in the vocabulary already, with the same text.
  Status ReadAddedTokens(const Json& added) {
    if (added.is_null()) return Status();
    if (added.array() == nullptr) return Malformed("\"added_tokens\" is not a list");
    for (const Json& token : *added.array()) {
      const std::string* content = JsonMember(token, "content").string();
      if (content == nullptr) return Malformed("an added token has no \"content\"");
      const bool is_special = JsonIsTrue(JsonMember(token, "special"));
      const PieceType type = is_special ? PieceType::kControl : PieceType::kUserDefined;
      const Json& id = JsonMember(token, "id");
      LECTERN_RETURN_IF_ERROR(Place(*content, id, type));
      if (is_special || IsTemplateMark(*content)) continue;
      const Json& normalized = JsonMember(token, "normalized");
      const bool is_normalized = normalized.boolean() == nullptr || *normalized.boolean();
      auto& literals = is_normalized ? rules_.normalized_literals : rules_.literals;
      literals.push_back({.text = *content,
                          .id = static_cast<int32_t>(*id.unsigned_integer()),
                          .takes_left_space = JsonIsTrue(JsonMember(token, "lstrip")),
                          .takes_right_space = JsonIsTrue(JsonMember(token, "rstrip")),
                          .is_whole_word = JsonIsTrue(JsonMember(token, "single_word"))});
    }
    return Status();
  }

  // Reads a piece of a Unigram vocabulary: [text, score].
  Status Append(const Json& piece) {
    const Json::Array* pair = piece.array();
    if (pair == nullptr || pair->size() != 2 || (*pair)[0].string() == nullptr ||
        !(*pair)[1].number()) {
      return Malformed("piece " + std::to_string(arrays_.tokens.size()) + " is " +
                       JsonExcerpt(piece) + ", not a text and a score");
    }
    if (arrays_.tokens.size() >= kMostPieces) {
      return Malformed("it has more than " + std::to_string(kMostPieces) + " pieces");
    }
    arrays_.tokens.push_back(*(*pair)[0].string());
    arrays_.types.push_back(PieceType::kNormal);
    scores_.push_back(*(*pair)[1].number());
    return Status();
  }

  // Gives a piece of the vocabulary (kNormal) or an added token its id; an added token may be in
  // the vocabulary already, with the same text. Holes between ids are unused pieces.
  // kMalformedModel: an id that is none, too large, or another piece's.
  Status Place(std::string text, const Json& id_value, PieceType type) {
    const auto id = id_value.unsigned_integer();
    if (!id || *id >= kMostPieces) {
      return Malformed("the id of piece " + JsonExcerpt(Json(text)) + " is " +
                       JsonExcerpt(id_value) + "; it must be a whole number below " +
                       std::to_string(kMostPieces));
    }
    if (*id >= arrays_.tokens.size()) {
      arrays_.tokens.resize(*id + 1);
      arrays_.types.resize(*id + 1, PieceType::kUnused);
    }
    const bool is_text =
        arrays_.types[*id] == PieceType::kNormal || arrays_.types[*id] == PieceType::kByte;
    const bool same = type != PieceType::kNormal && is_text && arrays_.tokens[*id] == text;
    if (arrays_.types[*id] != PieceType::kUnused && !same) {
      return Malformed("pieces " + JsonExcerpt(Json(arrays_.tokens[*id])) + " and " +
                       JsonExcerpt(Json(text)) + " both have the id " + std::to_string(*id));
    }
    arrays_.tokens[*id] = std::move(text);
    arrays_.types[*id] = type;
    return Status();
  }

  // Reads a merge: "left right", or a list of the two.
  Status ReadMerge(const Json& merge) {
    const Json::Array* pair = merge.array();
    if (const std::string* text = merge.string()) {
      arrays_.merges.push_back(*text);
    } else if (pair != nullptr && pair->size() == 2 && (*pair)[0].string() != nullptr &&
               (*pair)[1].string() != nullptr) {
      arrays_.merges.push_back(*(*pair)[0].string() + ' ' + *(*pair)[1].string());
    } else {
      return Malformed("merge " + std::to_string(arrays_.merges.size()) + " is " +
                       JsonExcerpt(merge) + ", not two pieces");
    }
    return Status();
  }

  // Reads the post-processor, which may put bos before a text: {"single": [{"SpecialToken": {"id":
  // "<s>"}}, {"Sequence": …}]}, or {"cls": ["<s>", 0]}.
  Status ReadPostProcessor(const Json& processor) {
    for (const Json* part : JsonParts(processor, "processors")) {
      const std::string_view type = JsonType(*part);
      if (type == "ByteLevel") continue;  // trims offsets
      const Json* first = nullptr;
      if (type == "TemplateProcessing") {
        const Json::Array* single = JsonMember(*part, "single").array();
        if (single == nullptr || single->empty()) {
          return Malformed("a template has no \"single\"");
        }
        const Json& special = JsonMember(single->front(), "SpecialToken");
        if (special.is_null()) continue;
        first = &JsonMember(special, "id");
      } else if (type == "RobertaProcessing" || type == "BertProcessing") {
        const Json::Array* cls = JsonMember(*part, "cls").array();
        if (cls == nullptr || cls->empty()) return Malformed("post_processor: it has no \"cls\"");
        first = &cls->front();
      } else {
        return Unsupported("post_processor " + JsonExcerpt(*part) +
                           "; supported: ByteLevel, TemplateProcessing, RobertaProcessing, "
                           "BertProcessing, none");
      }
      arrays_.bos_id = first->string() == nullptr ? -1 : IdOf(*first->string());
      if (arrays_.bos_id < 0) {
        return Malformed("post_processor: " + JsonExcerpt(*first) + " is no token");
      }
    }
    return Status();
  }

  Status Malformed(const std::string& what) const {
    return Status(Code::kMalformedModel, path_ + ": " + what);
  }
  Status Unsupported(const std::string& what) const {
    return Status(Code::kUnsupportedModel, path_ + ": " + what);
  }

  const std::string& path_;
  BpeArrays arrays_;
  std::vector<double> scores_;  // [tokens], of a Unigram vocabulary
  TextRules rules_;
  JsonPreTokenizer words_;
  bool has_byte_pieces_ = false;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> MakeJsonTokenizer(std::string_view bytes,
                                                     const std::string& path) {
  if (bytes.size() > kMaxTokenizerJson) {
    return Status(Code::kLimitExceeded,
                  path + ": larger than " + std::to_string(kMaxTokenizerJson) + " bytes");
  }
  return TokenizerJsonReader(path).Read(bytes);
}

}  // namespace lectern
