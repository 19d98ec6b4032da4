// A change of coordinates of one kv head in which codes of its keys say most about its logits.
//
// Codes of keys spread their error evenly over all directions, and a logit sees an error only along
// its query. Queries of a real head are far from even: those of Gemma 3 lie where its keys hardly
// vary, and codes in plain coordinates spend nearly all of their precision elsewhere. With any
// invertible A a logit is
//     q . k  =  (M q) . (A k),            M = A^-T,
// so keys are coded as A k and queries meet the codes as M q. The mean squared error of a logit is
// in proportion to tr(M S M^T) tr(A R A^T), with S the second moments of the queries and R those of
// the keys' residuals to their centroids. The least such product is (tr (S^1/2 R S^1/2)^1/2)^2; it
// is reached where A^T A is the geometric mean of S and R^-1. Both M q and A r then have the same
// second moments. Ours; the codes are those of RaBitQ (index/row_codes.h), which takes A = 1.
//
// Measured on Gemma 3 270M, SmolLM2-135M and the bundled reader: tools/evaluate/RESULTS.md.
#ifndef LECTERN_INDEX_QUERY_METRIC_H_
#define LECTERN_INDEX_QUERY_METRIC_H_

#include <optional>
#include <span>
#include <vector>

#include "kernels/types.h"

namespace lectern {

// Symmetric positive matrices are [dim, dim], row-major, of double.
using SquareMatrix = std::vector<double>;

// sum_i rows_i rows_i^T / n of rows [n, dim], n >= 1.
SquareMatrix SecondMoments(Rows<const float> rows);

// (1 - share) S + share * (mean eigenvalue of S) * 1: few rows say little about most directions,
// and some about none. nullopt: S has no positive finite trace, as of rows that are all 0, or a
// number of the result is not finite.
std::optional<SquareMatrix> Shrunk(SquareMatrix moments, size_t dim, double share);

// The share for Shrunk, for moments of `num_rows` >= 1 rows: dim / (16 num_rows), within [0.05, 1].
// Errors of attention on Gemma 3 and SmolLM2 are flat from 0.02 to 0.15
// (tools/evaluate/RESULTS.md), so neither number matters much.
double ShrinkageOf(size_t num_rows, size_t dim);

// Lower triangular L with L L^T = `matrix`, or nullopt where it is not positive definite.
std::optional<SquareMatrix> Cholesky(const SquareMatrix& matrix, size_t dim);

// Immutable and thread-safe. M is rounded to f16, as it is stored, and A is the transposed inverse
// of the rounded M: products of changed queries and keys are those of the queries and keys.
class QueryMetric {
 public:
  // The number of f16 that M is stored as: its lower triangle, row by row.
  static constexpr size_t StoredSize(size_t dim) { return dim * (dim + 1) / 2; }

  // The best one for queries of second moments `queries` and residuals of second moments
  // `residuals`, both positive definite (as Shrunk leaves them). nullopt: numbers that are too far
  // apart for it; the plain coordinates are then as good as any.
  static std::optional<QueryMetric> Make(const SquareMatrix& queries, const SquareMatrix& residuals,
                                         size_t dim);
  // The metric with this M, as Stored gives it. nullopt: the size is not StoredSize(dim), a number
  // is not finite, or a 0 is on the diagonal, which makes M singular.
  static std::optional<QueryMetric> FromStored(std::span<const f16> stored, size_t dim);

  size_t dim() const { return dim_; }
  std::vector<f16> Stored() const;  // FromStored makes the same metric of it

  // M, [dim, dim], for products with many queries: M q of each is key_logits
  // (kernels/centroid_scores.h) with a scale of 1.
  TypedRows rows() const {
    return {reinterpret_cast<const std::byte*>(rows_.data()), Dtype::kF32, dim_, dim_};
  }
  // In place, A key; key: [dim], in double because the inverse of M may be steep.
  void OfKey(std::span<double> key) const;

 private:
  QueryMetric() = default;
  size_t dim_ = 0;
  std::vector<float> rows_;  // M, [dim_, dim_]; zeros above the diagonal
};

}  // namespace lectern

#endif  // LECTERN_INDEX_QUERY_METRIC_H_
