// Measures how a sparse prefill changes answers, and the time it saves:
//
//     sparse_prefill MODEL STORE QUESTIONS BUDGETS FILE.jsonl…
//
// Indexes each FILE.txt exactly and, sparsely, by each of the BUDGETS ("0.2,0.1") into STORE, where
// exact ones stay for the next run, and asks the first QUESTIONS questions of FILE.jsonl of each,
// exactly and at a budget of 0.1. Prints, in Markdown: CPU seconds of the prefills (of those that
// were made now); per layer the relative L2 error of keys and of values of the tokens that were
// prefilled sparsely; how many answers are those of the exact prefill, and how many right.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "engine/engine.h"
#include "engine/asking/ask.h"
#include "engine/indexing/index_document.h"
#include "engine/model/formats/json.h"

namespace lectern {
namespace {

constexpr float kBudgets[] = {1, 0.1f};  // of questions
constexpr uint32_t kAnswerTokens = 48;   // at most: models without a chat template go on and on

struct Question {
  std::string text, answer;
};

// Sums over all documents for one kind of prefill.
struct Figures {
  double cpu_seconds = 0;
  std::vector<double> differences[2], squares[2];  // of keys and values: [layers]
  size_t asked = 0, right[2] = {}, same[2] = {};
};

double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Result<std::vector<Question>> ReadQuestions(const std::string& file, size_t num_questions) {
  std::vector<Question> questions;
  std::ifstream in(file);
  for (std::string line; questions.size() < num_questions && std::getline(in, line);) {
    LECTERN_ASSIGN(const Json json, ParseJson(line));
    const Json *question = json.Find("question"), *answer = json.Find("answer");
    if (!question || !question->string() || !answer || !answer->string()) {
      return Status(Code::kInvalidArgument, file + ": a line without question or answer");
    }
    questions.push_back({*question->string(), *answer->string()});
  }
  return questions;
}

// Keys and values of a head, [tokens, head_dim] each, in token order. Rows that a layer of a window
// does not keep are zeros.
Result<std::array<std::vector<float>, 2>> RowsOf(const HeadIndex& head, uint64_t tokens) {
  std::array<std::vector<float>, 2> rows;
  const auto take = [&](IndexRange block) -> Status {
    LECTERN_RETURN_IF_ERROR(head.VerifyRows(block));
    for (int is_values = 0; is_values < 2; ++is_values) {
      const TypedRows stored = is_values ? head.Values(block) : head.Keys(block);
      const size_t dim = stored.num_cols;
      rows[is_values].resize(tokens * dim);
      for (uint32_t i = 0; i < block.size(); ++i) {
        ToFloatRowsScalar(
            stored.Slice(i, i + 1),
            {rows[is_values].data() + head.positions()[block.begin + i] * dim, 1, dim});
      }
    }
    return {};
  };
  LECTERN_RETURN_IF_ERROR(take({0, head.num_exact()}));
  const size_t num_clusters = head.levels().empty() ? 0 : head.levels().back().num_clusters();
  for (uint32_t i = 0; i < num_clusters; ++i) {
    LECTERN_RETURN_IF_ERROR(take(head.ClusterRows(i)));
  }
  return rows;
}

Status CompareRows(const Document& exact, const Document& sparse, Figures& figures) {
  const uint64_t tokens = exact.row().num_tokens;
  for (uint32_t layer = 0; layer < exact.num_layers(); ++layer) {
    LECTERN_ASSIGN(const auto heads, exact.Heads(layer));
    LECTERN_ASSIGN(const auto others, sparse.Heads(layer));
    for (size_t h = 0; h < heads.size(); ++h) {
      LECTERN_ASSIGN(const auto rows, RowsOf(heads[h], tokens));
      LECTERN_ASSIGN(const auto other_rows, RowsOf(others[h], tokens));
      for (int v = 0; v < 2; ++v) {
        figures.differences[v].resize(exact.num_layers());
        figures.squares[v].resize(exact.num_layers());
        for (size_t i = rows[v].size() / tokens * kDenseTokens; i < rows[v].size(); ++i) {
          figures.differences[v][layer] += std::pow(double{rows[v][i]} - other_rows[v][i], 2);
          figures.squares[v][layer] += std::pow(double{rows[v][i]}, 2);
        }
      }
    }
  }
  return {};
}

struct Measured {
  std::unique_ptr<Session> session;
  std::vector<std::string> answers[2];
};

Result<Measured> Measure(Engine& engine, const IndexContext& given, const std::string& text,
                         double budget, const std::vector<Question>& questions, Figures& figures) {
  IndexContext context = given;
  context.prefill = [&](const Transformer& transformer, std::span<const int32_t> tokens,
                        KvSpill& spill, const PrefillOptions& options) {
    const double start = CpuSeconds();
    Status status = Prefill(transformer, tokens, spill, options);
    figures.cpu_seconds += CpuSeconds() - start;
    return status;
  };
  IndexOptions options;
  if (budget < 1) options.prefill = "sparse", options.prefill_budget = budget;
  options.again = budget < 1;
  LECTERN_ASSIGN(const IndexReport report, IndexDocument(context, text, options));
  Measured measured;
  LECTERN_ASSIGN(measured.session, engine.Open(report.document));
  auto& session = static_cast<DocumentSession&>(*measured.session);
  for (const Question& question : questions) {
    for (int b = 0; b < 2; ++b) {
      session.Forget();
      AskOptions ask;
      ask.kv_budget = kBudgets[b];
      ask.max_tokens = kAnswerTokens;
      LECTERN_ASSIGN(const Answer answer, session.Ask(question.text, ask));
      figures.right[b] += answer.text == question.answer;
      measured.answers[b].push_back(answer.text);
    }
    ++figures.asked;
  }
  return measured;
}

Status MeasureFile(Engine& engine, const IndexContext& context, const std::string& file,
                   size_t num_questions, const std::vector<double>& budgets,
                   std::vector<Figures>& figures) {
  LECTERN_ASSIGN(const auto questions, ReadQuestions(file, num_questions));
  const auto path = std::filesystem::path(file).replace_extension(".txt").string();
  std::ifstream in(path, std::ios::binary);
  if (!in) return {Code::kNotFound, "cannot read " + path};
  std::ostringstream text;
  text << in.rdbuf();
  std::optional<Measured> exact;
  for (size_t i = 0; i < budgets.size(); ++i) {
    std::cerr << file << ", " << budgets[i] << '\n';
    LECTERN_ASSIGN(Measured now,
                   Measure(engine, context, text.str(), budgets[i], questions, figures[i]));
    if (i == 0) exact = std::move(now);
    const Measured& other = i == 0 ? *exact : now;
    for (int b = 0; b < 2; ++b) {
      for (size_t q = 0; q < questions.size(); ++q) {
        figures[i].same[b] += other.answers[b][q] == exact->answers[b][q];
      }
    }
    const auto document = [](const Measured& m) -> const Document& {
      return static_cast<const DocumentSession&>(*m.session).indexed();
    };
    LECTERN_RETURN_IF_ERROR(CompareRows(document(*exact), document(other), figures[i]));
  }
  return {};
}

void Print(double budget, const Figures& f) {
  std::printf("| %.3g | %.1f |", budget, f.cpu_seconds);
  for (int v = 0; v < 2; ++v) {
    for (size_t layer = 0; layer < f.squares[v].size(); ++layer) {
      std::printf("%s%.4f", layer == 0 ? " " : ", ",
                  std::sqrt(f.differences[v][layer] / f.squares[v][layer]));
    }
    std::printf(" |");
  }
  const auto percent = [&](size_t count) {
    return 100.0 * static_cast<double>(count) / static_cast<double>(f.asked);
  };
  for (int b = 0; b < 2; ++b) {
    std::printf(" %.1f | %.1f |", percent(f.right[b]), percent(f.same[b]));
  }
  std::printf("\n");
}

Status Run(const std::string& folder, const std::string& store, size_t num_questions,
           const std::vector<double>& budgets, std::span<char*> files) {
  LECTERN_ASSIGN(const auto engine, Engine::Create({.store = store, .model = folder}));
  LECTERN_ASSIGN(const auto model, Model::Load(Env::Default(), folder));
  ThreadPool threads(1);
  const IndexContext context{.env = Env::Default(),
                             .store = store,
                             .model = *model,
                             .backend = *DefaultBackend(),
                             .threads = threads};
  std::vector<Figures> figures(budgets.size());
  for (const char* const file : files) {
    LECTERN_RETURN_IF_ERROR(MeasureFile(*engine, context, file, num_questions, budgets, figures));
  }
  std::printf("%zu questions\n\n", figures[0].asked);
  std::puts(
      "| budget | CPU s | error of keys, by layer | of values | exact asks: right % | same % "
      "| asks at 0.1: right % | same % |\n|---|---|---|---|---|---|---|---|");
  for (size_t i = 0; i < budgets.size(); ++i) Print(budgets[i], figures[i]);
  return {};
}

int Main(int argc, char** argv) {
  if (argc < 6) {
    std::fputs("usage: sparse_prefill MODEL STORE QUESTIONS BUDGETS FILE.jsonl...\n", stderr);
    return 2;
  }
  std::vector<double> budgets = {1};
  std::istringstream list(argv[4]);
  for (std::string budget; std::getline(list, budget, ',');) budgets.push_back(std::stod(budget));
  const Status status = Run(argv[1], argv[2], std::strtoul(argv[3], nullptr, 10), budgets,
                            std::span(argv + 5, static_cast<size_t>(argc - 5)));
  if (status.ok()) return 0;
  std::cerr << "sparse_prefill: " << status.message() << '\n';
  return 1;
}

}  // namespace
}  // namespace lectern

int main(int argc, char** argv) { return lectern::Main(argc, argv); }
