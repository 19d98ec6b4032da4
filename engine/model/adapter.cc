#include "engine/model/adapter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/model/formats/gguf.h"
#include "engine/model/formats/json.h"
#include "engine/model/formats/safetensors.h"
#include "engine/model/formats/sha256.h"
#include "engine/model/formats/tensor_files.h"
#include "engine/model/gguf_architecture.h"
#include "engine/model/tokenizer/regex.h"
#include "engine/model/weights/architecture.h"

namespace lectern {
namespace {

constexpr char kConfigFile[] = "adapter_config.json", kTensorFile[] = "adapter_model.safetensors";
// Lectern's own file beside PEFT's, which would refuse a member that it does not know.
constexpr char kOwnFile[] = "lectern.json";
constexpr uint64_t kMaxConfigBytes = 1 << 20;
constexpr size_t kMaxRefusalBytes = 1024;  // a sentence; its tokens are run with each question
constexpr size_t kAlignment = 64;  // of a matrix in memory: a cache line
constexpr uint64_t kMaxRank = 4096;

constexpr char kMerge[] = "; merge the adapter into the model (peft: merge_and_unload)";

// Settings of PEFT by which a layer computes something else than W x + scale B (A x).
constexpr const char* kUnread[] = {
    "use_dora",     "fan_in_fan_out", "modules_to_save",         "use_qalora",
    "use_bdlora",   "lora_bias",      "layer_replication",       "target_parameters",
    "arrow_config", "velora_config",  "alora_invocation_tokens", "trainable_token_indices"};

// null, false, 0, or empty.
bool IsUnset(const Json& value) {
  if (value.is_null() || (value.boolean() && !*value.boolean())) return true;
  if (value.number()) return *value.number() == 0;
  return (value.string() && value.string()->empty()) || (value.array() && value.array()->empty()) ||
         (value.object() && value.object()->empty());
}

Status Malformed(const std::string& path, const std::string& what) {
  return {Code::kMalformedModel, path + ": " + what};
}
Status Unsupported(const std::string& path, const std::string& what) {
  return {Code::kUnsupportedModel, path + ": " + what};
}

// One tensor of an adapter's file.
struct AdapterTensor {
  std::string name;  // as the file has it, for messages
  std::string type;  // "F16"
  std::vector<uint64_t> shape;
  uint64_t begin, end;  // bytes of the file
};

// The pair of one matrix.
struct Pair {
  std::optional<AdapterTensor> a, b;
};
using Pairs = std::map<std::pair<uint32_t, std::string>, Pair>;  // by layer and module

// How the scale of a pair follows from its rank. The rank is the tensors' own, so that PEFT's r and
// rank_pattern are not needed.
struct Scaling {
  std::optional<double> alpha;  // none: the scale is 1
  bool by_root = false;
  // PEFT's alpha_pattern. Where two entries fit a module, the first one counts, and PEFT writes
  // them sorted, as they are here.
  std::vector<std::pair<Regex, double>> own;

