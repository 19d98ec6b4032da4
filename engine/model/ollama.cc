// The layout follows Ollama's source: types/model/name.go (names) and server/manifest.go, layer.go.
#include "engine/model/ollama.h"

#include <algorithm>
#include <vector>

#include "engine/model/formats/json.h"
#include "engine/model/formats/safetensors.h"

namespace lectern {
namespace {

// Media types of a manifest's layers; layers of other types (template, licence) are passed over.
constexpr std::string_view kWeights = "application/vnd.ollama.image.model";
constexpr std::string_view kAdapter = "application/vnd.ollama.image.adapter";
constexpr std::string_view kDigest = "sha256:";
constexpr size_t kMaxManifest = size_t{1} << 20;  // bytes

// Whether a text can be one part of a name. Parts become components of a path, so they have no
// slash and do not begin with a dot: "../.." must not lead out of Ollama's folder.
bool IsPart(std::string_view text) {
  const auto is_fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  };
  return !text.empty() && text.size() <= 128 && text[0] != '.' && text[0] != '-' &&
         std::all_of(text.begin(), text.end(), is_fine);
}

// Splits a name into host, namespace, model and tag, with Ollama's defaults for missing ones;
// empty: it is no name.
std::vector<std::string> Parts(std::string_view name) {
  std::vector<std::string> parts = {"registry.ollama.ai", "library"};
  const size_t colon = name.rfind(':');
  // A colon before a slash is a host's port and begins no tag.
  const bool has_tag =
      colon != std::string_view::npos && name.find('/', colon) == std::string_view::npos;
  const std::string tag(has_tag ? name.substr(colon + 1) : "latest");
  if (has_tag) name = name.substr(0, colon);
  std::vector<std::string> given;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    given.emplace_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  if (given.size() > 3) return {};
  parts.resize(3 - given.size());
  parts.insert(parts.end(), given.begin(), given.end());
  parts.push_back(tag);
  if (!std::all_of(parts.begin(), parts.end(), IsPart)) return {};
  return parts;
}

// Reads the blob's path, "blobs/sha256-<hex>", from a manifest.
Result<std::string> BlobOf(std::string_view manifest, const std::string& path) {
  const auto malformed = [&](const std::string& what) {
    return Status(Code::kMalformedModel, path + ": no manifest of Ollama: " + what);
  };
  if (manifest.size() > kMaxManifest) return malformed("larger than 1 MiB");
  const Result<Json> json = ParseJson(manifest);
  if (!json.ok()) return malformed(json.status().message());
  const Json* layers = json->Find("layers");
  if (layers == nullptr || layers->array() == nullptr) return malformed("it has no layers");
  std::string blob;
  for (const Json& layer : *layers->array()) {
    const Json *type = layer.Find("mediaType"), *digest = layer.Find("digest");
    if (type == nullptr || type->string() == nullptr) return malformed("a layer has no mediaType");
    if (*type->string() == kAdapter || (*type->string() == kWeights && !blob.empty())) {
      return Status(Code::kUnsupportedModel,
                    path + ": the model has " +
                        (blob.empty() ? "an adapter" : "an adapter or weights in several layers") +
                        ", which this build does not run");
    }
    if (*type->string() != kWeights) continue;
    if (digest == nullptr || digest->string() == nullptr) return malformed("a layer has no digest");
    const std::string_view text = *digest->string();
    const std::string_view hex = text.substr(std::min(text.size(), kDigest.size()));
    // The digest becomes part of a path, too: only 64 hex digits are taken.
    const bool is_hex = std::all_of(hex.begin(), hex.end(), [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    });
    if (!text.starts_with(kDigest) || hex.size() != 64 || !is_hex) {
      return malformed("the digest " + QuotedName(text) + " is no SHA-256");
    }
    blob = "blobs/sha256-" + std::string(hex);
  }
  if (blob.empty()) return malformed("no layer holds weights");
  return blob;
}

}  // namespace

bool IsOllamaName(std::string_view text) { return !Parts(text).empty(); }

// Goes from the name to the manifest, and from the manifest to the blob; either may be missing.
Result<std::string> FindOllamaModel(Env& env, const std::string& models, std::string_view name) {
  const std::vector<std::string> parts = Parts(name);
  if (parts.empty()) {
    return Status(Code::kNotFound, QuotedName(name) + " is no name of a model").WithParam("model");
  }
  const std::string manifest =
      models + "/manifests/" + parts[0] + "/" + parts[1] + "/" + parts[2] + "/" + parts[3];
  const std::string resolved = env.Resolve(manifest);
  LECTERN_ASSIGN(const bool is_there, env.Exists(resolved));
  if (!is_there) {
    return Status(Code::kNotFound, "no model at " + std::string(name) +
                                       ", and Ollama has none of this name: " + manifest +
                                       " is not there; \"ollama pull\" brings it")
        .WithParam("model");
  }
  LECTERN_ASSIGN(const auto file, OpenWhole(env, resolved, Io::kPread));
  LECTERN_ASSIGN(const std::string blob, BlobOf({reinterpret_cast<const char*>(file->data()),
                                                 static_cast<size_t>(file->size())},
                                                manifest));
  const std::string path = models + "/" + blob;
  LECTERN_ASSIGN(const bool has_blob, env.Exists(env.Resolve(path)));
  if (has_blob) return path;
  return Status(Code::kNotFound,
                path + ": not there, but " + manifest + " names it; \"ollama pull\" brings it")
      .WithParam("model");
}

Result<std::string> FindGivenModel(Env& env, const std::string& path, const std::string& text,
                                   const std::string& models) {
  if (path.empty() || !IsOllamaName(text)) return path;
  LECTERN_ASSIGN(const bool is_path, env.Exists(path));
  if (is_path) return path;
  if (models.empty()) {
    return Status(Code::kNotFound, "there is no folder or file " + path + "; if \"" + text +
                                       "\" is a name of Ollama's, set ollama_models to Ollama's "
                                       "folder of models, in which it is looked up")
        .WithParam("model");
  }
  return FindOllamaModel(env, models, text);
}

}  // namespace lectern
