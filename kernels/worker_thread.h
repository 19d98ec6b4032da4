// How the threads of Lectern's own differ from the host's (they take no signals, and may be nicer
// to other programs), and how they wait for each other.
#ifndef LECTERN_KERNELS_WORKER_THREAD_H_
#define LECTERN_KERNELS_WORKER_THREAD_H_

#include <atomic>
#include <cstdint>
#include <memory>

namespace lectern {

// While it lives, the calling thread blocks the signals meant for the whole process, and so do, for
// all their lives, the threads that it starts: the host's own threads handle these signals. Threads
// still receive faults that they cause themselves, and SIGPROF, which profilers send to every
// thread. Windows has no signals, and there it does nothing.
class WithoutSignals {
 public:
  WithoutSignals();
  ~WithoutSignals();
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  struct Before;
  std::unique_ptr<Before> before_;
};

// Raises the niceness of the calling thread alone by `nice` (0 and less: not), as Linux counts it,
// to 19 at most. On Windows: from 1 on a priority below normal, from 10 on the lowest but idle. If
// the system refuses, the thread simply runs at its old priority.
void AddNice(int nice);

// Waits until `value` is no longer `seen`; WakeOne and WakeAll wake threads that wait so, after the
// value has changed. std::atomic's wait and notify, but on Windows, where GCC 12's wait compares
// before it locks: a change in between wakes nobody, and the thread sleeps for ever.
void WaitForChange(const std::atomic<uint32_t>& value, uint32_t seen);
void WakeOne(std::atomic<uint32_t>& value);
void WakeAll(std::atomic<uint32_t>& value);

}  // namespace lectern

#endif  // LECTERN_KERNELS_WORKER_THREAD_H_
