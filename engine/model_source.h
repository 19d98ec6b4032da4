// Where a model's parts come from: a folder of transformers, or GGUF files.
#ifndef LECTERN_ENGINE_MODEL_SOURCE_H_
#define LECTERN_ENGINE_MODEL_SOURCE_H_

#include <memory>
#include <optional>
#include <string>

#include "engine/chat_template.h"
#include "engine/config.h"
#include "engine/tensor_files.h"
#include "engine/tokenizer.h"
#include "store/env.h"
#include "store/status.h"

namespace lectern {

// A model that was found and whose configuration was read. One thread at a time.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  virtual const ModelConfig& config() const = 0;
  // Codes of OpenSafetensors or OpenGgufModel, and of Tokenizer.
  virtual Result<std::unique_ptr<Tokenizer>> MakeTokenizer() const = 0;
  // The model's own chat template; none: it has none. Codes of ChatTemplateOf.
  virtual Result<std::optional<ChatSource>> FindChatTemplate() const = 0;
  // Opened by the first call and kept. Who moves them away needs the source no more.
  Result<TensorFiles*> Tensors();

 private:
  virtual Result<TensorFiles> OpenTensors() = 0;  // once

  std::optional<TensorFiles> tensors_;
};

// `path`: a folder with config.json, tokenizer.model or else tokenizer.json, and safetensors; a
// .gguf file, any part of one that is split; or a folder that holds nothing but one such file or
// split set as a model. kNotFound (param "model"), kAmbiguous (a folder with several GGUF models),
// and what the formats answer.
Result<std::unique_ptr<ModelSource>> OpenModelSource(Env& env, const std::string& path, Io io);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_SOURCE_H_
