#!/usr/bin/env python3
"""The library calls POSIX in these files alone, which a port to another system replaces."""
import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
ALLOWED = {"kernels/process_limits.cc", "kernels/thread_pool.cc", "store/env_posix.cc", "store/large_pages_posix.cc",
           "kernels/cuda/runtime/device.cc"}  # which loads the library of kernels for GPUs
POSIX = re.compile(r"#include <(sys/[\w/]+|linux/[\w/]+|unistd|fcntl|dirent|pthread|sched|signal|poll|dlfcn|"
                   r"spawn|termios|semaphore|pwd|netdb|ftw|glob|execinfo|malloc)\.h>")


class Posix(unittest.TestCase):
    def test_is_called_in_these_files(self):
        users = {str(path.relative_to(SOURCE)) for room in ("kernels", "store", "index", "engine")
                 for path in (SOURCE / room).rglob("*")
                 if path.suffix in (".h", ".cc") and POSIX.search(path.read_text())}
        self.assertEqual(users, ALLOWED)


if __name__ == "__main__":
    unittest.main()
