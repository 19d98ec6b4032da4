// Draws right and wrong arguments for calls of the C API. Each comes from the heap with its exact
// size, so that AddressSanitizer sees a byte that is read beyond it.
#ifndef LECTERN_TESTS_ENGINE_API_MISUSE_ARGUMENTS_H_
#define LECTERN_TESTS_ENGINE_API_MISUSE_ARGUMENTS_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace lectern::misuse {

// The function of the API that this thread calls, without lectern_, for messages of Require.
inline thread_local const char* calling = "";

// Checks a promise. A broken one is printed on stderr and aborts: later calls would tell less.
inline void Require(bool claim, const char* words, const char* file, int line) {
  if (claim) return;
  std::fprintf(stderr, "%s:%d: lectern_%s: %s\n", file, line, calling, words);
  std::abort();
}
#define REQUIRE(claim) \
  ::lectern::misuse::Require(static_cast<bool>(claim), #claim, __FILE__, __LINE__)

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  uint64_t Bits() { return engine_(); }
  uint64_t Below(uint64_t n) { return engine_() % n; }  // n: at least 1, as below
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  // One of the list, which is not empty.
  template <typename T>
  T Of(std::initializer_list<T> list) {
    return list.begin()[Below(list.size())];
  }

 private:
  std::mt19937_64 engine_;
};

// A share, often 0 (the default), or a number that no option may have: 2, -1, NaN, infinity.
template <typename Float>
Float AnyShare(Random& random) {
  using Limits = std::numeric_limits<Float>;
  return random.Of<Float>({0, 0, 0, 0, 1, Float(0.1), Float(0.5), Float(1e-9), 2, -1,
                           Limits::quiet_NaN(), Limits::infinity()});
}

// Pointer and length; without a NUL behind it.
class Text {
 public:
  Text() = default;
  explicit Text(const std::string& text)
      : bytes_(text.empty() ? nullptr : new char[text.size()]), len_(text.size()) {
    text.copy(bytes_.get(), len_);
  }
  // NULL with a length: LECTERN_INVALID_ARGUMENT.
  static Text Null(size_t len) {
    Text text;
    text.len_ = len;
    return text;
  }
  const char* data() const { return bytes_.get(); }
  size_t len() const { return len_; }
  bool is_wrong() const { return !bytes_ && len_ > 0; }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t len_ = 0;
};

// Mostly one of `good`; else what is no text, or one that nobody would write. All of them are also
// used as paths, which the API writes and deletes: none may lead out of the working directory.
inline Text AnyText(Random& random, const std::vector<std::string>& good) {
  switch (random.Below(80)) {
    case 0:
      return Text();
    case 1:
      return Text::Null(random.Of<size_t>({1, 77, SIZE_MAX}));
    case 2:
      return Text("\xFF\xFE broken \xC3");
    case 3:
      return Text(std::string("a\0b", 3));
    case 4:
      return Text(std::string(300, 'n'));
    case 5:
      return Text(std::string(70000, 'x'));
    case 6:
      return Text(random.Of<const char*>({".", "a/b", " ", "\n", "a\\b", "%s%n"}));
    case 7:
      return Text("0123456789abcdef0123456789abcdef");  // as the id of a document
    default:
      return Text(good[random.Below(good.size())]);
  }
}

// A struct with its struct_size, which is sometimes wrong. For results too: what lies behind the
// size that is said may not be touched.
template <typename Struct>
class Sized {
 public:
  explicit Sized(Random& random) : bytes_(new char[kBytes]) {
    std::memset(bytes_.get(), 0, kBytes);
    const size_t known = sizeof(Struct);
    size_ = random.OneIn(6) ? random.Of<size_t>({0, 4, 8, known - 8, known - 1, known + 1,
                                                 known + 8, known + 64, 4096, 4104, SIZE_MAX})
                            : known;
    is_wrong_ = size_ < sizeof(size_t) || size_ > 4096 || size_ % 8 != 0;
    given_ = is_wrong_ ? known : size_;
    std::memset(bytes_.get() + given_, kBehind, kBytes - given_);
    get()->struct_size = size_;
  }
  // Options of a newer caller, who sets a field that the library cannot know.
  void SetUnknownField(Random& random) {
    if (is_wrong_ || given_ <= sizeof(Struct) || !random.OneIn(2)) return;
    bytes_[sizeof(Struct) + random.Below(given_ - sizeof(Struct))] = 1;
    is_wrong_ = true;
  }
  Struct* get() { return reinterpret_cast<Struct*>(bytes_.get()); }
  Struct* operator->() { return get(); }
  // Whether the API must refuse the struct; whether it holds all fields that the library knows.
  bool is_wrong() const { return is_wrong_; }
  bool knows_all() const { return !is_wrong_ && given_ >= sizeof(Struct); }
  // Aborts if a byte behind the given size has changed.
  void CheckBehind() const {
    for (size_t i = given_; i < kBytes; ++i) REQUIRE(bytes_[i] == kBehind);
  }

 private:
  static constexpr size_t kBytes = 4096 + 64;
  static constexpr char kBehind = 0x5A;
  std::unique_ptr<char[]> bytes_;
  size_t size_, given_;
  bool is_wrong_;
};

}  // namespace lectern::misuse

#endif  // LECTERN_TESTS_ENGINE_API_MISUSE_ARGUMENTS_H_
