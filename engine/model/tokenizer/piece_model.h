// Cuts words into pieces by the pieces' scores, for SentencePiece's two kinds of vocabularies.
// piece_tokenizer.cc makes a tokenizer of it.
//
//   BPE      neighbours are joined while that makes a piece, the one with the best score first
//   unigram  the pieces of the word whose scores have the greatest sum (Viterbi)
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_PIECE_MODEL_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_PIECE_MODEL_H_

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/model/tokenizer/text_ids.h"
#include "engine/model/tokenizer/tokenizer_model.h"
#include "engine/model/tokenizer/trie.h"
#include "engine/model/tokenizer/word_model.h"

namespace lectern {

// The pieces that text may become, with tables for both searches. Immutable; thread-safe.
class PieceModel : public WordModel {
 public:
  explicit PieceModel(std::shared_ptr<const TokenizerModel> model);
  std::unique_ptr<WordEncoder> MakeEncoder() const override;  // by the model's kind

  // Finds the piece that has this text, of several the last; -1: none. It is never a control,
  // unknown or byte piece, an unused one that is a mark, or, by the rules kTokenizers, a
  // user-defined one.
  int32_t Find(std::string_view text) const;
  const TokenizerPiece& piece(int32_t id) const { return model_.pieces[static_cast<size_t>(id)]; }
  size_t longest_piece() const { return longest_piece_; }  // bytes
  // SentencePiece takes unused pieces apart where it can; llama.cpp takes them.
  bool splits_unused() const { return model_.rules == TokenizerModel::Rules::kSentencePiece; }

  // Calls visit(bytes, id) for the pieces that `text` begins with, the shortest first. Of unigram
  // models only: others have no such table, and nothing is visited.
  template <typename Visit>
  void ForEachPrefix(std::string_view text, Visit visit) const {
    trie_.ForEachPrefix(text, [&](size_t size, size_t index) { visit(size, trie_ids_[index]); });
  }
  // These are the log probabilities for the Viterbi search: of a piece of so many bytes, and of a
  // character without a piece.
  double ScoreOf(int32_t id, size_t bytes) const;
  double unknown_score() const { return min_score_ - 10; }
  bool IsUnused(int32_t id) const { return piece(id).type == PieceType::kUnused; }

  // Appends the byte pieces of a character that has no piece, or the unknown piece; without either
  // the character's bytes are dropped.
  void AppendUnknown(std::string_view character, WordPieces* out) const;

 private:
  const std::shared_ptr<const TokenizerModel> kept_;
  const TokenizerModel& model_;  // *kept_
  TextIds ids_;                  // of texts in model_
  Trie trie_;    // of unigram models
  std::vector<int32_t> trie_ids_;
  std::array<int32_t, 256> byte_ids_;
  bool has_byte_fallback_ = false;
  int32_t unknown_id_ = -1;
  size_t longest_piece_ = 0;
  double min_score_ = 0, max_score_ = 0;
};

// Whether a word can begin at every U+2581 that follows another character: no piece continues
// across such a place.
bool WordsAreIndependent(const TokenizerModel& model);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_PIECE_MODEL_H_
