#include "kernels/backend.h"

#include <cstdlib>

#include "kernels/amx.h"

namespace lectern {
namespace {

constexpr Backend kScalar = {.name = "scalar",
                             .to_float_rows = ToFloatRowsScalar,
                             .from_float_rows = FromFloatRowsScalar,
                             .matmul = MatMulScalar,
                             .quantise_rows = QuantiseRowsScalar,
                             .packed_matmul = PackedMatMulScalar,
                             .plane_bounds = PlaneBoundsScalar,
                             .rms_norm = RmsNormScalar,
                             .rope = RopeScalar,
                             .glu = GluScalar,
                             .softcap = SoftcapScalar,
                             .attend = AttendScalar,
                             .attend_blocks = AttendBlocksScalar,
                             .attend_logits = AttendLogitsScalar,
                             .key_logits = KeyLogitsScalar,
                             .add_second_order = AddSecondOrderScalar,
                             .add_row_lse = AddRowLseScalar,
                             .add_scores = AddScoresScalar,
                             .exp_rows = ExpRowsScalar,
                             .any_at_least = AnyAtLeastScalar,
                             .log_rows = LogRowsScalar,
                             .sum_segments = SumSegmentsScalar,
                             .spread_values = SpreadValuesScalar,
                             .add_weighted_rows = AddWeightedRowsScalar,
                             .add_sign_logits = AddSignLogitsScalar,
                             .sign_masses = SignMassesScalar,
                             .assign_nearest = AssignNearestScalar};
constexpr Backend kSimd = {.name = "simd",
                           .to_float_rows = ToFloatRowsSimd,
                           .from_float_rows = FromFloatRowsSimd,
                           .matmul = MatMulSimd,
                           .quantise_rows = QuantiseRowsSimd,
                           .packed_matmul = PackedMatMulSimd,
                           .plane_bounds = PlaneBoundsSimd,
                           .rms_norm = RmsNormSimd,
                           .rope = RopeSimd,
                           .glu = GluSimd,
                           .softcap = SoftcapSimd,
                           .attend = AttendSimd,
                           .attend_blocks = AttendBlocksSimd,
                           .attend_logits = AttendLogitsSimd,
                           .key_logits = KeyLogitsSimd,
                           .add_second_order = AddSecondOrderSimd,
                           .add_row_lse = AddRowLseSimd,
                           .add_scores = AddScoresSimd,
                           .exp_rows = ExpRowsSimd,
                           .any_at_least = AnyAtLeastSimd,
                           .log_rows = LogRowsSimd,
                           .sum_segments = SumSegmentsSimd,
                           .spread_values = SpreadValuesSimd,
                           .add_weighted_rows = AddWeightedRowsSimd,
                           .add_sign_logits = AddSignLogitsSimd,
                           .sign_masses = SignMassesSimd,
                           .assign_nearest = AssignNearestSimd};

// kSimd with the products of AMX, which have the same bits.
constexpr Backend WithAmx(Backend backend) {
  backend.name = "amx";
  backend.packed_matmul = PackedMatMulAmx;
  return backend;
}
constexpr Backend kBackends[] = {kScalar, kSimd, WithAmx(kSimd)};

}  // namespace

std::span<const Backend> AvailableBackends() {
  return std::span(kBackends).first(std::size(kBackends) - (HasAmx() ? 0 : 1));
}

const Backend* FindBackend(std::string_view name) {
  for (const Backend& backend : AvailableBackends()) {
    if (name == backend.name) return &backend;
  }
  return nullptr;
}

const Backend* DefaultBackend() {
  const char* forced = std::getenv("LECTERN_BACKEND");
  if (forced == nullptr || *forced == '\0') return &AvailableBackends().back();
  return FindBackend(forced);
}

}  // namespace lectern
