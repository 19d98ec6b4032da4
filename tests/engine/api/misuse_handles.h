// Keeps the handles of the C API that threads share, use, and free while others use them; also
// makes values that are no handles.
#ifndef LECTERN_TESTS_ENGINE_API_MISUSE_HANDLES_H_
#define LECTERN_TESTS_ENGINE_API_MISUSE_HANDLES_H_

#include <array>
#include <map>
#include <mutex>
#include <vector>

#include "engine/lectern_c.h"
#include "tests/engine/api/misuse_arguments.h"

namespace lectern::misuse {

enum Kind { kEngine, kSession, kAnswer, kReport, kText, kError, kNumKinds };

// The kind of each type of handle, and the function that frees it.
template <Kind kKindOf, auto kFreeOf>
struct HandleIs {
  static constexpr Kind kKind = kKindOf;
  static constexpr auto kFree = kFreeOf;
};
template <typename Handle>
struct HandleOf;
template <>
struct HandleOf<lectern_engine> : HandleIs<kEngine, lectern_engine_free> {};
template <>
struct HandleOf<lectern_session> : HandleIs<kSession, lectern_session_free> {};
template <>
struct HandleOf<lectern_answer> : HandleIs<kAnswer, lectern_answer_free> {};
template <>
struct HandleOf<lectern_index_report> : HandleIs<kReport, lectern_index_report_free> {};
template <>
struct HandleOf<lectern_text> : HandleIs<kText, lectern_text_free> {};
template <>
struct HandleOf<lectern_error> : HandleIs<kError, lectern_error_free> {};

template <typename Handle>
lectern_code Free(Handle* handle) {
  return HandleOf<Handle>::kFree(handle);
}

// Thread-safe but for FreeAll. Aborts (REQUIRE) where a promise of the API is broken.
class Handles {
 public:
  template <typename Handle>
  struct Picked {
    Handle* handle;
    // Certainly no live handle of this kind (also: nullptr); else it is one, if nobody frees it
    // meanwhile.
    bool is_dead;
  };

  // No ticket comes twice.
  template <typename Handle>
  void Add(Handle* handle) {
    const std::lock_guard lock(mutex_);
    const Kind kind = HandleOf<Handle>::kKind;
    REQUIRE(handle && states_.emplace(handle, State{kind, true}).second);
    live_[kind].push_back(handle);
  }
  // Notes that a handle was freed; only one free of each succeeds.
  template <typename Handle>
  void Freed(Handle* handle) {
    const std::lock_guard lock(mutex_);
    const Kind kind = HandleOf<Handle>::kKind;
    const auto found = states_.find(handle);
    REQUIRE(found != states_.end() && found->second.kind == kind && found->second.is_live);
    found->second.is_live = false;
    std::erase(live_[kind], static_cast<void*>(handle));
    freed_.push_back(handle);
  }

  // Draws a handle: mostly a live one of the kind, else nullptr, one that was freed, one of another
  // kind, or no handle at all. nullptr where there is none of the drawn sort.
  template <typename Handle>
  Picked<Handle> Pick(Random& random) {
    const std::lock_guard lock(mutex_);
    const Kind kind = HandleOf<Handle>::kKind;
    void* handle = nullptr;
    switch (random.Below(20)) {
      case 0:
        break;
      case 1:
        if (!freed_.empty()) handle = freed_[random.Below(freed_.size())];
        break;
      case 2: {  // of another kind
        const auto& others = live_[(kind + 1 + random.Below(kNumKinds - 1)) % kNumKinds];
        if (!others.empty()) handle = others[random.Below(others.size())];
        break;
      }
      case 3:
        handle = reinterpret_cast<void*>(random.OneIn(2) ? random.Below(100) : random.Bits());
        break;
      case 4:
        handle = this;
        break;
      default:
        if (!live_[kind].empty()) handle = live_[kind][random.Below(live_[kind].size())];
    }
    const auto found = states_.find(handle);
    const bool is_live =
        found != states_.end() && found->second.is_live && found->second.kind == kind;
    return {static_cast<Handle*>(handle), !is_live};
  }
  template <typename Handle>
  size_t num_live() {  // of this kind
    const std::lock_guard lock(mutex_);
    return live_[HandleOf<Handle>::kKind].size();
  }
  // Frees the handles of the kind that are still live, when no other thread runs. The first free of
  // each succeeds, a second one fails. The lists are not changed: call it once, at the end.
  template <typename Handle>
  void FreeAll() {
    const std::vector<void*> live = live_[HandleOf<Handle>::kKind];
    for (void* handle : live) {
      REQUIRE(Free(static_cast<Handle*>(handle)) == LECTERN_OK);
      REQUIRE(Free(static_cast<Handle*>(handle)) == LECTERN_INVALID_HANDLE);
    }
  }

 private:
  struct State {
    Kind kind;
    bool is_live;
  };
  std::mutex mutex_;
  std::map<void*, State> states_;  // of all that there ever were
  std::array<std::vector<void*>, kNumKinds> live_;
  std::vector<void*> freed_;
};

}  // namespace lectern::misuse

#endif  // LECTERN_TESTS_ENGINE_API_MISUSE_HANDLES_H_
