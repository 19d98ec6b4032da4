// The numeric steps of the centroid lookup, for index/lookup.h: how much attention will each
// cluster of one kv head draw?
//
//   S_i = mean_r  exp(s_ri - LSE_r),   s_ri = scale * q_r . C_i,   LSE_r = log sum_j N_j exp(s_rj)
//
// Each key is represented by its centroid, so S_i estimates the softmax weight of one key of
// cluster i, and sum_i N_i S_i == 1. Source: Hooper et al. 2024 (Squeezed Attention),
// arXiv:2411.09688, section 3. Three differences: the query rows span the whole query group (GQA);
// everything goes through log-sum-exp, because exp of a raw logit may overflow; and the denominator
// may hold mass of keys outside these clusters (a rejected parent level). The steps are separate
// functions because a hierarchical lookup needs them for parts of a level. They cannot fail and
// allocate nothing; matching shapes are asserted only. n may be 0. Results for NaN are undefined
// where nothing is said. "Within" tells how far a fast version may be from the definition.
#ifndef LECTERN_KERNELS_CENTROID_SCORES_H_
#define LECTERN_KERNELS_CENTROID_SCORES_H_

#include "kernels/second_order.h"
#include "kernels/types.h"

namespace lectern {

struct KeyLogitsArgs {
  Rows<const float> queries;  // [R, head_dim]
  TypedRows keys;             // [n, head_dim]; any dtype
  float scale;
  Rows<float> logits;        // out [R, n]: scale * q_r . k_j; its stride may exceed n
  std::span<float> scratch;  // >= AttendScratch(R, head_dim) floats
};
// Logits of keys or centroids, without softcap. Each one is a sum over head_dim, independent of the
// other rows and keys.
void KeyLogitsScalar(const KeyLogitsArgs& args);  // the definition; sums in double
void KeyLogitsSimd(const KeyLogitsArgs& args);    // within 1e-5 * scale * |q||k| of it

// Adds to centroids' logits the mass that comes from the spread of their keys
// (kernels/second_order.h).
struct AddSecondOrderArgs {
  Rows<float> logits;            // in/out [R, n]: += LogMeanExp(norm_r sqrt(variance_j), ln N_j)
  std::span<const float> norms;  // [R]: scale * |q_r|
  // [n], >= 0: mean squared distance of a key to its centroid, per dimension.
  std::span<const float> variances;
  std::span<const float> log_counts;  // [n], >= 0: ln N_j
};
void AddSecondOrderScalar(const AddSecondOrderArgs& args);
void AddSecondOrderSimd(const AddSecondOrderArgs& args);  // within 1e-5 relative of what it adds

// Adds the clusters' masses to the denominators LSE_r.
struct AddRowLseArgs {
  Rows<const float> logits;     // [R, n]
  std::span<const float> bias;  // [n]: log N_j; -inf leaves j out
  // [R] in/out: log(exp(lse) + sum_j exp(logits_rj + bias_j)). May be -inf: no mass yet.
  std::span<float> lse;
};
void AddRowLseScalar(const AddRowLseArgs& args);
// Within 1e-5 of it, and two ulps of the largest |logit + bias|.
void AddRowLseSimd(const AddRowLseArgs& args);

// Sums each cluster's share of attention over the query rows.
struct AddScoresArgs {
  Rows<const float> logits;    // [R, n], at most 80 above lse_r
  std::span<const float> lse;  // [R], finite
  std::span<float> scores;     // [n] in/out: += sum_r exp(logits_rj - lse_r). Caller divides by R.
};
void AddScoresScalar(const AddScoresArgs& args);
// Within 1e-5 relative of it, and R * 1e-30: shares below exp(-87) count as 0.
void AddScoresSimd(const AddScoresArgs& args);

// AddScores split in two steps (this one, then AddWeightedRows), for keys whose exponentials are
// needed more than once.
struct ExpRowsArgs {
  Rows<float> logits;                // in/out [R, n]: -> exp(logits_rj - reference_r)
  // [R], finite; a logit more than 80 above it counts as 80, to stay finite.
  std::span<const float> reference;
};
void ExpRowsScalar(const ExpRowsArgs& args);
void ExpRowsSimd(const ExpRowsArgs& args);  // within 1e-5 relative of it, and 1e-30

// Whether any logit reaches (>=) the limit of its row; NaN never does. If none does, their
// exponentials are too small to matter and need not be computed.
struct AnyAtLeastArgs {
  Rows<const float> logits;       // [R, n]
  std::span<const float> limits;  // [R]
};
bool AnyAtLeastScalar(const AnyAtLeastArgs& args);
bool AnyAtLeastSimd(const AnyAtLeastArgs& args);  // the same

// The inverse of ExpRows: masses back to logits.
struct LogRowsArgs {
  Rows<float> masses;                // in/out [R, n], > 0: -> reference_r + log(mass_rj)
  std::span<const float> reference;  // [R]
};
void LogRowsScalar(const LogRowsArgs& args);
void LogRowsSimd(const LogRowsArgs& args);  // within 1e-6 of it, and an ulp

// Sums of masses over ranges of columns, for example over the rows of each cluster.
struct SumSegmentsArgs {
  Rows<const float> masses;         // [R, n]
  std::span<const uint32_t> begin;  // [segments + 1], none below the one before, at most n
  // Out [R, segments]: sum of masses_r[begin_i, begin_{i+1}); 0 for an empty segment.
  Rows<float> sums;
};
void SumSegmentsScalar(const SumSegmentsArgs& args);  // the definition; sums in double
void SumSegmentsSimd(const SumSegmentsArgs& args);    // within 2e-5 relative, masses >= 0

// The inverse direction: copies values of clusters to the rows of each.
struct SpreadValuesArgs {
  Rows<const float> values;           // [R, m]
  std::span<const uint32_t> columns;  // [n], < m, none below the one before
  Rows<float> out;                    // out [R, n]: values_r[columns_j]
};
void SpreadValuesScalar(const SpreadValuesArgs& args);  // the definition
void SpreadValuesSimd(const SpreadValuesArgs& args);    // the same

// Adds the rows of `masses` or of their squares, each times its weight, to `scores`.
struct AddWeightedRowsArgs {
  Rows<const float> masses;        // [R, n]
  std::span<const float> weights;  // [R]
  std::span<float> scores;         // [n] in/out: += sum_r weights_r masses_rj
  // [R], or empty: then sum_r weights_r (scales_r masses_rj)^2 is added instead.
  std::span<const float> scales = {};
};
void AddWeightedRowsScalar(const AddWeightedRowsArgs& args);
void AddWeightedRowsSimd(const AddWeightedRowsArgs& args);  // within 1e-5 relative, both >= 0

struct AssignNearestArgs {
  Rows<const float> points;     // [n, d]
  Rows<const float> centroids;  // [k, d], k >= 1
  // out [n]: argmax_j p . c_j, the lowest j among equals; 0 if all are NaN. Always below k.
  std::span<uint32_t> labels;
  std::span<float> dots;        // out [n]: that product; -inf if all are NaN
  std::span<float> scratch;     // >= AssignScratch(k, d) floats
};
// The assignment step of K-means on unit-length keys: the nearest centroid is the one with the
// largest product. Each product is one ascending sum over d.
size_t AssignScratch(size_t num_centroids, size_t num_cols);  // floats, at any alignment
void AssignNearestScalar(const AssignNearestArgs& args);
// Dots within 1e-5 of it; a label differs only where two dots are equal up to that. Where only some
// of a point's dots are NaN, the definition passes over these; this version may miss the largest.
void AssignNearestSimd(const AssignNearestArgs& args);

}  // namespace lectern

#endif  // LECTERN_KERNELS_CENTROID_SCORES_H_
