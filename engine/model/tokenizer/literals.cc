#include "engine/model/tokenizer/literals.h"

#include <algorithm>
#include <map>
#include <queue>

#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern {

void Literals::Add(Literal literal) {
  if (!literal.text.empty()) literals_.push_back(std::move(literal));
}

// A stable sort, so that of equal texts the first one stays first and is the one that unique keeps.
void Literals::Finish() {
  const auto by_text = [](const Literal& a, const Literal& b) { return a.text < b.text; };
  std::stable_sort(literals_.begin(), literals_.end(), by_text);
  const auto same = [](const Literal& a, const Literal& b) { return a.text == b.text; };
  literals_.erase(std::unique(literals_.begin(), literals_.end(), same), literals_.end());
  std::vector<std::string_view> texts;
  for (const Literal& literal : literals_) texts.push_back(literal.text);
  trie_ = Trie(texts);
}

int32_t Literals::LongestAt(std::string_view text, size_t at, size_t limit) const {
  int32_t longest = -1;
  trie_.ForEachPrefix(text.substr(at, limit - at),
                      [&](size_t, size_t index) { longest = static_cast<int32_t>(index); });
  return longest;
}

size_t Literals::LongestSize(std::string_view text, size_t at) const {
  if (literals_.empty()) return 0;
  const int32_t found = LongestAt(text, at, text.size());
  return found < 0 ? 0 : literals_[static_cast<size_t>(found)].text.size();
}

std::vector<Literals::Match> Literals::Find(std::string_view text, LiteralOrder order) const {
  if (literals_.empty()) return {};
  return order == LiteralOrder::kFromLeft ? FindFromLeft(text) : FindLongest(text);
}

// Finds literals as Hugging Face's tokenizers does: one that is found but is no whole word is
// passed over with all of its bytes.
std::vector<Literals::Match> Literals::FindFromLeft(std::string_view text) const {
  std::vector<Match> matches;
  size_t free_from = 0;
  for (size_t at = 0; at < text.size();) {
    const int32_t found = LongestAt(text, at, text.size());
    if (found < 0) {
      ++at;
      continue;
    }
    const Literal& literal = literals_[static_cast<size_t>(found)];
    size_t begin = at, end = at + literal.text.size();
    at = end;
    if (literal.is_whole_word &&
        (EndsWithWordChar(text.substr(0, begin)) || BeginsWithWordChar(text.substr(end)))) {
      continue;
    }
    if (literal.takes_left_space) begin = std::max(free_from, SpaceBefore(text, begin));
    if (literal.takes_right_space) end = at = SpaceAfter(text, end);
    matches.push_back({begin, end, literal.id});
    free_from = end;
  }
  return matches;
}

// Literals that overlap, directly or through others, are decided on together; elsewhere the longest
// at a place is the longest of the text.
std::vector<Literals::Match> Literals::FindLongest(std::string_view text) const {
  std::vector<Match> matches;
  std::vector<uint64_t> candidates;
  size_t reach = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const int32_t found = LongestAt(text, at, text.size());
    if (found < 0) continue;
    if (at >= reach && !candidates.empty()) {
      TakeLongest(text, std::move(candidates), &matches);
      candidates.clear();
    }
    const size_t size = literals_[static_cast<size_t>(found)].text.size();
    reach = std::max(reach, at + size);
    // Sorts by size, then from the left.
    candidates.push_back(uint64_t{size} << 32 | (UINT32_MAX - static_cast<uint32_t>(at)));
  }
  TakeLongest(text, std::move(candidates), &matches);
  return matches;
}

// Decides among candidates that overlap: the longest is taken first, then the longest of what is
// left. A candidate that no longer fits may be replaced by a shorter literal at its place, which
// goes back into the queue. A candidate is size and place in one number, so that the queue sorts by
// both.
void Literals::TakeLongest(std::string_view text, std::vector<uint64_t> candidates,
                           std::vector<Match>* matches) const {
  std::priority_queue<uint64_t> queue(std::less<uint64_t>(), std::move(candidates));
  std::map<size_t, Match> taken;  // by begin
  for (; !queue.empty();) {
    const uint64_t best = queue.top();
    queue.pop();
    const size_t begin = UINT32_MAX - static_cast<uint32_t>(best), size = best >> 32;
    const auto next = taken.lower_bound(begin);
    if (next != taken.begin() && std::prev(next)->second.end > begin) continue;
    if (next != taken.end() && next->first == begin) continue;
    const size_t limit = next == taken.end() ? text.size() : next->first;
    if (begin + size > limit) {  // a shorter one may still fit before the next
      const int32_t shorter = LongestAt(text, begin, limit);
      if (shorter < 0) continue;
      queue.push(uint64_t{literals_[static_cast<size_t>(shorter)].text.size()} << 32 |
                 (UINT32_MAX - static_cast<uint32_t>(begin)));
      continue;
    }
    const auto found = static_cast<size_t>(LongestAt(text, begin, begin + size));
    taken.emplace(begin, Match{begin, begin + size, literals_[found].id});
  }
  for (const auto& [begin, match] : taken) matches->push_back(match);
}

}  // namespace lectern
