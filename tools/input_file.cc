#include "tools/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace lectern::tools {
namespace {

// The file descriptor of the input. It closes a file that it opened; stdin stays open. Negative,
// with errno set, where the file cannot be opened.
class InputDescriptor {
 public:
  explicit InputDescriptor(const std::string& path)
      : is_stdin_(path == "-"),
        fd_(is_stdin_ ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~InputDescriptor() {
    if (!is_stdin_ && fd_ >= 0) close(fd_);
  }
  InputDescriptor(const InputDescriptor&) = delete;
  InputDescriptor& operator=(const InputDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  bool is_stdin_;
  int fd_;
};

// The error of a system call on the input, with the errors that users meet put into words.
api::Error SystemError(const std::string& name, int error) {
  if (error == ENOENT) return {LECTERN_NOT_FOUND, name + " is not there", "file"};
  if (error == EISDIR) return {LECTERN_INVALID_ARGUMENT, name + " is a directory; give a file", "file"};
  if (error == EACCES) return {LECTERN_IO_ERROR, name + " may not be read: permission denied", "file"};
  if (error == ENOTDIR) {
    return {LECTERN_NOT_FOUND, name + " is not there: a part of its path is a file", "file"};
  }
  return {LECTERN_IO_ERROR, "read " + name + ": " + std::strerror(error), "file"};
}

api::Error TooLarge(const std::string& name) {
  return {LECTERN_LIMIT_EXCEEDED, name + " is larger than 1 GiB; index it in parts", "file"};
}

// Reads until the end. `expected_bytes` is the size of a regular file, so that memory is taken
// once; 0 where the size is not known. A file that grows meanwhile is read on, up to the limit.
api::Result<std::string> ReadAll(int fd, const std::string& name, uint64_t expected_bytes) {
  constexpr size_t kPiece = size_t{1} << 20;  // bytes of a read: few calls, little memory
  std::string bytes;
  bytes.reserve(expected_bytes + kPiece);  // and one piece more, for the read that finds the end
  for (;;) {
    const size_t filled = bytes.size();
    bytes.resize(filled + kPiece);
    const ssize_t count = read(fd, bytes.data() + filled, kPiece);
    bytes.resize(filled + static_cast<size_t>(count > 0 ? count : 0));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(name, errno);
    if (count == 0) return bytes;
    if (bytes.size() > kMaxInputBytes) return TooLarge(name);
  }
}

}  // namespace

api::Result<std::string> ReadInputFile(const std::string& path) {
  const std::string name = path == "-" ? "stdin" : "\"" + path + "\"";
  const InputDescriptor file(path);
  struct stat info {};
  if (file.get() < 0 || fstat(file.get(), &info) != 0) return SystemError(name, errno);
  if (S_ISDIR(info.st_mode)) return SystemError(name, EISDIR);
  const uint64_t size = S_ISREG(info.st_mode) ? static_cast<uint64_t>(info.st_size) : 0;
  if (size > kMaxInputBytes) return TooLarge(name);
  auto bytes = ReadAll(file.get(), name, size);
  if (bytes.ok() && bytes->empty()) {
    return api::Error{LECTERN_EMPTY_DOCUMENT, name + " is empty", "file"};
  }
  return bytes;
}

}  // namespace lectern::tools
