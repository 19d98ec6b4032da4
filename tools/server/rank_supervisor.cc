#include "tools/server/rank_supervisor.h"

#include <chrono>
#include <iostream>
#include <sstream>
#include <thread>

#include "tools/command_line.h"
#include "tools/interrupts.h"
#include "tools/run_program.h"
#include "tools/system_start.h"

namespace lectern::server {
namespace {

using Clock = std::chrono::steady_clock;

// A group that ends sooner was lost at its start, and would be again. By hand.
constexpr auto kSoon = std::chrono::seconds(10);
constexpr int kMostSoon = 5;
// Before the next group begins, so that the port of the lost one is free. By hand.
constexpr auto kPause = std::chrono::milliseconds(500);

// An exit status from here on tells of a signal, of which 128 is the base.
constexpr int kKilled = 128;

}  // namespace

int SuperviseRanks(const std::string& launcher, std::vector<std::string> arguments) {
  std::vector<std::string> words;
  std::istringstream in(launcher);
  for (std::string word; in >> word;) words.push_back(word);
  words.push_back(tools::ProgramPath());
  for (std::string& argument : arguments) words.push_back(std::move(argument));
  tools::Interrupts interrupts;
  const tools::Interrupts::Scope scope(interrupts, [] {});
  for (int num_soon = 0;;) {
    const auto start = Clock::now();
    auto status = tools::RunUntil(words, [&] { return interrupts.requested(); });
    if (!status.ok()) {
      return tools::PrintError("lectern-server", status.error(), tools::ErrorStyle::kText);
    }
    if (interrupts.requested()) return 0;
    if (*status <= kKilled) return *status;
    num_soon = Clock::now() - start < kSoon ? num_soon + 1 : 0;
    if (num_soon == kMostSoon) {
      std::cerr << "lectern-server: the group of ranks was lost " << kMostSoon
                << " times soon after its start; given up" << std::endl;
      return *status;
    }
    std::cerr << "lectern-server: a rank was killed (status " << *status
              << "); starting a new group" << std::endl;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace lectern::server
