// The checks follow safetensors/src/tensor.rs: what Hugging Face's reader refuses is refused here,
// too.
#include "engine/model/formats/safetensors.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "engine/model/formats/json.h"

namespace lectern {
namespace {

// Limits of an untrusted header.
constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxRank = 8;
constexpr size_t kMaxNameBytes = 1024;

// A dtype of the format and the bits of a value. All of them are known, so that a tensor that
// nobody needs does not make a file unreadable; Weights refuses types that we do not compute with.
struct DtypeBits {
  std::string_view name;
  uint64_t bits;
};
constexpr DtypeBits kDtypes[] = {
    {"BOOL", 8},    {"U8", 8},          {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8},
    {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},
    {"F16", 16},    {"BF16", 16},       {"I32", 32},        {"U32", 32},    {"F32", 32},
    {"F64", 64},    {"I64", 64},        {"U64", 64},        {"C64", 64},    {"F4", 4},
    {"F6_E2M3", 6}, {"F6_E3M2", 6}};

std::optional<uint64_t> BitsOf(std::string_view dtype) {
  for (const DtypeBits& known : kDtypes) {
    if (known.name == dtype) return known.bits;
  }
  return std::nullopt;
}

// The header's length, little-endian on every machine.
uint64_t ReadLength(std::span<const std::byte> file) {
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<uint64_t>(file[i]) << (8 * i);
  }
  return length;
}

// Whether the file begins like Python's pickle protocols 2..5, or like a zip file. A small valid
// header may begin with the same two bytes as a pickle, but then has its JSON at byte 8.
bool LooksLikePickle(std::span<const std::byte> file) {
  if (file.size() < 4) return false;
  if (std::memcmp(file.data(), "PK\3\4", 4) == 0) return true;
  const bool has_json = file.size() > kLengthBytes && file[kLengthBytes] == std::byte{'{'};
  return file[0] == std::byte{0x80} && file[1] >= std::byte{2} && file[1] <= std::byte{5} &&
         !has_json;
}

// Reads one entry of the header. `what` names file and tensor in messages.
class EntryReader {
 public:
  EntryReader(const Json& json, std::string what) : json_(json), what_(std::move(what)) {}

  // Reads and checks the three members; unknown ones are ignored.
  Result<SafetensorsEntry> Read() {
    SafetensorsEntry entry;
    LECTERN_RETURN_IF_ERROR(ReadDtype(&entry));
    LECTERN_RETURN_IF_ERROR(ReadShape(&entry));
    LECTERN_RETURN_IF_ERROR(ReadOffsets(&entry));
    LECTERN_RETURN_IF_ERROR(CheckLength(entry));
    return entry;
  }

 private:
  Status Malformed(const std::string& problem) const {
    return Status(Code::kMalformedModel, what_ + ": " + problem);
  }

  Status ReadDtype(SafetensorsEntry* entry) const {
    const Json* dtype = json_.Find("dtype");
    if (dtype == nullptr || dtype->string() == nullptr) return Malformed("dtype is missing");
    if (!BitsOf(*dtype->string())) {
      return Malformed("dtype " + QuotedName(*dtype->string()) + " does not exist");
    }
    entry->dtype = *dtype->string();
    return Status();
  }

  Status ReadShape(SafetensorsEntry* entry) const {
    const Json* shape = json_.Find("shape");
    if (shape == nullptr || shape->array() == nullptr) return Malformed("shape is missing");
    if (shape->array()->size() > kMaxRank) return Malformed("shape has too many dimensions");
    for (const Json& dimension : *shape->array()) {
      const std::optional<uint64_t> size = dimension.unsigned_integer();
      if (!size) return Malformed("shape holds something that is not a size");
      entry->shape.push_back(*size);
    }
    return Status();
  }

  // Reads the range of a tensor's bytes, counted from the data's first byte.
  Status ReadOffsets(SafetensorsEntry* entry) const {
    const Json* offsets = json_.Find("data_offsets");
    if (offsets == nullptr || offsets->array() == nullptr || offsets->array()->size() != 2) {
      return Malformed("data_offsets is missing");
    }
    const std::optional<uint64_t> begin = (*offsets->array())[0].unsigned_integer();
    const std::optional<uint64_t> end = (*offsets->array())[1].unsigned_integer();
    if (!begin || !end || *begin > *end) return Malformed("data_offsets are not a range");
    entry->begin = *begin;
    entry->end = *end;
    return Status();
  }

