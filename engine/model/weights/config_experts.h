// Reads from a model's configuration which experts its layers have. config.cc uses it.
#ifndef LECTERN_ENGINE_MODEL_WEIGHTS_CONFIG_EXPERTS_H_
#define LECTERN_ENGINE_MODEL_WEIGHTS_CONFIG_EXPERTS_H_

#include "engine/model/weights/architecture.h"
#include "engine/model/weights/config_fields.h"

namespace lectern {

// Reads config->experts, where the architecture has them. It needs num_layers and intermediate_size
// of `config`. `has_defaults`: absent counts are the class's; else they must be there. Errors of
// ConfigFields.
Status ReadExperts(const ConfigFields& fields, const Architecture& architecture, bool has_defaults,
                   ModelConfig* config);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_WEIGHTS_CONFIG_EXPERTS_H_
