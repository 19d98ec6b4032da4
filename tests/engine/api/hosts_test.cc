// Tests the promises of engine/EMBEDDING.md to a host of the shared library: many engines in one
// process, settings of the process that stay as they are, children, a limit of memory, threads and
// their priority.
#include <dlfcn.h>
#include <fcntl.h>
#include <fenv.h>
#include <gtest/gtest.h>
#include <lectern/lectern.h>
#include <locale.h>
#include <malloc.h>
#include <omp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <locale>
#include <map>
#include <new>
#include <set>
#include <sstream>
#include <thread>

#include "tests/engine/held.h"

extern "C" void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*,
                       const double*, const int*, const double*, const int*, const double*, double*,
                       const int*);

namespace lectern::api {
namespace {

namespace fs = std::filesystem;
using lectern::testing::Held;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

const std::string kTiny = LECTERN_SOURCE_DIR "/tests/golden/tiny";
const std::string kReader = LECTERN_SOURCE_DIR "/tools/reader/model";

// With 130 sentences the tiny model has clusters, so that FAISS and OpenMP have work.
std::string Sentences(int count, int first = 0) {
  std::string text;
  for (int i = first; i < first + count; ++i) {
    text += "Ann paid " + std::to_string(i * 37 % 1000) + " crowns for the mill at the old river. ";
  }
  return text;
}

class HostsTest : public ::testing::Test {
 protected:
  HostsTest() {
    std::string name = (fs::temp_directory_path() / "lectern-hosts-XXXXXX").string();
    if (mkdtemp(name.data())) folder_ = name;
  }
  ~HostsTest() override { fs::remove_all(folder_); }
  void SetUp() override { ASSERT_FALSE(folder_.empty()); }
  std::string Store(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
};

std::string Ask(Engine& engine, const char* document, float kv_budget = 0.2f) {
  auto session = engine.Open(document);
  if (!session.ok()) return "open: " + session.error().message;
  auto answer = session->Ask("Who paid?", {.kv_budget = kv_budget, .max_tokens = 4});
  return answer.ok() ? std::string(answer->text()) : "ask: " + answer.error().message;
}

// --- many engines -------------------------------------------------------------------------------

TEST_F(HostsTest, ManyEnginesOfManyThreadsLeaveNothing) {
  const std::string text = Sentences(130);
  std::string expected;
  const auto run = [&](int num_engines) {
    std::vector<Engine> engines;
    for (int i = 0; i < num_engines; ++i) {
      auto engine = Engine::Create({.store = Store(std::to_string(i % 3)),
                                    .model = kTiny,
                                    .num_threads = 1 + static_cast<uint64_t>(i) % 3,
                                    .io = i % 2 ? LECTERN_IO_PREAD : LECTERN_IO_MMAP});
      ASSERT_TRUE(engine.ok()) << engine.error().message;
      if (i < 3) {
        ASSERT_TRUE(engine->Index(text, {.name = "mill"}).ok());
      }
      engines.push_back(std::move(*engine));
    }
    expected = Ask(engines[0], "mill");
    std::vector<std::string> answers(24);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 6; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = t; i < answers.size(); i += 6) {
          answers[i] = Ask(engines[i % engines.size()], "mill");
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& answer : answers) EXPECT_EQ(answer, expected);
  };
  const Held before = Held::Now();
  run(12);
  const Held once = Held::WhenThreadsEnded(before);
  EXPECT_EQ(once.descriptors, before.descriptors);
  EXPECT_EQ(once.threads, before.threads);
  run(12);
  const Held twice = Held::WhenThreadsEnded(before);
  EXPECT_EQ(twice.descriptors, before.descriptors);
  EXPECT_EQ(twice.threads, before.threads);
  EXPECT_LT(twice.heap_bytes, once.heap_bytes + (64 << 10));
}

// --- settings of the process --------------------------------------------------------------------

int BlasThreads(int set = 0) {
  const auto get = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_num_threads"));
  const auto change =
      reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set > 0 && change) change(set);
  return get ? get() : 0;
}

void OnSignal(int) {}

std::string Bytes(const void* data, size_t size) {
  std::string hex;
  for (size_t i = 0; i < size; ++i) {
    hex += std::to_string(static_cast<const unsigned char*>(data)[i]) + " ";
  }
  return hex;
}

std::string FloatControl() {
  std::string control = std::to_string(fegetround());
#if defined(__x86_64__)
  uint16_t x87 = 0;
  asm volatile("fnstcw %0" : "=m"(x87));
  constexpr unsigned kFlags = 0x3F;  // what was raised, no setting
  control += " " + std::to_string(x87) + " " + std::to_string(__builtin_ia32_stmxcsr() & ~kFlags);
#endif
  return control;
}

// Settings of the process that a library could change behind the back of its host.
std::map<std::string, std::string> Settings() {
  std::map<std::string, std::string> all;
  omp_sched_t schedule;
  int chunk = 0;
  omp_get_schedule(&schedule, &chunk);
  all["OpenMP"] = std::to_string(omp_get_max_threads()) + " " + std::to_string(omp_get_dynamic()) +
                  " " + std::to_string(omp_get_max_active_levels()) + " " +
                  std::to_string(schedule) + " " + std::to_string(chunk);
  all["BLAS"] = std::to_string(BlasThreads());
  all["locale"] = std::string(setlocale(LC_ALL, nullptr)) + " " + std::locale().name();
  for (char** variable = environ; *variable; ++variable) {
    all["environment"] += std::string(*variable) + "\n";
  }
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action = {};
    if (sigaction(number, nullptr, &action) != 0) continue;
    all["signal " + std::to_string(number)] =
        Bytes(&action.sa_handler, sizeof action.sa_handler) + std::to_string(action.sa_flags);
  }
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  for (int number = 1; number < NSIG; ++number) {
    if (sigismember(&mask, number) == 1) all["signal mask"] += std::to_string(number) + " ";
  }
  const mode_t old = umask(0);
  umask(old);
  all["umask"] = std::to_string(old);
  all["working directory"] = fs::current_path();
  all["floating point"] = FloatControl();
  for (const int which : {RLIMIT_AS, RLIMIT_CORE, RLIMIT_DATA, RLIMIT_NOFILE, RLIMIT_STACK}) {
    rlimit limit = {};
    getrlimit(which, &limit);
    all["limit " + std::to_string(which)] =
        std::to_string(limit.rlim_cur) + " " + std::to_string(limit.rlim_max);
  }
  all["niceness"] = std::to_string(getpriority(PRIO_PROCESS, 0));
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  all["cores"] = Bytes(&cores, sizeof cores);
  for (const auto timer : {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF}) {
    itimerval value = {};
    getitimer(timer, &value);
    all["timer " + std::to_string(timer)] = Bytes(&value, sizeof value);
  }
  const auto terminate = std::get_terminate();
  const auto new_handler = std::get_new_handler();
  all["terminate"] = Bytes(&terminate, sizeof terminate);
  all["new"] = Bytes(&new_handler, sizeof new_handler);
  return all;
}

