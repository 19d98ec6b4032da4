// Makes a tokenizer from the vocabulary arrays of a GGUF file, as src/llama-vocab.cpp of llama.cpp
// reads them; its defaults are taken where a file leaves a key out, and each that matters is
// recorded as an assumption.
#include <algorithm>
#include <future>

#include "engine/model/formats/safetensors.h"
#include "engine/model/gguf_model.h"
#include "engine/model/tokenizer/bpe_tokenizer.h"
#include "engine/model/tokenizer/unicode_classes.h"
#include "engine/model/tokenizer/word_patterns.h"

namespace lectern {
namespace {

// Values of "tokenizer.ggml.model", the kind of vocabulary.
constexpr std::string_view kSpmKind = "llama", kBpeKind = "gpt2", kUnigramKind = "t5",
                           kGemma4Kind = "gemma4";

// Texts that are marks of a template whatever their type says: llama.cpp ends an answer at them or
// fills in with them. "</s>" is not among them: in some vocabularies it is a tag of HTML.
bool IsKnownMark(std::string_view text) {
  constexpr std::string_view kMarks =
      " <|eot_id|> <|eom_id|> <|im_start|> <|im_end|> <|end|> <|return|> <|call|> <|flush|> "
      "<|calls|> <|start|> <|channel|> <|message|> <|constrain|> <end_of_turn> <start_of_turn> "
      "<|endoftext|> <|end_of_text|> <|begin_of_text|> <EOT> _<EOT> [EOT] [EOS] "
      "<end_of_utterance> <eos> <turn|> <|tool_response> "
      "<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C> [e~[ "
      "<|fim_prefix|> <|fim_suffix|> <|fim_middle|> <|fim_pad|> <|fim_repo|> <|file_sep|> "
      "<|repo_name|> <fim_prefix> <fim_suffix> <fim_middle> <fim_pad> <fim-prefix> <fim-suffix> "
      "<fim-middle> <fim-pad> <PRE> <SUF> <MID> <PAD> [PAD] <reponame> ";
  // Marks are separated by spaces in the list, so a text with a space could match across two of
  // them.
  if (text.size() < 3 || text.find(' ') != std::string_view::npos) return false;
  // Nearly all texts of a vocabulary begin otherwise, and are told apart without a search.
  if (text.front() != '<' && text.front() != '[' && text.front() != '_') return false;
  return kMarks.find(" " + std::string(text) + " ") != std::string_view::npos;
}

// Reads one file's vocabulary. Borrows both arguments; used once.
class TokenizerReader {
 public:
  TokenizerReader(const GgufTable& table, const std::string& path) : table_(table), path_(path) {}

  Result<std::unique_ptr<Tokenizer>> Make() {
    // Codes: MakeGgufTokenizer (gguf_model.h).
    const std::string key = "tokenizer.ggml.model";
    const auto* name = table_.Find<std::string_view>(key);
    if (name == nullptr) return Fail(Code::kMalformedModel, key, "is missing");
    if (*name == kBpeKind || *name == kGemma4Kind) return MakeBytePairs(*name == kGemma4Kind);
    if (*name == kSpmKind || *name == kUnigramKind) return MakePieces(*name == kUnigramKind);
    return Fail(Code::kUnsupportedModel, key,
                "is " + QuotedName(*name) +
                    "; this build runs \"llama\", \"t5\" (SentencePiece), \"gpt2\" (byte-level "
                    "BPE) and \"gemma4\"");
  }

