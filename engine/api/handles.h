// The parts that all functions of the C API share (lectern_c.cc): handles become objects, results
// become codes and error handles, exceptions stop here, and structs are read by the size that the
// caller gives. Functions that return a Status or Result may throw bad_alloc; Call catches it.
#ifndef LECTERN_ENGINE_API_HANDLES_H_
#define LECTERN_ENGINE_API_HANDLES_H_

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "engine/api/handle_table.h"
#include "engine/engine.h"
#include "engine/lectern_c.h"

namespace lectern::c_api {

// kInvalidArgument about a field or argument; `param` is its name in lectern_c.h, or "".
inline Status InvalidArgument(std::string_view param, std::string message) {
  return Status(Code::kInvalidArgument, std::move(message)).WithParam(std::string(param));
}

// --- what handles stand for ---------------------------------------------------------------------

// The calls that run on one handle now, so that another thread can cancel all of them. Thread-safe.
class RunningCalls {
 public:
  // Registers a call while it lives; lives on the stack of the call, and must not outlive `calls`.
  // Neither moved nor copied: the list has its address. The constructor may throw bad_alloc.
  class Scope {
   public:
    explicit Scope(RunningCalls& calls) : calls_(calls) {
      const std::lock_guard lock(calls_.mutex_);
      is_alone_ = calls_.scopes_.empty();
      calls_.scopes_.push_back(this);
    }
    ~Scope() {
      const std::lock_guard lock(calls_.mutex_);
      std::erase(calls_.scopes_, this);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    bool is_alone() const { return is_alone_; }  // no other call ran when this one began
    // The call's own flag, for the engine to poll. It is set by Cancel and never reset, so a
    // cancelled handle serves the next call.
    const CancelFlag* cancel() const { return &cancel_; }

   private:
    friend class RunningCalls;
    RunningCalls& calls_;
    bool is_alone_;
    CancelFlag cancel_ = false;
  };

  // Sets the flags of the calls that run now; calls that begin later are not affected. Does not
  // wait.
  void Cancel() {
    const std::lock_guard lock(mutex_);
    for (Scope* scope : scopes_) scope->cancel_ = true;
  }

