// A job object has the child's limits; time and memory are also looked at here, since Wine's job
// objects do not limit them.
#include <windows.h>

#include <psapi.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "store/system_error.h"
#include "store/system_windows.h"
#include "tools/find_program.h"
#include "tools/ingest/limited_child.h"

namespace lectern::tools {
namespace {

using Clock = std::chrono::steady_clock;
using How = ChildEnd::How;

constexpr DWORD kPollMs = 10;                  // between two looks at pipes, clock and cancellation
constexpr size_t kMaxComplaint = 4096;         // bytes of stderr that are kept
constexpr DWORD kPipeBytes = 1 << 20;          // what the child may write between two looks
constexpr DWORD kKilled = 255;                 // the status of a child that we end
constexpr DWORD kFirstException = 0x80000000;  // statuses from here on are of exceptions

int LastErrno() { return ErrnoOfSystem(static_cast<int>(::GetLastError())); }

// The input in a file that only we have open, and that goes when it is closed. Its path is what the
// child gets.
class InputFile {
 public:
  // False: LastErrno says why.
  bool Write(std::string_view bytes) {
    wchar_t folder[MAX_PATH + 2], path[MAX_PATH];
    if (::GetTempPathW(static_cast<DWORD>(std::size(folder)), folder) == 0 ||
        ::GetTempFileNameW(folder, L"lec", 0, path) == 0) {
      return false;
    }
    path_ = path;
    const Handle file(::CreateFileW(path, GENERIC_WRITE, 0, nullptr, CREATE_ALWAYS,
                                    FILE_ATTRIBUTE_TEMPORARY, nullptr));
    if (file.get() == nullptr) return false;
    while (!bytes.empty()) {
      DWORD count = 0;
      const DWORD size = static_cast<DWORD>(std::min<size_t>(bytes.size(), 1 << 30));
      if (!::WriteFile(file.get(), bytes.data(), size, &count, nullptr)) return false;
      bytes.remove_prefix(count);
    }
    return true;
  }
  ~InputFile() {
    if (!path_.empty()) ::DeleteFileW(path_.c_str());
  }
  const std::wstring& path() const { return path_; }

 private:
  std::wstring path_;
};

// Adds an argument so that the C library of the program finds it again (CommandLineToArgvW).
void AddArgument(std::wstring_view argument, std::wstring& line) {
  if (!line.empty()) line += L' ';
  line += L'"';
  size_t num_backslashes = 0;
  for (const wchar_t c : argument) {
    if (c == L'"') line.append(num_backslashes + 1, L'\\');
    num_backslashes = c == L'\\' ? num_backslashes + 1 : 0;
    line += c;
  }
  line.append(num_backslashes, L'\\');
  line += L'"';
}

// The variables of limited_child.h, and the folder of the system, where programs look for its
// libraries.
std::wstring Environment() {
  wchar_t folder[MAX_PATH];
  const UINT size = ::GetWindowsDirectoryW(folder, MAX_PATH);
  const std::wstring root(folder, size);
  std::wstring block = L"LC_ALL=C";
  block += L'\0';
  block += L"OMP_THREAD_LIMIT=1";
  block += L'\0';
  block += L"PATH=" + root + L"\\system32";
  block += L'\0';
  block += L"SystemRoot=" + root;
  block.append(2, L'\0');
  return block;
}

// A pipe whose write end a child may get.
struct Pipe {
  Handle read_end, write_end;
  static Pipe Make() {
    HANDLE ends[2] = {};
    SECURITY_ATTRIBUTES inherited = {sizeof inherited, nullptr, TRUE};
    if (::CreatePipe(&ends[0], &ends[1], &inherited, kPipeBytes)) {
      ::SetHandleInformation(ends[0], HANDLE_FLAG_INHERIT, 0);
    }
    return {Handle(ends[0]), Handle(ends[1])};
  }
};

// A job that ends its processes with its last handle.
Handle MakeJob(const ChildLimits& limits) {
  Handle job(::CreateJobObjectW(nullptr, nullptr));
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION information = {};
  JOBOBJECT_BASIC_LIMIT_INFORMATION& basic = information.BasicLimitInformation;
  basic.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | JOB_OBJECT_LIMIT_ACTIVE_PROCESS |
                     JOB_OBJECT_LIMIT_PROCESS_TIME | JOB_OBJECT_LIMIT_PROCESS_MEMORY |
                     JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION;
  basic.ActiveProcessLimit = 1;
  basic.PerProcessUserTimeLimit.QuadPart = static_cast<int64_t>(limits.cpu_seconds * 10'000'000);
  information.ProcessMemoryLimit = limits.memory_bytes;
  ::SetInformationJobObject(job.get(), JobObjectExtendedLimitInformation, &information,
                            sizeof information);
  return job;
}

// The list of handles that a child gets, and no others.
class InheritedHandles {
 public:
  explicit InheritedHandles(std::array<HANDLE, 3>& handles) {
    SIZE_T size = 0;
    ::InitializeProcThreadAttributeList(nullptr, 1, 0, &size);
    memory_.resize(size);
    is_made_ = ::InitializeProcThreadAttributeList(get(), 1, 0, &size) != 0;
    is_good_ = is_made_ &&
               ::UpdateProcThreadAttribute(get(), 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST,
                                           handles.data(), sizeof handles, nullptr, nullptr) != 0;
  }
  ~InheritedHandles() {
    if (is_made_) ::DeleteProcThreadAttributeList(get());
  }
  InheritedHandles(const InheritedHandles&) = delete;
  bool ok() const { return is_good_; }
  LPPROC_THREAD_ATTRIBUTE_LIST get() {
    return reinterpret_cast<LPPROC_THREAD_ATTRIBUTE_LIST>(memory_.data());
  }

