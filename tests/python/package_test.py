#!/usr/bin/env python3
"""The Python package of tools/python, upon the built library and tools: what it binds, offsets,
streams, asyncio, cancelling, errors, files, collections, the command. Needs nothing but Python.

LECTERN_LIBRARY: path of liblectern.so.1; LECTERN_BIN: folder of the tools. Without them, the
package that is installed is tested with what is inside of it. LECTERN_TEST_MODEL: the bundled reader."""
import asyncio
import ctypes
import gc
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
PACKAGE = SOURCE / "tools/python"
os.environ["LECTERN_MODEL"] = os.environ["LECTERN_TEST_MODEL"]
# The run time of a library under AddressSanitizer, for Python's processes, not for the tools.
PRELOAD = {"LD_PRELOAD": os.environ.pop("LD_PRELOAD")} if "LD_PRELOAD" in os.environ else {}
if "LECTERN_LIBRARY" in os.environ:
    sys.path.insert(0, str(PACKAGE))
sys.path.insert(1, str(SOURCE / "tests/tools"))
sys.dont_write_bytecode = True

import lectern  # noqa: E402
from lectern import _abi, _files, _library  # noqa: E402
from make_pdf import make_pdf  # noqa: E402

TEXT = ("Ünal has two boats. 委员会在码头开会。 The Douquouth committee meets in Stuxwick. "
        "😀 Ann sings 👩‍👩‍👧 songs. ")
QUESTION = "Where does the Douquouth committee meet?"
LONG = "The owner repairs the roof before the winter. Ann has seven boats and Ben has none. " * 150


def python(code, *arguments):
    """A process of its own that runs `code` with the package."""
    environment = {**os.environ, **PRELOAD, "PYTHONPATH": sys.path[0]}
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], text=True,
                          timeout=120, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment, check=False)


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.work = pathlib.Path(cls.folder.name)
        cls.store = lectern.Store(cls.work / "store")
        cls.store.index_text(TEXT, name="towns")

    @classmethod
    def tearDownClass(cls):
        cls.store.close()
        cls.folder.cleanup()


# --- the binding --------------------------------------------------------------------------------

