// A block of the emulated device: its threads are fibers, and its shared memory ends in canaries
// (emulation.h). For emulation.cc alone, under its lock.
#ifndef LECTERN_TESTS_KERNELS_CUDA_EMULATION_BLOCK_H_
#define LECTERN_TESTS_KERNELS_CUDA_EMULATION_BLOCK_H_

#include <algorithm>
#include <bit>
#include <boost/context/fiber.hpp>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/cuda_emulation/cuda_runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(LECTERN_TSAN_FIBERS)  // not __SANITIZE_THREAD__: emulation.cc is compiled without it
#include <sanitizer/tsan_interface.h>
extern "C" {
void __tsan_write16(void* address);
void __tsan_read_range(void* address, unsigned long bytes);
}
#endif

namespace cuda_emulation {

namespace context = boost::context;

constexpr size_t kStackBytes = 256 << 10;
constexpr size_t kCanaryBytes = 256;
constexpr unsigned char kCanary = 0xFF;  // read as a number it is NaN
constexpr int kWarp = 32;

// ---- What orders memory accesses, for ThreadSanitizer: it takes each thread of a kernel for one
// of its own, that nothing but these calls orders. What comes before Release(at) comes before what
// comes after an Acquire(at) that follows. `at` is of memory that is given back afterwards.
#if defined(LECTERN_TSAN_FIBERS)
inline void Release(const void* at) { __tsan_release(const_cast<void*>(at)); }
inline void Acquire(const void* at) { __tsan_acquire(const_cast<void*>(at)); }
// Tell ThreadSanitizer of memory that this file reads and writes for a thread of a kernel.
inline void Writes16(void* at) { __tsan_write16(at); }
inline void Reads(const void* at, size_t bytes) {
  if (bytes > 0) __tsan_read_range(const_cast<void*>(at), bytes);
}
// A stack is one of its threads: as many blocks as these suffice for are told apart.
constexpr size_t kLeastStacks = 2048;
#else
inline void Release(const void*) {}
inline void Acquire(const void*) {}
inline void Writes16(void*) {}
inline void Reads(const void*, size_t) {}
constexpr size_t kLeastStacks = 0;
#endif

// Stacks are used again: the kernel need not clear them for every block. The one that was left last
// is the next, or, where many tell blocks apart, the one that was left first.
class StackPool {
 public:
  // A stack of kStackBytes; memory is taken where none is free, and never given back.
  context::stack_context allocate() {
    context::stack_context stack;
    stack.size = kStackBytes;
    stack.sp = TakeBottom() + kStackBytes;
    return stack;
  }
  void deallocate(context::stack_context& stack) {
    char* const bottom = static_cast<char*>(stack.sp) - kStackBytes;
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(bottom, kStackBytes);  // of frames that were left by a switch
#endif
    free_[(begin_ + count_++) % free_.size()] = bottom;
  }
  // The fiber for which ThreadSanitizer takes code on a stack, as if it were a thread.
  void* TsanFiber(const char* bottom) {
#if defined(LECTERN_TSAN_FIBERS)
    void*& fiber = tsan_fibers_[bottom];
    if (fiber == nullptr) fiber = __tsan_create_fiber(0);
    return fiber;
#else
    (void)bottom;
    return nullptr;
#endif
  }

 private:
  char* TakeBottom() {
    if (count_ == 0 || memory_.size() < kLeastStacks) {
      memory_.push_back(std::make_unique<char[]>(kStackBytes));
      std::rotate(free_.begin(), free_.begin() + static_cast<ptrdiff_t>(begin_), free_.end());
      begin_ = 0;
      free_.push_back(nullptr);
      return memory_.back().get();
    }
    --count_;
    if (kLeastStacks == 0) return free_[(begin_ + count_) % free_.size()];
    char* const bottom = free_[begin_];
    begin_ = (begin_ + 1) % free_.size();
    return bottom;
  }

