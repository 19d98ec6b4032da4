// Reads from a model's configuration how its queries and keys are rotated (RoPE). config.cc uses
// it.
#ifndef LECTERN_ENGINE_MODEL_WEIGHTS_CONFIG_ROPE_H_
#define LECTERN_ENGINE_MODEL_WEIGHTS_CONFIG_ROPE_H_

#include "engine/model/weights/architecture.h"
#include "engine/model/weights/config_fields.h"

namespace lectern {

// `root`: the object that has `top`'s fields. Writes config->rope and local_rope, and stretches
// max_positions where the recipe reaches further; its other fields have been read. Errors of
// ConfigFields.
Status ReadRope(const Json& root, const ConfigFields& top, const ConfigFile& file,
                const Architecture& architecture, ModelConfig* config);
// Raises max_positions to what the RoPE recipes reach where config.json names less: reaching
// further is what these recipes are for.
void StretchPositions(ModelConfig* config);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_WEIGHTS_CONFIG_ROPE_H_
