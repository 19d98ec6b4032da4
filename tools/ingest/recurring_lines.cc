#include "tools/ingest/recurring_lines.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "tools/ingest/characters.h"

namespace lectern::tools {
namespace {

constexpr double kMinShare = 0.35;
constexpr double kMinShareOfAll = 0.6;
constexpr uint64_t kMaxPageGap = 8;  // pages without the line, within one group
constexpr float kSamePlace = 4;      // points
constexpr size_t kMaxHead = 400;     // bytes of a line that are looked at

// The value of a Roman numeral in small letters, as front matter has them; nothing: it is none.
std::optional<uint64_t> RomanValue(std::string_view text) {
  constexpr std::pair<char, uint64_t> kDigits[] = {
      {'i', 1}, {'v', 5}, {'x', 10}, {'l', 50}, {'c', 100}};
  if (text.empty() || text.size() > 8) return std::nullopt;
  uint64_t value = 0, last = 0;
  for (size_t i = text.size(); i-- > 0;) {
    const auto* const digit =
        std::find_if(std::begin(kDigits), std::end(kDigits),
                     [&](const auto& candidate) { return candidate.first == text[i]; });
    if (digit == std::end(kDigits)) return std::nullopt;
    value = digit->second < last ? value - digit->second : value + digit->second;
    last = std::max(last, digit->second);
  }
  return value;
}

uint64_t Add(uint64_t hash, char c) {  // FNV-1a
  return (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3;
}

// Whether a stretch of places, ascending by page, is on enough pages.
bool Recurs(const std::vector<LinePlace>& places, std::span<const size_t> stretch,
            uint64_t num_pages_of_all) {
  size_t num_pages = 0;
  for (size_t i = 0; i < stretch.size(); ++i) {
    num_pages += i == 0 || places[stretch[i]].page != places[stretch[i - 1]].page;
  }
  const uint64_t range = places[stretch.back()].page - places[stretch.front()].page + 1;
  const bool is_likely =
      std::all_of(stretch.begin(), stretch.end(), [&](size_t i) { return places[i].is_likely; });
  const double share =
      static_cast<double>(num_pages) / static_cast<double>(is_likely ? range : num_pages_of_all);
  if (num_pages < kMinRecurringPages) return false;
  if (!is_likely) return share >= kMinShareOfAll;
  return (places[stretch.front()].is_number || share >= kMinShare);
}

// Appends the parts of a group, ascending by page, that recur: a running head of one chapter may
// stand once more, far away. Page numbers may: on the first pages of chapters alone.
void AppendStretches(const std::vector<LinePlace>& places, const std::vector<size_t>& group,
                     uint64_t num_pages, std::vector<std::vector<size_t>>& groups) {
  for (size_t begin = 0, end = 0; begin < group.size(); begin = end) {
    for (end = begin + 1; end < group.size(); ++end) {
      const LinePlace &last = places[group[end - 1]], &place = places[group[end]];
      if (!place.is_number && place.page - last.page > kMaxPageGap) break;
    }
    const auto stretch = std::span(group).subspan(begin, end - begin);
    if (Recurs(places, stretch, num_pages)) groups.emplace_back(stretch.begin(), stretch.end());
  }
}

uint64_t Hash(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) hash = Add(hash, c);
  return hash;
}

// A number in a line: its bytes [begin, end) and its value.
struct LineNumber {
  size_t begin = 0, end = 0;
  uint64_t value = 0;
};

std::optional<LineNumber> NumberAt(std::string_view text, size_t begin) {
  size_t end = begin;
  if (IsAsciiDigit(text[begin])) {
    while (end < text.size() && IsAsciiDigit(text[end])) ++end;
    uint64_t value = 0;
    const auto parsed = std::from_chars(text.data() + begin, text.data() + end, value);
    if (parsed.ec != std::errc() || end - begin > 6) return std::nullopt;
    return LineNumber{begin, end, value};
  }
  if (begin > 0 && text[begin - 1] != ' ') return std::nullopt;
  end = std::min(text.find(' ', begin), text.size());
  const auto value = RomanValue(text.substr(begin, end - begin));
  if (!value) return std::nullopt;
  return LineNumber{begin, end, *value};
}

uint64_t HashWithDistance(std::string_view text, const LineNumber& number, uint64_t page) {
  std::string replaced(text.substr(0, number.begin));
  replaced += '\0';
  replaced += std::to_string(static_cast<int64_t>(page) - static_cast<int64_t>(number.value));
  replaced += text.substr(number.end);
  return Hash(replaced);
}

}  // namespace

RowHashes HashesOf(std::string_view text, uint64_t page) {
  if (text.size() > kMaxHead) text = text.substr(0, kMaxHead);
  RowHashes hashes;
  hashes.whole = Hash(text);
  auto& distances = hashes.with_distance;
  size_t num_numbers = 0;
  for (size_t i = 0; i < text.size();) {
    const auto number = NumberAt(text, i);
    if (number) {
      if (num_numbers == distances.size()) {  // the fourth one goes
        std::rotate(distances.begin() + 3, distances.begin() + 4, distances.end());
        --num_numbers;
      }
      distances[num_numbers++] = HashWithDistance(text, *number, page);
      hashes.is_number = number->begin == 0 && number->end == text.size();
    }
    i = number ? number->end : i + 1;
  }
  return hashes;
}

std::vector<std::vector<size_t>> FindRecurring(const std::vector<LinePlace>& places,
                                               uint64_t num_pages, bool same_x) {
  std::vector<size_t> order(places.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const LinePlace &p = places[a], &q = places[b];
    return std::tuple(p.hash, same_x ? std::round(p.x / kSamePlace) : 0.0F, p.y, p.page, a) <
           std::tuple(q.hash, same_x ? std::round(q.x / kSamePlace) : 0.0F, q.y, q.page, b);
  });
  std::vector<std::vector<size_t>> groups;
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    const LinePlace& first = places[order[begin]];
    std::vector<size_t> group;
    for (end = begin; end < order.size(); ++end) {
      const LinePlace& place = places[order[end]];
      if (place.hash != first.hash || place.y - first.y > kSamePlace ||
          (same_x && std::abs(place.x - first.x) > kSamePlace)) {
        break;
      }
      group.push_back(order[end]);
    }
    std::sort(group.begin(), group.end(), [&](size_t a, size_t b) {
      return std::pair(places[a].page, a) < std::pair(places[b].page, b);
    });
    AppendStretches(places, group, num_pages, groups);
  }
  return groups;
}

}  // namespace lectern::tools