 private:
  std::string memory_;
  bool is_made_ = false, is_good_ = false;
};

uint64_t Ticks(const FILETIME& time) { return Join(time.dwHighDateTime, time.dwLowDateTime); }

// A running child and our ends of its two pipes.
class Child {
 public:
  Child(Handle process, Handle job, Handle out, Handle err)
      : process_(std::move(process)),
        job_(std::move(job)),
        out_(std::move(out)),
        err_(std::move(err)) {}
  ~Child() { Kill(); }
  Child(const Child&) = delete;

  // Reads the child's output until it ends, or until a limit, the caller or a cancellation ends it.
  ChildEnd Watch(const ChildLimits& limits, const std::function<bool(std::string_view)>& on_output,
                 const std::function<bool()>& is_cancelled) {
    const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double>(limits.wall_seconds));
    uint64_t output_bytes = 0;
    for (bool has_ended = false; !end_;) {
      if (is_cancelled && is_cancelled()) end_ = How::kCancelled;
      if (Clock::now() > deadline || IsOver(limits)) end_ = How::kTooSlow;
      if (end_) break;
      // The bytes that were written before the end are read after it.
      const bool is_last_look = has_ended;
      bool has_read = Read(err_, [this](std::string_view piece) {
        complaint_.append(piece.substr(0, kMaxComplaint - complaint_.size()));
      });
      has_read |= Read(out_, [&](std::string_view piece) {
        output_bytes += piece.size();
        if (output_bytes > limits.output_bytes) {
          end_ = How::kTooMuchOutput;
        } else if (!on_output(piece)) {
          end_ = How::kRefused;
        }
      });
      if (is_last_look && !has_read) break;
      has_ended = ::WaitForSingleObject(process_.get(), has_read ? 0 : kPollMs) == WAIT_OBJECT_0;
    }
    return Reap();
  }

 private:
  // Gives up to 64 KiB of what a pipe has to `take`. False: it has nothing now.
  template <typename Take>
  static bool Read(const Handle& end, Take take) {
    char buffer[1 << 16];
    DWORD available = 0, count = 0;
    if (!::PeekNamedPipe(end.get(), nullptr, 0, nullptr, &available, nullptr) || available == 0) {
      return false;
    }
    const DWORD size = std::min<DWORD>(available, sizeof buffer);
    if (!::ReadFile(end.get(), buffer, size, &count, nullptr) || count == 0) return false;
    take(std::string_view(buffer, count));
    return true;
  }