class Binding(unittest.TestCase):
    # Functions that Python does without.
    UNUSED = {
        "lectern_exit_status": "of command lines", "lectern_abi_version": "of the soname",
        "lectern_error_cli_message": "of command lines",
        "lectern_error_code": "the call returns it",
        "lectern_index_report_cli_note": "of command lines",
        "lectern_answer_cli_note": "of command lines",
        "lectern_engine_index_file": "index-document reads files, with limits, and PDFs too",
        "lectern_index_estimate_json": "the struct has it",
        "lectern_engine_remove": "_remove_named",
        "lectern_engine_show_plan": "lectern_engine_show has the plan in its JSON",
        "lectern_answer_text": "in the JSON", "lectern_answer_reasoning": "in the JSON",
        "lectern_answer_stopped_by": "in the JSON", "lectern_answer_finish_reason": "in the JSON",
        "lectern_answer_note": "in the JSON", "lectern_answer_warning": "in the JSON",
        "lectern_answer_warning_count": "in the JSON",
        "lectern_answer_asked_document": "in the JSON",
        "lectern_error_json": "json is Python's", "lectern_json_get_string": "json is Python's",
        "lectern_json_set_string": "json is Python's",
        "lectern_engine_free": "by Handle._kind", "lectern_session_free": "by Handle._kind",
    }

    def test_generated_files_are_what_the_header_gives(self):
        done = subprocess.run([sys.executable, PACKAGE / "generate.py", "--check"], text=True,
                              stdout=subprocess.PIPE, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_every_function_is_called_or_named_here(self):
        header = (SOURCE / "engine/lectern_c.h").read_text()
        declared = set(re.findall(r"LECTERN_API [\w* ]+?(lectern_\w+)\(", header))
        self.assertEqual(set(_abi.FUNCTIONS), declared)
        code = "".join(file.read_text() for file in (PACKAGE / "lectern").glob("*.py")
                       if file.name != "_abi.py")
        called = {name for name in declared if re.search(rf"\b(library|_lib)\.{name}\b", code)}
        self.assertEqual(declared - called, set(self.UNUSED))

    def test_every_callback_of_a_question_is_set(self):
        code = (PACKAGE / "lectern/session.py").read_text()
        fields = [name for name, kind in _abi.lectern_ask_options._fields_
                  if isinstance(kind, type) and issubclass(kind, ctypes._CFuncPtr)]
        self.assertGreater(len(fields), 5)
        for field in fields:
            self.assertIn(f"struct.{field} = ", code)

    def test_every_code_has_an_exception(self):
        header = (SOURCE / "engine/lectern_c.h").read_text()
        numbers = {int(number) for number in re.findall(
            r"LECTERN_\w+ = (\d+)", re.search(r"enum lectern_codes \{(.*?)\};", header, re.S)[1])}
        self.assertEqual(set(lectern.errors.BY_NUMBER), numbers - {0})
        for number, kind in lectern.errors.BY_NUMBER.items():
            name = ctypes.string_at(_library.library.lectern_code_name(number)).decode()
            self.assertEqual(kind.code, name)
            self.assertIn(kind.__name__, lectern.__all__)

    def test_every_struct_is_as_large_as_the_compiler_has_it(self):
        compiler = shutil.which("cc")
        if compiler is None:
            self.skipTest("there is no C compiler")
        names = [name for name in vars(_abi) if name.startswith("lectern_")
                 and isinstance(getattr(_abi, name), type)
                 and issubclass(getattr(_abi, name), ctypes.Structure)]
        self.assertGreater(len(names), 30)
        code = '#include "engine/lectern_c.h"\n#include <stdio.h>\nint main(void) {\n'
        expected = ""
        for name in names:
            struct = getattr(_abi, name)
            last = struct._fields_[-1][0]
            code += f'printf("{name} %zu %zu\\n", sizeof({name}), offsetof({name}, {last}));\n'
            expected += f"{name} {ctypes.sizeof(struct)} {getattr(struct, last).offset}\n"
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "sizes.c").write_text(code + "return 0; }\n")
            subprocess.run([compiler, f"-I{SOURCE}", f"{folder}/sizes.c", "-o", f"{folder}/sizes"],
                           check=True)
            printed = subprocess.run([f"{folder}/sizes"], check=True, stdout=subprocess.PIPE,
                                     text=True).stdout
        self.assertEqual(printed, expected)

    def test_options_reach_the_struct(self):
        options = _library.Options("ask", {
            "kv_budget": "auto", "tail": False, "max_tokens": 7, "fallback": "exact",
            "rule": "top-p",
            "turns": [("Wer?", "Ünal")], "logit_bias": {5: -1.5}, "stop_texts": ["\n", "Ende"],
            "json_schema": {"type": "object"}, "temperature": 0.5, "top_k": None})
        struct = options.struct
        self.assertEqual((struct.kv_budget, struct.no_tail, struct.max_tokens), (-1, 1, 7))
        self.assertEqual(struct.fallback, _abi.LECTERN_FALLBACK_EXACT)
        self.assertEqual(_library.text_of(struct, "rule"), "top-p")
        counts = struct.num_turns, struct.num_logit_bias, struct.num_stop_texts
        self.assertEqual(counts, (1, 1, 2))
        self.assertEqual(_library.text_of(struct.turns[0], "answer"), "Ünal")
        self.assertEqual((struct.logit_bias[0].id, struct.logit_bias[0].bias), (5, -1.5))
        self.assertEqual(_library.text_of(struct.stop_texts[1], "text"), "Ende")
        self.assertEqual(_library.text_of(struct, "json_schema"), '{"type": "object"}')

    def test_wrong_options_are_refused(self):
        for given, param in (({"max_tokens": -1}, "max_tokens"),
                             ({"max_tokens": 1 << 33}, "max_tokens"),
                             ({"max_tokens": 1.5}, "max_tokens"), ({"top_p": "x"}, "top_p"),
                             ({"fallback": "never"}, "fallback")):
            with self.assertRaises(lectern.InvalidArgumentError) as caught:
                _library.Options("ask", given)
            self.assertEqual(caught.exception.param, param)
        with self.assertRaisesRegex(TypeError, "max_token"):
            _library.Options("ask", {"max_token": 1})


