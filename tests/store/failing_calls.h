// Makes a chosen call of the system fail, or kill its process, in the store and in SQLite alike:
// any call that changes, reads or locks files, of the C library on POSIX, of kernel32 on Windows. A
// program gets this by linking failing_calls_posix.cc or failing_calls_windows.cc.
#ifndef LECTERN_TESTS_STORE_FAILING_CALLS_H_
#define LECTERN_TESTS_STORE_FAILING_CALLS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "store/status.h"

namespace lectern {

// kKill: the process is killed at the call (a write has then written half). kShortWrite: a write
// writes half and says so; other calls work.
enum class CallFault : int32_t { kNone, kKill, kError, kShortWrite };

extern const bool kCanKill;  // whether RunWithPlan knows kKill

// The exit status of a process that was killed so on Windows, which has no signals.
inline constexpr uint32_t kKilledStatus = 0xDEAD;

// Plain bytes: also what lies in the file that a program's LECTERN_CALL_PLAN names, which it shares
// with the one that started it.
struct CallPlan {
  CallFault fault = CallFault::kNone;
  int32_t error = 0;      // the system's number, for kError
  bool sticky = false;    // every call from `at` on; with EINTR only 21 of them
  int64_t at = 0;         // the call, from 0
  int64_t num_calls = 0;  // so far
};
inline constexpr char kCallPlanVariable[] = "LECTERN_CALL_PLAN";

// The plan of this process, to be read and changed while no counted call runs: counting is not
// thread-safe. A plan file that is named and cannot be mapped aborts the process before main.
CallPlan& TheCallPlan();

// Runs `run` with the plan: in a child process on POSIX, in this one on Windows, where a child
// would be another program. 0: ok; 1: a typed error; 2: an internal one; -1: killed.
int RunWithPlan(const std::function<Status()>& run, const CallPlan& with);

// Errors of the system that a call may fail with; 0 stands for kShortWrite.
std::vector<int> ErrorsOfCalls();
extern const char* const kErrorsOfCalls;  // their names

}  // namespace lectern

#endif  // LECTERN_TESTS_STORE_FAILING_CALLS_H_
