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

// A model that was found and whose configuration was read and checked; weights are not read yet.
// One thread at a time.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  // The checked configuration; valid as long as this object.
  virtual const ModelConfig& config() const = 0;
  // Makes the model's tokenizer. Codes of Tokenizer::Load or MakeGgufTokenizer; kNotFound: the
  // folder has none.
  virtual Result<std::unique_ptr<Tokenizer>> MakeTokenizer() const = 0;
  // The model's own chat template, with the texts of the tokens that begin and end a text; `jinja`
  // is empty where it has none. Codes of ChatTemplateOf.
  virtual Result<ChatSource> FindChatTemplate() const = 0;
  // Opens the tensors at the first call and keeps them, without those that a text model does not
  // need. The pointer is into this object. A caller that moves the tensors away cannot ask for them
  // again, and must have called MakeTokenizer and FindChatTemplate before: a GGUF source reads both
  // from the files that go with the tensors. After an error the source is of no more use. Codes of
  // OpenSafetensors and Weights::DropUnneeded.
  Result<TensorFiles*> Tensors();
  // Clauses for the user, without a full stop, about what was taken for granted because the files
  // do not say it, and after Tensors() also about what was skipped in them. They are to be shown
  // once to the user who indexes with the model.
  virtual std::vector<std::string> assumptions() const;

 private:
  virtual Result<TensorFiles> OpenTensors() = 0;  // called once, by Tensors()

  std::optional<TensorFiles> tensors_;
  std::vector<std::string> skipped_;  // names of tensors that were left out
};

// Finds and opens the model at `path`; reads configuration and headers, not weights. `path`: a
// folder with config.json, tokenizer.model or else tokenizer.json, and safetensors; a GGUF file, or
// any part of one that is split; or a folder without config.json or without safetensors that holds
// one such file or split set (files called "mmproj", which see or hear, do not count beside it).
// A file is judged by its first bytes, and files in a folder are found by the ending ".gguf".
// kNotFound (param "model"; also where a part is missing), kAmbiguous (param "model": a folder with
// several GGUF models), kUnsafeFormat (pickle files), kUnsupportedModel (also LoRA adapters, which
// change a model and are none), and the errors of the formats.
Result<std::unique_ptr<ModelSource>> OpenModelSource(Env& env, const std::string& path, Io io);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_MODEL_SOURCE_H_
