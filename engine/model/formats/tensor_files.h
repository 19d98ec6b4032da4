// The tensors of a model and the files that hold them: opened, headers checked, nothing else read.
// Where they come from, safetensors or GGUF, is forgotten here.
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
    size_t file;
  };

  std::vector<File> files;
  // By the names of transformers ("model.layers.0.self_attn.q_proj.weight"); what has no such name
  // has its own.
  std::map<std::string, Tensor, std::less<>> tensors;
  // What says which shapes there are: "config.json".
  std::string config_name = "config.json";
  // What the files call a tensor; empty: as transformers does.
  std::function<std::string(std::string_view)> own_name;

  std::string Shown(std::string_view name) const;  // quoted
  bool HasBlocks() const;
};

// A file of a model, opened without reading it; links are followed. The codes of Env.
Result<TensorFiles::File> OpenModelFile(Env& env, const std::string& path, Io io);

// `folder` holds model.safetensors, or model.safetensors.index.json with its files. A folder with
// only pytorch_model*.bin or *.pt files: kUnsafeFormat with how to convert. kNotFound (param
// "model") where files are missing, and the codes of ParseSafetensors.
Result<TensorFiles> OpenSafetensors(Env& env, const std::string& folder, Io io);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_FORMATS_TENSOR_FILES_H_
