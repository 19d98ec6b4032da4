#!/usr/bin/env python3
"""Processes of an MPI job index and ask a document together, as mpirun starts them on one machine.

    mpi_test.py BUILD_FOLDER

Is skipped, with status 77, where mpirun or liblectern_mpi.so.1 is missing. LECTERN_TEST_MODEL names
another model than the bundled one.
"""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else SOURCE / "build-checked").resolve()
TOOLS = BUILD / "tools"
MODEL = os.environ.get("LECTERN_TEST_MODEL", str(SOURCE / "tools/reader/model"))
TEXT = SOURCE / "tools/demo/document.txt"
QUESTION = "Where does the Douquouth committee rent a hall?"
RANKS = (1, 2, 3, 4, 8)
# One user's processes on one machine; Open MPI asks for the last two where that user is root.
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def mpirun(size, *command, **options):
    words = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(size), *map(str, command)]
    return subprocess.Popen(words, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **options)


def run(size, *command):
    """Status and outputs of a job, or of a process without mpirun where `size` is 0."""
    if size == 0:
        done = subprocess.run(list(map(str, command)), text=True, capture_output=True, timeout=600)
        return done.returncode, done.stdout, done.stderr
    job = mpirun(size, *command)
    try:
        out, err = job.communicate(timeout=600)
    finally:
        job.kill()
    return job.returncode, out, err


