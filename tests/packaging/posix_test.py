#!/usr/bin/env python3
"""The library calls POSIX in these files alone, and Windows in others of the same kind."""
import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
ALLOWED = {"kernels/amx_posix.cc", "kernels/cuda/runtime/find_in_library_posix.cc", "kernels/process_limits.cc",
           "kernels/worker_thread_posix.cc", "store/env_posix.cc", "store/large_pages_posix.cc",
           "store/reserved_memory_posix.cc"}
# Tests of these names in rooms and tools would make one file of two systems' code.
SYSTEMS = re.compile(r"^\s*#\s*(el)?if.*\b(_WIN32|WIN32|_WIN64|__MINGW32__|__MINGW64__|_MSC_VER)\b", re.M)
POSIX = re.compile(r"#include <(sys/[\w/]+|linux/[\w/]+|unistd|fcntl|dirent|pthread|sched|signal|poll|dlfcn|"
                   r"spawn|termios|semaphore|pwd|netdb|ftw|glob|execinfo|malloc)\.h>")


class Posix(unittest.TestCase):
    def test_is_called_in_these_files(self):
        users = {str(path.relative_to(SOURCE)) for room in ("kernels", "store", "index", "engine")
                 for path in (SOURCE / room).rglob("*")
                 if path.suffix in (".h", ".cc") and POSIX.search(path.read_text())}
        self.assertEqual(users, ALLOWED)

    def test_windows_is_called_in_its_own_files(self):
        for room in ("kernels", "store", "index", "engine", "tools"):
            for path in (SOURCE / room).rglob("*"):
                if path.suffix not in (".h", ".cc", ".c") or path.name in ("lectern_c.h", "lectern.h"):
                    continue
                text = path.read_text()
                self.assertIsNone(SYSTEMS.search(text), path)
                if not path.stem.endswith("_windows"):
                    self.assertNotIn("#include <windows.h>", text, path)


if __name__ == "__main__":
    unittest.main()
