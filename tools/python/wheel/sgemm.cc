// The matrix product of BLAS that FAISS's K-means calls, by Eigen: OpenBLAS, which Debian has for
// it, is 36 MB. Compiled once for each instruction set, with KERNEL the name of the function and
// Eigen's namespace renamed, so that no linker takes one's functions for the other's;
// sgemm_dispatch.cc picks.
#include <Eigen/Core>

// C (m x n) = alpha * op(A) (m x k) * op(B) (k x n) + beta * C, all in Fortran's order.
extern "C" void KERNEL(bool transpose_a, bool transpose_b, int m, int n, int k, float alpha,
                       const float* a, int lda, const float* b, int ldb, float beta, float* c,
                       int ldc) {
  using Matrix = Eigen::MatrixXf;
  using Stride = Eigen::OuterStride<>;
  using Const = Eigen::Map<const Matrix, 0, Stride>;
  const Const left(a, transpose_a ? k : m, transpose_a ? m : k, Stride(lda));
  const Const right(b, transpose_b ? n : k, transpose_b ? k : n, Stride(ldb));
  Eigen::Map<Matrix, 0, Stride> result(c, m, n, Stride(ldc));
  if (beta == 0) {
    result.setZero();  // whatever stood there, NaN too
  } else if (beta != 1) {
    result *= beta;
  }
  if (k == 0 || alpha == 0) return;
  if (transpose_a && transpose_b) {
    result.noalias() += alpha * left.transpose() * right.transpose();
  } else if (transpose_a) {
    result.noalias() += alpha * left.transpose() * right;
  } else if (transpose_b) {
    result.noalias() += alpha * left * right.transpose();
  } else {
    result.noalias() += alpha * left * right;
  }
}
