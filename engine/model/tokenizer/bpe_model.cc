// Merges are looked up for every pair of neighbours, so they are sorted by their left symbol, with
// an index of where each symbol's begin, and then searched by halves for the right one.
#include "engine/model/tokenizer/bpe_model.h"

#include <algorithm>

#include "engine/model/formats/json.h"
#include "engine/model/formats/text.h"
#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern {
namespace {

// Limits of an untrusted vocabulary; published ones have a few hundred thousand of each.
constexpr size_t kMaxBpePieces = size_t{1} << 20;
constexpr size_t kMaxBpeMerges = size_t{1} << 22;
constexpr size_t kMaxBpePiece = 2048;  // bytes, as the file has it

// Returns the byte that each character of GPT-2's alphabet stands for, -1 elsewhere: printable
// characters of Latin-1 are their own byte, and the other bytes follow from U+0100 on.
std::array<int16_t, 0x144> MakeAlphabet() {
  std::array<int16_t, 0x144> byte_of;
  byte_of.fill(-1);
  size_t next = 0x100;
  for (int16_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
    byte_of[printable ? static_cast<size_t>(byte) : next++] = byte;
  }
  return byte_of;
}

// Appends the bytes of a piece; false if it has a character outside of GPT-2's alphabet.
bool AppendFromAlphabet(std::string_view piece, std::string* bytes) {
  static const std::array<int16_t, 0x144> alphabet = MakeAlphabet();
  for (size_t at = 0; at < piece.size(); ++at) {
    size_t c = static_cast<uint8_t>(piece[at]);
    if (c >= 0x80) {  // its characters have at most two bytes
      if ((c & 0xE0) != 0xC0 || at + 1 == piece.size()) return false;
      c = (c & 0x1F) << 6 | (static_cast<uint8_t>(piece[++at]) & 0x3F);
    }
    if (c >= alphabet.size() || alphabet[c] < 0) return false;
    bytes->push_back(static_cast<char>(alphabet[c]));
  }
  return true;
}

// Whether "▁" comes behind another character.
bool HasLaterSpace(std::string_view text) {
  while (text.starts_with(kSpaceMark)) text.remove_prefix(kSpaceMark.size());
  return text.find(kSpaceMark) != std::string_view::npos;
}

// A text for a message, cut to 100 bytes.
std::string Quoted(std::string_view text) { return Json(text.substr(0, 100)).Dump(); }

}  // namespace

// One call of BpeModel::Make.
class BpeModelMaker {
 public:
  BpeModelMaker(BpeArrays arrays, const std::string& path)
      : arrays_(std::move(arrays)), path_(path) {}

  // Pieces come first: merges name them, and symbols of merges that are no piece get the ids
  // behind.
  Result<BpeModel> Make() {
    model_.how_ = arrays_.how;
    model_.byte_ids_.fill(-1);
    LECTERN_RETURN_IF_ERROR(CheckCounts());
    size_t bytes = 0;  // a piece as running text has no more
    for (const std::string& text : arrays_.tokens) bytes += text.size();
    model_.bytes_.Reserve(arrays_.tokens.size(), bytes);
    model_.texts_ = std::make_unique<std::pmr::monotonic_buffer_resource>(bytes + 1);
    model_.symbols_.Reserve(arrays_.tokens.size());
    for (size_t id = 0; id < arrays_.tokens.size(); ++id) {
      LECTERN_ASSIGN(const std::string_view running, TakePiece(id));
      model_.bytes_.Add(running);
    }
    next_symbol_ = static_cast<int32_t>(arrays_.tokens.size());
    FindBytes();
    model_.pairs_.reserve(arrays_.merges.size());
    for (size_t i = 0; i < arrays_.merges.size(); ++i) TakeMerge(i);
    SortMerges();
    LECTERN_RETURN_IF_ERROR(TakeId("bos", arrays_.bos_id, &model_.bos_id_));
    LECTERN_RETURN_IF_ERROR(TakeId("eos", arrays_.eos_id, &model_.eos_id_));
    LECTERN_RETURN_IF_ERROR(TakeId("unknown", arrays_.unknown_id, &model_.unknown_id_));
    return std::move(model_);
  }

 private:
  // Checks sizes before anything is allocated for them.
  Status CheckCounts() const {
    if (arrays_.types.size() != arrays_.tokens.size()) {
      return Malformed("it has " + std::to_string(arrays_.tokens.size()) + " pieces and " +
                       std::to_string(arrays_.types.size()) + " types of pieces");
    }
    if (arrays_.tokens.size() > kMaxBpePieces) {
      return Status(Code::kLimitExceeded,
                    path_ + ": more than " + std::to_string(kMaxBpePieces) + " pieces");
    }
    if (arrays_.merges.size() > kMaxBpeMerges) {
      return Status(Code::kLimitExceeded,
                    path_ + ": more than " + std::to_string(kMaxBpeMerges) + " merges");
    }
    return Status();
  }

