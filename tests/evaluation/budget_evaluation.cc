// How close sparse answers come to exact ones, over many questions on indexed documents.
//
//   budget_evaluation [--budget F] [--no-tail] STORE QUESTIONS.jsonl…
//
// Each file's base name (without .jsonl) names a document of the store; each line has "question"
// and "answer". Prints a Markdown table per document length and the figures over all.
//   error   relative L2 error of a layer's attention output (all query heads of one token together)
//           against exact, each layer fed with the exact run's input, in those (step, layer, token)
//           where the document draws at least 10 % of the attention mass
//   KL      of the first answer token's distribution, exact || sparse, each run on its own
//   same    whole greedy answers that equal exact mode's
//   read    smallest and largest share of a layer's K+V bytes that a step read
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "engine/ask.h"
#include "engine/engine.h"
#include "engine/json.h"

namespace lectern {
namespace {

struct Question {
  std::string text, answer;
};

std::vector<Question> ReadQuestions(const std::string& path) {
  std::ifstream file(path);
  std::vector<Question> questions;
  for (std::string line; std::getline(file, line);) {
    const Result<Json> json = ParseJson(line);
    if (!json.ok() || json->Find("question") == nullptr) continue;
    questions.push_back({*json->Find("question")->string(), *json->Find("answer")->string()});
  }
  return questions;
}

double Median(std::vector<double> values) {
  if (values.empty()) return NAN;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? NAN : sum / static_cast<double>(values.size());
}

std::vector<double> LogSoftmax(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - largest);
  std::vector<double> result;
  for (const float x : logits) result.push_back(x - largest - std::log(sum));
  return result;
}

double Divergence(std::span<const float> exact, std::span<const float> sparse) {
  const auto p = LogSoftmax(exact), q = LogSoftmax(sparse);
  double kl = 0;
  for (size_t i = 0; i < p.size(); ++i) kl += std::exp(p[i]) * (p[i] - q[i]);
  return kl;
}

struct Figures {
  size_t questions = 0, exact_right = 0, sparse_right = 0, same = 0, same_where_right = 0;
  size_t evidence_right = 0;
  std::vector<double> errors_prefill, errors_decode, kl, recall_missed;
  double least_read = 1e9, most_read = 0;

