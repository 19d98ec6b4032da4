/* libpoppler-glib.so.8 in the wheel: hands every call to the system's library of that name, which is
 * under the GPL and stays outside. Where the system has none, the program that reads page labels and
 * outlines ends, and PDFs are read without them. FUNCTIONS(X): an X(name) for each function that the
 * program calls, which build_wheel.sh lists. */
#include <dlfcn.h>
#include <unistd.h>

#define SLOT(name) __attribute__((visibility("hidden"))) void* slot_##name;
FUNCTIONS(SLOT)
/* A jump keeps arguments and results of any kind. */
#define JUMP(name)                              \
  __asm__(".text\n.globl " #name "\n.type " #name \
          ", @function\n" #name ": jmp *slot_" #name "(%rip)\n");
FUNCTIONS(JUMP)

__attribute__((constructor)) static void FindFunctions(void) {
  void* const library = dlopen("libpoppler-glib.so.8", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) _exit(1);
#define FIND(name) \
  if ((slot_##name = dlsym(library, #name)) == NULL) _exit(1);
  FUNCTIONS(FIND)
}
