#include "engine/indexing/cut_parts.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace lectern {
namespace {

// Small models find less in parts that fill their positions: Gemma 3 270M answers 11, 20, 20 and 24
// of 147 facts in parts of up to 27K, 16K, 8K and 4K tokens, SmolLM2 5 and 8 in parts of 7K and 4K,
// and the bundled reader 39 and 99 of 141 in parts of 114K and, by the share, 16K
// (tools/evaluate/RESULTS.md, "Documents in parts"). A model that reads with a focus looks at few
// passages anyway and loses nothing, and of larger parts the right one is more often among the
// first that words choose.
constexpr uint64_t kUnfocusedPartTokens = 4096;
constexpr uint64_t kPartShare = 8;
// Pieces of a long text that are encoded at a time.
constexpr size_t kPieceBytes = size_t{1} << 20;
// The room of a part that is planned to be used: the rest lets a cut move to a better place. A cut
// moves by at most kFreedom of a part's room in either direction.
constexpr double kPlanned = 0.8, kFreedom = 0.2;
// Tokens before a cut that both parts have, unless the second one begins at a heading: two or three
// sentences, which is as far as most answers reach.
constexpr uint64_t kOverlapTokens = 128;
// Longest path of headings before a part, in bytes. A longer one loses its outer headings.
constexpr size_t kMostHeadingBytes = 240;

bool IsContinuationByte(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Makes the cuts, one after another.
class Cutter {
 public:
  Cutter(std::string_view text, std::span<const Passage> passages,
         std::span<const uint64_t> token_begins, uint64_t limit)
      : text_(text), passages_(passages), tokens_(token_begins), limit_(limit) {}

  std::vector<TextPart> Run() {
    uint64_t begin = 0, end = 0;
    while (TokensFrom(begin) > limit_) {
      end = NextCut(begin, end);
      if (end == text_.size()) break;
      parts_.push_back({begin, end, {}});
      begin = BeginAfter(begin, end);
    }
    parts_.push_back({begin, text_.size(), {}});
    for (TextPart& part : parts_) part.headings = HeadingsOf(part);
    return std::move(parts_);
  }

 private:
  // The number of tokens that begin before this byte.
  uint64_t TokenAt(uint64_t byte) const {
    return static_cast<uint64_t>(std::lower_bound(tokens_.begin(), tokens_.end(), byte) -
                                 tokens_.begin());
  }
  uint64_t TokensFrom(uint64_t byte) const { return tokens_.size() - TokenAt(byte); }

  // How good a cut before this passage is, lower is better: a heading by its level, of neighbouring
  // headings the first; a passage after an empty line; any other.
  int RankOf(size_t passage) const {
    const Passage& one = passages_[passage];
    const bool follows_heading =
        passage > 0 && passages_[passage - 1].kind == PassageKind::kHeading;
    if (follows_heading) return 200;
    if (one.kind == PassageKind::kHeading) return one.level;
    const uint64_t before = passage > 0 ? passages_[passage - 1].end : 0;
    const std::string_view gap = text_.substr(before, one.begin - before);
    return std::ranges::count(gap, '\n') > 1 ? 100 : 150;
  }

  // Where a part begins that has this passage first: at its line, because bullets and the marks of
  // headings are no part of a passage, but not before the end of the passage before.
  uint64_t BeginOf(std::span<const Passage>::iterator passage) const {
    const uint64_t before = passage == passages_.begin() ? 0 : std::prev(passage)->end;
    const std::string_view gap = text_.substr(before, passage->begin - before);
    const size_t line = gap.rfind('\n');
    return line == gap.npos ? passage->begin : before + line + 1;
  }

  // The byte at which the part that begins at `begin` ends. `last_end`: where the part before ends,
  // 0 for the first one; the result is behind it, and so behind `begin`, which is not.
  uint64_t NextCut(uint64_t begin, uint64_t last_end) const {
    const uint64_t first = TokenAt(begin), left = tokens_.size() - first;
    const double planned = kPlanned * static_cast<double>(limit_);
    const double num_parts = std::ceil(static_cast<double>(left) / planned);
    const double wanted = static_cast<double>(first) + static_cast<double>(left) / num_parts;
    const double freedom = kFreedom * static_cast<double>(limit_);
    const auto low = static_cast<uint64_t>(std::max(wanted - freedom, first + 1.0));
    const uint64_t high = std::min(static_cast<uint64_t>(wanted + freedom), first + limit_);
    int best_rank = 1000;
    uint64_t best = 0;
    double best_distance = 0;
    const auto from = std::ranges::lower_bound(passages_, tokens_[low], {}, &Passage::begin);
    for (auto p = from; p != passages_.end() && TokenAt(p->begin) <= high; ++p) {
      const int rank = RankOf(static_cast<size_t>(p - passages_.begin()));
      const double distance = std::abs(static_cast<double>(TokenAt(p->begin)) - wanted);
      if (rank > best_rank || (rank == best_rank && distance >= best_distance)) continue;
      // The line of a passage may begin thousands of spaces before it.
      const uint64_t place = BeginOf(p);
      if (place <= last_end) continue;
      best_rank = rank, best = place, best_distance = distance;
    }
    if (best > 0) return best;
    uint64_t byte = tokens_[static_cast<size_t>(wanted)];
    while (byte > last_end && IsContinuationByte(text_[byte])) --byte;
    if (byte > last_end) return byte;
    // Many tokens begin at one byte.
    byte = last_end + 1;
    while (byte < text_.size() && IsContinuationByte(text_[byte])) ++byte;
    return byte;
  }

  // Where the next part begins, if this one is [begin, end).
  uint64_t BeginAfter(uint64_t begin, uint64_t end) const {
    const auto next = std::ranges::lower_bound(passages_, end, {}, &Passage::begin);
    if (next != passages_.end() && next->kind == PassageKind::kHeading) return end;
    const uint64_t overlap = std::min(kOverlapTokens, limit_ / 8), at = TokenAt(end);
    uint64_t earlier = end;
    for (auto p = next; p != passages_.begin();) {
      --p;
      const uint64_t place = BeginOf(p);
      if (place <= begin || at - TokenAt(place) > overlap) break;
      earlier = place;
    }
    return earlier;
  }

  // The headings above the part's first passage.
  std::string HeadingsOf(const TextPart& part) const {
    const auto first = std::ranges::lower_bound(passages_, part.begin, {}, &Passage::begin);
    if (part.begin == 0 || first == passages_.end()) return {};
    std::string path =
        HeadingPath(text_, passages_, static_cast<size_t>(first - passages_.begin()));
    while (path.size() > kMostHeadingBytes) {
      const size_t inner = path.find(" > ");
      if (inner == path.npos) return {};
      path.erase(0, inner + 3);
    }
    return path;
  }

  const std::string_view text_;
  const std::span<const Passage> passages_;
  const std::span<const uint64_t> tokens_;
  const uint64_t limit_;
  std::vector<TextPart> parts_;
};

}  // namespace

uint64_t MostPartTokens(const Model& model) {
  const uint64_t positions = model.config().max_positions;
  const Adapter* const adapter = model.adapter();
  const bool is_focused = adapter != nullptr && adapter->settings().focus == true;
  return is_focused ? positions : std::max(kUnfocusedPartTokens, positions / kPartShare);
}

Result<std::vector<uint64_t>> TokenBegins(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<uint64_t> begins;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.size(), at + kPieceBytes);
    if (end < text.size()) {
      const size_t line = text.rfind('\n', end - 1);
      if (line != text.npos && line > at) end = line + 1;
      while (end < text.size() && IsContinuationByte(text[end])) ++end;
    }
    LECTERN_ASSIGN(const TokenizedText piece, tokenizer.Encode(text.substr(at, end - at)));
    for (const TokenizedText::Range& range : piece.ranges) begins.push_back(at + range.begin);
    at = end;
  }
  return begins;
}

std::vector<TextPart> CutParts(std::string_view text, std::span<const Passage> passages,
                               std::span<const uint64_t> token_begins, uint64_t limit) {
  return Cutter(text, passages, token_begins, limit).Run();
}

}  // namespace lectern
