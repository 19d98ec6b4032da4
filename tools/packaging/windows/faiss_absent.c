// Stands for the functions that FAISS's source files of K-means name and Lectern's clustering never
// calls: BLAS, LAPACK, product quantizers and partitions. With these in place the library for
// Windows needs no BLAS. A call would be a bug, and ends the program with the function's name.
#include <stdio.h>
#include <stdlib.h>

#define ABSENT(name)                                                            \
  void name(void) {                                                             \
    fputs("FAISS called " #name ", which this build of it leaves out\n", stderr); \
    abort();                                                                    \
  }

ABSENT(dgemm_)
ABSENT(dgesvd_)
ABSENT(dsyev_)
ABSENT(sgemm_)
ABSENT(sgeqrf_)
ABSENT(sgesvd_)
ABSENT(sorgqr_)
ABSENT(ssyrk_)
// faiss::partition_fuzzy for the two orders of floats, faiss::ProductQuantizer.
ABSENT(_ZN5faiss15partition_fuzzyINS_4CMaxIfxEEEENT_1TEPS4_PNS3_2TIEyyyPy)
ABSENT(_ZN5faiss15partition_fuzzyINS_4CMinIfxEEEENT_1TEPS4_PNS3_2TIEyyyPy)
ABSENT(_ZN5faiss16ProductQuantizer31compute_codes_with_assign_indexEPKfPhy)
ABSENT(_ZN5faiss16ProductQuantizerC1Eyyy)
ABSENT(_ZTVN5faiss16ProductQuantizerE)
