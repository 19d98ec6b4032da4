// Plans which tensors a model must have, and checks that files hold them and no other that would
// change the result. Weights uses it.
#ifndef LECTERN_ENGINE_MODEL_WEIGHTS_WEIGHT_PLAN_H_
#define LECTERN_ENGINE_MODEL_WEIGHTS_WEIGHT_PLAN_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/formats/tensor_files.h"
#include "engine/model/weights/config.h"
#include "engine/model/weights/weights.h"
#include "kernels/packed_rows.h"

namespace lectern {

inline constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
inline constexpr std::string_view kFinalNorm = "model.norm.weight";
inline constexpr std::string_view kOutput = "lm_head.weight";
// The part of a layer that scores its experts. Its matrix is never packed (LayerWeights::router).
inline constexpr std::string_view kRouter = "mlp.gate";

// Every tensor that a model needs, with its shape.
using WeightPlan = std::map<std::string, std::vector<uint64_t>>;

// "model.layers.<layer>.<part>.<kind>", transformers' name of a tensor of a layer.
std::string LayerName(size_t layer, std::string_view part, std::string_view kind = "weight");
// "mlp.experts.<expert>.<part>"
std::string ExpertPart(size_t expert, std::string_view part);
// Whether a tensor is of one of the experts among which a router chooses.
bool IsOfExpert(std::string_view name);
// The name of the norm before the MLP. Gemma calls it by another one, because its norm after
// attention has the usual name.
std::string_view MlpNorm(const ModelConfig& config);

// Lists the tensors that a model of this configuration must have, with their shapes.
WeightPlan MakeWeightPlan(const ModelConfig& config);

// Returns how a matrix is packed; none: it is used as it lies. Blocks keep their values whatever
// `type` says. The matrix that gives the logits has planes where it is q8, so that a token that is
// drawn from few logits reads half of it (engine/forward/output_head.h).
std::optional<PackedType> PackingOf(std::string_view name, TensorType stored, WeightsType type,
                                    const ModelConfig& config);

// All checks, those first whose message says most. kMalformedModel: a tensor is missing or has
// another shape. kUnsupportedModel: a type, rows that are not whole groups, or a tensor that is not
// in the plan.
Status CheckWeights(const WeightPlan& plan, const TensorFiles& all, const ModelConfig& config,
                    WeightsType type);

// Whether a tensor belongs to images, sound or the prediction of further tokens.
bool IsOfOtherParts(std::string_view name, const ModelConfig& config);
// Whether a tensor is a table that follows from the configuration.
bool IsTable(std::string_view name);
// Whether a tensor changes nothing: a bias whose values are all 0, or a scale whose one value is 1.
// It reads the tensor, if it is small. kTruncated, kIoError.
Result<bool> IsNeutral(std::string_view name, const TensorFiles::Tensor& tensor,
                       const TensorFiles& all);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_WEIGHTS_WEIGHT_PLAN_H_
