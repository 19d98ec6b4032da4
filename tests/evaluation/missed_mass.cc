// Measures estimates of missed attention against the truth:
//
//     missed_mass MODEL QUESTIONS FILE.jsonl…
//
// Indexes each FILE.txt with the model into a store that is deleted at the end, asks the first
// QUESTIONS questions of FILE.jsonl exactly, and beside each step of each layer looks up at budgets
// of 0.2, 0.1, 0.05 and, where it can be served, 0.02. Prints, in Markdown: estimates and truth in
// bins of the estimate; how often the document's margin made an estimate large enough; and how far
// the bound lies above the truth, for every query row of every kv head. Exits 1 when a bound is
// below its truth.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "engine/engine.h"
#include "engine/indexing/measure_missed.h"
#include "engine/model/formats/json.h"

namespace lectern {
namespace {

struct Bin {
  size_t count = 0;
  double estimates = 0, truths = 0;
};
struct Figures {
  std::map<int, Bin> bins;  // by the estimate: below 1e-4, 1e-3, …
  size_t steps = 0, covered = 0, covered_plain = 0;
  size_t rows = 0, violations = 0, useful = 0;  // useful: a bound below 1/2
  std::vector<float> ratios;                    // bound / truth of rows, log10
};

int BinOf(double estimate) {
  if (estimate < 1e-4) return 0;
  return static_cast<int>(std::floor(2 * std::log10(estimate))) + 9;  // two for each factor of 10
}

void AddRows(const DocumentRead& read, std::span<const std::span<float>> lse, Figures& figures) {
  for (size_t h = 0; h < lse.size(); ++h) {
    for (size_t r = 0; r < lse[h].size(); ++r) {
      const double log_read = double{read.read_lse[h][r]};
      const double truth = 1 - std::exp(std::min(0.0, log_read - lse[h][r]));
      const double bound = 1 / (1 + std::exp(log_read - read.heads[h].unread_bound[r]));
      ++figures.rows;
      figures.useful += bound < 0.5;
      // Log sums of the two runs are floats: shares below 1e-5 cannot be told from 0.
      if (truth > bound + 1e-5) ++figures.violations;
      if (truth > 1e-5) figures.ratios.push_back(static_cast<float>(std::log10(bound / truth)));
    }
  }
}

Status Measure(DocumentSession& session, const std::string& question,
               std::map<double, Figures>& figures) {
  const auto exact = LookUpBeside(
      session, question, 16, true,
      [&](double budget, const LayerStep& step, const DocumentRead& read) {
        Figures& f = figures[budget];
        const double truth = TrulyMissed(read, step.lse, step.weights);
        const MissedCalibration& calibration = session.indexed().missed_calibration();
        Bin& bin = f.bins[BinOf(read.missed_mass)];
        ++bin.count;
        bin.estimates += read.missed_mass;
        bin.truths += truth;
        ++f.steps;
        f.covered += truth <= 1e-5 + calibration.Limit(budget, read.missed_mass);
        f.covered_plain += truth <= 1e-5 + read.missed_mass;
        AddRows(read, step.lse, f);
      });
  return exact.status();
}

Status MeasureFile(const std::string& model, size_t num_questions, const std::string& file,
                   const std::string& store, std::map<double, Figures>& figures) {
  LECTERN_ASSIGN(const auto engine, Engine::Create({.store = store, .model = model}));
  const auto path = std::filesystem::path(file).replace_extension(".txt").string();
  std::ifstream in(path, std::ios::binary);
  if (!in) return {Code::kNotFound, "cannot read " + path};
  std::ostringstream text;
  text << in.rdbuf();
  LECTERN_ASSIGN(const IndexReport report, engine->Index(text.str(), {}));
  LECTERN_ASSIGN(std::unique_ptr<Session> opened, engine->Open(report.document));
  auto& session = static_cast<DocumentSession&>(*opened);
  std::ifstream questions(file);
  std::string line;
  for (size_t i = 0; i < num_questions && std::getline(questions, line); ++i) {
    LECTERN_ASSIGN(const Json json, ParseJson(line));
    const Json* question = json.Find("question");
    if (!question || !question->string()) return {Code::kInvalidArgument, file + ": no question"};
    LECTERN_RETURN_IF_ERROR(Measure(session, *question->string(), figures));
    std::cerr << '\r' << file << ": " << i + 1 << std::flush;
  }
  std::cerr << '\n';
  return {};
}

double Quantile(std::vector<float>& values, double q) {
  if (values.empty()) return NAN;
  const auto at = values.begin() + static_cast<ptrdiff_t>(q * double(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return std::pow(10.0, double{*at});
}

void Print(std::map<double, Figures>& figures) {
  std::puts("| budget | estimate from | steps | estimate, mean | truth, mean | truth ÷ estimate |");
  std::puts("|---|---|---|---|---|---|");
  for (const auto& [budget, f] : figures) {
    for (const auto& [bin, of] : f.bins) {
      const double n = static_cast<double>(of.count);
      std::printf("| %g | %.2g | %zu | %.4f | %.4f | %.2f |\n", budget,
                  bin == 0 ? 0 : std::pow(10, (bin - 9) / 2.0), of.count, of.estimates / n,
                  of.truths / n, of.truths / of.estimates);
    }
  }
  std::puts(
      "\n| budget | steps | within the estimate % | within the margin % | rows | bound violated "
      "| bound below ½ % | bound ÷ truth, least | 1 % | median | 99 % |");
  std::puts("|---|---|---|---|---|---|---|---|---|---|---|");
  for (auto& [budget, f] : figures) {
    const auto percent = [](size_t part, size_t whole) {
      return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
    };
    std::printf("| %g | %zu | %.2f | %.2f | %zu | %zu | %.1f | %.3g | %.3g | %.3g | %.3g |\n",
                budget, f.steps, percent(f.covered_plain, f.steps), percent(f.covered, f.steps),
                f.rows, f.violations, percent(f.useful, f.rows), Quantile(f.ratios, 0),
                Quantile(f.ratios, 0.01), Quantile(f.ratios, 0.5), Quantile(f.ratios, 0.99));
  }
}

int Main(int argc, char** argv) {
  if (argc < 4) {
    std::fputs("usage: missed_mass MODEL QUESTIONS FILE.jsonl...\n", stderr);
    return 2;
  }
  std::map<double, Figures> figures;
  std::string folder = (std::filesystem::temp_directory_path() / "missed-mass-XXXXXX").string();
  if (!mkdtemp(folder.data())) {
    std::perror("missed_mass: cannot make a folder for its store");
    return 1;
  }
  Status status;
  for (int i = 3; i < argc && status.ok(); ++i) {
    status = MeasureFile(argv[1], std::strtoul(argv[2], nullptr, 10), argv[i],
                         folder + "/" + std::to_string(i), figures);
  }
  std::filesystem::remove_all(folder);
  if (!status.ok()) {
    std::cerr << "missed_mass: " << status.message() << '\n';
    return 1;
  }
  Print(figures);
  for (const auto& [budget, f] : figures) {
    if (f.violations > 0) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace lectern

int main(int argc, char** argv) { return lectern::Main(argc, argv); }
