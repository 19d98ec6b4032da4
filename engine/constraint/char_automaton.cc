#include "engine/constraint/char_automaton.h"

#include <algorithm>
#include <map>
#include <string>

#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern {
namespace {

constexpr uint32_t kLastChar = 0x10FFFF;
// States that are looked at for one Determined; some tenths of a second.
constexpr uint64_t kMostSetWork = 10'000'000;

// Characters that are written with a backslash, and the letter behind it.
constexpr std::pair<uint8_t, char> kEscapes[] = {{'\b', 'b'}, {'\t', 't'}, {'\n', 'n'}, {'\f', 'f'},
                                                 {'\r', 'r'}, {'"', '"'},  {'\\', '\\'}};

bool Has(const CharSet& set, uint32_t c) {
  return std::ranges::any_of(set,
                             [&](const auto& one) { return one.first <= c && c <= one.second; });
}

std::string Utf8(uint32_t c) {
  std::string bytes;
  AppendChar(c, &bytes);
  return bytes;
}

// Whether a set has all characters that a JSON string has as they are, but U+2028 and U+2029, which
// a point of a pattern leaves out.
bool HasPlainChars(const CharSet& set) {
  static const CharSet plain =
      Complement(Normalized({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {0x2028, 0x2029}}));
  return Intersection(set, plain) == Intersection(plain, StringChars());
}

// Adds characters [first, last] of the same length in UTF-8, byte by byte from the front: where
// both ends share a byte, it comes first; else the bytes at the ends, and those between, which any
// bytes may follow.
uint32_t AddUtf8(std::string_view first, std::string_view last, uint32_t next, uint32_t room,
                 GrammarBuilder& builder) {
  const auto low = static_cast<uint8_t>(first[0]), high = static_cast<uint8_t>(last[0]);
  if (first.size() == 1) return builder.Bytes(low, high, next, room);
  const std::string least(first.size() - 1, '\x80'), most(first.size() - 1, '\xBF');
  const std::string_view rest_first = first.substr(1), rest_last = last.substr(1);
  const auto add = [&](uint8_t from, uint8_t to, std::string_view begin, std::string_view end) {
    return builder.Bytes(from, to, AddUtf8(begin, end, next, 0, builder));
  };
  if (low == high) return add(low, high, rest_first, rest_last);
  const bool is_low_whole = rest_first == least, is_high_whole = rest_last == most;
  uint32_t begin = GrammarBuilder::kDeadState;
  if (!is_low_whole) begin = builder.Split(begin, add(low, low, rest_first, most));
  const int from = low + !is_low_whole, to = high - !is_high_whole;
  if (from <= to) {
    begin = builder.Split(begin,
                          add(static_cast<uint8_t>(from), static_cast<uint8_t>(to), least, most));
  }
  if (!is_high_whole) begin = builder.Split(begin, add(high, high, least, rest_last));
  return begin;
}

// Adds one character of a set. `room`: the state's.
uint32_t AddChar(const CharSet& set, Writing writing, uint32_t next, uint32_t room,
                 GrammarBuilder& builder) {
  uint32_t begin = GrammarBuilder::kDeadState;
  CharSet plain = set;
  if (writing == Writing::kJson) {
    CharSet written = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    plain = Intersection(set, Complement(written));
    for (const auto& [c, letter] : kEscapes) {
      if (!Has(set, c)) continue;
      begin = builder.Split(builder.Literal(std::string{'\\', letter}, next), begin);
    }
  }
  // The shortcut stands with the space, which every set with room has.
  constexpr std::pair<uint32_t, uint32_t> kLengths[] = {
      {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, kLastChar}};
  for (const auto& length : kLengths) {
    for (const auto& [first, last] : Intersection(plain, {length})) {
      const uint32_t own = first <= ' ' && ' ' <= last ? room : 0;
      begin = builder.Split(AddUtf8(Utf8(first), Utf8(last), next, own, builder), begin);
    }
  }
  return begin;
}

}  // namespace

CharSet Normalized(CharSet ranges) {
  std::ranges::sort(ranges);
  CharSet set;
  for (const auto& range : ranges) {
    if (!set.empty() && range.first <= set.back().second + 1) {
      set.back().second = std::max(set.back().second, range.second);
    } else {
      set.push_back(range);
    }
  }
  return set;
}

CharSet Complement(const CharSet& set) {
  CharSet rest;
  uint32_t at = 0;
  for (const auto& [first, last] : set) {
    if (first > at) rest.emplace_back(at, first - 1);
    at = last + 1;
  }
  if (at <= kLastChar) rest.emplace_back(at, kLastChar);
  return rest;
}

