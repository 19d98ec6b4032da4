#include "index/query_metric.h"

#include <algorithm>
#include <cmath>

namespace lectern {
namespace {

// Loops go along rows, so that a compiler keeps them in vectors: with [256, 256] matrices, as wide
// heads have, these functions are most of what a metric costs.

// Upper triangular U with U^T U = `matrix`, which it replaces; false: it is not positive definite.
bool FactorInPlace(SquareMatrix& matrix, size_t dim) {
  for (size_t k = 0; k < dim; ++k) {
    double* const pivot = &matrix[k * dim];
    if (!(pivot[k] > 0) || !std::isfinite(pivot[k])) return false;
    const double scale = 1 / std::sqrt(pivot[k]);
    for (size_t j = k; j < dim; ++j) pivot[j] *= scale;
    for (size_t i = k + 1; i < dim; ++i) {
      double* const row = &matrix[i * dim];
      const double factor = pivot[i];
      for (size_t j = i; j < dim; ++j) row[j] -= factor * pivot[j];
    }
    std::fill_n(pivot, k, 0.0);
  }
  return true;
}

// Inverse of the lower triangular `lower`, itself lower triangular.
SquareMatrix InverseOfLower(const SquareMatrix& lower, size_t dim) {
  SquareMatrix inverse(dim * dim);
  for (size_t i = 0; i < dim; ++i) {
    // Row i: (unit row i - sum_{j < i} lower_ij * row j of the inverse) / lower_ii.
    double* const row = &inverse[i * dim];
    for (size_t j = 0; j < i; ++j) {
      const double factor = lower[i * dim + j];
      const double* const other = &inverse[j * dim];
      for (size_t c = 0; c <= j; ++c) row[c] -= factor * other[c];
    }
    row[i] = 1;
    const double scale = 1 / lower[i * dim + i];
    for (size_t c = 0; c <= i; ++c) row[c] *= scale;
  }
  return inverse;
}

void MirrorLower(SquareMatrix& matrix, size_t dim) {
  for (size_t i = 0; i < dim; ++i) {
    for (size_t j = 0; j < i; ++j) matrix[j * dim + i] = matrix[i * dim + j];
  }
}

// Inverse of a positive definite matrix: L^-T L^-1.
std::optional<SquareMatrix> Inverse(const SquareMatrix& matrix, size_t dim) {
  const std::optional<SquareMatrix> lower = Cholesky(matrix, dim);
  if (!lower) return std::nullopt;
  const SquareMatrix inverse = InverseOfLower(*lower, dim);
  SquareMatrix result(dim * dim);
  for (size_t k = 0; k < dim; ++k) {
    const double* const row = &inverse[k * dim];
    for (size_t i = 0; i <= k; ++i) {
      double* const out = &result[i * dim];
      const double factor = row[i];
      for (size_t j = 0; j <= i; ++j) out[j] += factor * row[j];
    }
  }
  MirrorLower(result, dim);
  return result;
}

double Trace(const SquareMatrix& matrix, size_t dim) {
  double trace = 0;
  for (size_t i = 0; i < dim; ++i) trace += matrix[i * dim + i];
  return trace;
}

// The geometric mean of two positive definite matrices, as the common limit of their arithmetic and
// harmonic means, taken again and again (Ando, 1978). It converges quadratically once both are
// near: a ratio of eigenvalues of 10^8 takes some 16 steps.
std::optional<SquareMatrix> GeometricMean(SquareMatrix a, SquareMatrix b, size_t dim) {
  constexpr int kMostSteps = 60;  // a guard, several times the steps above
  constexpr double kNear = 1e-6;  // the result is stored as f16, which has three digits
  for (int step = 0; step < kMostSteps; ++step) {
    std::optional<SquareMatrix> inverse_a = Inverse(a, dim), inverse_b = Inverse(b, dim);
    if (!inverse_a || !inverse_b) return std::nullopt;
    double difference = 0, size = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      difference += (a[i] - b[i]) * (a[i] - b[i]);
      size += a[i] * a[i];
      a[i] = (a[i] + b[i]) / 2;
      (*inverse_a)[i] = ((*inverse_a)[i] + (*inverse_b)[i]) / 2;
    }
    if (!std::isfinite(size)) return std::nullopt;
    if (difference <= kNear * kNear * size) return a;
    std::optional<SquareMatrix> harmonic = Inverse(*inverse_a, dim);
    if (!harmonic) return std::nullopt;
    b = *std::move(harmonic);
  }
  return a;
}

}  // namespace

