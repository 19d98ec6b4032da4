// tokenizer_compare --stream VOCABULARY: reads a .gguf (one without tensors will do), a
// tokenizer.json or a tokenizer.model; then from stdin texts, each as u32 length and bytes, and
// writes for each to stdout u32 tokens, u32 bytes that became none, and per token u32 id, begin,
// end; or UINT32_MAX where the text is refused. What was assumed of the vocabulary goes to stderr.
// Little-endian.
//
// tokenizer_compare FOLDER FAMILY…: reads FAMILY.json, or else FAMILY.model, as a tokenizer and
// FAMILY.cases as what PyPI's tokenizers or sentencepiece makes of texts (make_bpe_golden.py and
// make_sentencepiece_cases.py of tests/golden), and prints a row of a table for each: strings,
// tokens, how many differ. Exits 1 where any differs.
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "engine/model/formats/gguf.h"
#include "engine/model/formats/json.h"
#include "engine/model/gguf_model.h"
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
    if (ours.ok() && lectern::AsTheCaseSays(*ours, item)) continue;
    if (++different > 10) continue;
    std::fprintf(stderr, "%s: %s\n  wanted %s\n  got    %s\n", family.c_str(),
                 lectern::Json(item.text).Dump().c_str(), lectern::TokensText(item.tokens).c_str(),
                 ours.ok() ? lectern::TokensText(*ours).c_str() : ours.status().message().c_str());
  }
  std::printf("| %s | %zu | %zu | %zu |\n", family.c_str(), cases.size(), tokens, different);
  return different == 0 && !cases.empty();
}

lectern::Result<std::unique_ptr<lectern::Tokenizer>> LoadVocabulary(const std::string& path) {
  lectern::Env& env = lectern::Env::Default();
  if (!path.ends_with(".gguf")) return lectern::Tokenizer::Load(env, path);
  const std::string bytes = lectern::ReadWholeFile(path);
  const auto table = lectern::ParseGguf(std::as_bytes(std::span(bytes)), path,
                                        [](uint64_t, uint64_t) { return lectern::Status(); });
  if (!table.ok()) return table.status();
  return lectern::MakeGgufTokenizer(*table, path);
}

void WriteTokens(const lectern::Result<lectern::TokenizedText>& tokens) {
  std::vector<uint32_t> out = {UINT32_MAX};
  if (tokens.ok()) {
    out = {static_cast<uint32_t>(tokens->ids.size()), static_cast<uint32_t>(tokens->dropped_bytes)};
    for (size_t i = 0; i < tokens->ids.size(); ++i) {
      out.push_back(static_cast<uint32_t>(tokens->ids[i]));
      out.push_back(static_cast<uint32_t>(tokens->ranges[i].begin));
      out.push_back(static_cast<uint32_t>(tokens->ranges[i].end));
    }
  } else {
    std::fprintf(stderr, "%s\n", tokens.status().message().c_str());
  }
  std::fwrite(out.data(), 4, out.size(), stdout);
  std::fflush(stdout);
}

int Stream(const std::string& path) {
  const auto tokenizer = LoadVocabulary(path);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.status().message().c_str());
    return 1;
  }
  for (const std::string& sentence : (*tokenizer)->assumptions()) {
    std::fprintf(stderr, "%s\n", sentence.c_str());
  }
  uint32_t size = 0;
  while (std::fread(&size, sizeof size, 1, stdin) == 1) {
    std::string text(size, '\0');
    if (std::fread(text.data(), 1, size, stdin) != size) return 1;
    WriteTokens((*tokenizer)->Encode(text));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--stream") == 0) return Stream(argv[2]);
  if (argc < 3) {
    std::fprintf(stderr, "usage: tokenizer_compare FOLDER FAMILY...\n");
    return 2;
  }
  std::printf("| family | strings | tokens | different |\n|---|---:|---:|---:|\n");
  bool same = true;
  for (int i = 2; i < argc; ++i) same = CompareFamily(argv[1], argv[i]) && same;
  return same ? 0 : 1;
}