CharSet Intersection(const CharSet& a, const CharSet& b) {
  CharSet both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const uint32_t first = std::max(a[i].first, b[j].first);
    const uint32_t last = std::min(a[i].second, b[j].second);
    if (first <= last) both.emplace_back(first, last);
    ++(a[i].second < b[j].second ? i : j);
  }
  return both;
}

const CharSet& StringChars() {
  static const CharSet chars = {{'\b', '\n'}, {'\f', '\r'}, {' ', 0xD7FF}, {0xE000, kLastChar}};
  return chars;
}

CharAutomaton CharsOfLength(uint32_t least, std::optional<uint32_t> most) {
  CharAutomaton chars;
  uint32_t next = chars.Add({.accepts = true, .room = 0});
  uint32_t left = 0;  // characters that may follow
  if (!most) {
    left = kAnyRoom;
    chars.states[next].edges = {{StringChars(), next}};
    chars.states[next].room = kAnyRoom;
  }
  for (uint32_t length = most.value_or(least); length > 0; --length) {
    if (most) ++left;
    next =
        chars.Add({.edges = {{StringChars(), next}}, .accepts = length - 1 >= least, .room = left});
  }
  chars.begin = next;
  return chars;
}

// A tree of the texts' characters. Whatever leaves it is no longer one of the texts.
CharAutomaton CharsExcept(const std::vector<std::string_view>& texts) {
  CharAutomaton chars = CharsOfLength(0, std::nullopt);
  const uint32_t any = chars.begin;
  if (texts.empty()) return chars;
  struct Node {
    std::map<uint32_t, uint32_t> children;
    bool is_text = false;
  };
  std::vector<Node> nodes(1);
  for (const std::string_view text : texts) {
    uint32_t node = 0;
    for (size_t at = 0, length = 0; at < text.size(); at += length) {
      const uint32_t c = DecodeChar(text, at, &length);
      const auto [child, is_new] =
          nodes[node].children.try_emplace(c, static_cast<uint32_t>(nodes.size()));
      node = child->second;
      if (is_new) nodes.emplace_back();
    }
    nodes[node].is_text = true;
  }
  const auto first = static_cast<uint32_t>(chars.states.size());
  for (const Node& node : nodes) {
    CharAutomaton::State state;
    state.accepts = !node.is_text;
    CharSet known;
    for (const auto& [c, child] : node.children) {
      known.emplace_back(c, c);
      state.edges.push_back({{{c, c}}, first + child});
    }
    state.edges.push_back({Intersection(StringChars(), Complement(Normalized(known))), any});
    chars.Add(std::move(state));
  }
  chars.begin = first;
  return chars;
}

std::optional<CharAutomaton> Intersection(const CharAutomaton& a, const CharAutomaton& b,
                                          size_t most_states) {
  CharAutomaton both;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> known;
  std::vector<std::pair<uint32_t, uint32_t>> waiting;
  size_t num_edges = 0;
  const auto state_of = [&](uint32_t of_a, uint32_t of_b) {
    const auto [at, is_new] =
        known.try_emplace({of_a, of_b}, static_cast<uint32_t>(both.states.size()));
    if (is_new) {
      both.Add({.accepts = a.states[of_a].accepts && b.states[of_b].accepts,
                .room = std::min(a.states[of_a].room, b.states[of_b].room)});
      waiting.emplace_back(of_a, of_b);
    }
    return at->second;
  };
  both.begin = state_of(a.begin, b.begin);
  while (!waiting.empty()) {
    const auto [of_a, of_b] = waiting.back();
    waiting.pop_back();
    CharAutomaton::State made;
    for (const uint32_t next : a.states[of_a].empty) made.empty.push_back(state_of(next, of_b));
    for (const uint32_t next : b.states[of_b].empty) made.empty.push_back(state_of(of_a, next));
    for (const auto& one : a.states[of_a].edges) {
      for (const auto& other : b.states[of_b].edges) {
        CharSet chars = Intersection(one.chars, other.chars);
        if (!chars.empty())
          made.edges.push_back({std::move(chars), state_of(one.next, other.next)});
      }
    }
    num_edges += made.edges.size() + made.empty.size();
    if (both.states.size() > most_states || num_edges > 4 * most_states) return std::nullopt;
    CharAutomaton::State& state = both.states[known.at({of_a, of_b})];
    state.edges = std::move(made.edges), state.empty = std::move(made.empty);
  }
  return both;
}

CharAutomaton Union(const CharAutomaton& a, const CharAutomaton& b) {
  CharAutomaton both = a;
  const auto moved = static_cast<uint32_t>(both.states.size());
  for (CharAutomaton::State state : b.states) {
    for (auto& edge : state.edges) edge.next += moved;
    for (uint32_t& next : state.empty) next += moved;
    both.Add(std::move(state));
  }
  both.begin = both.Add({.empty = {a.begin, b.begin + moved}});
  return both;
}

