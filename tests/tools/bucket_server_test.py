#!/usr/bin/env python3
"""lectern-server --bucket: documents of a bucket are fetched when they are asked for, checked, and removed again.

The bucket is fake_s3.py, which checks signatures.

LECTERN_BIN         folder of the built tools
LECTERN_TEST_MODEL  model folder to index with
Standard library only.
"""

import hashlib
import json
import os
import signal
import threading
import time
import unittest

from fake_s3 import FakeS3
from server_test import Server
from tools_test import ToolsTest, make_text

BUCKET, PREFIX = "corpora", "law"
QUESTION = {"question": "Who repairs the roof?", "max_tokens": 4}


def stop(server):
    if server.process.poll() is None:
        server.process.send_signal(signal.SIGTERM)
    server.process.communicate()


class BucketServerTest(ToolsTest):
    NAMES = ("law 1", "law 2", "law/3 ü", "law 4")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bundles = {}  # name: (id, bytes)
        for number, name in enumerate(cls.NAMES):
            file = cls.write("document.txt", f"Law {number}. " + make_text(600))
            status, out, err = cls.run_tool("index-document", "--json", "--name", name, file)
            assert status == 0, err
            bundle = cls.path(f"{number}.lectern")
            status, _, err = cls.run_tool("lectern-store", "export", name, bundle)
            assert status == 0, err
            with open(bundle, "rb") as content:
                cls.bundles[name] = (json.loads(out)["document"], content.read())

    def setUp(self):
        self.s3 = FakeS3()
        self.addCleanup(self.s3.close)
        self.s3.make_bucket(BUCKET)
        self.publish(self.NAMES[:3])
        self.requests = []
        self.s3.fault = lambda method, key: self.requests.append((method, key))
        self.folder_of_server = os.path.join(self.folder.name, self.id().split(".")[-1])

    def tearDown(self):
        self.assertEqual(self.s3.mistakes, [])

    def key(self, name):
        return f"{PREFIX}/{self.bundles[name][0]}/bundle.lectern"

    def publish(self, names):
        lines = ""
        for name in names:
            document, content = self.bundles[name]
            sha256 = hashlib.sha256(content).hexdigest()
            self.s3.buckets[BUCKET][self.key(name)] = (content, sha256)
            lines += json.dumps({"name": name, "document": document, "key": self.key(name),
                                 "sha256": sha256, "bytes": len(content)}) + "\n"
        self.s3.buckets[BUCKET][f"{PREFIX}/catalog.jsonl"] = (
            lines.encode(), hashlib.sha256(lines.encode()).hexdigest())

    def start(self, num_documents=3, *flags):
        """A server whose cache has room for so many documents."""
        most = max(len(content) for _, content in self.bundles.values())
        server = Server(self.folder_of_server + "/store", "--bucket", f"s3://{BUCKET}/{PREFIX}",
                        "--endpoint", self.s3.endpoint, "--bucket-cache", str(most * num_documents), *flags,
                        environment=self.s3.environment)
        self.addCleanup(stop, server)
        return server

    def ask(self, server, document, status=200):
        got, _, answer = server.ask(document=document, **QUESTION)
        self.assertEqual(got, status, answer)
        return answer

    def here(self, server):
        return sorted(one["name"] for one in server.call("GET", "/v1/documents")[2]["documents"])

    def downloads(self):
        return [key for method, key in self.requests if method == "GET" and key.endswith(".lectern")]

    def test_a_document_is_fetched_once(self):
        server = self.start()
        self.assertEqual(self.here(server), [])
        for name in (*self.NAMES[:3], self.NAMES[0]):
            self.assertEqual(self.ask(server, name)["document"], self.bundles[name][0])
        self.assertEqual(self.downloads(), [self.key(name) for name in self.NAMES[:3]])
        self.assertEqual(self.here(server), sorted(self.NAMES[:3]))
        self.assertEqual(os.listdir(self.folder_of_server + "/store.bucket"), ["fetched"])

    def test_by_its_id_and_for_each_kind_of_request(self):
        server = self.start()
        ids = [self.bundles[name][0] for name in self.NAMES]
        self.ask(server, ids[0])
        status, _, text = server.call("GET", f"/v1/documents/{ids[1]}/text")
        self.assertEqual((status, text[:6]), (200, "Law 1."))
        status, _, answer = server.call("POST", "/v1/chat/completions", {
            "model": self.NAMES[2], "max_tokens": 4, "messages": [{"role": "user", "content": "Who?"}]})
        self.assertEqual(status, 200, answer)
        self.assertEqual(len(self.downloads()), 3)

    def test_what_the_bucket_lacks_is_not_found(self):
        server = self.start()
        error = self.ask(server, "law 9", 404)["error"]
        self.assertEqual(error["code"], "not_found")
        self.assertEqual(self.downloads(), [])

    def test_many_at_once_fetch_once(self):
        server = self.start()
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(server.ask(document="law 1", **QUESTION)[0]))
                   for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, [200] * 8)
        self.assertEqual(self.downloads(), [self.key("law 1")])

    def test_the_cache_is_bounded_and_the_longest_unused_goes(self):
        server = self.start(2, "--session-timeout", "1")
        for name in ("law 1", "law 2", "law 1"):
            self.ask(server, name)
        time.sleep(2.5)  # documents that were asked are closed
        self.ask(server, "law/3 ü")
        self.assertEqual(self.here(server), ["law 1", "law/3 ü"])
        time.sleep(2.5)
        self.ask(server, "law 2")  # again
        self.assertEqual(self.here(server), ["law 2", "law/3 ü"])
        self.assertEqual(len(self.downloads()), 4)

    def test_documents_that_are_open_stay(self):
        server = self.start(1)
        answer = server.ask(document="law 1", session="new", **QUESTION)[2]
        error = self.ask(server, "law 2", 507)["error"]
        self.assertEqual(error["code"], "no_space")
        self.assertEqual(server.ask(session=answer["session"], **QUESTION)[0], 200)
        self.assertEqual(self.here(server), ["law 1"])

    def test_what_was_fetched_is_known_after_a_restart(self):
        first = self.start(2)
        self.ask(first, "law 1")
        self.ask(first, "law 2")
        stop(first)
        second = self.start(2)
        self.ask(second, "law 1")
        self.assertEqual(len(self.downloads()), 2)
        self.ask(second, "law/3 ü")
        self.assertEqual(self.here(second), ["law 1", "law/3 ü"])

    def test_the_stores_own_documents_never_go(self):
        own = self.write("own.txt", make_text(600))
        self.check(0, "index-document", "--store", self.folder_of_server + "/store", own)
        server = self.start(1, "--session-timeout", "1")
        for name in ("law 1", "law 2"):
            self.ask(server, name)
            time.sleep(2.5)
        self.assertEqual(self.here(server), ["law 2", "own.txt"])

    def test_a_damaged_object_is_refused(self):
        content, sha256 = self.s3.buckets[BUCKET][self.key("law 1")]
        self.s3.buckets[BUCKET][self.key("law 1")] = (content[:-1] + b"x", sha256)
        server = self.start()
        error = self.ask(server, "law 1", 500)["error"]
        self.assertEqual(error["code"], "io_error")
        self.assertNotIn(self.s3.endpoint, error["message"])
        self.assertNotIn(PREFIX, error["message"])
        self.assertEqual(self.here(server), [])
        self.s3.buckets[BUCKET][self.key("law 1")] = (content, sha256)
        self.ask(server, "law 1")

    def test_a_bucket_that_fails_for_a_moment_is_asked_again(self):
        server = self.start()
        faults = ["drop", "busy"]
        self.s3.fault = lambda method, key: faults.pop() if faults else None
        self.ask(server, "law 1")
        self.assertEqual(faults, [])

    def test_while_the_bucket_is_away_the_stores_documents_are_answered(self):
        first = self.start()
        self.ask(first, "law 1")
        stop(first)
        self.s3.fault = lambda method, key: "drop"
        server = self.start()
        self.ask(server, "law 1")
        self.assertEqual(self.ask(server, "law 2", 500)["error"]["code"], "io_error")

    def test_a_new_catalog_is_noticed(self):
        server = self.start()
        self.publish(self.NAMES)
        self.ask(server, "law 4")

    def test_a_server_without_its_bucket_does_not_start(self):
        for place, param, status in ((f"s3://{BUCKET}/other", "bucket", 3), ("s3://nowhere", "bucket", 3),
                                     ("http://x", "bucket", 2)):
            got, out, err = self.run_tool("lectern-server", "--json", "--port", "0", "--bucket", place,
                                          "--endpoint", self.s3.endpoint, env=self.s3.environment)
            self.assertEqual((got, json.loads(err)["error"]["param"]), (status, param), err)


if __name__ == "__main__":
    unittest.main()
