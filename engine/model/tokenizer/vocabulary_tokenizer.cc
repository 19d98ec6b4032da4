#include "engine/model/tokenizer/vocabulary_tokenizer.h"

#include <algorithm>
#include <unordered_map>

namespace lectern {
namespace {

// The pieces of a text's words are remembered, because words come again; long ones seldom do and
// are not kept. Both limits were chosen without measurement.
constexpr size_t kMaxKnownWord = 64, kMaxKnownWords = size_t{1} << 18;

bool IsInsideChar(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

// Lets a map of strings be searched with a view, without a copy.
struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};

// The literals of a list, ready to be searched.
Literals MakeLiterals(const std::vector<Literal>& list) {
  Literals literals;
  for (const Literal& literal : list) literals.Add(literal);
  literals.Finish();
  return literals;
}

// The shared tokenizer. All its state is made once; a text's own state is in a TextEncoder.
class VocabularyTokenizer : public Tokenizer {
 public:
  VocabularyTokenizer(VocabularyParts parts, Normalizer normalizer, PreTokenizer words)
      : parts_(std::move(parts)),
        literals_(MakeLiterals(parts_.rules.literals)),
        normalized_literals_(MakeLiterals(parts_.rules.normalized_literals)),
        normalizer_(std::move(normalizer)),
        words_(std::move(words)) {
    SetAssumptions(std::move(parts_.assumptions));
  }

  std::string_view kind() const override { return parts_.kind; }
  size_t vocab_size() const override { return parts_.bytes.size(); }
  int32_t bos_id() const override { return parts_.bos_id; }
  int32_t eos_id() const override { return parts_.eos_id; }
  int32_t unknown_id() const override { return parts_.unknown_id; }
  int32_t ControlId(std::string_view text) const override { return parts_.controls.Find(text); }
  std::string_view ControlText(int32_t id) const override { return parts_.controls.Text(id); }
  std::optional<ControlToken> FindControl(std::string_view text) const override {
    return parts_.controls.FindPrefix(text);
  }
  bool has_dummy_prefix() const override { return normalizer_.has_prefix() || words_.has_prefix(); }
  std::string_view TokenBytes(int32_t id) const override {
    if (id < 0 || static_cast<size_t>(id) >= parts_.bytes.size()) return {};
    return parts_.bytes[static_cast<size_t>(id)];
  }
  void AddTo(Sha256& hash) const override { hash.UpdateText(parts_.identity); }

 private:
  friend class TextEncoder;
  Result<TokenizedText> EncodeValid(std::string_view text, Place place) const override;

  VocabularyParts parts_;
  Literals literals_, normalized_literals_;
  Normalizer normalizer_;
  PreTokenizer words_;
};

// Encodes one text.
class TextEncoder {
 public:
  TextEncoder(const VocabularyTokenizer& tokenizer, std::string_view text, bool has_prefix)
      : tokenizer_(tokenizer),
        text_(text),
        has_prefix_(has_prefix),
        cutter_(tokenizer.words_),
        encoder_(tokenizer.parts_.model->MakeEncoder()) {}

  // The order of TextRules: literals of the raw text, then each stretch between two of them.
  Result<TokenizedText> Encode() {
    size_t at = 0;
    const LiteralOrder order = tokenizer_.parts_.rules.literal_order;
    for (const Literals::Match& match : tokenizer_.literals_.Find(text_, order)) {
      LECTERN_RETURN_IF_ERROR(EncodeRaw(at, match.begin));
      Push(match.id, match.begin, match.end);
      at = match.end;
    }
    LECTERN_RETURN_IF_ERROR(EncodeRaw(at, text_.size()));
    FillGaps();
    return std::move(tokens_);
  }

 private:
  // Encodes the bytes [begin, end) of the text, between two literals: normalises them, finds
  // literals of the normalised text, and cuts the rest into words.
  Status EncodeRaw(size_t begin, size_t end) {
    if (begin == end) return Status();
    const bool is_beginning = begin == 0;
    LECTERN_ASSIGN(AlignedText normal, tokenizer_.normalizer_.Apply(
                                           AlignedText(text_.substr(begin, end - begin), begin),
                                           has_prefix_ || !is_beginning));
    const auto matches =
        tokenizer_.normalized_literals_.Find(normal.text(), LiteralOrder::kFromLeft);
    if (matches.empty()) return EncodeWords(std::move(normal), is_beginning);
    size_t at = 0;
    const auto encode_to = [&](size_t to) {
      AlignedText part;
      part.AppendPart(normal, at, to);
      return EncodeWords(std::move(part), is_beginning && at == 0);
    };
    for (const Literals::Match& match : matches) {
      LECTERN_RETURN_IF_ERROR(encode_to(match.begin));
      Push(match.id, normal.OriginalBegin(match.begin), normal.OriginalEnd(match.end));
      at = match.end;
    }
    return encode_to(normal.text().size());
  }

