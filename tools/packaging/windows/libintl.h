/* GNU gettext's functions as GLib calls them, without translations: each text stands for itself. */
#ifndef LECTERN_WINDOWS_LIBINTL_H_
#define LECTERN_WINDOWS_LIBINTL_H_

/* A category that Windows' C library does not have. */
#define LC_MESSAGES 1729

#ifdef __cplusplus
extern "C" {
#endif

char* gettext(const char* text);
char* dgettext(const char* domain, const char* text);
char* dcgettext(const char* domain, const char* text, int category);
char* ngettext(const char* one, const char* many, unsigned long count);
char* dngettext(const char* domain, const char* one, const char* many, unsigned long count);
char* textdomain(const char* domain);
char* bindtextdomain(const char* domain, const char* folder);
char* bind_textdomain_codeset(const char* domain, const char* codeset);

#ifdef __cplusplus
}
#endif

#endif /* LECTERN_WINDOWS_LIBINTL_H_ */
