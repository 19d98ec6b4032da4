// Memory that a step leaves for the next one, so that in the steady state a step allocates nothing:
// an array (Reused) and an arena.
#ifndef LECTERN_INDEX_REUSED_H_
#define LECTERN_INDEX_REUSED_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <span>
#include <vector>

namespace lectern {

// An array that keeps its memory when it shrinks.
template <typename T>
class Reused {
 public:
  // Makes the array `size` long. Elements that were there before stay; new ones hold anything.
  // Where it grows, earlier spans and pointers may end. It then has room for half as many again:
  // sizes differ a little from layer to layer, and each growth of a large array is new memory, a
  // page fault for every 4 KiB of it, while room that is not used costs none.
  std::span<T> Resize(size_t size) {
    if (size > capacity_) {
      const size_t capacity = size + size / 2;
      auto larger = std::make_unique_for_overwrite<T[]>(capacity);
      std::copy_n(data_.get(), size_, larger.get());
      data_ = std::move(larger);
      capacity_ = capacity;
    }
    size_ = size;
    return span();
  }
  std::span<T> span() { return {data_.get(), size_}; }
  T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  std::unique_ptr<T[]> data_;
  size_t size_ = 0, capacity_ = 0;
};

// Gives out memory that is taken back all at once, like std::pmr::monotonic_buffer_resource, but
// keeps it: after a few rounds it has one block as large as the largest round needed. Giving memory
// back does nothing before Reset. Must not be moved while anything that it gave out is in use. One
// thread at a time.
class Arena final : public std::pmr::memory_resource {
 public:
  Arena() = default;
  Arena(Arena&&) noexcept = default;

  // Takes back everything that was given out; nothing of it may be used any more.
  void Reset() {
    // Several blocks mean that the last round needed more than one block had: the next one has room
    // for all of it.
    if (blocks_.size() > 1) {
      size_t size = 0;
      for (const Block& block : blocks_) size += block.size;
      blocks_.clear();
      AddBlock(size);
    }
    used_ = 0;
  }

 private:
  struct Block {
    std::unique_ptr<std::byte[]> data;
    size_t size;
  };
  static constexpr size_t kSmallestBlock = 4096;  // a page of memory

  // Appends a block of `size` bytes, of which nothing is given out yet, and which is the one that
  // memory is taken from now on. Throws bad_alloc; nothing has then changed.
  void AddBlock(size_t size) {
    blocks_.reserve(blocks_.size() + 1);
    blocks_.push_back({std::make_unique_for_overwrite<std::byte[]>(size), size});
    used_ = 0;
  }
  // Takes from the last block; nullptr if it has no room.
  void* Take(size_t bytes, size_t alignment) {
    if (blocks_.empty()) return nullptr;
    Block& block = blocks_.back();
    void* place = block.data.get() + used_;
    size_t left = block.size - used_;
    if (std::align(alignment, bytes, place, left) == nullptr) return nullptr;
    used_ = block.size - left + bytes;
    return place;
  }
  void* do_allocate(size_t bytes, size_t alignment) override {
    if (void* const place = Take(bytes, alignment)) return place;
    const size_t last = blocks_.empty() ? 0 : blocks_.back().size;
    AddBlock(std::max({kSmallestBlock, 2 * last, bytes + alignment}));
    return Take(bytes, alignment);
  }
  void do_deallocate(void*, size_t, size_t) override {}
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::vector<Block> blocks_;
  size_t used_ = 0;  // bytes of the last block that are given out
};

// A vector whose memory comes from an Arena.
template <typename T>
using ArenaVector = std::pmr::vector<T>;

}  // namespace lectern

#endif  // LECTERN_INDEX_REUSED_H_