  // `module`: its path in the model, "model.layers.3.self_attn.q_proj".
  Result<float> Of(const std::string& module, size_t rank) const {
    std::optional<double> chosen = alpha;
    for (const auto& [pattern, own_alpha] : own) {
      std::vector<RegexMatcher::Match> found;
      LECTERN_RETURN_IF_ERROR(RegexMatcher(pattern).FindAll(module, &found));
      if (found.empty()) continue;
      chosen = own_alpha;
      break;
    }
    if (!chosen) return 1.0f;
    const double divisor = by_root ? std::sqrt(double(rank)) : double(rank);
    return static_cast<float>(*chosen / divisor);
  }
};

std::optional<Dtype> DtypeOf(std::string_view type) {
  if (type == "F32") return Dtype::kF32;
  if (type == "F16") return Dtype::kF16;
  if (type == "BF16") return Dtype::kBf16;
  return std::nullopt;
}

// A tensor's name, taken apart: "…layers.3.self_attn.q_proj.lora_A.weight" is layer 3, module
// "self_attn.q_proj", matrix A. Nothing: it is none of a layer's pairs.
struct TensorPlace {
  uint32_t layer;
  std::string module;
  bool is_a;
};
std::optional<TensorPlace> PlaceOf(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  const size_t at = name.find(kLayers);
  if (at == name.npos) return std::nullopt;
  std::string_view rest = name.substr(at + kLayers.size());
  const size_t dot = rest.find('.');
  if (dot == 0 || dot == rest.npos || dot > 5) return std::nullopt;
  uint32_t layer = 0;
  for (const char c : rest.substr(0, dot)) {
    if (c < '0' || c > '9') return std::nullopt;
    layer = 10 * layer + static_cast<uint32_t>(c - '0');
  }
  rest.remove_prefix(dot + 1);
  // PEFT: "self_attn.q_proj.lora_A.weight", or with the adapter's name, "lora_A.default.weight";
  // GGUF, renamed: "self_attn.q_proj.weight.lora_a".
  for (const auto& [mark, is_a] :
       {std::pair(".lora_A.", true), std::pair(".lora_B.", false),
        std::pair(".weight.lora_a", true), std::pair(".weight.lora_b", false)}) {
    const size_t end = rest.find(mark);
    if (end == rest.npos) continue;
    const bool has_weight = rest.ends_with(".weight") || std::string_view(mark).starts_with(".w");
    if (has_weight) return TensorPlace{layer, std::string(rest.substr(0, end)), is_a};
  }
  return std::nullopt;
}

// The module's path in the model, from PEFT's name of its tensor A: PEFT puts "base_model.model."
// before it. A GGUF name is not cut: such files have no alphas of single modules.
std::string ModulePath(std::string_view name) {
  constexpr std::string_view kPrefix = "base_model.model.";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  return std::string(name.substr(0, name.find(".lora_A")));
}

}  // namespace

// Loads one adapter; used once.
class AdapterLoader {
 public:
  AdapterLoader(Env& env, std::string path, const ModelConfig& config, Io io)
      : env_(env), path_(std::move(path)), config_(config), io_(io) {}

  Result<std::shared_ptr<const Adapter>> Run() {
    LECTERN_RETURN_IF_ERROR(ReadTables());
    auto adapter = std::make_shared<Adapter>();
    adapter->path_ = path_;
    adapter->settings_ = std::move(settings_);
    adapter->layers_.resize(config_.num_layers);
    adapter_ = adapter.get();
    if (pairs_.empty()) return Malformed(file_.path, "no tensor of it is a pair of LoRA");
    LECTERN_RETURN_IF_ERROR(Reserve());
    for (const auto& [place, pair] : pairs_) {
      LECTERN_RETURN_IF_ERROR(AddPair(place.first, place.second, pair));
    }
    adapter->digest_ = hash_.Finish();
    return std::shared_ptr<const Adapter>(std::move(adapter));
  }

 private:
  // --- tables of files ---

  // Finds the files at path_ and lists their tensors in pairs_; file_ is then the tensors' file.
  Status ReadTables() {
    const std::string resolved = env_.Resolve(path_);
    LECTERN_ASSIGN(const FileInfo info, env_.Info(resolved));
    std::string folder = path_;
    if (info.type == FileInfo::Type::kRegular) {
      if (!path_.ends_with(".safetensors")) return ReadGguf();
      const size_t slash = path_.rfind('/');
      folder = slash == path_.npos ? "." : path_.substr(0, slash);
      LECTERN_RETURN_IF_ERROR(ReadConfig(folder));
      LECTERN_RETURN_IF_ERROR(ReadOwnSettings(folder));
      return ReadSafetensors(path_);
    }
    if (info.type != FileInfo::Type::kDirectory) {
      return Status(Code::kNotFound, "there is no adapter " + path_).WithParam("adapter");
    }
    LECTERN_RETURN_IF_ERROR(ReadConfig(folder));
    LECTERN_RETURN_IF_ERROR(ReadOwnSettings(folder));
    return ReadSafetensors(folder + "/" + kTensorFile);
  }

  Status Open(const std::string& path) {
    LECTERN_ASSIGN(const bool exists, env_.Exists(path));
    if (!exists) return Status(Code::kNotFound, "there is no file " + path).WithParam("adapter");
    LECTERN_ASSIGN(file_, OpenModelFile(env_, path, io_));
    return {};
  }

  // Opens a file and parses it; file_ is then that one.
  Result<Json> ReadJson(const std::string& path) {
    LECTERN_RETURN_IF_ERROR(Open(path));
    const MappedFile& map = *file_.map;
    if (map.size() > kMaxConfigBytes) return Malformed(path, "it has more than 1 MiB");
    LECTERN_RETURN_IF_ERROR(map.Load(0, map.size()));
    auto json = ParseJson({reinterpret_cast<const char*>(map.data()), map.size()});
    if (!json.ok()) return Malformed(path, "it is not JSON: " + json.status().message());
    return json;
  }

