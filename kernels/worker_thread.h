// How the threads of Lectern's own differ from the host's: they take no signals, and may be nicer
// to other programs.
#ifndef LECTERN_KERNELS_WORKER_THREAD_H_
#define LECTERN_KERNELS_WORKER_THREAD_H_

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

}  // namespace lectern

#endif  // LECTERN_KERNELS_WORKER_THREAD_H_
