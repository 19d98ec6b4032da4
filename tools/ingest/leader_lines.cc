#include "tools/ingest/leader_lines.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tools/ingest/characters.h"

namespace lectern::tools {
namespace {

// All numbers here were set by hand. What they do to 248 PDFs: tools/ingest/RESULTS.md, "Tables of
// contents".
//
// Dots that make leaders: more than an ellipsis has.
constexpr size_t kMinDots = 5;
// Lines with leaders that make a page of contents: a form has one or two.
constexpr size_t kMinLeaderLines = 3;
// In heights of the lines: how far apart the middles of an entry's parts may be, and the right
// ends of page numbers.
constexpr double kEntryLevel = 0.35, kNumberEdge = 0.5;
constexpr double kNumberGap = 4;  // between a number and its title, as JoinMarkers has it
// How far an entry without dots stands from the next one, as a chapter does that has space around
// it.
constexpr double kEntryStep = 4;
// Lines without dots between two entries that may begin the title of the second; more are prose.
constexpr size_t kMostLinesOfTitle = 2;
// Lines that are looked at beside one: a page has few at one height, but a hostile one may have
// many.
constexpr size_t kMostBeside = 64;
// Words of the number before a title ("Appendix A") and of the page behind the dots ("page 5").
constexpr size_t kMostWordsBeside = 2;
constexpr std::string_view kLeaders = "....";

// The number of dots of a word of dots alone; an ellipsis is three. 0: it has another character.
size_t DotsOf(std::string_view word) {
  size_t dots = 0;
  while (!word.empty()) {
    const std::string_view ellipsis = "…";
    if (word.starts_with('.')) {
      ++dots;
      word.remove_prefix(1);
    } else if (word.starts_with(ellipsis)) {
      dots += 3;
      word.remove_prefix(ellipsis.size());
    } else {
      return 0;
    }
  }
  return dots;
}

// Words [begin, end) of a line that are leader dots; begin == end: it has none.
struct Leaders {
  size_t begin = 0, end = 0;
};
Leaders LeadersOf(const PdfLine& line) {
  for (size_t i = 0; i < line.words.size(); ++i) {
    size_t dots = 0, end = i;
    for (size_t more; end < line.words.size() && (more = DotsOf(line.words[end].text)) > 0; ++end) {
      dots += more;
    }
    if (dots >= kMinDots) return {i, end};
    i = std::max(i, end);
  }
  return {};
}

// Where the leader dots of a word begin and end that touch a title or a number, as in
// "Introduction......3"; begin == end: it has none, or nothing else.
Leaders DotsWithin(std::string_view word) {
  size_t begin = word.find("....");
  if (begin == std::string_view::npos) return {};
  size_t end = std::min(word.find_first_not_of('.', begin), word.size());
  if (end - begin < kMinDots || (begin == 0 && end == word.size())) return {};
  return {begin, end};
}

// Parts leader dots from the title before them and the number behind them, if three lines of the
// page have such dots.
void SplitLeaders(PdfPage& page) {
  size_t num_lines = 0;
  for (const PdfLine& line : page.lines) {
    num_lines += std::any_of(line.words.begin(), line.words.end(), [](const PdfWord& word) {
      const Leaders dots = DotsWithin(word.text);
      return dots.begin < dots.end;
    });
  }
  if (num_lines < kMinLeaderLines) return;
  for (PdfLine& line : page.lines) {
    std::vector<PdfWord> words;
    for (PdfWord& word : line.words) {
      const Leaders dots = DotsWithin(word.text);
      if (dots.begin == dots.end) {
        words.push_back(std::move(word));
        continue;
      }
      const double width = word.box.Width() / static_cast<double>(word.text.size());
      for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, dots.begin},
                                       {dots.begin, dots.end},
                                       {dots.end, word.text.size()}}) {
        if (begin == end) continue;
        PdfBox box = word.box;
        box.x_max = box.x_min + static_cast<double>(end) * width;
        box.x_min += static_cast<double>(begin) * width;
        words.push_back({word.text.substr(begin, end - begin), box});
      }
    }
    page.num_words += words.size() - line.words.size();
    line.words = std::move(words);
  }
}