  // The file need not be there. Members that nobody reads may be later versions'.
  Status ReadOwnSettings(const std::string& folder) {
    const std::string path = folder + "/" + kOwnFile;
    LECTERN_ASSIGN(const bool exists, env_.Exists(path));
    if (!exists) return {};
    LECTERN_ASSIGN(const Json json, ReadJson(path));
    if (const Json* const focus = json.Find("focus"); focus && !focus->is_null()) {
      const bool is_known =
          focus->string() && (*focus->string() == "only" || *focus->string() == "off");
      if (!is_known) return Malformed(path, "focus is neither \"only\" nor \"off\"");
      settings_.focus = *focus->string() == "only";
    }
    const Json* const refusal = json.Find("refusal");
    if (!refusal || refusal->is_null()) return {};
    const Json* const text = refusal->Find("text");
    if (!text || !text->string() || text->string()->empty() ||
        text->string()->size() > kMaxRefusalBytes) {
      return Malformed(path, "refusal has no \"text\" of 1 to 1,024 bytes");
    }
    const Json* const threshold = refusal->Find("threshold");
    const double share = threshold ? threshold->number().value_or(0) : 0;
    if (!(share > 0 && share <= 1)) {
      return Malformed(path, "refusal has no \"threshold\" above 0 and up to 1");
    }
    settings_.refusal = {*text->string(), share};
    return {};
  }

  // Refuses what LoRA alone does not add: the answer would be another one than PEFT's.
  Status ReadConfig(const std::string& folder) {
    const std::string path = folder + "/" + kConfigFile;
    LECTERN_ASSIGN(const Json json, ReadJson(path));
    const auto text = [&](const char* key) {
      const Json* const found = json.Find(key);
      return found && found->string() ? *found->string() : std::string();
    };
    if (const std::string type = text("peft_type"); !type.empty() && type != "LORA") {
      return Unsupported(path, "it is an adapter of kind " + type + "; only LORA is read");
    }
    if (const std::string bias = text("bias"); !bias.empty() && bias != "none") {
      return Unsupported(path, "bias \"" + bias + "\": trained biases are not read" + kMerge);
    }
    for (const char* const setting : kUnread) {
      const Json* const found = json.Find(setting);
      if (!found || IsUnset(*found)) continue;
      return Unsupported(path, std::string(setting) +
                                   " is set: more than LoRA's two matrices, which "
                                   "is not read" +
                                   kMerge);
    }
    LECTERN_RETURN_IF_ERROR(CheckInit(path, text("init_lora_weights")));
    const Json* const by_root = json.Find("use_rslora");
    scaling_.by_root = by_root && !IsUnset(*by_root);
    const Json* const alpha = json.Find("lora_alpha");
    if (!alpha || !alpha->number()) return Malformed(path, "it has no lora_alpha");
    scaling_.alpha = alpha->number();
    return ReadAlphaPattern(path, json);
  }

  // Reads the alphas of single modules: {"q_proj": 16, "layers.0.self_attn.v_proj": 8}. A key is a
  // regular expression for the end of a module's path, as get_pattern_key of PEFT reads it.
  Status ReadAlphaPattern(const std::string& path, const Json& json) {
    const Json* const own = json.Find("alpha_pattern");
    if (!own || IsUnset(*own)) return {};
    if (!own->object()) return Malformed(path, "alpha_pattern is no object");
    for (const auto& [module, value] : *own->object()) {
      if (!value.number()) {
        return Malformed(path, "alpha_pattern has no number for " + QuotedName(module));
      }
      auto pattern = Regex::Make("^(?:.*\\.)?(?:" + module + ")$", Regex::Origin::kForeign);
      if (!pattern.ok()) {
        return Unsupported(path, "alpha_pattern: " + pattern.status().message());
      }
      scaling_.own.emplace_back(*std::move(pattern), *value.number());
    }
    return {};
  }

  // Refuses ways to initialise a pair that also change the model's own matrix: the pair is then an
  // addition to that changed matrix (update_layer of PEFT), which is not at hand.
  Status CheckInit(const std::string& path, const std::string& init) const {
    const bool changes_model = init.starts_with("pissa") || init.starts_with("corda") ||
                               init == "olora" || init == "loftq" || init == "lora_ga";
    if (!changes_model) return {};
    return Unsupported(path, "init_lora_weights \"" + init +
                                 "\": the pair is no addition to the model's own matrices; save it "
                                 "as one (peft: save_pretrained with "
                                 "path_initial_model_for_weight_conversion), or merge it into the "
                                 "model (merge_and_unload)");
  }

