// exp, log, pow, expf, logf and sincosf as glibc computes them, because bits of a store and of an answer depend
// on them and Windows' own round differently: both have them of Arm's optimized routines, here by newlib. As in
// glibc, a processor with fused multiply-add runs code of its own, whose last bits may differ. expm1, tanh, sin and
// cos are still Windows'.
static int has_fma;

__attribute__((constructor)) static void FindOut(void) {
  __builtin_cpu_init();
  has_fma = __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
}

#define OF_ONE(type, name)            \
  type base_##name(type);             \
  type fma_##name(type);              \
  type name(type x);                  \
  type name(type x) { return has_fma ? fma_##name(x) : base_##name(x); }
OF_ONE(double, exp)
OF_ONE(double, log)
OF_ONE(float, expf)
OF_ONE(float, logf)

double base_pow(double, double);
double fma_pow(double, double);
double pow(double x, double y);
double pow(double x, double y) { return has_fma ? fma_pow(x, y) : base_pow(x, y); }

void base_sincosf(float, float*, float*);
void fma_sincosf(float, float*, float*);
void sincosf(float x, float* sine, float* cosine);
void sincosf(float x, float* sine, float* cosine) {
  (has_fma ? fma_sincosf : base_sincosf)(x, sine, cosine);
}

// As Windows has it. It is here because the C library's file of it defines sincosf, too.
double sin(double);
double cos(double);
void sincos(double x, double* sine, double* cosine);
void sincos(double x, double* sine, double* cosine) { *sine = sin(x), *cosine = cos(x); }
