// Measures how quantised weights, keys and values change answers:
//
//     quantized_error MODEL QUESTIONS FILE.jsonl…
//
// Indexes each FILE.txt with the model's weights as stored, with f16 and with q8 keys and values,
// then with q8 and q4 weights, into stores that are deleted at the end, and asks the first QUESTIONS
// questions of FILE.jsonl exactly. Prints, in Markdown: bytes of the matrices and of the documents
// on disk; over the tokens of the first one's answers, the divergence of the next token's
// distribution from its own (KL, nats) and the relative L2 error of the logits; how many answers are
// the same, and how many right; and how many are the same as the first one's at a budget of 0.1.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "engine/engine.h"
#include "engine/asking/ask.h"
#include "engine/model/formats/json.h"

namespace lectern {
namespace {

constexpr size_t kMaxSteps = 16;

struct Question {
  std::string text, answer;
};
struct Variant {
  const char* weights;
  Dtype kv_dtype;
};
constexpr Variant kVariants[] = {
    {"stored", Dtype::kF16}, {"stored", Dtype::kQ8}, {"q8", Dtype::kF16}, {"q4", Dtype::kF16}};

// The answer of the first variant, to which the others are compared.
struct Standard {
  std::string answer;
  std::vector<int32_t> tokens;             // after the question's
  std::vector<std::vector<float>> logits;  // of each step; one more than tokens
};
struct Figures {
  uint64_t weights_bytes = 0, document_bytes = 0;
  std::vector<double> divergences;
  double error = 0;  // sum
  size_t asked = 0, same = 0, right = 0, same_sparse = 0;
};

std::vector<double> LogSoftmax(std::span<const float> logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(double{x} - largest);
  std::vector<double> result;
  for (const float x : logits) result.push_back(double{x} - largest - std::log(sum));
  return result;
}

void Compare(std::span<const float> standard, std::span<const float> logits, Figures& figures) {
  const auto p = LogSoftmax(standard), q = LogSoftmax(logits);
  double divergence = 0, squares = 0, differences = 0, mean = 0;
  for (const float x : standard) mean += x / static_cast<double>(standard.size());
  for (size_t i = 0; i < p.size(); ++i) {
    divergence += std::exp(p[i]) * (p[i] - q[i]);
    squares += (standard[i] - mean) * (standard[i] - mean);
    differences += std::pow(double{standard[i]} - logits[i], 2);
  }
  figures.divergences.push_back(divergence);
  figures.error += std::sqrt(differences / squares);
}

// Fills in the standard where it is empty.
Status AskOne(DocumentSession& session, const Model& model, const Question& question,
              Standard& standard, Figures& figures) {
  const bool is_standard = standard.logits.empty();
  session.Forget();
  AskOptions options;
  options.kv_budget = 1;
  LECTERN_ASSIGN(const Answer answer, session.Ask(question.text, options));
  if (is_standard) standard.answer = answer.text;
  ++figures.asked;
  figures.same += answer.text == standard.answer;
  figures.right += answer.text == question.answer;
  session.Forget();
  options.kv_budget = 0.1f;
  LECTERN_ASSIGN(const Answer sparse, session.Ask(question.text, options));
  figures.same_sparse += sparse.text == standard.answer;

  session.Forget();
  LECTERN_ASSIGN(std::vector<int32_t> next, model.EncodeQuestion(question.text));
  for (size_t step = 0;; ++step) {
    LECTERN_ASSIGN(const auto logits, session.Step(next, 1, true, nullptr));
    if (is_standard) {
      standard.logits.emplace_back(logits.begin(), logits.end());
      const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
      const auto token = static_cast<int32_t>(best);
      if (!model.IsEndOfText(token) && step < kMaxSteps) standard.tokens.push_back(token);
    }
    Compare(standard.logits[step], logits, figures);
    if (step == standard.tokens.size()) return {};
    next = {standard.tokens[step]};
  }
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

std::string Name(const Variant& variant) {
  return std::string(variant.weights) + (variant.kv_dtype == Dtype::kQ8 ? ", KV q8" : "");
}

Status MeasureFile(const std::string& folder, const Variant& variant, const std::string& file,
                   const std::string& store, const std::vector<Question>& questions,
                   std::vector<Standard>& standards, Figures& figures) {
  const EngineOptions options = {.store = store, .model = folder, .weights = variant.weights};
  LECTERN_ASSIGN(const auto engine, Engine::Create(options));
  const auto path = std::filesystem::path(file).replace_extension(".txt").string();
  std::ifstream in(path, std::ios::binary);
  if (!in) return {Code::kNotFound, "cannot read " + path};
  std::ostringstream text;
  text << in.rdbuf();
  IndexOptions index;
  index.kv_dtype = variant.kv_dtype;
  LECTERN_ASSIGN(const IndexReport report, engine->Index(text.str(), index));
  LECTERN_ASSIGN(std::unique_ptr<Session> opened, engine->Open(report.document));
  LECTERN_ASSIGN(const auto model, Model::Load(Env::Default(), folder));
  LECTERN_ASSIGN(const auto files, OpenSafetensors(Env::Default(), folder, Io::kMmap));
  LECTERN_ASSIGN(figures.weights_bytes,
                 Weights::BytesInUse(files, model->config(), *ParseWeightsName(variant.weights)));
  figures.document_bytes += opened->document().bytes_on_disk;
  auto& session = static_cast<DocumentSession&>(*opened);
  for (size_t i = 0; i < questions.size(); ++i) {
    LECTERN_RETURN_IF_ERROR(AskOne(session, *model, questions[i], standards[i], figures));
    std::cerr << '\r' << file << ", " << Name(variant) << ": " << i + 1 << std::flush;
  }
  std::cerr << '\n';
  return {};
}

void Print(const Variant& variant, Figures& f) {
  std::sort(f.divergences.begin(), f.divergences.end());
  const size_t n = f.divergences.size();
  double sum = 0;
  for (const double x : f.divergences) sum += x;
  const auto percent = [&](size_t count) {
    return 100.0 * static_cast<double>(count) / static_cast<double>(f.asked);
  };
  std::printf("| %s | %.2f | %.1f | %.2e | %.2e | %.2e | %.1f | %.1f | %.1f |\n",
              Name(variant).c_str(), static_cast<double>(f.weights_bytes) / 1e6,
              static_cast<double>(f.document_bytes) / 1e6, sum / static_cast<double>(n),
              f.divergences[n - 1 - n / 100], f.error / static_cast<double>(n), percent(f.same),
              percent(f.right), percent(f.same_sparse));
}

int Main(int argc, char** argv) {
  if (argc < 4) {
    std::fputs("usage: quantized_error MODEL QUESTIONS FILE.jsonl...\n", stderr);
    return 2;
  }
  std::string stores = (std::filesystem::temp_directory_path() / "quantized-error-XXXXXX").string();
  if (!mkdtemp(stores.data())) {
    std::perror("quantized_error: cannot make a folder for its stores");
    return 1;
  }
  constexpr size_t kNumVariants = std::size(kVariants);
  Figures figures[kNumVariants];
  Status status;
  for (int i = 3; i < argc && status.ok(); ++i) {
    const auto questions = ReadQuestions(argv[i], std::strtoul(argv[2], nullptr, 10));
    status = questions.status();
    if (!status.ok()) break;
    std::vector<Standard> standards(questions->size());
    for (size_t v = 0; v < kNumVariants && status.ok(); ++v) {
      status = MeasureFile(argv[1], kVariants[v], argv[i], stores + "/" + std::to_string(v),
                           *questions, standards, figures[v]);
    }
  }
  std::filesystem::remove_all(stores);
  if (!status.ok()) {
    std::cerr << "quantized_error: " << status.message() << '\n';
    return 1;
  }
  std::printf("%zu questions, %zu tokens\n\n", figures[0].asked, figures[0].divergences.size());
  std::puts(
      "| weights | matrices, MB | documents, MB | KL, mean | KL, 99 % | error of logits "
      "| same answer % | right % | same at 0.1 % |\n|---|---|---|---|---|---|---|---|---|");
  for (size_t v = 0; v < kNumVariants; ++v) Print(kVariants[v], figures[v]);
  return 0;
}

}  // namespace
}  // namespace lectern

int main(int argc, char** argv) { return lectern::Main(argc, argv); }
