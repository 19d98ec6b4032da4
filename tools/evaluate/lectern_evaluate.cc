// lectern-evaluate measures how close answers at a budget come to exact ones, over many questions,
// for Lectern's own lookup, its parts, an oracle, and the lookup of the Squeezed Attention paper.
//
// Every method sees the same document, model, questions and byte budget. Attention errors are
// measured inside an exact run: each layer is fed with the exact run's input and attends a second
// time by each method. Answers are measured by running each method on its own. Each measurement is
// written as it comes; table.py makes tables of them.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "engine/engine.h"
#include "tools/command_line.h"
#include "tools/evaluate/document_evaluation.h"
#include "tools/evaluate/modes.h"
#include "tools/evaluate/questions.h"
#include "tools/evaluate/raw_results.h"

namespace lectern::evaluate {
namespace {

constexpr char kTool[] = "lectern-evaluate";

// Everything that the command line says.
struct Flags {
  tools::EngineFlags engine;
  EvaluationOptions options;
  std::vector<std::string> files;
  std::string raw;
};

// A check that a mode exists; with `answers`, that it can answer, too.
tools::Check KnownMode(bool answers) {
  return [answers](const std::string& mode) { return CheckMode(mode, answers); };
}

// The name of the document that the questions of FILE.jsonl are about: FILE. Indexes FILE.txt under
// that name where the store has none. kNotFound: neither is there.
Result<std::string> EnsureIndexed(Engine& engine, const std::string& file) {
  const std::filesystem::path path(file);
  const std::string name = path.stem().string();
  if (engine.Find(name).ok()) return name;
  const std::string text_path = std::filesystem::path(path).replace_extension(".txt").string();
  std::ifstream text(text_path, std::ios::binary);
  if (!text) {
    return Status(Code::kNotFound,
                  "no document \"" + name + "\" in the store, and cannot read " + text_path);
  }
  std::ostringstream bytes;
  bytes << text.rdbuf();
  IndexOptions options;
  options.name = name;
  std::cerr << name << ": indexing\n";
  LECTERN_RETURN_IF_ERROR(engine.Index(bytes.str(), options).status());
  return name;
}

// Evaluates the files one after the other. The first error ends the run; results that were written
// stay, and the next run goes on from there.
Status Evaluate(const Flags& flags, const tools::EngineFlags& engine_flags) {
  LECTERN_ASSIGN(const auto engine, Engine::Create({.store = engine_flags.store,
                                                    .model = engine_flags.model,
                                                    .num_threads = engine_flags.num_threads,
                                                    .weights = engine_flags.weights}));
  LECTERN_ASSIGN(RawResults results, RawResults::Open(flags.raw));
  for (const std::string& file : flags.files) {
    LECTERN_ASSIGN(const std::vector<Question> questions, ReadQuestions(file, flags.options.limit));
    LECTERN_ASSIGN(const std::string name, EnsureIndexed(*engine, file));
    LECTERN_RETURN_IF_ERROR(EvaluateDocument(flags.options, *engine, name, questions, results));
  }
  return {};
}

// Parses the command line and evaluates. Returns the exit status; an error goes to stderr, as text
// also with --json.
int Main(int argc, char** argv) {
  Flags flags;
  tools::CommandLine app(
      "Measures how close answers that read a part of a document come to exact ones.", kTool);
  tools::AddStoreFlags(app, flags.engine);
  tools::AddModelFlags(app, flags.engine);
  app.AddOption(
         "--budgets", flags.options.budgets,
         "Shares of the document's keys and values to read, separated by commas, each from 0.001 "
         "to 0.999 (default: 0.2,0.125,0.1,0.05)")
      .SeparatedBy(',')
      .Check(tools::NumberBetween(0.001, 0.999));
  const tools::Option modes =
      app.AddOption(
             "--modes", flags.options.modes,
             "Methods whose error of attention is measured, separated by commas:" + DescribeModes())
          .SeparatedBy(',')
          .Check(KnownMode(false));
  const tools::Option answers =
      app.AddOption("--answers", flags.options.answers,
                    "Methods whose answers are compared with exact ones, separated by commas")
          .SeparatedBy(',')
          .Check(KnownMode(true));
  const auto paper = [&] { flags.options.modes = flags.options.answers = {"paper-1", "paper-2"}; };
  app.AddFlag("--paper", paper, "The same as --modes paper-1,paper-2 --answers paper-1,paper-2")
      .Excludes(modes)
      .Excludes(answers);
  app.AddOption(
         "--paper-seeds", flags.options.paper_seeds,
         "Number of seeds tried for the paper's K-means; the one with the least error answers "
         "(default: 3)")
      .TypeName("N")
      .Check(tools::PositiveNumber());
  app.AddOption(
      "--limit", flags.options.limit,
      "Number of questions of each document whose answers are compared; 0 is all (default: 0)");
  app.AddOption("--error-questions", flags.options.error_questions,
                "Number of questions of each document, from the first on, whose error of attention "
                "is measured in every layer and step (default: 4)");
  app.AddOption("--calibration", flags.options.calibration,
                "Number of questions of each document that the paper's thresholds are chosen with "
                "(default: 8)")
      .TypeName("N")
      .Check(tools::PositiveNumber());
  app.AddFlag("--auto", [&] { flags.options.has_auto = true; },
              "Compare answers at the document's automatic budget, too");
  app.AddOption("--continuation", flags.options.continuation,
                "Number of tokens at the end of each document that are predicted at each budget; 0 "
                "is none (default: 0)");
  app.AddOption("--raw", flags.raw,
                "Append the results to this file instead of printing them, and skip those that it "
                "already has");
  app.AddOption(
         "FILE.jsonl", flags.files,
         "Questions, one JSON object on each line; the document has the same name in the store, "
         "or is FILE.txt")
      .Required();
  if (const auto status = tools::ParseCommandLine(app, argc, argv)) return *status;
  auto with_environment = tools::WithEnvironment(flags.engine);
  if (!with_environment.ok()) {
    return tools::PrintError(kTool, with_environment.error(), flags.engine.style);
  }
  const Status status = Evaluate(flags, *with_environment);
  if (status.ok()) return 0;
  std::cerr << kTool << ": " << status.message() << '\n';
  return ExitStatus(status.code());
}

}  // namespace
}  // namespace lectern::evaluate

int main(int argc, char** argv) {
  return lectern::tools::RunTool("lectern-evaluate",
                                 [&] { return lectern::evaluate::Main(argc, argv); });
}
