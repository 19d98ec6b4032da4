// Tells whether this process may use Intel's AMX: instructions that multiply tiles of 16 rows of
// int8 (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18).
#ifndef LECTERN_KERNELS_AMX_H_
#define LECTERN_KERNELS_AMX_H_

namespace lectern {

// Whether the processor has AMX for int8 and the system lets this process use it. On the first call
// this asks Linux for the permission (arch_prctl, ARCH_REQ_XCOMP_PERM), which is the whole
// process's and makes the frames of signals 8 KiB larger; Linux refuses it where an alternate
// signal stack of any thread is too small for that, and AMX then stays unused. On other systems:
// false. Any thread may call it.
bool HasAmx();

}  // namespace lectern

#endif  // LECTERN_KERNELS_AMX_H_
