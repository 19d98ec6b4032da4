#include "engine/bpe_tokenizer.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_map>

#include "engine/compose.h"

namespace lectern {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// Merges the bytes of one word after another; keeps its memory between them.
class WordMerger {
 public:
  explicit WordMerger(const BpeModel& model) : model_(model) {}

  // Appends the tokens of `word`. O(n log n): the pairs of a word of 16 MiB are one heap.
  void Append(std::string_view word, std::vector<int32_t>* ids) {
    if (model_.ignore_merges() || word.size() == 1) {
      if (const int32_t id = model_.FindPiece(word); id >= 0) {
        ids->push_back(id);
        return;
      }
    }
    Begin(word);
    while (!queue_.empty()) MergeBest();
    for (uint32_t at = 0; at != kNone; at = symbols_[at].next) ids->push_back(symbols_[at].id);
  }

 private:
  // A piece of the word, at the place of its first byte.
  struct Symbol {
    int32_t id;  // -1: it is part of the one before
    uint32_t previous, next;
  };

  void Begin(std::string_view word) {
    const uint32_t size = static_cast<uint32_t>(word.size());
    symbols_.clear();
    for (uint32_t i = 0; i < size; ++i) {
      symbols_.push_back({model_.byte_id(static_cast<uint8_t>(word[i])), i == 0 ? kNone : i - 1,
                          i + 1 == size ? kNone : i + 1});
    }
    for (uint32_t i = 0; i + 1 < size; ++i) Offer(i);
    std::make_heap(queue_.begin(), queue_.end(), std::greater());
  }

  // What the symbol at `at` and the next one become; nullptr: nothing.
  const BpeModel::Merge* MergeAt(uint32_t at) const {
    const Symbol& symbol = symbols_[at];
    if (symbol.id < 0 || symbol.next == kNone) return nullptr;
    return model_.FindMerge(symbol.id, symbols_[symbol.next].id);
  }

  // By rank, then from the left.
  bool Offer(uint32_t at) {
    const BpeModel::Merge* merge = MergeAt(at);
    if (merge != nullptr) queue_.push_back(uint64_t{merge->rank} << 32 | at);
    return merge != nullptr;
  }

  void Push(uint32_t at) {
    if (Offer(at)) std::push_heap(queue_.begin(), queue_.end(), std::greater());
  }

  void MergeBest() {
    std::pop_heap(queue_.begin(), queue_.end(), std::greater());
    const uint64_t best = queue_.back();
    queue_.pop_back();
    const uint32_t at = static_cast<uint32_t>(best);
    const BpeModel::Merge* merge = MergeAt(at);
    if (merge == nullptr || merge->rank != best >> 32) return;  // one of the two is another by now
    Symbol& symbol = symbols_[at];
    Symbol& gone = symbols_[symbol.next];
    symbol.id = merge->id;
    symbol.next = gone.next;
    gone.id = -1;
    if (symbol.next != kNone) symbols_[symbol.next].previous = at;
    if (symbol.previous != kNone) Push(symbol.previous);
    Push(at);
  }

  const BpeModel& model_;
  std::vector<Symbol> symbols_;
  std::vector<uint64_t> queue_;  // a heap; pairs that have changed since are skipped
};

bool IsInsideChar(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

class BpeTokenizer : public Tokenizer {
 public:
  BpeTokenizer(BpeModel model, PreTokenizer words, std::string file)
      : model_(std::move(model)), words_(std::move(words)), file_(std::move(file)) {}

  std::string_view kind() const override { return "byte-level BPE"; }
  size_t vocab_size() const override { return model_.size(); }
  int32_t bos_id() const override { return model_.bos_id(); }
  int32_t eos_id() const override { return model_.eos_id(); }
  int32_t ControlId(std::string_view text) const override { return model_.controls().Find(text); }
  std::string_view ControlText(int32_t id) const override { return model_.controls().Text(id); }
  std::optional<ControlToken> FindControl(std::string_view text) const override {
    return model_.controls().FindPrefix(text);
  }
  bool has_dummy_prefix() const override { return false; }
  std::string_view TokenBytes(int32_t id) const override {
    if (id < 0 || static_cast<size_t>(id) >= model_.size()) return {};
    return model_.bytes(id);
  }
  void AddTo(Sha256& hash) const override { hash.UpdateText(file_); }

 private:
  Result<TokenizedText> EncodeValid(std::string_view text, Place) const override {
    if (!model_.composes()) return EncodeComposed(text);
    const ComposedText composed(text);
    LECTERN_ASSIGN(TokenizedText tokens, EncodeComposed(composed.text()));
    for (TokenizedText::Range& range : tokens.ranges) {
      range = {composed.OriginalBegin(range.begin), composed.OriginalEnd(range.end)};
    }
    return tokens;
  }

  Result<TokenizedText> EncodeComposed(std::string_view text) const {
    TokenizedText tokens;
    WordReader words(words_, text);
    WordMerger merger(model_);
    // Of words that came before, where in `ids` their tokens are: most words of a text are not new.
    struct Known {
      size_t first, count;
    };
    std::unordered_map<std::string_view, Known> known;
    while (!words.done()) {
      LECTERN_ASSIGN(const std::string_view word, words.Next());
      const size_t first = tokens.ids.size();
      const auto [at, is_new] = known.try_emplace(word, Known{first, 0});
      if (is_new) {
        merger.Append(word, &tokens.ids);
        at->second.count = tokens.ids.size() - first;
      } else {
        for (size_t i = 0; i < at->second.count; ++i) {
          tokens.ids.push_back(tokens.ids[at->second.first + i]);
        }
      }
    }
    AddRanges(text, &tokens);
    return tokens;
  }

  // The pieces follow each other without gaps; what ends inside a character has all of it.
  void AddRanges(std::string_view text, TokenizedText* tokens) const {
    tokens->ranges.reserve(tokens->ids.size());
    size_t at = 0;
    for (const int32_t id : tokens->ids) {
      size_t begin = at, end = at + model_.bytes(id).size();
      at = end;
      while (begin > 0 && IsInsideChar(text[begin])) --begin;
      while (end < text.size() && IsInsideChar(text[end])) ++end;
      tokens->ranges.push_back({begin, end});
    }
  }

  BpeModel model_;
  PreTokenizer words_;
  std::string file_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> MakeBpeTokenizer(BpeModel model, std::string file) {
  LECTERN_ASSIGN(PreTokenizer words, PreTokenizer::Make(model.words()));
  return std::unique_ptr<Tokenizer>(
      new BpeTokenizer(std::move(model), std::move(words), std::move(file)));
}

}  // namespace lectern
