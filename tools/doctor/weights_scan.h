// Looks at every row of a model's weights for values that no sound file has, for lectern-doctor.
#ifndef LECTERN_TOOLS_DOCTOR_WEIGHTS_SCAN_H_
#define LECTERN_TOOLS_DOCTOR_WEIGHTS_SCAN_H_

#include "engine/model/model.h"
#include "kernels/thread_pool.h"
#include "tools/doctor/findings.h"

namespace lectern::doctor {

// Looks at every matrix of all layers, the embedding and the output. Fails (kMalformedModel) where
// a value is not finite. Warns where the largest value of a row is more than 100 times that of the
// matrix's median row: damage to a file makes such rows, and the model's answers need not show it.
// `model` must have all of its layers. Reads every weight once, with all of `threads`; packed
// weights are judged by their scales and minima. Norms and biases are not looked at.
Finding ScanWeights(const Model& model, ThreadPool& threads);

}  // namespace lectern::doctor

#endif  // LECTERN_TOOLS_DOCTOR_WEIGHTS_SCAN_H_