  std::map<const char*, void*> tsan_fibers_;
  std::vector<std::unique_ptr<char[]>> memory_;
  std::vector<char*> free_;  // of all: [begin_, begin_ + count_), which go around
  size_t begin_ = 0, count_ = 0;
};

struct PoolAllocator {
  using traits_type = context::stack_traits;
  context::stack_context allocate() {
    const context::stack_context stack = pool->allocate();
    *bottom = static_cast<char*>(stack.sp) - kStackBytes;
    return stack;
  }
  void deallocate(context::stack_context& stack) { pool->deallocate(stack); }
  StackPool* pool;
  const char** bottom;
};

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  uint64_t group;  // the how manieth to be committed
};

struct Thread {
  context::fiber fiber;
  const char* stack_bottom = nullptr;
  void* fake_stack = nullptr;  // AddressSanitizer's
  void* tsan_fiber = nullptr;  // ThreadSanitizer's
  dim3 index;
  const char* waits_for = "its turn";
  bool has_waited = false;  // for the kernels before this one
  bool is_done = false;
  std::vector<Copy> copies;  // that have not arrived, oldest first
  uint64_t num_groups = 0;   // committed
  // As the memory model has it: a fence and an atomic operation after it are a release, one before
  // it is an acquire.
  bool has_fenced = false;
  std::vector<const void*> met;  // by atomic operations since the last fence
  uint64_t num_warp_syncs = 0;
};

// Lanes of a warp that can go on, first come first.
class Ready {
 public:
  bool empty() const { return count_ == 0; }
  uint32_t count() const { return count_; }
  void Add(size_t lane) { lanes_[(begin_ + count_++) % kWarp] = static_cast<uint8_t>(lane); }
  // The `drawn`th, with which the first changes places.
  size_t Take(size_t drawn) {
    uint8_t& first = lanes_[begin_];
    std::swap(first, lanes_[(begin_ + drawn) % kWarp]);
    begin_ = (begin_ + 1) % kWarp, --count_;
    return first;
  }

 private:
  uint8_t lanes_[kWarp];
  uint32_t begin_ = 0, count_ = 0;
};

struct Meeting {
  const char* name = nullptr;
  uint32_t mask = 0, arrived = 0;
  void* arguments[kWarp] = {};
};

class Block {
 public:
  // `launch`: [2] of what orders its beginning and end.
  Block(StackPool& pool, uint64_t seed, size_t shared_bytes, const uint64_t* launch)
      : pool_(pool),
        random_(seed),
        shared_(shared_bytes + 2 * kCanaryBytes + 128, kCanary),
        launch_(launch) {
    const auto begin = reinterpret_cast<uintptr_t>(shared_.data()) + kCanaryBytes;
    shared_begin_ = reinterpret_cast<unsigned char*>((begin + 127) / 128 * 128);
    shared_end_ = shared_begin_ + shared_bytes;
  }

  // Runs `body` on each thread of a block of blockDim threads, until all have ended or one has made
  // a mistake. Returns "" or the mistake; threads that then still wait are left as they stand. Call
  // it once.
  std::string Run(const std::function<void()>& body) {
    const size_t count = size_t{blockDim.x} * blockDim.y * blockDim.z;
    threads_.resize(count);
    warps_.resize((count + kWarp - 1) / kWarp);
    ready_.resize(warps_.size());
    at_barrier_.reserve(count);
    order_.resize(3 + 2 * warps_.size());
    Release(&order_[0]);
    if (Draw(2) == 1) {
      ranks_.resize(warps_.size());
      for (uint64_t& rank : ranks_) rank = Draw(~uint64_t{0});
    }
    for (size_t i = 0; i < count; ++i) Start(i, body);
    RunThreads();
    if (report_.empty()) FindDeadlock();
    if (report_.empty()) CheckCanaries();
    if (!report_.empty()) Abandon();
    return report_;
  }