CharAutomaton CharsOf(const std::vector<std::string>& texts) {
  CharAutomaton chars;
  std::vector<uint32_t> begins;
  for (const std::string& text : texts) {
    uint32_t at = chars.Add({});
    begins.push_back(at);
    for (size_t i = 0, length = 0; i < text.size(); i += length) {
      const uint32_t c = DecodeChar(text, i, &length);
      const uint32_t next = chars.Add({});
      chars.states[at].edges = {{{{c, c}}, next}};
      at = next;
    }
    chars.states[at].accepts = true;
  }
  chars.begin = chars.Add({.empty = std::move(begins)});
  return chars;
}

namespace {

// Sets of states of one automaton.
class StateSets {
 public:
  explicit StateSets(const CharAutomaton& automaton)
      : automaton_(automaton), marks_(automaton.states.size()) {}

  // With the states that these reach without a character; ascending.
  std::vector<uint32_t> WithEmptySteps(const std::vector<uint32_t>& states) {
    std::vector<uint32_t> all;
    ++mark_;
    const auto add = [&](uint32_t state) {
      ++work_;
      if (marks_[state] == mark_) return;
      marks_[state] = mark_;
      all.push_back(state);
    };
    for (const uint32_t state : states) add(state);
    for (size_t i = 0; i < all.size(); ++i) {
      for (const uint32_t next : automaton_.states[all[i]].empty) add(next);
    }
    std::ranges::sort(all);
    return all;
  }

  // Those that a character leads to.
  std::vector<uint32_t> Behind(const std::vector<uint32_t>& states, uint32_t c) {
    std::vector<uint32_t> next;
    ++mark_;
    for (const uint32_t state : states) {
      for (const auto& edge : automaton_.states[state].edges) {
        ++work_;
        if (marks_[edge.next] == mark_ || !Has(edge.chars, c)) continue;
        marks_[edge.next] = mark_;
        next.push_back(edge.next);
      }
    }
    return WithEmptySteps(next);
  }
  // States that were looked at.
  uint64_t work() const { return work_; }

 private:
  const CharAutomaton& automaton_;
  std::vector<uint32_t> marks_;  // [states]: `mark_` where the set that is made has the state
  uint32_t mark_ = 0;
  uint64_t work_ = 0;
};

bool AnyAccepts(const CharAutomaton& automaton, const std::vector<uint32_t>& states) {
  return std::ranges::any_of(states,
                             [&](uint32_t state) { return automaton.states[state].accepts; });
}

}  // namespace

// Sets of states that can be reached at once become one state each (Rabin and Scott 1959).
std::optional<CharAutomaton> Determined(const CharAutomaton& automaton, size_t most_states) {
  CharAutomaton made;
  StateSets sets(automaton);
  std::map<std::vector<uint32_t>, uint32_t> known;
  std::vector<std::map<std::vector<uint32_t>, uint32_t>::const_iterator> waiting;
  const auto state_of = [&](std::vector<uint32_t> states) {
    const auto [at, is_new] =
        known.try_emplace(std::move(states), static_cast<uint32_t>(made.states.size()));
    if (is_new) {
      made.Add({.accepts = AnyAccepts(automaton, at->first)});
      waiting.push_back(at);
    }
    return at->second;
  };
  made.begin = state_of(sets.WithEmptySteps({automaton.begin}));
  while (!waiting.empty()) {
    const auto& [states, from] = *waiting.back();
    waiting.pop_back();
    // Between two of these places all characters lead to the same states.
    std::vector<uint32_t> places = {0};
    for (const uint32_t state : states) {
      for (const auto& edge : automaton.states[state].edges) {
        for (const auto& [first, last] : edge.chars) {
          places.push_back(first);
          places.push_back(last + 1);
        }
      }
    }
    std::ranges::sort(places);
    places.erase(std::unique(places.begin(), places.end()), places.end());
    std::map<std::vector<uint32_t>, CharSet> steps;
    for (size_t i = 0; i < places.size() && places[i] <= kLastChar; ++i) {
      const uint32_t last = i + 1 < places.size() ? places[i + 1] - 1 : kLastChar;
      const CharSet chars = Intersection(CharSet{{places[i], last}}, StringChars());
      if (chars.empty()) continue;
      CharSet& all = steps[sets.Behind(states, chars[0].first)];
      all.insert(all.end(), chars.begin(), chars.end());
    }
    for (auto& [next, chars] : steps) {
      const uint32_t to = state_of(next);
      made.states[from].edges.push_back({Normalized(std::move(chars)), to});
    }
    if (made.states.size() > most_states || sets.work() > kMostSetWork) return std::nullopt;
  }
  return made;
}