  // Checks that dtype times shape is the length of the range, without overflow. Types of less than
  // a byte must fill whole bytes.
  Status CheckLength(const SafetensorsEntry& entry) const {
    uint64_t bits = *BitsOf(entry.dtype);
    for (const uint64_t dimension : entry.shape) {
      if (__builtin_mul_overflow(bits, dimension, &bits)) return Malformed("shape overflows");
    }
    if (bits % 8 != 0 || bits / 8 != entry.end - entry.begin) {
      return Malformed("shape and dtype need " + std::to_string(bits / 8) +
                       " bytes but data_offsets span " + std::to_string(entry.end - entry.begin));
    }
    return Status();
  }

  const Json& json_;
  std::string what_;
};

// Checks "__metadata__", which is the only member that is no tensor; its texts are not used.
Status CheckMetadata(const Json& metadata, const std::string& path) {
  if (metadata.object() == nullptr) {
    return Status(Code::kMalformedModel, path + ": __metadata__ is not an object");
  }
  for (const auto& [key, value] : *metadata.object()) {
    if (value.string() != nullptr) continue;
    return Status(Code::kMalformedModel,
                  path + ": __metadata__ member " + QuotedName(key) + " is not a string");
  }
  return Status();
}

// Checks that in order of offset each tensor begins where the one before it ends, and the last one
// ends with the data. Turns offsets into positions in the file.
Status CheckCover(SafetensorsTable* table, uint64_t data_begin, uint64_t file_size,
                  const std::string& path) {
  std::vector<SafetensorsTable::value_type*> order;
  for (auto& named : *table) order.push_back(&named);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  uint64_t covered = 0;
  for (const auto* named : order) {
    if (named->second.begin != covered) {
      const bool overlaps = named->second.begin < covered;
      return Status(Code::kMalformedModel,
                    path + ": tensor " + QuotedName(named->first) + " begins at data byte " +
                        std::to_string(named->second.begin) +
                        (overlaps ? ", which overlaps the tensor before it that ends at "
                                  : ", which leaves a hole after ") +
                        std::to_string(covered));
    }
    covered = named->second.end;
  }
  if (covered != file_size - data_begin) {
    return Status(Code::kTruncated, path + ": the file has " +
                                        std::to_string(file_size - data_begin) +
                                        " bytes of data but its header describes " +
                                        std::to_string(covered) + "; download it again");
  }
  for (auto* named : order) {  // cannot overflow: end <= file_size - data_begin
    named->second.begin += data_begin;
    named->second.end += data_begin;
  }
  return Status();
}

// Finds the JSON header and parses it. Lengths are checked before anything is read, because the
// first 8 bytes of a file that is no safetensors can be any number.
Result<Json> ParseHeader(std::span<const std::byte> file, const std::string& path) {
  if (LooksLikePickle(file)) return UnsafeFormat(path);
  if (file.size() < kLengthBytes) {
    return Status(Code::kTruncated, path + ": " + std::to_string(file.size()) +
                                        " bytes are too few for a safetensors file");
  }
  const uint64_t length = ReadLength(file);
  if (length > kMaxSafetensorsHeader) {
    return Status(Code::kMalformedModel, path + ": header of " + std::to_string(length) +
                                             " bytes at byte 0; the limit is " +
                                             std::to_string(kMaxSafetensorsHeader));
  }
  if (length > file.size() - kLengthBytes) {
    return Status(Code::kTruncated, path + ": header of " + std::to_string(length) +
                                        " bytes in a file of " + std::to_string(file.size()) +
                                        "; download it again");
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes,
                              static_cast<size_t>(length));
  if (!text.starts_with('{')) {
    return Status(Code::kMalformedModel, path + ": the header at byte 8 does not begin with '{'");
  }
  Result<Json> header = ParseJson(text, {.max_depth = 4, .max_string = 1u << 20});
  if (header.ok()) return header;
  return Status(header.status().code(), path + ": header is " + header.status().message());
}

// Checks a name's length: names go into messages and maps.
Status CheckTensorName(const std::string& name, const std::string& path) {
  if (!name.empty() && name.size() <= kMaxNameBytes) return Status();
  return Status(Code::kMalformedModel, path + ": a tensor's name has " +
                                           std::to_string(name.size()) +
                                           " bytes; 1..1024 are allowed");
}

// Checks a file's name in an index: it is joined to the folder's path, so it must not lead
// elsewhere.
Status CheckFileName(const std::string& tensor, const std::string& file, const std::string& path) {
  if (IsPickleName(file)) return UnsafeFormat(path + " names " + QuotedName(file) + ", which");
  const bool is_plain = !file.empty() && file.size() <= 255 && file[0] != '.' &&
                        file.find_first_of(std::string_view("/\\:\0", 4)) == std::string::npos;
  if (is_plain && file.ends_with(".safetensors")) return Status();
  return Status(Code::kMalformedModel, path + ": tensor " + QuotedName(tensor) + " is mapped to " +
                                           QuotedName(file) +
                                           ", which is not the plain name of a .safetensors file");
}

}  // namespace