// The host at work, with BLAS and OpenMP of its own.
struct HostWork {
  int num_threads = 0;
  double sum = 0;
  bool operator==(const HostWork&) const = default;

  static HostWork Do() {
    constexpr int kSize = 96;
    std::vector<double> a(kSize * kSize), b(kSize * kSize), c(kSize * kSize);
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = static_cast<double>(i % 7), b[i] = static_cast<double>(i % 5);
    }
    const double one = 1, zero = 0;
    dgemm_("N", "N", &kSize, &kSize, &kSize, &one, a.data(), &kSize, b.data(), &kSize, &zero,
           c.data(), &kSize);
    HostWork done;
    double sum = 0;
    int threads = 0;
#if !defined(__SANITIZE_THREAD__)  // which does not see how libgomp waits
#pragma omp parallel for reduction(+ : sum)
#endif
    for (size_t i = 0; i < c.size(); ++i) {
      sum += c[i];
      if (i == 0) threads = omp_get_num_threads();
    }
    done.sum = sum, done.num_threads = threads;
    return done;
  }
};

TEST_F(HostsTest, SettingsOfTheProcessStayAsTheyAre) {
  BlasThreads(2);
  omp_set_num_threads(3);
  ASSERT_TRUE(setlocale(LC_ALL, "C.UTF-8"));
  setenv("OMP_NUM_THREADS", "7", 1);
  setenv("LC_NUMERIC", "xx", 1);
  umask(027);
  for (const int number : {SIGPIPE, SIGINT, SIGSEGV, SIGBUS, SIGFPE, SIGCHLD, SIGUSR1}) {
    signal(number, OnSignal);
  }
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);  // as audio hosts: no denormals
#endif
  const HostWork work = HostWork::Do();
  const auto settings = Settings();
  ASSERT_EQ(settings.at("OpenMP").substr(0, 2), "3 ");
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const auto check = [&](const std::string& step) {
    const std::string after = " after " + step;
    for (const auto& [name, value] : Settings())
      EXPECT_EQ(value, settings.at(name)) << name << after;
    EXPECT_EQ(HostWork::Do(), work) << after;
  };
  {
    auto engine =
        Engine::Create({.store = Store("s"), .model = kTiny, .num_threads = 3, .nice = 3});
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    check("create");
    bool is_first = true;
    auto report = engine->Index(Sentences(130), {.name = "mill", .on_progress = [&](const auto&) {
                                                   if (std::exchange(is_first, false))
                                                     check("progress");
                                                   return true;
                                                 }});
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_NE(report->json().find("centroids"), std::string_view::npos);  // there are clusters
    check("index");
    auto session = engine->Open("mill");
    ASSERT_TRUE(session.ok());
    check("open");
    auto answer = session->Ask("Who paid?", {.max_tokens = 4, .on_text = [&](std::string_view) {
                                               check("text");
                                               return true;
                                             }});
    EXPECT_TRUE(answer.ok());
    check("ask");
    EXPECT_FALSE(session->Ask("Who paid?", {.kv_budget = 7}).ok());
    EXPECT_FALSE(engine->Open("none").ok());
    check("errors");
    EXPECT_TRUE(engine->Verify({}, Engine::Depth::kEveryByte).ok());
    EXPECT_TRUE(engine->Export("mill", Store("bundle")).ok());
    EXPECT_TRUE(engine->Remove("mill").ok());
    EXPECT_TRUE(engine->Import(Store("bundle")).ok());
    EXPECT_TRUE(engine->Collect().ok());
    check("maintenance");
  }
  check("free");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

