#include <libintl.h>
#include <stddef.h>

char* gettext(const char* text) { return (char*)text; }
char* dgettext(const char* domain, const char* text) { return (char*)text; }
char* dcgettext(const char* domain, const char* text, int category) { return (char*)text; }
char* ngettext(const char* one, const char* many, unsigned long count) {
  return (char*)(count == 1 ? one : many);
}
char* dngettext(const char* domain, const char* one, const char* many, unsigned long count) {
  return ngettext(one, many, count);
}
char* textdomain(const char* domain) { return (char*)domain; }
char* bindtextdomain(const char* domain, const char* folder) { return (char*)folder; }
char* bind_textdomain_codeset(const char* domain, const char* codeset) { return (char*)codeset; }
