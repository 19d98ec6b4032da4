#include "store/status.h"

#include <cerrno>
#include <system_error>

namespace lectern {
namespace {

// Everything that depends on a code. Two codes of one kind share an exit status: a shell can tell
// the kinds apart, and the message says the rest.
struct CodeRow {
  Code code;
  std::string_view name;
  int exit_status;
  int http_status;
};

// Sorted by code without gaps, as checked below.
constexpr CodeRow kCodes[] = {
    {Code::kOk, "ok", 0, 200},
    {Code::kInvalidArgument, "invalid_argument", 2, 400},
    {Code::kNotFound, "not_found", 3, 404},
    {Code::kAmbiguous, "ambiguous", 2, 400},
    {Code::kModelMismatch, "model_mismatch", 4, 409},
    {Code::kEmptyDocument, "empty_document", 2, 422},
    {Code::kContextTooLong, "context_too_long", 2, 413},
    {Code::kBudgetTooSmall, "budget_too_small", 2, 422},
    {Code::kNoSpace, "no_space", 5, 507},
    {Code::kOutOfMemory, "out_of_memory", 5, 503},
    {Code::kReadOnly, "read_only", 1, 403},
    {Code::kLocked, "locked", 1, 503},
    {Code::kCancelled, "cancelled", 130, 499},
    {Code::kIoError, "io_error", 1, 500},
    {Code::kMissingFile, "missing_file", 6, 500},
    {Code::kTruncated, "truncated", 6, 500},
    {Code::kChecksumMismatch, "checksum_mismatch", 6, 500},
    {Code::kCorrupt, "corrupt", 6, 500},
    {Code::kUnsupportedVersion, "unsupported_version", 6, 500},
    {Code::kUnsupportedModel, "unsupported_model", 1, 422},
    {Code::kMalformedModel, "malformed_model", 1, 422},
    {Code::kUnsafeFormat, "unsafe_format", 1, 422},
    {Code::kLimitExceeded, "limit_exceeded", 1, 413},
    {Code::kNotReady, "not_ready", 1, 409},
    {Code::kInvalidHandle, "invalid_handle", 1, 500},
    {Code::kInternal, "internal", 1, 500},
};

constexpr bool IsDense() {
  for (int i = 0; i < kNumCodes; ++i) {
    if (static_cast<int>(kCodes[i].code) != i) return false;
  }
  return true;
}
static_assert(std::size(kCodes) == kNumCodes && IsDense());

// A number that is no code is a bug, or comes from a newer library: it counts as internal.
const CodeRow& Row(Code code) {
  const int i = static_cast<int>(code);
  return kCodes[i >= 0 && i < kNumCodes ? i : static_cast<int>(Code::kInternal)];
}

// For EACCES: whether the call wanted to read. Then a permission is missing that is no property of
// the store; else the store cannot be written.
bool IsReading(std::string_view action) {
  return action.starts_with("read") || action.starts_with("map") || action.starts_with("list");
}

// The code of ErrnoStatus for an errno value.
Code ErrnoCode(int error, std::string_view action) {
  switch (error) {
    case ENOSPC:
#ifdef EDQUOT  // where the C library has it
    case EDQUOT:
#endif
      return Code::kNoSpace;
    case EROFS:
      return Code::kReadOnly;
    case EACCES:
    case EPERM:
      return IsReading(action) ? Code::kIoError : Code::kReadOnly;
    case ENOENT:
      return Code::kMissingFile;
    case ENOMEM:
      return Code::kOutOfMemory;
    case EMFILE:
    case ENFILE:
      return Code::kLimitExceeded;
    default:
      return Code::kIoError;
  }
}

}  // namespace

std::string_view CodeName(Code code) { return Row(code).name; }
int ExitStatus(Code code) { return Row(code).exit_status; }
int HttpStatus(Code code) { return Row(code).http_status; }

Status ErrnoStatus(int error, std::string_view action, std::string_view path) {
  std::string message(action);
  message.append(" ").append(path).append(": ").append(std::generic_category().message(error));
  return Status(ErrnoCode(error, action), std::move(message));
}

}  // namespace lectern
