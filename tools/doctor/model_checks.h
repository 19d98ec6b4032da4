// Finds what one model is, what it needs, and how fast it will be here.
#ifndef LECTERN_TOOLS_DOCTOR_MODEL_CHECKS_H_
#define LECTERN_TOOLS_DOCTOR_MODEL_CHECKS_H_

#include <cstdint>
#include <string>

#include "engine/model/model.h"
#include "tools/doctor/findings.h"
#include "tools/doctor/machine.h"

namespace lectern::doctor {

struct ModelQuestion {
  std::string model;          // path, or a name of Ollama's
  std::string ollama_models;  // where those are
  std::string chat_template;  // empty: the model's own
  WeightsType weights = WeightsType::kStored;
  Io io = Io::kMmap;
  uint64_t tokens = 0;     // of the document; 0: 32,768, or fewer where the model's context is shorter
  uint64_t free_disk = 0;  // bytes
  Memory memory = {};
};

// The first layer is tested and probed; where it takes no more than a minute, all layers are read,
// for what they hold and how the model reads. A trial document is written into a temporary folder,
// which is removed.
Findings CheckModel(Env& env, const ModelQuestion& question, const Backend& backend,
                    ThreadPool& threads);

}  // namespace lectern::doctor

#endif  // LECTERN_TOOLS_DOCTOR_MODEL_CHECKS_H_