// --- children -----------------------------------------------------------------------------------

std::set<int> Descriptors() {
  std::set<int> all;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    all.insert(std::stoi(entry.path().filename()));
  }
  return all;
}

// Those of a child that execs.
std::string DescriptorsOfAChild() {
  std::string output;
  std::array<char, 4096> buffer;
  FILE* const child = popen("ls /proc/self/fd", "re");
  while (child && std::fgets(buffer.data(), buffer.size(), child)) output += buffer.data();
  return child && pclose(child) == 0 ? output : "none";
}

TEST_F(HostsTest, AChildThatExecsInheritsNoDescriptor) {
  const std::set<int> before = Descriptors();
  const std::string before_of_child = DescriptorsOfAChild();
  size_t num_checked = 0;
  const auto check = [&](const std::string& where) {
    for (const int descriptor : Descriptors()) {
      const int flags = fcntl(descriptor, F_GETFD);
      if (before.count(descriptor) > 0 || flags < 0) continue;  // or the look itself
      EXPECT_TRUE(flags & FD_CLOEXEC)
          << where << ": " << fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor));
      ++num_checked;
    }
    return true;
  };
  for (const lectern_io io : {LECTERN_IO_MMAP, LECTERN_IO_PREAD}) {
    auto engine = Engine::Create(
        {.store = Store(std::to_string(io)), .model = kTiny, .num_threads = 2, .io = io});
    ASSERT_TRUE(engine.ok());
    std::set<std::string> stages;
    const auto on_progress = [&](const Progress& progress) {
      const std::string stage(progress.stage);
      if (stages.insert(stage).second) {
        EXPECT_EQ(DescriptorsOfAChild(), before_of_child) << stage;
      }
      return check(stage);
    };
    ASSERT_TRUE(engine->Index(Sentences(130), {.name = "mill", .on_progress = on_progress}).ok());
    EXPECT_GT(stages.size(), 2u);
    auto session = engine->Open("mill");
    ASSERT_TRUE(session.ok());
    const auto on_text = [&](std::string_view) { return check("text"); };
    ASSERT_TRUE(session->Ask("Who paid?", {.max_tokens = 4, .on_text = on_text}).ok());
    EXPECT_EQ(DescriptorsOfAChild(), before_of_child);
  }
  EXPECT_GT(num_checked, 10u);
}

