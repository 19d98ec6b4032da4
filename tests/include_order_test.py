#!/usr/bin/env python3
"""Reads every file: includes run in one direction, comments are sentences, no source file is over 600 lines.

No #include of the product may run backwards in the order of rooms and wings. The order of rooms is below; the order of the engine's wings is the list `engine_wings` of
engine/CMakeLists.txt, and that of the CUDA kernels' folders the list `cuda_folders` of
kernels/cuda/CMakeLists.txt. A file may include files of its own room, wing or folder and of earlier
ones.

No line of a comment or docstring may begin with "Of" or "What", here and in the tests: such lines are
answers to a question that the reader has to guess ("Of a question: ..."), and a subject and a verb say
the same. Where a sentence only happens to be wrapped there, wrap it elsewhere.

    include_order_test.py SOURCE_FOLDER
"""
import pathlib
import re
import sys
import tempfile
import unittest

ROOMS = ["kernels", "store", "index", "engine", "tools"]
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".inc"}
COMMENTED = SUFFIXES | {".c", ".cmake", ".css", ".in", ".js", ".py", ".sh"}
RIDDLE = re.compile(r'^[ \t]*(?://+!?|#+|/\*+|\*|<!--|"""|\'\'\')[ \t]*(?:Of|What)[ \t].*', re.M)
# An embedder's headers: they stand in engine/ itself, and whatever implements them includes them.
FACE = {"engine/lectern.h", "engine/lectern_c.h", "engine/lectern_inline.h"}


def listed(source, name, cmake_file):
    found = re.search(rf"set\({name}([^)]*)\)", (source / cmake_file).read_text())
    return found.group(1).split()


def wings(source):
    return listed(source, "engine_wings", "engine/CMakeLists.txt")


def cuda_folders(source):
    return listed(source, "cuda_folders", "kernels/cuda/CMakeLists.txt")


def order(source):
    """Places in their order: rooms, and in the engine's place its wings ("." is the folder itself)."""
    places = []
    for room in ROOMS:
        if room == "engine":
            places += ["engine" if wing == "." else f"engine/{wing}" for wing in wings(source)]
        else:
            places.append(room)
        if room == "kernels":
            places += [f"kernels/cuda/{folder}" for folder in cuda_folders(source)]
    return places


def place_of(path, places):
    """The longest place that the path is in."""
    inside = [place for place in places if path.startswith(place + "/")]
    return max(inside, key=len) if inside else None


def backward_edges(source):
    places = order(source)
    edges, files = [], 0
    for room in ROOMS:
        for path in sorted((source / room).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            files += 1
            name = path.relative_to(source).as_posix()
            here = places.index(place_of(name, places))
            for included in re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.M):
                place = place_of(included, places)
                if place is None or included in FACE:
                    continue
                if places.index(place) > here:
                    edges.append(f"{name} includes {included}")
    return edges, files


def riddles(source):
    """Lines of comments that begin with "Of" or "What", and the number of files that were read."""
    found, files = [], 0
    paths = [path for room in [*ROOMS, "tests"] for path in (source / room).rglob("*")]
    for path in sorted([*paths, source / "CMakeLists.txt"]):
        if path.suffix not in COMMENTED and path.name != "CMakeLists.txt":
            continue
        files += 1
        text = path.read_text()
        for match in RIDDLE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"{path.relative_to(source)}:{line}: {match[0].strip()}")
    return found, files


def long_files(source, most=600):
    """C++ and CUDA source files with more than `most` lines, headers exempt: "FILE: LINES"."""
    return [f"{path.relative_to(source)}: {lines}" for room in ROOMS
            for path in sorted((source / room).rglob("*"))
            if path.suffix in (".cc", ".cu", ".c") and (lines := len(path.read_text().splitlines())) > most]


