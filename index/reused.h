// Memory of a step that is kept for the next one: in the steady state a step allocates nothing.
#ifndef LECTERN_INDEX_REUSED_H_
#define LECTERN_INDEX_REUSED_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <span>
#include <vector>

namespace lectern {

// An array that keeps its memory.
template <typename T>
class Reused {
 public:
  // The first `size` elements are there; those that were not before hold anything.
  std::span<T> Resize(size_t size) {
    if (size > capacity_) {
      const size_t capacity = std::max(size, capacity_ + capacity_ / 2);
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

// Gives out memory that is all taken back at once, as std::pmr::monotonic_buffer_resource, but
// keeps it: after a few rounds as one block of what the largest of them needed. Not moved while
// anything of it is in use. One thread at a time.
class Arena final : public std::pmr::memory_resource {
 public:
  Arena() = default;
  Arena(Arena&&) noexcept = default;

  // Nothing that was given out is used any more.
  void Reset() {
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
  static constexpr size_t kSmallestBlock = 4096;

  void AddBlock(size_t size) {
    blocks_.reserve(blocks_.size() + 1);
    blocks_.push_back({std::make_unique_for_overwrite<std::byte[]>(size), size});
    used_ = 0;
  }
  // From the last block.
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
  size_t used_ = 0;  // of the last one
};

// Of an Arena.
template <typename T>
using ArenaVector = std::pmr::vector<T>;

}  // namespace lectern

#endif  // LECTERN_INDEX_REUSED_H_
