// schema_texts: which values the grammar of a JSON schema can write, and texts of it at random, for
// schema_suites.py, which has the test suites of other programs.
//
//   schema_texts [SEED [SAMPLES]]
//
// reads a line {"schema": …, "values": […], "strict": false} for each schema and prints one for
// each: {"error": "…"}, or {"not_kept": […], "fits": [true, …], "samples": ["…", …], "states": N,
// "seconds": S}. A value fits if one of its spellings is a text of the grammar: its members in any
// order, its numbers in any form, on one line. A sample that does not end within 4,000 steps is
// left out.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <iostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/constraint/grammar_matcher.h"
#include "engine/constraint/json_schema.h"
#include "engine/constraint/ordered_json.h"
#include "engine/model/formats/json.h"

namespace {

using namespace lectern;

// Follows all spellings of a value at once. A place stands for everything that was written before.
class Speller {
 public:
  explicit Speller(const Grammar& grammar) : matcher_(grammar), root_(grammar.root) {}

  bool Fits(const OrderedJson& value) {
    const std::set<int32_t> ends = Behind({matcher_.Begin(root_)}, value);
    return std::ranges::any_of(ends, [&](int32_t end) { return matcher_.place(end).ends; });
  }
  bool Fits(std::string_view text) {
    const int32_t end = Behind(matcher_.Begin(root_), text);
    return end != GrammarMatcher::kNowhere && matcher_.place(end).ends;
  }

 private:
  using Places = std::set<int32_t>;
  static constexpr size_t kMostTried = 20'000;  // sets of members, in any order

  int32_t Behind(int32_t place, std::string_view text) {
    for (const char byte : text) {
      if (place == GrammarMatcher::kNowhere) break;
      place = matcher_.Next(place, static_cast<uint8_t>(byte));
    }
    return place;
  }
  Places Behind(const Places& from, std::string_view text) {
    Places ends;
    for (const int32_t place : from) ends.insert(Behind(place, text));
    ends.erase(GrammarMatcher::kNowhere);
    return ends;
  }

  static std::vector<std::string> Spellings(const Json& number) {
    std::set<std::string> all = {number.Dump()};
    const double value = *number.number();
    char text[400];
    for (const auto format : {std::chars_format::fixed, std::chars_format::scientific}) {
      const auto end = std::to_chars(text, text + sizeof text, value, format);
      std::string one(text, end.ptr);
      all.insert(one);
      if (format == std::chars_format::fixed && one.find('.') == one.npos) all.insert(one + ".0");
      const size_t e = one.find('e');
      if (e == one.npos) continue;
      // Exponents without a sign and without zeros in front.
      std::string digits = one.substr(e + 2);
      digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
      const std::string sign = one[e + 1] == '-' ? "-" : "";
      all.insert(one.substr(0, e) + "e" + sign + digits);
      all.insert(one.substr(0, e) + "e" + one[e + 1] + digits);
    }
    return {all.begin(), all.end()};
  }

  Places Behind(const Places& from, const OrderedJson& value) {
    if (from.empty()) return {};
    if (value.is_array()) {
      Places at = Behind(from, "[");
      for (size_t i = 0; i < value.items.size(); ++i) {
        at = Behind(i > 0 ? Behind(at, ", ") : at, value.items[i]);
      }
      return Behind(at, "]");
    }
    if (value.is_object()) return BehindObject(Behind(from, "{"), value);
    if (!value.scalar.number()) return Behind(from, value.scalar.Dump());
    Places ends;
    for (const std::string& spelling : Spellings(value.scalar)) ends.merge(Behind(from, spelling));
    return ends;
  }

  Places BehindObject(const Places& from, const OrderedJson& value) {
    Places ends;
    std::set<std::pair<std::vector<bool>, Places>> tried;
    std::vector<std::pair<std::vector<bool>, Places>> waiting = {
        {std::vector<bool>(value.members.size()), from}};
    while (!waiting.empty() && tried.size() < kMostTried) {
      const auto [written, at] = std::move(waiting.back());
      waiting.pop_back();
      const bool is_first = std::ranges::find(written, true) == written.end();
      if (std::ranges::find(written, false) == written.end()) ends.merge(Behind(at, "}"));
      for (size_t i = value.members.size(); i > 0; --i) {
        if (written[i - 1]) continue;
        const auto& [key, member] = value.members[i - 1];
        const Places behind =
            Behind(Behind(at, (is_first ? "" : ", ") + QuotedJson(key) + ": "), member);
        if (behind.empty()) continue;
        auto next = written;
        next[i - 1] = true;
        if (tried.emplace(next, behind).second) waiting.emplace_back(std::move(next), behind);
      }
    }
    return ends;
  }

