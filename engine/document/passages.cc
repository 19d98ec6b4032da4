#include "engine/document/passages.h"

#include <algorithm>
#include <iterator>

#include "engine/document/line_forms.h"
#include "engine/document/sentence_breaks.h"
#include "engine/document/text_blocks.h"
#include "engine/document/text_lines.h"
#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern {
namespace {

bool IsContinuationByte(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Whether no space belongs between a line that ends with `before` and the next one: both are of
// scripts without spaces, from U+`least` on, or one is a quote, dash or ellipsis.
bool JoinsWithoutSpace(std::string_view before, std::string_view next, uint32_t least) {
  size_t last = before.size() - 1, length = 1;
  while (last > 0 && before.size() - last < 4 && IsContinuationByte(before[last])) --last;
  const uint32_t ends = DecodeChar(before, last, &length), begins = DecodeChar(next, 0, &length);
  const auto is_letter = [&](uint32_t c) { return c >= least && IsWithoutSpaces(c); };
  const auto is_mark = [](uint32_t c) {
    return c == 0x2014 || (c >= 0x2018 && c <= 0x201D) || c == 0x2026;
  };
  return (is_letter(ends) || is_mark(ends)) && (is_letter(begins) || is_mark(begins)) &&
         (is_letter(ends) || is_letter(begins));
}

// The text of a block with its line breaks, indentation and quote marks as one space, or as nothing
// between characters of scripts without spaces. Knows where each byte came from.
class FlatText {
 public:
  FlatText(std::string_view text, std::span<const TextLine> lines, const TextBlock& block) {
    if (block.last - block.first == 1) {
      view_ = text.substr(block.begin, block.end - block.begin);
      parts_ = {{0, block.begin}};
      return;
    }
    for (size_t i = block.first; i < block.last; ++i) {
      const bool is_edge = lines[i].is_page_edge && i > block.first && i + 1 < block.last;
      if (is_edge) continue;
      const uint64_t begin = i == block.first ? block.begin : lines[i].begin;
      const std::string_view line = text.substr(begin, lines[i].end - begin);
      if (!copy_.empty() && !JoinsWithoutSpace(copy_, line, 0)) copy_ += ' ';
      parts_.push_back({copy_.size(), begin});
      copy_ += line;
    }
    view_ = copy_;
  }
  FlatText(const FlatText&) = delete;

  std::string_view view() const { return view_; }
  // Where the byte at `at` stands in the text.
  uint64_t PlaceOf(size_t at) const {
    const auto next =
        std::upper_bound(parts_.begin(), parts_.end(), at,
                         [](size_t place, const Part& part) { return place < part.flat; });
    return std::prev(next)->place + (at - std::prev(next)->flat);
  }
  // Where the bytes before `end` (> 0) end.
  uint64_t EndOf(size_t end) const { return PlaceOf(end - 1) + 1; }

 private:
  struct Part {
    size_t flat;
    uint64_t place;
  };
  std::string copy_;
  std::string_view view_;
  std::vector<Part> parts_;
};

// The end of [begin, end) without white space. Looks at one character at a time, each of at most 4
// bytes, whatever the bytes are.
size_t TrimmedEnd(std::string_view text, size_t begin, size_t end) {
  while (end > begin) {
    size_t at = end - 1, length = 1;
    while (at > begin && end - at < 4 && IsContinuationByte(text[at])) --at;
    if (!IsWhiteSpace(DecodeChar(text, at, &length)) || at + length != end) break;
    end = at;
  }
  return end;
}

bool IsMarkOrJoiner(std::string_view text, size_t at) {
  size_t length = 1;
  const uint32_t c = DecodeChar(text, at, &length);
  return c == 0x200D || (c >= 0xFE00 && c <= 0xFE0F) || (c >= 0x300 && IsMark(c));
}

// The characters of [begin, end) that fit in so many columns: where they end, and their columns.
// The spaces that pad a table's cells count as one column.
struct Fit {
  size_t end = 0, columns = 0;
};
Fit FitFrom(std::string_view text, size_t begin, size_t end, size_t most_columns, bool is_padded) {
  Fit fit{.end = begin, .columns = 0};
  // Or padding of any length would be read again for each piece.
  while (fit.end < end && fit.end - begin < kMaxPassageBytes) {
    size_t length = 1;
    const auto byte = static_cast<unsigned char>(text[fit.end]);
    const bool is_in_gap = is_padded && byte == ' ' && fit.end > begin && text[fit.end - 1] == ' ';
    const size_t columns = is_in_gap     ? 0
                           : byte < 0x80 ? 1
                                         : CharColumns(DecodeChar(text, fit.end, &length));
    if (fit.columns + columns > most_columns || fit.end + length > end) break;
    fit.end += length, fit.columns += columns;
  }
  return fit;
}

// Ends of clauses.
bool IsClauseMark(std::string_view text, size_t at, size_t* length) {
  const uint32_t c = DecodeChar(text, at, length);
  return c == ',' || c == ';' || c == ':' || c == 0x2014 || c == 0x2013 || c == 0x3001 ||
         c == 0xFF0C || c == 0xFF1B || c == 0xFF1A || c == 0x060C || c == 0x061B || c == 0x0F0D ||
         c == 0x104A || c == 0x1363 || c == 0x1364;
}

// Cuts a text into passages, block by block, each under the heading before it. Used once.
class Splitter {
 public:
  Splitter(std::string_view text, std::span<const PageMapEntry> pages)
      : text_(text), lines_(ScanLines(text, pages)) {}

  std::vector<Passage> Run() {
    for (const TextBlock& block : FindBlocks(text_, lines_)) {
      switch (block.kind) {
        case PassageKind::kCode:
          AddCode(block);
          break;
        case PassageKind::kHeading:
          AddHeading(block);
          break;
        case PassageKind::kTableRow:
          AddWhole(block);
          break;
        default:
          AddSentences(block);
      }
    }
    return std::move(passages_);
  }

 private:
  void Add(uint64_t begin, uint64_t end, PassageKind kind, uint8_t level) {
    if (!HasWords(text_.substr(begin, end - begin))) return;
    passages_.push_back({begin, end, headings_.empty() ? 0 : headings_.back(), kind, level, 0});
  }

  void AddHeading(const TextBlock& block) {
    while (!headings_.empty() && passages_[headings_.back() - 1].level >= block.level)
      headings_.pop_back();
    const size_t index = passages_.size();
    AddWhole(block);
    if (passages_.size() == index) return;
    passages_[index].kind = PassageKind::kHeading;
    passages_[index].level = block.level;
    headings_.push_back(static_cast<uint32_t>(index + 1));
    // The rest of a heading that was too long.
    for (size_t i = index + 1; i < passages_.size(); ++i) {
      passages_[i].kind = PassageKind::kSentence;
      passages_[i].heading = headings_.back();
    }
  }

  void AddWhole(const TextBlock& block) {
    const FlatText flat(text_, lines_, block);
    AddCut(flat, 0, flat.view().size(), block.kind);
  }

  void AddSentences(const TextBlock& block) {
    const FlatText flat(text_, lines_, block);
    ends_.clear();
    AppendSentenceEnds(flat.view(), &ends_);
    size_t begin = 0;
    for (const size_t end : ends_) {
      AddCut(flat, begin, end, block.kind);
      begin = end;
    }
  }

  // Whole lines, as many as fit in a passage; a longer line is cut.
  void AddCode(const TextBlock& block) {
    for (size_t first = block.first; first < block.last;) {
      size_t last = first + 1;
      for (size_t at = lines_[first].begin, columns = 0; last < block.last; ++last) {
        const Fit fit = FitFrom(text_, at, lines_[last].end, kMaxPassageColumns - columns, false);
        if (fit.end < lines_[last].end) break;
        at = fit.end, columns += fit.columns;
      }
      TextBlock piece = block;
      piece.first = first, piece.last = last;
      piece.begin = lines_[first].begin, piece.end = lines_[last - 1].end;
      if (last > first + 1) {
        Add(piece.begin, piece.end, PassageKind::kCode, 0);
      } else {
        AddWhole(piece);
      }
      first = last;
    }
  }

  // Adds bytes [begin, end) of a flat text, cut into pieces that are not too long.
  void AddCut(const FlatText& flat, size_t begin, size_t end, PassageKind kind) {
    const std::string_view view = flat.view();
    while (true) {
      begin = SpaceAfter(view, begin);
      if (begin >= end) return;
      size_t last = TrimmedEnd(view, begin, end);
      if (last == begin) return;
      const uint64_t place = flat.PlaceOf(begin);
      size_t most =
          FitFrom(view, begin, last, kMaxPassageColumns, kind == PassageKind::kTableRow).end;
      if (most < last || flat.EndOf(last) - place > kMaxPassageBytes) {
        while (most > begin + 1 && flat.EndOf(most) - place > kMaxPassageBytes) --most;
        last = CutBefore(view, begin, most);
      }
      const size_t trimmed = TrimmedEnd(view, begin, last);
      if (trimmed > begin) Add(place, flat.EndOf(trimmed), kind, 0);
      begin = last;
    }
  }

  // The best place in (begin, most] to cut: behind the last clause of the second half, else behind
  // the last space of the last three quarters, else between characters.
  static size_t CutBefore(std::string_view text, size_t begin, size_t most) {
    size_t space = 0, clause = 0;
    for (size_t at = begin; at < most;) {
      size_t length = 1;
      const bool is_clause = IsClauseMark(text, at, &length);
      const size_t next = at + length;
      if (next > most) break;
      const bool is_spaced = next < text.size() && text[next] == ' ';
      if (is_clause && (is_spaced || length == 3)) clause = next;
      if (text[at] == ' ') space = next;
      at = next;
    }
    if (clause > begin + (most - begin) / 2) return clause;
    if (space > begin + (most - begin) / 4) return space;
    size_t end = most;
    while (end > begin + 1 && end < text.size() &&
           (IsContinuationByte(text[end]) || (end > begin + 40 && IsMarkOrJoiner(text, end)))) {
      --end;
    }
    return end > begin + 1 ? end : most;
  }

  const std::string_view text_;
  const std::vector<TextLine> lines_;
  std::vector<Passage> passages_;
  std::vector<uint32_t> headings_;  // 1 + index, outermost first
  std::vector<size_t> ends_;        // reused
};

}  // namespace

std::vector<Passage> SplitPassages(std::string_view text, std::span<const PageMapEntry> pages) {
  return Splitter(text, pages).Run();
}

bool ArePassagesOf(std::span<const Passage> passages, std::string_view text) {
  const auto is_between = [&](uint64_t at) {
    return at == text.size() || !IsContinuationByte(text[at]);
  };
  uint64_t end = 0;
  for (size_t i = 0; i < passages.size(); ++i) {
    const Passage& passage = passages[i];
    if (passage.begin < end || passage.end <= passage.begin || passage.end > text.size())
      return false;
    if (!is_between(passage.begin) || !is_between(passage.end) || passage.reserved != 0)
      return false;
    if (passage.kind > PassageKind::kCode || passage.heading > i) return false;
    if ((passage.kind == PassageKind::kHeading) != (passage.level > 0)) return false;
    if (passage.heading > 0 && passages[passage.heading - 1].kind != PassageKind::kHeading)
      return false;
    end = passage.end;
  }
  return true;
}

std::string HeadingPath(std::string_view text, std::span<const Passage> passages, size_t index) {
  std::string path;
  for (uint32_t heading = passages[index].heading; heading > 0;
       heading = passages[heading - 1].heading) {
    std::string title = PlainText(text, passages[heading - 1]);
    path = path.empty() ? std::move(title) : title + " > " + path;
  }
  return path;
}

std::string PlainText(std::string_view text, const Passage& passage) {
  const std::string_view whole = text.substr(passage.begin, passage.end - passage.begin);
  // Thai lines are also wrapped at spaces, which would be lost.
  constexpr uint32_t kFirstCjk = 0x2E80;
  std::string plain;
  plain.reserve(whole.size());
  bool is_margin = false;  // behind a line break
  for (size_t at = 0; at < whole.size();) {
    const size_t after = SpaceAfter(whole, at);
    if (after > at) {
      is_margin |= whole.substr(at, after - at).find_first_of("\n\r\f") != std::string_view::npos;
      if (!plain.empty() && plain.back() != ' ') plain += ' ';
      at = after;
      continue;
    }
    if (!is_margin || whole[at] != '>') {
      if (is_margin && plain.size() > 1 &&
          JoinsWithoutSpace(std::string_view(plain).substr(0, plain.size() - 1), whole.substr(at),
                            kFirstCjk))
        plain.pop_back();
      plain += whole[at];
      is_margin = false;
    }
    ++at;
  }
  return plain;
}

}  // namespace lectern
