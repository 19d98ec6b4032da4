// Counts the descriptors, threads and heap that the process holds, so that tests find a call's
// leaks.
#ifndef LECTERN_TESTS_ENGINE_HELD_H_
#define LECTERN_TESTS_ENGINE_HELD_H_

#include <malloc.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <thread>

extern "C" size_t __sanitizer_get_current_allocated_bytes() __attribute__((weak));

namespace lectern::testing {

struct Held {
  // Descriptors include the one that counts them; heap_bytes: allocated and not freed, of all
  // threads.
  size_t descriptors, threads, heap_bytes;

  // Throws std::filesystem::filesystem_error where /proc cannot be read.
  static Held Now() {
    const size_t heap = __sanitizer_get_current_allocated_bytes
                            ? __sanitizer_get_current_allocated_bytes()
                            : mallinfo2().uordblks;
    return {Entries("/proc/self/fd"), Entries("/proc/self/task"), heap};
  }
  // Now, once there are no more threads than in `before`, or after 5 s: a thread that was joined
  // may still be in /proc for a moment.
  static Held WhenThreadsEnded(const Held& before) {
    Held now = Now();
    for (int i = 0; i < 100 && now.threads > before.threads; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      now = Now();
    }
    return now;
  }

 private:
  static size_t Entries(const char* folder) {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  }
};

}  // namespace lectern::testing

#endif  // LECTERN_TESTS_ENGINE_HELD_H_
