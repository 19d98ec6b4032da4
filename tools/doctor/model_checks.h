// Checks one model for lectern-doctor: whether its files are sound, what a document of it needs,
// and how fast it will be on this machine.
#ifndef LECTERN_TOOLS_DOCTOR_MODEL_CHECKS_H_
#define LECTERN_TOOLS_DOCTOR_MODEL_CHECKS_H_

#include <cstdint>
#include <string>

#include "engine/model/model.h"
#include "tools/doctor/findings.h"
#include "tools/doctor/machine.h"

namespace lectern::doctor {

struct ModelQuestion {
  std::string model;          // a folder, a GGUF file, or a name of Ollama's
  std::string ollama_models;  // the folder of Ollama's models; empty: there is none
  std::string chat_template;  // empty: the model's own
  WeightsType weights = WeightsType::kStored;
  Io io = Io::kMmap;
  uint64_t tokens = 0;     // of the document; 0: 32,768, or 7/8 of the model's context if less
  uint64_t free_disk = 0;  // bytes, where documents would lie
  Memory memory = {};      // what this process may still take
};

// Returns what was found, in the order in which it is printed: model, context, tokenizer, its test,
// chat template, weights, assumptions, needs, kernel test, weights test, reading, speed. A check
// that fails so that no later one can run ends the list, with its error as the last finding; wrong
// kernels and a wrong chat template do not end it. Lines that do not apply are left out.
//
// Loads the first layer to test and time it; where reading all layers takes no more than a minute
// and fits into memory, loads all, to look at every weight and to see whether the model reads
// English. A trial document is written into a temporary folder, which is removed. Takes seconds to
// minutes. Uses all of `threads`. `backend` must be one that runs on this machine.
Findings CheckModel(Env& env, const ModelQuestion& question, const Backend& backend,
                    ThreadPool& threads);

}  // namespace lectern::doctor

#endif  // LECTERN_TOOLS_DOCTOR_MODEL_CHECKS_H_