  // Lists the tensors of a safetensors file; its header alone is read.
  Status ReadSafetensors(const std::string& path) {
    LECTERN_RETURN_IF_ERROR(Open(path));
    const MappedFile& map = *file_.map;
    // The header's length comes first, then the header.
    const uint64_t header = std::min<uint64_t>(map.size(), kMaxSafetensorsHeader + 8);
    LECTERN_RETURN_IF_ERROR(map.Load(0, header));
    LECTERN_ASSIGN(const SafetensorsTable table, ParseSafetensors({map.data(), map.size()}, path));
    // PEFT names modules as the folder of the model does, whichever format the model is read from.
    if (const Architecture* const own = FindArchitecture(config_.architecture)) {
      has_neighbours_ = own->has_neighbours;
    }
    for (const auto& [name, entry] : table) {
      std::string ours = name;
      for (const Architecture& row : Architectures()) ours = TensorNameOf(ours, row);
      LECTERN_RETURN_IF_ERROR(
          AddTensor(ours, {name, entry.dtype, entry.shape, entry.begin, entry.end}));
    }
    return {};
  }

  // Lists the tensors of a GGUF file, under transformers' names, and reads its alpha.
  Status ReadGguf() {
    LECTERN_RETURN_IF_ERROR(Open(path_));
    const MappedFile& map = *file_.map;
    LECTERN_ASSIGN(const GgufTable table,
                   ParseGguf({map.data(), map.size()}, path_,
                             [&](uint64_t at, uint64_t bytes) { return map.Load(at, bytes); }));
    const auto text = [&](const char* key) {
      const auto* const found = table.Find<std::string_view>(key);
      return found ? std::string(*found) : std::string();
    };
    if (text("general.type") != "adapter") {
      return Unsupported(path_, "it is no adapter (general.type is \"" + text("general.type") +
                                    "\"); a model goes to " + OptionName("model").text());
    }
    if (text("adapter.type") != "lora") {
      return Unsupported(
          path_, "it is an adapter of kind \"" + text("adapter.type") + "\"; only lora is read");
    }
    const auto all = GgufArchitectures();
    const auto found = std::ranges::find(all, text("general.architecture"),
                                         [](const auto& row) { return std::string(row.name); });
    if (found == all.end()) {
      return Unsupported(path_, "it is for the architecture \"" + text("general.architecture") +
                                    "\", which is not known");
    }
    has_neighbours_ = found->has_neighbours;
    // Without an alpha, or with 0, llama.cpp takes the scale 1.
    const auto* const alpha = table.Find<double>("adapter.lora.alpha");
    if (alpha && *alpha != 0) scaling_.alpha = *alpha;
    for (const auto& [name, tensor] : table.tensors) {
      const std::string ours = RenameTensor(name, *found, /*from_gguf=*/true);
      LECTERN_RETURN_IF_ERROR(
          AddTensor(ours.empty() ? name : ours,
                    {name, GgufTypeName(tensor.type), tensor.shape, tensor.begin, tensor.end}));
    }
    return {};
  }

  // Notes a tensor as half of its pair. kUnsupportedModel: it is none of a layer's;
  // kMalformedModel: the half is there already, also under another spelling.
  Status AddTensor(const std::string& name, AdapterTensor tensor) {
    const auto place = PlaceOf(name);
    if (!place) {
      return Unsupported(file_.path, "tensor " + QuotedName(tensor.name) +
                                         " is none of a layer's LoRA matrices; adapters of "
                                         "embeddings and of the output are not read" +
                                         kMerge);
    }
    Pair& pair = pairs_[{place->layer, place->module}];
    auto& half = place->is_a ? pair.a : pair.b;
    if (half) return Malformed(file_.path, "tensor " + QuotedName(tensor.name) + " comes twice");
    half = std::move(tensor);
    return {};
  }

  // --- matrices ---

  // Allocates the memory of all matrices, before any view is taken of it, and sets next_ to its
  // first aligned byte.
  Status Reserve() {
    uint64_t bytes = 0;
    for (const auto& [place, pair] : pairs_) {
      for (const auto* half : {&pair.a, &pair.b}) {
        if (*half)
          bytes += ((*half)->end - (*half)->begin + kAlignment - 1) / kAlignment * kAlignment;
      }
    }
    adapter_->memory_.resize(bytes + kAlignment);
    const auto address = reinterpret_cast<uintptr_t>(adapter_->memory_.data());
    next_ = (kAlignment - address % kAlignment) % kAlignment;
    return {};
  }