 private:
  // Makes a vocabulary of SentencePiece's ("llama", or "t5" if `is_unigram`). The defaults are
  // llama.cpp's where the file has no key.
  Result<std::unique_ptr<Tokenizer>> MakePieces(bool is_unigram) {
    TokenizerModel model;
    model.rules = TokenizerModel::Rules::kLlamaCpp;
    model.kind = is_unigram ? TokenizerModel::Kind::kUnigram : TokenizerModel::Kind::kBpe;
    LECTERN_RETURN_IF_ERROR(ReadTokens());
    LECTERN_ASSIGN(const std::vector<float> scores, ReadScores());
    model.add_dummy_prefix = !is_unigram;
    model.remove_extra_whitespaces = false;
    LECTERN_RETURN_IF_ERROR(ReadBool("tokenizer.ggml.add_space_prefix", &model.add_dummy_prefix));
    LECTERN_RETURN_IF_ERROR(
        ReadBool("tokenizer.ggml.remove_extra_whitespaces", &model.remove_extra_whitespaces));
    if (is_unigram) LECTERN_RETURN_IF_ERROR(ReadCharsmap(&model.charsmap));
    LECTERN_ASSIGN(model.bos_id, BosId(!is_unigram, is_unigram ? -1 : 1));
    LECTERN_ASSIGN(model.eos_id, MarkId("eos", is_unigram ? 1 : 2));
    LECTERN_ASSIGN(model.unknown_id, UnknownId(is_unigram ? 2 : 0));
    // Types are completed before pieces are copied: bytes first, so that no byte piece becomes a
    // mark.
    if (!table_.keys.contains("tokenizer.ggml.token_type")) FindBytePieces();
    FindMarks();
    model.pieces.reserve(tokens_.size());
    for (size_t id = 0; id < tokens_.size(); ++id) {
      model.pieces.push_back({std::string(tokens_[id]), scores[id], types_[id]});
      model.byte_fallback |= !is_unigram && types_[id] == PieceType::kByte;
    }
    model.bos_piece = MarkText(model.bos_id);
    model.eos_piece = MarkText(model.eos_id);
    model.assumptions = std::move(assumptions_);
    return Tokenizer::Make(std::move(model), path_);
  }

  // Makes a vocabulary of byte pairs ("gpt2", or "gemma4"). The identity is made before marks are
  // looked for, which changes types of pieces, so that it depends on the file alone.
  Result<std::unique_ptr<Tokenizer>> MakeBytePairs(bool is_gemma4) {
    LECTERN_ASSIGN(const WordPattern* words, ReadWords(is_gemma4));
    LECTERN_RETURN_IF_ERROR(ReadTokens());
    BpeArrays arrays;
    arrays.how = {.is_byte_level = !words->is_plain_text,
                  .ignore_merges = words->ignore_merges,
                  .joins_lines = words->is_plain_text};
    LECTERN_RETURN_IF_ERROR(ReadMerges(words->name == "kimi-k2", &arrays.merges));
    LECTERN_ASSIGN(arrays.bos_id, BosId(words->adds_bos, -1));
    LECTERN_ASSIGN(arrays.eos_id, MarkId("eos", -1));
    // With the types as they are now, which UnknownId and FindMarks may change.
    auto identity =
        std::async(std::launch::async | std::launch::deferred,
                   [this, types = types_, bos_id = arrays.bos_id, eos_id = arrays.eos_id, words] {
                     return Identity(types, bos_id, eos_id, words->name);
                   });
    LECTERN_RETURN_IF_ERROR(UnknownId(-1).status());
    FindMarks();
    TextRules rules;
    rules.literal_order = LiteralOrder::kLongest;
    rules.words = StepsOf(*words);
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (types_[id] != PieceType::kUserDefined || IsTemplateMark(tokens_[id])) continue;
      rules.literals.push_back({std::string(tokens_[id]), static_cast<int32_t>(id)});
    }
    arrays.tokens.assign(tokens_.begin(), tokens_.end());
    arrays.types = std::move(types_);
    if (words->is_plain_text) {
      rules.normalizer.push_back({.kind = NormalizerStep::Kind::kReplace,
                                  .pattern = " ",
                                  .content = std::string(kSpaceMark)});
      if (WordsAreIndependent(arrays)) {
        rules.words.push_back({.kind = PreTokenizerStep::Kind::kSpaceMarks});
      }
    }
    LECTERN_ASSIGN(BpeModel model, BpeModel::Make(std::move(arrays), path_));
    return MakeBpeTokenizer(std::move(model), std::move(rules), identity.get(),
                            std::move(assumptions_));
  }

