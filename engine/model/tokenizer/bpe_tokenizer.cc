#include "engine/model/tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <functional>

#include "engine/model/formats/text.h"
#include "engine/model/tokenizer/vocabulary_tokenizer.h"

namespace lectern {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// Merges the symbols of one word after another, in the order of the merges' ranks, as GPT-2's
// encoder does; keeps its memory between words.
class WordMerger : public WordEncoder {
 public:
  explicit WordMerger(const BpeModel& model) : model_(model) {}

  // Cuts a word into pieces. O(n log n) also for a word of 16 MiB: its pairs are one heap.
  void Append(std::string_view word, WordPieces* out) override {
    const bool is_lines = model_.how().joins_lines && word.find_first_not_of('\n') == word.npos;
    if (model_.how().ignore_merges || is_lines) {
      if (const int32_t id = model_.FindPiece(word); id >= 0) {
        out->pieces.push_back({id, static_cast<uint32_t>(word.size())});
        return;
      }
    }
    Begin(word, out);
    while (!queue_.empty()) MergeBest();
    for (uint32_t at = symbols_.empty() ? kNone : 0; at != kNone; at = symbols_[at].next) {
      const uint32_t next = symbols_[at].next;
      const size_t end = next == kNone ? word.size() : symbols_[next].begin;
      Emit(symbols_[at].id, word.substr(symbols_[at].begin, end - symbols_[at].begin), out);
    }
  }

 private:
  // A part of the word, in a list linked both ways, so that two neighbours become one in constant
  // time.
  struct Symbol {
    int32_t id;      // of BpeModel's symbols; kUnknown: it is none of them
    uint32_t begin;  // byte of the word
    uint32_t previous, next;
  };
  static constexpr int32_t kUnknown = -2, kGone = -1;  // kGone: it is part of the one before

  // Makes a symbol of each byte (or character), and queues the merges of all neighbours.
  void Begin(std::string_view word, WordPieces* out) {
    symbols_.clear();
    const BpeRules& how = model_.how();
    for (size_t at = 0, length = 0; at < word.size(); at += length) {
      length = how.is_byte_level ? 1 : static_cast<size_t>(Utf8CharLength(word.substr(at)));
      int32_t id = model_.FindSymbol(word.substr(at, length));
      if (DropsFirst() && !model_.IsPiece(id) && !HasBytePieces(word.substr(at, length))) {
        out->dropped_bytes += length;
        continue;
      }
      if (id < 0) id = kUnknown;
      const auto index = static_cast<uint32_t>(symbols_.size());
      if (index > 0) symbols_.back().next = index;
      symbols_.push_back({id, static_cast<uint32_t>(at), index == 0 ? kNone : index - 1, kNone});
    }
    const size_t skipped = symbols_.empty() ? word.size() : symbols_.front().begin;
    if (skipped > 0) out->pieces.push_back({-1, static_cast<uint32_t>(skipped)});
    for (uint32_t i = 0; i + 1 < symbols_.size(); ++i) Offer(i);
    std::make_heap(queue_.begin(), queue_.end(), std::greater());
  }

  // Appends the piece of a symbol. A symbol that is no piece comes apart into bytes or characters.
  void Emit(int32_t symbol, std::string_view text, WordPieces* out) const {
    if (model_.IsPiece(symbol)) {
      out->pieces.push_back({symbol, static_cast<uint32_t>(text.size())});
    } else if (model_.how().is_byte_level || (model_.unknown_id() < 0 && !DropsFirst())) {
      for (const char byte : text) {
        const int32_t id = model_.byte_id(static_cast<uint8_t>(byte));
        const int32_t made = id >= 0 ? id : model_.unknown_id();
        out->pieces.push_back({made, 1});
        if (made < 0 && !DropsFirst()) ++out->dropped_bytes;  // else Begin has counted it
      }
    } else {
      for (size_t at = 0, length = 0; at < text.size(); at += length) {
        length = static_cast<size_t>(Utf8CharLength(text.substr(at)));
        EmitChar(text.substr(at, length), out);
      }
    }
  }