// "12", "A-3", "xiv": a page's number or label.
bool IsLabel(const std::string& word) {
  return word.size() <= 8 && (std::any_of(word.begin(), word.end(), IsAsciiDigit) ||
                              word.find_first_not_of("ivxlcdm") == std::string::npos);
}
bool IsPageLabel(const PdfLine& line) {
  return line.words.size() <= kMostWordsBeside && IsLabel(line.words.back().text);
}

// Whether a line is a whole entry: a word of two letters or more, dots, and a number or "iv".
bool IsWhole(const PdfLine& line) {
  const Leaders leaders = LeadersOf(line);
  if (leaders.begin == leaders.end || leaders.end == line.words.size()) return false;
  const auto is_letter = [](char c) { return IsAsciiLetter(c) || static_cast<uint8_t>(c) >= 0x80; };
  const auto begin = line.words.begin();
  return std::any_of(begin, begin + static_cast<ptrdiff_t>(leaders.begin),
                     [&](const PdfWord& word) {
                       return std::count_if(word.text.begin(), word.text.end(), is_letter) >= 2;
                     }) &&
         IsLabel(line.words[leaders.end].text);
}

bool IsLevel(const PdfBox& a, const PdfBox& b) {
  return std::abs(a.CenterY() - b.CenterY()) <=
         kEntryLevel * std::min(std::abs(a.Height()), std::abs(b.Height()));
}

// Joins the lines of one page.
class LeaderJoiner {
 public:
  explicit LeaderJoiner(PdfPage& page)
      : page_(page), is_entry_(page.lines.size()), is_gone_(page.lines.size()) {
    for (size_t i = 0; i < page.lines.size(); ++i) {
      by_y_.push_back(i);
      middles_.push_back(page.lines[i].box.CenterY());
      const Leaders leaders = LeadersOf(page.lines[i]);
      if (leaders.begin < leaders.end) AddEntry(i);
    }
    std::sort(by_y_.begin(), by_y_.end(), [&](size_t a, size_t b) {
      return std::pair(Middle(a), a) < std::pair(Middle(b), b);
    });
  }

  void Run() {
    if (entries_.size() < kMinLeaderLines) return;
    SortByY(entries_);
    double left = -INFINITY, right = INFINITY;
    for (const size_t i : entries_) {
      left = std::max(left, Box(i).x_min);
      right = std::min(right, Box(i).x_max);
    }
    has_columns_ = left >= right;  // of an index, say
    const std::vector<PdfLine> as_it_was = page_.lines;
    // Pages first: they are not the numbers of entries in the next column.
    for (const size_t i : entries_) JoinLabel(i);
    for (const size_t i : entries_) JoinTitle(i);
    const auto is_whole = [&](size_t i) { return IsWhole(page_.lines[i]); };
    if (static_cast<size_t>(std::count_if(entries_.begin(), entries_.end(), is_whole)) <
        kMinLeaderLines) {
      page_.lines = as_it_was;  // the dots are a map, say
      return;
    }
    if (!has_columns_) {
      // Downwards and upwards, as each one may be the next one's neighbour.
      for (const size_t label : by_y_) JoinWithoutLeaders(label);
      for (auto label = by_y_.rbegin(); label != by_y_.rend(); ++label) JoinWithoutLeaders(*label);
    }
    std::vector<std::vector<size_t>> groups;
    if (!has_columns_) groups = Groups();
    for (const size_t i : entries_) {
      page_.lines[i].is_entry = true;
      if (is_whole(i)) ShortenLeaders(page_.lines[i]);
    }
    Gather(groups);
  }