  // This and the functions up to WaitCopies are called by the block's own threads. A mistake never
  // returns to its thread: Run ends with it.
  void SyncThreads() {
    const uint64_t* const order = &order_[1 + num_barriers_ % 2];  // the next one is another
    Release(order);
    if (++num_at_barrier_ < threads_.size()) {
      at_barrier_.push_back(current_);
      Wait("__syncthreads");
      return Acquire(order);
    }
    num_at_barrier_ = 0;
    ++num_barriers_;
    for (const size_t i : at_barrier_) MakeReady(i);
    at_barrier_.clear();
    Yield();
    Acquire(order);
  }

  // Nothing else that lanes meet in orders what they do to memory.
  void SyncWarp(uint32_t mask) {
    const uint64_t number = threads_[current_].num_warp_syncs++ % 2;
    const uint64_t* const order = &order_[3 + current_ / kWarp * 2 + number];
    Release(order);
    MeetWarp(mask, "syncwarp", &mask, [](void* const*) {});
    Acquire(order);
  }

  void Fence() {
    Thread& thread = threads_[current_];
    for (const void* const at : thread.met) Acquire(at);
    thread.met.clear();
    thread.has_fenced = true;
  }
  // After an operation on it.
  void MeetAtomically(const void* at) {
    Thread& thread = threads_[current_];
    if (std::exchange(thread.has_fenced, false)) Release(at);
    if (thread.met.empty() || thread.met.back() != at) thread.met.push_back(at);
  }

  // Waits until all lanes of `mask` have come with the same mask and name; the last one calls
  // `run`.
  void MeetWarp(uint32_t mask, const char* name, void* argument, void (*run)(void* const* lanes)) {
    const size_t first = current_ / kWarp * kWarp;
    const auto lane = static_cast<uint32_t>(current_ - first);
    Meeting& meeting = warps_[current_ / kWarp];
    if (meeting.arrived == 0) {
      meeting.name = name;
      meeting.mask = mask;
    }
    if (!(mask >> lane & 1)) return Fail(std::string(name) + ": a lane that its mask leaves out");
    if (first + kWarp > threads_.size() && mask >> (threads_.size() - first) != 0) {
      return Fail(std::string(name) + ": the mask holds lanes that the block does not have");
    }
    if (meeting.mask != mask || (meeting.name != name && std::strcmp(meeting.name, name) != 0)) {
      return Fail(std::string("lanes of a warp diverged: some wait for ") + meeting.name +
                  ", another for " + name);
    }
    meeting.arguments[lane] = argument;
    meeting.arrived |= 1u << lane;
    if (meeting.arrived != mask) return Wait(name);
    run(meeting.arguments);
    for (uint32_t i = 0; i < kWarp; ++i) {
      if (i != lane && (mask >> i & 1)) MakeReady(first + i);
      meeting.arguments[i] = nullptr;
    }
    meeting.arrived = 0;
  }

  void WaitForEarlierKernels() { threads_[current_].has_waited = true; }

  int lane() const { return static_cast<int>(current_ % kWarp); }
  unsigned char* shared() const { return shared_begin_; }

  // Begins a copy of at most 16 bytes to 16 bytes of shared memory, which are NaN until WaitCopies;
  // the rest of them becomes zero then.
  void CopyAsync(void* to, const void* from, size_t bytes) {
    auto* const begin = static_cast<unsigned char*>(to);
    if (begin < shared_begin_ || begin + 16 > shared_end_) {
      return Fail("cp.async to what is not shared memory");
    }
    const auto addresses = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
    if (addresses % 16 != 0 && bytes > 0) return Fail("cp.async of an address that is not aligned");
    Writes16(to);
    Reads(from, bytes);
    std::memset(to, 0xFF, 16);
    Thread& thread = threads_[current_];
    thread.copies.push_back({to, from, bytes, thread.num_groups});
  }
  // Ends a group of this thread's copies; waits for all groups but the last `groups_left`.
  void CommitCopies() { ++threads_[current_].num_groups; }
  void WaitCopies(int groups_left) {
    Thread& thread = threads_[current_];
    auto copy = thread.copies.begin();
    for (; copy != thread.copies.end(); ++copy) {
      if (copy->group + static_cast<uint64_t>(groups_left) >= thread.num_groups) break;
      Writes16(copy->to);
      Reads(copy->from, copy->bytes);
      std::memset(copy->to, 0, 16);
      std::memcpy(copy->to, copy->from, copy->bytes);
    }
    thread.copies.erase(thread.copies.begin(), copy);
  }

