// The system's own error numbers, as SQLite and the calls of Windows give them.
#ifndef LECTERN_STORE_SYSTEM_ERROR_H_
#define LECTERN_STORE_SYSTEM_ERROR_H_

namespace lectern {

// The errno value that means the same as an error number of the system: the number itself on POSIX;
// on Windows, where GetLastError gave it, the nearest one (EIO where there is none). Any thread.
int ErrnoOfSystem(int error);

}  // namespace lectern

#endif  // LECTERN_STORE_SYSTEM_ERROR_H_