  // An error about a key, which is the error's param.
  Status Fail(Code code, const std::string& key, const std::string& what) const {
    return Status(code, path_ + ": \"" + key + "\" " + what).WithParam(key);
  }
  // Records a sentence for Tokenizer::assumptions.
  void Assume(std::string sentence) { assumptions_.push_back(std::move(sentence)); }

  // Finds the pattern that "tokenizer.ggml.pre" names. Gemma 4's is fixed, whatever the key says;
  // without a name it is llama.cpp's default, and the assumption is recorded. kUnsupportedModel: a
  // name that is not known.
  Result<const WordPattern*> ReadWords(bool is_gemma4) {
    if (is_gemma4) return &WordPatternNamed("gemma4");
    const std::string key = "tokenizer.ggml.pre";
    const auto* name = table_.Find<std::string_view>(key);
    if (name == nullptr || name->empty()) {
      Assume(key +
             " is missing: text is cut into words as llama.cpp's default does, which may not "
             "be how the model was trained; convert the model again to be sure");
      return &WordPatternNamed("default");
    }
    if (const WordPattern* words = FindWordPattern(*name)) return words;
    return Fail(Code::kUnsupportedModel, key,
                "is " + QuotedName(*name) +
                    ", and how such a vocabulary cuts text into words is not known to this build; "
                    "known are: " +
                    KnownWordPatterns() +
                    ". If it is one of them by another name, write a copy with that name: "
                    "gguf-new-metadata --pre-tokenizer NAME IN.gguf OUT.gguf");
  }

  // Finds the array `key` of strings (`is_text`) or of numbers; nullptr: the file has no such key.
  // Numbers belong to tokens, so there must be one for each; kMalformedModel otherwise. ReadTokens
  // comes first: it sets the count.
  Result<const GgufArray*> Array(const std::string& key, bool is_text) const {
    if (!table_.keys.contains(key)) return static_cast<const GgufArray*>(nullptr);
    const auto* array = table_.Find<GgufArray>(key);
    if (array == nullptr) return Fail(Code::kMalformedModel, key, "is no array");
    const bool has_text = array->kind == GgufKind::kString;
    if (has_text != is_text || array->kind == GgufKind::kArray) {
      return Fail(Code::kMalformedModel, key,
                  std::string("is no array of ") + (is_text ? "strings" : "numbers"));
    }
    if (is_text || array->count >= tokens_.size()) return array;
    return Fail(Code::kMalformedModel, key,
                "has " + std::to_string(array->count) + " items for " +
                    std::to_string(tokens_.size()) + " tokens");
  }

  // Reads the pieces' texts and types. A type outside 1 to 6 (enum PieceType), and every type of a
  // file that has none, becomes plain text.
  Status ReadTokens() {
    const std::string key = "tokenizer.ggml.tokens";
    LECTERN_ASSIGN(const GgufArray* texts, Array(key, true));
    if (texts == nullptr) return Fail(Code::kMalformedModel, key, "is missing");
    tokens_ = texts->Strings();
    types_.assign(tokens_.size(), PieceType::kNormal);
    LECTERN_ASSIGN(const GgufArray* types, Array("tokenizer.ggml.token_type", false));
    if (types == nullptr) {
      Assume(
          "tokenizer.ggml.token_type is missing: pieces are taken for text, but those that the "
          "file or their name says are marks");
      return {};
    }
    const std::vector<double> numbers = types->Numbers();
    for (size_t id = 0; id < tokens_.size(); ++id) {
      const bool exists = numbers[id] >= 1 && numbers[id] <= 6;
      if (exists) types_[id] = static_cast<PieceType>(static_cast<int>(numbers[id]));
    }
    return {};
  }

