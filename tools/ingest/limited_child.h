// Runs a program on bytes that nobody vouches for (pdftotext on a user's PDF), so that a bug in it
// can do little harm: in a process of its own, with limits, killed when it exceeds them.
#ifndef LECTERN_TOOLS_INGEST_LIMITED_CHILD_H_
#define LECTERN_TOOLS_INGEST_LIMITED_CHILD_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lectern::tools {

struct ChildLimits {
  uint64_t memory_bytes = uint64_t{1} << 30;    // address space; on Windows committed memory
  uint64_t cpu_seconds = 20;                    // processor time
  double wall_seconds = 60;                     // by the clock
  uint64_t output_bytes = uint64_t{256} << 20;  // of stdout; stderr beyond 4 KiB is dropped
};

// How the child ended.
struct ChildEnd {
  enum class How {
    kExited,         // number: its exit status
    kSignalled,      // number: of the signal, or of Windows' exception, which none of these sent
    kNotStarted,     // number: an errno; ENOENT: there is no such program
    kTooSlow,        // the processor's or the clock's limit
    kTooMuchOutput,  // more than output_bytes
    kRefused,        // on_output wanted no more
    kCancelled,      // is_cancelled said so
  };
  How how = How::kExited;
  int number = 0;         // of `how`, where the list above gives it a meaning; else 0
  std::string complaint;  // what it said on stderr first, at most 4 KiB of any bytes
};

// The argument that names a child's input: it becomes "-" on POSIX, and on Windows, where programs
// read stdin as text, the path of a file with the input.
inline constexpr char kInput[] = "<input>";
// The same for a program that wants a file: on POSIX the path of its stdin.
inline constexpr char kInputPath[] = "<input path>";

// Runs `command` (the program and its arguments, at least one text; FindProgram finds the program;
// no shell) until it ends or has to be ended. `input` is its stdin, as a file in memory (a copy)
// that can be sought in. Its stdout is given to `on_output` piece by piece, at most 64 KiB each, on
// the calling thread, until that returns false or a limit is passed. `is_cancelled`, which may be
// empty, is asked at least about every 50 ms. An exception of either ends the child and passes
// through.
//
// The child has no other open files; its environment is LC_ALL=C and OMP_THREAD_LIMIT=1 alone (on
// Linux it may start no threads unless we are root), on Windows also the system's folder. When this
// returns, the child is gone, with the processes that it started. Any thread; the calling process
// may have others.
//
// POSIX: The child has its own process group. It may write no files and, unless we are root, start
// no processes; it is killed when the calling thread ends. A process that ignores SIGCHLD gets
// kExited with 0 for any end. Windows: a job object has the limits, allows no other process, and
// ends the child with ours; the child may write where the user may.
ChildEnd RunLimited(const std::vector<std::string>& command, std::string_view input,
                    const ChildLimits& limits,
                    const std::function<bool(std::string_view)>& on_output,
                    const std::function<bool()>& is_cancelled);

// Runs it in the same way for its whole output; nothing where it ends otherwise than with status 0.
inline std::optional<std::string> OutputOf(const std::vector<std::string>& command,
                                           std::string_view input, const ChildLimits& limits,
                                           const std::function<bool()>& is_cancelled) {
  std::string output;
  const ChildEnd end = RunLimited(
      command, input, limits,
      [&output](std::string_view piece) { return output.append(piece), true; }, is_cancelled);
  if (end.how != ChildEnd::How::kExited || end.number != 0) return std::nullopt;
  return output;
}

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_LIMITED_CHILD_H_
