// Follows a text through a grammar, byte by byte: which bytes may come next, and whether the text
// may end.
#ifndef LECTERN_ENGINE_CONSTRAINT_GRAMMAR_MATCHER_H_
#define LECTERN_ENGINE_CONSTRAINT_GRAMMAR_MATCHER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/constraint/grammar.h"

namespace lectern {

// The open rules of a grammar are a stack: the states that follow when they end. Several may be
// open side by side, because a byte can begin more than one thing. Such a situation is a place; it
// has a number, and what follows from it is remembered, so that the work for a byte that came
// before in the same situation is a look-up. One thread.
class GrammarMatcher {
 public:
  static constexpr int32_t kNowhere = -1;
  // The stack on which nothing is open.
  static constexpr uint32_t kBottom = 0;

  // A state of kBytes, and the stack below it.
  struct Item {
    uint32_t stack, state;
    auto operator<=>(const Item&) const = default;
  };
  struct Place {
    std::vector<Item> items;  // ascending: those of a stack stand together
    bool ends = false;        // the text, or with a stack of its own the rule, may end here
    uint32_t room = 0;        // the largest of its states
    std::unique_ptr<std::array<int32_t, 256>> next;  // kUnknown: not looked up yet
  };

  // `grammar` must outlive this.
  explicit GrammarMatcher(const Grammar& grammar);

  int32_t Begin(uint32_t rule);  // the place before a text that is this rule
  // The place behind `byte`; kNowhere: it may not come. Valid until Forget.
  int32_t Next(int32_t place, uint8_t byte);
  const Place& place(int32_t number) const { return places_[static_cast<size_t>(number)]; }
  // The place of these states alone, on kBottom: where it ends, the rule that they belong to does.
  int32_t Alone(std::span<const Item> items);
  // The place when the rule of a stack's top has ended; kBottom is none.
  int32_t Ended(uint32_t stack);
  uint32_t depth(uint32_t stack) const { return stacks_[stack].depth; }

  // The only byte that may come next; -1: there are several or none, or the text may end.
  int OnlyByte(int32_t place) const;
  // Forgets all places, if there are many; returns the new number of `kept`.
  int32_t Forget(int32_t kept);
  // Changes with each time that places were forgotten.
  uint64_t generation() const { return generation_; }
  // States that were looked at for places that were not known: what the work so far cost.
  uint64_t work() const { return work_; }

 private:
  static constexpr int32_t kUnknown = -2;
  static constexpr size_t kMostPlaces = 20'000, kMostItems = 4'000'000;
  struct Stack {
    uint32_t state, below, depth;
  };
  struct ItemHash {
    size_t operator()(const std::pair<std::vector<Item>, bool>& key) const;
  };

  // Adds the states that are reached from `state` without a byte.
  void Close(uint32_t state, uint32_t stack);
  uint32_t Push(uint32_t state, uint32_t below);
  // The number of the place that Close has gathered.
  int32_t Gathered();

  const Grammar& grammar_;
  std::vector<Stack> stacks_;
  std::unordered_map<uint64_t, uint32_t> known_stacks_;  // by state and stack below
  std::deque<Place> places_;
  std::unordered_map<std::pair<std::vector<Item>, bool>, int32_t, ItemHash> known_places_;
  uint64_t generation_ = 0, work_ = 0;
  size_t num_items_ = 0;  // of all places
  // The place that is being gathered.
  struct {
    std::vector<Item> waiting, items, seen;
    bool ends = false;
  } gathered_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_CONSTRAINT_GRAMMAR_MATCHER_H_
