/* libicuuc.so.72 in the wheel: the functions that Debian's libxml2 calls for character sets that
 * iconv does not know. None of them is found here, so that libxml2 goes on without: the real library
 * comes with 31 MB of tables, and the parts of office files and books are UTF-8 or UTF-16. */
#include <stddef.h>

enum { kFileAccessError = 4 }; /* U_FILE_ACCESS_ERROR of unicode/utypes.h */

void* ucnv_open_72(const char* name, int* error) {
  (void)name;
  *error = kFileAccessError;
  return NULL;
}
void ucnv_close_72(void* converter) { (void)converter; }
void ucnv_convertEx_72(void) {} /* never called without a converter, like those below */
void ucnv_setFromUCallBack_72(void) {}
void ucnv_setToUCallBack_72(void) {}
void UCNV_FROM_U_CALLBACK_STOP_72(void) {}
void UCNV_TO_U_CALLBACK_STOP_72(void) {}
