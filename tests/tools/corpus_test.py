#!/usr/bin/env python3
"""A corpus of real documents through lectern-batch: workers that are killed at random, a real PostgreSQL and
real S3 servers.

The documents are manual pages, texts and web pages of Debian packages, which are fetched; three more that
cannot be read are recorded as failures. Prints a row of the table in tools/batch/README.md for each server.

LECTERN_BIN         folder of the built tools
LECTERN_TEST_MODEL  model folder to index with
CORPUS_DOCUMENTS    number of documents; default 500
CORPUS_SERVERS      S3 servers of cluster_servers.py; default "Swift Moto"
PYTHON              an interpreter that has moto
"""

import gzip
import os
import pathlib
import random
import re
import subprocess
import time
import unittest

import cluster_servers
from batch_test import BUCKET, Corpus
from tools_test import ToolsTest

PACKAGES = ("manpages", "manpages-dev", "debian-policy", "developers-reference", "bash-doc", "libxml2-doc")
NUM_DOCUMENTS = int(os.environ.get("CORPUS_DOCUMENTS", "500"))
SERVERS = os.environ.get("CORPUS_SERVERS", "Swift Moto").split()
NUM_WORKERS, LEASE_SECONDS = 4, 3
LEAST_BYTES, MOST_BYTES = 1500, 9000  # of a document: about 400 to 2,500 tokens


def fetch_packages(folder):
    """Unpacks the packages, which installed systems often lack the documents of."""
    downloads = pathlib.Path(folder, "packages")
    downloads.mkdir()
    subprocess.run(["apt-get", "-q", "download", *PACKAGES], cwd=downloads, check=True, capture_output=True)
    for package in downloads.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, folder], check=True)
    return pathlib.Path(folder, "usr/share")


def is_document(path):
    """Whether the tools read it (packed texts are none), and it is neither a link nor too long."""
    is_read = path.suffix in (".html", ".txt") or path.name == "copyright" or re.fullmatch("man[1-9]", path.parent.name)
    if path.is_symlink() or not path.is_file() or not is_read:
        return False
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    return LEAST_BYTES <= len(content) <= MOST_BYTES and not content.startswith(b".so ")


class CorpusTest(ToolsTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.files = [str(path) for path in sorted(fetch_packages(cls.folder.name).rglob("*"))
                     if is_document(path)]
        random.Random(46).shuffle(cls.files)
        cls.files = cls.files[:NUM_DOCUMENTS]
        cls.postgres = cluster_servers.PostgreSql()

    @classmethod
    def tearDownClass(cls):
        cls.postgres.close()
        super().tearDownClass()

    def run_corpus(self, server):
        self.s3 = getattr(cluster_servers, server)()
        self.addCleanup(self.s3.close)
        self.s3.make_bucket(BUCKET)
        self.assertEqual(len(self.files), NUM_DOCUMENTS)
        broken = [self.write("cut.pdf", b"%PDF-1.4\nno more of it"), self.write("picture.png", b"\x89PNG\r\n\x1a\n"),
                  self.path("missing.txt")]
        corpus = Corpus(self, server.lower(), "--lease", str(LEASE_SECONDS), "--max-deaths", "1000")
        corpus.add([*self.files, *broken])
        start = time.monotonic()
        killed, at_work = corpus.work_with_kills(NUM_WORKERS, 3, seed=46, most_kills=300)
        seconds = time.monotonic() - start
        rows = corpus.check(self.files, broken)
        status = corpus.run("status")
        attempts = sum(int(row["attempt"]) for row in rows.values())
        self.assertGreater(at_work, 0)
        print(f"| {server} | {status['done']} | {status['failed']} | {status['tokens']:,} |"
              f" {status['bytes'] / 1e9:.2f} GB | {NUM_WORKERS} | {killed} | {at_work} | {attempts} |"
              f" {seconds:.0f} s | none |", flush=True)


def add_tests():
    for server in SERVERS:
        def test(self, server=server):
            self.run_corpus(server)
        setattr(CorpusTest, f"test_no_document_is_lost_or_doubled_with_{server.lower()}", test)


add_tests()

if __name__ == "__main__":
    for one in ("PostgreSql", *SERVERS):
        if missing := getattr(cluster_servers, one).why_missing():
            raise SystemExit(f"corpus_test.py: {missing}")
    unittest.main()
