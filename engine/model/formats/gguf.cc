// Reads a GGUF file from front to back with a cursor (at_). Every length comes from an untrusted
// file: it is compared with a limit and with the bytes that are left before anything is read or
// allocated.
#include "engine/model/formats/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/model/formats/json.h"
#include "engine/model/formats/safetensors.h"

namespace lectern {
namespace {

// Limits, far beyond published files: a header of a few bytes could otherwise ask for any amount of
// memory.
constexpr uint64_t kMaxKeys = 1 << 16, kMaxTensors = 1 << 16;
constexpr uint64_t kMaxString = uint64_t{16} << 20, kMaxItems = uint64_t{16} << 20;
constexpr uint64_t kMaxName = 65'535;    // bytes of a key, the limit of the format
constexpr uint64_t kMaxTensorName = 64;  // ggml's, too
constexpr uint32_t kMaxDimensions = 4;
constexpr uint64_t kDefaultAlignment = 32, kMaxAlignment = uint64_t{1} << 20;
constexpr uint64_t kWindow = uint64_t{1} << 20;  // bytes that are loaded at a time, at least

// A tensor type of ggml: a row is made of blocks of `block_items` values in `block_bytes` bytes.
// The sizes are GGML_QUANT_SIZES of PyPI's gguf. Types that we do not compute with are here, too,
// so that files with them can be listed and refused by name.
struct TypeInfo {
  uint32_t type;
  std::string_view name;
  uint32_t block_items, block_bytes;
};
constexpr TypeInfo kTypes[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},
    {3, "Q4_1", 32, 20},      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 40},      {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},  {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},    {40, "NVFP4", 64, 36}};

// nullptr: there is no type of this number.
const TypeInfo* FindType(uint32_t type) {
  for (const TypeInfo& info : kTypes) {
    if (info.type == type) return &info;
  }
  return nullptr;
}

// Returns the bytes of an item; 0 for strings and arrays, which have no fixed size.
uint64_t ItemBytes(GgufKind kind) {
  switch (kind) {
    case GgufKind::kU8:
    case GgufKind::kI8:
    case GgufKind::kBool:
      return 1;
    case GgufKind::kU16:
    case GgufKind::kI16:
      return 2;
    case GgufKind::kU32:
    case GgufKind::kI32:
    case GgufKind::kF32:
      return 4;
    case GgufKind::kU64:
    case GgufKind::kI64:
    case GgufKind::kF64:
      return 8;
    case GgufKind::kString:
    case GgufKind::kArray:
      break;
  }
  return 0;
}

