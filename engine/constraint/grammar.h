// A grammar over bytes: rules that are automata, whose steps read a byte or call another rule. JSON
// schemas become such grammars (json_schema.h), and GrammarMatcher says which bytes may come next.
#ifndef LECTERN_ENGINE_CONSTRAINT_GRAMMAR_H_
#define LECTERN_ENGINE_CONSTRAINT_GRAMMAR_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "store/status.h"

namespace lectern {

// One state of a rule's automaton (Thompson's construction).
struct GrammarState {
  enum class Kind : uint8_t {
    kDead,   // nothing may follow
    kEnd,    // the rule ends
    kBytes,  // a byte in [low, high] leads to `next`
    kSplit,  // goes on as `next` or as `other`
    kCall,   // rule number `other`, then `next`
  };
  Kind kind = Kind::kDead;
  uint8_t low = 0, high = 0;
  uint32_t next = 0, other = 0;
  // In kBytes: so many plain bytes of a JSON string, whatever they are, may follow here
  // (TokenTrie); kAnyRoom: as many as one likes. Masks of whole vocabularies use it as a shortcut.
  uint32_t room = 0;

  bool operator==(const GrammarState&) const = default;
};
inline constexpr uint32_t kAnyRoom = ~uint32_t{0};

// Rules may call each other in circles. Immutable once built; thread-safe.
struct Grammar {
  // So many calls may be open inside each other. Answers nest as far as that allows.
  static constexpr uint32_t kMaxDepth = 128;
  static constexpr uint32_t kNever = ~uint32_t{0};

  std::vector<GrammarState> states;
  std::vector<uint32_t> rules;    // [rule]: the state in which it begins
  std::vector<uint32_t> heights;  // [states]: calls inside each other that the rest of the rule
                                  // needs at least; kNever: it has no end
  uint32_t root = 0;              // rule of the whole text
  // The same behind one blank, which may be missing, and behind a few blanks and newlines.
  uint32_t spaced_root = 0, parted_root = 0;
};

// Makes a grammar from the end to the beginning: each function makes the states for a piece and
// returns the one in which the piece begins; `next` is the state behind the piece. Pieces that are
// equal share their states. One thread.
class GrammarBuilder {
 public:
  // Beyond so many states Add... return kDead and is_full says so.
  static constexpr size_t kMaxStates = size_t{1} << 19;
  static constexpr uint32_t kDeadState = 0, kEndState = 1;

  GrammarBuilder();
  uint32_t Bytes(uint8_t low, uint8_t high, uint32_t next, uint32_t room = 0);
  uint32_t Literal(std::string_view bytes, uint32_t next);
  uint32_t Split(uint32_t one, uint32_t other);  // either may be dead
  uint32_t Call(uint32_t rule, uint32_t next);
  // A state that Set gives its content, for loops.
  uint32_t Later();
  void Set(uint32_t later, uint32_t same_as);
  // A rule that SetRule gives its beginning.
  uint32_t NewRule();
  void SetRule(uint32_t rule, uint32_t begin) { grammar_.rules[rule] = begin; }
  size_t num_rules() const { return grammar_.rules.size(); }
  bool is_full() const { return is_full_; }
  // Finds the heights. kInvalidArgument: the root has no finite text, or needs half of kMaxDepth
  // and more, or a rule begins with itself; kLimitExceeded: is_full().
  Result<Grammar> Finish(uint32_t root);

 private:
  uint32_t Add(const GrammarState& state);
  void FindHeights();
  // Whether a rule calls itself before it has read a byte.
  bool HasCircle() const;

  Grammar grammar_;
  struct Hash {
    size_t operator()(const GrammarState& state) const;
  };
  std::unordered_map<GrammarState, uint32_t, Hash> known_;
  bool is_full_ = false;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_CONSTRAINT_GRAMMAR_H_
