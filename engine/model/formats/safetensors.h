// Parses the header of a safetensors file: the caller gives untrusted bytes and gets a checked
// table of tensors.
//
//   u64 little-endian n | n bytes of JSON | data
//
// The JSON maps a name to {"dtype", "shape", "data_offsets": [begin, end)}; offsets count from the
// first byte of data. The tensors must cover the data exactly: no hole, no overlap, nothing after
// the last one. Source: github.com/huggingface/safetensors, safetensors/src/tensor.rs.
#ifndef LECTERN_ENGINE_MODEL_FORMATS_SAFETENSORS_H_
#define LECTERN_ENGINE_MODEL_FORMATS_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/status.h"

namespace lectern {

// Bytes of JSON; a larger header is refused as malformed.
inline constexpr uint64_t kMaxSafetensorsHeader = uint64_t{16} << 20;

// A tensor of the table. Its length was checked against dtype, shape and file.
struct SafetensorsEntry {
  std::string dtype;            // as the file names it: "BF16"
  std::vector<uint64_t> shape;  // at most 8 dimensions
  uint64_t begin, end;          // bytes of the file; no alignment is promised
};
using SafetensorsTable = std::map<std::string, SafetensorsEntry, std::less<>>;

// `file` is the whole file (its data is not read); `path` only names it in messages.
// kMalformedModel (also a dtype that does not exist, and a name of none or more than 1,024 bytes),
// kLimitExceeded, kTruncated (size of the file differs from what the header says),
// kUnsafeFormat (a pickle or a zip of pickles under this name).
Result<SafetensorsTable> ParseSafetensors(std::span<const std::byte> file, const std::string& path);

inline constexpr uint64_t kMaxSafetensorsIndex = uint64_t{16} << 20;  // bytes

// model.safetensors.index.json: tensor name -> name of the file beside it that holds the tensor.
// File names are plain ("model-00001-of-00002.safetensors"): no separators, no "..".
// kMalformedModel (also an index without tensors), kLimitExceeded (more than 16 MiB), kUnsafeFormat
// (a pickle file is named).
using SafetensorsIndex = std::map<std::string, std::string, std::less<>>;
Result<SafetensorsIndex> ParseSafetensorsIndex(std::string_view json, const std::string& path);

// Prepares a name that came out of a file for a message: it is cut to 200 bytes, quoted and escaped
// as in JSON; bytes that are not UTF-8 become U+FFFD.
std::string QuotedName(std::string_view name);
// Whether a file of this name holds pickled Python objects: *.bin, *.pt, *.pth, *.ckpt, *.pkl,
// *.pickle.
bool IsPickleName(std::string_view name);
// The error for a pickle file, which could run code when it is opened; the message says how to
// convert it.
Status UnsafeFormat(const std::string& path);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_FORMATS_SAFETENSORS_H_