  // Whether the child has used up its time. One that has used up its memory gets none, or is ended
  // here where nothing else limits it; its failure is its own.
  bool IsOver(const ChildLimits& limits) {
    FILETIME begin, exit, kernel, user;
    if (::GetProcessTimes(process_.get(), &begin, &exit, &kernel, &user) &&
        Ticks(kernel) + Ticks(user) > limits.cpu_seconds * 10'000'000) {
      return true;
    }
    PROCESS_MEMORY_COUNTERS memory = {};
    if (::K32GetProcessMemoryInfo(process_.get(), &memory, sizeof memory) &&
        memory.PagefileUsage > limits.memory_bytes) {
      ::TerminateProcess(process_.get(), static_cast<UINT>(STATUS_NO_MEMORY));
    }
    return false;
  }

  void Kill() {
    ::TerminateJobObject(job_.get(), kKilled);
    ::TerminateProcess(process_.get(), kKilled);  // where it could not be put into the job
    ::WaitForSingleObject(process_.get(), INFINITE);
  }

  // Ends the child, and says how it ended.
  ChildEnd Reap() {
    if (end_) Kill();
    ChildEnd end;
    end.complaint = std::move(complaint_);
    DWORD status = 0;
    ::GetExitCodeProcess(process_.get(), &status);
    if (end_) {
      end.how = *end_;
    } else if (status == ERROR_NOT_ENOUGH_QUOTA) {  // a job ends a process so whose time is over
      end.how = How::kTooSlow;
    } else {
      end.how = status >= kFirstException ? How::kSignalled : How::kExited;
      end.number = static_cast<int>(status);
    }
    return end;
  }

  const Handle process_, job_, out_, err_;
  std::string complaint_;
  std::optional<How> end_;  // why we end it
};

}  // namespace

ChildEnd RunLimited(const std::vector<std::string>& command, std::string_view input,
                    const ChildLimits& limits,
                    const std::function<bool(std::string_view)>& on_output,
                    const std::function<bool()>& is_cancelled) {
  const auto not_started = [](int error) { return ChildEnd{How::kNotStarted, error, ""}; };
  const std::string program = FindProgram(command.front());
  if (program.empty()) return not_started(ENOENT);
  InputFile file;
  if (!file.Write(input)) return not_started(LastErrno());
  std::wstring line;
  for (const std::string& argument : command) {
    AddArgument(argument == kInput || argument == kInputPath ? file.path() : Wide(argument), line);
  }
  SECURITY_ATTRIBUTES inherited = {sizeof inherited, nullptr, TRUE};
  const Handle in(::CreateFileW(file.path().c_str(), GENERIC_READ, kShareAll, &inherited,
                                OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr));
  Pipe out = Pipe::Make(), err = Pipe::Make();
  Handle job = MakeJob(limits);
  std::array<HANDLE, 3> standard = {in.get(), out.write_end.get(), err.write_end.get()};
  InheritedHandles handles(standard);
  if (std::ranges::find(standard, nullptr) != standard.end() || job.get() == nullptr ||
      !handles.ok()) {
    return not_started(LastErrno());
  }
  STARTUPINFOEXW start = {};
  start.StartupInfo.cb = sizeof start;
  start.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
  start.StartupInfo.hStdInput = standard[0];
  start.StartupInfo.hStdOutput = standard[1];
  start.StartupInfo.hStdError = standard[2];
  start.lpAttributeList = handles.get();
  std::wstring environment = Environment();
  PROCESS_INFORMATION child = {};
  // Suspended, so that it runs in the job alone.
  if (!::CreateProcessW(Wide(program).c_str(), line.data(), nullptr, nullptr, TRUE,
                        CREATE_SUSPENDED | CREATE_NO_WINDOW | CREATE_UNICODE_ENVIRONMENT |
                            EXTENDED_STARTUPINFO_PRESENT,
                        environment.data(), nullptr, &start.StartupInfo, &child)) {
    return not_started(LastErrno());
  }
  const Handle thread(child.hThread);
  Handle process(child.hProcess);
  const bool is_limited = ::AssignProcessToJobObject(job.get(), process.get()) != 0;
  Child running(std::move(process), std::move(job), std::move(out.read_end),
                std::move(err.read_end));
  { const Handle first = std::move(out.write_end), second = std::move(err.write_end); }  // closes
  if (!is_limited) return not_started(EPERM);
  ::ResumeThread(thread.get());
  return running.Watch(limits, on_output, is_cancelled);
}

}  // namespace lectern::tools
