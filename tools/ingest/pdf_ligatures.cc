#include "tools/ingest/pdf_ligatures.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>
#include <utility>

#include "tools/find_program.h"
#include "tools/ingest/characters.h"
#include "tools/ingest/letter_forms.h"
#include "tools/ingest/letter_marks.h"
#include "tools/ingest/limited_child.h"

namespace lectern::tools {
namespace {

// The first line of the form; lines "PAGE X Y LETTER", with X and Y in thousandths of a point, and
// "end" follow it.
constexpr std::string_view kLigaturesHead = "lectern-pdf-ligatures 1";
constexpr uint64_t kMostPages = uint64_t{1} << 24;
constexpr uint64_t kMostPoints = 1'000'000;
constexpr double kEqualPlace = 0.01;  // points; pdftotext prints six decimals
constexpr uint32_t kMostWordLetters = 10'000;

// How much the widths of a ligature's letters differ at most, in points. Poppler computes a width
// from the places of two glyphs, which LibreOffice rounds: in PDFs of 9 to 14 points by up to
// 0.126. Chromium does not round.
constexpr double kHalvesDiffer = 0.13;
// The difference of one width in several words where nothing is rounded, in sizes of the font.
constexpr float kExactWidth = 0.0004f;
// A width that more than one part in so many of the letters have elsewhere is that of a glyph of
// its own. Chosen by hand: in DejaVu Sans by LibreOffice no lam stands elsewhere at the width of 72
// ligatures, and 268 at the width of eleven pairs of two glyphs. In FreeSerif 19 lams stand
// elsewhere at the width of 54 ligatures, but no alef, so that both letters must.
constexpr size_t kFewElsewhere = 10;
// So often the letters of other ligatures than lam-alef stand together, at least: pairs of two
// glyphs of Amiri look like one up to three times. Where one pair of neighbours in so many is
// equally wide, the font is monospaced: widths tell nothing there (chosen by hand).
constexpr size_t kLeastOthers = 4, kFewEqual = 3;
constexpr size_t kMostArabicLetters = size_t{1} << 22;  // of all fonts
constexpr size_t kMostFonts = 1000;  // hostile files have any number

size_t CountNear(const std::vector<float>& sorted, float width) {
  return static_cast<size_t>(std::upper_bound(sorted.begin(), sorted.end(), width + kExactWidth) -
                             std::lower_bound(sorted.begin(), sorted.end(), width - kExactWidth));
}

// The Arabic letters; kashidas and marks are none.
bool IsArabic(uint32_t character) {
  return (character >= 0x620 && character <= 0x64A && character != 0x640) ||
         (character >= 0x66E && character <= 0x6D3);
}

// Alefs are equally wide, whatever stands above them.
uint32_t Folded(uint32_t character) { return IsAlef(character) ? kAlef : character; }

double Rounded(double points) { return static_cast<double>(std::llround(points * 1000)) / 1000; }

// Takes a number and what follows it, `end`, off the front of `line`.
bool TakeLigatureNumber(std::string_view& line, char end, uint64_t max, uint64_t& number) {
  const auto read = std::from_chars(line.data(), line.data() + line.size(), number);
  if (read.ec != std::errc() || number > max) return false;
  line.remove_prefix(static_cast<size_t>(read.ptr - line.data()));
  if (line.empty() || line.front() != end) return false;
  line.remove_prefix(1);
  return true;
}

bool IsBefore(const PdfLigature& a, const PdfLigature& b) {
  return std::tie(a.page, a.x, a.y, a.letter) < std::tie(b.page, b.x, b.y, b.letter);
}

}  // namespace

bool MayHaveLigature(std::string_view word) {
  constexpr std::string_view kLamBytes = "\xD9\x84";
  if (word.find(kLamBytes) == std::string_view::npos) return false;
  const std::vector<uint32_t> letters = CodePoints(word);
  for (size_t i = 0; i + 1 < letters.size(); ++i) {
    if (letters[i] == kLam && IsAlef(letters[i + 1])) return true;
  }
  return false;
}

void TurnLigatures(std::span<const PdfLigature> ligatures, double x, double y, std::string& word) {
  auto at = std::lower_bound(
      ligatures.begin(), ligatures.end(), x - kEqualPlace,
      [](const PdfLigature& ligature, double begin) { return ligature.x < begin; });
  std::vector<uint32_t> letters;
  bool is_turned = false;
  for (; at != ligatures.end() && at->x < x + kEqualPlace; ++at) {
    if (std::abs(at->y - y) >= kEqualPlace) continue;
    if (letters.empty()) letters = CodePoints(word);
    const size_t i = at->letter;
    if (i + 1 >= letters.size() || !IsArabic(letters[i]) || !IsArabic(letters[i + 1])) {
      continue;
    }
    std::swap(letters[i], letters[i + 1]);
    is_turned = true;
  }
  if (!is_turned) return;
  word.clear();
  for (const uint32_t letter : letters) AppendUtf8(letter, word);
}

void LigatureFinder::AddWord(uint64_t page, double x, double y, std::string_view font, double size,
                             std::span<const Letter> letters) {
  const bool has_place = x >= 0 && x <= kMostPoints && y >= 0 && y <= kMostPoints;
  const bool has_widths =
      std::ranges::all_of(letters, [](const Letter& one) { return std::isfinite(one.width); });
  if (!(size > 0) || !has_place || !has_widths || letters.size() > kMostWordLetters) return;
  auto number = numbers_.find(font);
  if (number == numbers_.end()) {
    if (fonts_.size() == kMostFonts) return;
    number = numbers_.emplace(font, fonts_.size()).first;
    fonts_.emplace_back();
  }
  Font& found = fonts_[number->second];
  const auto in_sizes = [&](size_t i) { return static_cast<float>(letters[i].width / size); };
  bool is_right_half = false;
  for (size_t i = 0; i < letters.size() && num_letters_ < kMostArabicLetters; ++i) {
    const uint32_t letter = Folded(letters[i].character);
    const bool has_next = i + 1 < letters.size() && IsArabic(letters[i + 1].character);
    const bool is_left_half = IsArabic(letter) && has_next &&
                              std::abs(letters[i].width - letters[i + 1].width) < kHalvesDiffer;
    if (IsArabic(letter)) {
      ++num_letters_;
      found.num_pairs += has_next;
      found.num_equal += is_left_half;
      if (!is_left_half) found.lefts[letter].push_back(in_sizes(i));
      if (!is_right_half) found.rights[letter].push_back(in_sizes(i));
      const bool is_lam_half = is_left_half && IsAlef(letters[i + 1].character);
      const bool is_alef_half = is_right_half && letters[i - 1].character == kLam;
      if (letter == kLam && !is_lam_half) found.lams.push_back(in_sizes(i));
      if (letter == kAlef && !is_alef_half) found.alefs.push_back(in_sizes(i));
    }
    if (is_left_half) {
      const uint32_t right = Folded(letters[i + 1].character);
      found.halves[{letter, right}].push_back(in_sizes(i));
      const PdfLigature place = {page, Rounded(x), Rounded(y), static_cast<uint32_t>(i)};
      candidates_.push_back({place, number->second, {letter, right}, in_sizes(i), in_sizes(i + 1)});
    }
    const bool is_behind_lam = i > 0 && letters[i - 1].character == kLam;
    const bool is_before_lam = has_next && letters[i + 1].character == kLam;
    if (letter == kAlef && is_before_lam && !is_behind_lam && !is_right_half) {
      found.writes_two = true;
    }
    is_right_half = is_left_half;
  }
}

// Two letters of a glyph have half of its width each. Two glyphs may be equally wide, too, as an
// initial lam and a final alef of DejaVu Sans are; but then both stand beside other letters as
// well. Other ligatures than lam-alef are rare, so that only frequent ones are believed.
bool LigatureFinder::IsLigature(const Candidate& candidate) const {
  const Font& font = fonts_[candidate.font];
  const auto [left, right] = candidate.letters;
  const auto& halves = font.halves.find(candidate.letters)->second;
  const size_t num = CountNear(halves, candidate.left), few = num / kFewElsewhere;
  if (left == kLam && right == kAlef) {
    const size_t num_lams = CountNear(font.lams, candidate.left);
    // Noto Kufi Arabic has a ligature at a word's end alone.
    const bool has_some = !font.writes_two || (few > 0 && num_lams == 0);
    return has_some && (num_lams <= few || CountNear(font.alefs, candidate.right) <= few);
  }
  const auto is_elsewhere = [few](const auto& letters, uint32_t letter, float width) {
    const auto found = letters.find(letter);
    return found != letters.end() && CountNear(found->second, width) > few;
  };
  const bool is_monospaced = font.num_equal * kFewEqual > font.num_pairs;
  const bool is_lam_behind_alef = left == kAlef && right == kLam;  // "لا" in its order
  return num >= kLeastOthers && !is_monospaced && !is_lam_behind_alef &&
         !is_elsewhere(font.lefts, left, candidate.left) &&
         !is_elsewhere(font.rights, right, candidate.right);
}

std::vector<PdfLigature> LigatureFinder::Finish() {
  for (Font& font : fonts_) {
    for (auto* widths : {&font.lams, &font.alefs}) std::ranges::sort(*widths);
    for (auto& [letters, widths] : font.halves) std::ranges::sort(widths);
    for (auto* letters : {&font.lefts, &font.rights}) {
      for (auto& [letter, widths] : *letters) std::ranges::sort(widths);
    }
  }
  // A letter is a half of one ligature, of lam-alef before others.
  std::vector<PdfLigature> ligatures;
  const auto is_taken = [&](PdfLigature place, size_t num_sorted) {
    const auto end = ligatures.begin() + static_cast<ptrdiff_t>(num_sorted);
    const bool is_left_taken = std::binary_search(ligatures.begin(), end, place, IsBefore);
    ++place.letter;
    return is_left_taken || std::binary_search(ligatures.begin(), end, place, IsBefore);
  };
  for (const bool are_lam_alef : {true, false}) {
    const size_t num_sorted = ligatures.size();
    for (const Candidate& candidate : candidates_) {
      const bool is_lam_alef = candidate.letters == Pair(kLam, kAlef);
      if (is_lam_alef != are_lam_alef || ligatures.size() == kMaxLigatures) continue;
      PdfLigature before = candidate.place;
      before.letter -= before.letter > 0;
      if (is_taken(before, num_sorted) || is_taken(candidate.place, num_sorted)) continue;
      if (IsLigature(candidate)) ligatures.push_back(candidate.place);
    }
    std::ranges::sort(ligatures, IsBefore);
  }
  const auto shares_letter = [](const PdfLigature& a, const PdfLigature& b) {
    return a.page == b.page && a.x == b.x && a.y == b.y && a.letter + 1 == b.letter;
  };
  ligatures.erase(std::unique(ligatures.begin(), ligatures.end(), shares_letter), ligatures.end());
  return ligatures;
}

std::string WritePdfLigatures(std::span<const PdfLigature> ligatures) {
  const auto thousandths = [](double points) {
    return std::to_string(std::llround(std::clamp(points, 0.0, double{kMostPoints}) * 1000));
  };
  std::string out = std::string(kLigaturesHead) + '\n';
  for (const PdfLigature& ligature : ligatures) {
    out += std::to_string(ligature.page) + ' ' + thousandths(ligature.x) + ' ' +
           thousandths(ligature.y) + ' ' + std::to_string(ligature.letter) + '\n';
  }
  return out + "end\n";
}

std::optional<std::vector<PdfLigature>> ParsePdfLigatures(std::string_view bytes) {
  std::vector<PdfLigature> ligatures;
  const std::string head = std::string(kLigaturesHead) + '\n';
  if (!bytes.starts_with(head)) return std::nullopt;
  bytes.remove_prefix(head.size());
  while (bytes != "end\n") {
    PdfLigature ligature;
    uint64_t x = 0, y = 0, letter = 0;
    if (!TakeLigatureNumber(bytes, ' ', kMostPages, ligature.page) ||
        !TakeLigatureNumber(bytes, ' ', kMostPoints * 1000, x) ||
        !TakeLigatureNumber(bytes, ' ', kMostPoints * 1000, y) ||
        !TakeLigatureNumber(bytes, '\n', kMostWordLetters, letter) ||
        ligatures.size() == kMaxLigatures) {
      return std::nullopt;
    }
    ligature.x = static_cast<double>(x) / 1000;
    ligature.y = static_cast<double>(y) / 1000;
    ligature.letter = static_cast<uint32_t>(letter);
    if (!ligatures.empty() && IsBefore(ligature, ligatures.back())) return std::nullopt;
    ligatures.push_back(ligature);
  }
  return ligatures;
}

std::vector<PdfLigature> ReadPdfLigatures(std::string_view pdf, const PdfLigatureOptions& options) {
  ChildLimits limits;
  limits.cpu_seconds = options.cpu_seconds;
  limits.wall_seconds = 3 * static_cast<double>(limits.cpu_seconds);
  const std::string program =
      options.program.empty() ? LibexecProgram("lectern-pdf-ligatures") : options.program;
  const auto output = OutputOf({program}, pdf, limits, options.is_cancelled);
  return output ? ParsePdfLigatures(*output).value_or(std::vector<PdfLigature>())
                : std::vector<PdfLigature>();
}

}  // namespace lectern::tools
