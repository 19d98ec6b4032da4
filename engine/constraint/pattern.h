// Reads the regular expressions of JSON schemas ("pattern"): ECMAScript's, as far as they are
// regular.
#ifndef LECTERN_ENGINE_CONSTRAINT_PATTERN_H_
#define LECTERN_ENGINE_CONSTRAINT_PATTERN_H_

#include <string_view>

#include "engine/constraint/char_automaton.h"
#include "store/status.h"

namespace lectern {

// A larger automaton is refused.
inline constexpr size_t kMostPatternStates = 20000;
// So is an opposite, which is deterministic, beyond so many: negative look-ahead needs it.
inline constexpr size_t kMostOppositeStates = 2000;

// Makes an automaton of the texts that have a match of `pattern`, which is valid UTF-8: anywhere,
// where it does not begin with ^ or end with $. Known are characters, escapes, classes, \d \w \s
// and their opposites, the point, groups, alternatives and counts; lazy counts are as others.
// Look-ahead is known at the beginning of the text, behind ^.
//
// ECMAScript and Python read some parts differently, such as \d. The automaton has no text in which
// either finds no match; if it `is_wide`, every text in which either finds one, so that its
// opposite has none in which one of them does.
//
// kInvalidArgument: not well-formed, or a part that is not known, which the message names (anchors
// and look-ahead inside, \b, look-behind, back references, \p); kLimitExceeded: more than
// kMostPatternStates, or nested more than 64 times.
Result<CharAutomaton> ParsePattern(std::string_view pattern, bool is_wide = false);

}  // namespace lectern

#endif  // LECTERN_ENGINE_CONSTRAINT_PATTERN_H_
