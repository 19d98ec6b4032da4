/* Before unrtf's main: text is read and written as it is, and the current folder becomes unrtf's
   own, from where ../share/unrtf has its files. It reads stdin, so that no path of the user's
   depends on the folder. */
#include <windows.h>

#include <fcntl.h>
#include <io.h>

__attribute__((constructor)) static void Prepare(void) {
  static wchar_t path[32768];
  DWORD length = GetModuleFileNameW(NULL, path, sizeof path / sizeof *path);
  while (length > 0 && path[length - 1] != L'\\') --length;
  path[length] = 0;
  SetCurrentDirectoryW(path);
  for (int file = 0; file < 3; ++file) _setmode(file, _O_BINARY);
}