  // Takes the piece `id` by its type and returns its bytes, which the next call may change. An
  // empty text is a hole in the ids.
  Result<std::string_view> TakePiece(size_t id) {
    const std::string& text = arrays_.tokens[id];
    if (text.empty()) return std::string_view();  // a hole
    if (text.size() > kMaxBpePiece) {
      return Status(Code::kLimitExceeded,
                    PieceNamed(id) + " is longer than " + std::to_string(kMaxBpePiece) + " bytes");
    }
    const PieceType type = arrays_.types[id];
    switch (type) {
      case PieceType::kNormal:
        return TakeText(id, true);
      case PieceType::kUnused:
        return IsTemplateMark(text) ? std::string_view() : TakeText(id, false);
      case PieceType::kByte:
        if (const int byte = TokenizerPiece{text, 0, type}.byte(); byte >= 0) {
          if (!arrays_.how.is_byte_level) {
            model_.byte_ids_[static_cast<size_t>(byte)] = static_cast<int32_t>(id);
          }
          scratch_.assign(1, static_cast<char>(byte));
          return std::string_view(scratch_);
        }
        return std::string_view();
      case PieceType::kUserDefined:
        if (!IsTemplateMark(text)) {
          TakeText(id, false);
          return arrays_.how.is_byte_level ? std::string_view(text) : Running(text);
        }
        [[fallthrough]];
      case PieceType::kControl:
      case PieceType::kUnknown:
        if (!IsValidUtf8(text)) return MalformedPiece(id, "is not valid UTF-8");
        model_.controls_.Add(static_cast<int32_t>(id), text);
        return std::string_view();
    }
    return std::string_view();
  }

  // Takes a piece that words are made of, and returns its bytes; of two with one text the later
  // counts. If its characters stand for no bytes, no word is made of it, and its bytes are its
  // text.
  std::string_view TakeText(size_t id, bool is_normal) {
    const std::string& text = arrays_.tokens[id];
    const auto number = static_cast<int32_t>(id);
    std::string_view symbol = text;
    if (arrays_.how.is_byte_level) {
      scratch_.clear();
      if (!AppendFromAlphabet(text, &scratch_)) return text;
      symbol = scratch_;
    }
    const int32_t found = FindOrAdd(symbol, number);
    if (found != number && is_normal) model_.symbols_.Set(symbol, number);
    return arrays_.how.is_byte_level ? symbol : Running(text);
  }

  // RunningText of a piece, until the next call.
  std::string_view Running(std::string_view piece) {
    scratch_ = RunningText(piece);
    return scratch_;
  }

  // The symbol of a text; where there is none it becomes `added`, and the text is kept.
  int32_t FindOrAdd(std::string_view text, int32_t added) {
    return model_.symbols_.FindOrSet(text, added, [&](std::string_view bytes) {
      auto* const kept = static_cast<char*>(model_.texts_->allocate(bytes.size(), 1));
      return std::string_view(kept, bytes.copy(kept, bytes.size()));
    });
  }

  // The symbol of a text; a new one where there is none.
  int32_t SymbolOf(std::string_view text) {
    const int32_t symbol = FindOrAdd(text, next_symbol_);
    if (symbol == next_symbol_) ++next_symbol_;
    return symbol;
  }

  // Gives each byte its symbol, because merging begins with single bytes; and its piece, if it is
  // one.
  void FindBytes() {
    if (!arrays_.how.is_byte_level) return;
    for (int byte = 0; byte < 256; ++byte) {
      const auto text = static_cast<char>(byte);
      const int32_t symbol = SymbolOf({&text, 1});
      model_.byte_ids_[static_cast<size_t>(byte)] = model_.IsPiece(symbol) ? symbol : -1;
    }
  }

  // Takes merge `i`. A merge that does not name two texts of the alphabet joins nothing and is
  // ignored.
  void TakeMerge(size_t i) {
    const std::string_view text = arrays_.merges[i];
    const size_t space = text.find(' ', 1);  // a piece of plain text may begin with a space
    if (space == std::string_view::npos || text.size() > 2 * kMaxBpePiece) return;
    const std::string_view left = text.substr(0, space), right = text.substr(space + 1);
    // Both in one, which is the text that they make.
    scratch_.clear();
    const auto append = [&](std::string_view part) {
      if (arrays_.how.is_byte_level) return AppendFromAlphabet(part, &scratch_);
      scratch_ += part;
      return true;
    };
    if (!append(left)) return;
    const size_t middle = scratch_.size();
    if (!append(right) || middle == 0 || middle == scratch_.size()) return;
    const std::string_view both = scratch_;
    const int32_t made = SymbolOf(both);
    const int32_t left_symbol = SymbolOf(both.substr(0, middle));
    model_.pairs_.push_back(
        {left_symbol, SymbolOf(both.substr(middle)), {static_cast<uint32_t>(i), made}});
  }

