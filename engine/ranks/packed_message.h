// Writes and reads the messages between ranks: numbers, strings and arrays, one after the other, in
// the bytes of this machine. All ranks run the same program on the same kind of processor.
#ifndef LECTERN_ENGINE_RANKS_PACKED_MESSAGE_H_
#define LECTERN_ENGINE_RANKS_PACKED_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace lectern {

// Appends to bytes that it owns.
class MessageWriter {
 public:
  template <typename T>
  void Put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    Append(&value, sizeof(value));
  }
  // An array with its length.
  template <typename T>
  void PutArray(std::span<const T> values) {
    Put(uint64_t{values.size()});
    Append(values.data(), values.size_bytes());
  }
  void PutString(std::string_view text) { PutArray(std::span<const char>(text)); }

  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  void Append(const void* from, size_t size) {
    const size_t begin = bytes_.size();
    bytes_.resize(begin + size);
    if (size > 0) std::memcpy(bytes_.data() + begin, from, size);
  }
  std::vector<std::byte> bytes_;
};

// Reads in the order of writing. Past the end everything is 0 or empty, and is_whole() false.
class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
  T Take() {
    T value{};
    Take(&value, sizeof(value));
    return value;
  }
  template <typename T>
  std::vector<T> TakeArray() {
    const auto size = Take<uint64_t>();
    if (size > rest_.size() / sizeof(T)) {
      is_whole_ = false;
      return {};
    }
    std::vector<T> values(size);
    Take(values.data(), size * sizeof(T));
    return values;
  }
  std::string TakeString() {
    const std::vector<char> text = TakeArray<char>();
    return {text.begin(), text.end()};
  }
  bool is_whole() const { return is_whole_; }

 private:
  void Take(void* to, size_t size) {
    if (size > rest_.size()) {
      is_whole_ = false;
      return;
    }
    if (size > 0) std::memcpy(to, rest_.data(), size);
    rest_ = rest_.subspan(size);
  }
  std::span<const std::byte> rest_;
  bool is_whole_ = true;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_RANKS_PACKED_MESSAGE_H_