  // [tokens]: by a higher score SentencePiece merges or picks a piece earlier. All 0 where the file
  // has none.
  Result<std::vector<float>> ReadScores() {
    std::vector<float> scores(tokens_.size(), 0);
    LECTERN_ASSIGN(const GgufArray* array, Array("tokenizer.ggml.scores", false));
    if (array == nullptr) {
      Assume("tokenizer.ggml.scores is missing: all pieces are taken to have the score 0");
      return scores;
    }
    const std::vector<double> numbers = array->Numbers();
    for (size_t id = 0; id < scores.size(); ++id) scores[id] = static_cast<float>(numbers[id]);
    return scores;
  }

  // Reads the merges "left right", the most important first. `may_lack`: Kimi-K2's files have none.
  Status ReadMerges(bool may_lack, std::vector<std::string>* merges) {
    const std::string key = "tokenizer.ggml.merges";
    LECTERN_ASSIGN(const GgufArray* array, Array(key, true));
    if (array == nullptr)
      return may_lack ? Status() : Fail(Code::kMalformedModel, key, "is missing");
    merges_ = array->Strings();
    merges->assign(merges_.begin(), merges_.end());
    return {};
  }

  // Reads SentencePiece's compiled normalisation table (charsmap.h); none leaves `charsmap` as it
  // is.
  Status ReadCharsmap(std::string* charsmap) const {
    const std::string key = "tokenizer.ggml.precompiled_charsmap";
    if (!table_.keys.contains(key)) return {};
    const auto* array = table_.Find<GgufArray>(key);
    if (array == nullptr || (array->kind != GgufKind::kU8 && array->kind != GgufKind::kI8)) {
      return Fail(Code::kMalformedModel, key, "is no array of bytes");
    }
    *charsmap = array->bytes;
    return {};
  }

  // Reads a bool into `out`, which keeps its value (the default) where the file has no such key.
  Status ReadBool(const std::string& key, bool* out) const {
    if (!table_.keys.contains(key)) return {};
    const bool* value = table_.Find<bool>(key);
    if (value == nullptr) return Fail(Code::kMalformedModel, key, "must be true or false");
    *out = *value;
    return {};
  }

  // Returns the id of a special token by its key "tokenizer.ggml.<which>_token_id"; -1: there is
  // none. Without the key it is `usual`, llama.cpp's default for the kind of vocabulary, if that
  // piece looks like a mark; an id outside the vocabulary is ignored. Both are recorded as
  // assumptions.
  Result<int32_t> MarkId(const std::string& which, int32_t usual) {
    const std::string key = "tokenizer.ggml." + which + "_token_id";
    const auto end = static_cast<int32_t>(tokens_.size());
    if (!table_.keys.contains(key)) {
      const bool is_mark = usual >= 0 && usual < end && IsMarkNow(usual);
      if (is_mark) Assume(key + " is missing: it is taken to be " + Named(usual));
      return is_mark ? usual : -1;
    }
    const std::optional<uint64_t> id = table_.Whole(key);
    if (id && *id < tokens_.size()) {
      const auto found = static_cast<int32_t>(*id);
      named_.push_back(found);
      if (!IsMarkNow(found)) Assume(key + " names " + Named(found) + ", which is ordinary text");
      return found;
    }
    Assume(key + " names no token of the vocabulary, and is ignored");
    return -1;
  }

  // Returns the token that is put before a text; -1: none is. "add_bos_token" decides, or
  // `is_added` where the file does not say; `usual` as for MarkId.
  Result<int32_t> BosId(bool is_added, int32_t usual) {
    LECTERN_RETURN_IF_ERROR(ReadBool("tokenizer.ggml.add_bos_token", &is_added));
    if (!is_added) return -1;
    return MarkId("bos", usual);
  }

