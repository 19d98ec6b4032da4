#include "tests/engine/invented_model.h"

#include <cmath>
#include <cstring>

#include "tests/engine/test_documents.h"

namespace lectern::testing {
namespace {

std::vector<uint64_t> ShapeOf(const Json& json) {
  std::vector<uint64_t> shape;
  for (const Json& size : *json.array()) shape.push_back(*size.unsigned_integer());
  return shape;
}

}  // namespace

float InventedWeight(const std::string& name, const std::vector<uint64_t>& shape, float norm_base,
                     uint64_t index) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  uint64_t z = hash + (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  const double unit = static_cast<double>(z >> 40) / 16777216.0 - 0.5;
  if (name.ends_with("sinks")) return static_cast<float>(unit * 8);
  if (shape.size() > 1) {
    return static_cast<float>(unit * 3.5 / std::sqrt(static_cast<double>(shape[1])));
  }
  const bool is_norm = name.ends_with("norm.weight");
  return static_cast<float>(unit * 0.4 + (is_norm ? double{norm_base} : 0.0));
}

float WeightOf(const Json& architecture, const std::string& name,
               const std::vector<uint64_t>& shape, uint64_t index) {
  const bool from_one =
      architecture.Find("config")->Find("model_type")->string()->starts_with("gemma");
  const float base = from_one ? 0.0f : 1.0f;
  const float weight = InventedWeight(name, shape, base, index);
  const Json* const gain_of = architecture.Find("gain");
  if (gain_of == nullptr) return weight;
  const auto gain = static_cast<float>(*gain_of->number());
  if (name.ends_with("q_norm.weight")) return from_one ? gain * (1 + weight) - 1 : gain * weight;
  const bool is_query = name.ends_with("q_proj.weight") || name.ends_with("qkv_proj.weight");
  return is_query ? gain * weight : weight;
}

void WriteInventedModel(const Json& architecture, const std::string& folder) {
  const Json& config = *architecture.Find("config");
  Json::Object header;
  std::string data;
  for (const auto& [name, sizes] : *architecture.Find("tensors")->object()) {
    const std::vector<uint64_t> shape = ShapeOf(sizes);
    uint64_t count = 1;
    for (const uint64_t size : shape) count *= size;
    const uint64_t begin = data.size();
    data.resize(begin + count * sizeof(float));
    for (uint64_t i = 0; i < count; ++i) {
      const float value = WeightOf(architecture, name, shape, i);
      std::memcpy(data.data() + begin + i * sizeof value, &value, sizeof value);
    }
    header[name] = Json(Json::Object{
        {"dtype", Json("F32")},
        {"shape", sizes},
        {"data_offsets", Json(Json::Array{Json(begin), Json(uint64_t{data.size()})})}});
  }
  std::string json = Json(std::move(header)).Dump();
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const uint64_t length = json.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  WriteWholeFile(folder + "/model.safetensors", bytes + json + data);
  WriteWholeFile(folder + "/config.json", config.Dump());
  WriteWholeFile(folder + "/tokenizer.model", ReadWholeFile(TinyModel() + "/tokenizer.model"));
}

}  // namespace lectern::testing