 private:
  const PdfBox& Box(size_t i) const { return page_.lines[i].box; }
  // As it was at first: an entry keeps its height when others are moved into it.
  double Middle(size_t i) const { return middles_[i]; }
  void AddEntry(size_t line) {
    entries_.push_back(line);
    is_entry_[line] = 1;
  }
  void SortByY(std::vector<size_t>& lines) const {
    std::sort(lines.begin(), lines.end(), [&](size_t a, size_t b) {
      return std::pair(Middle(a), Box(a).x_min) < std::pair(Middle(b), Box(b).x_min);
    });
  }

  // The line beside another one at its height that is nearest on the left or on the right;
  // page_.lines.size(): none.
  size_t Beside(size_t line, bool is_left) const {
    const PdfBox& box = Box(line);
    const double reach = std::abs(box.Height());
    size_t found = page_.lines.size();
    double nearest = page_.width;
    const auto first = std::lower_bound(by_y_.begin(), by_y_.end(), box.CenterY() - reach,
                                        [&](size_t i, double y) { return Middle(i) < y; });
    const auto last = first + std::min<ptrdiff_t>(kMostBeside, by_y_.end() - first);
    for (auto i = first; i != last && Middle(*i) <= box.CenterY() + reach; ++i) {
      if (*i == line || is_gone_[*i] != 0 || !IsLevel(box, Box(*i))) continue;
      const double gap = is_left ? box.x_min - Box(*i).x_max : Box(*i).x_min - box.x_max;
      if (gap < -0.5 * reach || gap >= nearest) continue;
      nearest = gap;
      found = *i;
    }
    return found;
  }

  // Puts the words of line `from` into line `to`.
  void Move(size_t from, size_t to) {
    PdfLine& line = page_.lines[to];
    const bool is_left = Box(from).x_min < line.box.x_min;
    line.words.insert(is_left ? line.words.begin() : line.words.end(),
                      std::make_move_iterator(page_.lines[from].words.begin()),
                      std::make_move_iterator(page_.lines[from].words.end()));
    line.box.Cover(Box(from));
    is_gone_[from] = 1;
  }

  // Whether there is a line, and it is no entry of its own.
  bool IsFree(size_t line) const { return line < page_.lines.size() && is_entry_[line] == 0; }

  // The page's number behind the dots.
  void JoinLabel(size_t entry) {
    if (DotsOf(page_.lines[entry].words.back().text) == 0) return;
    const size_t label = Beside(entry, false);
    if (IsFree(label) && IsPageLabel(page_.lines[label])) Move(label, entry);
  }

  // The title before the dots, and the number before the title.
  void JoinTitle(size_t entry) {
    if (DotsOf(page_.lines[entry].words.front().text) > 0) {
      const size_t title = Beside(entry, true);
      if (IsFree(title)) Move(title, entry);
    }
    JoinNumber(entry);
  }

  // Where entries stand beside each other, a number far away may belong to the other column.
  void JoinNumber(size_t entry) {
    const size_t number = Beside(entry, true);
    if (!IsFree(number) || page_.lines[number].words.size() > kMostWordsBeside) return;
    const double gap = Box(entry).x_min - Box(number).x_max;
    if (!has_columns_ || gap <= kNumberGap * std::abs(Box(entry).Height())) Move(number, entry);
  }

  // Makes an entry of a page's number that ends where most of the others do, near another entry,
  // and of the title beside it: a chapter's, say.
  void JoinWithoutLeaders(size_t label) {
    const PdfLine& line = page_.lines[label];
    if (is_gone_[label] != 0 || !IsFree(label) || line.words.size() != 1 || !IsPageLabel(line)) {
      return;
    }
    const double height = std::abs(line.box.Height());
    if (std::abs(line.box.x_max - RightEdge()) > kNumberEdge * height ||
        !IsNearEntry(Middle(label), kEntryStep * height)) {
      return;
    }
    const size_t title = Beside(label, true);
    if (!IsFree(title)) return;
    Move(label, title);
    AddEntry(title);
    JoinNumber(title);
  }

