// A vocabulary of byte pairs (BPE), checked and ready for merging, in the form that tokenizer.json
// and GGUF files have in common. bpe_tokenizer.cc merges with it.
//
// Byte-level files write a piece in GPT-2's alphabet, one printable character for each byte ("Ġthe"
// is " the"); here pieces are their bytes. Others (Gemma 4, Llama 2's tokenizer.json) write plain
// text with U+2581 for a space, and bytes as "<0x0A>".
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_BPE_MODEL_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_BPE_MODEL_H_

#include <array>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model/tokenizer/control_tokens.h"
#include "engine/model/tokenizer/text_ids.h"
#include "engine/model/tokenizer/text_list.h"
#include "engine/model/tokenizer/text_rules.h"
#include "engine/model/tokenizer/tokenizer_model.h"
#include "store/status.h"

namespace lectern {

// How a text is merged, where llama.cpp and Hugging Face's tokenizers differ or the file says.
struct BpeRules {
  bool is_byte_level = true;
  bool ignore_merges = false;    // a word that is a piece is that piece, whatever its merges say
  bool joins_lines = false;      // the same for words of line feeds alone
  // Without an unknown piece, bytes (or characters) that no piece stands for are dropped before
  // merging, so that their neighbours may join; else after it.
  bool drops_first = false;
  bool last_merge_wins = false;  // of two merges of one pair; else the first
  bool joins_unknown = false;    // neighbouring unknown pieces are one
};

// A vocabulary as files have it: `tokenizer.ggml.tokens`, `.token_type`, `.merges` and so on.
struct BpeArrays {
  BpeRules how;
  // The index is the id. The types say what may become of a text:
  //   kNormal       words are made of it; in GPT-2's alphabet where the vocabulary is byte-level
  //   kUnused       likewise, as in llama.cpp, unless it is a mark (IsTemplateMark) or outside the
  //                 alphabet
  //   kUserDefined  likewise, and it is found in raw text if TextRules::literals has it, too; a
  //   mark
  //                 is a control piece
  //   kControl, kUnknown   plain text that is never made from a document
  //   kByte         "<0x0A>": the byte of a character without a piece, if not byte-level
  std::vector<std::string> tokens;
  std::vector<PieceType> types;     // [tokens]
  std::vector<std::string> merges;  // "left right", the most important first
  int32_t bos_id = -1;              // set only where the tokenizer puts it before a text
  int32_t eos_id = -1;
  int32_t unknown_id = -1;  // what bytes without a piece become; -1: nothing
};

// Whether a word can begin at every U+2581 that follows another character: no piece and no merge
// continues across such a place.
bool WordsAreIndependent(const BpeArrays& arrays);

// Immutable; thread-safe. Moved, never copied: it views itself.
class BpeModel {
 public:
  BpeModel(BpeModel&&) noexcept = default;
  BpeModel& operator=(BpeModel&&) noexcept = default;

  // The result of merging two neighbours.
  struct Merge {
    uint32_t rank;   // the smaller goes first
    int32_t symbol;  // that it makes
  };

  // Checks the arrays and builds the tables for merging. `path` only names the file in messages.
  // kMalformedModel: numbers of pieces and types differ, a special id is outside, or a mark is not
  // UTF-8. kLimitExceeded: more than 2^20 pieces or 2^22 merges, or a piece of more than 2,048
  // bytes. An empty piece is a hole in the ids; a merge that is not two texts is passed over; of
  // two pieces with one text a normal one counts, of two normal ones the later.
  static Result<BpeModel> Make(BpeArrays arrays, const std::string& path);

  const BpeRules& how() const { return how_; }
  int32_t bos_id() const { return bos_id_; }
  int32_t eos_id() const { return eos_id_; }
  int32_t unknown_id() const { return unknown_id_; }

  size_t size() const { return bytes_.size(); }  // number of ids, holes included
  // The bytes that an id stands for in running text; none for holes, control and unknown pieces,
  // and unused or user-defined ones that are marks (IsTemplateMark).
  const TextList& bytes() const { return bytes_; }
  const ControlTokens& controls() const { return controls_; }

  // Symbols are what is merged: pieces, by id, and from size() on texts that FindPiece does not
  // find: those that merges name or make, and, if the vocabulary is byte-level, single bytes. As in
  // llama.cpp these are merged like others and come apart into bytes at the end. `text`: bytes if
  // the vocabulary is byte-level, else as pieces are written, with U+2581 for a space. -1: none.
  // Control, unknown and byte pieces are not found by their texts.
  int32_t FindSymbol(std::string_view text) const;
  int32_t FindPiece(std::string_view text) const;
  bool IsPiece(int32_t symbol) const { return symbol >= 0 && static_cast<size_t>(symbol) < size(); }
  // The piece of one byte; -1: none.
  int32_t byte_id(uint8_t byte) const { return byte_ids_[byte]; }
  // Finds the symbol that `left` and `right` are merged into; nullptr: they stay two. `left` is a
  // symbol, which is not checked. The pointer is valid as long as the model is not moved.
  const Merge* FindMerge(int32_t left, int32_t right) const;

 private:
  friend class BpeModelMaker;
  struct Pair {
    int32_t left, right;
    Merge merge;
  };
  BpeModel() = default;

  BpeRules how_;
  int32_t bos_id_ = -1, eos_id_ = -1, unknown_id_ = -1;
  TextList bytes_;  // [id]
  std::array<int32_t, 256> byte_ids_{};
  std::unique_ptr<std::pmr::monotonic_buffer_resource> texts_;  // has the texts that symbols_ views
  TextIds symbols_;
  ControlTokens controls_;
  std::vector<Pair> pairs_;           // sorted by left, then right
  std::vector<uint32_t> first_pair_;  // [symbol + 1]: where those of a left symbol begin
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_BPE_MODEL_H_