// Reads a T from bytes that need not be aligned. Little-endian machines only (weights.cc asserts
// it).
template <typename T>
T LoadAt(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Reads a number or a bool of this kind from the file.
GgufValue ScalarAt(const char* at, GgufKind kind) {
  switch (kind) {
    case GgufKind::kU8:
      return uint64_t{LoadAt<uint8_t>(at)};
    case GgufKind::kI8:
      return int64_t{LoadAt<int8_t>(at)};
    case GgufKind::kU16:
      return uint64_t{LoadAt<uint16_t>(at)};
    case GgufKind::kI16:
      return int64_t{LoadAt<int16_t>(at)};
    case GgufKind::kU32:
      return uint64_t{LoadAt<uint32_t>(at)};
    case GgufKind::kI32:
      return int64_t{LoadAt<int32_t>(at)};
    case GgufKind::kF32:
      return double{LoadAt<float>(at)};
    case GgufKind::kBool:
      return *at != 0;
    case GgufKind::kU64:
      return LoadAt<uint64_t>(at);
    case GgufKind::kI64:
      return LoadAt<int64_t>(at);
    case GgufKind::kF64:
      return LoadAt<double>(at);
    case GgufKind::kString:
    case GgufKind::kArray:
      break;
  }
  return uint64_t{0};
}

// Any number or bool as a double; 0 for texts and arrays.
double NumberOf(const GgufValue& value) {
  if (const auto* whole = std::get_if<uint64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  const auto* number = std::get_if<double>(&value);
  return number != nullptr ? *number : 0;
}

// One reading of one file. The bytes belong to the caller, and so do all views in the table.
class GgufReader {
 public:
  GgufReader(std::span<const std::byte> file, const std::string& path, LoadBytesFunction load)
      : file_(reinterpret_cast<const char*>(file.data()), file.size()), path_(path), load_(load) {}

  // The order is the file's. Tensors' offsets count from the data, whose place is known last.
  Result<GgufTable> Read() {
    LECTERN_RETURN_IF_ERROR(ReadHeader());
    for (uint64_t i = 0; i < num_keys_; ++i) LECTERN_RETURN_IF_ERROR(ReadKey());
    LECTERN_RETURN_IF_ERROR(ReadAlignment());
    for (uint64_t i = 0; i < num_tensors_; ++i) LECTERN_RETURN_IF_ERROR(ReadTensor());
    LECTERN_RETURN_IF_ERROR(PlaceTensors());
    return std::move(table_);
  }

 private:
  uint64_t left() const { return file_.size() - at_; }  // bytes from the cursor to the end

  // An error that names file and byte.
  Status Fail(Code code, const std::string& what) const {
    return Status(code, path_ + ": at byte " + std::to_string(at_) + ": " + what);
  }
  Status Malformed(const std::string& what) const { return Fail(Code::kMalformedModel, what); }

  // Names the thing that is being read, for messages: "the header", or a kind of thing and its
  // name.
  std::string What() const {
    return std::string(item_) + (name_.empty() ? "" : " " + QuotedName(name_));
  }

  // Checks that the next `bytes` are in the file, and makes sure that they are loaded: at least
  // kWindow at a time, because most fields have a few bytes.
  Status Need(uint64_t bytes) {
    if (bytes > left()) {
      return Fail(Code::kTruncated, "the file ends within " + What() + "; download it again");
    }
    if (at_ + bytes <= loaded_) return {};
    const uint64_t end = std::min<uint64_t>(file_.size(), std::max(at_ + bytes, loaded_ + kWindow));
    LECTERN_RETURN_IF_ERROR(load_(loaded_, end - loaded_));
    loaded_ = end;
    return {};
  }

  // Reads a number of fixed size.
  template <typename T>
  Status Number(T* out) {
    LECTERN_RETURN_IF_ERROR(Need(sizeof(T)));
    *out = LoadAt<T>(file_.data() + at_);
    at_ += sizeof(T);
    return {};
  }

  // Reads a text: u64 length and bytes, at most `most`. It need not be UTF-8.
  Status String(std::string_view* out, uint64_t most) {
    uint64_t length = 0;
    LECTERN_RETURN_IF_ERROR(Number(&length));
    if (length > most) {
      return Fail(Code::kLimitExceeded, What() + " has a text of " + std::to_string(length) +
                                            " bytes; " + std::to_string(most) + " are allowed");
    }
    LECTERN_RETURN_IF_ERROR(Need(length));
    *out = file_.substr(at_, length);
    at_ += length;
    return {};
  }

  // Reads magic number, version and counts.
  Status ReadHeader() {
    LECTERN_RETURN_IF_ERROR(Need(8));
    if (file_.substr(0, 4) != "GGUF") return Malformed("it does not begin with \"GGUF\"");
    at_ = 4;
    LECTERN_RETURN_IF_ERROR(Number(&table_.version));
    if (table_.version != 2 && table_.version != 3) return WrongVersion();
    LECTERN_RETURN_IF_ERROR(Number(&num_tensors_));
    LECTERN_RETURN_IF_ERROR(Number(&num_keys_));
    if (num_tensors_ > kMaxTensors || num_keys_ > kMaxKeys) {
      return Fail(Code::kLimitExceeded, std::to_string(num_tensors_) + " tensors and " +
                                            std::to_string(num_keys_) + " keys; " +
                                            std::to_string(kMaxKeys) + " of each are allowed");
    }
    return {};
  }

  // The error for a version that is not read, big-endian files apart.
  Status WrongVersion() const {
    const uint32_t version = table_.version;
    // The version of a big-endian file has its bytes reversed: 3 reads as 0x03000000.
    const bool is_big = version != 0 && (version & 0xFFFF) == 0;
    return Fail(Code::kUnsupportedModel,
                is_big ? "a big-endian file; convert the model again for a little-endian machine"
                       : "GGUF version " + std::to_string(version) +
                             "; this build reads 2 and 3. Convert the model again");
  }

  // Reads the type of a value.
  Status ReadKind(GgufKind* kind) {
    uint32_t number = 0;
    LECTERN_RETURN_IF_ERROR(Number(&number));
    *kind = static_cast<GgufKind>(number);
    return number <= 12 ? Status()
                        : Malformed(What() + " has the type " + std::to_string(number) +
                                    ", which does not exist");
  }

  // Reads the name of a key or tensor and keeps it for messages.
  Status ReadName(std::string_view item, uint64_t most) {
    item_ = item;
    name_ = {};
    return String(&name_, most);
  }

  // Reads name, type and value of a key.
  Status ReadKey() {
    LECTERN_RETURN_IF_ERROR(ReadName("key", kMaxName));
    GgufKind kind;
    GgufValue value;
    LECTERN_RETURN_IF_ERROR(ReadKind(&kind));
    LECTERN_RETURN_IF_ERROR(ReadValue(kind, &value));
    if (table_.keys.emplace(name_, value).second) return {};
    return Malformed(What() + " is there twice");
  }

  // Reads a value of this kind. Texts and arrays are views of the file.
  Status ReadValue(GgufKind kind, GgufValue* value) {
    if (kind == GgufKind::kArray) {
      GgufArray array;
      LECTERN_RETURN_IF_ERROR(ReadArray(&array, 0));
      *value = array;
      return {};
    }
    if (kind == GgufKind::kString) {
      std::string_view text;
      LECTERN_RETURN_IF_ERROR(String(&text, kMaxString));
      *value = text;
      return {};
    }
    const uint64_t bytes = ItemBytes(kind);
    LECTERN_RETURN_IF_ERROR(Need(bytes));
    LECTERN_RETURN_IF_ERROR(CheckBools(kind, file_.substr(at_, bytes)));
    *value = ScalarAt(file_.data() + at_, kind);
    at_ += bytes;
    return {};
  }

  // A bool is one byte, 0 or 1. Another value means that the file is damaged.
  Status CheckBools(GgufKind kind, std::string_view bytes) const {
    const auto is_bool = [](char byte) { return byte == 0 || byte == 1; };
    if (kind != GgufKind::kBool || std::all_of(bytes.begin(), bytes.end(), is_bool)) return {};
    return Malformed(What() + " has a bool that is neither 0 nor 1");
  }

  // Reads an array: kind, count, items. Its bytes are kept as they lie, and read when somebody
  // asks. Arrays in an array are walked over and not kept; those must hold no arrays themselves, so
  // that a file cannot make us recurse.
  Status ReadArray(GgufArray* array, int depth) {
    LECTERN_RETURN_IF_ERROR(ReadKind(&array->kind));
    LECTERN_RETURN_IF_ERROR(Number(&array->count));
    if (array->count > kMaxItems) {
      return Fail(Code::kLimitExceeded, What() + " has " + std::to_string(array->count) +
                                            " items; " + std::to_string(kMaxItems) +
                                            " are allowed");
    }
    if (array->kind == GgufKind::kArray && depth > 0) {
      return Fail(Code::kLimitExceeded, What() + " holds arrays of arrays of arrays");
    }
    const uint64_t begin = at_, item = ItemBytes(array->kind);
    if (item > 0) {
      const uint64_t bytes = array->count * item;  // cannot overflow: at most kMaxItems times 8
      LECTERN_RETURN_IF_ERROR(Need(bytes));
      LECTERN_RETURN_IF_ERROR(CheckBools(array->kind, file_.substr(at_, bytes)));
      at_ += bytes;
    }
    for (uint64_t i = 0; item == 0 && i < array->count; ++i) {
      std::string_view text;
      GgufArray inner;
      LECTERN_RETURN_IF_ERROR(array->kind == GgufKind::kString ? String(&text, kMaxString)
                                                               : ReadArray(&inner, depth + 1));
    }
    array->bytes = file_.substr(begin, at_ - begin);
    return {};
  }

  // Reads general.alignment, if it is there: Aligned() needs a power of two.
  Status ReadAlignment() {
    if (!table_.keys.contains("general.alignment")) return {};
    const std::optional<uint64_t> alignment = table_.Whole("general.alignment");
    if (!alignment || !std::has_single_bit(*alignment) || *alignment > kMaxAlignment) {
      return Malformed("general.alignment must be a power of two up to " +
                       std::to_string(kMaxAlignment));
    }
    alignment_ = *alignment;
    return {};
  }

  // Reads a tensor's info. Its dimensions come innermost first and are reversed.
  Status ReadTensor() {
    LECTERN_RETURN_IF_ERROR(ReadName("tensor", kMaxTensorName));
    if (name_.empty()) return Malformed("a tensor without a name");
    GgufTensor tensor;
    uint32_t num_dimensions = 0;
    LECTERN_RETURN_IF_ERROR(Number(&num_dimensions));
    if (num_dimensions == 0 || num_dimensions > kMaxDimensions) {
      return Malformed(What() + " has " + std::to_string(num_dimensions) +
                       " dimensions; 1..4 exist");
    }
    tensor.shape.resize(num_dimensions);
    for (uint32_t i = num_dimensions; i > 0; --i) {
      LECTERN_RETURN_IF_ERROR(Number(&tensor.shape[i - 1]));
    }
    LECTERN_RETURN_IF_ERROR(Number(&tensor.type));
    LECTERN_RETURN_IF_ERROR(Number(&tensor.begin));
    LECTERN_RETURN_IF_ERROR(SetEnd(&tensor));
    if (table_.tensors.emplace(name_, tensor).second) return {};
    return Malformed(What() + " is there twice");
  }

  // Computes where a tensor ends from its type and shape, without overflow.
  Status SetEnd(GgufTensor* tensor) const {
    const TypeInfo* type = FindType(tensor->type);
    if (type == nullptr) {
      return Fail(Code::kUnsupportedModel, What() + " has the type " +
                                               std::to_string(tensor->type) +
                                               ", which this build does not know; take a file of "
                                               "the model that is quantised as Q4_K_M");
    }
    const uint64_t row = tensor->shape.back();
    if (row % type->block_items != 0) {
      return Malformed(What() + " has rows of " + std::to_string(row) +
                       " values, which are not whole " + std::string(type->name) + " blocks of " +
                       std::to_string(type->block_items));
    }
    uint64_t bytes = type->block_bytes;
    bool overflows = __builtin_mul_overflow(bytes, row / type->block_items, &bytes);
    for (size_t i = 0; i + 1 < tensor->shape.size(); ++i) {
      overflows |= __builtin_mul_overflow(bytes, tensor->shape[i], &bytes);
    }
    overflows |= __builtin_add_overflow(tensor->begin, bytes, &tensor->end);
    if (overflows) return Malformed(What() + " has a shape or an offset that overflows");
    return {};
  }

  uint64_t Aligned(uint64_t at) const { return (at + alignment_ - 1) & ~(alignment_ - 1); }

  // Sorts the tensors by offset and checks that each begins where the one before it ends, aligned:
  // two tensors cannot share bytes, and no bytes are hidden. Turns offsets into positions in the
  // file.
  Status PlaceTensors() {
    const uint64_t data = std::min<uint64_t>(Aligned(at_), file_.size());
    std::vector<std::pair<const std::string, GgufTensor>*> order;
    for (auto& named : table_.tensors) order.push_back(&named);
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
      return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
    });
    uint64_t end = 0;
    for (auto* named : order) {
      GgufTensor& tensor = named->second;
      if (tensor.begin != Aligned(end)) {
        return Malformed("tensor " + QuotedName(named->first) + " begins at data byte " +
                         std::to_string(tensor.begin) + "; that before it ends at " +
                         std::to_string(end) + ", and alignment is " + std::to_string(alignment_));
      }
      end = tensor.end;
      if (end > file_.size() - data) {
        return Fail(Code::kTruncated, "tensor " + QuotedName(named->first) + " ends at data byte " +
                                          std::to_string(end) + ", but there are " +
                                          std::to_string(file_.size() - data) +
                                          "; download the file again");
      }
      tensor.begin += data;
      tensor.end += data;
    }
    return {};
  }

  const std::string_view file_;
  const std::string& path_;
  const LoadBytesFunction load_;
  std::string_view item_ = "the header", name_;  // What() makes messages of them
  uint64_t at_ = 0, loaded_ = 0;  // the cursor; bytes [0, loaded_) are loaded
  uint64_t num_tensors_ = 0, num_keys_ = 0, alignment_ = kDefaultAlignment;
  GgufTable table_;
};

}  // namespace

