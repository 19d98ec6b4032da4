// Automata over characters (code points): the languages of patterns, formats and lengths of
// strings. They are intersected as such, and become states of a grammar in the form that strings
// have in JSON.
#ifndef LECTERN_ENGINE_CONSTRAINT_CHAR_AUTOMATON_H_
#define LECTERN_ENGINE_CONSTRAINT_CHAR_AUTOMATON_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/constraint/grammar.h"

namespace lectern {

// Ranges [first, last] of code points, ascending and apart.
using CharSet = std::vector<std::pair<uint32_t, uint32_t>>;
CharSet Normalized(CharSet ranges);  // of ranges in any order, which may overlap
CharSet Complement(const CharSet& set);
CharSet Intersection(const CharSet& a, const CharSet& b);
// The characters that strings of answers may have: all of Unicode without surrogates, and without
// the control characters that JSON has no short escape for.
const CharSet& StringChars();

// An automaton with steps that read nothing. State 0 accepts nothing.
struct CharAutomaton {
  struct Edge {
    CharSet chars;
    uint32_t next;
  };
  struct State {
    std::vector<Edge> edges = {};
    std::vector<uint32_t> empty = {};  // states that are reached without a character
    bool accepts = false;
    uint32_t room = 0;  // GrammarState::room, in characters
  };
  std::vector<State> states = {{}};
  uint32_t begin = 0;

  uint32_t Add(State state) {
    states.push_back(std::move(state));
    return static_cast<uint32_t>(states.size() - 1);
  }
};

// Texts of `least` to `most` characters; no `most`: without an end.
CharAutomaton CharsOfLength(uint32_t least, std::optional<uint32_t> most);
// All texts but these, which are valid UTF-8.
CharAutomaton CharsExcept(const std::vector<std::string_view>& texts);
// The texts of both; nothing: it would need more than `most_states`.
std::optional<CharAutomaton> Intersection(const CharAutomaton& a, const CharAutomaton& b,
                                          size_t most_states);

// The texts of at least one.
CharAutomaton Union(const CharAutomaton& a, const CharAutomaton& b);
// These texts, which are valid UTF-8.
CharAutomaton CharsOf(const std::vector<std::string>& texts);
// The same texts, with one state at a time and no step that reads nothing; nothing: it would need
// more than `most_states`.
std::optional<CharAutomaton> Determined(const CharAutomaton& automaton, size_t most_states);
// All texts but those of the automaton; nothing: it would need more than `most_states`.
std::optional<CharAutomaton> Complement(const CharAutomaton& automaton, size_t most_states);
bool Accepts(const CharAutomaton& automaton, std::string_view text);
// Whether there is no text at all.
bool IsEmpty(const CharAutomaton& automaton);
// Characters of the shortest and the longest text; no `most`: there is no longest one, or it was
// not found, because states lead to each other without a character.
struct TextLengths {
  uint32_t least = 0;
  std::optional<uint32_t> most;
};
TextLengths LengthsOf(const CharAutomaton& automaton);

// How characters are written. kJson: as in a JSON string, each in one way: as it is, or, where JSON
// demands that, as a short escape. kPlain: as they are; ASCII alone.
enum class Writing { kJson, kPlain };
// Makes the automaton a piece of a grammar. Returns its beginning.
uint32_t AddAutomaton(const CharAutomaton& automaton, Writing writing, uint32_t next,
                      GrammarBuilder& builder);

}  // namespace lectern

#endif  // LECTERN_ENGINE_CONSTRAINT_CHAR_AUTOMATON_H_
