/* iconv_open with glibc's names of encodings beside those that GLib's win_iconv.c knows, for which
   unrtf and files ask. win_iconv.c is compiled with -Diconv_open=OpenByWindowsName. */
#include <iconv.h>
#include <string.h>

iconv_t OpenByWindowsName(const char* to, const char* from);

static const char* WindowsName(const char* name) {
  static const char* const kNames[][2] = {
      {"CP819", "CP28591"},       {"MAC", "CP10000"},
      {"MACINTOSH", "CP10000"},   {"MAC-CENTRALEUROPE", "CP10029"},
      {"MACCYRILLIC", "CP10007"}, {"MAC-CYRILLIC", "CP10007"}};
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; ++i) {
    if (stricmp(name, kNames[i][0]) == 0) return kNames[i][1];
  }
  return name;
}

iconv_t iconv_open(const char* to, const char* from) {
  return OpenByWindowsName(WindowsName(to), WindowsName(from));
}