# --- questions ----------------------------------------------------------------------------------

class Questions(Case):
    def assert_points(self, text, passage):
        data = text.encode()
        self.assertEqual(text[passage.start:passage.end], passage.text)
        self.assertEqual(data[passage.byte_start:passage.byte_end].decode(), passage.text)
        for range_ in passage.highlights + passage.places:
            self.assertEqual(text[range_.start:range_.end],
                             data[range_.byte_start:range_.byte_end].decode())
            self.assertTrue(text[range_.start:range_.end])

    def test_answers_and_points_to_characters_and_bytes(self):
        with self.store.open("towns") as session:
            self.assertEqual(session.text, TEXT)
            answer = session.ask(QUESTION, max_evidence=5)
        self.assertEqual(answer.text, answer.json["answer"])
        self.assertEqual(len(answer.passages), len(answer.json["evidence"]))
        self.assertTrue(answer.passages)
        self.assertIn("Stuxwick", answer.passages[0].text)
        self.assertNotEqual(answer.passages[0].start, answer.passages[0].byte_start)
        self.assertTrue(answer.passages[0].highlights)
        for passage in answer.passages:
            self.assert_points(TEXT, passage)
        self.assertEqual(answer.receipt.answer_tokens, answer.json["tokens"]["answer"])

    def test_a_cited_text_points_likewise(self):
        given = "🙂 The committee meets in Stuxwick. Pigs fly."
        cited = self.store.cite("towns", given)
        self.assertEqual(len(cited.sentences), 2)
        for sentence in cited.sentences:
            self.assertEqual(given[sentence.start:sentence.end], sentence.text)
            self.assertEqual(given.encode()[sentence.byte_start:sentence.byte_end].decode(),
                             sentence.text)
        self.assertEqual([bool(one.passages) for one in cited.sentences], [True, False])
        self.assertFalse(cited.supported)
        for passage in cited.sentences[0].passages:
            self.assert_points(TEXT, passage)

    def test_tokens_point_likewise(self):
        text = "Ünal 😀 x"
        with self.store.open("towns") as session:
            tokens = session.tokenize(text)
        self.assertEqual(tokens[-1].end, len(text))
        self.assertEqual(tokens[-1].byte_end, len(text.encode()))
        for token in tokens:
            self.assertEqual(text[token.start:token.end],
                             text.encode()[token.byte_start:token.byte_end].decode())

    def test_pages_of_characters(self):
        text = "委员会在码头开会。 Ann knows the Douquouth committee. 😀 The Douquouth committee meets in Stuxwick."
        second = text.index("😀")
        self.store.index_text(text, name="paged", pages=[
            lectern.Page(0, 1, "i"), lectern.Page(second, 2)])
        with self.store.open("paged") as session:
            answer = session.ask(QUESTION, max_evidence=9)
        for passage in answer.passages:
            self.assertEqual(passage.page, 1 if passage.start < second else 2)
            self.assertEqual(passage.label, "i" if passage.page == 1 else "2")
        self.assertEqual({passage.page for passage in answer.passages}, {1, 2})

    def test_callbacks(self):
        pieces, tokens, warnings = [], [], []
        with self.store.open("towns") as session:
            answer = session.ask(QUESTION, on_text=pieces.append, on_token=tokens.append,
                                 on_warning=lambda *one: warnings.append(one), top_logprobs=2)
        self.assertEqual("".join(pieces).rstrip(), answer.text)
        self.assertTrue(tokens)
        self.assertEqual(len(tokens[0].likeliest), 2)
        self.assertLessEqual(tokens[0].token.logprob, 0)
        self.assertTrue(set(answer.warnings) >= {name for name, _ in warnings})

    def test_follow_ups_and_history(self):
        with self.store.open("towns") as session:
            session.ask(QUESTION, turns=[("Who sings?", "Ann.")], max_tokens=4)
            with self.assertRaises(lectern.InvalidArgumentError):
                session.ask(QUESTION, turns=[("Who sings?", "Ann.")])


