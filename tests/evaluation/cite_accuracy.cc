// How often the passages that words alone find support the known answer:
//
//     cite_accuracy QUESTIONS [TEXTS]
//
// Reads each NAME.jsonl of the folder QUESTIONS, and NAME.txt from there or from TEXTS. A line with
// {"kind": "fact", "question", "answer", "passages": [{"begin", "end"}]} is a question; a citation
// is right if it overlaps one of its ranges. Prints, in Markdown, the share of questions for which
// the first citation, or one of three, is right, by answer and question, by the answer alone and by
// the question alone; the mean score of the first citation when it is right and when it is not; and
// times and sizes. Then how scores are calibrated: every second question is also cited from the
// next document, where nothing states it; the share of first citations whose score is at least
// kLeastScore, when they are right and when they are from there; and the tenths of all first
// citations by score, each with its mean score and the share that was right.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/asking/cite.h"
#include "engine/document/passages.h"
#include "engine/model/formats/json.h"

namespace lectern {
namespace {

using Path = std::filesystem::path;
using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Citations by one kind of input.
struct Figures {
  const char* input;
  size_t first = 0, one_of_three = 0, questions = 0;
  double right_score = 0, wrong_score = 0;  // sums over first citations
  double ms = 0, longest_ms = 0;
  // The score of each first citation, and whether it is right; then of claims of other documents.
  std::vector<std::pair<double, bool>> scores = {};
  std::vector<double> other_scores = {};
};

struct Totals {
  size_t documents = 0, passages = 0;
  uint64_t text_bytes = 0, index_bytes = 0;
  double split_ms = 0, build_ms = 0;
  Figures figures[3] = {{"answer and question"}, {"answer"}, {"question"}};
};

double Share(double part, size_t whole) {
  return whole == 0 ? 0 : part / static_cast<double>(whole);
}

std::string ReadFile(const Path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string TextMember(const Json& object, const char* key) {
  const Json* member = object.Find(key);
  return member == nullptr || member->string() == nullptr ? "" : *member->string();
}

bool IsRight(const Passage& citation, const Json::Array& ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const Json& range) {
    const Json *begin = range.Find("begin"), *end = range.Find("end");
    return begin != nullptr && end != nullptr &&
           citation.begin < end->unsigned_integer().value_or(0) &&
           begin->unsigned_integer().value_or(0) < citation.end;
  });
}

// A text with its passages and their index.
struct IndexedText {
  std::string text;
  std::vector<Passage> passages;
  std::unique_ptr<EqualPassages> equals;
  std::string bytes;
  std::unique_ptr<WordIndex> index;
};

Status IndexText(const Path& path, IndexedText& document, Totals& totals) {
  document.text = ReadFile(path);
  auto start = Clock::now();
  document.passages = SplitPassages(document.text, {});
  totals.split_ms += MillisecondsSince(start);
  document.equals = std::make_unique<EqualPassages>(document.text, document.passages);
  start = Clock::now();
  LECTERN_ASSIGN(document.bytes, WordIndex::Build(document.text, document.passages));
  totals.build_ms += MillisecondsSince(start);
  LECTERN_ASSIGN(document.index, WordIndex::Open(document.bytes));
  ++totals.documents;
  totals.passages += document.passages.size();
  totals.text_bytes += document.text.size();
  totals.index_bytes += document.bytes.size();
  return {};
}

Status Measure(const IndexedText& document, const std::string& claim, const std::string& question,
               const Json::Array& ranges, Figures& figures) {
  const auto start = Clock::now();
  LECTERN_ASSIGN(const WordSupport words,
                 WordSupport::Create(*document.index, document.text, document.passages, question));
  LECTERN_ASSIGN(const auto citations, Cite(words, *document.equals, claim, 3));
  const double ms = MillisecondsSince(start);
  figures.ms += ms;
  figures.longest_ms = std::max(figures.longest_ms, ms);
  ++figures.questions;
  if (citations.empty()) return {};
  const auto is_right_one = [&](const CitedPassage& c) {
    return IsRight(document.passages[c.passage], ranges);
  };
  const bool is_right = is_right_one(citations[0]);
  figures.scores.emplace_back(citations[0].score, is_right);
  (is_right ? figures.right_score : figures.wrong_score) += citations[0].score;
  figures.first += is_right;
  figures.one_of_three += std::any_of(citations.begin(), citations.end(), is_right_one);
  return {};
}

// The score of the first citation of a claim of another document; 0 without one.
Result<double> ScoreOfOther(const IndexedText& document, const std::string& claim,
                            const std::string& question) {
  LECTERN_ASSIGN(const WordSupport words,
                 WordSupport::Create(*document.index, document.text, document.passages, question));
  LECTERN_ASSIGN(const auto citations, Cite(words, *document.equals, claim, 1));
  return citations.empty() ? 0 : citations[0].score;
}

// `next`: a document of other texts, or nullptr.
Status MeasureDocument(const Path& questions, const IndexedText& document, const IndexedText* next,
                       Totals& totals) {
  std::istringstream lines(ReadFile(questions));
  size_t count = 0;
  for (std::string line; std::getline(lines, line);) {
    LECTERN_ASSIGN(const Json json, ParseJson(line));
    const Json* ranges = json.Find("passages");
    if (TextMember(json, "kind") != "fact" || ranges == nullptr || ranges->array() == nullptr ||
        ranges->array()->empty()) {
      continue;
    }
    const std::string answer = TextMember(json, "answer"), question = TextMember(json, "question");
    const std::pair<std::string, std::string> inputs[] = {
        {answer, question}, {answer, ""}, {"", question}};
    for (size_t i = 0; i < 3; ++i) {
      const auto& [claim, asked] = inputs[i];
      LECTERN_RETURN_IF_ERROR(Measure(document, claim, asked, *ranges->array(), totals.figures[i]));
      if (next == nullptr || count % 2 != 0) continue;
      LECTERN_ASSIGN(const double score, ScoreOfOther(*next, claim, asked));
      totals.figures[i].other_scores.push_back(score);
    }
    ++count;
  }
  return {};
}

void PrintCalibration(const Figures& figures) {
  auto scores = figures.scores;
  size_t kept = 0, others_kept = 0;
  for (const auto& [score, is_right] : scores) kept += is_right && score >= kLeastScore;
  for (const double score : figures.other_scores) {
    others_kept += score >= kLeastScore;
    scores.emplace_back(score, false);
  }
  std::sort(scores.begin(), scores.end());
  std::printf("| %s | %.1f %% | %.1f %% |", figures.input,
              100 * Share(static_cast<double>(kept), figures.first),
              100 * Share(static_cast<double>(others_kept), figures.other_scores.size()));
  for (size_t tenth = 0; tenth < 10; ++tenth) {
    const size_t first = scores.size() * tenth / 10, last = scores.size() * (tenth + 1) / 10;
    double sum = 0, right = 0;
    for (size_t i = first; i < last; ++i) sum += scores[i].first, right += scores[i].second;
    std::printf(" %.2f %.2f |", Share(sum, last - first), Share(right, last - first));
  }
  std::printf("\n");
}

void Print(const Totals& totals) {
  std::printf(
      "| cited by | questions | first right | one of three | score if right | if wrong | "
      "mean ms | longest ms |\n|---|---|---|---|---|---|---|---|\n");
  for (const Figures& f : totals.figures) {
    std::printf("| %s | %zu | %.1f %% | %.1f %% | %.2f | %.2f | %.2f | %.2f |\n", f.input,
                f.questions, 100 * Share(static_cast<double>(f.first), f.questions),
                100 * Share(static_cast<double>(f.one_of_three), f.questions),
                Share(f.right_score, f.first), Share(f.wrong_score, f.questions - f.first),
                Share(f.ms, f.questions), f.longest_ms);
  }
  std::printf(
      "\n%zu documents, %llu bytes of text, %zu passages; indexes: %llu bytes. "
      "Splitting %.1f ms, indexing words %.1f ms.\n",
      totals.documents, static_cast<unsigned long long>(totals.text_bytes), totals.passages,
      static_cast<unsigned long long>(totals.index_bytes), totals.split_ms, totals.build_ms);
  std::printf("\n| cited by | right, kept | others, kept | tenths: score, right |");
  for (size_t column = 1; column < 10; ++column) std::printf(" |");
  std::printf("\n|---|---|---|");
  for (size_t column = 0; column < 10; ++column) std::printf("---|");
  std::printf("\n");
  for (size_t i = 0; i < 2; ++i) PrintCalibration(totals.figures[i]);
}

Status Run(const Path& questions, const Path& texts) {
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::directory_iterator(questions)) {
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  Totals totals;
  std::vector<Path> measured;
  std::vector<std::unique_ptr<IndexedText>> documents;
  for (const Path& file : files) {
    const Path text = texts / file.stem().concat(".txt");
    if (!std::filesystem::exists(text)) {
      std::fprintf(stderr, "%s: there is no such text, its questions are left out\n",
                   text.c_str());
      continue;
    }
    measured.push_back(file);
    documents.push_back(std::make_unique<IndexedText>());
    LECTERN_RETURN_IF_ERROR(IndexText(text, *documents.back(), totals));
  }
  for (size_t i = 0; i < documents.size(); ++i) {
    const auto* next = documents.size() < 2 ? nullptr : documents[(i + 1) % documents.size()].get();
    LECTERN_RETURN_IF_ERROR(MeasureDocument(measured[i], *documents[i], next, totals));
  }
  Print(totals);
  return {};
}

}  // namespace
}  // namespace lectern

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: cite_accuracy QUESTIONS [TEXTS]\n");
    return 2;
  }
  const lectern::Status status = lectern::Run(argv[1], argv[argc - 1]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
