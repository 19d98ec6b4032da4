#include "engine/constraint/token_masks.h"

#include <algorithm>
#include <utility>

namespace lectern {
namespace {

// Rules open below a rule that is judged alone: half of what is possible. The other half is enough
// for what one token may open.
constexpr uint32_t kMostDepthBelow = Grammar::kMaxDepth / 2;

void Allow(std::span<const int32_t> ids, std::vector<uint64_t>& allowed) {
  for (const int32_t id : ids) {
    allowed[static_cast<size_t>(id) / 64] |= uint64_t{1} << (static_cast<size_t>(id) % 64);
  }
}

}  // namespace

bool TokenMasks::Walk(uint32_t node, int32_t place, Bits& allowed, std::vector<uint32_t>* ended) {
  const std::span<const TokenTrie::Node> nodes = trie_.nodes();
  const size_t base = nodes[node].depth;
  path_.assign(TokenTrie::kMostBytes + 1, GrammarMatcher::kNowhere);
  path_[base] = place;
  const GrammarMatcher::Place& start = matcher_.place(place);
  // At the root of the tree, where any plain text may come, all such tokens are taken at once.
  const bool has_plain = node == 0 && start.room >= nodes[0].most_below;
  if (has_plain) {
    for (size_t i = 0; i < allowed.size(); ++i) allowed[i] |= trie_.plain()[i];
  }
  for (uint32_t i = node + 1; i < nodes[node].end;) {
    const TokenTrie::Node& at = nodes[i];
    if (has_plain && at.is_plain) {
      i = at.end;
      continue;
    }
    const int32_t next = matcher_.Next(path_[at.depth - 1u], at.byte);
    if (next == GrammarMatcher::kNowhere) {
      i = at.end;
      continue;
    }
    if (matcher_.work() > work_limit_) return false;
    const GrammarMatcher::Place& reached = matcher_.place(next);
    if (at.is_plain && at.is_between_chars && reached.room >= at.most_below) {
      Allow(trie_.TokensBelow(i), allowed);
      i = at.end;
      continue;
    }
    Allow(trie_.TokensOf(i), allowed);
    if (ended && reached.ends && at.end > i + 1) ended->push_back(i);
    path_[at.depth] = next;
    ++i;
  }
  return true;
}

Result<const TokenMasks::Own*> TokenMasks::OwnOf(std::span<const GrammarMatcher::Item> items) {
  std::vector<uint32_t> states;
  for (const auto& item : items) states.push_back(item.state);
  const auto known = own_.find(states);
  if (known != own_.end()) return &known->second;
  Own own;
  own.allowed.assign(trie_.plain().size(), 0);
  if (!Walk(0, matcher_.Alone(items), own.allowed, &own.ended)) {
    return Status(Code::kLimitExceeded,
                  "the schema leaves too many ways open at once; make its patterns simpler");
  }
  return &own_.emplace(std::move(states), std::move(own)).first->second;
}

Result<std::span<const uint64_t>> TokenMasks::Find(int32_t place) {
  const auto known = whole_.find(place);
  if (known != whole_.end()) return std::span<const uint64_t>(known->second);
  work_limit_ = matcher_.work() + kMostWork;
  Bits allowed(trie_.plain().size(), 0);
  const std::span<const GrammarMatcher::Item> items = matcher_.place(place).items;
  bool is_in_time = true;
  for (size_t begin = 0; begin < items.size() && is_in_time;) {
    size_t end = begin;
    while (end < items.size() && items[end].stack == items[begin].stack) ++end;
    const std::span<const GrammarMatcher::Item> own = items.subspan(begin, end - begin);
    const uint32_t stack = own.front().stack;
    begin = end;
    // Where the depth may run out inside of a token, the rule alone does not tell.
    if (matcher_.depth(stack) > kMostDepthBelow) {
      std::ranges::fill(allowed, 0);
      is_in_time = Walk(0, place, allowed, nullptr);
      break;
    }
    LECTERN_ASSIGN(const Own* const judged, OwnOf(own));
    for (size_t i = 0; i < allowed.size(); ++i) allowed[i] |= judged->allowed[i];
    if (stack == GrammarMatcher::kBottom || judged->ended.empty()) continue;
    const int32_t below = matcher_.Ended(stack);
    if (below == GrammarMatcher::kNowhere) continue;
    for (const uint32_t node : judged->ended) {
      is_in_time = is_in_time && Walk(node, below, allowed, nullptr);
    }
  }
  if (!is_in_time) {
    return Status(Code::kLimitExceeded,
                  "the schema leaves too many ways open at once; make its patterns simpler");
  }
  return std::span<const uint64_t>(whole_.emplace(place, std::move(allowed)).first->second);
}

bool TokenMasks::HasLonger(uint32_t node, int32_t place) {
  const std::span<const TokenTrie::Node> nodes = trie_.nodes();
  for (uint32_t child = node + 1; child < nodes[node].end; child = nodes[child].end) {
    const int32_t next = matcher_.Next(place, nodes[child].byte);
    if (next == GrammarMatcher::kNowhere) continue;
    if (!trie_.TokensOf(child).empty() || HasLonger(child, next)) return true;
  }
  return false;
}

int32_t TokenMasks::Forget(int32_t place) {
  const size_t bytes = trie_.plain().size() * sizeof(uint64_t);
  if (whole_.size() * bytes > kMostBytes) whole_.clear();
  if (own_.size() * bytes > kMostBytes) own_.clear();
  const uint64_t before = matcher_.generation();
  place = matcher_.Forget(place);
  if (matcher_.generation() != before) whole_.clear();
  return place;
}

}  // namespace lectern
