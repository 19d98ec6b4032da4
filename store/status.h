// How every call of Lectern that can fail reports it: the table of error codes, Status (a code and
// a message for the user) and Result (a value or a Status). They live in store/ because it is the
// lowest room whose calls can fail. Plain values; any thread.
#ifndef LECTERN_STORE_STATUS_H_
#define LECTERN_STORE_STATUS_H_

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "store/message.h"

namespace lectern {

// The one table of codes: kCamelCase here, LECTERN_UPPER_CASE in C, snake_case in JSON (CodeName).
// The numbers are part of the ABI: never renumber, only append.
enum class Code : int32_t {
  kOk = 0,
  kInvalidArgument = 1,      // an option or argument is out of its range, or does not exist
  kNotFound = 2,             // no such document, store or model
  kAmbiguous = 3,            // a name was left out and several would fit
  kModelMismatch = 4,        // the document was indexed with another model, tokenizer or template
  kEmptyDocument = 5,        // there is no text to index
  kContextTooLong = 6,       // document, question or answer exceed the model's positions
  kBudgetTooSmall = 7,       // the kv budget is below the fixed cost; the message has the smallest
  kNoSpace = 8,              // the disk (or its quota) is full or would be
  kOutOfMemory = 9,          // an allocation failed, or max_ram or device_memory would be exceeded
  kReadOnly = 10,            // the store cannot be written
  kLocked = 11,              // another process is writing this store
  kCancelled = 12,           // the caller asked the call to end early
  kIoError = 13,             // the system refused a read or write for another reason
  kMissingFile = 14,         // a file that the catalog or a model names is not there
  kTruncated = 15,           // a file is shorter (or longer) than it says
  kChecksumMismatch = 16,    // bytes changed after they were written
  kCorrupt = 17,             // the bytes verify but contradict themselves or each other
  kUnsupportedVersion = 18,  // written by a newer format than this build reads
  kUnsupportedModel = 19,    // a valid model of a kind that this build does not run
  kMalformedModel = 20,      // model, config or tokenizer file breaks the rules of its format
  kUnsafeFormat = 21,        // pickle files are never opened
  kLimitExceeded = 22,       // a count or size is beyond what we accept
  kNotReady = 23,            // the document is not indexed to the end: the run goes on, or ended
  kInvalidHandle = 24,       // C API: a freed or foreign handle
  kInternal = 25,            // a bug of ours
};
inline constexpr int kNumCodes = 26;

// "model_mismatch" and so on; "internal" for a number that is no code.
std::string_view CodeName(Code code);
// Exit status of the tools: 0 ok, 1 failure, 2 usage, 3 not found, 4 model mismatch,
// 5 disk or memory, 6 corrupt store, 130 cancelled; 1 for a number that is no code.
int ExitStatus(Code code);
// HTTP status with which lectern-server answers this error; 200 for kOk, 500 for a number that is
// no code.
int HttpStatus(Code code);

// A code, and a message for the user: what is wrong, with which thing, and the way out.
class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  // `code` is not kOk (asserted).
  Status(Code code, Message message) : code_(code), message_(std::move(message)) {
    assert(code != Code::kOk);
  }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_.text(); }
  // The message with its two wordings (message.h): options named as fields, and as flags of the
  // tools.
  const Message& wordings() const { return message_; }
  // The option or field that is wrong, such as "kv_budget"; may be empty.
  const std::string& param() const { return param_; }

  // The same status with the option or field that is wrong: return Status(…).WithParam("quota").
  Status&& WithParam(std::string param) && {
    param_ = std::move(param);
    return std::move(*this);
  }

 private:
  Code code_ = Code::kOk;
  Message message_;
  std::string param_;
};

// The status of a failed system call from `error`, an errno value but not 0. ENOSPC and EDQUOT
// become kNoSpace, EROFS kReadOnly, ENOENT kMissingFile, ENOMEM kOutOfMemory, EMFILE and ENFILE
// kLimitExceeded. EACCES and EPERM become kReadOnly, but kIoError if the action begins with "read",
// "map" or "list". Everything else becomes kIoError. The message reads "<action> <path>: <system
// text>".
Status ErrnoStatus(int error, std::string_view action, std::string_view path);

// A value, or the Status that explains why there is none. Two bugs are asserted: reading the value
// of a Result that is not ok, and making a Result from a Status that is ok. `status()` of a Result
// with a value is ok.
template <typename T>
class [[nodiscard]] Result {
 public:
  // Both convert implicitly, so that a function returns either with `return x;`.
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }

  bool ok() const { return status_.ok(); }
  const Status& status() const& { return status_; }
  Status&& status() && { return std::move(status_); }
  T& value() & {
    assert(ok());
    return *value_;
  }
  const T& value() const& {
    assert(ok());
    return *value_;
  }
  T&& value() && {
    assert(ok());
    return *std::move(value_);
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }

 private:
  Status status_;
  std::optional<T> value_;
};

// Returns the status of `expr` from the calling function unless it is ok.
#define LECTERN_RETURN_IF_ERROR(expr)                                                              \
  do {                                                                                             \
    if (::lectern::Status lectern_status_ = (expr); !lectern_status_.ok()) return lectern_status_; \
  } while (false)

// LECTERN_ASSIGN(auto x, Call()); declares x with the value of the Result that Call() returns, or
// returns its status from the calling function. Several statements: not for the body of an `if`
// without braces. A type with commas needs `auto`.
#define LECTERN_ASSIGN(declaration, expr) \
  LECTERN_ASSIGN_(LECTERN_CONCAT_(lectern_result_, __LINE__), declaration, expr)
#define LECTERN_ASSIGN_(result, declaration, expr)     \
  auto result = (expr);                                \
  if (!result.ok()) return std::move(result).status(); \
  declaration = std::move(result).value()
#define LECTERN_CONCAT_(a, b) LECTERN_CONCAT_2_(a, b)
#define LECTERN_CONCAT_2_(a, b) a##b

}  // namespace lectern

#endif  // LECTERN_STORE_STATUS_H_
