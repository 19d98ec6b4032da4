#!/usr/bin/env python3
"""dlclose with live handles does no harm: the library stays, its handles and threads work on.

Usage: unload_test.py liblectern.so.1 PACKAGE MODEL; the second is the folder with the Python package."""
import _ctypes
import os
import pathlib
import sys
import tempfile
import threading
import unittest

os.environ["LECTERN_LIBRARY"] = sys.argv[1]
sys.path.insert(0, sys.argv[2])
sys.dont_write_bytecode = True
import lectern  # noqa: E402
from lectern._library import library  # noqa: E402

TEXT = "Ann has seven boats. Ben has none. The owner repairs the roof before the winter. " * 40


class Unload(unittest.TestCase):
    def unload(self):
        """As a plugin's host does it, as often as one may have loaded it."""
        for _ in range(3):
            _ctypes.dlclose(library._handle)
        self.assertIn("liblectern.so", pathlib.Path("/proc/self/maps").read_text())

    def test_handles_outlive_it(self):
        with tempfile.TemporaryDirectory() as store:
            opened = lectern.Store(store, model=sys.argv[3], num_threads=2)
            opened.index_text(TEXT, name="boats")
            session = opened.open("boats")
            self.unload()
            self.assertTrue(session.ask("Who has seven boats?").text)
            self.assertEqual([document.name for document in opened.documents()], ["boats"])
            session.close()
            opened.close()

    def test_a_call_that_runs_outlives_it(self):
        with tempfile.TemporaryDirectory() as store:
            opened = lectern.Store(store, model=sys.argv[3], num_threads=2)
            begun, reports = threading.Event(), []
            work = threading.Thread(target=lambda: reports.append(
                opened.index_text(TEXT, name="boats", progress=lambda _: begun.set())))
            work.start()
            begun.wait(60)
            self.unload()
            work.join()
            self.assertEqual(len(reports), 1)
            opened.close()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
