// sgemm_ of BLAS, by the widest instructions that the machine has (sgemm.cc).
using Kernel = void(bool transpose_a, bool transpose_b, int m, int n, int k, float alpha,
                    const float* a, int lda, const float* b, int ldb, float beta, float* c,
                    int ldc);
extern "C" {
Kernel lectern_sgemm_sse2, lectern_sgemm_avx2, lectern_sgemm_avx512;

void sgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
            const int* k, const float* alpha, const float* a, const int* lda, const float* b,
            const int* ldb, const float* beta, float* c, const int* ldc) {
  static Kernel* const kernel =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")
          ? lectern_sgemm_avx512
      : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? lectern_sgemm_avx2
                                                                        : lectern_sgemm_sse2;
  const auto is_transposed = [](char op) { return op != 'N' && op != 'n'; };
  if (*m > 0 && *n > 0) {
    kernel(is_transposed(*transpose_a), is_transposed(*transpose_b), *m, *n, *k, *alpha, a, *lda, b,
           *ldb, *beta, c, *ldc);
  }
}
}

// The reference BLAS and LAPACK need this of Fortran's run time, which is 3 MB: comparing and joining
// texts of fixed lengths, which are padded with spaces.
extern "C" {
// An argument that FAISS passes is wrong: a bug, and LAPACK's own function ends the program too.
void xerbla_(const char*, const int*) { __builtin_trap(); }

int _gfortran_compare_string(long left_size, const char* left, long right_size, const char* right) {
  for (long i = 0; i < left_size || i < right_size; ++i) {
    const int a = i < left_size ? static_cast<unsigned char>(left[i]) : ' ';
    const int b = i < right_size ? static_cast<unsigned char>(right[i]) : ' ';
    if (a != b) return a < b ? -1 : 1;
  }
  return 0;
}

void _gfortran_concat_string(long size, char* result, long left_size, const char* left,
                             long right_size, const char* right) {
  for (long i = 0; i < size; ++i) {
    result[i] = i < left_size ? left[i] : i - left_size < right_size ? right[i - left_size] : ' ';
  }
}
}
