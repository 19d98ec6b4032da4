// lectern-doctor: says what this machine, and a model on it, can do, before a user spends hours on
// indexing. Each check is a function that returns findings; this file runs and prints them.
#include <memory>
#include <new>

#include "tools/command_line.h"
#include "tools/doctor/machine.h"
#include "tools/doctor/model_checks.h"

namespace lectern::doctor {
namespace {

constexpr char kTool[] = "lectern-doctor";
constexpr char kExamples[] =
    "\nExamples:\n"
    "  lectern-doctor                            # this machine\n"
    "  lectern-doctor --model llama3.2:1b        # and a model that Ollama has\n"
    "  lectern-doctor --model DIR --tokens 100000 --json\n\n"
    "Each line says ok, warn or fail; a line with -> below it says what to do. The exit status is\n"
    "0 if nothing failed; else that of the first failure, with the numbers of the other tools.";

struct Flags {
  tools::EngineFlags engine;
  uint64_t tokens = 0;
};

WeightsType WeightsOf(const tools::EngineFlags& flags) {
  return ParseWeightsName(flags.weights).value_or(WeightsType::kStored);
}

// Runs all checks, the machine's first. Without a model, or without kernels to run it, it ends
// there.
Findings Examine(const Flags& flags) {
  Env& env = Env::Default();
  const Backend* const backend = DefaultBackend();
  Findings findings = {CheckInstructionSet(backend), CheckGpu(),
                       CheckThreads(flags.engine.num_threads), CheckBlas()};
  ModelQuestion question{.model = flags.engine.model,
                         .ollama_models = flags.engine.ollama_models,
                         .chat_template = flags.engine.chat_template,
                         .weights = WeightsOf(flags.engine),
                         .io = flags.engine.io,
                         .tokens = flags.tokens};
  question.memory = AvailableMemory();
  const uint64_t max_ram = flags.engine.max_ram_bytes;
  if (max_ram > 0 && max_ram < question.memory.available) {
    question.memory.available = max_ram;
    question.memory.limited_by = flags.engine.max_ram_of;
  }
  findings.push_back(CheckMemory(question.memory));
  findings.push_back(CheckDisk(env, flags.engine.store, &question.free_disk));
  findings.push_back(CheckPdf());
  findings.push_back(CheckReader());
  if (question.model.empty() || backend == nullptr) return findings;
  const uint64_t threads = flags.engine.num_threads;
  ThreadPool pool(threads > 0 ? threads : DefaultThreads());
  Findings of_model = CheckModel(env, question, *backend, pool);
  std::move(of_model.begin(), of_model.end(), std::back_inserter(findings));
  return findings;
}

// Parses the command line, examines, and prints the findings on stdout. Returns the status of the
// first failure, 0 without one.
int Main(int argc, char** argv) {
  tools::CommandLine app("Checks this machine, and a model on it, and says what they can do.",
                         kTool, kExamples);
  Flags flags;
  tools::AddStoreFlags(app, flags.engine);
  tools::AddModelFlags(app, flags.engine, "none: only the machine is examined");
  app.AddOption("--tokens", flags.tokens,
                "Length of the document to estimate for, in tokens (default: 32768, or less where "
                "the model's context is shorter)")
      .TypeName("N")
      .Check(tools::NumberBetween(1, 1 << 24));
  tools::AddVersionFlag(app);
  if (const auto status = tools::ParseCommandLine(app, argc, argv)) return *status;
  auto with_environment = tools::WithEnvironment(flags.engine);
  if (!with_environment.ok()) {
    return tools::PrintError(kTool, with_environment.error(), flags.engine.style);
  }
  flags.engine = *with_environment;
  const Findings findings = Examine(flags);
  tools::Output output;
  output.Print(flags.engine.json() ? FindingsJson(findings, lectern_version()) + "\n"
                                   : FindingsText(findings));
  return output.Finish(kTool, ExitStatusOf(findings));
}

}  // namespace
}  // namespace lectern::doctor

int main(int argc, char** argv) {
  return lectern::tools::RunTool("lectern-doctor",
                                 [&] { return lectern::doctor::Main(argc, argv); });
}