std::string QuotedName(std::string_view name) { return Json(name.substr(0, 200)).Dump(); }

bool IsPickleName(std::string_view name) {
  constexpr std::string_view kEndings[] = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [name](std::string_view ending) { return name.ends_with(ending); });
}

Status UnsafeFormat(const std::string& path) {
  return Status(Code::kUnsafeFormat,
                path +
                    " is a pickle file, which can run code when it is opened. Convert it to "
                    "safetensors: in Python, "
                    "AutoModelForCausalLM.from_pretrained(old).save_pretrained(new)");
}

Result<SafetensorsTable> ParseSafetensors(std::span<const std::byte> file,
                                          const std::string& path) {
  LECTERN_ASSIGN(const Json header, ParseHeader(file, path));
  SafetensorsTable table;
  for (const auto& [name, json] : *header.object()) {
    if (name == "__metadata__") {
      LECTERN_RETURN_IF_ERROR(CheckMetadata(json, path));
      continue;
    }
    LECTERN_RETURN_IF_ERROR(CheckTensorName(name, path));
    LECTERN_ASSIGN(SafetensorsEntry entry,
                   EntryReader(json, path + ": tensor " + QuotedName(name)).Read());
    table.emplace(name, std::move(entry));
  }
  LECTERN_RETURN_IF_ERROR(CheckCover(&table, kLengthBytes + ReadLength(file), file.size(), path));
  return table;
}

Result<SafetensorsIndex> ParseSafetensorsIndex(std::string_view json, const std::string& path) {
  if (json.size() > kMaxSafetensorsIndex) {
    return Status(Code::kLimitExceeded,
                  path + ": larger than " + std::to_string(kMaxSafetensorsIndex) + " bytes");
  }
  Result<Json> parsed = ParseJson(json, {.max_depth = 16});
  if (!parsed.ok()) {
    return Status(parsed.status().code(), path + ": " + parsed.status().message());
  }
  const Json* weight_map = parsed->Find("weight_map");
  if (weight_map == nullptr || weight_map->object() == nullptr) {
    return Status(Code::kMalformedModel, path + ": \"weight_map\" is missing");
  }
  SafetensorsIndex index;
  for (const auto& [tensor, file] : *weight_map->object()) {
    LECTERN_RETURN_IF_ERROR(CheckTensorName(tensor, path));
    if (file.string() == nullptr) {
      return Status(Code::kMalformedModel,
                    path + ": tensor " + QuotedName(tensor) + " is not mapped to a file name");
    }
    LECTERN_RETURN_IF_ERROR(CheckFileName(tensor, *file.string(), path));
    index.emplace(tensor, *file.string());
  }
  if (index.empty()) return Status(Code::kMalformedModel, path + ": \"weight_map\" is empty");
  return index;
}

}  // namespace lectern
