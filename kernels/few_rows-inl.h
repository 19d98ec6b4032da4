// The product of tile-inl.h for few rows of A: C[rows, columns] (+)= A[rows, depth] * stored^T.
// Where each stored row is needed once or twice, the way through packed scratch costs more than the
// product.
//
// Per-target header of Highway, included as tile-inl.h is; few_rows_simd.cc has what it declares.
#include "kernels/tile-inl.h"

#if defined(LECTERN_KERNELS_FEW_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LECTERN_KERNELS_FEW_ROWS_INL_H_
#undef LECTERN_KERNELS_FEW_ROWS_INL_H_
#else
#define LECTERN_KERNELS_FEW_ROWS_INL_H_
#endif

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {

constexpr size_t kFewRows = 4;

struct FewRowsProduct {
  const float* a;  // [num_rows, depth]
  size_t a_stride;
  StoredRows b;  // [columns, depth]
  size_t depth;
  float* c;  // [num_rows, columns]
  size_t c_stride;
  bool accumulate;
  // What lies so many bytes behind is asked for early, into the second cache: a few rows take less
  // time than their way from memory. 0, of DotFewRows: nothing.
  ptrdiff_t ahead = 0;
};

// 1 <= num_rows <= kFewRows. Each element of C is the same chain of multiply-adds as in tile-inl.h:
// the same bits.
void MultiplyFewRows(const FewRowsProduct& p, Dtype dtype, size_t num_rows);

// C = A * stored^T, but with kLanes partial sums for each element: other bits, and fewer
// instructions, as no stored row has to be turned.
void DotFewRows(const FewRowsProduct& p, Dtype dtype, size_t num_rows);

}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();
#endif  // HWY_TARGET != HWY_SCALAR

#endif  // LECTERN_KERNELS_FEW_ROWS_INL_H_
