// How long a program waits for its first answer: an engine is made, a document opened and asked, as
// a host does it, each time with an engine of its own in this process. Milliseconds, medians.
// Usage: first_use MODEL STORE FILE QUESTION [ROUNDS]; indexes FILE into STORE where it is not
// there
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "engine/lectern.h"

namespace {

using namespace lectern::api;
using Clock = std::chrono::steady_clock;

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

template <typename T>
T Take(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "first_use: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  return std::move(*result);
}

enum Step { kCreate, kOpen, kFirstText, kAnswer, kNextFirstText, kFree, kNumSteps };
constexpr const char* kNames[] = {"create the engine",           "open the document",
                                  "ask: first text after",       "ask: all of the answer after",
                                  "ask again: first text after", "free all"};

// The times of one engine. The first ask's are since the engine was begun.
std::vector<double> Round(const EngineOptions& options, std::string_view document,
                          const char* question) {
  std::vector<double> ms(kNumSteps);
  Clock::time_point start = Clock::now();
  {
    Engine engine = Take(Engine::Create(options));
    ms[kCreate] = MsSince(start);
    Session session = Take(engine.Open(document));
    ms[kOpen] = MsSince(start);
    const auto ask = [&](Step first_text) {
      bool is_first = true;
      Take(session.Ask(question, {.on_text = [&](std::string_view) {
                         if (std::exchange(is_first, false)) ms[first_text] = MsSince(start);
                         return true;
                       }}));
    };
    ask(kFirstText);
    ms[kAnswer] = MsSince(start);
    start = Clock::now();
    ask(kNextFirstText);
    start = Clock::now();
  }
  ms[kFree] = MsSince(start);
  return ms;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return std::fprintf(stderr, "first_use MODEL STORE FILE QUESTION [ROUNDS]\n"), 2;
  const size_t rounds = argc > 5 ? std::strtoul(argv[5], nullptr, 10) : 20;
  const EngineOptions options = {.store = argv[2], .model = argv[1]};
  std::ifstream file(argv[3], std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const IndexReport report = Take(Take(Engine::Create(options)).Index(text));
  std::vector<std::vector<double>> all;
  for (size_t i = 0; i < std::max<size_t>(rounds, 1); ++i) {
    all.push_back(Round(options, report.document(), argv[4]));
  }
  std::printf("%llu tokens, first engine of the process / median of %zu\n",
              static_cast<unsigned long long>(report.numbers().tokens), all.size());
  for (int step = 0; step < kNumSteps; ++step) {
    std::vector<double> times;
    for (const auto& ms : all) times.push_back(ms[static_cast<size_t>(step)]);
    const double first = times[0];
    std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2),
                     times.end());
    std::printf("%-28s %8.2f / %8.2f ms\n", kNames[step], first, times[times.size() / 2]);
  }
}
