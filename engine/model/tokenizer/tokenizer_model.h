// A SentencePiece vocabulary as data, and its reading from a tokenizer.model, which is untrusted
// protobuf. GGUF files and tokenizer.json have the same vocabularies in other forms, and are read
// into the same TokenizerModel.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_TOKENIZER_MODEL_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_TOKENIZER_MODEL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/status.h"

namespace lectern {

// The numbers of ModelProto.SentencePiece.Type.
enum class PieceType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// Whether a piece reads as a mark of a chat template: <...>, [...] or >>...<<, also an empty one
// such as "[]", and with spaces (or U+2581) around it or underscores before it.
bool LooksLikeMark(std::string_view text);
// Whether a piece is a mark that a document's text must never become: a mark, and no tag of HTML.
bool IsTemplateMark(std::string_view text);

// Returns a piece as running text: with a space for each U+2581.
std::string RunningText(std::string_view piece);

// A piece of a vocabulary; its id is its place.
struct TokenizerPiece {
  std::string text;  // "▁the", "<s>", "<0x0A>"
  double score = 0;  // a tokenizer.model and GGUF files have floats
  PieceType type = PieceType::kNormal;
  int byte() const;  // that a byte piece "<0xNN>" (capital digits) stands for; -1: it is none
};

// The fields of ModelProto that change how text is encoded, with the defaults of its .proto file.
struct TokenizerModel {
  enum class Kind : uint8_t { kUnigram = 1, kBpe = 2 };
  Kind kind = Kind::kUnigram;
  // Says whose reading of the pieces is followed, where they differ: a GGUF file's is llama.cpp.
  // The rules of kTokenizers are llama.cpp's, but user-defined pieces are found in raw text alone.
  enum class Rules : uint8_t { kSentencePiece, kLlamaCpp, kTokenizers };
  Rules rules = Rules::kSentencePiece;
  std::vector<TokenizerPiece> pieces;  // index is the id
  bool byte_fallback = false;
  std::string bos_piece = "<s>", eos_piece = "</s>";
  std::string charsmap;  // may be empty
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  bool treat_whitespace_as_suffix = false;
  // Ids that the file names, whatever their pieces are; -1: none. Not used by kSentencePiece.
  int32_t bos_id = -1, eos_id = -1, unknown_id = -1;
  std::vector<std::string> assumptions;  // Tokenizer::assumptions

  // The id that characters without a piece become: unknown_id, else the first piece of type
  // kUnknown; -1: none.
  int32_t UnknownId() const;
  // Returns the id of a control piece with this text, or -1.
  int32_t ControlId(std::string_view text) const;
};

// Parses a tokenizer.model and checks it (CheckTokenizerModel); marks are taken from text
// (TakeMarksFromText). `path` only names the file in messages. kMalformedModel (with the byte),
// kLimitExceeded (more than 64 MiB, 2^20 pieces or 1 KiB in a piece), kUnsupportedModel (a kind
// that is neither unigram nor BPE).
Result<TokenizerModel> ParseTokenizerModel(std::string_view bytes, const std::string& path);

// Makes control pieces of the user-defined pieces that are marks: user-defined ones match in raw
// text, and a document's "<start_of_turn>" must stay text. Tags of HTML, which Gemma's vocabulary
// has as pieces of text, keep matching; by the rules kLlamaCpp so does "<s>" beside such tags, if
// texts begin with another piece. Ids stay, and so do the tokens of text without marks.
void TakeMarksFromText(TokenizerModel* model);

// Checks that the vocabulary is usable: texts valid UTF-8, scores finite, the charsmap without
// fault. For kSentencePiece also as SentencePiece asks: no piece is empty or appears twice, one is
// the unknown piece, and there are all 256 byte pieces with byte_fallback, else none. Not checked:
// the ids of TokenizerModel, and, by other rules, whether there are pieces at all. `path` only
// names the file in messages. kMalformedModel; kLimitExceeded: more than 2^20 pieces, or 1 KiB in
// one.
Status CheckTokenizerModel(const TokenizerModel& model, const std::string& path);

// Writes pieces, kind and normalisation of `model` as a ModelProto, with this add_dummy_prefix
// instead of its own. Leaves out rules, pieces and ids of bos and eos, and assumptions.
// Fingerprints are made of these bytes, so they must not change.
std::string SerializeTokenizerModel(const TokenizerModel& model, bool add_dummy_prefix);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_TOKENIZER_MODEL_H_