def children(pid, name):
    """The processes of a program below another process, the oldest first."""
    found, below = [], {pid}
    for entry in sorted(pathlib.Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            command = (entry / "cmdline").read_bytes().split(b"\0")[0].decode()
        except OSError:
            continue
        if int(fields[1]) in below:
            below.add(int(entry.name))
            if command.endswith(name):
                found.append(int(entry.name))
    return found


def error_code(err):
    """The code of the error that a tool printed, among what mpirun says of it."""
    codes = [json.loads(line)["error"]["code"] for line in err.splitlines() if line.startswith('{"error"')]
    return codes[0] if codes else err


class Store:
    """A folder for a store, which goes with this object."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = self.folder.name

    def index(self, size, *more):
        return run(size, TOOLS / "index-document", "--threads", "1", "--store", self.path, "--model", MODEL,
                   "--json", *more, TEXT)

    def ask(self, size, *more):
        return run(size, TOOLS / "ask-document", "--threads", "1", "--store", self.path, "--json", *more,
                   QUESTION)

    def verify(self):
        return run(0, TOOLS / "lectern-store", "--store", self.path, "verify", "--full")


class MpiTest(unittest.TestCase):
    def index(self, store, size, *more):
        status, out, err = store.index(size, *more)
        self.assertEqual(status, 0, err)
        return json.loads(out)

    def ask(self, store, size, *more):
        status, out, err = store.ask(size, *more)
        self.assertEqual(status, 0, err)
        return json.loads(out)

    def store(self):
        store = Store()
        self.addCleanup(store.folder.cleanup)
        return store

    def test_documents_of_all_numbers_of_ranks_give_the_same_answers(self):
        """Every number of ranks opens the document of every other one, one process too."""
        alone = self.store()
        self.index(alone, 0)
        answers = {}
        for budget in ("0.1", "1"):
            answers[budget] = self.ask(alone, 0, "--kv-budget", budget)
        for size in RANKS:
            store = self.store()
            report = self.index(store, size)
            self.assertEqual(report["warnings"], [])
            self.assertEqual(store.verify()[0], 0)
            for asked_by in (0, size, RANKS[-1] - size + 1):
                for budget, expected in answers.items():
                    with self.subTest(indexed_by=size, asked_by=asked_by, budget=budget):
                        answer = self.ask(store, asked_by, "--kv-budget", budget)
                        self.assertEqual(answer["answer"], expected["answer"])
                        self.assertEqual(answer["evidence"][0]["text"], expected["evidence"][0]["text"])
                        # The same rows, but for those whose scores differ by rounding alone.
                        self.assertAlmostEqual(answer["kv"]["bytes_read"] / expected["kv"]["bytes_read"],
                                               1, delta=0.01)

    def test_an_error_is_the_error_of_the_job(self):
        store = self.store()
        status, _, err = store.ask(3)
        self.assertNotEqual(status, 0)
        self.assertEqual(error_code(err), "not_found")
        self.index(store, 2)
        # The last layer's shard is cut: whoever opens the document says so.
        shard = sorted(pathlib.Path(store.path).rglob("layer-*.shard"))[-1]
        shard.write_bytes(shard.read_bytes()[:8192])
        status, _, err = store.ask(3)
        self.assertNotEqual(status, 0)
        self.assertEqual(error_code(err), "truncated")

    def test_a_killed_rank_ends_the_job_and_leaves_the_store_whole(self):
        """At any moment of indexing; the next run completes the document."""
        random.seed(os.environ.get("LECTERN_SEED", "1"))
        times = int(os.environ.get("LECTERN_KILLS", "8"))
        store = self.store()
        other = tempfile.TemporaryDirectory()
        self.addCleanup(other.cleanup)
        kept = pathlib.Path(other.name) / "kept.txt"
        kept.write_text("The committee meets on Fridays. " * 40)
        status, _, err = run(0, TOOLS / "index-document", "--threads", "1", "--store", store.path, "--model",
                             MODEL, kept)
        self.assertEqual(status, 0, err)
        killed = 0
        for attempt in range(times):
            job = mpirun(3, TOOLS / "index-document", "--threads", "1", "--store", store.path, "--model", MODEL,
                         "--json", TEXT, start_new_session=True)
            deadline = time.monotonic() + 30
            while len(ranks := children(job.pid, "index-document")) < 3 and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(random.uniform(0, 2.0))
            victim = ranks[attempt % 3] if len(ranks) == 3 else None
            if victim is not None and job.poll() is None:
                try:
                    os.kill(victim, signal.SIGKILL)
                    killed += 1
                except ProcessLookupError:
                    pass
            job.communicate(timeout=120)
            for rank in ranks:  # all of them end
                deadline = time.monotonic() + 20
                while pathlib.Path(f"/proc/{rank}").exists() and time.monotonic() < deadline:
                    time.sleep(0.05)
                self.assertFalse(pathlib.Path(f"/proc/{rank}").exists(), "a rank goes on")
            self.assertEqual(store.verify()[0], 0)
            run(0, TOOLS / "lectern-store", "--store", store.path, "remove", TEXT.name)
        self.assertGreater(killed, 0)
        self.index(store, 3)
        self.assertEqual(store.verify()[0], 0)
        self.assertEqual(self.ask(store, 2, "--document", TEXT.name)["answer"].strip(), "Stuxwick")

    def test_the_server_starts_a_new_group(self):
        store = self.store()
        self.index(store, 2)
        server = subprocess.Popen(
            [TOOLS / "lectern-server", "--threads", "1", "--store", store.path, "--port", "0", "--json",
             "--ranks", "mpirun --oversubscribe --bind-to none -n 3"],
            env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            for _ in range(3):
                url = json.loads(server.stdout.readline())["url"]
                request = urllib.request.Request(
                    url + "v1/ask", json.dumps({"question": QUESTION, "kv_budget": 0.1}).encode(),
                    {"Content-Type": "application/json"})
                with urllib.request.urlopen(request, timeout=60) as response:
                    self.assertEqual(json.load(response)["answer"].strip(), "Stuxwick")
                ranks = children(server.pid, "lectern-server")
                self.assertEqual(len(ranks), 3)
                os.kill(random.choice(ranks), signal.SIGKILL)
            url = json.loads(server.stdout.readline())["url"]
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(timeout=30), 0)
        finally:
            server.kill()
            server.stdout.close()

    def test_a_job_that_speaks_of_no_mpi_is_told_so(self):
        """A process alone in a job needs no library; with others it does, and says which."""
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "ask-document"
            shutil.copy(TOOLS / "ask-document", copy)
            environment = {**os.environ, "OMPI_COMM_WORLD_SIZE": "2"}
            done = subprocess.run([copy, "--store", folder, "x"], env=environment, text=True, capture_output=True)
            self.assertEqual(done.returncode, 3)
            self.assertIn("liblectern_mpi.so.1", done.stderr)
            environment["LECTERN_MPI"] = "off"
            done = subprocess.run([copy, "--store", folder, "x"], env=environment, text=True, capture_output=True)
            self.assertNotIn("liblectern_mpi.so.1", done.stderr)


if __name__ == "__main__":
    if not shutil.which("mpirun") or not (TOOLS / "liblectern_mpi.so.1").exists():
        print("SKIPPED: there is no mpirun, or no liblectern_mpi.so.1")
        sys.exit(77)
    unittest.main()
