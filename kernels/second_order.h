// Estimates how much attention mass a cluster holds beyond its centroid's share, from the variance
// of its keys. The lookup and the tail use it to rank and to weigh clusters whose keys they do not
// read.
#ifndef LECTERN_KERNELS_SECOND_ORDER_H_
#define LECTERN_KERNELS_SECOND_ORDER_H_

#include <cmath>
#include <span>

namespace lectern {

// Euclidean length of x, summed in double.
inline float Norm(std::span<const float> x) {
  double squares = 0;
  for (const float value : x) squares += double{value} * value;
  return static_cast<float>(std::sqrt(squares));
}

// The number of deviations, sqrt(2 ln N), by which the largest of N draws of a normal distribution
// lies above their mean, nearly. `log_count` = ln N >= 0; 0 for one key.
inline float MostDeviations(float log_count) { return std::sqrt(2 * log_count); }

// LogMeanExp = log(1/N sum_i exp(x_i)) minus the mean of the x_i, for N logits of standard
// deviation `deviation` that are taken as draws of a normal distribution. While many draws share
// the sum, it is deviation^2 / 2, the second cumulant. From deviation = sqrt(2 ln N) on the largest
// draw alone carries the sum; it lies about sqrt(2 ln N) deviations above the mean, which gives the
// second formula (free energy of the random energy model: Derrida, Phys. Rev. B 24, 2613, 1981).
// Both branches and their slopes agree where they meet. A key's logit differs from its centroid's
// by scale * q . (k - C). Its deviation is scale * |q| * sqrt(variance) if the cluster is equally
// wide in every direction.
//
// For clusters of a few keys the formula overestimates the mean of such draws by up to 0.65
// deviations. Correcting for it (using 0.8 of the deviation) gave slightly worse answers (KL 0.003
// instead of 0.0007 at a budget of 0.05). The second cumulant alone is no alternative: for the
// sharp queries that matter it grows far beyond what N keys can hold, and no answer was right with
// it.
//
// Needs deviation >= 0, log_count = ln N >= 0 and largest = MostDeviations(log_count). 0 for one
// key.
inline float LogMeanExp(float deviation, float log_count, float largest) {
  return deviation < largest ? deviation * deviation / 2 : deviation * largest - log_count;
}
inline float LogMeanExp(float deviation, float log_count) {
  return LogMeanExp(deviation, log_count, MostDeviations(log_count));
}

// The square of the deviation whose LogMeanExp is `log_mean_exp` >= 0. Needs log_count > 0. The
// second branch, (log_mean_exp + log_count)^2 / (2 log_count), differs from the first by the term
// that is 0 there.
inline float SquaredDeviation(float log_mean_exp, float log_count) {
  const float over = log_mean_exp > log_count ? log_mean_exp - log_count : 0.0f;
  return 2 * log_mean_exp + over * over / (2 * log_count);
}

}  // namespace lectern

#endif  // LECTERN_KERNELS_SECOND_ORDER_H_
