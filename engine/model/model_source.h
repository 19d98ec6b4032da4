// Finds a model's parts (configuration, tensors, tokenizer, chat template) in a folder of
// transformers or in GGUF files, so that Model::Load need not know which it was.
#ifndef LECTERN_ENGINE_MODEL_MODEL_SOURCE_H_
#define LECTERN_ENGINE_MODEL_MODEL_SOURCE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/formats/tensor_files.h"
#include "engine/model/template/chat_template.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "engine/model/weights/config.h"
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
  // The model's own chat template, with the texts of the tokens that begin and end a text; `jinja`
  // is empty where it has none. Codes of ChatTemplateOf.
  virtual Result<ChatSource> FindChatTemplate() const = 0;
  // Opens the tensors at the first call and keeps them, without those that a text model does not
  // need. A caller that moves the tensors away cannot ask for them again. Codes of OpenSafetensors
  // and Weights::DropUnneeded.
  Result<TensorFiles*> Tensors();
  // Sentences about what was taken for granted because the files do not say it, and after Tensors()
  // also about what was skipped in them. They are to be shown once to the user who indexes with the
  // model.
  virtual std::vector<std::string> assumptions() const;

 private:
  virtual Result<TensorFiles> OpenTensors() = 0;  // once

  std::optional<TensorFiles> tensors_;
  std::vector<std::string> skipped_;  // names of tensors
};

// `path`: a folder with config.json, tokenizer.model or else tokenizer.json, and safetensors; a
// .gguf file, any part of one that is split; or a folder that holds nothing but one such file or
// split set as a model (beside what it sees or hears with, "mmproj"). kNotFound (param "model";
// also where a part of it is not there), kAmbiguous (a folder with several GGUF models),
// kUnsafeFormat (pickle files), kUnsupportedModel (also what changes a model and is none, as LoRA
// adapters), and what the formats answer.
Result<std::unique_ptr<ModelSource>> OpenModelSource(Env& env, const std::string& path, Io io);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_MODEL_SOURCE_H_