  void Add(const Figures& other) {
    questions += other.questions;
    exact_right += other.exact_right;
    sparse_right += other.sparse_right;
    same += other.same;
    same_where_right += other.same_where_right;
    const auto append = [](std::vector<double>& to, const std::vector<double>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(errors_prefill, other.errors_prefill);
    append(errors_decode, other.errors_decode);
    append(kl, other.kl);
    least_read = std::min(least_read, other.least_read);
    most_read = std::max(most_read, other.most_read);
  }
};

// Errors of every token of a step at one layer.
void AddErrors(DocumentSession& session, const DocumentSession::LayerStep& step, double budget,
               bool tail, std::vector<double>& errors) {
  std::vector<float> sparse;
  const auto read = session.AttendAgain(step.layer, step.num_tokens, budget, tail, sparse);
  if (!read.ok()) std::fprintf(stderr, "%s\n", read.status().message().c_str());
  const size_t rows = step.attended[0].num_rows, dim = step.attended[0].num_cols;
  const size_t group = rows / step.num_tokens;
  for (size_t t = 0; t < step.num_tokens; ++t) {
    double difference = 0, norm = 0, document = 0;
    for (size_t head = 0; head < step.attended.size(); ++head) {
      for (size_t r = t * group; r < (t + 1) * group; ++r) {
        document += std::exp(step.document_lse[head][r] - step.lse[head][r]);
        for (size_t c = 0; c < dim; ++c) {
          const double exact = step.attended[head][r][c];
          const double ours = sparse[(head * rows + r) * dim + c];
          difference += (exact - ours) * (exact - ours);
          norm += exact * exact;
        }
      }
    }
    document /= static_cast<double>(step.attended.size() * group);
    if (document >= 0.1) errors.push_back(std::sqrt(difference / norm));
  }
}

void Evaluate(Engine& engine, const std::string& name, const Question& question, double budget,
              bool tail, Figures& figures) {
  AskOptions options;
  options.max_tokens = 24;
  std::vector<float> first_logits[2];
  std::string answers[2];
  for (const bool sparse : {false, true}) {
    auto opened = engine.Open(name);
    if (!opened.ok()) {
      std::fprintf(stderr, "%s\n", opened.status().message().c_str());
      std::exit(1);
    }
    auto& session = static_cast<DocumentSession&>(**opened);
    session.on_layer = [&](const DocumentSession::LayerStep& step) {
      if (sparse) {
        const double share =
            static_cast<double>(step.read.bytes) / static_cast<double>(step.read.dense_bytes);
        figures.least_read = std::min(figures.least_read, share);
        figures.most_read = std::max(figures.most_read, share);
      } else {
        AddErrors(session, step, budget, tail,
                  step.num_tokens > 1 ? figures.errors_prefill : figures.errors_decode);
      }
    };
    session.on_first_logits = [&](std::span<const float> logits) {
      first_logits[sparse].assign(logits.begin(), logits.end());
    };
    options.kv_budget = sparse ? static_cast<float>(budget) : 1.0f;
    options.tail = tail;
    const auto answer = session.Ask(question.text, options);
    if (!answer.ok()) {
      std::fprintf(stderr, "%s\n", answer.status().message().c_str());
      std::exit(1);
    }
    answers[sparse] = answer->text;
  }
  ++figures.questions;
  const bool exact_right = answers[0] == question.answer;
  figures.exact_right += exact_right;
  figures.sparse_right += answers[1] == question.answer;
  figures.same += answers[0] == answers[1];
  figures.same_where_right += exact_right && answers[0] == answers[1];
  figures.kl.push_back(Divergence(first_logits[0], first_logits[1]));
}

void PrintRow(const std::string& label, const Figures& f) {
  std::vector<double> errors = f.errors_prefill;
  errors.insert(errors.end(), f.errors_decode.begin(), f.errors_decode.end());
  std::printf(
      "| %s | %zu | %zu | %zu | %zu | %zu of %zu | %.4f | %.4f | %.4f | %.4f | %.4f | %.4f "
      "| %.4f–%.4f |\n",
      label.c_str(), f.questions, f.exact_right, f.sparse_right, f.same, f.same_where_right,
      f.exact_right, Median(f.errors_prefill), Median(f.errors_decode), Median(errors),
      Mean(errors), Median(f.kl), Mean(f.kl), f.least_read, f.most_read);
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  double budget = 0.1;
  bool tail = true;
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--budget") == 0 && i + 1 < argc) {
      budget = std::atof(argv[++i]);
    } else if (std::strcmp(argv[i], "--no-tail") == 0) {
      tail = false;
    } else {
      arguments.push_back(argv[i]);
    }
  }
  if (arguments.size() < 2) {
    std::fprintf(stderr, "usage: budget_evaluation [--budget F] [--no-tail] STORE FILE.jsonl…\n");
    return 2;
  }
  auto engine = Engine::Create({.store = arguments[0], .model = "", .num_threads = 0});
  if (!engine.ok()) return 1;
  std::printf("budget %.3f, tail %s\n\n", budget, tail ? "on" : "off");
  std::printf(
      "| document | questions | exact right | sparse right | same | same where right | "
      "median error, question | …, decode | …, all | mean error | median KL | mean KL | "
      "read |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  Figures all;
  for (size_t i = 1; i < arguments.size(); ++i) {
    std::string name = arguments[i].substr(arguments[i].find_last_of('/') + 1);
    name.resize(name.size() - std::strlen(".jsonl"));
    Figures figures;
    for (const Question& question : ReadQuestions(arguments[i])) {
      Evaluate(**engine, name, question, budget, tail, figures);
    }
    const auto row = (*engine)->Find(name);
    PrintRow(name + " (" + std::to_string(row.ok() ? row->num_tokens : 0) + " tokens)", figures);
    all.Add(figures);
  }
  PrintRow("all", all);
  return 0;
}

}  // namespace
}  // namespace lectern

int main(int argc, char** argv) { return lectern::Main(argc, argv); }
