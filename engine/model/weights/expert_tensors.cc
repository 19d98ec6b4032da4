#include "engine/model/weights/expert_tensors.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/model/weights/interleaved_experts.h"

namespace lectern {
namespace {

constexpr std::string_view kExpertsPart = ".mlp.experts.";
constexpr std::string_view kMlpPart = ".mlp.";
constexpr std::string_view kSharedGateName = ".mlp.shared_expert_gate.weight";

bool HasDigitsAlone(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// A name "<layer>.mlp.<part>.<kind>" that older GGUF files give to an expert,
// "<layer>.mlp.up_proj.N.weight", as "<layer>.mlp.experts.N.up_proj.weight"; nothing: it is none.
std::optional<std::string> NameOfOldSplit(std::string_view name) {
  const size_t at = name.find(kMlpPart);
  if (at == name.npos) return std::nullopt;
  const std::string_view rest = name.substr(at + kMlpPart.size());
  const size_t part = rest.find('.'), number = rest.find('.', part + 1);
  if (part == rest.npos || number == rest.npos) return std::nullopt;
  const std::string_view expert = rest.substr(part + 1, number - part - 1);
  if (!HasDigitsAlone(expert) || rest.starts_with("experts.")) return std::nullopt;
  return std::string(name.substr(0, at)) + std::string(kExpertsPart) + std::string(expert) + "." +
         std::string(rest.substr(0, part)) + std::string(rest.substr(number));
}

// "<layer>.mlp.experts.N.up_proj.weight" without "N."; nothing: it is not of one expert.
std::optional<std::string> WithoutNumber(std::string_view name) {
  const size_t at = name.find(kExpertsPart);
  if (at == name.npos) return std::nullopt;
  const size_t number = at + kExpertsPart.size(), dot = name.find('.', number);
  if (dot == name.npos || !HasDigitsAlone(name.substr(number, dot - number))) return std::nullopt;
  return std::string(name.substr(0, number)) + std::string(name.substr(dot + 1));
}

// A tensor that joins all experts: "<prefix>.mlp.experts.<part><kind>".
struct JoinedExperts {
  std::string_view prefix;  // up to ".mlp.experts."
  std::string_view part, kind;
};
std::optional<JoinedExperts> ParseJoinedName(std::string_view name) {
  const size_t at = name.find(kExpertsPart);
  if (at == name.npos) return std::nullopt;
  const std::string_view rest = name.substr(at + kExpertsPart.size());
  for (const std::string_view part : {"gate_proj", "up_proj", "down_proj", "gate_up_proj"}) {
    const std::string_view kind = rest.substr(std::min(part.size(), rest.size()));
    if (rest.starts_with(part) && (kind == ".weight" || kind == ".bias")) {
      return JoinedExperts{name.substr(0, at + kExpertsPart.size()), part, kind};
    }
  }
  return std::nullopt;
}

// The parts of one expert's slice of a joined tensor: two where it holds gate and up.
std::vector<std::string> PartsOfJoined(std::string_view part) {
  if (part == "gate_up_proj") return {"gate_proj", "up_proj"};
  return {std::string(part)};
}

}  // namespace

Status SplitExperts(const ModelConfig& config, TensorFiles* files) {
  if (config.experts.count == 0) return {};
  LECTERN_RETURN_IF_ERROR(ArrangeExperts(config, files));
  const uint64_t count = config.experts.count;
  std::map<std::string, TensorFiles::Tensor, std::less<>> split;
  for (auto& [name, tensor] : files->tensors) {
    const std::optional<JoinedExperts> joined = ParseJoinedName(name);
    if (!joined) {
      std::string ours = NameOfOldSplit(name).value_or(name);
      if (ours.ends_with(".self_attn.sinks")) ours += ".weight";  // as GGUF files call them
      // A matrix of one row in safetensors, and a vector in GGUF.
      if (ours.ends_with(kSharedGateName) && tensor.shape.size() == 2 && tensor.shape[0] == 1) {
        tensor.shape.erase(tensor.shape.begin());
      }
      split.try_emplace(std::move(ours), std::move(tensor));
      continue;
    }
    const std::vector<std::string> parts = PartsOfJoined(joined->part);
    const bool is_right =
        tensor.shape.size() >= 2 && tensor.shape[0] == count && tensor.shape[1] % parts.size() == 0;
    if (!is_right) {
      std::string shape;
      for (const uint64_t size : tensor.shape) {
        shape += (shape.empty() ? "" : ", ") + std::to_string(size);
      }
      return Status(Code::kMalformedModel, files->files[tensor.file].path + ": tensor " +
                                               files->Shown(name) + " has shape [" + shape +
                                               "] but " + files->config_name + " wants " +
                                               std::to_string(count) + " experts");
    }
    const uint64_t bytes = (tensor.end - tensor.begin) / count / parts.size();
    TensorFiles::Tensor one = tensor;
    one.shape.erase(one.shape.begin());
    one.shape[0] /= parts.size();
    uint64_t at = tensor.begin;
    for (uint64_t expert = 0; expert < count; ++expert) {
      for (const std::string& part : parts) {
        one.begin = at, one.end = at += bytes;
        split.try_emplace(std::string(joined->prefix) + std::to_string(expert) + "." + part +
                              std::string(joined->kind),
                          one);
      }
    }
  }
  files->tensors = std::move(split);
  // Names that the files have as they are keep their own names; others are those of joined tensors.
  files->own_name = [before = std::move(files->own_name)](std::string_view name) {
    const auto own = [&](std::string_view ours) {
      return before ? before(ours) : std::string(ours);
    };
    std::string direct = own(name);
    const std::optional<std::string> joined = WithoutNumber(name);
    if (!joined || direct != name) return direct;
    std::string whole = own(*joined);
    return whole == *joined ? direct : whole;
  };
  return {};
}

}  // namespace lectern