std::vector<std::string_view> GgufArray::Strings() const {
  std::vector<std::string_view> strings;
  if (kind != GgufKind::kString) return strings;
  strings.reserve(count);
  for (size_t at = 0; at < bytes.size();) {
    const auto length = LoadAt<uint64_t>(bytes.data() + at);
    strings.push_back(bytes.substr(at + sizeof length, length));
    at += sizeof length + length;
  }
  return strings;
}

std::vector<double> GgufArray::Numbers() const {
  std::vector<double> numbers;
  const uint64_t item = ItemBytes(kind);
  if (item == 0) return numbers;
  numbers.reserve(count);
  for (size_t at = 0; at < bytes.size(); at += item) {
    numbers.push_back(NumberOf(ScalarAt(bytes.data() + at, kind)));
  }
  return numbers;
}

std::optional<uint64_t> GgufTable::Whole(std::string_view key) const {
  if (const auto* number = Find<uint64_t>(key)) return *number;
  const auto* number = Find<int64_t>(key);
  if (number == nullptr || *number < 0) return std::nullopt;
  return static_cast<uint64_t>(*number);
}

Result<GgufTable> ParseGguf(std::span<const std::byte> file, const std::string& path,
                            LoadBytesFunction load) {
  return GgufReader(file, path, load).Read();
}

std::string GgufTypeName(uint32_t type) {
  const TypeInfo* info = FindType(type);
  return info != nullptr ? std::string(info->name) : "type " + std::to_string(type);
}

std::string Shown(const GgufValue& value) {
  if (std::holds_alternative<GgufArray>(value)) return "[…]";
  if (const auto* text = std::get_if<std::string_view>(&value)) return QuotedName(*text);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<uint64_t>(&value)) return std::to_string(*whole);
  if (const auto* whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  return Json(NumberOf(value)).Dump();
}

}  // namespace lectern