class IncludeOrderTest(unittest.TestCase):
    source = None

    def test_no_include_runs_backwards(self):
        edges, files = backward_edges(self.source)
        self.assertGreater(files, 300)
        self.assertEqual(edges, [])

    def test_every_wing_is_there_and_no_other(self):
        named = [wing for wing in wings(self.source) if wing != "."]
        self.assertEqual(len(named), len(set(named)))
        found = {path.parent.relative_to(self.source / "engine").as_posix()
                 for path in (self.source / "engine").rglob("*.cc")} - {"."}
        self.assertEqual(found, set(named))

    def test_every_folder_of_cuda_kernels_is_there_and_no_other(self):
        folders = {path.name for path in (self.source / "kernels/cuda").iterdir() if path.is_dir()}
        self.assertEqual(sorted(folders), sorted(cuda_folders(self.source)))

    def test_an_edge_backwards_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for room in ROOMS:
                (root / room).mkdir()
            (root / "engine/model").mkdir()
            (root / "kernels/cuda/rows").mkdir(parents=True)
            (root / "kernels/cuda/CMakeLists.txt").write_text("set(cuda_folders runtime rows lookup)\n")
            (root / "engine/asking").mkdir()
            (root / "engine/CMakeLists.txt").write_text("set(engine_wings model asking .)\n")
            (root / "engine/asking/ask.h").write_text('#include "engine/model/model.h"\n')
            (root / "kernels/cuda/rows/rows.cu").write_text('#include "kernels/cuda/runtime/launch.cuh"\n')
            self.assertEqual(backward_edges(root)[0], [])
            (root / "kernels/cuda/rows/rows.h").write_text('#include "kernels/cuda/lookup/a.h"\n')
            (root / "kernels/rope.h").write_text('#include "kernels/cuda/rows/rows.h"\n')
            (root / "engine/model/model.cc").write_text('#include "engine/asking/ask.h"\n')
            (root / "store/env.cc").write_text('#include "index/lookup.h"\n')
            (root / "index/a.cc").write_text('#include "engine/engine.h"\n')
            self.assertEqual(backward_edges(root)[0],
                             ["kernels/cuda/rows/rows.h includes kernels/cuda/lookup/a.h",
                              "kernels/rope.h includes kernels/cuda/rows/rows.h",
                              "store/env.cc includes index/lookup.h", "index/a.cc includes engine/engine.h",
                              "engine/model/model.cc includes engine/asking/ask.h"])


class LengthTest(unittest.TestCase):
    source = None

    def test_no_file_is_too_long(self):
        self.assertEqual(long_files(self.source), [])

    def test_a_long_file_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "store").mkdir()
            for lines in (600, 601):
                (pathlib.Path(folder) / f"store/{lines}.cc").write_text("int x;\n" * lines)
            self.assertEqual(long_files(pathlib.Path(folder)), ["store/601.cc: 601"])


class CommentTest(unittest.TestCase):
    source = None

    def test_no_comment_begins_with_of_or_what(self):
        found, files = riddles(self.source)
        self.assertGreater(files, 600)
        self.assertEqual(found, [])

    def test_such_a_line_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            of, what = "Of", "What"  # apart, so that this file has no such line
            planted = {"CMakeLists.txt": f"# {what} it has.\n",
                       "engine/a.h": f"int x;\n  // {of} a question.\n// Offers. Whatever.\n",
                       "kernels/b.cu": f"/* {what} it is. */\n", "tests/c.py": f'def f():\n    """{of} all."""\n',
                       "tools/d.sh": f"#!/bin/sh\n# {what} it does.\n", "tools/e.py": f'x = ["{what} is it?"]\n',
                       "tools/f.md": f"# {what} it is\n"}
            for name, text in planted.items():
                (root / name).parent.mkdir(exist_ok=True)
                (root / name).write_text(text)
            self.assertEqual(riddles(root), ([
                f"CMakeLists.txt:1: # {what} it has.", f"engine/a.h:2: // {of} a question.",
                f"kernels/b.cu:1: /* {what} it is. */", f'tests/c.py:2: """{of} all."""',
                f"tools/d.sh:2: # {what} it does."], 6))


if __name__ == "__main__":
    IncludeOrderTest.source = LengthTest.source = CommentTest.source = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