  // The error for a tensor's shape; 0 rows or columns stand for the rank.
  Status WrongShape(const AdapterTensor& tensor, uint64_t rows, uint64_t cols) const {
    std::string shape;
    for (const uint64_t size : tensor.shape) {
      shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    }
    return Malformed(file_.path, "tensor " + QuotedName(tensor.name) + " is [" + shape +
                                     "], this model's would be [" +
                                     (rows ? std::to_string(rows) : "rank") + ", " +
                                     (cols ? std::to_string(cols) : "rank") +
                                     "]; the adapter was made for another model");
  }

  // Reads a tensor, whose shape has been checked, into the adapter's next memory.
  // kUnsupportedModel: a type that adapters are not read in; kMalformedModel: its bytes do not fit
  // its shape; or the read's error.
  Result<TypedRows> Copy(const AdapterTensor& tensor) {
    const auto dtype = DtypeOf(tensor.type);
    if (!dtype) {
      return Unsupported(file_.path, "tensor " + QuotedName(tensor.name) + " has the type " +
                                         tensor.type + "; adapters are read as F32, F16 and BF16");
    }
    const TypedRows rows = {adapter_->memory_.data() + next_, *dtype, tensor.shape[0],
                            tensor.shape[1]};
    const uint64_t bytes = tensor.end - tensor.begin;
    if (bytes != rows.num_rows * rows.row_bytes()) {
      return Malformed(file_.path, "tensor " + QuotedName(tensor.name) + " has too few bytes");
    }
    LECTERN_RETURN_IF_ERROR(
        file_.map->ReadAt(tensor.begin, adapter_->memory_.data() + next_, bytes));
    next_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return rows;
  }

  // The parts of a module: the additions whose rows they are, one behind the other.
  struct Part {
    LowRank LayerAdapter::*low_rank;
    uint64_t rows;
  };
  struct Module {
    std::vector<Part> parts;
    uint64_t cols = 0;
  };
  // The parts and columns that a module of this model has; no parts: a name that is not known.
  Module ModuleOf(const std::string& name) const {
    const uint64_t hidden = config_.hidden_size, inner = config_.intermediate_size;
    const uint64_t q = uint64_t{config_.num_heads} * config_.head_dim;
    const uint64_t kv = uint64_t{config_.num_kv_heads} * config_.head_dim;
    using L = LayerAdapter;
    if (name == "self_attn.q_proj") return {{{&L::q, q}}, hidden};
    if (name == "self_attn.k_proj") return {{{&L::k, kv}}, hidden};
    if (name == "self_attn.v_proj") return {{{&L::v, kv}}, hidden};
    if (name == "self_attn.qkv_proj") return {{{&L::q, q}, {&L::k, kv}, {&L::v, kv}}, hidden};
    if (name == "self_attn.o_proj") return {{{&L::o, hidden}}, q};
    if (name == "mlp.gate_proj") return {{{&L::gate, inner}}, hidden};
    if (name == "mlp.up_proj") return {{{&L::up, inner}}, hidden};
    if (name == "mlp.gate_up_proj") return {{{&L::gate, inner}, {&L::up, inner}}, hidden};
    if (name == "mlp.down_proj") return {{{&L::down, hidden}}, inner};
    return {};
  }

