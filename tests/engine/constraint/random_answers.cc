// random_answers: answers at random that keep to JSON schemas, for schema_answers_test.py, which
// has another implementation validate them. Every token is drawn by a "model" that knows nothing.
//
//   random_answers TOKENIZER SEED COUNT
//
// reads schemas from stdin, one a line, and prints a line for each: {"error": "…"}, or {"not_kept":
// […], "answers": ["…", …], "cut": N}. An answer that has 400 tokens and no end is finished by the
// shortest tokens; one that cannot be counts as cut.
#include <algorithm>
#include <bit>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "engine/constraint/json_schema.h"
#include "engine/constraint/token_masks.h"
#include "engine/model/formats/json.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "store/env.h"

namespace {

using namespace lectern;

constexpr int kMostTokens = 400, kMostSteps = 4000;

std::vector<int32_t> Allowed(std::span<const uint64_t> bits) {
  std::vector<int32_t> ids;
  for (size_t word = 0; word < bits.size(); ++word) {
    for (uint64_t left = bits[word]; left != 0; left &= left - 1) {
      ids.push_back(static_cast<int32_t>(word * 64) + std::countr_zero(left));
    }
  }
  return ids;
}

// A random text of the grammar. False: it has no end within kMostSteps tokens.
bool RandomAnswer(TokenMasks& masks, const Grammar& grammar, const Tokenizer& tokenizer,
                  std::mt19937_64& random, std::string& text) {
  GrammarMatcher& matcher = masks.matcher();
  int32_t place = matcher.Begin(grammar.root);
  for (int i = 0; i < kMostSteps; ++i) {
    place = masks.Forget(place);
    const auto& at = matcher.place(place);
    const auto bits = masks.Find(place);
    if (!bits.ok()) return false;
    std::vector<int32_t> ids = Allowed(*bits);
    if (at.ends && (ids.empty() || random() % 3 == 0 || i > kMostTokens)) return true;
    if (ids.empty()) return false;
    // Marks are as likely as all texts together, so that values end.
    std::vector<int32_t> marks;
    for (const int32_t id : ids) {
      const std::string_view bytes = tokenizer.TokenBytes(id);
      const auto is_mark = [](char c) {
        return std::string_view("\"]}0,").find(c) != std::string_view::npos;
      };
      if (i > kMostTokens ? is_mark(bytes[0]) && bytes.size() == 1 && bytes[0] != ','
                          : is_mark(bytes.back())) {
        marks.push_back(id);
      }
    }
    const bool takes_mark = !marks.empty() && (i > kMostTokens || random() % 4 == 0);
    const std::vector<int32_t>& from = takes_mark ? marks : ids;
    const int32_t id = from[random() % from.size()];
    for (const char byte : tokenizer.TokenBytes(id)) {
      place = matcher.Next(place, static_cast<uint8_t>(byte));
      if (place == GrammarMatcher::kNowhere) {
        std::cerr << "token " << id << " was allowed and does not fit behind " << text << "\n";
        std::exit(1);
      }
    }
    text += tokenizer.TokenBytes(id);
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto tokenizer = Tokenizer::Load(Env::Default(), argv[1]);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status().message() << "\n";
    return 1;
  }
  const TokenTrie trie(**tokenizer);
  std::mt19937_64 random(std::stoull(argv[2]));
  const int count = std::stoi(argv[3]);
  for (std::string line; std::getline(std::cin, line);) {
    const auto schema = CompileJsonSchema(line, false);
    if (!schema.ok()) {
      std::cout << Json(Json::Object{{"error", schema.status().message()}}).Dump() << "\n";
      continue;
    }
    TokenMasks masks(schema->grammar, trie);
    Json::Array answers, not_kept;
    for (const std::string& name : schema->not_kept) not_kept.emplace_back(name);
    int cut = 0;
    for (int i = 0; i < count; ++i) {
      std::string text;
      if (RandomAnswer(masks, schema->grammar, **tokenizer, random, text)) {
        answers.emplace_back(text);
      } else {
        ++cut;
      }
    }
    std::cout
        << Json(Json::Object{{"answers", answers}, {"not_kept", not_kept}, {"cut", cut}}).Dump()
        << "\n";
  }
  return 0;
}
