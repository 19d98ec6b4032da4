// Calls of the C library that change, read or lock files, made to fail or to kill their process: of
// the store and of SQLite's library alike. A program that is linked with failing_calls.cc has them.
#ifndef LECTERN_TESTS_STORE_FAILING_CALLS_H_
#define LECTERN_TESTS_STORE_FAILING_CALLS_H_

#include <cstdint>

namespace lectern {

enum class CallFault : int32_t { kNone, kKill, kError, kShortWrite };

// Plain bytes: also what lies in the file that a program's LECTERN_CALL_PLAN names, which it shares
// with the one that started it.
struct CallPlan {
  CallFault fault = CallFault::kNone;
  int32_t error = 0;      // an errno value
  bool sticky = false;    // every call from `at` on; EINTR: 20 of them
  int64_t at = 0;         // the call, from 0
  int64_t num_calls = 0;  // so far
};
inline constexpr char kCallPlanVariable[] = "LECTERN_CALL_PLAN";

// The plan of this process.
CallPlan& TheCallPlan();

}  // namespace lectern

#endif  // LECTERN_TESTS_STORE_FAILING_CALLS_H_
