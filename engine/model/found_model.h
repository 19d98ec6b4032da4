// A model's files at one place, opened when somebody first looks into them. The engine asks it for
// the chat template and the weights' sizes before it decides whether to load the model.
#ifndef LECTERN_ENGINE_MODEL_FOUND_MODEL_H_
#define LECTERN_ENGINE_MODEL_FOUND_MODEL_H_

#include <memory>
#include <string>
#include <utility>

#include "engine/model/model_source.h"
#include "store/env.h"
#include "store/status.h"

namespace lectern {

// One thread at a time.
class FoundModel {
 public:
  FoundModel(Env& env, std::string path, Io io) : env_(env), path_(std::move(path)), io_(io) {}
  const std::string& path() const { return path_; }
  // The files, opened at the first call; after an error the next call tries again. The pointer is
  // valid as long as this. Codes of OpenModelSource.
  Result<ModelSource*> Source() {
    if (!source_) {
      LECTERN_ASSIGN(source_, OpenModelSource(env_, path_, io_));
    }
    return source_.get();
  }

 private:
  Env& env_;
  const std::string path_;
  const Io io_;
  std::unique_ptr<ModelSource> source_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_FOUND_MODEL_H_