  // Sorts merges by pair. If a pair has several, the one that counts comes first, and the others
  // are dropped. Each is put at the place of its left symbol, so that only those of one left symbol
  // need to be compared.
  void SortMerges() {
    auto& pairs = model_.pairs_;
    CountPairs();
    std::vector<uint32_t> next = model_.first_pair_;
    std::vector<BpeModel::Pair> placed(pairs.size());
    for (const auto& pair : pairs) placed[next[static_cast<size_t>(pair.left)]++] = pair;
    pairs = std::move(placed);
    const bool last_wins = arrays_.how.last_merge_wins;
    for (size_t symbol = 0; symbol + 1 < model_.first_pair_.size(); ++symbol) {
      std::sort(pairs.begin() + model_.first_pair_[symbol],
                pairs.begin() + model_.first_pair_[symbol + 1],
                [last_wins](const auto& a, const auto& b) {
                  if (a.right != b.right) return a.right < b.right;
                  return last_wins ? a.merge.rank > b.merge.rank : a.merge.rank < b.merge.rank;
                });
    }
    const auto end = std::unique(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
      return a.left == b.left && a.right == b.right;
    });
    if (end == pairs.end()) return;
    pairs.erase(end, pairs.end());
    CountPairs();
  }

  // Finds where the pairs of each left symbol begin, once they are sorted.
  void CountPairs() {
    auto& first = model_.first_pair_;
    first.assign(static_cast<size_t>(next_symbol_) + 1, 0);
    for (const auto& pair : model_.pairs_) ++first[static_cast<size_t>(pair.left) + 1];
    for (size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
  }

  // `role`: "bos", "eos" or "unknown".
  Status TakeId(std::string_view role, int32_t id, int32_t* out) const {
    *out = id;
    if (id >= -1 && id < static_cast<int32_t>(model_.size())) return Status();
    return Malformed("the " + std::string(role) + " token " + std::to_string(id) +
                     " is not in the vocabulary");
  }

  std::string PieceNamed(size_t id) const {
    return path_ + ": piece " + std::to_string(id) + " " + Quoted(arrays_.tokens[id]);
  }
  Status Malformed(const std::string& what) const {
    return Status(Code::kMalformedModel, path_ + ": " + what);
  }
  Status MalformedPiece(size_t id, const std::string& what) const {
    return Status(Code::kMalformedModel, PieceNamed(id) + " " + what);
  }

  BpeArrays arrays_;
  const std::string& path_;
  BpeModel model_;
  int32_t next_symbol_ = 0;
  std::string scratch_;  // of one piece or merge, so that none needs memory of its own
};

bool WordsAreIndependent(const BpeArrays& arrays) {
  for (size_t i = 0; i < arrays.tokens.size(); ++i) {
    const PieceType type = arrays.types[i];
    if (type == PieceType::kControl || type == PieceType::kUnknown) continue;
    if (HasLaterSpace(arrays.tokens[i])) return false;
  }
  for (const std::string& merge : arrays.merges) {
    const size_t space = merge.find(' ', 1);
    if (space == std::string::npos) continue;
    if (HasLaterSpace(merge.substr(0, space) + merge.substr(space + 1))) return false;
  }
  return true;
}

Result<BpeModel> BpeModel::Make(BpeArrays arrays, const std::string& path) {
  return BpeModelMaker(std::move(arrays), path).Make();
}

int32_t BpeModel::FindSymbol(std::string_view text) const { return symbols_.Find(text); }

int32_t BpeModel::FindPiece(std::string_view text) const {
  const int32_t symbol = FindSymbol(text);
  return IsPiece(symbol) ? symbol : -1;
}

const BpeModel::Merge* BpeModel::FindMerge(int32_t left, int32_t right) const {
  const Pair* begin = pairs_.data() + first_pair_[static_cast<size_t>(left)];
  const Pair* end = pairs_.data() + first_pair_[static_cast<size_t>(left) + 1];
  const Pair* at = std::lower_bound(
      begin, end, right, [](const Pair& pair, int32_t wanted) { return pair.right < wanted; });
  return at == end || at->right != right ? nullptr : &at->merge;
}

}  // namespace lectern