SquareMatrix SecondMoments(Rows<const float> rows) {
  const size_t dim = rows.num_cols;
  SquareMatrix moments(dim * dim);
  for (size_t r = 0; r < rows.num_rows; ++r) {
    const float* const x = rows[r];
    for (size_t i = 0; i < dim; ++i) {
      const double factor = x[i];
      double* const row = &moments[i * dim];
      for (size_t j = 0; j <= i; ++j) row[j] += factor * x[j];
    }
  }
  for (size_t i = 0; i < dim; ++i) {
    for (size_t j = 0; j <= i; ++j) moments[i * dim + j] /= static_cast<double>(rows.num_rows);
  }
  MirrorLower(moments, dim);
  return moments;
}

std::optional<SquareMatrix> Shrunk(SquareMatrix moments, size_t dim, double share) {
  const double mean = Trace(moments, dim) / static_cast<double>(dim);
  if (!(mean > 0) || !std::isfinite(mean)) return std::nullopt;
  for (size_t i = 0; i < dim; ++i) {
    for (size_t j = 0; j < dim; ++j) {
      double& value = moments[i * dim + j];
      value = (1 - share) * value + (i == j ? share * mean : 0);
      if (!std::isfinite(value)) return std::nullopt;
    }
  }
  return moments;
}

double ShrinkageOf(size_t num_rows, size_t dim) {
  constexpr double kLeast = 0.05;
  const double few = static_cast<double>(dim) / (16 * static_cast<double>(num_rows));
  return std::clamp(few, kLeast, 1.0);
}

std::optional<SquareMatrix> Cholesky(const SquareMatrix& matrix, size_t dim) {
  SquareMatrix upper = matrix;
  if (!FactorInPlace(upper, dim)) return std::nullopt;
  SquareMatrix lower(dim * dim);
  for (size_t i = 0; i < dim; ++i) {
    for (size_t j = 0; j <= i; ++j) lower[i * dim + j] = upper[j * dim + i];
  }
  return lower;
}

std::optional<QueryMetric> QueryMetric::Make(const SquareMatrix& queries,
                                             const SquareMatrix& residuals, size_t dim) {
  // Neither size matters: M and A are scaled against each other. At a trace of `dim` both are
  // near 1.
  SquareMatrix s = queries, r = residuals;
  const double query_scale = static_cast<double>(dim) / Trace(s, dim);
  const double residual_scale = static_cast<double>(dim) / Trace(r, dim);
  for (double& value : s) value *= query_scale;
  for (double& value : r) value *= residual_scale;
  std::optional<SquareMatrix> inverse = Inverse(r, dim);
  if (!inverse) return std::nullopt;
  const std::optional<SquareMatrix> metric = GeometricMean(std::move(s), *std::move(inverse), dim);
  if (!metric) return std::nullopt;
  const std::optional<SquareMatrix> lower = Cholesky(*metric, dim);  // A = lower^T
  if (!lower) return std::nullopt;
  const SquareMatrix m = InverseOfLower(*lower, dim);
  double largest = 0;
  for (const double value : m) largest = std::max(largest, std::abs(value));
  if (!(largest > 0) || !std::isfinite(largest)) return std::nullopt;
  std::vector<f16> stored;
  stored.reserve(StoredSize(dim));
  for (size_t i = 0; i < dim; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      // The largest number becomes 64, so that small ones stay clear of f16's subnormal numbers.
      stored.push_back(ToF16(static_cast<float>(m[i * dim + j] / largest * 64)));
    }
  }
  return FromStored(stored, dim);
}

std::optional<QueryMetric> QueryMetric::FromStored(std::span<const f16> stored, size_t dim) {
  if (stored.size() != StoredSize(dim)) return std::nullopt;
  QueryMetric metric;
  metric.dim_ = dim;
  metric.rows_.assign(dim * dim, 0.0f);
  const f16* next = stored.data();
  for (size_t i = 0; i < dim; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      const float value = ToFloat(*next++);
      if (!std::isfinite(value) || (i == j && value == 0)) return std::nullopt;
      metric.rows_[i * dim + j] = value;
    }
  }
  return metric;
}

std::vector<f16> QueryMetric::Stored() const {
  std::vector<f16> stored;
  stored.reserve(StoredSize(dim_));
  for (size_t i = 0; i < dim_; ++i) {
    for (size_t j = 0; j <= i; ++j) stored.push_back(ToF16(rows_[i * dim_ + j]));
  }
  return stored;
}

// M^T x = key, from the last dimension to the first.
void QueryMetric::OfKey(std::span<double> key) const {
  for (size_t i = dim_; i-- > 0;) {
    const float* const row = &rows_[i * dim_];
    const double x = key[i] / row[i];
    key[i] = x;
    for (size_t j = 0; j < i; ++j) key[j] -= x * row[j];
  }
}

}  // namespace lectern
