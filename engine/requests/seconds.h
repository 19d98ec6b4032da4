// Measures durations for reports.
#ifndef LECTERN_ENGINE_REQUESTS_SECONDS_H_
#define LECTERN_ENGINE_REQUESTS_SECONDS_H_

#include <chrono>

namespace lectern {

// The seconds from `start` to now.
inline double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace lectern

#endif  // LECTERN_ENGINE_REQUESTS_SECONDS_H_
