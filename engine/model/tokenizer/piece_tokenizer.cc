#include "engine/model/tokenizer/piece_tokenizer.h"

#include <future>

#include "engine/model/tokenizer/piece_model.h"
#include "engine/model/tokenizer/unicode_classes.h"
#include "engine/model/tokenizer/vocabulary_tokenizer.h"

namespace lectern {
namespace {

// Text of the id that stands for unknown characters, as SentencePiece decodes it.
constexpr std::string_view kUnknownText = " \xE2\x81\x87 ";

// The bytes that a piece adds to decoded text: none for control and unknown pieces (the one with
// the id for unknown characters gets kUnknownText from its caller), else its text with spaces for
// U+2581.
std::string DecodedBytes(const TokenizerPiece& piece) {
  switch (piece.type) {
    case PieceType::kControl:
      return "";
    case PieceType::kUnknown:
      return "";
    case PieceType::kByte:
      return piece.byte() < 0 ? "" : std::string(1, static_cast<char>(piece.byte()));
    case PieceType::kNormal:
    case PieceType::kUserDefined:
    case PieceType::kUnused:
      break;
  }
  return RunningText(piece.text);
}

// The user-defined pieces, as literals.
std::vector<Literal> UserDefined(const TokenizerModel& model) {
  std::vector<Literal> literals;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const TokenizerPiece& piece = model.pieces[id];
    if (piece.type != PieceType::kUserDefined) continue;
    literals.push_back({piece.text, static_cast<int32_t>(id)});
  }
  return literals;
}

// The text with U+2581 for its spaces.
std::string WithMarks(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == ' ' ? kSpaceMark : std::string_view(&c, 1);
  return out;
}

// The normalisation that the model's normalizer_spec describes.
NormalizerStep SentencePieceStep(const TokenizerModel& model) {
  return {.kind = NormalizerStep::Kind::kSentencePiece,
          .charsmap = model.charsmap,
          .adds_prefix = model.add_dummy_prefix,
          .removes_extra_spaces = model.remove_extra_whitespaces,
          .escapes_spaces = model.escape_whitespaces,
          .prefix_is_suffix = model.treat_whitespace_as_suffix};
}

}  // namespace

// Builds the rules. SentencePiece normalises a text as a whole, all but its user-defined pieces;
// llama.cpp cuts these out first, and each stretch between them begins as a text does.
TextRules RulesOf(const TokenizerModel& model) {
  TextRules rules;
  const bool is_bpe = model.kind == TokenizerModel::Kind::kBpe;
  const bool is_llama_cpp = model.rules == TokenizerModel::Rules::kLlamaCpp;
  if (is_llama_cpp) {
    rules.literals = UserDefined(model);
    rules.literal_order = LiteralOrder::kLongest;
  } else {
    rules.kept = UserDefined(model);
    // Viterbi chooses its own; it cannot find what has a space, which no trainer's piece has.
    for (Literal literal : rules.kept) {
      const bool has_space = literal.text.find(' ') != std::string::npos;
      if (!is_bpe && !has_space) continue;
      if (model.escape_whitespaces) literal.text = WithMarks(literal.text);
      rules.normalized_literals.push_back(std::move(literal));
    }
  }
  if (is_llama_cpp && is_bpe) {
    using Kind = NormalizerStep::Kind;
    if (model.add_dummy_prefix)
      rules.normalizer.push_back({.kind = Kind::kPrepend, .content = " "});
    rules.normalizer.push_back(
        {.kind = Kind::kReplace, .pattern = " ", .content = std::string(kSpaceMark)});
  } else {
    rules.normalizer = {SentencePieceStep(model)};
  }
  // Unigram texts are not cut into words: the best sum of scores is found over the whole text,
  // because rounding decides between equal sums.
  if (is_bpe && WordsAreIndependent(model)) {
    rules.words.push_back({.kind = PreTokenizerStep::Kind::kSpaceMarks});
  }
  return rules;
}

// The table for searches takes a third of the time, so another thread makes it, where one is to be
// had.
Result<std::unique_ptr<Tokenizer>> MakePieceTokenizer(std::shared_ptr<const TokenizerModel> shared,
                                                      TextRules rules,
                                                      FunctionRef<std::string()> identity) {
  auto pieces = std::async(std::launch::async | std::launch::deferred,
                           [&shared] { return std::make_unique<PieceModel>(shared); });
  const TokenizerModel& model = *shared;
  VocabularyParts parts;
  parts.kind = "SentencePiece";
  parts.identity = identity();
  parts.unknown_id = model.UnknownId();
  size_t bytes = kUnknownText.size();
  for (const TokenizerPiece& piece : model.pieces) bytes += piece.text.size();
  parts.bytes.Reserve(model.pieces.size(), bytes);
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const TokenizerPiece& piece = model.pieces[i];
    const auto id = static_cast<int32_t>(i);
    const bool is_control = piece.type == PieceType::kControl || piece.type == PieceType::kUnknown;
    if (is_control) parts.controls.Add(id, piece.text);
    const bool is_unknown = is_control && id == parts.unknown_id;
    parts.bytes.Add(is_unknown ? std::string(kUnknownText) : DecodedBytes(piece));
  }
  const bool has_names = model.rules == TokenizerModel::Rules::kSentencePiece;
  parts.bos_id = has_names ? model.ControlId(model.bos_piece) : model.bos_id;
  parts.eos_id = has_names ? model.ControlId(model.eos_piece) : model.eos_id;
  parts.joins_unknown = true;
  parts.rules = std::move(rules);
  parts.assumptions = model.assumptions;
  parts.model = pieces.get();
  return MakeVocabularyTokenizer(std::move(parts));
}

}  // namespace lectern
