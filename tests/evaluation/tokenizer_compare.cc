// tokenizer_compare FOLDER FAMILY…: reads FAMILY.json, or else FAMILY.model, as a tokenizer and
// FAMILY.cases as what PyPI's tokenizers or sentencepiece makes of texts (make_bpe_golden.py and
// make_sentencepiece_cases.py of tests/golden), and prints a row of a table for each: strings,
// tokens, how many differ. Exits 1 where any differs.
#include <cstdio>
#include <filesystem>

#include "engine/json.h"
#include "tests/engine/bpe_cases.h"
#include "tests/engine/memory_env.h"

namespace {

// Prints the first differences to stderr.
bool CompareFamily(const std::string& folder, const std::string& family) {
  const std::string json = folder + "/" + family + ".json";
  const auto tokenizer = lectern::Tokenizer::Load(
      lectern::Env::Default(),
      std::filesystem::exists(json) ? json : folder + "/" + family + ".model");
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.status().message().c_str());
    return false;
  }
  const auto cases =
      lectern::ReadBpeCases(lectern::ReadWholeFile(folder + "/" + family + ".cases"));
  size_t tokens = 0, different = 0;
  for (const lectern::BpeCase& item : cases) {
    const auto ours = (*tokenizer)->Encode(item.text);
    tokens += item.tokens.ids.size();
    if (ours.ok() && lectern::SameTokens(*ours, item.tokens)) continue;
    if (++different > 10) continue;
    std::fprintf(stderr, "%s: %s\n  wanted %s\n  got    %s\n", family.c_str(),
                 lectern::Json(item.text).Dump().c_str(), lectern::TokensText(item.tokens).c_str(),
                 ours.ok() ? lectern::TokensText(*ours).c_str() : ours.status().message().c_str());
  }
  std::printf("| %s | %zu | %zu | %zu |\n", family.c_str(), cases.size(), tokens, different);
  return different == 0 && !cases.empty();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: tokenizer_compare FOLDER FAMILY...\n");
    return 2;
  }
  std::printf("| family | strings | tokens | different |\n|---|---:|---:|---:|\n");
  bool same = true;
  for (int i = 2; i < argc; ++i) same = CompareFamily(argv[1], argv[i]) && same;
  return same ? 0 : 1;
}
