// A tape of random calls of every function of the C API, right and wrong, by threads that free,
// cancel and use each other's handles. Whatever a host does: nothing dies, codes are known ones, an
// error is there exactly after a failure, results are NULL then, freed handles are invalid, and at
// the end nothing is left over and the stores are whole. Usage: misuse_test MODEL_FOLDER HEADER
// [CALLS [THREADS [SEED]]]; MISUSE_VERBOSE=1: calls and successes
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "tests/engine/api/misuse_calls.h"
#include "tests/engine/held.h"

namespace lectern::misuse {
namespace {

namespace fs = std::filesystem;
using testing::Held;

const std::vector<Function*>& Functions() {
  static const std::vector<Function*> all = [] {
    std::vector<Function*> list;
    for (const auto& theme : {ValueFunctions(), EngineFunctions(), SessionFunctions(),
                              StoreFunctions(), CollectionFunctions()}) {
      for (Function& function : theme) list.push_back(&function);
    }
    return list;
  }();
  return all;
}

}  // namespace

void CallAnyFunction(Tape& tape) {
  static const int total = [] {
    int sum = 0;
    for (const Function* function : Functions()) sum += function->weight;
    return sum;
  }();
  auto at = static_cast<int>(tape.random.Below(static_cast<uint64_t>(total)));
  auto function = Functions().begin();
  while ((at -= (*function)->weight) >= 0) ++function;
  ++(*function)->calls;
  calling = (*function)->name;
  if ((*function)->call(tape)) ++(*function)->succeeded;
}

namespace {

void CheckThatNoneIsMissing(const std::string& header) {
  std::ifstream file(header);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::regex declaration(R"(LECTERN_API [\w *]+\blectern_(\w+)\()");
  std::set<std::string> declared, called;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), declaration);
       it != std::sregex_iterator(); ++it) {
    declared.insert((*it)[1]);
  }
  for (const Function* function : Functions()) called.insert(function->name);
  REQUIRE(declared.size() > 40);
  for (const std::string& name : declared) {
    calling = name.c_str();
    REQUIRE(called.count(name) == 1);
  }
  REQUIRE(called == declared);
}

const Function* OneThatNeverSucceeded() {
  const auto found = std::ranges::find_if(
      Functions(), [](const Function* function) { return function->succeeded == 0; });
  return found == Functions().end() ? nullptr : *found;
}

// Threads take turns by chance, so that what each of them draws tells nothing of what succeeds: one
// thread goes on until every function has.
void RunUntilAllSucceeded(Tape tape) {
  constexpr uint64_t kMostCalls = 50'000;  // the rarest succeeds in one of a thousand
  for (uint64_t i = 0; i < kMostCalls && OneThatNeverSucceeded(); ++i) CallAnyFunction(tape);
  if (const Function* const function = OneThatNeverSucceeded()) {
    calling = function->name;
    REQUIRE(function->succeeded > 0);
  }
}

void RunTape(uint64_t seed, uint64_t num_threads, uint64_t num_calls, const std::string& model) {
  Handles handles;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < num_threads; ++t) {
    threads.emplace_back([&, t] {
      Tape tape{Random(seed * 1000 + t), handles, model};
      for (uint64_t i = 0; i < num_calls / num_threads; ++i) CallAnyFunction(tape);
    });
  }
  for (std::thread& thread : threads) thread.join();
  RunUntilAllSucceeded({Random(seed * 1000 + num_threads), handles, model});
  calling = "*_free";
  handles.FreeAll<lectern_engine>();  // first: what came of them keeps them
  handles.FreeAll<lectern_session>();
  handles.FreeAll<lectern_answer>();
  handles.FreeAll<lectern_index_report>();
  handles.FreeAll<lectern_text>();
  handles.FreeAll<lectern_error>();
  Unseal();
}