  // Checks a pair against the model's shapes and copies it; a joined module's pair becomes one
  // addition to each of its parts. Also hashes it.
  Status AddPair(uint32_t layer, const std::string& name, const Pair& pair) {
    const AdapterTensor& known = pair.a ? *pair.a : *pair.b;
    if (!pair.a || !pair.b) {
      return Malformed(file_.path, "tensor " + QuotedName(known.name) +
                                       " lacks the other half of "
                                       "its pair");
    }
    const Module module = ModuleOf(name);
    if (module.parts.empty()) {
      return Unsupported(file_.path,
                         "tensor " + QuotedName(known.name) + " adapts a module that is not known");
    }
    if (config_.experts.count > 0 && name.starts_with("mlp.")) {
      return Unsupported(file_.path, "tensor " + QuotedName(known.name) +
                                         " adapts experts, and this build applies adapters to the "
                                         "attention of such models alone; merge it into the model");
    }
    if (layer >= config_.num_layers) {
      return Malformed(file_.path, "tensor " + QuotedName(known.name) + " is of layer " +
                                       std::to_string(layer) + "; this model has " +
                                       std::to_string(config_.num_layers) +
                                       ": the adapter was made for another model");
    }
    uint64_t rows = 0;
    for (const Part& part : module.parts) rows += part.rows;
    const uint64_t rank = pair.a->shape.empty() ? 0 : pair.a->shape[0];
    if (pair.a->shape != std::vector<uint64_t>{rank, module.cols} || rank == 0) {
      return WrongShape(*pair.a, 0, module.cols);
    }
    if (rank > kMaxRank) {
      return Malformed(file_.path, "tensor " + QuotedName(known.name) + " has the rank " +
                                       std::to_string(rank) + "; at most " +
                                       std::to_string(kMaxRank) + " is read" + kMerge);
    }
    if (pair.b->shape != std::vector<uint64_t>{rows, rank}) return WrongShape(*pair.b, rows, 0);
    LECTERN_ASSIGN(const TypedRows a, Copy(*pair.a));
    LECTERN_ASSIGN(const TypedRows b, Copy(*pair.b));
    LECTERN_ASSIGN(const float scale, scaling_.Of(ModulePath(pair.a->name), rank));
    if (!std::isfinite(scale)) return Malformed(file_.path, "its alpha is too large");
    uint64_t begin = 0;
    for (const Part& part : module.parts) {
      const LowRank low_rank = {a, b.Slice(begin, begin + part.rows), scale};
      Reorder(part.low_rank, low_rank.b);
      LowRank& place = adapter_->layers_[layer].*part.low_rank;
      if (place.is_there()) {
        return Malformed(file_.path, "tensor " + QuotedName(known.name) +
                                         " adapts a matrix that another pair adapts, too, alone or "
                                         "joined with others");
      }
      place = low_rank;
      ++adapter_->num_matrices_;
      begin += part.rows;
    }
    adapter_->largest_rank_ = std::max<size_t>(adapter_->largest_rank_, rank);
    Hash(layer, name, a, b, scale);
    return {};
  }

  // Queries and keys of some GGUF models have the rotated pairs (2i, 2i + 1) where transformers has
  // (i, i + half) (RopeRecipe::has_neighbours). The rows of B get the model's order. A head's rows
  // behind the last pair stay.
  void Reorder(LowRank LayerAdapter::*which, TypedRows rows) {
    const bool is_rotated = which == &LayerAdapter::q || which == &LayerAdapter::k;
    if (!is_rotated || has_neighbours_ == config_.rope.has_neighbours) return;
    const size_t dim = config_.head_dim, half = config_.rope.dims / 2, bytes = rows.row_bytes();
    std::vector<std::byte> head(2 * half * bytes);
    auto* const data = const_cast<std::byte*>(rows.data);  // of our own memory
    for (size_t begin = 0; begin < rows.num_rows; begin += dim) {
      std::byte* const there = data + begin * bytes;
      std::memcpy(head.data(), there, head.size());
      for (size_t i = 0; i < half; ++i) {
        for (const auto& [neighbour, apart] :
             {std::pair(2 * i, i), std::pair(2 * i + 1, half + i)}) {
          const size_t from = has_neighbours_ ? neighbour : apart;
          const size_t to = has_neighbours_ ? apart : neighbour;
          std::memcpy(there + to * bytes, head.data() + from * bytes, bytes);
        }
      }
    }
  }

  // Hashed in the model's order of rows, so that both formats of one adapter are the same.
  void Hash(uint32_t layer, const std::string& name, TypedRows a, TypedRows b, float scale) {
    hash_.UpdateText(name);
    for (const uint64_t number : {uint64_t{layer}, uint64_t{a.num_rows},
                                  static_cast<uint64_t>(a.dtype), static_cast<uint64_t>(b.dtype)}) {
      hash_.Update(&number, sizeof number);
    }
    hash_.Update(&scale, sizeof scale);
    hash_.Update(a.data, a.num_rows * a.row_bytes());
    hash_.Update(b.data, b.num_rows * b.row_bytes());
  }

  Env& env_;
  const std::string path_;
  const ModelConfig& config_;
  const Io io_;
  TensorFiles::File file_;
  Pairs pairs_;
  AdapterSettings settings_;
  Scaling scaling_;
  bool has_neighbours_ = false;  // of the adapter's own order
  Adapter* adapter_ = nullptr;
  size_t next_ = 0;  // byte of its memory
  Sha256 hash_;
};

Result<std::shared_ptr<const Adapter>> Adapter::Load(Env& env, const std::string& path,
                                                     const ModelConfig& config, Io io) {
  return AdapterLoader(env, path, config, io).Run();
}

}  // namespace lectern
