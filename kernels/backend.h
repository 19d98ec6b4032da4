// The table of kernels that this machine can run: one struct of function pointers for each backend,
// and the choice of the default one. Rooms above reach the fast versions through it.
#ifndef LECTERN_KERNELS_BACKEND_H_
#define LECTERN_KERNELS_BACKEND_H_

#include <string_view>

#include "kernels/attention.h"
#include "kernels/centroid_scores.h"
#include "kernels/convert.h"
#include "kernels/glu.h"
#include "kernels/matmul.h"
#include "kernels/packed_matmul.h"
#include "kernels/packed_planes.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/sign_logits.h"
#include "kernels/softcap.h"

namespace lectern {

// One entry per operation; the operation's Args struct says shapes and preconditions. "scalar" is
// the definition, "simd" its fast version within the error that the operation's header states;
// "amx" is "simd" with the products of Intel's AMX, which have the same bits. No operation fails,
// allocates, locks or keeps a pointer after it returns. Shapes are checked by assertions alone.
// Threads may call at once, on outputs and scratch that do not overlap.
struct Backend {
  const char* name;  // "scalar", "simd", "amx"; lives forever
  void (*to_float_rows)(TypedRows, Rows<float>);
  void (*from_float_rows)(Rows<const float>, Dtype, std::byte*);
  void (*matmul)(const MatMulArgs&);
  void (*quantise_rows)(const QuantiseRowsArgs&);
  void (*packed_matmul)(const PackedMatMulArgs&);
  void (*plane_bounds)(const PlaneBoundsArgs&);
  void (*rms_norm)(const RmsNormArgs&);
  void (*rope)(const RopeArgs&);
  void (*glu)(const GluArgs&);
  void (*softcap)(const SoftcapArgs&);
  void (*attend)(const AttendArgs&);
  void (*attend_blocks)(const AttendBlocksArgs&);
  void (*attend_logits)(const AttendLogitsArgs&);
  void (*key_logits)(const KeyLogitsArgs&);
  void (*add_second_order)(const AddSecondOrderArgs&);
  void (*add_row_lse)(const AddRowLseArgs&);
  void (*add_scores)(const AddScoresArgs&);
  void (*exp_rows)(const ExpRowsArgs&);
  bool (*any_at_least)(const AnyAtLeastArgs&);
  void (*log_rows)(const LogRowsArgs&);
  void (*sum_segments)(const SumSegmentsArgs&);
  void (*spread_values)(const SpreadValuesArgs&);
  void (*add_weighted_rows)(const AddWeightedRowsArgs&);
  void (*add_sign_logits)(const AddSignLogitsArgs&);
  void (*sign_masses)(const SignMassesArgs&);
  void (*assign_nearest)(const AssignNearestArgs&);
};

// Bounds logits in place as the model does (softcap.h). A cap of 0 or below means that the model
// has none; the logits then stay as they are.
inline void Softcap(const Backend& backend, Rows<float> logits, float cap) {
  if (cap > 0) backend.softcap({.logits = logits, .cap = cap});
}

// All backends that this machine can run, slowest ("scalar") first. Thread-safe; the span lives
// forever.
std::span<const Backend> AvailableBackends();
// The fastest backend, or the one that the environment variable LECTERN_BACKEND names (empty: as if
// not set); nullptr when it names an unknown one. Reads the variable at each call.
const Backend* DefaultBackend();
// The backend of exactly this name, or nullptr. Lives forever.
const Backend* FindBackend(std::string_view name);
// The instruction set that "simd" dispatches to on this machine, e.g. "AVX2". Lives forever.
const char* SimdTarget();

}  // namespace lectern

#endif  // LECTERN_KERNELS_BACKEND_H_
