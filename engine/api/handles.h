// Shared by all functions of the C API: turns tickets into objects, results into codes, and reads
// structs by the size that the caller gives.
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

inline Status InvalidArgument(std::string_view param, std::string message) {
  return Status(Code::kInvalidArgument, std::move(message)).WithParam(std::string(param));
}

// --- what handles stand for ---------------------------------------------------------------------

// The calls on one handle that run now, so that another thread can cancel them.
class RunningCalls {
 public:
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
    const CancelFlag* cancel() const { return &cancel_; }

   private:
    friend class RunningCalls;
    RunningCalls& calls_;
    bool is_alone_;
    CancelFlag cancel_ = false;
  };

  void Cancel() {
    const std::lock_guard lock(mutex_);
    for (Scope* scope : scopes_) scope->cancel_ = true;
  }

 private:
  std::mutex mutex_;
  std::vector<Scope*> scopes_;
};

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
  std::shared_ptr<SessionObject> session;  // its text converts offsets
  Answer answer;
};
struct IndexReportObject {
  IndexReport report;
  std::string json;
};

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

// One for the process, and never destroyed: threads may still use handles while the process exits.
inline HandleTable& Handles() {
  static HandleTable* const table = new HandleTable;
  return *table;
}

template <typename Handle>
Handle* Issue(std::shared_ptr<ObjectOf<Handle>> object) {
  return reinterpret_cast<Handle*>(Handles().Add(HandleTraits<Handle>::kKind, std::move(object)));
}

// nullptr: not a handle of this kind, or freed.
template <typename Handle>
std::shared_ptr<ObjectOf<Handle>> Find(const Handle* handle) noexcept {
  return std::static_pointer_cast<ObjectOf<Handle>>(
      Handles().Find(HandleTraits<Handle>::kKind, reinterpret_cast<uintptr_t>(handle)));
}

template <typename Handle>
Result<std::shared_ptr<ObjectOf<Handle>>> FindOrFail(const Handle* handle) {
  std::shared_ptr<ObjectOf<Handle>> object = Find(handle);
  if (!object) {
    return Status(Code::kInvalidHandle, "the handle is NULL, freed, or of another kind");
  }
  return object;
}

template <typename Handle>
lectern_code Free(Handle* handle) noexcept {
  if (!handle) return LECTERN_OK;
  const std::shared_ptr<void> object =
      Handles().Remove(HandleTraits<Handle>::kKind, reinterpret_cast<uintptr_t>(handle));
  return object ? LECTERN_OK : LECTERN_INVALID_HANDLE;
}

// --- calls --------------------------------------------------------------------------------------

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

// Fail for exceptions, whose messages may be what there is no memory for.
inline lectern_code FailWith(Code code, const char* message, lectern_error** error) noexcept {
  try {
    return Fail(Status(code, message), error);
  } catch (...) {
    return static_cast<lectern_code>(code);
  }
}

// Runs `body`, which returns a Status. Nothing that it throws gets out.
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

template <typename Handle>
Status Clear(Handle** out) {
  if (!out) return InvalidArgument("", "the place for the result is NULL");
  *out = nullptr;
  return Status();
}

inline Result<std::string_view> View(const char* text, size_t len, const char* param) {
  if (!text && len > 0) return InvalidArgument(param, "text is NULL but its length is not 0");
  return text ? std::string_view(text, len) : std::string_view();
}

inline Result<std::string> Copy(const char* text, size_t len, const char* param) {
  LECTERN_ASSIGN(const std::string_view view, View(text, len, param));
  return std::string(view);
}

// The string and its length; for a handle that is none NULL and 0.
inline const char* Give(const std::string* text, size_t* len) {
  if (len) *len = text ? text->size() : 0;
  return text ? text->c_str() : nullptr;
}

inline Status GiveText(std::string text, lectern_text** out) {
  *out = Issue<lectern_text>(std::make_shared<std::string>(std::move(text)));
  return Status();
}

// --- structs with struct_size -------------------------------------------------------------------

inline constexpr size_t kMaxStructSize = 4096;

inline Status CheckStructSize(size_t size) {
  if (size >= sizeof(size_t) && size <= kMaxStructSize && size % alignof(void*) == 0) {
    return Status();
  }
  return InvalidArgument("struct_size",
                         "struct_size is not the size of this struct in any version");
}

// Fields that the caller does not know are 0; those that we do not know have to be.
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

// Sets the fields that the caller knows; those that only the caller knows become 0.
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
