#include "tools/ingest/outline_headings.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <tuple>

#include "tools/ingest/characters.h"

namespace lectern::tools {
namespace {

constexpr size_t kMostHeadingLines = 4;
constexpr size_t kMaxHeadingBytes = 2 * kMaxOutlineTitle;
// Items of one page times lines of one page that are compared, at most: a hostile outline has all
// of its items on one page of a million lines.
constexpr size_t kMostComparisons = size_t{1} << 19;

bool IsLetterOrDigit(utf8proc_int32_t character) {
  switch (utf8proc_category(character)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
      return true;  // "C++", "US$"
    default:
      return false;
  }
}

// The letters and digits of a text, in Unicode's form for comparing without case: what the hyphens,
// spaces and quotes of a title are differs between the outline and the page.
std::string LettersOf(std::string_view text) {
  utf8proc_uint8_t* mapped = nullptr;
  const auto* const bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  const utf8proc_ssize_t length = utf8proc_map(
      bytes, size, &mapped,
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT |
                                     UTF8PROC_CASEFOLD | UTF8PROC_IGNORE));
  std::string letters;
  for (utf8proc_ssize_t at = 0; at < length;) {
    utf8proc_int32_t character = -1;
    const utf8proc_ssize_t count = utf8proc_iterate(mapped + at, length - at, &character);
    if (count <= 0) break;
    if (IsLetterOrDigit(character)) {
      letters.append(reinterpret_cast<const char*>(mapped + at), static_cast<size_t>(count));
    }
    at += count;
  }
  std::free(mapped);
  return letters;
}

// "3", "11.4.6", "A.2", "IV", "B": a section's number, without the sign that ends it. A single
// small letter is a word.
bool IsNumberOfSection(std::string_view word) {
  if (word.empty() || word.size() > 12) return false;
  const bool is_roman = word.find_first_not_of("IVXLC") == std::string_view::npos;
  const bool is_capital = word.size() == 1 && IsAsciiUpper(word[0]);
  if (is_roman || is_capital) return true;
  const std::string_view digits = IsAsciiUpper(word[0]) ? word.substr(1) : word;
  return !digits.empty() && digits.find_first_not_of("0123456789.-") == std::string_view::npos &&
         digits.find_first_of("0123456789") != std::string_view::npos;
}

// A title in two parts: the section's number, and the letters behind it.
struct TitleParts {
  std::string number;  // in small letters, without dots; empty: it has none
  std::string rest;    // LettersOf
};

// Splits "2.1 Rent", "2.1. Rent", "Chapter 3: Rent" and the like.
TitleParts PartsOfTitle(std::string_view text) {
  std::string_view rest = text;
  for (size_t num_words = 0; num_words < 2; ++num_words) {
    const size_t begin = std::min(rest.find_first_not_of(' '), rest.size());
    rest.remove_prefix(begin);
    const size_t end = std::min(rest.find(' '), rest.size());
    std::string_view word = rest.substr(0, end);
    rest.remove_prefix(end);
    while (!word.empty() && std::string_view(".:)").find(word.back()) != std::string_view::npos) {
      word.remove_suffix(1);
    }
    if (!IsNumberOfSection(word)) continue;
    TitleParts parts{Lower(word), LettersOf(rest)};
    std::erase(parts.number, '.');
    if (!parts.rest.empty()) return parts;
    break;
  }
  return {"", LettersOf(text)};
}

// An item's title as it is compared.
struct WantedTitle {
  std::string letters;
  TitleParts parts;
};

// How sure it is that lines with this text are the title; 0: they are not.
int LikenessOf(const WantedTitle& wanted, std::string_view text, const std::string& letters) {
  if (letters == wanted.letters) return 2;
  if (letters.size() < wanted.parts.rest.size() || !letters.ends_with(wanted.parts.rest)) return 0;
  const TitleParts parts = PartsOfTitle(text);
  if (parts.rest != wanted.parts.rest) return 0;
  const bool contradict =
      !parts.number.empty() && !wanted.parts.number.empty() && parts.number != wanted.parts.number;
  return contradict ? 0 : 1;
}

class HeadingFinder {
 public:
  explicit HeadingFinder(std::span<const OutlineLine> lines)
      : lines_(lines), letters_(lines.size()), is_taken_(lines.size()) {}

