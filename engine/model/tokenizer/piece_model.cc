// Follows bpe_model.cc and unigram_model.cc of SentencePiece, and llama-vocab.cpp of llama.cpp
// where TokenizerModel::rules says so.
#include "engine/model/tokenizer/piece_model.h"

#include <algorithm>
#include <limits>
#include <map>

#include "engine/model/formats/text.h"
#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern {
namespace {

constexpr uint32_t kNoSymbol = UINT32_MAX;

// Bytes of the first character, at least 1.
size_t LengthOfChar(std::string_view text) {
  return static_cast<size_t>(std::max(1, Utf8CharLength(text)));
}

// Whether a document's text may become the piece.
bool IsText(const TokenizerPiece& piece) {
  if (piece.type == PieceType::kUnused) return !IsTemplateMark(piece.text);
  return piece.type == PieceType::kNormal || piece.type == PieceType::kUserDefined;
}

// Joins neighbours by score, for BPE vocabularies.
class ScoreMerger : public WordEncoder {
 public:
  explicit ScoreMerger(const PieceModel& model) : model_(model) {}

  void Append(std::string_view word, WordPieces* out) override {
    Begin(word);
    while (!queue_.empty()) MergeBest();
    for (uint32_t at = 0; at != kNoSymbol; at = symbols_[at].next) {
      AppendSymbol(word.substr(symbols_[at].begin, symbols_[at].size), out);
    }
  }

 private:
  // A part of the word, in a list linked both ways.
  struct Symbol {
    uint32_t begin, size;  // bytes of the word; size 0: it is part of the one before
    uint32_t previous, next;
  };
  // Two neighbours that make a piece.
  struct Pair {
    double score;
    uint32_t left, size;  // the symbol, and the bytes of both together
    // The best score, then the leftmost, is on top of the heap.
    bool operator<(const Pair& other) const {
      return score < other.score || (score == other.score && left > other.left);
    }
  };

  // Makes a symbol of each character and queues all pairs.
  void Begin(std::string_view word) {
    word_ = word;
    symbols_.clear();
    splits_.clear();
    for (size_t at = 0, length = 0; at < word.size(); at += length) {
      length = LengthOfChar(word.substr(at));
      const auto index = static_cast<uint32_t>(symbols_.size());
      if (index > 0) symbols_.back().next = index;
      symbols_.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(length),
                          index == 0 ? kNoSymbol : index - 1, kNoSymbol});
    }
    for (uint32_t i = 0; i + 1 < symbols_.size(); ++i) Offer(i);
    std::make_heap(queue_.begin(), queue_.end());
  }

  // Queues the symbol `left` and its next one, if they make a piece. False: they do not.
  bool Offer(uint32_t left) {
    const Symbol& symbol = symbols_[left];
    if (symbol.next == kNoSymbol) return false;
    const uint32_t size = symbol.size + symbols_[symbol.next].size;
    if (size > model_.longest_piece()) return false;
    const std::string_view text = word_.substr(symbol.begin, size);
    const int32_t id = model_.Find(text);
    if (id < 0) return false;
    queue_.push_back({model_.piece(id).score, left, size});
    if (model_.splits_unused() && model_.IsUnused(id)) splits_[text] = symbol.size;
    return true;
  }

  void Push(uint32_t left) {
    if (Offer(left)) std::push_heap(queue_.begin(), queue_.end());
  }

  // Joins the best pair and queues the new symbol with its neighbours. Pairs that have changed
  // since they were queued are recognised by their size and skipped.
  void MergeBest() {
    std::pop_heap(queue_.begin(), queue_.end());
    const Pair best = queue_.back();
    queue_.pop_back();
    Symbol& symbol = symbols_[best.left];
    if (symbol.size == 0 || symbol.next == kNoSymbol) return;
    Symbol& gone = symbols_[symbol.next];
    if (symbol.size + gone.size != best.size) return;  // one of the two is another by now
    symbol.size = best.size;
    symbol.next = gone.next;
    gone.size = 0;
    if (symbol.next != kNoSymbol) symbols_[symbol.next].previous = best.left;
    if (symbol.previous != kNoSymbol) Push(symbol.previous);
    Push(best.left);
  }

  // Appends the pieces of a merged text. An unused piece comes apart into what it was made from,
  // down to pieces that are used.
  void AppendSymbol(std::string_view text, WordPieces* out) const {
    std::vector<std::string_view> rest = {text};
    while (!rest.empty()) {
      const std::string_view part = rest.back();
      rest.pop_back();
      const int32_t id = model_.Find(part);
      const auto split = splits_.find(part);
      if (id >= 0 && split != splits_.end()) {
        rest.push_back(part.substr(split->second));
        rest.push_back(part.substr(0, split->second));
      } else if (id >= 0) {
        out->pieces.push_back({id, static_cast<uint32_t>(part.size())});
      } else {
        model_.AppendUnknown(part, out);
      }
    }
  }

  const PieceModel& model_;
  std::string_view word_;
  std::vector<Symbol> symbols_;
  std::vector<Pair> queue_;                    // a heap; pairs that have changed since are skipped
  std::map<std::string_view, size_t> splits_;  // of unused pieces: bytes of the left part
};

// Finds the best sum of scores, for unigram vocabularies.
class Viterbi : public WordEncoder {
 public:
  explicit Viterbi(const PieceModel& model) : model_(model) {}