// A child that only waits has copies of all descriptors, and with them of locks.
TEST_F(HostsTest, AChildOfForkHoldsNoLockOfOurs) {
  auto engine = Engine::Create({.store = Store("s"), .model = kTiny, .num_threads = 2});
  ASSERT_TRUE(engine.ok());
  ASSERT_TRUE(engine->Index(Sentences(3), {.name = "first"}).ok());
  auto opened = engine->Open("first");
  ASSERT_TRUE(opened.ok());
  std::optional<Session> session(std::move(*opened));
  pid_t child = -1;
  const auto fork_once = [&](const Progress& progress) {
    if (child < 0 && progress.stage == "prefill") {
      child = fork();
      if (child == 0) {
        pause();
        _exit(0);
      }
    }
    return true;
  };
  const auto second = engine->Index(Sentences(4, 9), {.name = "second", .on_progress = fork_once});
  EXPECT_TRUE(second.ok()) << second.error().message;
  ASSERT_GT(child, 0);
  const auto third = engine->Index(Sentences(5, 50), {.name = "third"});
  EXPECT_TRUE(third.ok()) << third.error().message;
  EXPECT_TRUE(engine->Remove("first").ok());
  session.reset();
  auto collected = engine->Collect();
  EXPECT_TRUE(collected.ok() && collected->in_use == 0) << collected.error().message;
  EXPECT_EQ(waitpid(child, nullptr, WNOHANG), 0);  // all the while it was there
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// --- stop tokens --------------------------------------------------------------------------------

TEST_F(HostsTest, AStopTokenEndsACall) {
  const std::string text = Sentences(200);
  auto engine = Engine::Create({.store = Store("s"), .model = kTiny, .num_threads = 2});
  ASSERT_TRUE(engine.ok());
  std::stop_source never, before, during;
  before.request_stop();
  const auto code = [](const auto& result) { return result.error().code; };
  EXPECT_EQ(code(engine->Index(text, {.stop = before.get_token()})), LECTERN_CANCELLED);
  EXPECT_EQ(code(engine->Estimate(text, {.stop = before.get_token()})), LECTERN_CANCELLED);
  const auto stop = [&](const auto&) {
    std::thread([&] { during.request_stop(); }).join();
    return true;
  };
  EXPECT_EQ(code(engine->Index(text, {.on_progress = stop, .stop = during.get_token()})),
            LECTERN_CANCELLED);
  ASSERT_TRUE(engine->Index(text, {.name = "mill", .stop = never.get_token()}).ok());

  auto session = engine->Open("mill");
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(code(session->Ask("Who?", {.stop = before.get_token()})), LECTERN_CANCELLED);
  during = std::stop_source();
  auto answer = session->Ask("Who?", {.on_text = stop, .stop = during.get_token()});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->finish_reason(), "cancelled");
  answer = session->Ask("Who?", {.max_tokens = 3, .stop = never.get_token()});
  ASSERT_TRUE(answer.ok());
  EXPECT_NE(answer->finish_reason(), "cancelled");
  // Without a callback, from another thread, however long it would go on.
  during = std::stop_source();
  std::jthread stopper([&during] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    during.request_stop();
  });
  for (bool is_cancelled = false; !is_cancelled;) {
    auto longer = session->Ask("Who?", {.max_tokens = 16, .stop = during.get_token()});
    is_cancelled = longer.ok() ? longer->finish_reason() == "cancelled"
                               : longer.error().code == LECTERN_CANCELLED;
    ASSERT_TRUE(longer.ok() || is_cancelled) << longer.error().message;
  }
}

// --- memory, threads, priority ------------------------------------------------------------------

// kB of /proc/self/status.
size_t StatusBytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.compare(0, name.size(), name) == 0) {
      return std::stoull(line.substr(name.size() + 1)) << 10;
    }
  }
  return 0;
}

