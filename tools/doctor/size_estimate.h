// Estimates for lectern-doctor what a model needs, from its config.json alone: so that one can ask
// before gigabytes are downloaded.
#ifndef LECTERN_TOOLS_DOCTOR_SIZE_ESTIMATE_H_
#define LECTERN_TOOLS_DOCTOR_SIZE_ESTIMATE_H_

#include "engine/model/weights/config.h"
#include "kernels/thread_pool.h"
#include "tools/doctor/findings.h"

namespace lectern::doctor {

// The line "size": parameters, all and those that a token is multiplied with; bytes of the weights
// as BF16 files have them, and packed as --weights q8 and q4 map them; bytes of keys and values
// (f16) of a document's token; tokens a second of an answer whose weights are in memory, at the
// speed at which `threads` read memory here, which bounds it. Takes about half a second and 256 MB
// of memory.
Finding EstimateSize(const ModelConfig& config, ThreadPool& threads);

}  // namespace lectern::doctor

#endif  // LECTERN_TOOLS_DOCTOR_SIZE_ESTIMATE_H_
