// Children with limits on Windows or Wine; ingest_test.cc has those of POSIX.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tools/find_program.h"
#include "tools/ingest/limited_child.h"

namespace lectern::tools {
namespace {

using How = ChildEnd::How;

struct Ran {
  ChildEnd end;
  std::string output;
};

Ran RunMode(const std::string& mode, const std::string& input = "", const ChildLimits& limits = {},
            const std::function<bool()>& is_cancelled = {}) {
  Ran ran;
  ran.end = RunLimited(
      {"limited_child_program", mode, kInput}, input, limits,
      [&](std::string_view piece) { return ran.output.append(piece), true; }, is_cancelled);
  return ran;
}

TEST(LimitedChildTest, GetsItsInputAndItsOutputIsTaken) {
  std::string input;
  for (int i = 0; i < 3'000'000; ++i) input += static_cast<char>(i * 7 % 251);
  input += "\r\n\x1a end";
  const Ran ran = RunMode("copy", input);
  EXPECT_EQ(ran.end.how, How::kExited);
  EXPECT_EQ(ran.end.number, 0);
  EXPECT_TRUE(ran.output == input) << ran.output.size();
  EXPECT_EQ(RunMode("copy").output, "");
}

TEST(LimitedChildTest, StatusAndComplaintAreTold) {
  const Ran ran = RunMode("complain");
  EXPECT_EQ(ran.end.how, How::kExited);
  EXPECT_EQ(ran.end.number, 7);
  EXPECT_EQ(ran.end.complaint, std::string(4096, 'x'));
  EXPECT_EQ(RunMode("crash").end.how, How::kSignalled);
}

TEST(LimitedChildTest, LimitsEndIt) {
  EXPECT_EQ(RunMode("sleep", "", {.wall_seconds = 0.5}).end.how, How::kTooSlow);
  EXPECT_EQ(RunMode("spin", "", {.cpu_seconds = 1, .wall_seconds = 20}).end.how, How::kTooSlow);
  const Ran large =
      RunMode("allocate", "", {.memory_bytes = uint64_t{300} << 20, .wall_seconds = 30});
  EXPECT_TRUE(large.end.how == How::kSignalled || large.end.number == 9) << large.end.number;
  EXPECT_NE(large.end.how, How::kTooSlow);
  EXPECT_EQ(RunMode("copy", std::string(100'000, 'x'), {.output_bytes = 1000}).end.how,
            How::kTooMuchOutput);
}

TEST(LimitedChildTest, ItsCallerEndsIt) {
  const auto start = std::chrono::steady_clock::now();
  int num_asked = 0;
  EXPECT_EQ(RunMode("sleep", "", {}, [&] { return ++num_asked > 3; }).end.how, How::kCancelled);
  const ChildEnd refused = RunLimited({"limited_child_program", "sleep"}, "", {},
                                      [](std::string_view) { return false; }, {});
  EXPECT_EQ(refused.how, How::kRefused);
  EXPECT_THROW(
      RunLimited({"limited_child_program", "sleep"}, "", {},
                 [](std::string_view) -> bool { throw std::runtime_error("no room"); }, {}),
      std::runtime_error);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(LimitedChildTest, GetsNoSecretsOfTheEnvironment) {
  _putenv("SECRET=1");
  EXPECT_EQ(RunMode("environment").output, "C|");
}

TEST(LimitedChildTest, AMissingProgramIsTold) {
  for (const std::string program : {"no-such-program", "C:\\none\\program.exe"}) {
    const ChildEnd end = RunLimited({program}, "", {}, [](std::string_view) { return true; }, {});
    EXPECT_EQ(end.how, How::kNotStarted);
    EXPECT_EQ(end.number, ENOENT) << program;
  }
  EXPECT_EQ(FindProgram("no-such-program"), "");
  EXPECT_EQ(FindProgram(".\\a"), ".\\a");
}

TEST(LimitedChildTest, ManyAtOnceDoNotMixUp) {
  std::vector<std::thread> threads;
  std::atomic<int> num_right = 0;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      const std::string input(300'000, static_cast<char>('0' + i));
      num_right += RunMode("copy", input).output == input;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_right, 6);
}

}  // namespace
}  // namespace lectern::tools