  // Returns the piece that stands for characters without a piece; -1: none. The key names it, else
  // the first piece of type unknown is it, else `usual` if it is a mark.
  Result<int32_t> UnknownId(int32_t usual) {
    if (table_.keys.contains("tokenizer.ggml.unknown_token_id")) return MarkId("unknown", -1);
    const auto at = std::find(types_.begin(), types_.end(), PieceType::kUnknown);
    if (at != types_.end()) return static_cast<int32_t>(at - types_.begin());
    const bool is_mark =
        usual >= 0 && static_cast<size_t>(usual) < tokens_.size() && IsMarkNow(usual);
    return is_mark ? usual : -1;
  }

  // Whether a piece is a mark by its type, or by its text ("<…>" or "[…]").
  bool IsMarkNow(int32_t id) const {
    const PieceType type = types_[static_cast<size_t>(id)];
    return type == PieceType::kControl || type == PieceType::kUnknown ||
           LooksLikeMark(tokens_[static_cast<size_t>(id)]);
  }
  // "token 2, "</s>"" for messages.
  std::string Named(int32_t id) const {
    return "token " + std::to_string(id) + ", " + QuotedName(tokens_[static_cast<size_t>(id)]);
  }
  // The text of a control token; "" for every other id and for -1.
  std::string MarkText(int32_t id) const {
    if (id < 0 || types_[static_cast<size_t>(id)] != PieceType::kControl) return "";
    return std::string(tokens_[static_cast<size_t>(id)]);
  }

  // Gives type byte to pieces such as "<0x0A>", in a file that has no types. Without it bytes that
  // have no piece would be lost, and the pieces could be written in a text.
  void FindBytePieces() {
    for (size_t id = 0; id < tokens_.size(); ++id) {
      const TokenizerPiece piece{std::string(tokens_[id]), 0, PieceType::kByte};
      const bool is_byte = piece.byte() >= 0;
      if (is_byte) types_[id] = PieceType::kByte;
    }
  }

  // Makes control pieces of marks that the file has as text: pieces that a key names if they look
  // like marks, and all known marks (IsKnownMark). A control piece is never made from a document's
  // text, so a document cannot end a turn.
  void FindMarks() {
    const auto is_text = [&](size_t id) {
      return types_[id] == PieceType::kNormal || types_[id] == PieceType::kUnused ||
             types_[id] == PieceType::kUserDefined;
    };
    for (const int32_t id : named_) {
      const auto index = static_cast<size_t>(id);
      if (is_text(index) && LooksLikeMark(tokens_[index])) types_[index] = PieceType::kControl;
    }
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (is_text(id) && IsKnownMark(tokens_[id])) types_[id] = PieceType::kControl;
    }
  }

  // Returns everything in the file that changes how text is encoded. The model's fingerprint hashes
  // it.
  std::string Identity(const std::vector<PieceType>& types, int32_t bos_id, int32_t eos_id,
                       std::string_view words) const {
    std::string identity = "byte pairs\n" + std::string(words) + '\n' + std::to_string(bos_id) +
                           ' ' + std::to_string(eos_id) + '\n';
    size_t size = identity.size();
    for (const std::string_view token : tokens_) size += token.size() + 2;
    for (const std::string_view merge : merges_) size += merge.size() + 1;
    identity.reserve(size);
    for (size_t id = 0; id < tokens_.size(); ++id) {
      identity += static_cast<char>('0' + static_cast<int>(types[id]));  // 1 to 6
      identity += tokens_[id];
      identity += '\n';
    }
    for (const std::string_view merge : merges_) identity.append(merge) += '\n';
    return identity;
  }

  const GgufTable& table_;
  const std::string& path_;
  std::vector<std::string_view> tokens_, merges_;  // of the file's bytes
  std::vector<PieceType> types_;  // [tokens]
  std::vector<int32_t> named_;    // ids that keys name
  std::vector<std::string> assumptions_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> MakeGgufTokenizer(const GgufTable& table,
                                                     const std::string& path) {
  return TokenizerReader(table, path).Make();
}

}  // namespace lectern
