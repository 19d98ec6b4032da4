// The interface that all kinds of vocabularies share: it turns a word into pieces. BPE merges
// (bpe_tokenizer.cc), SentencePiece's merges and Viterbi's search (piece_model.cc) implement it.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_WORD_MODEL_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_WORD_MODEL_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace lectern {

// A piece of a word.
struct WordPiece {
  int32_t id;     // -1: bytes that become no token
  uint32_t size;  // bytes of the word
};

// The pieces of a word, in order.
struct WordPieces {
  std::vector<WordPiece> pieces;  // their sizes add up to that of the word
  uint64_t dropped_bytes = 0;     // that have no token
};

// Encodes one word after another, and keeps its memory between them. One thread.
class WordEncoder {
 public:
  virtual ~WordEncoder() = default;
  // Appends the pieces of `word`, valid UTF-8 and not empty, to `out`, and adds to dropped_bytes.
  virtual void Append(std::string_view word, WordPieces* out) = 0;
};

// The knowledge of a vocabulary. Immutable; thread-safe: each thread makes an encoder of its own.
class WordModel {
 public:
  virtual ~WordModel() = default;
  virtual std::unique_ptr<WordEncoder> MakeEncoder() const = 0;  // the model must outlive it
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_WORD_MODEL_H_
