#include "engine/constraint/grammar_matcher.h"

#include <algorithm>

namespace lectern {

using Kind = GrammarState::Kind;

GrammarMatcher::GrammarMatcher(const Grammar& grammar) : grammar_(grammar) {
  stacks_.push_back({0, 0, 0});
}

size_t GrammarMatcher::ItemHash::operator()(const std::pair<std::vector<Item>, bool>& key) const {
  uint64_t hash = key.second ? 1 : 2;
  for (const Item& item : key.first) {
    hash = (hash ^ (uint64_t{item.stack} << 32 | item.state)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 31;
  }
  return hash;
}

uint32_t GrammarMatcher::Push(uint32_t state, uint32_t below) {
  const uint64_t key = uint64_t{state} << 32 | below;
  const auto [at, is_new] = known_stacks_.try_emplace(key, static_cast<uint32_t>(stacks_.size()));
  if (is_new) stacks_.push_back({state, below, stacks_[below].depth + 1});
  return at->second;
}

// A state whose rule cannot end within the depth that is left is not entered, so that every text
// that was begun can be finished.
void GrammarMatcher::Close(uint32_t state, uint32_t stack) {
  gathered_.waiting.push_back({stack, state});
  while (!gathered_.waiting.empty()) {
    const Item item = gathered_.waiting.back();
    gathered_.waiting.pop_back();
    ++work_;
    const GrammarState& at = grammar_.states[item.state];
    const uint32_t height = grammar_.heights[item.state];
    if (height == Grammar::kNever || stacks_[item.stack].depth + height > Grammar::kMaxDepth) {
      continue;
    }
    if (at.kind == Kind::kBytes) {
      gathered_.items.push_back(item);
      continue;
    }
    if (at.kind == Kind::kEnd && item.stack == kBottom) {
      gathered_.ends = true;
      continue;
    }
    // Loops that read nothing come back to the same item.
    if (std::ranges::find(gathered_.seen, item) != gathered_.seen.end()) continue;
    gathered_.seen.push_back(item);
    if (at.kind == Kind::kEnd) {
      const Stack& top = stacks_[item.stack];
      gathered_.waiting.push_back({top.below, top.state});
    } else if (at.kind == Kind::kSplit) {
      gathered_.waiting.push_back({item.stack, at.other});
      gathered_.waiting.push_back({item.stack, at.next});
    } else if (at.kind == Kind::kCall) {
      gathered_.waiting.push_back({Push(at.next, item.stack), grammar_.rules[at.other]});
    }
  }
}

int32_t GrammarMatcher::Gathered() {
  std::vector<Item> items = std::move(gathered_.items);
  const bool ends = gathered_.ends;
  gathered_.items.clear();
  gathered_.seen.clear();
  gathered_.ends = false;
  if (items.empty() && !ends) return kNowhere;
  std::ranges::sort(items);
  items.erase(std::unique(items.begin(), items.end()), items.end());
  const auto [at, is_new] = known_places_.try_emplace(std::pair(std::move(items), ends),
                                                      static_cast<int32_t>(places_.size()));
  if (is_new) {
    Place& place = places_.emplace_back();
    place.items = at->first.first;
    place.ends = ends;
    num_items_ += place.items.size();
    for (const Item& item : place.items) {
      place.room = std::max(place.room, grammar_.states[item.state].room);
    }
  }
  return at->second;
}

int32_t GrammarMatcher::Begin(uint32_t rule) {
  Close(grammar_.rules[rule], kBottom);
  return Gathered();
}

int32_t GrammarMatcher::Next(int32_t number, uint8_t byte) {
  Place& from = places_[static_cast<size_t>(number)];
  if (!from.next) {
    from.next = std::make_unique<std::array<int32_t, 256>>();
    from.next->fill(kUnknown);
  }
  int32_t& known = (*from.next)[byte];
  if (known != kUnknown) return known;
  work_ += from.items.size();
  for (const Item& item : from.items) {
    const GrammarState& state = grammar_.states[item.state];
    if (byte >= state.low && byte <= state.high) Close(state.next, item.stack);
  }
  // The deque keeps its elements where they are.
  known = Gathered();
  return known;
}

int32_t GrammarMatcher::Alone(std::span<const Item> items) {
  for (const Item& item : items) Close(item.state, kBottom);
  return Gathered();
}

int32_t GrammarMatcher::Ended(uint32_t stack) {
  Close(stacks_[stack].state, stacks_[stack].below);
  return Gathered();
}

int GrammarMatcher::OnlyByte(int32_t number) const {
  const Place& at = place(number);
  if (at.ends || at.items.empty()) return -1;
  int only = -1;
  for (const Item& item : at.items) {
    const GrammarState& state = grammar_.states[item.state];
    if (state.low != state.high || (only >= 0 && only != state.low)) return -1;
    only = state.low;
  }
  return only;
}

int32_t GrammarMatcher::Forget(int32_t kept) {
  if (places_.size() < kMostPlaces && num_items_ < kMostItems) return kept;
  const std::vector<Item> items = place(kept).items;
  const bool ends = place(kept).ends;
  places_.clear();
  known_places_.clear();
  num_items_ = 0;
  ++generation_;
  gathered_.items = items;
  gathered_.ends = ends;
  return Gathered();
}

}  // namespace lectern