# --- pieces, asyncio, cancelling ----------------------------------------------------------------

class Streams(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.store.index_text(LONG, name="long", kv_budget=1)

    def endless(self):
        """Options of an answer that takes a while."""
        return {"max_tokens": 3000, "logit_bias": {2: -100.0}, "temperature": 2.0}

    def test_streams(self):
        with self.store.open("towns") as session:
            stream = session.stream(QUESTION)
            pieces = list(stream)
            self.assertEqual("".join(pieces).rstrip(), stream.answer.text)
            self.assertEqual(stream.answer.finish_reason, "stop")
            self.assertEqual(list(stream), [])
            other = session.stream(QUESTION)
            self.assertTrue(other.answer.text)  # without taking the pieces

    def test_closing_ends_the_answer(self):
        with self.store.open("long") as session:
            with session.stream("Who repairs?", **self.endless()) as stream:
                next(stream)
            self.assertEqual(stream.answer.finish_reason, "cancelled")
            self.assertEqual(list(stream), [])
            self.assertTrue(session.ask("Who repairs?", max_tokens=2).finish_reason)  # it is free

    def test_forgetting_ends_the_answer(self):
        with self.store.open("long") as session:
            next(session.stream("Who repairs?", **self.endless()))
            gc.collect()
            for _ in range(100):
                try:
                    session.ask("Who repairs?", max_tokens=2)
                    break
                except lectern.LockedError:
                    time.sleep(0.05)
            else:
                self.fail("the session stayed locked")

    def test_errors_of_a_stream(self):
        with self.store.open("towns") as session:
            with self.assertRaises(lectern.InvalidArgumentError):
                next(session.stream("Who?", kv_budget=7))
            stream = session.stream("Who?", kv_budget=7)
            with self.assertRaises(lectern.InvalidArgumentError):
                stream.answer
            self.assertEqual(list(stream), [])

    def test_cancels_from_another_thread(self):
        token = lectern.CancelToken()
        with self.store.open("long") as session:
            threading.Timer(0.2, token.cancel).start()
            begun = time.monotonic()
            try:
                answer = session.ask("Who repairs?", cancel=token, **self.endless())
                self.assertEqual(answer.finish_reason, "cancelled")
            except lectern.CancelledError:
                pass  # nothing was decoded yet
            self.assertLess(time.monotonic() - begun, 20)
            with self.assertRaises(lectern.CancelledError):
                session.ask("Who repairs?", cancel=token)

    def test_one_question_at_a_time(self):
        with self.store.open("long") as session:
            with session.stream("Who repairs?", **self.endless()) as stream:
                next(stream)
                with self.assertRaises(lectern.LockedError):
                    session.ask("Who?")

    def test_what_a_callback_raises_comes_through(self):
        def fail(*_):
            raise ZeroDivisionError

        with self.store.open("towns") as session:
            for argument in ("on_text", "on_token", "on_warning"):
                with self.subTest(argument), self.assertRaises(ZeroDivisionError):
                    session.ask("Whose is the aardvark?", max_divergence=1e-9, kv_budget=1,
                                **{argument: fail}, **({"on_text": fail}
                                                       if argument == "on_warning" else {}))
            self.assertEqual(session.ask(QUESTION, on_text=lambda _: False).finish_reason,
                             "cancelled")
        with self.assertRaises(ZeroDivisionError):
            self.store.index_text("Another text.", progress=fail)

    def test_asyncio(self):
        async def run():
            with await self.store.aopen("towns") as session:
                answer = await session.aask(QUESTION)
                stream = session.astream(QUESTION)
                with self.assertRaises(RuntimeError):
                    stream.answer
                pieces = [piece async for piece in stream]
                self.assertEqual("".join(pieces).rstrip(), stream.answer.text)
                with self.assertRaises(lectern.InvalidArgumentError):
                    async for _ in session.astream("Who?", kv_budget=7):
                        pass
                return answer

        self.assertTrue(asyncio.run(run()).text)

    def test_cancelling_a_task(self):
        async def run():
            with self.store.open("long") as session:
                task = asyncio.create_task(session.aask("Who repairs?", **self.endless()))
                await asyncio.sleep(0.3)
                self.assertFalse(task.done())
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                await session.aask("Who repairs?", max_tokens=2)  # it is free
                async with session.astream("Who repairs?", **self.endless()) as stream:
                    await stream.__anext__()
                self.assertEqual(stream.answer.finish_reason, "cancelled")

        asyncio.run(run())

    def test_the_loop_goes_on_meanwhile(self):
        async def run():
            ticks = 0

            async def tick():
                nonlocal ticks
                while True:
                    await asyncio.sleep(0.002)
                    ticks += 1

            ticking = asyncio.create_task(tick())
            await self.store.aindex(self.file, name="meanwhile")
            ticking.cancel()
            return ticks

        self.file = self.work / "meanwhile.txt"
        self.file.write_text(LONG * 2)
        self.assertGreater(asyncio.run(run()), 20)

    def test_the_interpreter_runs_while_the_library_works(self):
        """A call that kept the interpreter's lock would let nobody count."""
        done, count, longest = threading.Event(), 0, 0.0
        thread = threading.Thread(target=lambda: (
            self.store.verify(full=True),
            self.store.index_text(LONG + "Two more words.", name="lock"), done.set()))
        begun = last = time.monotonic()
        thread.start()
        while not done.wait(0.001):
            now = time.monotonic()
            count, longest, last = count + 1, max(longest, now - last), now
        thread.join()
        whole = time.monotonic() - begun
        self.assertGreater(count, 20)
        self.assertLess(longest, whole / 2)

    def test_threads_and_cancelling(self):
        """Eight threads with sessions of their own, and one that cancels now and then."""
        failures, token = [], [lectern.CancelToken()]
        stop = threading.Event()

        def ask(number):
            try:
                with self.store.open("towns") as session:
                    for i in range(6):
                        try:
                            session.ask(f"Who has {number} boats?", max_tokens=8, cancel=token[0])
                        except lectern.CancelledError:
                            pass
            except BaseException as error:
                failures.append(error)

        def cancel():
            while not stop.wait(0.05):
                old, token[0] = token[0], lectern.CancelToken()
                old.cancel()

        canceller = threading.Thread(target=cancel)
        canceller.start()
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        stop.set()
        canceller.join()
        self.assertEqual(failures, [])
        self.assertFalse(any(thread.is_alive() for thread in threads))


# --- the store ----------------------------------------------------------------------------------

class Documents(Case):
    def test_lists_shows_and_removes(self):
        report = self.store.index_text("A short text.", name="short")
        self.assertFalse(report.existed)
        self.assertTrue(self.store.index_text("A short text.", name="short").existed)
        self.assertIn("short", [one.name for one in self.store.documents()])
        document = self.store.document("short")
        self.assertEqual((document.id, document.state), (report.document, "ready"))
        self.assertTrue(document.json["shards"])
        self.assertEqual(self.store.text("short"), "A short text.")
        removed = self.store.remove("short")
        self.assertTrue(removed.is_document_gone)
        with self.assertRaises(lectern.NotFoundError) as caught:
            self.store.open("short")
        self.assertIsInstance(caught.exception, LookupError)
        self.assertEqual(caught.exception.code, "not_found")

    def test_an_empty_store(self):
        with lectern.Store(self.work / "none") as store:
            self.assertEqual(store.documents(), [])
            with self.assertRaises(lectern.NotFoundError):
                store.open()
        with self.assertRaises(lectern.InvalidHandleError):
            store.documents()

    def test_exports_imports_and_verifies(self):
        self.store.export("towns", self.work / "towns.lectern")
        with lectern.Store(self.work / "other") as other:
            imported = other.import_(self.work / "towns.lectern", name="copy")
            self.assertEqual(imported.name, "copy")
            self.assertEqual(other.text("copy"), TEXT)
            self.assertEqual(other.verify(), [])
            shard = max((self.work / "other").rglob("*.shard"), key=lambda one: one.stat().st_size,
                        default=None) or max(
                (one for one in (self.work / "other").rglob("*") if one.is_file()
                 and "catalog" not in one.name), key=lambda one: one.stat().st_size)
            with shard.open("r+b") as file:
                file.seek(shard.stat().st_size // 2)
                byte = file.read(1)
                file.seek(-1, 1)
                file.write(bytes([byte[0] ^ 255]))
            damage = other.verify()
            self.assertEqual([one.document for one in damage], [imported.id])
            self.assertTrue(damage[0].message)
            other.collect()

    def test_cancels_indexing(self):
        token = lectern.CancelToken()

        def progress(event):
            if event.stage == "prefill":
                token.cancel()

        with self.assertRaises(lectern.CancelledError):
            self.store.index_text(LONG * 3, name="cancelled", progress=progress, cancel=token)
        self.assertNotIn("cancelled", [one.name for one in self.store.documents()
                                       if one.state == "ready"])

    def test_estimates_and_plans(self):
        file = self.work / "plan.txt"
        file.write_text(LONG)
        estimate = self.store.estimate(file)
        self.assertGreater(estimate.tokens, 1000)
        report = self.store.index(file)
        self.assertEqual(report.tokens, estimate.tokens)
        self.store.change_plan(report.document, kv_budget=0.5)
        self.assertEqual(self.store.document(report.document).json["plan"]["kv_budget"], 0.5)

    def test_progress_without_tqdm(self):
        code = ("import sys; sys.modules['tqdm'] = None; sys.modules['tqdm.auto'] = None\n"
                "import lectern; lectern.Store(sys.argv[1]).index_text('A text.', progress=True)")
        done = python(code, self.work / "lines")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("lectern: prefill\n", done.stderr)

    def test_a_fork_is_told(self):
        code = ("import lectern, os, sys\n"
                "store = lectern.Store(sys.argv[1]); session = store.open('towns')\n"
                "child = os.fork()\n"
                "if child == 0:\n"
                "    try: session.ask('Who?')\n"
                "    except lectern.InvalidHandleError as error:\n"
                "        os._exit(7 if 'spawn' in str(error) else 8)\n"
                "    os._exit(9)\n"
                "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
                "      , session.ask('Who?', max_tokens=1).finish_reason)")
        done = python(code, self.store.path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("7 "), done.stdout)

    def test_the_interpreter_may_end_while_it_works(self):
        code = ("import lectern, sys, threading\n"
                "store = lectern.Store(sys.argv[1]); session = store.open('towns')\n"
                "stream = session.stream('Who?', max_tokens=3000, temperature=2.0,\n"
                "                        logit_bias={2: -100})\n"
                "next(stream)\n"
                "threading.Thread(daemon=True, target=store.index_text,\n"
                "                 args=('Ann. ' * 9000,)).start()\n")
        begun = time.monotonic()
        done = python(code, self.store.path)
        # The thread says nothing about the call that ended: Python 3.11 may abort where one prints then.
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertLess(time.monotonic() - begun, 60)

    def test_ctrl_c(self):
        code = ("import lectern, signal, sys\n"
                # Whoever starts this in the background may have it ignore the signal.
                "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
                "session = lectern.Store(sys.argv[1]).open('towns')\n"
                "def on_text(_):\n"
                "    print('begun', flush=True)\n"
                "try: session.ask('Who?', max_tokens=3000, temperature=2.0, logit_bias={2: -100},\n"
                "                 on_text=on_text)\n"
                "except KeyboardInterrupt: print('interrupted')\n")
        with subprocess.Popen([sys.executable, "-c", code, self.store.path], stdout=subprocess.PIPE,
                              text=True, env={
                                  **os.environ, **PRELOAD, "PYTHONPATH": sys.path[0]}) as child:
            self.assertEqual(child.stdout.readline(), "begun\n")
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.stdout.read().splitlines()[-1], "interrupted")
        self.assertEqual(child.returncode, 0)


# --- files --------------------------------------------------------------------------------------

class Files(Case):
    def tool(self, name, *arguments, **options):
        return subprocess.run([name, *map(str, arguments)], executable=_files.program(name),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300,
                              check=False, **options)

    def test_a_pdf_has_pages(self):
        if shutil.which("pdftotext") is None:
            self.skipTest("there is no pdftotext")
        file = self.work / "plan.pdf"
        file.write_bytes(make_pdf([["Ann sings in the hall."], [
            "The Douquouth committee meets in Stuxwick."]]))
        report = self.store.index(file)
        self.assertEqual(report.source, str(file.resolve()))
        with self.store.open("plan.pdf") as session:
            answer = session.ask(QUESTION)
        self.assertIn("Stuxwick", answer.passages[0].text)
        self.assertEqual(answer.passages[0].page, 2)
        # The same document as the tool's.
        done = self.tool("index-document", "--store", self.store.path, "--model",
                         os.environ["LECTERN_MODEL"], "--json", file)
        self.assertIn(b'"existed":true', done.stdout, done.stderr)

    def test_without_pdftotext_the_error_says_so(self):
        file = self.work / "none.pdf"
        file.write_bytes(make_pdf([["Ann sings."]]))
        path = os.environ["PATH"]
        empty = self.work / "empty"
        empty.mkdir()
        os.environ["PATH"] = str(empty)
        try:
            with self.assertRaises(lectern.NotFoundError) as caught:
                self.store.index(file)
        finally:
            os.environ["PATH"] = path
        self.assertIn("poppler-utils", str(caught.exception))

    def test_bad_bytes_are_the_same_document_as_the_tools(self):
        file = self.work / "bytes.txt"
        file.write_bytes(b"\xef\xbb\xbfAnn sings \xf0\x9f\x98 in the hall. " * 3 + "Ünal.".encode())
        report = self.store.index(file)
        done = self.tool("index-document", "--store", self.store.path, "--model",
                         os.environ["LECTERN_MODEL"], "--json", file)
        self.assertIn(b'"existed":true', done.stdout, done.stderr)
        self.assertIn(report.document.encode(), done.stdout)

    def test_the_text_alone(self):
        file = self.work / "page.html"
        file.write_text("<!doctype html><title>x</title><p>Ann &amp; Ünal sing.")
        done = self.tool("index-document", "--text-only", file)
        self.assertIn("Ann & Ünal sing.\n", done.stdout.decode())
        self.assertEqual(done.returncode, 0)
        read = _files.read_file(file)
        self.assertIn("Ann & Ünal sing.", read.text.decode())
        for arguments in (("--estimate",), ("--collection", "c"), ("--watch",)):
            done = self.tool("index-document", "--text-only", *arguments, file)
            self.assertEqual(done.returncode, 2, arguments)
        self.assertEqual(self.tool("index-document", "--text-only", file, file).returncode, 2)

    def test_wrong_files(self):
        with self.assertRaises(lectern.NotFoundError) as caught:
            self.store.index(self.work / "none.txt")
        self.assertIn("none.txt", str(caught.exception))
        with self.assertRaisesRegex(lectern.InvalidArgumentError, "folder"):
            self.store.index(self.work)
        picture = self.work / "a.png"
        picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
        with self.assertRaises(lectern.InvalidArgumentError):
            self.store.index(picture)
        with self.assertRaisesRegex(lectern.InvalidArgumentError, "format"):
            self.store.index(picture, format="docs")

    def test_a_changed_file_is_the_next_version(self):
        file = self.work / "versions.txt"
        file.write_text("Ann sings.")
        first = self.store.index(file)
        file.write_text("Ben sings.")
        second = self.store.index(file)
        self.assertEqual((second.replaced, second.name), (first.document, "versions.txt"))

    def test_the_released_model_is_taken_with_its_adapter_alone(self):
        shared = self.work / "shared"
        (shared / "reader").mkdir(parents=True)
        (shared / "fetch.sh").write_text("smollm2=model.gguf\n")
        cache = self.work / "cache/lectern"
        cache.mkdir(parents=True)
        (cache / "model.gguf").write_bytes(b"GGUF")
        given = {"XDG_CACHE_HOME": str(cache.parent)}
        with mock.patch.object(_files, "_shared", lambda: shared), mock.patch.dict(os.environ, given):
            os.environ.pop("LECTERN_MODEL", None)
            self.assertEqual(_files.default_reader(False).model, str(shared / "reader"))
            with self.assertRaisesRegex(lectern.NotFoundError, "lectern_reader"):
                _files.default_reader(True)
            (shared / "adapter").mkdir()
            reader = _files.default_reader(False)
            self.assertEqual(reader.model, str(cache / "model.gguf"))
            self.assertEqual(reader.adapter, str(shared / "adapter"))

    def test_the_default_store_is_the_tools(self):
        names = ("LECTERN_STORE", "XDG_DATA_HOME", "HOME")
        kept = {name: os.environ.pop(name, None) for name in names}
        try:
            for number, given in enumerate((
                    {"HOME": str(self.work / "h0")},
                    {"HOME": str(self.work / "h1"), "XDG_DATA_HOME": "not/absolute"},
                    {"HOME": str(self.work / "h2"), "XDG_DATA_HOME": str(self.work / "x2")},
                    {"HOME": str(self.work / "h3"), "LECTERN_STORE": str(self.work / "s3")})):
                os.environ.update(given)
                with lectern.Store() as store:
                    store.index_text("A text.", name=f"document {number}")
                done = self.tool("lectern-store", "list")
                self.assertIn(f"document {number}".encode(), done.stdout)
                for name in given:
                    del os.environ[name]
        finally:
            os.environ.update({name: value for name, value in kept.items() if value is not None})

    def test_the_command(self):
        def command(*arguments):
            return subprocess.run([sys.executable, "-m", "lectern", *map(str, arguments)],
                                  text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                                  env={**os.environ, **PRELOAD, "PYTHONPATH": sys.path[0]})

        listed = command("store", "--store", self.store.path, "list")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertIn("towns", listed.stdout)
        asked = command("ask", "--store", self.store.path, "--document", "towns", QUESTION)
        self.assertEqual(asked.returncode, 0, asked.stderr)
        for name in ("index", "ask", "store", "serve", "doctor"):
            shown = command(name, "--help")
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.assertIn("Usage:", shown.stdout)
        self.assertEqual(command("--version").stdout.split(), ["lectern", lectern.__version__])
        wrong = command("answer")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("index, ask", wrong.stderr)


# --- collections --------------------------------------------------------------------------------

class Collections(Case):
    def test_a_collection(self):
        papers = self.store.collection("papers")
        with self.assertRaises(lectern.NotFoundError):
            papers.documents()
        file = self.work / "fruit.txt"
        file.write_text("😀 Ällo. Quinces are sold in Osk on Tuesdays alone.")
        self.assertEqual([one.change for one in papers.add(file)], ["new"])
        self.assertEqual(papers.add(file)[0].change, "unchanged")
        self.assertEqual(papers.add_text(TEXT, name="towns").change, "new")
        self.assertEqual(papers.add_document("towns").name[:5], "towns")
        self.assertEqual(papers.text("fruit.txt"), file.read_text())
        [mention] = papers.mentions("quinces are sold")
        self.assertEqual((mention.name, mention.source), ("fruit.txt", str(file.resolve())))
        self.assertEqual(file.read_text()[mention.passage.start:mention.passage.end],
                         mention.passage.text)
        self.assertEqual(file.read_bytes()[mention.passage.byte_start:mention.passage.byte_end],
                         mention.passage.text.encode())
        seen = []
        answer = papers.ask(QUESTION, max_tokens=12, on_index=seen.append)
        self.assertTrue(answer.asked_documents)
        for passage in answer.passages:
            self.assertEqual(papers.text(passage.document)[passage.start:passage.end], passage.text)
        with papers.open() as session:
            self.assertTrue(list(session.stream(QUESTION, max_tokens=12)))
        indexed = papers.index()
        self.assertEqual(indexed.left + indexed.failures, 0)
        self.assertTrue(all(one.document for one in papers.documents()))
        papers.verify()
        papers.rename_document("fruit.txt", "quinces")
        papers.remove("quinces")
        papers.rename("paper")
        self.assertIn("paper", [one.name for one in self.store.collections()])
        papers.delete()
        self.assertNotIn("paper", [one.name for one in self.store.collections()])


if __name__ == "__main__":
    unittest.main()