  std::optional<OutlineHeading> Find(const OutlineItem& item, uint64_t page) {
    const WantedTitle wanted = {LettersOf(item.title), PartsOfTitle(item.title)};
    if (wanted.letters.empty()) return std::nullopt;
    const auto first = std::lower_bound(
        lines_.begin(), lines_.end(), page,
        [](const OutlineLine& line, uint64_t number) { return line.page < number; });
    std::optional<OutlineHeading> best;
    std::tuple<int, float> best_rank;
    for (auto i = static_cast<size_t>(first - lines_.begin());
         i < lines_.size() && lines_[i].page == page && num_comparisons_ < kMostComparisons; ++i) {
      ++num_comparisons_;
      const auto [end, likeness] = MatchAt(i, wanted);
      const std::tuple rank(likeness, lines_[i].height);
      if (likeness == 0 || (best && rank <= best_rank)) continue;
      best = OutlineHeading{i, end, item.level};
      best_rank = rank;
    }
    if (best)
      std::fill(is_taken_.begin() + static_cast<ptrdiff_t>(best->begin),
                is_taken_.begin() + static_cast<ptrdiff_t>(best->end), uint8_t{1});
    return best;
  }

 private:
  // The end of the lines from `begin` on that are the title, and how sure that is; 0: none are.
  std::pair<size_t, int> MatchAt(size_t begin, const WantedTitle& wanted) {
    if (!lines_[begin].may_begin) return {begin, 0};
    std::string text, letters;
    const size_t last = std::min(lines_.size(), begin + kMostHeadingLines);
    for (size_t i = begin; i < last && lines_[i].page == lines_[begin].page; ++i) {
      const OutlineLine& line = lines_[i];
      if (!line.may_belong || is_taken_[i] != 0 || text.size() > kMaxHeadingBytes) break;
      text += (text.empty() ? "" : " ") + std::string(line.text.substr(0, kMaxHeadingBytes));
      letters += Letters(i);
      const int likeness = LikenessOf(wanted, text, letters);
      if (likeness > 0) return {i + 1, likeness};
      // "Chapter 12", set on a line of its own, is 24 characters longer than the title at most.
      if (letters.size() > wanted.letters.size() + 24) break;
    }
    return {begin, 0};
  }

  const std::string& Letters(size_t i) {
    if (!letters_[i]) letters_[i] = LettersOf(lines_[i].text.substr(0, kMaxHeadingBytes));
    return *letters_[i];
  }

  std::span<const OutlineLine> lines_;
  std::vector<std::optional<std::string>> letters_;  // of lines that were looked at
  std::vector<uint8_t> is_taken_;                    // by a heading
  size_t num_comparisons_ = 0;
};

}  // namespace

std::vector<OutlineHeading> FindOutlineHeadings(std::span<const OutlineItem> outline,
                                                std::span<const OutlineLine> lines) {
  HeadingFinder finder(lines);
  std::vector<OutlineHeading> headings;
  std::vector<uint64_t> pages(outline.size());
  uint64_t next_page = 0;
  for (size_t i = outline.size(); i-- > 0;) {
    if (outline[i].page > 0) next_page = outline[i].page;
    pages[i] = next_page;
  }
  for (size_t i = 0; i < outline.size(); ++i) {
    if (const auto heading = finder.Find(outline[i], pages[i])) headings.push_back(*heading);
  }
  std::sort(headings.begin(), headings.end(),
            [](const OutlineHeading& a, const OutlineHeading& b) { return a.begin < b.begin; });
  return headings;
}

}  // namespace lectern::tools
