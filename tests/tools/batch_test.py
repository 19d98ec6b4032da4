#!/usr/bin/env python3
"""lectern-batch as its users run it: workers that are killed, stopped and fail, against a real PostgreSQL.

The bucket is an S3 server in this process (fake_s3.py), which checks signatures and fails on demand;
tests/full.sh corpus runs the same checks, with real documents, against real S3 servers. Skipped where
PostgreSQL is not installed.

LECTERN_BIN         folder of the built tools
LECTERN_TEST_MODEL  model folder to index with
Standard library only.
"""

import hashlib
import json
import os
import random
import signal
import threading
import time
import unittest

import bucket_server_test
import server_test
from cluster_servers import PostgreSql
from fake_s3 import FakeS3
from tools_test import TIMEOUT, ToolsTest, make_text

BUCKET = "corpora"


class Corpus:
    """One corpus of a cluster: its own prefix in the bucket, and workers that run in it."""

    def __init__(self, test, prefix, *options):
        self.test, self.options = test, options
        self.place = f"s3://{BUCKET}/{prefix}"
        self.workers = {}
        self.work_folder = test.path(prefix + ".scratch")

    def environment(self, **more):
        return {"LECTERN_DATABASE": self.test.postgres.url, "LECTERN_BUCKET": self.place,
                "AWS_ENDPOINT_URL": self.test.s3.endpoint, **self.test.s3.environment, **more}

    def add(self, entries, *options, status=0):
        lines = "".join((entry if isinstance(entry, str) else json.dumps(entry)) + "\n" for entry in entries)
        out, err = self.test.check(status, "lectern-batch", "--json", "add", "-", *options,
                                   stdin=lines.encode(), env=self.environment())
        return json.loads(out or err)

    def run(self, command, *options, status=0):
        out, err = self.test.check(status, "lectern-batch", "--json", command, *options,
                                   env=self.environment())
        return json.loads(out or err)

    def start(self, index, *options):
        """A worker of a Kubernetes Job or, every other one, of a Slurm array."""
        variables = ({"JOB_COMPLETION_INDEX": str(index)} if index % 2 else
                     {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": str(index)})
        worker = self.test.popen("lectern-batch", "--json", "work", "--threads", "1",
                                 "--scratch", self.work_folder, *self.options, *options,
                                 env=self.environment(**variables), start_new_session=True)
        self.test.addCleanup(self.end, worker)
        return worker

    @staticmethod
    def end(worker):
        if worker.poll() is None:
            os.killpg(worker.pid, signal.SIGKILL)
        worker.communicate()

    def work(self, *options, status=0):
        """One worker to its end; the lines of its claims, and its sums."""
        return self.lines(self.start(0, *options), status)

    def lines(self, worker, status=0):
        out, err = worker.communicate(timeout=TIMEOUT)
        self.test.assertEqual(worker.returncode, status, err.decode())
        *claims, last = [json.loads(line) for line in out.decode().splitlines()]
        return claims, last["summary"]

    def rows(self):
        """The rows of the table, by the documents' names."""
        columns = ("name", "state", "attempt", "deaths", "failures", "worker", "document", "object_key",
                   "sha256", "bytes", "error_code")
        return {row[0]: dict(zip(columns, row)) for row in self.test.postgres.rows(
            f"SELECT {', '.join(columns)} FROM lectern_batch WHERE corpus = '{self.place}' ORDER BY id")}

    def wait_for(self, is_reached, what):
        end = time.monotonic() + TIMEOUT
        while not is_reached(rows := self.rows()):
            self.test.assertLess(time.monotonic(), end, f"{what}: {rows}")
            time.sleep(0.02)
        return rows

    def wait_for_state(self, name, state, attempt):
        return self.wait_for(lambda rows: (rows[name]["state"], rows[name]["attempt"]) == (state, str(attempt)),
                             f"{name} {state} at attempt {attempt}")

    def work_with_kills(self, num_workers, most_seconds_between, seed, most_kills):
        """Keeps workers running until all is done, and kills one again and again, up to most_kills. The
        numbers of workers that were killed, and of those that had a document then."""
        rng, killed, at_work = random.Random(seed), 0, 0
        workers = {index: self.start(index) for index in range(num_workers)}
        ended = set()
        while len(ended) < num_workers:
            time.sleep(rng.uniform(0.05, most_seconds_between))
            index = rng.randrange(num_workers)
            if killed < most_kills and workers[index].poll() is None:
                names = {row["worker"] for row in self.rows().values() if row["state"] == "running"}
                os.kill(workers[index].pid, signal.SIGKILL)
                workers[index].communicate()
                killed += 1
                at_work += any(name.endswith((f"_{index}", f":{index}")) for name in names)
                workers[index] = self.start(index)
            for each, worker in workers.items():
                if each not in ended and worker.poll() is not None:
                    self.lines(worker)
                    ended.add(each)
            if not any(row["state"] in ("waiting", "running") for row in self.rows().values()):
                for each in set(workers) - ended:
                    self.lines(workers[each])
                    ended.add(each)
        return killed, at_work

    def check(self, names, failed=(), num_imported=None):
        """Every document is done once or has failed once; the bucket has one object for each that is
        done and no other; each object has its checksum; and bundles import as the documents they are.
        Returns the rows."""
        test, rows = self.test, self.rows()
        test.assertEqual(sorted(rows), sorted([*names, *failed]))
        for name in names:
            test.assertEqual((rows[name]["state"], rows[name]["failures"]), ("done", "0"), rows[name])
        for name in failed:
            test.assertEqual((rows[name]["state"], rows[name]["failures"]), ("failed", "1"), rows[name])
        prefix = self.place.removeprefix(f"s3://{BUCKET}/") + "/"
        objects = {key: size for key, size in test.s3.objects(BUCKET).items() if key.startswith(prefix)}
        test.assertEqual(objects, {rows[name]["object_key"]: int(rows[name]["bytes"]) for name in names})
        store, bundle = test.path("imported"), test.path("bundle.lectern")
        for number, name in enumerate(names):
            content = test.s3.get(BUCKET, rows[name]["object_key"])
            test.assertEqual(hashlib.sha256(content).hexdigest(), rows[name]["sha256"])
            if num_imported is not None and number >= num_imported:
                continue
            with open(bundle, "wb") as file:
                file.write(content)
            out, _ = test.check(0, "lectern-store", "--store", store, "--json", "import", bundle)
            imported = json.loads(out)
            test.assertEqual(imported["document"], rows[name]["document"], imported)
        self.run("verify")
        return rows


class BatchTest(ToolsTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        why = PostgreSql.why_missing()
        if why:
            super().tearDownClass()
            raise unittest.SkipTest(why)
        cls.postgres, cls.s3 = PostgreSql(), FakeS3()
        cls.s3.make_bucket(BUCKET)

    @classmethod
    def tearDownClass(cls):
        cls.s3.close()
        cls.postgres.close()
        super().tearDownClass()

    def setUp(self):
        self.s3.fault = None
        self.name = self.id().split(".")[-1].removeprefix("test_").replace("_", "-")

    def tearDown(self):
        self.assertEqual(self.s3.mistakes, [])

    def make_files(self, number, num_bytes=600):
        return [self.write(f"{self.name}-{i}.txt", f"Chapter {i}. " + make_text(num_bytes)) for i in range(number)]

    def test_killed_workers_lose_and_double_nothing(self):
        files = self.make_files(20, 3000)
        broken = self.write("broken.pdf", b"%PDF-1.4\nno more of it")
        corpus = Corpus(self, self.name, "--lease", "1", "--max-deaths", "100")
        self.assertEqual(corpus.add([*files, broken]), {"added": 21, "existed": 0})
        killed, at_work = corpus.work_with_kills(4, 0.5, seed=46, most_kills=25)
        rows = corpus.check(files, [broken])
        print(f"{killed} workers killed, {at_work} of them at work; attempts:",
              sorted(int(row["attempt"]) for row in rows.values()), flush=True)
        self.assertGreater(at_work, 2)
        status = corpus.run("status")
        self.assertEqual([one["name"] for one in status["failures"]], [broken])
        self.assertEqual((status["done"], status["failed"], status["models"]), (20, 1, 1))

    def test_adding_again_doubles_nothing(self):
        files = self.make_files(3)
        corpus = Corpus(self, self.name)
        entries = [files[0], {"file": files[1], "name": "second", "options": {"keep": 0.5}}, "", files[0]]
        self.assertEqual(corpus.add(entries), {"added": 2, "existed": 0})
        self.assertEqual(corpus.add([*entries, files[2]]), {"added": 1, "existed": 2})
        before = corpus.rows()
        for other in ({"file": files[2], "name": "second", "options": {"keep": 0.5}},
                      {"file": files[1], "name": "second", "options": {"keep": 0.25}}):
            error = corpus.add([{"file": files[1], "name": "third"}, other], status=2)["error"]
            self.assertEqual((error["code"], error["param"]), ("invalid_argument", "manifest"))
            self.assertIn('"second"', error["message"])
        self.assertEqual(corpus.rows(), before)
        corpus.work()
        self.assertEqual(corpus.add(entries), {"added": 0, "existed": 2})
        self.assertEqual(corpus.work()[1]["done"], 0)
        corpus.check([files[0], "second", files[2]])

    def test_a_wrong_manifest_adds_nothing(self):
        corpus = Corpus(self, self.name)
        corpus.add([""])
        for line, expected in (('{"file": 3}', 'line 2 .*"file"'), ('{"name": "x"}', '"file" is missing'),
                               ('{"file": "x", "options": {"keep": 2}}', '"keep"'),
                               ('{"file": "x", "options": {"name": "y"}}', "no such option"),
                               ("{", "no JSON"), ('{"file": "y", "name": "first"}', "taken")):
            error = corpus.add([{"file": "x", "name": "first"}, line], status=2)["error"]
            self.assertRegex(error["message"], expected)
        self.assertEqual(corpus.rows(), {})

    def test_a_failure_is_recorded_once_and_tried_again_on_request(self):
        late = self.path("late.txt")
        corpus = Corpus(self, self.name)
        corpus.add([late])
        claims, sums = corpus.work()
        self.assertEqual([(one["result"], one["code"]) for one in claims], [("failed", "not_found")])
        self.assertEqual(corpus.work()[1]["failed"], 0)
        corpus.check([], [late])
        self.write("late.txt", make_text(600))
        self.assertEqual(corpus.run("retry"), {"waiting_again": 1})
        self.assertEqual(corpus.work()[1]["done"], 1)
        row = corpus.rows()[late]
        self.assertEqual((row["state"], row["failures"], row["error_code"]), ("done", "1", ""))

    # --- lost leases ------------------------------------------------------------------------------

    def stop_at(self, method):
        """The first request of this method waits. Events: it has come, and it may go on."""
        came, may_go = threading.Event(), threading.Event()

        def fault(this_method, _):
            if this_method == method and not came.is_set():
                came.set()
                may_go.wait(TIMEOUT)

        self.s3.fault = fault
        self.addCleanup(may_go.set)
        return came, may_go

    def stop_while_uploading(self, corpus):
        came, may_go = self.stop_at("PUT")
        late = corpus.start(0)
        self.assertTrue(came.wait(TIMEOUT))
        os.kill(late.pid, signal.SIGSTOP)
        return late, may_go

    def check_lost(self, corpus, late):
        os.kill(late.pid, signal.SIGCONT)
        claims, sums = corpus.lines(late)
        self.assertEqual([(one["result"], one["attempt"]) for one in claims], [("lost", 1)])
        self.assertEqual((sums["lost"], sums["done"]), (1, 0))

    def test_a_late_worker_cannot_record(self):
        name, = self.make_files(1, 20000)
        corpus = Corpus(self, self.name, "--lease", "1")
        corpus.add([name])
        late = corpus.start(0)
        corpus.wait_for_state(name, "running", 1)
        os.kill(late.pid, signal.SIGSTOP)
        claims, _ = corpus.lines(corpus.start(1))
        self.assertEqual([(one["result"], one["attempt"]) for one in claims], [("done", 2)])
        self.check_lost(corpus, late)
        self.assertEqual(corpus.check([name])[name]["attempt"], "2")

    def test_an_upload_that_ends_behind_another_worker_goes_away(self):
        name, = self.make_files(1)
        corpus = Corpus(self, self.name, "--lease", "1")
        corpus.add([name])
        puts = len(self.s3.puts)
        late, may_go = self.stop_while_uploading(corpus)
        claims, _ = corpus.lines(corpus.start(1))
        self.assertEqual([(one["result"], one["attempt"]) for one in claims], [("done", 2)])
        may_go.set()
        self.check_lost(corpus, late)
        self.assertEqual(len(self.s3.puts) - puts, 2)
        self.assertEqual(len(set(self.s3.puts[puts:])), 2)  # under names of their own
        corpus.check([name])

    def test_a_whole_upload_of_a_dead_worker_is_taken_over(self):
        name, = self.make_files(1)
        corpus = Corpus(self, self.name, "--lease", "1")
        corpus.add([name])
        puts = len(self.s3.puts)
        late, may_go = self.stop_while_uploading(corpus)
        may_go.set()
        end = time.monotonic() + TIMEOUT
        while len(self.s3.puts) == puts:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        os.kill(late.pid, signal.SIGKILL)
        claims, _ = corpus.lines(corpus.start(1))
        self.assertEqual([(one["result"], one["attempt"]) for one in claims], [("done", 2)])
        self.assertEqual(len(self.s3.puts) - puts, 1)
        corpus.check([name])

    # --- ends of workers --------------------------------------------------------------------------

    def test_a_document_at_which_workers_die_fails(self):
        poison, = self.make_files(1, 20000)
        corpus = Corpus(self, self.name, "--lease", "1", "--max-deaths", "2")
        corpus.add([poison])
        for attempt in (1, 2):
            worker = corpus.start(0)
            corpus.wait_for_state(poison, "running", attempt)
            self.assertEqual(corpus.rows()[poison]["deaths"], str(attempt - 1))
            os.kill(worker.pid, signal.SIGKILL)
        corpus.work()
        row = corpus.check([], [poison])[poison]
        self.assertEqual((row["error_code"], row["deaths"]), ("workers_died", "2"))

    def test_a_killed_worker_that_is_started_again_does_not_wait_for_its_lease(self):
        name, other = self.make_files(2, 20000)
        corpus = Corpus(self, self.name, "--lease", "600")
        corpus.add([name, other])
        worker = corpus.start(0)
        corpus.wait_for_state(name, "running", 1)
        time.sleep(0.3)
        os.kill(worker.pid, signal.SIGKILL)
        claims, _ = corpus.lines(corpus.start(0))
        self.assertEqual([(one["name"], one["result"], one["attempt"]) for one in claims],
                         [(name, "done", 2), (other, "done", 1)])
        self.assertEqual(os.listdir(corpus.work_folder), [])
        corpus.check([name, other])

    def test_a_half_written_bundle_does_not_stand_in_the_way(self):
        name, = self.make_files(1)
        corpus = Corpus(self, self.name)
        corpus.add([name])
        folder = os.path.join(corpus.work_folder, "lectern-batch-slurm_7_0")
        os.makedirs(folder)
        for ending in ("", ".part"):
            with open(os.path.join(folder, "bundle.lectern" + ending), "wb") as file:
                file.write(b"half")
        corpus.work()
        corpus.check([name])

    def test_a_signal_gives_the_document_back_and_the_worker_goes_on_later(self):
        name, = self.make_files(1, 30000)
        for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            corpus = Corpus(self, f"{self.name}-{status}", "--lease", "600")
            corpus.add([name])
            worker = corpus.start(0)
            corpus.wait_for_state(name, "running", 1)
            time.sleep(0.3)  # so that there is something to keep
            worker.send_signal(number)
            out, err = worker.communicate(timeout=TIMEOUT)
            self.assertEqual(worker.returncode, status, err.decode())
            row = corpus.rows()[name]
            self.assertEqual((row["state"], row["deaths"], row["worker"]), ("waiting", "0", "slurm:7_0"))
        self.assertEqual(os.listdir(corpus.work_folder), ["lectern-batch-slurm_7_0"])  # its checkpoint
        claims, _ = corpus.lines(corpus.start(0))
        self.assertEqual([one["result"] for one in claims], ["done"])
        self.assertEqual(os.listdir(corpus.work_folder), [])
        corpus.check([name])

    def test_a_document_that_is_too_large_for_every_machine_fails(self):
        large, = self.make_files(1, 12000)
        small = self.write("small.txt", "A small text. " + make_text(300))
        corpus = Corpus(self, self.name, "--max-deaths", "2", "--quota", "10MB")
        corpus.add([large, small])
        for state in ("waiting", "failed"):
            worker = corpus.start(0)
            _, err = worker.communicate(timeout=TIMEOUT)
            self.assertEqual(worker.returncode, 5, err.decode())
            self.assertEqual(corpus.rows()[large]["state"], state)
        corpus.work()
        self.assertEqual(corpus.check([small], [large])[large]["error_code"], "no_space")

    def test_a_model_that_cannot_be_loaded_fails_no_document(self):
        name, = self.make_files(1)
        corpus = Corpus(self, self.name)
        corpus.add([name])
        for model in (self.path("nowhere"), name):
            worker = corpus.start(0, "--model", model)
            _, err = worker.communicate(timeout=TIMEOUT)
            self.assertNotEqual(worker.returncode, 0)
            row = corpus.rows()[name]
            self.assertEqual((row["state"], row["attempt"]), ("waiting", "0"), err.decode())

    def test_workers_of_other_models_do_not_mix(self):
        files = self.make_files(2)
        corpus = Corpus(self, self.name)
        corpus.add(files[:1])
        corpus.work()
        corpus.add(files)
        worker = corpus.start(0, "--weights", "q8")
        _, err = worker.communicate(timeout=TIMEOUT)
        self.assertEqual(worker.returncode, 4, err.decode())
        self.assertEqual(json.loads(err)["error"]["code"], "model_mismatch")
        self.assertEqual(corpus.rows()[files[1]]["state"], "waiting")
        corpus.work()
        corpus.check(files)

    # --- failures of servers ----------------------------------------------------------------------

    def test_requests_that_fail_are_sent_again(self):
        files = self.make_files(6)
        corpus = Corpus(self, self.name, "--lease", "30")
        corpus.add(files)
        rng, faults = random.Random(3), []

        def fault(method, _):
            faults.append(rng.choice(("drop", "busy", "lost", None, None, None)))
            return faults[-1]

        self.s3.fault = fault
        self.assertEqual(corpus.work()[1]["done"], 6)
        self.assertEqual(set(faults), {"drop", "busy", "lost", None})
        self.s3.fault = None
        corpus.check(files)

    def test_temporary_keys_are_signed(self):
        name, = self.make_files(1)
        corpus = Corpus(self, self.name)
        corpus.add([name])
        status, _, err = self.run_tool("lectern-batch", "work",
                                       env=corpus.environment(AWS_SESSION_TOKEN="token/+="))
        self.assertEqual((status, self.s3.mistakes), (0, []), err)
        corpus.check([name])

    def test_large_bundles_go_in_parts(self):
        name, = self.make_files(1, 12000)
        corpus = Corpus(self, self.name, "--part-size", "5MiB")
        corpus.add([name])
        parts = []
        self.s3.fault = lambda method, _: parts.append(method)
        corpus.work()
        self.assertGreater(parts.count("PUT"), 1)
        self.assertEqual(self.s3.uploads, {})
        corpus.check([name])

    def test_a_bucket_that_is_not_there_ends_the_worker(self):
        name, = self.make_files(1)
        corpus = Corpus(self, self.name)
        corpus.place = "s3://nowhere/x"
        corpus.add([name])
        worker = corpus.start(0)
        _, err = worker.communicate(timeout=TIMEOUT)
        self.assertEqual(worker.returncode, 3, err.decode())
        self.assertIn('no bucket \\"nowhere\\"', err.decode())
        self.assertEqual(corpus.rows()[name]["state"], "waiting")

    def test_wrong_keys_end_the_worker_and_are_not_printed(self):
        name, = self.make_files(1)
        corpus = Corpus(self, self.name)
        corpus.add([name])
        environment = corpus.environment(AWS_SECRET_ACCESS_KEY="quite-secret")
        status, out, err = self.run_tool("lectern-batch", "work", env=environment)
        self.assertEqual(status, 1, err)
        self.assertIn("the keys do not allow it", err)
        environment["LECTERN_DATABASE"] = "postgresql://user:quite-secret@%zz/"
        status, out, more = self.run_tool("lectern-batch", "status", env=environment)
        self.assertEqual(status, 2, more)
        self.assertNotIn("quite-secret", out + err + more)
        self.assertEqual(self.s3.mistakes and self.s3.mistakes[0].split(": ")[-1], "another signature")
        self.s3.mistakes.clear()
        self.assertEqual(corpus.rows()[name]["state"], "waiting")

    def test_a_database_that_restarts_is_waited_for(self):
        files = self.make_files(8, 3000)
        corpus = Corpus(self, self.name, "--lease", "30")
        corpus.add(files)
        worker = corpus.start(0)
        corpus.wait_for(lambda rows: rows[files[1]]["state"] == "done", "two done")
        self.postgres.stop("immediate")
        time.sleep(1)
        self.postgres.start()
        self.assertEqual(corpus.lines(worker)[1]["done"], 8)
        corpus.check(files)

    def test_verify_finds_what_is_not_as_recorded(self):
        files = self.make_files(3)
        corpus = Corpus(self, self.name)
        corpus.add(files)
        corpus.work()
        keys = [corpus.rows()[name]["object_key"] for name in files]
        # An upload whose worker died behind it: known to the table, and used by nobody.
        self.s3.buckets[BUCKET][keys[2] + ".late"] = (b"late", "")
        self.postgres.rows(f"UPDATE lectern_batch SET uploads = ARRAY['{keys[2]}', '{keys[2]}.late'] "
                           f"WHERE object_key = '{keys[2]}'")
        self.s3.remove(BUCKET, keys[0])
        self.s3.buckets[BUCKET][keys[1]] = (b"other", hashlib.sha256(b"other").hexdigest())
        found = corpus.run("verify", status=6)
        self.assertEqual((found["checked"], [one["name"] for one in found["wrong"]]), (3, sorted(files[:2])))
        corpus.run("verify", "--again")
        self.assertEqual(corpus.work()[1]["done"], 2)
        corpus.check(files)

    def test_a_server_opens_what_was_published(self):
        files = self.make_files(3)
        corpus = Corpus(self, self.name)
        corpus.add([{"file": file, "name": f"law {number}"} for number, file in enumerate(files)])
        corpus.work()
        self.assertEqual(corpus.run("publish"), {"published": 3, "key": f"{self.name}/catalog.jsonl"})
        server = server_test.Server(self.path("served"), "--bucket", corpus.place, "--endpoint", self.s3.endpoint,
                        environment=self.s3.environment)
        self.addCleanup(bucket_server_test.stop, server)
        for number in range(3):
            status, _, answer = server.ask(document=f"law {number}", question="Who repairs the roof?", max_tokens=4)
            self.assertEqual((status, answer.get("document")), (200, corpus.rows()[f"law {number}"]["document"]))
        self.s3.remove(BUCKET, f"{self.name}/catalog.jsonl")
        corpus.check([f"law {number}" for number in range(3)])

    def test_help_and_usage(self):
        out, _ = self.check(0, "lectern-batch", "--help")
        for command in ("add", "work", "status", "retry", "publish", "verify"):
            self.assertIn(command, out)
        for arguments, param in ((["status", "--bucket", "https://x/y"], "bucket"),
                                 (["status", "--bucket", "s3://x/y"], "bucket"),
                                 (["status", "--bucket", "s3://xyz/a//b"], "bucket")):
            status, _, err = self.run_tool("lectern-batch", "--json", *arguments)
            self.assertEqual((status, json.loads(err)["error"]["param"]), (2, param), arguments)
        status, _, _ = self.run_tool("lectern-batch", "work", "--lease", "0", env={"LECTERN_BUCKET": "s3://abc"})
        self.assertEqual(status, 2)


if __name__ == "__main__":
    unittest.main()
