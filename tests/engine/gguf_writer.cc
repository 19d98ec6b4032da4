#include "tests/engine/gguf_writer.h"

#include <stdexcept>

namespace lectern::testing {
namespace {

constexpr uint64_t kAlignment = 32;

template <typename T>
void Append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void AppendText(std::string& out, std::string_view text) {
  Append(out, uint64_t{text.size()});
  out += text;
}

void Align(std::string& out) {
  out.resize((out.size() + kAlignment - 1) / kAlignment * kAlignment);
}

uint32_t NumberOf(TensorType type) {
  for (uint32_t number = 0; number < 64; ++number) {
    if (GgufTypeName(number) == TensorTypeName(type)) return number;
  }
  throw std::runtime_error("no such type of GGUF");
}

}  // namespace

void GgufWriter::Begin(const std::string& key, GgufKind kind) {
  AppendText(keys_, key);
  Append(keys_, kind);
  ++num_keys_;
}

void GgufWriter::Add(const std::string& key, std::string_view text) {
  Begin(key, GgufKind::kString);
  AppendText(keys_, text);
}
void GgufWriter::Add(const std::string& key, uint32_t number) {
  Begin(key, GgufKind::kU32);
  Append(keys_, number);
}
void GgufWriter::Add(const std::string& key, float number) {
  Begin(key, GgufKind::kF32);
  Append(keys_, number);
}
void GgufWriter::Add(const std::string& key, bool flag) {
  Begin(key, GgufKind::kBool);
  Append(keys_, flag);
}
void GgufWriter::Add(const std::string& key, const std::vector<std::string>& texts) {
  GgufArray array{GgufKind::kString, texts.size(), {}};
  std::string bytes;
  for (const std::string& text : texts) AppendText(bytes, text);
  array.bytes = bytes;
  Add(key, GgufValue(array));
}
void GgufWriter::Add(const std::string& key, const std::vector<int32_t>& numbers) {
  const std::string_view bytes(reinterpret_cast<const char*>(numbers.data()), 4 * numbers.size());
  Add(key, GgufValue(GgufArray{GgufKind::kI32, numbers.size(), bytes}));
}

void GgufWriter::Add(const std::string& key, const GgufValue& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) return Add(key, *text);
  if (const auto* flag = std::get_if<bool>(&value)) return Add(key, *flag);
  if (const auto* number = std::get_if<double>(&value)) {
    return Add(key, static_cast<float>(*number));
  }
  if (const auto* number = std::get_if<uint64_t>(&value)) {
    return Add(key, static_cast<uint32_t>(*number));
  }
  const auto& array = std::get<GgufArray>(value);
  Begin(key, GgufKind::kArray);
  Append(keys_, array.kind);
  Append(keys_, array.count);
  keys_ += array.bytes;
}

void GgufWriter::AddTensor(const std::string& name, TensorType type,
                           const std::vector<uint64_t>& shape, std::string_view bytes) {
  Align(data_);
  AppendText(infos_, name);
  Append(infos_, static_cast<uint32_t>(shape.size()));
  for (size_t i = shape.size(); i > 0; --i) Append(infos_, shape[i - 1]);
  Append(infos_, NumberOf(type));
  Append(infos_, uint64_t{data_.size()});
  data_ += bytes;
  ++num_tensors_;
}

std::string GgufWriter::Finish() const {
  std::string file = "GGUF";
  Append(file, uint32_t{3});
  Append(file, num_tensors_);
  Append(file, num_keys_);
  file += keys_ + infos_;
  Align(file);
  return file + data_;
}

}  // namespace lectern::testing
