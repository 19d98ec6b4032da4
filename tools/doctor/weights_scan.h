// Checks, row by row, whether the values of a model's weights look like weights.
#ifndef LECTERN_TOOLS_DOCTOR_WEIGHTS_SCAN_H_
#define LECTERN_TOOLS_DOCTOR_WEIGHTS_SCAN_H_

#include "engine/model/model.h"
#include "kernels/thread_pool.h"
#include "tools/doctor/findings.h"

namespace lectern::doctor {

// Looks at every matrix of all layers. Fails where a value is not finite, and warns where the
// largest value of a row is far beyond those of the matrix's other rows: a damaged file has such
// rows, which need not show in what the model says.
Finding ScanWeights(const Model& model, ThreadPool& threads);

}  // namespace lectern::doctor

#endif  // LECTERN_TOOLS_DOCTOR_WEIGHTS_SCAN_H_
