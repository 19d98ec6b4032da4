#include "tools/ingest/drop_capitals.h"

#include <utf8proc.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tools/ingest/letter_forms.h"

namespace lectern::tools {
namespace {

// A letter as high as two lines has 1.7 times the size of the text and more, as lines are 1.2 times
// the size apart and the letter ends at the top of the small ones; ten lines are a poster's.
constexpr double kLeastLetter = 1.7, kMostLetter = 14;
// In the height of a box: the part below the baseline, in most fonts, and a capital's height.
constexpr double kLetterDepth = 0.22, kCapitalHeight = 0.62;
// In heights of the text: between baselines that are one, and tops that are one; between the letter
// and its lines; between the beginnings of these lines, which may follow the letter's form.
constexpr double kLetterLevel = 1, kLetterTop = 0.75, kLetterGap = 1.2, kLetterOverlap = 0.5,
                 kLetterEdge = 0.6;
constexpr double kLeastLine = 6;     // the width of the first line, which a formula has not
constexpr size_t kMostTaken = 16;    // words in the letter's line that may belong to others
constexpr size_t kMostLetters = 32;  // of a page that are looked at; more are no drop capitals

double Baseline(const PdfBox& box) { return box.y_max - kLetterDepth * box.Height(); }

// Whether a word is one capital, or one behind a quotation mark.
bool IsLoneCapital(const std::string& word) {
  if (word.size() > 8) return false;
  const std::vector<uint32_t> characters = CodePoints(word);
  if (characters.empty() || characters.size() > 2) return false;
  const int category = utf8proc_category(static_cast<utf8proc_int32_t>(characters.back()));
  const bool has_quote =
      characters.size() == 2 &&
      utf8proc_category(static_cast<utf8proc_int32_t>(characters.front())) >= UTF8PROC_CATEGORY_PC;
  return category == UTF8PROC_CATEGORY_LU && (characters.size() == 1 || has_quote);
}

bool BeginsWithLetter(const std::string& word) {
  const std::vector<uint32_t> characters = CodePoints(word.substr(0, 4));
  if (characters.empty()) return false;
  const int category = utf8proc_category(static_cast<utf8proc_int32_t>(characters.front()));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL;
}

// The letters of a word, without the stops around them.
std::string InSmallLetters(const std::string& word) {
  std::string small;
  for (const uint32_t character : CodePoints(word)) {
    if (utf8proc_category(static_cast<utf8proc_int32_t>(character)) > UTF8PROC_CATEGORY_LO)
      continue;
    const auto lower = utf8proc_tolower(static_cast<utf8proc_int32_t>(character));
    small += std::to_string(lower) + ' ';
  }
  return small;
}

// A line without its first word, where that is the letter itself.
struct LineBehind {
  size_t line = 0, first_word = 0;
  PdfBox box;
};

class DropCapitals {
 public:
  explicit DropCapitals(PdfPage& page) : page_(page) {
    std::vector<double> heights;
    for (const PdfLine& line : page.lines) {
      for (const PdfWord& word : line.words) heights.push_back(word.box.Height());
    }
    if (heights.empty()) return;
    const auto middle = heights.begin() + static_cast<ptrdiff_t>(heights.size() / 2);
    std::nth_element(heights.begin(), middle, heights.end());
    height_ = *middle;
  }

  void Run() {
    size_t num_letters = 0;
    for (size_t i = 0; i < page_.lines.size() && height_ > 0; ++i) {
      const PdfWord& word = page_.lines[i].words.front();
      const double size = word.box.Height();
      if (size < kLeastLetter * height_ || size > kMostLetter * height_ ||
          !IsLoneCapital(word.text))
        continue;
      if (++num_letters > kMostLetters) break;
      std::vector<std::pair<size_t, PdfLine>> before;  // lines that change, as they were
      if (page_.lines[i].words.size() <= kMostTaken) GiveBack(i, before);
      if (Join(i)) continue;
      for (; !before.empty(); before.pop_back())
        page_.lines[before.back().first] = std::move(before.back().second);
    }
    std::erase_if(page_.lines, [](const PdfLine& line) { return line.words.empty(); });
  }

 private:
  // The lines that begin right behind the letter of line `of`, from the top.
  std::vector<LineBehind> LinesBehind(size_t of, const PdfBox& letter) const {
    std::vector<LineBehind> found;
    for (size_t i = 0; i < page_.lines.size(); ++i) {
      const PdfLine& line = page_.lines[i];
      const size_t first = i == of ? 1 : 0;
      if (line.words.size() <= first) continue;
      PdfBox box = line.words[first].box;
      for (size_t k = first; k < line.words.size(); ++k) box.Cover(line.words[k].box);
      const double gap = box.x_min - letter.x_max, base = Baseline(line.words[first].box);
      const bool is_beside = gap >= -kLetterOverlap * height_ && gap <= kLetterGap * height_ &&
                             base > Baseline(letter) - kCapitalHeight * letter.Height() &&
                             base <= Baseline(letter) + kLetterLevel * height_ &&
                             line.words[first].box.Height() < letter.Height() / kLeastLetter;
      if (is_beside) found.push_back({i, first, box});
    }
    std::sort(found.begin(), found.end(), [](const LineBehind& a, const LineBehind& b) {
      return a.box.CenterY() < b.box.CenterY();
    });
    return found;
  }