std::optional<CharAutomaton> Complement(const CharAutomaton& automaton, size_t most_states) {
  auto made = Determined(automaton, most_states);
  if (!made) return made;
  for (uint32_t i = 1; i < made->states.size(); ++i) {
    CharAutomaton::State& state = made->states[i];
    state.accepts = !state.accepts;
    const bool goes_on = state.edges.size() == 1 && state.edges[0].next == i && state.accepts;
    if (goes_on) state.room = kAnyRoom;
  }
  return made;
}

bool Accepts(const CharAutomaton& automaton, std::string_view text) {
  StateSets sets(automaton);
  std::vector<uint32_t> states = sets.WithEmptySteps({automaton.begin});
  for (size_t at = 0, length = 0; at < text.size() && !states.empty(); at += length) {
    states = sets.Behind(states, DecodeChar(text, at, &length));
  }
  return AnyAccepts(automaton, states);
}

bool IsEmpty(const CharAutomaton& automaton) {
  std::vector<bool> has(automaton.states.size());
  std::vector<uint32_t> waiting = {automaton.begin};
  has[automaton.begin] = true;
  while (!waiting.empty()) {
    const CharAutomaton::State& state = automaton.states[waiting.back()];
    waiting.pop_back();
    if (state.accepts) return false;
    const auto add = [&](uint32_t next) {
      if (!has[next]) has[next] = true, waiting.push_back(next);
    };
    for (const auto& edge : state.edges) {
      if (!edge.chars.empty()) add(edge.next);
    }
    for (const uint32_t next : state.empty) add(next);
  }
  return true;
}

TextLengths LengthsOf(const CharAutomaton& automaton) {
  constexpr uint32_t kNone = ~uint32_t{0};
  const size_t count = automaton.states.size();
  // Steps from the end of texts to their beginning, each once for every way: of the steps that lead
  // out of a state, those whose end was done.
  std::vector<uint32_t> least(count, kNone), most(count), waits(count);
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> before(count);  // state, characters
  for (uint32_t i = 0; i < count; ++i) {
    for (const auto& edge : automaton.states[i].edges) {
      if (edge.chars.empty()) continue;
      before[edge.next].emplace_back(i, 1);
      ++waits[i];
    }
    for (const uint32_t next : automaton.states[i].empty) {
      before[next].emplace_back(i, 0);
      ++waits[i];
    }
    if (automaton.states[i].accepts) least[i] = 0;
  }
  std::vector<uint32_t> done;
  for (uint32_t i = 0; i < count; ++i) {
    if (waits[i] == 0) done.push_back(i);
  }
  // Longest texts: states whose steps all lead to done states; those in circles are never done.
  std::vector<bool> is_done(count);
  while (!done.empty()) {
    const uint32_t state = done.back();
    done.pop_back();
    is_done[state] = true;
    for (const auto& [from, chars] : before[state]) {
      if (least[state] != kNone) {
        most[from] = std::max(most[from], most[state] + chars);
        least[from] = std::min(least[from], least[state] + chars);
      }
      if (--waits[from] == 0) done.push_back(from);
    }
  }
  // Shortest texts, also through circles.
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (uint32_t state = 0; state < count; ++state) {
      if (least[state] == kNone) continue;
      for (const auto& [from, chars] : before[state]) {
        if (least[state] + chars >= least[from]) continue;
        least[from] = least[state] + chars;
        is_changed = true;
      }
    }
  }
  TextLengths lengths = {.least = least[automaton.begin], .most = {}};
  if (is_done[automaton.begin]) lengths.most = most[automaton.begin];
  return lengths;
}

uint32_t AddAutomaton(const CharAutomaton& automaton, Writing writing, uint32_t next,
                      GrammarBuilder& builder) {
  std::vector<uint32_t> begins(automaton.states.size());
  // States that are reached from one alone would need no place of their own; loops do.
  for (uint32_t& begin : begins) begin = builder.Later();
  for (size_t i = 0; i < begins.size() && !builder.is_full(); ++i) {
    const CharAutomaton::State& state = automaton.states[i];
    uint32_t begin = state.accepts ? next : GrammarBuilder::kDeadState;
    for (const CharAutomaton::Edge& edge : state.edges) {
      const uint32_t room = writing == Writing::kJson && HasPlainChars(edge.chars) ? state.room : 0;
      begin = builder.Split(AddChar(edge.chars, writing, begins[edge.next], room, builder), begin);
    }
    for (const uint32_t other : state.empty) begin = builder.Split(begins[other], begin);
    builder.Set(begins[i], begin);
  }
  return begins[automaton.begin];
}

}  // namespace lectern
