// How often words alone choose the part of a long text in which a fact stands:
//
//     route_accuracy QUESTIONS [TEXTS [OTHERS]]
//
// Reads each NAME.jsonl of the folder QUESTIONS, and NAME.txt from there or from TEXTS, and joins
// the texts into one. A line with {"kind": "fact", "question", "passages": [{"begin", "end"}]} is a
// question; a part is right if it has one of its ranges whole. Prints, in Markdown, for parts as
// indexing cuts them, of several lengths, and for each text as one part: the share of questions
// whose right part is the first, or among the first two, four and eight, and the time of one
// ranking. The last lines are of collections: of the texts, and of the texts and all files below
// OTHERS.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "engine/asking/route.h"
#include "engine/document/collection.h"
#include "engine/document/passages.h"
#include "engine/document/word_index.h"
#include "engine/indexing/cut_parts.h"
#include "engine/model/formats/json.h"
#include "engine/model/formats/text.h"

namespace lectern {
namespace {

using Path = std::filesystem::path;
using Clock = std::chrono::steady_clock;

// A token is taken to have four bytes, as English has with vocabularies of 50,000 pieces.
constexpr uint64_t kBytesOfToken = 4;

struct Range {
  uint64_t begin, end;
};
struct Question {
  std::string text;
  std::vector<Range> gold;
};
struct Joined {
  std::string text;
  std::vector<uint64_t> begins;  // of each text
  std::vector<Question> questions;
};

std::string ReadFile(const Path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Status AddQuestions(const Path& path, uint64_t begin, Joined& joined) {
  std::istringstream lines(ReadFile(path));
  for (std::string line; std::getline(lines, line);) {
    LECTERN_ASSIGN(const Json json, ParseJson(line));
    const Json *kind = json.Find("kind"), *text = json.Find("question");
    const Json* const ranges = json.Find("passages");
    if (kind == nullptr || kind->string() == nullptr || *kind->string() != "fact") continue;
    if (text == nullptr || text->string() == nullptr || ranges == nullptr ||
        ranges->array() == nullptr) {
      continue;
    }
    Question question{*text->string(), {}};
    for (const Json& range : *ranges->array()) {
      const Json *from = range.Find("begin"), *to = range.Find("end");
      if (from == nullptr || to == nullptr) continue;
      question.gold.push_back({begin + from->unsigned_integer().value_or(0),
                               begin + to->unsigned_integer().value_or(0)});
    }
    if (!question.gold.empty()) joined.questions.push_back(std::move(question));
  }
  return {};
}

// Ranks parts for a question; their numbers are those of `parts` below, or more.
using Ranker = std::function<Result<std::vector<RankedPart>>(std::string_view question)>;

// Prints a line of the table: how the questions fare with these parts. `count_of_parts`: with those
// that no question asks for.
Status Measure(const std::string& name, const Joined& joined, const Ranker& rank_parts,
               std::span<const PartEntry> parts, size_t count_of_parts) {
  constexpr size_t kFirst[] = {1, 2, 4, 8};
  size_t right[4] = {};
  double ms = 0;
  for (const Question& question : joined.questions) {
    const auto start = Clock::now();
    LECTERN_ASSIGN(const auto ranked, rank_parts(question.text));
    ms += std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    const auto found = std::ranges::find_if(ranked, [&](const RankedPart& one) {
      if (one.part >= parts.size()) return false;
      const PartEntry& part = parts[one.part];
      return std::ranges::any_of(question.gold, [&](const Range& gold) {
        return part.begin <= gold.begin && gold.end <= part.end;
      });
    });
    const auto rank = static_cast<size_t>(found - ranked.begin());
    for (size_t i = 0; i < 4; ++i) right[i] += rank < kFirst[i];
  }
  const auto count = static_cast<double>(joined.questions.size());
  std::printf("| %s | %zu |", name.c_str(), count_of_parts);
  for (const size_t n : right) std::printf(" %.1f %% |", 100 * static_cast<double>(n) / count);
  std::printf(" %.2f |\n", ms / count);
  return {};
}

// Measures a collection of the texts and others.
Status MeasureCollection(const std::string& name, const Joined& joined,
                         std::span<const PartEntry> parts, const std::vector<Path>& others) {
  const Path path = std::filesystem::temp_directory_path() /
                    ("route_accuracy-" + std::to_string(::getpid()) + ".db");
  LECTERN_ASSIGN(const auto collection, Collection::Open(Env::Default(), path.string(), "texts",
                                                         Collection::Mode::kReadWrite));
  std::vector<NewText> texts;
  for (size_t i = 0; i < parts.size(); ++i) {
    NewText& text = texts.emplace_back();
    text.name = std::to_string(i);
    text.text = joined.text.substr(parts[i].begin, parts[i].end - parts[i].begin);
  }
  for (const Path& other : others) {
    NewText text;
    text.source = other.string();
    text.text = CleanUtf8(ReadFile(other)).text;
    if (!TrimWhiteSpace(text.text).empty()) texts.push_back(std::move(text));
  }
  const auto start = Clock::now();
  LECTERN_RETURN_IF_ERROR(collection->Add(texts).status());
  uint64_t bytes = 0;
  for (const NewText& text : texts) bytes += text.text.size();
  std::fprintf(stderr, "%s: %zu texts, %.1f MB, added in %.1f s, %.1f MB on disk\n", name.c_str(),
               texts.size(), static_cast<double>(bytes) / 1e6,
               std::chrono::duration<double>(Clock::now() - start).count(),
               static_cast<double>(std::filesystem::file_size(path)) / 1e6);
  const Status status = Measure(
      name, joined,
      [&](std::string_view question) -> Result<std::vector<RankedPart>> {
        LECTERN_ASSIGN(RankedTexts ranked, RankTexts(*collection, question));
        for (RankedPart& one : ranked.ranked) {
          const CollectedText& text = (*ranked.texts)[one.part];
          one.part = text.source.starts_with('/') ? UINT32_MAX
                                                  : static_cast<uint32_t>(std::stoul(text.name));
        }
        return std::move(ranked.ranked);
      },
      parts, texts.size());
  std::filesystem::remove(path);
  return status;
}

Status MeasureAll(const Joined& joined, const std::vector<Path>& others) {
  const std::vector<Passage> passages = SplitPassages(joined.text, {});
  LECTERN_ASSIGN(const std::string bytes, WordIndex::Build(joined.text, passages));
  LECTERN_ASSIGN(const auto words, WordIndex::Open(bytes));
  std::printf("%zu facts in %zu texts of %zu bytes.\n\n", joined.questions.size(),
              joined.begins.size(), joined.text.size());
  std::printf(
      "| parts | number | first | two | four | eight | ms |\n"
      "|---|---:|---:|---:|---:|---:|---:|\n");
  std::vector<uint64_t> tokens;
  for (uint64_t at = 0; at < joined.text.size(); at += kBytesOfToken) tokens.push_back(at);
  const auto ranks = [&](std::span<const PartEntry> parts) -> Ranker {
    return [&words = *words, &passages, parts](std::string_view question) {
      return RankParts(words, passages, parts, question);
    };
  };
  for (const uint64_t limit : {3000, 6000, 12000, 24000}) {
    std::vector<PartEntry> parts;
    for (const TextPart& part : CutParts(joined.text, passages, tokens, limit)) {
      parts.push_back({part.begin, part.end, {}, 0, 0});
    }
    const std::string name = "up to " + std::to_string(limit) + " tokens";
    LECTERN_RETURN_IF_ERROR(Measure(name, joined, ranks(parts), parts, parts.size()));
  }
  std::vector<PartEntry> texts;
  for (size_t i = 0; i < joined.begins.size(); ++i) {
    const uint64_t end =
        i + 1 < joined.begins.size() ? joined.begins[i + 1] : joined.text.size();
    texts.push_back({joined.begins[i], end, {}, 0, 0});
  }
  LECTERN_RETURN_IF_ERROR(Measure("each text", joined, ranks(texts), texts, texts.size()));
  LECTERN_RETURN_IF_ERROR(MeasureCollection("a collection", joined, texts, {}));
  if (others.empty()) return {};
  return MeasureCollection("a collection with others", joined, texts, others);
}

Status Run(const Path& questions, const Path& texts, const Path& other_texts) {
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::directory_iterator(questions)) {
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  Joined joined;
  for (const Path& file : files) {
    const Path text = texts / file.stem().concat(".txt");
    if (!std::filesystem::exists(text)) continue;
    joined.begins.push_back(joined.text.size());
    LECTERN_RETURN_IF_ERROR(AddQuestions(file, joined.text.size(), joined));
    joined.text += ReadFile(text) + "\n\n";
  }
  if (joined.questions.empty()) return {Code::kNotFound, "no questions about facts"};
  std::vector<Path> others;
  if (!other_texts.empty()) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(other_texts)) {
      if (entry.is_regular_file()) others.push_back(std::filesystem::absolute(entry.path()));
    }
    std::ranges::sort(others);
  }
  return MeasureAll(joined, others);
}

}  // namespace
}  // namespace lectern

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: route_accuracy QUESTIONS [TEXTS [OTHERS]]\n");
    return 2;
  }
  const auto status = lectern::Run(argv[1], argc > 2 ? argv[2] : argv[1], argc > 3 ? argv[3] : "");
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  return 1;
}
