/* POSIX' iconv for libxml2 and unrtf, defined by GLib's win_iconv.c. */
#ifndef LECTERN_WINDOWS_ICONV_H_
#define LECTERN_WINDOWS_ICONV_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void* iconv_t;
iconv_t iconv_open(const char* to, const char* from);
size_t iconv(iconv_t state, char** in, size_t* in_left, char** out, size_t* out_left);
int iconv_close(iconv_t state);

#ifdef __cplusplus
}
#endif

#endif /* LECTERN_WINDOWS_ICONV_H_ */