 private:
  void Start(size_t i, const std::function<void()>& body) {
    Thread& thread = threads_[i];
    const auto index = static_cast<unsigned>(i);
    thread.index = {index % blockDim.x, index / blockDim.x % blockDim.y,
                    index / blockDim.x / blockDim.y};
    thread.fiber = context::fiber(std::allocator_arg, PoolAllocator{&pool_, &thread.stack_bottom},
                                  [this, i, &body](context::fiber&& scheduler) {
                                    if (scheduler) scheduler_ = std::move(scheduler);
                                    FinishSwitch(nullptr);
                                    Acquire(launch_);
                                    Acquire(&order_[0]);
                                    body();
                                    return End(i);
                                  });
    thread.tsan_fiber = pool_.TsanFiber(thread.stack_bottom);
    MakeReady(i);
  }

  context::fiber End(size_t i) {
    Release(launch_ + 1);
    Thread& thread = threads_[i];
    if (!thread.copies.empty() && report_.empty()) {
      report_ = "a thread ended before its copies had arrived";
    }
    if (!thread.has_waited && report_.empty()) {
      report_ = "a thread did not wait for earlier kernels";
    }
    thread.is_done = true;
    if (!GoesOn()) {
      StartSwitchToScheduler(nullptr);
      return std::move(scheduler_);
    }
    return std::move(StartSwitchTo(TakeReady(), nullptr).fiber);
  }

  void MakeReady(size_t i) {
    ready_[i / kWarp].Add(i % kWarp);
    ready_warps_ |= 1u << i / kWarp;
  }
  // Below `end`; 0 where nothing is drawn.
  uint64_t Draw(uint64_t end) {
    if (random_ == 0) return 0;
    random_ ^= random_ << 13, random_ ^= random_ >> 7, random_ ^= random_ << 17;
    return random_ % end;
  }
  // In half of the blocks some warps are always before others: what all threads in turn would
  // rarely show, as that a warp is done before another has begun.
  size_t DrawWarp() {
    uint32_t warps = ready_warps_;
    if (ranks_.empty()) {
      for (uint64_t drawn = Draw(std::popcount(warps)); drawn > 0; --drawn) warps &= warps - 1;
      return std::countr_zero(warps);
    }
    size_t first = std::countr_zero(warps);
    for (; warps != 0; warps &= warps - 1) {
      const size_t warp = std::countr_zero(warps);
      if (ranks_[warp] > ranks_[first]) first = warp;
    }
    return first;
  }
  size_t TakeReady() {
    const size_t warp = DrawWarp();
    Ready& lanes = ready_[warp];
    const size_t lane = lanes.Take(Draw(lanes.count()));
    if (lanes.empty()) ready_warps_ &= ~(1u << warp);
    return warp * kWarp + lane;
  }

  // ---- Switches, from a thread to the next one without a detour. Sanitizers are told which stack
  // they are on.