  // Where the lines with leaders end: the median.
  double RightEdge() {
    if (right_edge_) return *right_edge_;
    std::vector<double> ends;
    for (const size_t i : entries_) ends.push_back(Box(i).x_max);
    const auto middle = ends.begin() + static_cast<ptrdiff_t>(ends.size() / 2);
    std::nth_element(ends.begin(), middle, ends.end());
    return *(right_edge_ = *middle);
  }

  bool IsNearEntry(double y, double reach) const {
    auto i = std::lower_bound(by_y_.begin(), by_y_.end(), y - reach,
                              [&](size_t line, double least) { return Middle(line) < least; });
    const auto last = i + std::min<ptrdiff_t>(kMostBeside, by_y_.end() - i);
    for (; i != last && Middle(*i) <= y + reach; ++i) {
      if (is_entry_[*i] != 0) return true;
    }
    return false;
  }

  // Entries that follow each other, from top to bottom. Lines between two of them, if these are
  // few, belong to them, such as the first line of a title that has two.
  std::vector<std::vector<size_t>> Groups() {
    std::vector<std::vector<size_t>> groups;
    std::vector<size_t> between;
    for (const size_t i : by_y_) {
      if (is_gone_[i] != 0) continue;
      if (is_entry_[i] == 0) {
        between.push_back(i);
        continue;
      }
      if (groups.empty() || between.size() > kMostLinesOfTitle) {
        groups.emplace_back();
      } else {
        for (const size_t line : between) AddEntry(line);
        groups.back().insert(groups.back().end(), between.begin(), between.end());
      }
      between.clear();
      groups.back().push_back(i);
    }
    return groups;
  }

  static void ShortenLeaders(PdfLine& line) {
    const Leaders leaders = LeadersOf(line);
    PdfWord& first = line.words[leaders.begin];
    for (size_t i = leaders.begin; i < leaders.end; ++i) first.box.Cover(line.words[i].box);
    first.text = kLeaders;
    line.words.erase(line.words.begin() + static_cast<ptrdiff_t>(leaders.begin + 1),
                     line.words.begin() + static_cast<ptrdiff_t>(leaders.end));
  }

  // Makes a block of each group, where the first of its lines was, and drops lines that are gone.
  void Gather(const std::vector<std::vector<size_t>>& groups) {
    constexpr size_t kNone = static_cast<size_t>(-1);
    std::vector<size_t> group_at(page_.lines.size(), kNone);  // by its first line in reading order
    std::vector<uint8_t> is_gathered(page_.lines.size());
    for (size_t g = 0; g < groups.size(); ++g) {
      group_at[*std::min_element(groups[g].begin(), groups[g].end())] = g;
      for (const size_t i : groups[g]) is_gathered[i] = 1;
    }
    std::vector<PdfLine> lines;
    for (size_t i = 0; i < page_.lines.size(); ++i) {
      if (group_at[i] != kNone) {
        page_.blocks.push_back(Box(groups[group_at[i]].front()));
        for (const size_t line : groups[group_at[i]]) {
          page_.blocks.back().Cover(Box(line));
          lines.push_back(std::move(page_.lines[line]));
          lines.back().block = page_.blocks.size() - 1;
        }
      }
      if (is_gathered[i] == 0 && is_gone_[i] == 0) lines.push_back(std::move(page_.lines[i]));
    }
    page_.lines = std::move(lines);
  }

  PdfPage& page_;
  std::vector<double> middles_;    // by line
  std::vector<size_t> by_y_;       // all lines
  std::vector<size_t> entries_;    // lines
  std::vector<uint8_t> is_entry_;  // by line
  std::vector<uint8_t> is_gone_;   // by line: its words are in another one
  bool has_columns_ = false;       // entries stand beside each other
  std::optional<double> right_edge_;
};

}  // namespace

void JoinLeaderLines(PdfPage& page) {
  SplitLeaders(page);
  LeaderJoiner(page).Run();
}

}  // namespace lectern::tools