  // Viterbi's search: best_[end] is the best way to cut the word's first `end` bytes, found from
  // left to right; then the pieces are collected from the end backwards. A character that no piece
  // covers alone may also be unknown, at a score below that of every normal piece, so that there
  // always is a way.
  void Append(std::string_view word, WordPieces* out) override {
    best_.assign(word.size() + 1, {-std::numeric_limits<double>::infinity(), 0, -1});
    best_[0].score = 0;
    for (size_t at = 0, length = 0; at < word.size(); at += length) {
      length = LengthOfChar(word.substr(at));
      const double so_far = best_[at].score;
      bool has_char = false;
      model_.ForEachPrefix(word.substr(at), [&](size_t size, int32_t id) {
        if (model_.splits_unused() && model_.IsUnused(id)) return;
        Offer(at, at + size, id, so_far + model_.ScoreOf(id, size));
        has_char |= size == length;
      });
      if (!has_char) Offer(at, at + length, -1, so_far + model_.unknown_score());
    }
    path_.clear();
    for (size_t end = word.size(); end > 0; end = best_[end].begin) path_.push_back(end);
    for (auto end = path_.rbegin(); end != path_.rend(); ++end) {
      const auto& [score, begin, id] = best_[*end];
      if (id >= 0) {
        out->pieces.push_back({id, static_cast<uint32_t>(*end - begin)});
      } else {
        model_.AppendUnknown(word.substr(begin, *end - begin), out);
      }
    }
  }

 private:
  // The best way to the end of a piece.
  struct Node {
    double score;
    uint32_t begin;  // of the piece
    int32_t id;      // -1: unknown
  };

  // Keeps a way to `end` if it is better than the best one so far; of equal ways the first stays.
  void Offer(size_t begin, size_t end, int32_t id, double score) {
    if (score > best_[end].score) best_[end] = {score, static_cast<uint32_t>(begin), id};
  }

  const PieceModel& model_;
  std::vector<Node> best_;    // [byte]
  std::vector<size_t> path_;  // ends of pieces, from the right
};

}  // namespace

// How many pieces ahead their places in the table are asked for. By hand; no measurement of other
// numbers is on record.
constexpr size_t kAhead = 16;

// Collects the pieces that can be made from text; of two with the same text the last one counts.
// The scores' range comes from normal pieces alone. Only unigram models need the trie: merging asks
// for whole texts.
PieceModel::PieceModel(std::shared_ptr<const TokenizerModel> model)
    : kept_(std::move(model)),
      model_(*kept_),
      has_byte_fallback_(model_.byte_fallback),
      unknown_id_(model_.UnknownId()) {
  byte_ids_.fill(-1);
  min_score_ = std::numeric_limits<double>::infinity();
  max_score_ = -min_score_;
  ids_.Reserve(model_.pieces.size());
  for (size_t i = 0; i < model_.pieces.size(); ++i) {
    const TokenizerPiece& piece = model_.pieces[i];
    const auto id = static_cast<int32_t>(i);
    if (i + kAhead < model_.pieces.size()) ids_.Prefetch(model_.pieces[i + kAhead].text);
    if (const int byte = piece.byte(); byte >= 0) byte_ids_[static_cast<size_t>(byte)] = id;
    if (!IsText(piece) || piece.text.empty()) continue;
    const bool is_literal = piece.type == PieceType::kUserDefined;
    if (is_literal && model_.rules == TokenizerModel::Rules::kTokenizers) continue;
    ids_.Set(piece.text, id);
    longest_piece_ = std::max(longest_piece_, piece.text.size());
    if (piece.type != PieceType::kNormal) continue;
    min_score_ = std::min(min_score_, piece.score);
    max_score_ = std::max(max_score_, piece.score);
  }
  if (min_score_ > max_score_) min_score_ = max_score_ = 0;
  if (model_.kind != TokenizerModel::Kind::kUnigram) return;
  std::vector<std::string_view> texts;
  for (size_t id = 0; id < model_.pieces.size(); ++id) {
    const std::string& text = model_.pieces[id].text;
    if (ids_.Find(text) == static_cast<int32_t>(id)) texts.push_back(text);
  }
  std::sort(texts.begin(), texts.end());
  for (const std::string_view text : texts) trie_ids_.push_back(ids_.Find(text));
  trie_ = Trie(texts);
}

std::unique_ptr<WordEncoder> PieceModel::MakeEncoder() const {
  if (model_.kind == TokenizerModel::Kind::kUnigram) return std::make_unique<Viterbi>(*this);
  return std::make_unique<ScoreMerger>(*this);
}

int32_t PieceModel::Find(std::string_view text) const { return ids_.Find(text); }

// A user-defined piece is nearly always chosen: its score is above that of any cut into normal
// pieces.
double PieceModel::ScoreOf(int32_t id, size_t bytes) const {
  const TokenizerPiece& found = piece(id);
  if (found.type != PieceType::kUserDefined) return found.score;
  if (model_.rules == TokenizerModel::Rules::kLlamaCpp) return 0;
  return static_cast<double>(bytes) * max_score_ - 0.1;
}

void PieceModel::AppendUnknown(std::string_view character, WordPieces* out) const {
  const auto id_of = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)]; };
  const bool has_bytes =
      has_byte_fallback_ &&
      std::all_of(character.begin(), character.end(), [&](char byte) { return id_of(byte) >= 0; });
  if (has_bytes) {
    for (const char byte : character) out->pieces.push_back({id_of(byte), 1});
    return;
  }
  out->pieces.push_back({unknown_id_, static_cast<uint32_t>(character.size())});
  if (unknown_id_ < 0) out->dropped_bytes += character.size();
}

bool WordsAreIndependent(const TokenizerModel& model) {
  return std::none_of(model.pieces.begin(), model.pieces.end(), [](const TokenizerPiece& piece) {
    if (!IsText(piece)) return false;
    std::string_view text = piece.text;
    while (text.starts_with(kSpaceMark)) text.remove_prefix(kSpaceMark.size());
    return text.find(kSpaceMark) != std::string_view::npos;
  });
}

}  // namespace lectern