  GrammarMatcher matcher_;
  const uint32_t root_;
};

// Walks through a grammar at random, without the matcher. After some steps it takes the shortest
// way to the end.
class Walker {
 public:
  explicit Walker(const Grammar& grammar) : grammar_(grammar) {
    // Bytes that each state needs at least to the end of its rule.
    left_.assign(grammar.states.size(), kFar);
    for (bool is_changed = true; is_changed;) {
      is_changed = false;
      for (size_t i = 0; i < left_.size(); ++i) {
        const GrammarState& state = grammar.states[i];
        uint64_t left = kFar;
        if (state.kind == GrammarState::Kind::kEnd) left = 0;
        if (state.kind == GrammarState::Kind::kBytes) left = left_[state.next] + 1;
        if (state.kind == GrammarState::Kind::kSplit)
          left = std::min(left_[state.next], left_[state.other]);
        if (state.kind == GrammarState::Kind::kCall)
          left = left_[grammar.rules[state.other]] + left_[state.next] + 1;
        if (left < left_[i]) left_[i] = left, is_changed = true;
      }
    }
  }

  // False: it goes on for too long.
  bool Walk(std::mt19937_64& random, std::string& text) const {
    const size_t wanted = random() % 200;
    std::vector<uint32_t> open;
    uint32_t at = grammar_.rules[grammar_.root];
    for (int step = 0; step < 100'000; ++step) {
      const GrammarState& state = grammar_.states[at];
      switch (state.kind) {
        case GrammarState::Kind::kDead:
          return false;
        case GrammarState::Kind::kEnd:
          if (open.empty()) return true;
          at = open.back();
          open.pop_back();
          break;
        case GrammarState::Kind::kBytes:
          text += static_cast<char>(state.low + random() % (state.high - state.low + 1u));
          at = state.next;
          break;
        case GrammarState::Kind::kCall:
          open.push_back(state.next);
          at = grammar_.rules[state.other];
          break;
        case GrammarState::Kind::kSplit: {
          const uint64_t one = left_[state.next], other = left_[state.other];
          const bool hurries = text.size() > wanted || open.size() > 20;
          const bool takes_next = one >= kFar     ? false
                                  : other >= kFar ? true
                                  : hurries       ? one < other || (one == other && random() % 2)
                                                  : random() % 2;
          at = takes_next ? state.next : state.other;
          break;
        }
      }
    }
    return false;
  }

 private:
  static constexpr uint64_t kFar = uint64_t{1} << 40;
  const Grammar& grammar_;
  std::vector<uint64_t> left_;
};

}  // namespace

int main(int argc, char** argv) {
  std::mt19937_64 random(argc > 1 ? std::stoull(argv[1]) : 1);
  const int num_samples = argc > 2 ? std::stoi(argv[2]) : 0;
  const JsonLimits limits = {
      .max_depth = 400, .max_values = 1 << 22, .max_string = size_t{1} << 24};
  for (std::string line; std::getline(std::cin, line);) {
    const auto asked = ParseOrderedJson(line, limits);
    if (!asked.ok() || !asked->Find("schema")) {
      std::cout << Json(Json::Object{{"unread", asked.status().message()}}).Dump() << std::endl;
      continue;
    }
    const auto begin = std::chrono::steady_clock::now();
    const OrderedJson* const strict = asked->Find("strict");
    const auto made = CompileJsonSchema(DumpOrdered(*asked->Find("schema")),
                                        strict && strict->boolean() && *strict->boolean());
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (!made.ok()) {
      std::cout
          << Json(Json::Object{{"error", made.status().message()}, {"seconds", seconds}}).Dump()
          << std::endl;
      continue;
    }
    Json::Array fits, samples, not_kept;
    for (const std::string& name : made->not_kept) not_kept.emplace_back(name);
    Speller speller(made->grammar);
    if (const OrderedJson* const values = asked->Find("values")) {
      for (const OrderedJson& value : values->items) fits.emplace_back(speller.Fits(value));
    }
    if (num_samples > 0) {
      const Walker walker(made->grammar);
      for (int i = 0; i < num_samples; ++i) {
        std::string text;
        // The matcher keeps to a depth, which the walker does not know.
        if (walker.Walk(random, text) && speller.Fits(text)) samples.emplace_back(text);
      }
    }
    std::cout << Json(Json::Object{{"fits", fits},
                                   {"not_kept", not_kept},
                                   {"samples", samples},
                                   {"seconds", seconds},
                                   {"states", static_cast<int64_t>(made->grammar.states.size())}})
                     .Dump()
              << std::endl;
  }
  return 0;
}
