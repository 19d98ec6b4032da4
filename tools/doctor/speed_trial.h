// Estimates how fast a model will be here, from a trial with some of its layers.
#ifndef LECTERN_TOOLS_DOCTOR_SPEED_TRIAL_H_
#define LECTERN_TOOLS_DOCTOR_SPEED_TRIAL_H_

#include <cstdint>
#include <string>

#include "engine/model/model.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"
#include "tools/doctor/findings.h"

namespace lectern::doctor {

// Parts of the work, each measured alone for a quarter of a second.
struct Probe {
  double layer_of_many = 0;  // seconds of a layer's products, for each of many tokens at once
  double layer_of_one = 0;   // for one token
  double output = 0;         // of the output matrix, for one token
  double attention = 0;      // seconds of attention over one of products, for as many operations
};
// `model`: its first layer is enough.
Probe MeasureLayer(const Model& model, const Backend& backend, ThreadPool& threads);

struct SpeedQuestion {
  Env& env;
  std::string path;      // of the model
  ModelOptions options;  // to load it with
  ModelConfig config;    // of all layers
  uint64_t tokens;       // of the document
  double layer_bytes;    // of the matrices of one layer
};
inline constexpr uint64_t kQuestionTokens = 64;

// Indexes a document of at least 2,048 tokens (or as many as are asked about) with as many of the
// model's first layers as take a few seconds, in a temporary folder that is removed, and asks it.
// Where even two layers would take long, or no folder can be made, what was probed must do; large
// models spend nearly all of their time in it.
Finding EstimateSpeed(const SpeedQuestion& question, const Probe& probe, const Backend& backend,
                      ThreadPool& threads);

}  // namespace lectern::doctor

#endif  // LECTERN_TOOLS_DOCTOR_SPEED_TRIAL_H_