  // Cuts a normalised stretch into words and appends their pieces.
  Status EncodeWords(AlignedText text, bool is_beginning) {
    LECTERN_ASSIGN(const auto words, cutter_.Cut(&text, is_beginning, has_prefix_));
    for (const WordCutter::Word& word : words) {
      const std::string_view bytes = text.text().substr(word.begin, word.end - word.begin);
      PushWord(text, word.begin, PiecesOf(bytes));
    }
    return Status();
  }

  // The pieces of a word, from memory if it came before; valid until the next call.
  const WordPieces& PiecesOf(std::string_view word) {
    if (word.size() > kMaxKnownWord) {
      longest_ = {};
      encoder_->Append(word, &longest_);
      return longest_;
    }
    const auto known = known_.find(word);
    if (known != known_.end()) return known->second;
    if (known_.size() == kMaxKnownWords) known_.clear();
    WordPieces& pieces = known_[std::string(word)];
    encoder_->Append(word, &pieces);
    return pieces;
  }

  // A token that ends inside a character has the range of the whole character.
  void PushWord(const AlignedText& text, size_t at, const WordPieces& word) {
    tokens_.dropped_bytes += word.dropped_bytes;
    for (const WordPiece& piece : word.pieces) {
      size_t begin = at, end = at + piece.size;
      at = end;
      if (piece.id < 0) continue;
      while (begin > 0 && IsInsideChar(text.text()[begin])) --begin;
      while (end < text.text().size() && IsInsideChar(text.text()[end])) ++end;
      Push(piece.id, text.OriginalBegin(begin), text.OriginalEnd(end));
    }
  }

  // Appends a token. Neighbouring unknown tokens become one where the vocabulary says so.
  void Push(int32_t id, size_t begin, size_t end) {
    const bool is_unknown = id == tokenizer_.parts_.unknown_id && id >= 0;
    if (is_unknown && tokenizer_.parts_.joins_unknown && !tokens_.ids.empty() &&
        tokens_.ids.back() == id) {
      tokens_.ranges.back().end = end;
      return;
    }
    tokens_.ids.push_back(id);
    tokens_.ranges.push_back({begin, end});
  }

  // Extends ranges so that every byte of the text is in one. Bytes that no token has (white space
  // that was removed, bytes without a piece) belong to the token before them, and those at the
  // beginning to the first.
  void FillGaps() {
    auto& ranges = tokens_.ranges;
    if (ranges.empty()) return;
    ranges.front().begin = 0;
    for (size_t i = 0; i + 1 < ranges.size(); ++i) {
      ranges[i + 1].begin = std::max(ranges[i + 1].begin, ranges[i].begin);
      ranges[i].end = std::max(ranges[i].end, ranges[i + 1].begin);
      ranges[i + 1].end = std::max(ranges[i + 1].end, ranges[i].end);
    }
    ranges.back().end = text_.size();
  }

  const VocabularyTokenizer& tokenizer_;
  std::string_view text_;
  bool has_prefix_;
  WordCutter cutter_;
  std::unique_ptr<WordEncoder> encoder_;
  std::unordered_map<std::string, WordPieces, TextHash, std::equal_to<>> known_;
  WordPieces longest_;
  TokenizedText tokens_;
};

Result<TokenizedText> VocabularyTokenizer::EncodeValid(std::string_view text, Place place) const {
  return TextEncoder(*this, text, place == Place::kBeginning).Encode();
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> MakeVocabularyTokenizer(VocabularyParts parts) {
  LECTERN_ASSIGN(Normalizer normalizer,
                 Normalizer::Make(parts.rules.normalizer, MakeLiterals(parts.rules.kept)));
  LECTERN_ASSIGN(PreTokenizer words, PreTokenizer::Make(parts.rules.words));
  for (Literal& literal : parts.rules.normalized_literals) {
    if (!parts.rules.normalizes_literals) break;
    LECTERN_ASSIGN(const AlignedText text,
                   normalizer.Apply(AlignedText(literal.text, 0), /*has_prefix=*/false));
    literal.text = text.text();
  }
  return std::unique_ptr<Tokenizer>(
      new VocabularyTokenizer(std::move(parts), std::move(normalizer), std::move(words)));
}

}  // namespace lectern
