// Opens the files that hold a model's tensors: headers are checked, the data is not read yet.
// Whoever uses a TensorFiles need not know whether it came from safetensors or GGUF.
#ifndef LECTERN_ENGINE_MODEL_FORMATS_TENSOR_FILES_H_
#define LECTERN_ENGINE_MODEL_FORMATS_TENSOR_FILES_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/quant_blocks.h"
#include "store/env.h"
#include "store/status.h"

namespace lectern {

// The tensors of a model and the files that they are in. Movable; the maps in it hold the files
// open. OpenSafetensors or a GGUF model makes it, Weights takes the tensors that a model needs out
// of it. The headers were checked; the bytes of a tensor must be loaded (MappedFile::Load) before
// they are read.
struct TensorFiles {
  struct File {
    std::string path, resolved;  // as given; links followed
    FileInfo info;
    std::unique_ptr<MappedFile> map;  // of it only the header is loaded
  };
  struct Tensor {
    std::optional<TensorType> type;  // none: one that we do not compute with
    std::string type_name;           // as the file has it
    std::vector<uint64_t> shape;     // outermost first
    uint64_t begin, end;             // bytes of the file
    size_t file;                      // place in `files`
  };

  std::vector<File> files;
  // Keys are the names of transformers ("model.layers.0.self_attn.q_proj.weight"); a tensor that
  // has no such name has the name of its file.
  std::map<std::string, Tensor, std::less<>> tensors;
  // The file that says which shapes the tensors must have, for messages.
  std::string config_name = "config.json";
  // Gives the files' own name of a tensor, for messages; empty: they use the names of transformers.
  std::function<std::string(std::string_view)> own_name;

  std::string Shown(std::string_view name) const;  // for messages: the file's own name, quoted
  bool HasBlocks() const;  // whether any tensor has a type of blocks (Q4_K and the like)
};

// Opens a file of a model without reading it; links are followed. Returns the codes of Env, such as
// kMissingFile.
Result<TensorFiles::File> OpenModelFile(Env& env, const std::string& path, Io io);

// `folder` holds model.safetensors, or model.safetensors.index.json with its files. A folder with
// only pytorch_model*.bin or *.pt files is kUnsafeFormat, and the message says how to convert them.
// kNotFound (param "model") where files are missing, kMalformedModel where index and headers
// disagree or a tensor is in two files, and the codes of ParseSafetensors, ParseSafetensorsIndex
// and Env. Where both are there, model.safetensors is taken.
Result<TensorFiles> OpenSafetensors(Env& env, const std::string& folder, Io io);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_FORMATS_TENSOR_FILES_H_
