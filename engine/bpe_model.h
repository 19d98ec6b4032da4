// A byte-level BPE vocabulary, checked: what tokenizer.json and GGUF files hold alike.
//
// Files write a piece in GPT-2's alphabet, one printable character for each byte ("Ġthe" is "
// the"). Here pieces are their bytes.
#ifndef LECTERN_ENGINE_BPE_MODEL_H_
#define LECTERN_ENGINE_BPE_MODEL_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/control_tokens.h"
#include "engine/pre_tokenizer.h"
#include "engine/tokenizer_model.h"
#include "store/status.h"

namespace lectern {

// A vocabulary as files have it: `tokenizer.ggml.tokens`, `.token_type`, `.merges` and so on.
struct BpeArrays {
  const WordPattern* words = nullptr;
  bool ignore_merges = false;  // set both from `words` where the file does not say
  bool composes = false;
  // The index is the id. kNormal: in GPT-2's alphabet. kControl: every added token, in plain text.
  // kUserDefined is taken for kControl if it looks like a mark, and refused otherwise: it would
  // have to be found in raw text. kUnused (a hole): never made. Other types are refused.
  std::vector<std::string> tokens;
  std::vector<PieceType> types;     // [tokens]
  std::vector<std::string> merges;  // "left right", the most important first
  int32_t bos_id = -1;              // set only where the tokenizer puts it before a text
  int32_t eos_id = -1;
};

// Immutable; thread-safe. Moved, never copied: it views itself.
class BpeModel {
 public:
  BpeModel(BpeModel&&) noexcept = default;
  BpeModel& operator=(BpeModel&&) noexcept = default;

  struct Merge {
    uint32_t rank;  // the smaller goes first
    int32_t id;     // of what it makes
  };

  // `path` only names the file in messages. kMalformedModel, kLimitExceeded, kUnsupportedModel.
  // Every byte that valid UTF-8 can have must have a piece, and no merge may make a control token.
  static Result<BpeModel> Make(BpeArrays arrays, const std::string& path);

  const WordPattern& words() const { return *words_; }
  bool ignore_merges() const { return ignore_merges_; }
  bool composes() const { return composes_; }
  int32_t bos_id() const { return bos_id_; }
  int32_t eos_id() const { return eos_id_; }

  size_t size() const { return bytes_.size(); }
  // What an id stands for in running text; nothing for control and unused ones.
  std::string_view bytes(int32_t id) const { return bytes_[static_cast<size_t>(id)]; }
  // The piece of one byte; -1 for those that no UTF-8 text has.
  int32_t byte_id(uint8_t byte) const { return byte_ids_[byte]; }
  int32_t FindPiece(std::string_view bytes) const;  // -1: none
  const ControlTokens& controls() const { return controls_; }
  // What `left` and `right` become; nullptr: they stay two.
  const Merge* FindMerge(int32_t left, int32_t right) const;

 private:
  friend class BpeModelMaker;
  struct Pair {
    int32_t left, right;
    Merge merge;
  };
  BpeModel() = default;

  const WordPattern* words_ = nullptr;
  bool ignore_merges_ = false, composes_ = false;
  int32_t bos_id_ = -1, eos_id_ = -1;
  std::vector<std::string> bytes_;  // [id]; not changed once the map below views it
  std::array<int32_t, 256> byte_ids_{};
  std::unordered_map<std::string_view, int32_t> pieces_;  // of bytes_
  ControlTokens controls_;
  std::vector<Pair> pairs_;           // sorted by left, then right
  std::vector<uint32_t> first_pair_;  // [id + 1]: where those of a left id begin
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_BPE_MODEL_H_
