#include "tools/ingest/recurring_lines.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

namespace lectern::tools {
namespace {

constexpr size_t kMinPages = 3;
constexpr double kMinShare = 0.35;
constexpr uint64_t kMaxGap = 8;  // pages without the line, within one group
constexpr float kSamePlace = 4;  // points

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsRomanNumeral(std::string_view text) {
  return !text.empty() && text.size() <= 10 &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return std::string_view("ivxlcdmIVXLCDM").find(c) != std::string_view::npos;
         });
}

uint64_t Add(uint64_t hash, char c) {  // FNV-1a
  return (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3;
}

// Whether a stretch of places, ascending by page, is on enough pages.
bool Recurs(const std::vector<LinePlace>& places, std::span<const size_t> stretch) {
  size_t num_pages = 0;
  for (size_t i = 0; i < stretch.size(); ++i) {
    num_pages += i == 0 || places[stretch[i]].page != places[stretch[i - 1]].page;
  }
  const uint64_t range = places[stretch.back()].page - places[stretch.front()].page + 1;
  return num_pages >= kMinPages &&
         (places[stretch.front()].is_page_number ||
          static_cast<double>(num_pages) >= kMinShare * static_cast<double>(range));
}

// Appends the parts of a group, ascending by page, that recur: a running head of one chapter may
// stand once more, far away. Page numbers may: on the first pages of chapters alone.
void AppendStretches(const std::vector<LinePlace>& places, const std::vector<size_t>& group,
                     std::vector<std::vector<size_t>>& groups) {
  for (size_t begin = 0, end = 0; begin < group.size(); begin = end) {
    for (end = begin + 1; end < group.size(); ++end) {
      const LinePlace &last = places[group[end - 1]], &place = places[group[end]];
      if (!place.is_page_number && place.page - last.page > kMaxGap) break;
    }
    const auto stretch = std::span(group).subspan(begin, end - begin);
    if (Recurs(places, stretch)) groups.emplace_back(stretch.begin(), stretch.end());
  }
}

}  // namespace

uint64_t HashOfRow(std::string_view text, uint64_t page, bool& is_page_number) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  is_page_number = error == std::errc() && end == text.data() + text.size() && text.size() <= 6;
  return is_page_number ? (page - number) * 2 + 1 : HashWithoutNumbers(text);
}

uint64_t HashWithoutNumbers(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325;
  if (IsRomanNumeral(text)) text = "0";
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsDigit(text[i])) {
      while (i + 1 < text.size() && IsDigit(text[i + 1])) ++i;
      hash = Add(hash, '0');
    } else {
      hash = Add(hash, text[i]);
    }
  }
  return hash == 0 ? 1 : hash;
}

std::vector<std::vector<size_t>> FindRecurring(const std::vector<LinePlace>& places, bool same_x) {
  std::vector<size_t> order(places.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const LinePlace &p = places[a], &q = places[b];
    return std::tuple(p.text_hash, same_x ? std::round(p.x / kSamePlace) : 0.0F, p.y, p.page, a) <
           std::tuple(q.text_hash, same_x ? std::round(q.x / kSamePlace) : 0.0F, q.y, q.page, b);
  });
  std::vector<std::vector<size_t>> groups;
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    const LinePlace& first = places[order[begin]];
    std::vector<size_t> group;
    for (end = begin; end < order.size(); ++end) {
      const LinePlace& place = places[order[end]];
      if (place.text_hash != first.text_hash || place.y - first.y > kSamePlace ||
          (same_x && std::abs(place.x - first.x) > kSamePlace)) {
        break;
      }
      group.push_back(order[end]);
    }
    std::sort(group.begin(), group.end(), [&](size_t a, size_t b) {
      return std::pair(places[a].page, a) < std::pair(places[b].page, b);
    });
    AppendStretches(places, group, groups);
  }
  return groups;
}

}  // namespace lectern::tools
