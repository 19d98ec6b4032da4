/* The functions that unrtf expects of the system beyond those of Windows. Included before each of
   its files. */
#ifndef LECTERN_UNRTF_WINDOWS_H_
#define LECTERN_UNRTF_WINDOWS_H_

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static inline char* strcasestr(const char* text, const char* part) {
  const size_t length = strlen(part);
  for (; *text != 0; ++text) {
    if (strnicmp(text, part, length) == 0) return (char*)text;
  }
  return length == 0 ? (char*)text : NULL;
}

static inline uint32_t SwappedBytes(uint32_t number) { return __builtin_bswap32(number); }
#define unrtf_ntohl SwappedBytes

#endif /* LECTERN_UNRTF_WINDOWS_H_ */
