// Makes random calls of the C API, right and wrong ones, and checks the promises that hold for
// every call. misuse_*.cc have the calls by theme; misuse_test.cc strings them together (a tape).
#ifndef LECTERN_TESTS_ENGINE_API_MISUSE_CALLS_H_
#define LECTERN_TESTS_ENGINE_API_MISUSE_CALLS_H_

#include <atomic>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/api/misuse_arguments.h"
#include "tests/engine/api/misuse_handles.h"

namespace lectern::misuse {

struct Tape {
  Random random;
  Handles& handles;
  const std::string& model;
  int depth = 0;  // of calls made from callbacks
};

struct Function {
  const char* name;  // without lectern_
  int weight;
  bool (*call)(Tape&);  // whether it succeeded
  std::atomic<uint64_t> calls = 0, succeeded = 0;
};
std::span<Function> ValueFunctions();    // codes, versions, errors, texts, JSON
std::span<Function> EngineFunctions();   // engines and indexing
std::span<Function> SessionFunctions();  // sessions and answers
std::span<Function> StoreFunctions();
std::span<Function> CollectionFunctions();  // and what answers of collections have

// Calls one of all functions, drawn by their weights, and counts the call. Aborts where a promise
// is broken.
void CallAnyFunction(Tape& tape);

// Names to draw from: stores are folders of the working directory, and documents have names.
inline const std::vector<std::string> kStores = {"store1", "store1", "store2"};
inline const std::vector<std::string> kNames = {"a", "b", "c"};
void Unseal();  // makes all stores writable again: removes their files SEALED
// Aborts if a text, a number or a passage of a live answer is none that the API promises.
void CheckAnswer(const lectern_answer* answer);
void OnDamage(const lectern_damage* damage, void*);  // prints it and aborts: there may be none

// --- what is true of every call -----------------------------------------------------------------

// A code of lectern_c.h but for LECTERN_OK and LECTERN_INTERNAL, which is a bug.
inline bool IsKnownFailure(lectern_code code) {
  return code > LECTERN_OK && code < LECTERN_INTERNAL;
}

// Aborts unless a text of the API is there, with a NUL behind its `len` bytes.
inline void CheckString(const char* text, size_t len) { REQUIRE(text && text[len] == 0); }

// Keeps the handle that a call gave, so that other calls may use it; frees it where there are
// enough.
template <typename Handle>
inline void Keep(Tape& tape, Handle* handle) {
  constexpr size_t kMost[kNumKinds] = {4, 6, 12, 6, 12, 12};
  if (tape.handles.num_live<Handle>() < kMost[HandleOf<Handle>::kKind]) {
    return tape.handles.Add(handle);
  }
  REQUIRE(Free(handle) == LECTERN_OK);
  REQUIRE(Free(handle) == LECTERN_INVALID_HANDLE);
}

// The value of a place before a call: a call that fails must replace it with NULL.
inline void* const kUnset = reinterpret_cast<void*>(uintptr_t{0xABCDEF});

// Where a handle comes back. Without a place a call that needs one fails.
template <typename Handle>
class Out {
 public:
  explicit Out(Tape& tape, uint64_t no_place_one_in = 20)
      : has_place_(!tape.random.OneIn(no_place_one_in)) {}
  Handle** place() { return has_place_ ? &handle_ : nullptr; }
  bool has_place() const { return has_place_; }
  // After the call: aborts unless the place has a handle exactly where the call succeeded. Returns
  // it; nullptr where it failed or there was no place.
  Handle* Check(lectern_code code) const {
    if (!has_place_) return nullptr;
    REQUIRE(code == LECTERN_OK ? handle_ && handle_ != kUnset : !handle_);
    return handle_;
  }

 private:
  bool has_place_;
  Handle* handle_ = static_cast<Handle*>(kUnset);
};

// Where the error of a call comes back. Check, after the call, aborts unless it is there exactly
// where the call failed, with the call's code and a message; it then keeps the handle.
class Error {
 public:
  explicit Error(Tape& tape) : tape_(tape), has_place_(!tape.random.OneIn(4)) {}
  lectern_error** place() { return has_place_ ? &error_ : nullptr; }
  void Check(lectern_code code) {
    REQUIRE(code == LECTERN_OK || IsKnownFailure(code));
    if (!has_place_) return;
    REQUIRE((error_ != nullptr) == (code != LECTERN_OK));
    if (!error_) return;
    size_t len = 0;
    REQUIRE(lectern_error_code(error_) == code);
    const char* const message = lectern_error_message(error_, &len);
    CheckString(message, len);
    REQUIRE(len > 0);
    const char* const param = lectern_error_param(error_, &len);
    CheckString(param, len);
    Keep(tape_, error_);
  }