  // Appends a character by its bytes if they all have a piece, else as unknown. Where Begin drops
  // what has no piece, the character may be a piece, or one that Begin has counted as dropped.
  void EmitChar(std::string_view character, WordPieces* out) const {
    if (const int32_t id = DropsFirst() ? model_.FindPiece(character) : -1; id >= 0) {
      out->pieces.push_back({id, static_cast<uint32_t>(character.size())});
      return;
    }
    if (!HasBytePieces(character)) {
      out->pieces.push_back({model_.unknown_id(), static_cast<uint32_t>(character.size())});
      return;
    }
    for (const char byte : character) {
      out->pieces.push_back({model_.byte_id(static_cast<uint8_t>(byte)), 1});
    }
  }

  // Whether bytes without a piece are dropped before words are merged (BpeRules::drops_first).
  bool DropsFirst() const { return model_.how().drops_first && model_.unknown_id() < 0; }
  // Whether each byte of a character has a piece of its own.
  bool HasBytePieces(std::string_view character) const {
    return std::all_of(character.begin(), character.end(),
                       [&](char byte) { return model_.byte_id(static_cast<uint8_t>(byte)) >= 0; });
  }

  // Finds what the symbol at `at` and the next one merge into; nullptr: nothing.
  const BpeModel::Merge* MergeAt(uint32_t at) const {
    const Symbol& symbol = symbols_[at];
    if (symbol.id < 0 || symbol.next == kNone) return nullptr;
    return model_.FindMerge(symbol.id, symbols_[symbol.next].id);
  }

  // Queues the merge at `at`, by rank, then from the left.
  bool Offer(uint32_t at) {
    const BpeModel::Merge* merge = MergeAt(at);
    if (merge != nullptr) queue_.push_back(uint64_t{merge->rank} << 32 | at);
    return merge != nullptr;
  }

  // Queues the merge at `at`, if there is one, and restores the heap.
  void Push(uint32_t at) {
    if (Offer(at)) std::push_heap(queue_.begin(), queue_.end(), std::greater());
  }

  // Takes the best merge from the heap, carries it out and queues the merges of the new symbol with
  // its neighbours. Entries are not removed when their symbols change: a merge counts only if it is
  // still the one of its place.
  void MergeBest() {
    std::pop_heap(queue_.begin(), queue_.end(), std::greater());
    const uint64_t best = queue_.back();
    queue_.pop_back();
    const auto at = static_cast<uint32_t>(best);
    const BpeModel::Merge* merge = MergeAt(at);
    if (merge == nullptr || merge->rank != best >> 32) return;  // one of the two is another by now
    Symbol& symbol = symbols_[at];
    Symbol& gone = symbols_[symbol.next];
    symbol.id = merge->symbol;
    symbol.next = gone.next;
    gone.id = kGone;
    if (symbol.next != kNone) symbols_[symbol.next].previous = at;
    if (symbol.previous != kNone) Push(symbol.previous);
    Push(at);
  }

  const BpeModel& model_;
  std::vector<Symbol> symbols_;
  std::vector<uint64_t> queue_;  // a heap; pairs that have changed since are skipped
};

// The model behind the shared tokenizer.
class BpeWordModel : public WordModel {
 public:
  explicit BpeWordModel(BpeModel model) : model_(std::move(model)) {}
  std::unique_ptr<WordEncoder> MakeEncoder() const override {
    return std::make_unique<WordMerger>(model_);
  }
  const BpeModel& model() const { return model_; }

 private:
  BpeModel model_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> MakeBpeTokenizer(BpeModel model, TextRules rules,
                                                    std::string identity,
                                                    std::vector<std::string> assumptions) {
  VocabularyParts parts;
  parts.kind = model.how().is_byte_level ? "byte-level BPE" : "BPE";
  parts.identity = std::move(identity);
  parts.bytes = model.bytes();
  for (size_t id = 0; id < model.size(); ++id) {
    const auto number = static_cast<int32_t>(id);
    if (const auto text = model.controls().Text(number); !text.empty()) {
      parts.controls.Add(number, text);
    }
  }
  parts.bos_id = model.bos_id();
  parts.eos_id = model.eos_id();
  parts.unknown_id = model.unknown_id();
  parts.joins_unknown = model.how().joins_unknown;
  parts.rules = std::move(rules);
  parts.model = std::make_unique<BpeWordModel>(std::move(model));
  parts.assumptions = std::move(assumptions);
  return MakeVocabularyTokenizer(std::move(parts));
}

}  // namespace lectern
