// Says which failures of servers are worth another try, and when to try: both of PostgreSQL and of
// the bucket.
#ifndef LECTERN_TOOLS_BATCH_RETRY_H_
#define LECTERN_TOOLS_BATCH_RETRY_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>

namespace lectern::batch {

// Whether the work should end soon: a signal came, or the lease is lost. Any thread; may be empty.
using StopCheck = std::function<bool()>;
inline bool IsStopped(const StopCheck& stop) { return stop && stop(); }

// Waits for the time, in slices, until `stop` holds. False: it was stopped.
bool WaitUnless(const StopCheck& stop, std::chrono::milliseconds time);

// Whether another try of an HTTP request may succeed: the server was busy (429, 503), slow (408,
// 504) or failed (500, 502). 0 stands for no answer at all.
bool IsRetryableStatus(long status);

// Whether a statement that failed with this SQLSTATE may succeed later: the connection broke (08),
// the server is restarting (57P), out of some resource (53), or the transaction met another (40).
// Empty: the server gave no answer.
bool IsRetryableSqlState(std::string_view state);

// Delays between tries: they double from `first` up to `most`, each shortened by up to a half at
// random, so that workers that failed together do not come back together. The default gives up
// after 46 to 92 seconds of waiting, in which a database fails over. One thread.
class Backoff {
 public:
  struct Limits {
    int tries = 11;
    std::chrono::milliseconds first{250}, most{20000};
  };
  Backoff() : Backoff(Limits()) {}
  explicit Backoff(const Limits& limits, uint64_t seed = 0);  // seed 0: by the clock

  // Waits for the time of the next try. False: there is none, or `stop` holds.
  bool Wait(const StopCheck& stop);
  // The delay before the next try; zero: no try is left.
  std::chrono::milliseconds Next();

 private:
  Limits limits_;
  int done_ = 1;  // the first try needs no delay
  uint64_t random_;
};

}  // namespace lectern::batch

#endif  // LECTERN_TOOLS_BATCH_RETRY_H_
