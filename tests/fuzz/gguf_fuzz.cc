// Every tensor of an accepted file lies in the file, none overlaps another, arrays hold what they
// count; and whatever its keys say about a vocabulary is refused, or encodes any text.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/model/formats/gguf.h"
#include "engine/model/gguf_model.h"
#include "tests/engine/memory_env.h"
#include "tests/fuzz/check_tokens.h"

namespace lectern {
namespace {

void CheckArray(const GgufArray& array) {
  const bool is_text = array.kind == GgufKind::kString;
  if (array.kind == GgufKind::kArray) return;
  if ((is_text ? array.Strings().size() : array.Numbers().size()) != array.count) std::abort();
}

void CheckTensors(const GgufTable& table, uint64_t file_size) {
  std::vector<std::pair<uint64_t, uint64_t>> places;
  for (const auto& [name, tensor] : table.tensors) {
    if (tensor.begin > tensor.end || tensor.end > file_size) std::abort();
    if (tensor.shape.empty() || tensor.shape.size() > 4) std::abort();
    places.emplace_back(tensor.begin, tensor.end);
  }
  std::sort(places.begin(), places.end());
  for (size_t i = 1; i < places.size(); ++i) {
    if (places[i].first < places[i - 1].second) std::abort();
  }
}

// Reads the keys of a file as a configuration, which must be refused or have sizes that the engine
// can allocate by, and sorts its tensors into needed and others.
void CheckModel(std::string_view bytes) {
  MemoryEnv env;
  env.files["m.gguf"] = bytes;
  const auto source = OpenGgufModel(env, {"m.gguf"}, Io::kMmap);
  if (!source.ok()) return;
  const ModelConfig& c = (*source)->config();
  const bool is_sound = c.num_layers >= 1 && c.num_heads % c.num_kv_heads == 0 &&
                        c.head_dim % 2 == 0 && c.head_dim <= kWidestHead &&
                        c.attention.size() == c.num_layers && std::isfinite(c.query_scale);
  if (!is_sound) std::abort();
  if (!(*source)->Tensors().ok()) return;
  for (const std::string& sentence : (*source)->assumptions()) {
    if (sentence.empty()) std::abort();
  }
}

}  // namespace
}  // namespace lectern

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lectern;
  const auto load = [&](uint64_t offset, uint64_t bytes) {
    if (offset > size || bytes > size - offset) std::abort();
    return Status();
  };
  const auto table = ParseGguf(std::as_bytes(std::span(data, size)), "m.gguf", load);
  if (!table.ok()) return 0;
  CheckTensors(*table, size);
  for (const auto& [name, value] : table->keys) {
    if (const auto* array = std::get_if<GgufArray>(&value)) CheckArray(*array);
    if (Shown(value).empty()) std::abort();
  }
  CheckModel({reinterpret_cast<const char*>(data), size});
  const auto tokenizer = MakeGgufTokenizer(*table, "m.gguf");
  if (!tokenizer.ok()) return 0;
  for (const std::string text : {"ab <s>\n  \xC3\xA9<td>12", "a\x04<|im_end|> [PAD7]"}) {
    CheckTokens((*tokenizer)->Encode(text), **tokenizer, text);
    CheckTokens((*tokenizer)->EncodeContinuation(text), **tokenizer, text);
  }
  return 0;
}