 private:
  Tape& tape_;
  bool has_place_;
  lectern_error* error_ = static_cast<lectern_error*>(kUnset);
};

struct Expected {
  bool is_dead_handle = false;
  bool is_wrong = false;  // an argument is
  bool has_place = true;  // for the result
};

// The end of every call that can fail: whether it succeeded.
inline bool Finish(lectern_code code, Error& error, Expected expected) {
  error.Check(code);
  if (!expected.has_place) {
    REQUIRE(code == LECTERN_INVALID_ARGUMENT);
  } else if (expected.is_dead_handle) {
    REQUIRE(code == LECTERN_INVALID_HANDLE);
  } else if (expected.is_wrong) {
    REQUIRE(code == LECTERN_INVALID_ARGUMENT || code == LECTERN_INVALID_HANDLE);
  }
  return code == LECTERN_OK;
}

// Checks the result of a call that gives a code alone; true if the call succeeded.
inline bool Finish(lectern_code code, Expected expected) {
  REQUIRE(code == LECTERN_OK || IsKnownFailure(code));
  if (expected.is_dead_handle) REQUIRE(code == LECTERN_INVALID_HANDLE);
  if (expected.is_wrong) REQUIRE(code != LECTERN_OK);
  return code == LECTERN_OK;
}

// Aborts unless a call that succeeded gave a JSON object; keeps its handle.
inline void FinishJson(Tape& tape, const Out<lectern_text>& json, lectern_code code) {
  lectern_text* const text = json.Check(code);
  if (!text) return;
  size_t len = 0;
  const char* const data = lectern_text_data(text, &len);
  CheckString(data, len);
  REQUIRE(len >= 2 && data[0] == '{' && data[len - 1] == '}');
  Keep(tape, text);
}

// Frees a handle that is drawn, right or wrong; true if that succeeded.
template <typename Handle>
inline bool FreeAny(Tape& tape) {
  const auto picked = tape.handles.Pick<Handle>(tape.random);
  const lectern_code code = Free(picked.handle);
  if (!picked.handle) {
    REQUIRE(code == LECTERN_OK);
    return true;
  }
  REQUIRE(code == LECTERN_INVALID_HANDLE || (code == LECTERN_OK && !picked.is_dead));
  if (code == LECTERN_OK) tape.handles.Freed(picked.handle);
  return code == LECTERN_OK;
}

// Accessors give NULL and length 0 for a handle that is none. These return whether the call
// succeeded.

template <typename Handle, const char* (*kGet)(const Handle*, size_t*)>
bool GetString(Tape& tape) {
  const auto picked = tape.handles.Pick<Handle>(tape.random);
  const bool wants_len = !tape.random.OneIn(4);
  size_t len = 99;
  const char* const text = kGet(picked.handle, wants_len ? &len : nullptr);
  REQUIRE(!picked.is_dead || !text);
  REQUIRE(text || !wants_len || len == 0);
  return text != nullptr;
}

// Structs that are written: none, of any size.
template <typename Struct, typename Handle, typename Get>
bool GetStruct(Tape& tape, Get get) {
  const auto picked = tape.handles.Pick<Handle>(tape.random);
  Sized<Struct> out(tape.random);
  const bool is_null = tape.random.OneIn(10);
  const lectern_code code = get(picked.handle, is_null ? nullptr : out.get());
  out.CheckBehind();
  return Finish(code, {.is_dead_handle = picked.is_dead, .is_wrong = is_null || out.is_wrong()});
}

// --- callbacks ----------------------------------------------------------------------------------

inline lectern_code Cancel(lectern_engine* engine) { return lectern_engine_cancel(engine); }
inline lectern_code Cancel(lectern_session* session) { return lectern_session_cancel(session); }

// The argument of a callback: the tape, and the handle of the call that it comes from.
template <typename Handle>
struct Running {
  Tape& tape;
  Handle* handle;
  bool always_ends = false;

  // The callback's return value: 0 goes on, anything else ends the call. May before that free or
  // cancel the handle, or make another call (at most two deep).
  int32_t Misbehave() {
    switch (tape.random.Below(24)) {
      case 0:
        return tape.random.Of<int32_t>({1, -1, INT32_MIN});
      case 1:
        if (Free(handle) == LECTERN_OK) tape.handles.Freed(handle);
        break;
      case 2:
        std::thread([&] { Cancel(handle); }).join();
        break;
      case 3:
      case 4:
        if (tape.depth < 2) {
          const char* const caller = calling;
          ++tape.depth;
          CallAnyFunction(tape);
          --tape.depth;
          calling = caller;
        }
    }
    return always_ends;
  }
};
using RunningEngine = Running<lectern_engine>;
using RunningSession = Running<lectern_session>;
template <typename Handle>
bool CancelAny(Tape& tape) {
  const auto picked = tape.handles.Pick<Handle>(tape.random);
  return Finish(Cancel(picked.handle), {.is_dead_handle = picked.is_dead});
}

}  // namespace lectern::misuse

#endif  // LECTERN_TESTS_ENGINE_API_MISUSE_CALLS_H_
