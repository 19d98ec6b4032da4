// Estimates for lectern-doctor how fast a model will index and answer on this machine, from a trial
// of some seconds with a short document and some of the model's layers.
#ifndef LECTERN_TOOLS_DOCTOR_SPEED_TRIAL_H_
#define LECTERN_TOOLS_DOCTOR_SPEED_TRIAL_H_

#include <cstdint>
#include <string>

#include "engine/model/model.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"
#include "tools/doctor/findings.h"

namespace lectern::doctor {

// Parts of the work, each measured alone for about a quarter of a second.
struct Probe {
  double layer_of_many = 0;  // seconds per token of one layer's products, 128 tokens at once
  double layer_of_one = 0;   // seconds of one layer's products for one token alone
  double output = 0;         // seconds of the output matrix for one token
  double attention = 0;      // cost of an operation of attention, over one of products at once
};
// Measures the first layer; the model needs no others. Takes about a second, longer where two runs
// of a part do; uses all of `threads` and 48 MiB of memory beside the layer's.
Probe MeasureLayer(const Model& model, const Backend& backend, ThreadPool& threads);

// The model and the document whose speed is asked for.
struct SpeedQuestion {
  Env& env;
  std::string path;      // of the model, as Model::Load takes it
  ModelOptions options;  // to load it with
  ModelConfig config;    // of all layers
  uint64_t tokens;       // of the document
  double layer_bytes;    // of the matrices of one layer, as they are multiplied
};
// Length of the question that speeds are told for.
inline constexpr uint64_t kQuestionTokens = 64;

// The line "speed": seconds to index, seconds until an answer begins (for the first question and
// for later ones), and tokens a second of an answer. It indexes a document of a little more than
// the least length that is clustered (or of as many tokens as are asked about, if fewer) with as
// many of the model's first layers as take a few seconds, asks it, and extrapolates to all layers
// and tokens. The temporary folder is removed. Where even two layers would take longer than 20 s,
// or the trial fails, the estimate is made from `probe` alone, which holds most of a large model's
// time. Always kOk; the JSON says how the estimate was made, and why there was no trial.
Finding EstimateSpeed(const SpeedQuestion& question, const Probe& probe, const Backend& backend,
                      ThreadPool& threads);

}  // namespace lectern::doctor

#endif  // LECTERN_TOOLS_DOCTOR_SPEED_TRIAL_H_
