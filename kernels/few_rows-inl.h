// The product of tile-inl.h for a few rows of A: C[rows, columns] (+)= A[rows, depth] * stored^T,
// straight from stored rows. When each stored row is needed once or twice, packing it into scratch
// first costs more than the product.
//
// Per-target header of Highway, included as tile-inl.h is; few_rows_simd.cc defines the functions.
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

// Most rows of A that these functions take. Query groups of four, as in Llama 3 8B, should not need
// packing. No measurement of other limits is on record; more rows take the path that packs, which
// has the same bits.
constexpr size_t kFewRows = 4;

// The operands of one product; nothing of them is checked.
struct FewRowsProduct {
  const float* a;  // [num_rows, depth]
  size_t a_stride;
  StoredRows b;  // [columns, depth]
  size_t depth;
  float* c;  // [num_rows, columns]
  size_t c_stride;
  bool accumulate;  // MultiplyFewRows starts from c, not from zero; DotFewRows ignores it
  // Distance in bytes to the data that is prefetched while this is used, into the second-level
  // cache: a few rows take less time than their data's way from memory. The data need not be there.
  // For DotFewRows 0 means no prefetch.
  ptrdiff_t ahead = 0;
};

// C (+)= A * stored^T for 1 <= num_rows <= kFewRows. Each element of C is the same chain of
// multiply-adds as in tile-inl.h, hence the same bits.
void MultiplyFewRows(const FewRowsProduct& p, Dtype dtype, size_t num_rows);

// C = A * stored^T for 1 <= num_rows <= kFewRows, but with kLanes partial sums for each element:
// other bits than MultiplyFewRows, and fewer instructions, because no stored row has to be
// transposed.
void DotFewRows(const FewRowsProduct& p, Dtype dtype, size_t num_rows);

}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();
#endif  // HWY_TARGET != HWY_SCALAR

#endif  // LECTERN_KERNELS_FEW_ROWS_INL_H_
