#include "engine/constraint/grammar.h"

#include <algorithm>
#include <string>
#include <unordered_set>

namespace lectern {

// Blanks between a model's thoughts and its answer.
constexpr int kMostBlanks = 4;

using Kind = GrammarState::Kind;

GrammarBuilder::GrammarBuilder() {
  grammar_.states = {{.kind = Kind::kDead}, {.kind = Kind::kEnd}};
}

size_t GrammarBuilder::Hash::operator()(const GrammarState& state) const {
  uint64_t hash = uint64_t{static_cast<uint8_t>(state.kind)} << 16 | uint64_t{state.low} << 8 |
                  uint64_t{state.high};
  for (const uint32_t part : {state.next, state.other, state.room}) {
    hash = (hash ^ part) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

uint32_t GrammarBuilder::Add(const GrammarState& state) {
  const auto [at, is_new] =
      known_.try_emplace(state, static_cast<uint32_t>(grammar_.states.size()));
  if (!is_new) return at->second;
  if (grammar_.states.size() >= kMaxStates) {
    is_full_ = true;
    known_.erase(at);
    return kDeadState;
  }
  grammar_.states.push_back(state);
  return at->second;
}

uint32_t GrammarBuilder::Bytes(uint8_t low, uint8_t high, uint32_t next, uint32_t room) {
  if (next == kDeadState) return kDeadState;
  return Add({.kind = Kind::kBytes, .low = low, .high = high, .next = next, .room = room});
}

uint32_t GrammarBuilder::Literal(std::string_view bytes, uint32_t next) {
  for (size_t i = bytes.size(); i > 0; --i) {
    const auto byte = static_cast<uint8_t>(bytes[i - 1]);
    next = Bytes(byte, byte, next);
  }
  return next;
}

uint32_t GrammarBuilder::Split(uint32_t one, uint32_t other) {
  if (one == kDeadState || one == other) return other;
  if (other == kDeadState) return one;
  return Add({.kind = Kind::kSplit, .next = one, .other = other});
}

uint32_t GrammarBuilder::Call(uint32_t rule, uint32_t next) {
  if (next == kDeadState) return kDeadState;
  return Add({.kind = Kind::kCall, .next = next, .other = rule});
}

uint32_t GrammarBuilder::Later() {
  if (grammar_.states.size() >= kMaxStates) {
    is_full_ = true;
    return kDeadState;
  }
  grammar_.states.push_back({.kind = Kind::kDead});
  return static_cast<uint32_t>(grammar_.states.size() - 1);
}

void GrammarBuilder::Set(uint32_t later, uint32_t same_as) {
  if (later == kDeadState) return;
  grammar_.states[later] = {.kind = Kind::kSplit, .next = same_as, .other = kDeadState};
}

uint32_t GrammarBuilder::NewRule() {
  grammar_.rules.push_back(kDeadState);
  return static_cast<uint32_t>(grammar_.rules.size() - 1);
}

// States come after those that they lead to, except where there are loops and calls, so that few
// rounds are needed.
void GrammarBuilder::FindHeights() {
  const std::vector<GrammarState>& states = grammar_.states;
  std::vector<uint32_t>& heights = grammar_.heights;
  heights.assign(states.size(), Grammar::kNever);
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (size_t i = 0; i < states.size(); ++i) {
      const GrammarState& state = states[i];
      uint32_t height = Grammar::kNever;
      if (state.kind == Kind::kEnd) height = 0;
      if (state.kind == Kind::kBytes) height = heights[state.next];
      if (state.kind == Kind::kSplit) height = std::min(heights[state.next], heights[state.other]);
      if (state.kind == Kind::kCall) {
        const uint32_t called = heights[grammar_.rules[state.other]];
        if (called < Grammar::kMaxDepth) height = std::max(called + 1, heights[state.next]);
      }
      if (height < heights[i]) heights[i] = height, is_changed = true;
    }
  }
}

bool GrammarBuilder::HasCircle() const {
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(grammar_.rules.size(), Mark::kNew);
  // The rules that a rule calls before it has read a byte.
  const auto called_first = [&](uint32_t rule) {
    std::vector<uint32_t> called, waiting = {grammar_.rules[rule]};
    std::unordered_set<uint32_t> seen(waiting.begin(), waiting.end());
    while (!waiting.empty()) {
      const GrammarState& state = grammar_.states[waiting.back()];
      waiting.pop_back();
      if (state.kind == Kind::kCall) called.push_back(state.other);
      if (state.kind != Kind::kSplit) continue;
      for (const uint32_t next : {state.next, state.other}) {
        if (seen.insert(next).second) waiting.push_back(next);
      }
    }
    return called;
  };
  struct Visit {
    uint32_t rule;
    std::vector<uint32_t> left;
  };
  for (uint32_t first = 0; first < marks.size(); ++first) {
    if (marks[first] != Mark::kNew) continue;
    marks[first] = Mark::kOpen;
    std::vector<Visit> path = {{first, called_first(first)}};
    while (!path.empty()) {
      Visit& top = path.back();
      if (top.left.empty()) {
        marks[top.rule] = Mark::kDone;
        path.pop_back();
        continue;
      }
      const uint32_t next = top.left.back();
      top.left.pop_back();
      if (marks[next] == Mark::kOpen) return true;
      if (marks[next] == Mark::kDone) continue;
      marks[next] = Mark::kOpen;
      path.push_back({next, called_first(next)});
    }
  }
  return false;
}

Result<Grammar> GrammarBuilder::Finish(uint32_t root) {
  if (is_full_) {
    return Status(Code::kLimitExceeded, "the schema is too large: it needs more than " +
                                            std::to_string(kMaxStates) +
                                            " states; shorten its enums, patterns or counts");
  }
  const uint32_t whole = Call(root, kEndState);
  grammar_.root = root;
  grammar_.spaced_root = NewRule();
  SetRule(grammar_.spaced_root, Split(Literal(" ", whole), whole));
  grammar_.parted_root = NewRule();
  uint32_t parted = whole;
  for (int i = 0; i < kMostBlanks; ++i) {
    parted = Split(Split(Literal(" ", parted), Literal("\n", parted)), whole);
  }
  SetRule(grammar_.parted_root, parted);
  if (HasCircle()) {
    return Status(Code::kInvalidArgument,
                  "a part of the schema refers to itself with nothing between, so that it has no "
                  "beginning; put it into an object or array");
  }
  FindHeights();
  const uint32_t height = grammar_.heights[grammar_.rules[root]];
  if (height == Grammar::kNever) {
    return Status(Code::kInvalidArgument,
                  "no JSON value fits the schema: its parts exclude each other, or it goes on "
                  "without an end");
  }
  if (height > Grammar::kMaxDepth / 2) {
    return Status(Code::kLimitExceeded, "the smallest value of the schema is nested too deeply");
  }
  return std::move(grammar_);
}

}  // namespace lectern
