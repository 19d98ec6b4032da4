# For CMake: Debian's cross-compiler for Windows, with the C library msvcrt and threads of winpthreads.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_CXX_COMPILER x86_64-w64-mingw32-g++-posix)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)
# The folder that dependencies.sh makes, where one is given.
set(LECTERN_WINDOWS_DEPENDENCIES "" CACHE PATH "Libraries for Windows (dependencies.sh)")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES LECTERN_WINDOWS_DEPENDENCIES)
set(CMAKE_FIND_ROOT_PATH /usr/x86_64-w64-mingw32)
if(LECTERN_WINDOWS_DEPENDENCIES)
  list(PREPEND CMAKE_FIND_ROOT_PATH ${LECTERN_WINDOWS_DEPENDENCIES})
  set(ENV{PKG_CONFIG_LIBDIR} ${LECTERN_WINDOWS_DEPENDENCIES}/lib/pkgconfig)
  # Before the C library, whose functions of the same names round differently (math_dispatch.c).
  set(CMAKE_CXX_STANDARD_LIBRARIES "${LECTERN_WINDOWS_DEPENDENCIES}/lib/liblectern-math.a -lshell32 -ladvapi32 -lkernel32"
    CACHE STRING "")
endif()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# Windows 10, which replaces files that are open. POSIX names of functions of time. GCC aligns the
# stack to 16 bytes here and moves vectors of 32 and 64 bytes to it as if it were aligned to their
# size; the assembler turns such moves into ones that need no alignment (check_stack_moves.py).
set(windows_flags "-D_WIN32_WINNT=0x0A00 -DNOMINMAX -DWIN32_LEAN_AND_MEAN -D_POSIX_THREAD_SAFE_FUNCTIONS")
string(APPEND windows_flags " -Wa,-muse-unaligned-vector-move -Wa,-mbig-obj")
set(CMAKE_C_FLAGS_INIT "${windows_flags}")
set(CMAKE_CXX_FLAGS_INIT "${windows_flags}")
# The compiler's own libraries become parts of each program and of the DLL; CMake finds libgomp as a DLL.
execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libgomp.a OUTPUT_VARIABLE libgomp
  OUTPUT_STRIP_TRAILING_WHITESPACE)
set(OpenMP_gomp_LIBRARY ${libgomp} CACHE FILEPATH "")
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
set(CMAKE_SHARED_LINKER_FLAGS_INIT -static)
