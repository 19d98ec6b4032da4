#!/usr/bin/env python3
"""The wheels of tools/python/build_wheel.sh, in fresh virtual environments: one pip install and the
code of README.md, every test of the package, types by mypy, licences, and thousands of questions.
tests/full.sh python runs it.

wheel_test.py DIST [--asks N]      DIST: the folder of both wheels
PYTHONS: names of interpreters to test with, such as "python3.11 python3.13" (default: this one)"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
sys.path.insert(0, str(SOURCE / "tests/tools"))
from make_pdf import make_pdf  # noqa: E402

DIST = pathlib.Path(sys.argv[1]).resolve()
ASKS = sys.argv[sys.argv.index("--asks") + 1] if "--asks" in sys.argv else "10000"
PYTHONS = os.environ.get("PYTHONS", sys.executable).split()
LICENCES = SOURCE / "tools/python/wheel/licences.py"
READER = "lectern/share/lectern/reader"

# A program as users write it, for mypy --strict.
TYPED = '''
import asyncio
import lectern

def main() -> str:
    with lectern.Store("store", num_threads=2) as store:
        report: lectern.IndexReport = store.index("x.pdf", progress=lambda event: event.done < 5)
        with store.open(report.document) as session:
            answer = session.ask("Who?", max_tokens=5, kv_budget="auto", fallback="exact")
            pages: list[int | None] = [passage.page for passage in answer.passages]
            pieces: list[str] = list(session.stream("Who?"))
        return answer.text + "".join(pieces) + str(pages)
'''
WRONG = ['session.ask("Who?", max_token=5)', 'session.ask("Who?", max_tokens="5")',
         'session.ask("Who?", fallback="never")', 'session.stream("Who?", max_token=5)',
         'store.index(5)', 'answer.passages[0].pages']


def run(*command, status=0, **options):
    """Its stdout and stderr; fails with them where it ends otherwise."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("LECTERN_", "PYTHON"))}
    environment.update(options.pop("env", {}))
    done = subprocess.run([str(part) for part in command], text=True, timeout=3000, env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options)
    if done.returncode != status:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}")
    return done.stdout


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.work = pathlib.Path(cls.folder.name)
        [cls.wheel], [cls.reader] = DIST.glob("lectern-*.whl"), DIST.glob("lectern_reader-*.whl")
        cls.pythons = []
        for number, python in enumerate(PYTHONS):
            venv = cls.work / f"venv{number}"
            run(python, "-m", "venv", venv)
            run(venv / "bin/pip", "install", "-q", "--no-index", cls.wheel)
            cls.pythons.append(venv / "bin/python")
        cls.venv = cls.work / "venv0"
        cls.site = next(cls.venv.glob("lib/python*/site-packages"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_it_is_named_and_small(self):
        self.assertRegex(self.wheel.name, r"^lectern-[\d.]+-py3-none-manylinux_2_3\d_x86_64\.whl$")
        for wheel in (self.wheel, self.reader):
            self.assertLessEqual(wheel.stat().st_size, 25_000_000)

    def test_every_library_has_a_licence(self):
        printed = run(sys.executable, LICENCES, "check", self.wheel)
        self.assertIn("libsqlite3", printed)
        # That this can fail: a library more, of which nobody knows.
        copy = self.work / "copy.whl"
        shutil.copy(self.wheel, copy)
        code = ("import sys, zipfile; zipfile.ZipFile(sys.argv[1], 'a').writestr("
                "'lectern.libs/libother-01234567.so.1', b'\\x7fELF')")
        run(sys.executable, "-c", code, copy)
        printed = run(sys.executable, LICENCES, "check", copy, status=1)
        self.assertIn("NO LICENCE", printed)

    def test_the_package(self):
        """All tests of the package, with what is inside of the wheel."""
        for python in self.pythons:
            with self.subTest(python):
                model = next(python.parent.parent.glob("lib/python*/site-packages")) / READER
                printed = run(python, HERE / "package_test.py", cwd=self.work,
                              env={"LECTERN_TEST_MODEL": str(model)})
                version = run(python, "--version").strip()
                print(version, printed.strip().splitlines()[-3], flush=True)

    def test_the_page_of_documentation(self):
        """The blocks of README.md in their order, by the bundled model instead of a fetched one."""
        folder = self.work / "page"
        folder.mkdir()
        (folder / "lease.pdf").write_bytes(make_pdf([
            ["The lease begins in May."], ["The owner pays for repairs to the roof."]]))
        text = (SOURCE / "tools/python/README.md").read_text()
        blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
        self.assertEqual(len(blocks), 4)
        self.assertEqual(len(blocks[0].splitlines()), 6)
        code = "\n".join(blocks).replace(", yes=True", "")
        printed = run(self.venv / "bin/python", "-c", code, cwd=folder)
        self.assertIn("on page 2\n", printed)
        self.assertIn("False Pigs fly. []", printed)

    def test_the_commands(self):
        lectern = self.venv / "bin/lectern"
        store = self.work / "commands"
        file = self.work / "boats.txt"
        file.write_text("Ann has seven boats. Ben has none.")
        run(lectern, "index", "--store", store, file)
        self.assertIn("seven", run(lectern, "ask", "--store", store, "Who has seven boats?"))
        self.assertIn("boats.txt", run(lectern, "store", "--store", store, "list"))
        self.assertIn("ok", run(lectern, "doctor", "--model", self.site / READER).lower())
        self.assertIn("--port", run(lectern, "serve", "--help"))

    def test_office_files_need_nothing_of_the_system(self):
        files = SOURCE / "tests/tools/extract_files"
        code = ("import sys; from lectern import _files\n"
                "for name in sys.argv[1:]: assert len(_files.read_file(name).text) > 100, name")
        names = [files / name for name in ("lund.docx", "lund.epub", "lund.odt", "lund.pptx",
                                           "mail.eml", "stock.xlsx")]
        run(self.venv / "bin/python", "-c", code, *names)
        linked = run("ldd", self.site / "lectern/libexec/lectern/lectern-extract")
        self.assertNotIn("not found", linked)
        for line in linked.splitlines():
            if re.search(r"lib(glib|gobject|gio|gmime|xml2|archive|icu|pcre2|ffi)", line):
                self.assertIn(str(self.site), line)

    def test_pages_have_the_labels_of_the_pdf(self):
        """By the system's poppler, which the wheel calls without having it inside."""
        if "libpoppler-glib.so.8" not in run("/sbin/ldconfig", "-p"):
            self.skipTest("there is no libpoppler-glib.so.8")
        file = self.work / "labels.pdf"
        file.write_bytes(make_pdf([["Ann sings in the hall."], ["Ben has two boats."]],
                                  labels="0 << /S /r >>"))
        code = ("import sys; from lectern import _files\n"
                "print([page.label for page in _files.read_file(sys.argv[1]).pages])")
        self.assertEqual(run(self.venv / "bin/python", "-c", code, file).strip(), "['i', 'ii']")

    def test_the_adapter_lands_where_it_is_looked_for(self):
        run(self.venv / "bin/pip", "install", "-q", "--no-index", self.reader)
        code = ("from lectern import _files; import os; print(os.path.isfile("
                "_files.tools().parent / 'share/lectern/adapter/adapter_model.safetensors'))")
        self.assertEqual(run(self.venv / "bin/python", "-c", code).strip(), "True")
        run(self.venv / "bin/pip", "uninstall", "-q", "-y", "lectern_reader")
        self.assertEqual(run(self.venv / "bin/python", "-c", code).strip(), "False")

    def test_types(self):
        run(self.venv / "bin/pip", "install", "-q", "mypy")
        mypy = [self.venv / "bin/mypy", "--strict", "--python-executable", self.venv / "bin/python"]
        run(*mypy, "-p", "lectern", cwd=self.work)
        program = self.work / "typed.py"
        program.write_text(TYPED)
        run(*mypy, program, cwd=self.work)
        for line in WRONG:
            begin = "            pages:"
            program.write_text(TYPED.replace(begin, f"            {line}\n{begin}"))
            self.assertIn("typed.py:", run(*mypy, program, cwd=self.work, status=1), line)

    def test_thousands_of_questions(self):
        for python in self.pythons[:1]:
            print(run(python, HERE / "soak.py", ASKS, self.site / READER, cwd=self.work).strip(),
                  flush=True)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *[one for one in sys.argv[2:] if one not in ("--asks", ASKS)]])