  bool GoesOn() const { return ready_warps_ != 0 && report_.empty(); }
  void RunThreads() {
#if defined(LECTERN_TSAN_FIBERS)
    scheduler_fiber_ = __tsan_get_current_fiber();
#endif
    if (!GoesOn()) return;
    void* fake = nullptr;
    Thread& first = StartSwitchTo(TakeReady(), &fake);
    context::fiber last = std::move(first.fiber).resume();  // empty where it has ended
    threads_[current_].fiber = std::move(last);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  }
  Thread& StartSwitchTo(size_t i, void** fake) {
    current_ = i;
    Thread& next = threads_[i];
    threadIdx = next.index;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(fake, next.stack_bottom, kStackBytes);
#else
    (void)fake;
#endif
#if defined(LECTERN_TSAN_FIBERS)
    __tsan_switch_to_fiber(next.tsan_fiber, __tsan_switch_to_fiber_no_sync);
#endif
    return next;
  }
  void StartSwitchToScheduler(void** fake) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(fake, scheduler_bottom_, scheduler_size_);
#else
    (void)fake;
#endif
#if defined(LECTERN_TSAN_FIBERS)
    __tsan_switch_to_fiber(scheduler_fiber_, __tsan_switch_to_fiber_no_sync);
#endif
  }
  void FinishSwitch(void* fake) {
#if defined(__SANITIZE_ADDRESS__)
    const void* bottom = nullptr;
    size_t size = 0;
    __sanitizer_finish_switch_fiber(fake, &bottom, &size);
    if (scheduler_bottom_ != nullptr) return;  // the first switch is from there
    scheduler_bottom_ = bottom;
    scheduler_size_ = size;
#else
    (void)fake;
#endif
  }
  void Wait(const char* what) {
    threads_[current_].waits_for = what;
    Switch();
  }
  // The last to come to a barrier has no right to go first.
  void Yield() {
    MakeReady(current_);
    Switch();
  }
  void Switch() {
    Thread& self = threads_[current_];
    if (!GoesOn()) {
      StartSwitchToScheduler(&self.fake_stack);
      scheduler_ = std::move(scheduler_).resume();
    } else {
      const size_t next = TakeReady();
      if (next == current_) return;
      std::move(StartSwitchTo(next, &self.fake_stack).fiber)
          .resume_with([&](context::fiber&& left) {
            self.fiber = std::move(left);
            return context::fiber();
          });
    }
    FinishSwitch(self.fake_stack);
  }

  // ---- What went wrong

  void Fail(std::string what) {
    report_ = std::move(what);
    Wait("nothing");  // never goes on
  }
  void FindDeadlock() {
    std::map<std::string, size_t> waiting;
    for (const Thread& thread : threads_) ++waiting[thread.is_done ? "" : thread.waits_for];
    const size_t done = waiting[""];
    waiting.erase("");
    if (waiting.empty()) return;
    report_ = "deadlock: " + std::to_string(done) + " threads ended";
    for (const auto& [what, count] : waiting) {
      report_ += ", " + std::to_string(count) + " wait for " + what;
    }
  }
  void CheckCanaries() {
    bool is_whole = true;
    for (const unsigned char* c = shared_.data(); c < shared_begin_; ++c) is_whole &= *c == kCanary;
    for (const unsigned char* c = shared_end_; c < shared_.data() + shared_.size(); ++c) {
      is_whole &= *c == kCanary;
    }
    if (!is_whole) report_ = "a write past shared memory";
  }
  void Abandon() {
    for (Thread& thread : threads_) {
      if (thread.is_done || !thread.fiber) continue;
      // Destroying a fiber would unwind it through our switches: it is left as it stands.
      static auto* const abandoned = new std::vector<context::fiber>;
      abandoned->push_back(std::move(thread.fiber));
    }
  }

  StackPool& pool_;
  uint64_t random_;
  std::vector<unsigned char> shared_;
  unsigned char *shared_begin_, *shared_end_;
  const uint64_t* const launch_;
  std::vector<uint64_t> order_;  // the block's beginning; its barriers, in turn; those of each warp
  std::vector<Thread> threads_;
  std::vector<Meeting> warps_;
  std::vector<Ready> ready_;     // per warp
  uint32_t ready_warps_ = 0;     // a bit of each that has any
  std::vector<uint64_t> ranks_;  // of warps; empty: all have their turn
  std::vector<size_t> at_barrier_;
  size_t num_at_barrier_ = 0, num_barriers_ = 0, current_ = 0;
  context::fiber scheduler_;
  [[maybe_unused]] const void* scheduler_bottom_ = nullptr;  // for AddressSanitizer
  [[maybe_unused]] size_t scheduler_size_ = 0;
  [[maybe_unused]] void* scheduler_fiber_ = nullptr;  // ThreadSanitizer's
  std::string report_;
};

}  // namespace cuda_emulation

#endif  // LECTERN_TESTS_KERNELS_CUDA_EMULATION_BLOCK_H_
