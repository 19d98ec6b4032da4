// Reads from a model's configuration how its queries and keys are rotated (RoPE). config.cc uses
// it.
#ifndef LECTERN_ENGINE_MODEL_WEIGHTS_CONFIG_ROPE_H_
#define LECTERN_ENGINE_MODEL_WEIGHTS_CONFIG_ROPE_H_

#include "engine/model/weights/architecture.h"
#include "engine/model/weights/config_fields.h"

namespace lectern {

// Reads both recipes into config->rope and local_rope. It needs head_dim, max_positions and
// partial_rotary of `config`, and comes before StretchPositions. `root`: the object that has
// `top`'s fields. Errors of ConfigFields; kUnsupportedModel: a kind of recipe that rope.h does not
// know.
Status ReadRope(const Json& root, const ConfigFields& top, const ConfigFile& file,
                const Architecture& architecture, ModelConfig* config);
// Raises max_positions to what a dynamic or YaRN recipe reaches, at most kMaxPositions, where
// config.json names less: reaching further is what these recipes are for.
void StretchPositions(ModelConfig* config);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_WEIGHTS_CONFIG_ROPE_H_
