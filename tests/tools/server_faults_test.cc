// The server's parts where memory, threads or a client's reading fail: no task is lost or run
// twice, no job is stuck, and one slow client holds up no other.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "tools/server/connection.h"
#include "tools/server/connection_threads.h"
#include "tools/server/event_stream.h"
#include "tools/server/index_jobs.h"
#include "tools/server/watch.h"

namespace {

// Failures that a test sets: the allocation of its own thread with this number, from 0; every
// allocation of so many bytes or more; and every new thread.
thread_local int64_t allocations_left = -1;
std::atomic<size_t> too_large{SIZE_MAX};
std::atomic<bool> has_threads{true};

// Not inlined: the compiler would take malloc and free for a pair that does not belong together.
[[gnu::noinline]] void* Allocate(size_t bytes) {
  if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  void* const memory = bytes < too_large ? std::malloc(bytes == 0 ? 1 : bytes) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void Release(void* memory) { std::free(memory); }

}  // namespace

void* operator new(size_t bytes) { return Allocate(bytes); }
void operator delete(void* memory) noexcept { Release(memory); }
void operator delete(void* memory, size_t) noexcept { Release(memory); }

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) {
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return has_threads ? real(thread, attributes, run, argument) : EAGAIN;
}

namespace lectern::server {
namespace {

using namespace std::chrono_literals;

template <typename Condition>
bool Becomes(Condition condition) {
  for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(5ms);
  return condition();
}

// Runs `task` with the allocation of this number failing. False: it was dropped.
bool RunWithout(ConnectionThreads& threads, int64_t allocation, std::function<void()> task) {
  allocations_left = allocation;
  try {
    threads.Run(std::move(task));
  } catch (const std::bad_alloc&) {
    allocations_left = -1;
    return false;
  }
  allocations_left = -1;
  return true;
}

// Else a connection would be served after its socket was closed, and that number may be another
// client's by then.
TEST(ConnectionThreadsTest, WithoutMemoryATaskIsRunOrRefusedAndNotBoth) {
  size_t num_refused = 0, num_taken = 0;
  for (int64_t allocation = 0; allocation < 12; ++allocation) {
    for (const bool is_busy : {false, true}) {
      std::atomic<bool> may_end = false;
      std::atomic<int> num_run = 0;
      bool is_taken;
      {
        ConnectionThreads threads;
        if (is_busy) {
          threads.Run([&] {
            while (!may_end) std::this_thread::sleep_for(1ms);
          });
        }
        is_taken = RunWithout(threads, allocation, [&] { ++num_run; });
        may_end = true;
      }
      EXPECT_EQ(num_run, is_taken) << allocation << is_busy;
      ++(is_taken ? num_taken : num_refused);
    }
  }
  EXPECT_GT(num_refused, 0u);
  EXPECT_GT(num_taken, 0u);
}

TEST(ConnectionThreadsTest, WithoutThreadsATaskWaitsForOneThatRuns) {
  std::atomic<int> num_run = 0;
  std::atomic<bool> may_end = false;
  ConnectionThreads threads;
  has_threads = false;
  EXPECT_THROW(threads.Run([&] { ++num_run; }), std::system_error);
  has_threads = true;
  EXPECT_TRUE(threads.Run([&] {
    while (!may_end) std::this_thread::sleep_for(1ms);
  }));
  has_threads = false;
  EXPECT_FALSE(threads.Run([&] { num_run += 10; }));
  has_threads = true;
  EXPECT_EQ(num_run, 0);
  may_end = true;
  EXPECT_TRUE(Becomes([&] { return num_run == 10; }));
}

TEST(WatchTest, ExceptionsOfOneDoNotEndTheOthers) {
  Watch watch;
  std::atomic<int> num_thrown = 0, num_ticks = 0, num_cancels = 0;
  const auto later = std::chrono::steady_clock::now() + 1h;
  const Watch::Scope throws(watch, {.deadline = later,
                                    .cancel = [] {},
                                    .tick =
                                        [&] {
                                          ++num_thrown;
                                          throw std::bad_alloc();
                                        }});
  const Watch::Scope ticks(watch,
                           {.deadline = later, .cancel = [] {}, .tick = [&] { ++num_ticks; }});
  const Watch::Scope ends(watch, {.deadline = std::chrono::steady_clock::now(),
                                  .cancel =
                                      [&] {
                                        ++num_cancels;
                                        throw std::bad_alloc();
                                      },
                                  .tick = {}});
  EXPECT_TRUE(Becomes([&] { return num_thrown > 1 && num_ticks > 1 && num_cancels > 1; }));
  EXPECT_EQ(ends.ended_by(), EndedBy::kDeadline);
}

// A client that does not read: writing would block for GuardOptions::write_ms.
class SlowStream : public ResponseStream {
 public:
  bool Write(std::string_view bytes) override {
    if (!is_ready) ++num_blocked;
    written += bytes;
    return true;
  }
  bool IsReady() const override { return is_ready; }
  bool is_ready = false;
  int num_blocked = 0;
  std::string written;
};

TEST(EventStreamTest, SignsOfLifeWaitForNobody) {
  SlowStream stream;
  EventStream events(stream, 0ms);
  std::this_thread::sleep_for(1ms);
  events.KeepAlive();
  EXPECT_EQ(stream.num_blocked, 0);
  EXPECT_EQ(stream.written, "");
  EXPECT_FALSE(events.is_gone());
  stream.is_ready = true;
  events.KeepAlive();
  EXPECT_EQ(stream.written, ": ping\n\n");
}

TEST(ConnectionTest, IsReadyToWriteUntilTheClientHasToRead) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  {
    const Connection connection(ends[0], 60000);
    EXPECT_TRUE(connection.IsReadyToWrite());
    const std::string much(1 << 16, 'x');
    while (::send(ends[0], much.data(), much.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    EXPECT_FALSE(connection.IsReadyToWrite());
    ::close(ends[1]);
    EXPECT_TRUE(connection.IsReadyToWrite()) << "so that the next write finds the client gone";
  }
}

class IndexJobsTest : public ::testing::Test {
 protected:
  IndexJobsTest() {
    folder_ = std::filesystem::temp_directory_path() / ("lectern-jobs-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    auto engine = api::Engine::Create({.store = (folder_ / "store").string(),
                                       .model = LECTERN_SOURCE_DIR "/tests/golden/tiny",
                                       .num_threads = 1});
    EXPECT_TRUE(engine.ok());
    engine_.emplace(std::move(*engine));
    IndexJobs::Options options;
    options.folder = folder_.string();
    jobs_.emplace(*engine_, options);
  }
  ~IndexJobsTest() override {
    jobs_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string Upload(size_t bytes) const {
    const std::string path = folder_ / "upload";
    std::ofstream(path) << std::string(bytes, 'a');
    return path;
  }
  size_t NumFiles() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      count += entry.is_regular_file();
    }
    return count;
  }
  // The job as it is once it is over.
  std::string End(const std::string& id) {
    std::string last;
    jobs_->Follow(id, [&](const IndexJobs::Change* change) {
      if (change) last = change->json;
      return true;
    });
    return last;
  }