 private:
  std::mutex mutex_;
  std::vector<Scope*> scopes_;
};

// The objects behind handles. A session keeps its engine, and an answer its engine and document, so
// that a program may free handles in any order. An answer does not keep its session, whose
// conversation takes memory.
struct EngineObject {
  std::unique_ptr<Engine> engine;
  RunningCalls running;
};
struct SessionObject {
  std::shared_ptr<EngineObject> engine;  // outlives `session`
  std::unique_ptr<Session> session;
  RunningCalls running;
};
struct AnswerObject {
  std::shared_ptr<EngineObject> engine;  // outlives `document`
  std::shared_ptr<const void> document;
  std::string_view text;  // the document's, which converts offsets to other units
  Answer answer;
};
struct IndexReportObject {
  IndexReport report;
  std::string json;  // of the report, made once: an accessor returns a pointer into it
};

// Connects a handle's type in lectern_c.h with its kind in the table and the object behind it.
template <typename Handle>
struct HandleTraits;
template <HandleKind kKindOf, typename ObjectOf>
struct HandleTraitsOf {
  static constexpr HandleKind kKind = kKindOf;
  using Object = ObjectOf;
};
template <>
struct HandleTraits<lectern_engine> : HandleTraitsOf<HandleKind::kEngine, EngineObject> {};
template <>
struct HandleTraits<lectern_session> : HandleTraitsOf<HandleKind::kSession, SessionObject> {};
template <>
struct HandleTraits<lectern_answer> : HandleTraitsOf<HandleKind::kAnswer, AnswerObject> {};
template <>
struct HandleTraits<lectern_index_report>
    : HandleTraitsOf<HandleKind::kIndexReport, IndexReportObject> {};
template <>
struct HandleTraits<lectern_text> : HandleTraitsOf<HandleKind::kText, std::string> {};
template <>
struct HandleTraits<lectern_error> : HandleTraitsOf<HandleKind::kError, Status> {};

template <typename Handle>
using ObjectOf = typename HandleTraits<Handle>::Object;

// The table of all handles: one for the process, and never destroyed, because threads may still use
// handles while the process exits.
inline HandleTable& Handles() {
  static HandleTable* const table = new HandleTable;
  return *table;
}

// Gives out a handle for an object. Throws bad_alloc.
template <typename Handle>
Handle* Issue(std::shared_ptr<ObjectOf<Handle>> object) {
  return reinterpret_cast<Handle*>(Handles().Add(HandleTraits<Handle>::kKind, std::move(object)));
}

// Returns the object behind a handle, which it keeps alive. nullptr: the handle is NULL, freed, or
// not of this kind.
template <typename Handle>
std::shared_ptr<ObjectOf<Handle>> Find(const Handle* handle) noexcept {
  return std::static_pointer_cast<ObjectOf<Handle>>(
      Handles().Find(HandleTraits<Handle>::kKind, reinterpret_cast<uintptr_t>(handle)));
}

// The same, with kInvalidHandle, without param, where there is no object.
template <typename Handle>
Result<std::shared_ptr<ObjectOf<Handle>>> FindOrFail(const Handle* handle) {
  std::shared_ptr<ObjectOf<Handle>> object = Find(handle);
  if (!object) {
    return Status(Code::kInvalidHandle, "the handle is NULL, freed, or of another kind");
  }
  return object;
}

// Frees a handle; NULL is fine. The object is destroyed here, unless a running call still has it:
// then that call destroys it at its end. LECTERN_INVALID_HANDLE: freed before, or of another kind.
template <typename Handle>
lectern_code Free(Handle* handle) noexcept {
  if (!handle) return LECTERN_OK;
  const std::shared_ptr<void> object =
      Handles().Remove(HandleTraits<Handle>::kKind, reinterpret_cast<uintptr_t>(handle));
  return object ? LECTERN_OK : LECTERN_INVALID_HANDLE;
}

// --- calls --------------------------------------------------------------------------------------

// Returns the error's code and, if the caller gave a place (`error` is not NULL), puts an error
// handle there, which the caller frees; NULL when there is no memory for it. `status` is not ok.
inline lectern_code Fail(Status status, lectern_error** error) noexcept {
  const auto code = static_cast<lectern_code>(status.code());
  if (!error) return code;
  try {
    *error = Issue<lectern_error>(std::make_shared<Status>(std::move(status)));
  } catch (...) {
    *error = nullptr;
  }
  return code;
}

// Fail for a caught exception. Making the Status may itself run out of memory; then the caller gets
// the code alone.
inline lectern_code FailWith(Code code, const char* message, lectern_error** error) noexcept {
  try {
    return Fail(Status(code, message), error);
  } catch (...) {
    return static_cast<lectern_code>(code);
  }
}

// Runs the body of an API function, which returns a Status, and turns the result into a code and an
// error handle. No exception gets out: bad_alloc becomes LECTERN_OUT_OF_MEMORY, any other one
// LECTERN_INTERNAL. `error`: may be NULL; set to NULL first, as lectern_c.h promises on success.
template <typename Body>
lectern_code Call(lectern_error** error, Body body) noexcept {
  if (error) *error = nullptr;
  try {
    Status status = body();
    return status.ok() ? LECTERN_OK : Fail(std::move(status), error);
  } catch (const std::bad_alloc&) {
    return FailWith(Code::kOutOfMemory, "out of memory", error);
  } catch (const std::exception& exception) {
    return FailWith(Code::kInternal, exception.what(), error);
  } catch (...) {
    return FailWith(Code::kInternal, "unknown exception", error);
  }
}

// Sets the place for a result handle to NULL before anything can fail; a handle that was there is
// not freed. kInvalidArgument: `out` is NULL.
template <typename Handle>
Status Clear(Handle** out) {
  if (!out) return InvalidArgument("", "the place for the result is NULL");
  *out = nullptr;
  return Status();
}

// A text argument of `len` bytes, as a view; NULL with length 0 is the empty text.
// kInvalidArgument, with `param`: NULL with another length.
inline Result<std::string_view> View(const char* text, size_t len, const char* param) {
  if (!text && len > 0) return InvalidArgument(param, "text is NULL but its length is not 0");
  return text ? std::string_view(text, len) : std::string_view();
}

// The same as a copy, for texts that the engine keeps or needs as a std::string. Throws bad_alloc.
inline Result<std::string> Copy(const char* text, size_t len, const char* param) {
  LECTERN_ASSIGN(const std::string_view view, View(text, len, param));
  return std::string(view);
}

// Returns a string of an object, with a NUL behind it, and sets its length if `len` is not NULL;
// NULL and 0 where `text` is nullptr, because the handle was invalid. The string lives as long as
// the object.
inline const char* Give(const std::string* text, size_t* len) {
  if (len) *len = text ? text->size() : 0;
  return text ? text->c_str() : nullptr;
}

// Puts a handle of a text into `out`, which is not NULL. Throws bad_alloc.
inline Status GiveText(std::string text, lectern_text** out) {
  *out = Issue<lectern_text>(std::make_shared<std::string>(std::move(text)));
  return Status();
}

// --- structs with struct_size -------------------------------------------------------------------

inline constexpr size_t kMaxStructSize = 4096;  // bytes; more is no version's

// kInvalidArgument where a size cannot be that of a struct of any version: it has at least
// struct_size itself, and is a multiple of a pointer's alignment. Otherwise we would read or write
// past the caller's memory. Param "struct_size".
inline Status CheckStructSize(size_t size) {
  if (size >= sizeof(size_t) && size <= kMaxStructSize && size % alignof(void*) == 0) {
    return Status();
  }
  return InvalidArgument("struct_size",
                         "struct_size is not the size of this struct in any version");
}

// Copies a struct of options that may be of an older or newer version. NULL, and fields that the
// caller does not know, are 0: the default. Fields that this version does not know must be 0,
// because ignoring an option that is set would do something else than was asked: else
// kInvalidArgument, param "struct_size", as for a size that CheckStructSize refuses.
template <typename Struct>
Result<Struct> ReadStruct(const Struct* given) {
  Struct known{};
  if (!given) return known;
  const size_t size = given->struct_size;
  LECTERN_RETURN_IF_ERROR(CheckStructSize(size));
  std::memcpy(&known, given, std::min(size, sizeof(Struct)));
  const char* const bytes = reinterpret_cast<const char*>(given);
  if (size > sizeof(Struct) &&
      std::any_of(bytes + sizeof(Struct), bytes + size, [](char byte) { return byte != 0; })) {
    return InvalidArgument("struct_size", "a field is set that this version does not know");
  }
  return known;
}

// Fills the caller's struct, as much as out->struct_size says; fields that only the caller knows
// become 0. out->struct_size stays. kInvalidArgument: NULL, or no size of a struct; `out` is then
// as it was.
template <typename Struct>
Status WriteStruct(Struct value, Struct* out) {
  if (!out) return InvalidArgument("", "the place for the result is NULL");
  const size_t size = out->struct_size;
  LECTERN_RETURN_IF_ERROR(CheckStructSize(size));
  value.struct_size = size;
  std::memset(static_cast<void*>(out), 0, size);
  std::memcpy(static_cast<void*>(out), &value, std::min(size, sizeof(Struct)));
  return Status();
}

}  // namespace lectern::c_api

#endif  // LECTERN_ENGINE_API_HANDLES_H_