  // Gives the words that pdftotext took into the letter's line back to the lines that they begin.
  void GiveBack(size_t of, std::vector<std::pair<size_t, PdfLine>>& before) {
    constexpr double kSameBase = 0.25, kSpace = 1;  // in heights of the text
    std::vector<PdfWord>& words = page_.lines[of].words;
    for (size_t k = words.size(); k-- > 1;) {
      const PdfBox box = words[k].box;
      if (box.Height() * kLeastLetter > words.front().box.Height()) continue;
      for (size_t i = 0; i < page_.lines.size(); ++i) {
        PdfLine& line = page_.lines[i];
        if (i == of || line.words.empty()) continue;
        const PdfBox& next = line.words.front().box;
        const double gap = next.x_min - box.x_max;
        if (gap < 0 || gap > kSpace * height_ ||
            std::abs(Baseline(next) - Baseline(box)) > kSameBase * height_)
          continue;
        before.emplace_back(i, line);
        before.emplace_back(of, page_.lines[of]);
        line.words.insert(line.words.begin(), std::move(words[k]));
        line.box.Cover(box);
        words.erase(words.begin() + static_cast<ptrdiff_t>(k));
        break;
      }
    }
  }

  // Joins the letter that begins line `of` to its word; false: it is no drop capital.
  bool Join(size_t of) {
    const PdfWord letter = page_.lines[of].words.front();
    const std::vector<LineBehind> lines = LinesBehind(of, letter.box);
    if (lines.size() < 2) return false;
    const PdfLine& top = page_.lines[lines.front().line];
    const PdfBox& first = top.words[lines.front().first_word].box;
    const PdfBox& last = page_.lines[lines.back().line].words[lines.back().first_word].box;
    const double top_of_letter = Baseline(letter.box) - kCapitalHeight * letter.box.Height();
    const double top_of_line = Baseline(first) - kCapitalHeight * first.Height();
    if (std::abs(Baseline(last) - Baseline(letter.box)) > kLetterLevel * height_ ||
        std::abs(top_of_line - top_of_letter) > kLetterTop * height_)
      return false;
    if (lines.front().box.Width() < kLeastLine * height_) return false;
    for (const LineBehind& line : lines) {
      if (std::abs(line.box.x_min - lines.front().box.x_min) > kLetterEdge * height_) return false;
    }
    const std::string& rest = top.words[lines.front().first_word].text;
    const bool is_word = IsWord(letter.text, rest);
    if (!is_word && !BeginsWithLetter(rest)) return false;
    Move(of, letter, lines.front(), is_word);
    return true;
  }

  // Whether the letter is a word, such as "A", and `rest` the next one: so it is where `rest` is a
  // word elsewhere on the page, and the two together are none. Letters that are no word of a
  // language with drop capitals are never one.
  bool IsWord(const std::string& letter, const std::string& rest) const {
    constexpr std::string_view kWords[] = {"A", "I", "O", "E", "Y", "À", "È", "Ó", "Á", "É"};
    if (std::find(std::begin(kWords), std::end(kWords), letter) == std::end(kWords)) return false;
    const std::string apart = InSmallLetters(rest), together = InSmallLetters(letter + rest);
    bool is_apart = false;
    for (const PdfLine& line : page_.lines) {
      for (const PdfWord& word : line.words) {
        const std::string small = InSmallLetters(word.text);
        if (small == together) return false;
        is_apart |= small == apart && &word.text != &rest;
      }
    }
    return is_apart;
  }

  void Move(size_t of, const PdfWord& letter, const LineBehind& behind, bool is_word) {
    page_.lines[of].words.erase(page_.lines[of].words.begin());
    PdfLine& line = page_.lines[behind.line];
    const size_t at = behind.line == of ? behind.first_word - 1 : behind.first_word;
    PdfWord& rest = line.words[at];
    // The letter is as high as its line from now on.
    PdfBox box = rest.box;
    box.x_min = std::min(letter.box.x_min, rest.box.x_min);
    if (is_word) {
      box.x_max = std::max(box.x_min, std::min(letter.box.x_max, rest.box.x_min));
      line.words.insert(line.words.begin() + static_cast<ptrdiff_t>(at), {letter.text, box});
    } else {
      rest.text = letter.text + rest.text;
      rest.box = box;
    }
    for (const size_t i : {of, behind.line}) {
      PdfLine& changed = page_.lines[i];
      if (changed.words.empty()) continue;
      changed.box = changed.words.front().box;
      for (const PdfWord& word : changed.words) changed.box.Cover(word.box);
    }
  }

  PdfPage& page_;
  double height_ = 0;  // of most words
};

}  // namespace

void JoinDropCapitals(PdfPage& page) { DropCapitals(page).Run(); }

}  // namespace lectern::tools
