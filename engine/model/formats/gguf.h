// Parses a file in the GGUF format, version 2 or 3: the caller gives untrusted bytes and gets a
// checked table of keys and tensors.
//
//   "GGUF" | u32 version | u64 tensors | u64 keys | keys | tensor infos | zeros | data
//
// Little-endian. Strings are u64 length and bytes; a key is name, u32 type, value; a tensor info is
// name, u32 n, n x u64 dimensions (innermost first), u32 type, u64 offset in the data. The data
// begins, and every tensor in it, at a multiple of general.alignment (32 where it is not given).
// Source: github.com/ggml-org/ggml, docs/gguf.md.
#ifndef LECTERN_ENGINE_MODEL_FORMATS_GGUF_H_
#define LECTERN_ENGINE_MODEL_FORMATS_GGUF_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/function_ref.h"
#include "store/status.h"

namespace lectern {

// The kinds of values of keys, with the numbers that the file has for them.
enum class GgufKind : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// A value that is an array: items of one kind, as they lie in the file; their lengths are checked.
struct GgufArray {
  GgufKind kind = GgufKind::kU8;  // kArray: the inner arrays are counted and cannot be read
  uint64_t count = 0;
  std::string_view bytes;

  // The items, as views into the file; empty if they are of another kind.
  std::vector<std::string_view> Strings() const;
  // f32, f64 and integers; bools as 0 and 1; empty if the items are strings or arrays.
  std::vector<double> Numbers() const;
  bool operator==(const GgufArray&) const = default;
};

// A key's value: u8 to u64 as uint64_t, i8 to i64 as int64_t, f32 and f64 as double.
using GgufValue = std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray>;

// The place of a tensor in its file; all numbers were checked against the file's size.
struct GgufTensor {
  uint32_t type;                // ggml's number; GgufTypeName
  std::vector<uint64_t> shape;  // outermost first, as in safetensors
  uint64_t begin, end;          // bytes of the file
};

// Keys and tensors of one file. Views are into its bytes.
struct GgufTable {
  uint32_t version = 0;
  std::map<std::string, GgufValue, std::less<>> keys;
  std::map<std::string, GgufTensor, std::less<>> tensors;

  // nullptr: no such key, or another kind of value.
  template <typename T>
  const T* Find(std::string_view key) const {
    const auto at = keys.find(key);
    return at == keys.end() ? nullptr : std::get_if<T>(&at->second);
  }
  // The value of a key of any integer kind, if it is not negative; nothing: no such key, or another
  // value, also a float.
  std::optional<uint64_t> Whole(std::string_view key) const;
};

// The parser calls this before it reads the bytes [offset, offset + bytes) of a file, so that they
// can be loaded (MappedFile::Load). Ranges ascend. An error ends the parsing with its code.
using LoadBytesFunction = FunctionRef<Status(uint64_t offset, uint64_t bytes)>;

// `file` is the whole file, of which keys and tensor infos are read; `path` only names it. All
// counts and lengths are checked against what is left of the file before anything is allocated:
// at most 65,536 keys and tensors each, names of 65,535 bytes (keys) and of 1 to 64 (tensors),
// strings of 16 MiB, arrays of 16 Mi items that hold no arrays of arrays, 1 to 4 dimensions,
// alignment a power of two up to 1 MiB. Keys and tensors are unique, tensors follow one another
// with nothing but alignment between them; bytes behind the last one are ignored. kMalformedModel
// (file, byte and key or tensor named), kLimitExceeded, kTruncated, kUnsupportedModel (version 1,
// big-endian, a tensor type that is not known), codes of `load`. The table views `file`.
Result<GgufTable> ParseGguf(std::span<const std::byte> file, const std::string& path,
                            LoadBytesFunction load);

// The name of a tensor type, such as "Q4_K"; "type 77" for a number that has no name.
std::string GgufTypeName(uint32_t type);
// A value for a message: `"llama"` (cut to 200 bytes), `32`, `0.5`, `true`; `[…]` for every array.
std::string Shown(const GgufValue& value);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_FORMATS_GGUF_H_
