// Stands for newlib's fdlibm.h, which asks for all of newlib, where math_dispatch.c's functions are
// compiled. PREFIX: of their names.
#ifndef LECTERN_TOOLS_PACKAGING_WINDOWS_MATH_NAMES_H_
#define LECTERN_TOOLS_PACKAGING_WINDOWS_MATH_NAMES_H_

#include <errno.h>
#include <math.h>
#include <stdint.h>

#define __OBSOLETE_MATH 0
#define __OBSOLETE_MATH_DEFAULT 0
#undef issignaling

#define LECTERN_JOIN_2(a, b) a##b
#define LECTERN_JOIN(a, b) LECTERN_JOIN_2(a, b)
#define exp LECTERN_JOIN(PREFIX, exp)
#define log LECTERN_JOIN(PREFIX, log)
#define pow LECTERN_JOIN(PREFIX, pow)
#define expf LECTERN_JOIN(PREFIX, expf)
#define logf LECTERN_JOIN(PREFIX, logf)
#define sincosf LECTERN_JOIN(PREFIX, sincosf)

#endif  // LECTERN_TOOLS_PACKAGING_WINDOWS_MATH_NAMES_H_
