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

// Makes an automaton of the texts that have a match of `pattern`, which is valid UTF-8: anywhere,
// where it does not begin with ^ or end with $. Known are characters, escapes, classes, \d \w \s
// and their opposites, the point, groups, alternatives and counts; lazy counts are as others.
//
// Where ECMAScript and Python read a part differently, it stands for what it means in both: \d, \w
// and \s are ASCII's, their opposites and the point have no character that either leaves out.
//
// kInvalidArgument: not well-formed, or a part that is not known, which the message names (anchors
// inside, \b, look-around, back references, \p); kLimitExceeded: more than kMostPatternStates, or
// nested more than 64 times.
Result<CharAutomaton> ParsePattern(std::string_view pattern);

}  // namespace lectern

#endif  // LECTERN_ENGINE_CONSTRAINT_PATTERN_H_
