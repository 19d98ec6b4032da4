// Makes a chosen call of the C library fail, or kill its process, in the store and in SQLite alike:
// any call that changes, reads or locks files. A program gets this by linking failing_calls.cc.
#ifndef LECTERN_TESTS_STORE_FAILING_CALLS_H_
#define LECTERN_TESTS_STORE_FAILING_CALLS_H_

#include <cstdint>

namespace lectern {

// kKill: SIGKILL at the call (a write has then written half). kShortWrite: a write writes half and
// says so; other calls work.
enum class CallFault : int32_t { kNone, kKill, kError, kShortWrite };

// Plain bytes: also what lies in the file that a program's LECTERN_CALL_PLAN names, which it shares
// with the one that started it.
struct CallPlan {
  CallFault fault = CallFault::kNone;
  int32_t error = 0;      // an errno value, for kError
  bool sticky = false;    // every call from `at` on; with EINTR only 21 of them
  int64_t at = 0;         // the call, from 0
  int64_t num_calls = 0;  // so far
};
inline constexpr char kCallPlanVariable[] = "LECTERN_CALL_PLAN";

// The plan of this process, to be read and changed while no counted call runs: counting is not
// thread-safe. A plan file that is named and cannot be mapped aborts the process before main.
CallPlan& TheCallPlan();

}  // namespace lectern

#endif  // LECTERN_TESTS_STORE_FAILING_CALLS_H_