TEST_F(HostsTest, ALimitOfMemoryIsKept) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer has memory of its own";
  constexpr size_t kMiB = 1 << 20;
  // Tokenizer, catalog, stacks, neighbours of pages that are mapped in: not counted.
  constexpr size_t kSlack = 8 * kMiB;
  // Freed blocks go at once. Else what malloc keeps of them, which is not counted either, depends
  // on the threads that had them: on a busy machine peaks within 24 MiB were 21.7 to 28.7, so they
  // are 28.0 to 29.2.
  mallopt(M_MMAP_THRESHOLD, 64 << 10);
  mallopt(M_TRIM_THRESHOLD, 64 << 10);
  const std::string text = Sentences(200);
  const auto measure = [&](uint64_t limit, const auto& call) {
    malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << 5;  // the peak is what there is now
    const size_t before = StatusBytes("VmRSS:");
    auto engine = Engine::Create(
        {.store = Store("s"), .model = kReader, .num_threads = 2, .max_ram_bytes = limit});
    const Error error = engine.ok() ? call(*engine) : engine.error();
    const size_t peak = StatusBytes("VmHWM:");
    return std::pair(error, peak > before ? peak - before : 0);
  };
  const auto index = [&](Engine& engine) {
    return engine.Index(text, {.name = "mill", .again = true}).error();
  };
  const auto ask = [&](Engine& engine) {
    auto session = engine.Open("mill");
    if (!session.ok()) return session.error();
    return session->Ask("Who paid?", {.kv_budget = 1, .max_tokens = 4}).error();
  };
  const auto check = [&](const char* what, const auto& call) {
    size_t num_refused = 0, num_done = 0;
    for (const uint64_t limit : {1, 16, 24}) {
      const auto [error, peak] = measure(limit * kMiB, call);
      std::printf("%s within %llu MiB: %s, peak %.1f MiB\n", what,
                  static_cast<unsigned long long>(limit), lectern_code_name(error.code),
                  static_cast<double>(peak) / kMiB);
      EXPECT_LE(peak, limit * kMiB + kSlack) << what;
      if (error.code == LECTERN_OK) {
        ++num_done;
      } else {
        EXPECT_EQ(error.code, LECTERN_OUT_OF_MEMORY) << error.message;
        EXPECT_EQ(error.param, "max_ram");
        ++num_refused;
      }
    }
    EXPECT_GT(num_refused, 0u);
    EXPECT_GT(num_done, 0u);
  };
  if (StatusBytes("VmHWM:") == 0 || !std::ofstream("/proc/self/clear_refs")) {
    GTEST_SKIP() << "this system does not say a peak";
  }
  ASSERT_EQ(measure(0, index).first.code, LECTERN_OK);  // libraries have what they allocate once
  ASSERT_EQ(measure(0, ask).first.code, LECTERN_OK);
  check("index", index);
  check("ask", ask);
}

std::set<pid_t> Threads() {
  std::set<pid_t> all;
  for (const auto& entry : fs::directory_iterator("/proc/self/task")) {
    all.insert(std::stoi(entry.path().filename()));
  }
  return all;
}

// A window shows many answers, and each session that gave one is gone.
TEST_F(HostsTest, AnswersThatAreKeptHoldNoSession) {
  auto engine = Engine::Create(
      {.store = Store("kept"), .model = kReader, .num_threads = 1, .max_ram_bytes = 24 << 20});
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  ASSERT_TRUE(engine->Index(Sentences(200), {.name = "mill"}).ok());
  std::vector<Answer> answers;
  for (int i = 0; i < 12; ++i) {
    auto session = engine->Open("mill");
    ASSERT_TRUE(session.ok()) << session.error().message;
    auto answer = session->Ask("Who paid?", {.kv_budget = 1, .max_tokens = 4});
    ASSERT_TRUE(answer.ok()) << i << ": " << answer.error().message;
    answers.push_back(std::move(*answer));
  }
  auto other = Engine::Create({.store = Store("other"), .model = kReader, .num_threads = 1});
  ASSERT_TRUE(other.ok()) << other.error().message;
  *engine = std::move(*other);  // the first one is freed
  for (Answer& answer : answers) {
    auto json = answer.Json(LECTERN_OFFSET_UTF16);  // which needs the document's text
    ASSERT_TRUE(json.ok()) << json.error().message;
    EXPECT_NE(json->find("\"utf16\""), std::string::npos);
  }
}

TEST_F(HostsTest, ThreadsAndTheirPriorityAreTheHosts) {
  const std::set<pid_t> before = Threads();
  const int own = getpriority(PRIO_PROCESS, 0);
  std::set<std::string> answers;
  for (const int nice : {0, 7, 19}) {
    for (const size_t num_threads : {1u, 4u}) {
      Held::WhenThreadsEnded({0, before.size(), 0});
      auto engine = Engine::Create(
          {.store = Store("s"), .model = kTiny, .num_threads = num_threads, .nice = nice});
      ASSERT_TRUE(engine.ok()) << engine.error().message;
      ASSERT_TRUE(engine->Index(Sentences(130), {.name = "mill"}).ok());
      answers.insert(Ask(*engine, "mill"));
      size_t num_new = 0;
      for (const pid_t thread : Threads()) {
        const bool is_new = before.count(thread) == 0;
        num_new += is_new;
        EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(thread)),
                  std::min(own + (is_new ? nice : 0), 19));
      }
      EXPECT_EQ(num_new, num_threads - 1);
    }
  }
  EXPECT_EQ(answers.size(), 1u);
  for (const int nice : {-1, 20}) {
    const auto engine = Engine::Create({.store = Store("s"), .nice = nice});
    ASSERT_FALSE(engine.ok());
    EXPECT_EQ(engine.error().code, LECTERN_INVALID_ARGUMENT);
    EXPECT_EQ(engine.error().param, "nice");
  }
}

}  // namespace
}  // namespace lectern::api