// The store is whole, and can be used as if nothing had happened.
void CheckStore(const std::string& store, const std::string& model) {
  calling = store.c_str();
  lectern_engine_options options = {};
  options.struct_size = sizeof options;
  options.store = store.data(), options.store_len = store.size();
  options.model = model.data(), options.model_len = model.size();
  options.num_threads = 2;
  lectern_engine* engine = nullptr;
  REQUIRE(lectern_engine_create(&options, &engine, nullptr) == LECTERN_OK);
  lectern_index_options index = {};
  index.struct_size = sizeof index;
  index.name = "last", index.name_len = 4;
  lectern_index_report* report = nullptr;
  const std::string text = "Cleo paid for the mill.";
  REQUIRE(lectern_engine_index(engine, text.data(), text.size(), &index, &report, nullptr) ==
          LECTERN_OK);
  REQUIRE(lectern_index_report_free(report) == LECTERN_OK);
  REQUIRE(lectern_engine_verify(engine, nullptr, 0, 1, OnDamage, nullptr, nullptr, nullptr) ==
          LECTERN_OK);
  lectern_session* session = nullptr;
  REQUIRE(lectern_session_open(engine, "last", 4, &session, nullptr) == LECTERN_OK);
  lectern_ask_options ask = {};
  ask.struct_size = sizeof ask;
  ask.max_tokens = 2;
  lectern_answer* answer = nullptr;
  REQUIRE(lectern_session_ask(session, "Who?", 4, &ask, &answer, nullptr) == LECTERN_OK);
  CheckAnswer(answer);
  REQUIRE(lectern_answer_free(answer) == LECTERN_OK);
  REQUIRE(lectern_session_free(session) == LECTERN_OK);
  REQUIRE(lectern_engine_free(engine) == LECTERN_OK);
}

void PrintCounts() {
  unsigned long long calls = 0, succeeded = 0;
  std::set<std::string> names;
  for (const Function* function : Functions()) {
    names.insert(function->name);
    calls += function->calls, succeeded += function->succeeded;
    if (!std::getenv("MISUSE_VERBOSE")) continue;
    std::printf("%s: %llu of %llu\n", function->name,
                static_cast<unsigned long long>(function->succeeded),
                static_cast<unsigned long long>(function->calls));
  }
  std::printf("%llu calls of %zu functions, %llu of which succeeded\n", calls, names.size(),
              succeeded);
  std::fflush(stdout);
}

void Run(const std::string& model, uint64_t num_calls, uint64_t num_threads, uint64_t seed) {
  constexpr size_t kHeapMargin = 128 << 10;
  const auto check_stores = [&] {
    for (const char* store : {"store1", "store2"}) CheckStore(store, model);
  };
  check_stores();
  Held before{};
  for (uint64_t half = 0; half < 2; ++half) {
    before = Held::Now();
    RunTape(2 * seed + half, num_threads, num_calls / 2, model);
    check_stores();
  }
  const Held after = Held::WhenThreadsEnded(before);
  std::printf("after half and all: descriptors %zu %zu, threads %zu %zu, heap bytes %zu %zu\n",
              before.descriptors, after.descriptors, before.threads, after.threads,
              before.heap_bytes, after.heap_bytes);
  PrintCounts();
  calling = "*";
  REQUIRE(after.descriptors <= before.descriptors);
  REQUIRE(after.threads <= before.threads);
  REQUIRE(after.heap_bytes <= before.heap_bytes + kHeapMargin);
}

}  // namespace
}  // namespace lectern::misuse

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  const auto number = [&](int at, uint64_t otherwise) {
    return argc > at ? std::strtoull(argv[at], nullptr, 10) : otherwise;
  };
  if (argc < 3) {
    std::fprintf(stderr, "misuse_test MODEL_FOLDER HEADER [CALLS [THREADS [SEED]]]\n");
    return 2;
  }
  const std::string model = fs::absolute(argv[1]);
  const uint64_t calls = number(3, 800), threads = number(4, 4), seed = number(5, 1);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  lectern::misuse::CheckThatNoneIsMissing(argv[2]);
  std::string folder = (fs::temp_directory_path() / "lectern_misuse_XXXXXX").string();
  if (!mkdtemp(folder.data())) return 1;
  fs::current_path(folder);
  std::ofstream("file") << "neither store nor document";
  lectern::misuse::Run(model, calls, threads, seed);
  fs::current_path("/");
}