  std::filesystem::path folder_;
  std::optional<api::Engine> engine_;
  std::optional<IndexJobs> jobs_;
};

TEST_F(IndexJobsTest, AJobWithoutMemoryFailsAndTheNextOneRuns) {
  const std::string path = Upload(3 << 20);
  too_large = 1 << 20;
  IndexJobs::Wish wish;
  wish.format = "text";
  const auto large = jobs_->Add(path, wish);
  ASSERT_TRUE(large.has_value());
  const std::string failed = End(*large);
  too_large = SIZE_MAX;
  EXPECT_NE(failed.find("\"state\":\"failed\""), std::string::npos) << failed;
  EXPECT_NE(failed.find("out_of_memory"), std::string::npos) << failed;
  EXPECT_EQ(NumFiles(), 0u);
  const auto next = jobs_->Add(Upload(100), wish);
  ASSERT_TRUE(next.has_value());
  EXPECT_NE(End(*next).find("\"state\":\"done\""), std::string::npos) << End(*next);
  EXPECT_EQ(NumFiles(), 0u);
}

TEST_F(IndexJobsTest, AnUploadThatIsNotAddedStaysWhereItIs) {
  size_t num_refused = 0;
  for (int64_t allocation = 0;; ++allocation) {
    const std::string path = Upload(100);
    IndexJobs::Wish wish;
    wish.name = "a name that is too long for a string's own memory";
    wish.format = "markdown, as far as its name tells, which no format is";
    std::optional<std::string> id;
    allocations_left = allocation;
    try {
      id = jobs_->Add(path, std::move(wish));
    } catch (const std::bad_alloc&) {
    }
    allocations_left = -1;
    if (id) break;
    ++num_refused;
    EXPECT_TRUE(std::filesystem::exists(path)) << allocation;
    EXPECT_EQ(NumFiles(), 1u) << allocation;
  }
  EXPECT_GT(num_refused, 0u);
}

}  // namespace
}  // namespace lectern::server
