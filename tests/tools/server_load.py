#!/usr/bin/env python3
"""lectern-server under load: tests/tools/server_load.py [--soak SECONDS] [PART…]

Parts: burst, documents, fair, leave, soak; all without an argument. Prints a row of a Markdown table for each
claim with what was measured, and exits 1 where one does not hold.

LECTERN_BIN             folder of the built tools
LECTERN_FAKE_GENERATOR  built from tests/tools/fake_generator.cc
LECTERN_TEST_MODEL      model folder to index with
Standard library only.
"""

import argparse
import http.client
import json
import os
import random
import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from server_test import BIN, MODEL, Server

FAKE = os.environ.get("LECTERN_FAKE_GENERATOR", "")
HERE = os.path.dirname(os.path.abspath(__file__))
failed = []


def row(claim, holds, measured):
    print(f"| {claim} | {measured} | {'yes' if holds else 'NO'} |", flush=True)
    if not holds:
        failed.append(claim)


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def request(body):
    body = json.dumps(body).encode()
    return (b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)) + body


class Stream:
    """An ask whose events are counted as they come."""

    MARK = b"event: text\n"

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=600)
        self.received = b""
        self.sent_at, self.text_at, self.is_over = None, [], False

    def send(self, body):
        self.sent_at = time.monotonic()
        self.socket.sendall(request(body))

    def read(self):
        """Takes what has come; waits for something where nothing has."""
        part = self.socket.recv(1 << 16)
        now = time.monotonic()
        self.is_over = not part
        self.received += part
        count = self.received.count(self.MARK)
        self.text_at += [now] * (count - len(self.text_at))

    def is_done(self):
        return b"event: done\n" in self.received


def together(port, bodies):
    """Streams of all bodies, sent when all are connected, read until all are over."""
    streams = [Stream(port) for _ in bodies]
    with selectors.DefaultSelector() as selector:
        for stream, body in zip(streams, bodies):
            stream.send(body)
            selector.register(stream.socket, selectors.EVENT_READ, stream)
        while selector.get_map():
            for key, _ in selector.select():
                key.data.read()
                if key.data.is_over:
                    selector.unregister(key.data.socket)
    for stream in streams:
        stream.socket.close()
    return streams


def burst():
    """500 at once, with a fake generator: what the server itself costs."""
    for what, slots, tokens, token_ms, limit_ms in (
            ("500 answers at the same time", 500, 10, 100, 100),
            ("500 in line for 2 places", 2, 20, 0, None)):
        generator = subprocess.Popen([FAKE, str(slots), str(tokens), str(token_ms)],
                                     stdout=subprocess.PIPE, text=True)
        try:
            port = int(generator.stdout.readline())
            rounds = [together(port, [{}] * 500) for _ in range(5)]
        finally:
            generator.kill()
            generator.communicate()
        whole = min(sum(s.is_done() and len(s.text_at) == tokens for s in r) for r in rounds)
        firsts = [[1000 * (s.text_at[0] - s.sent_at) for s in r if s.text_at] for r in rounds]
        p50s, p99s = ([percentile(f, share) for f in firsts] for share in (0.5, 0.99))
        p99 = percentile(p99s, 0.5)  # of the round in the middle
        limit = f": first token p99 <= {limit_ms} ms" if limit_ms else ": all whole"
        row(what + limit, whole == 500 and (not limit_ms or p99 <= limit_ms),
            f"{whole} whole; first token p50 {percentile(p50s, 0.5):.0f} ms, p99 {p99:.0f} ms "
            f"({min(p99s):.0f} to {max(p99s):.0f}; five rounds)")


def fair(store, questions):
    """64 questions to one document, generated together. Compared are those that are as long as they
    may be: others end when their text does."""
    server = Server(store, "--model", MODEL, "--parallel", "64")
    try:
        bodies = [{"question": questions[i % len(questions)], "stream": True, "max_tokens": 96,
                   "temperature": 10, "seed": i + 1} for i in range(64)]
        streams = together(server.port, bodies)
    finally:
        server.stop()
    whole = sum(s.is_done() for s in streams)
    full = [s for s in streams if b'"finish_reason":"length"' in s.received]
    begun, ended = max(s.text_at[0] for s in streams), min(s.text_at[-1] for s in full)
    counts = [sum(begun < at <= ended for at in s.text_at) for s in full]
    ratio = max(counts) / max(1, min(counts))
    row("64 questions at the same time: all answered", whole == 64, f"{whole} whole")
    row("their pieces of text from when the last began to when the first ended: most / least <= 1.5",
        ratio <= 1.5 and len(full) >= 32,
        f"{max(counts)} / {min(counts)} = {ratio:.2f} of {len(full)}")


def leave(store, total):
    """Clients that leave while they are answered: first one after the other, to see how soon the place
    is free, then four at a time. They close their socket; one that shuts down its sending half alone
    has not left, and gets its answer."""
    server = Server(store, "--model", MODEL, "--parallel", "4", "--queue", "100")
    lock, rng = threading.Lock(), random.Random(1)
    long_question = "Say who met whom, where and why, and what was built there. " * 100

    def draw(choose):
        with lock:
            return choose(rng)

    def running():
        return server.metric("lectern_generations_running")

    def one(when, is_reset):
        """Leaves during `when`; the time at which it did."""
        stream = Stream(server.port)
        stream.send({"question": long_question if when == "prefill" else "Tell me all.",
                     "stream": True, "max_tokens": 4000, "temperature": 10})
        if when == "prefill":
            while running() == 0:
                time.sleep(0.002)
            time.sleep(draw(lambda r: r.uniform(0, 0.1)))
        else:
            wanted = draw(lambda r: r.randint(1, 5))
            while len(stream.text_at) < wanted and not stream.is_over:
                stream.read()
        if is_reset:
            stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stream.socket.close()
        return time.monotonic()

    kinds = [(when, is_reset) for when in ("generation", "prefill") for is_reset in (False, True)]
    plans = [kinds[i % 4] for i in range(total - total // 5)]

    def work():
        while True:
            with lock:
                if not plans:
                    return
                kind = plans.pop()
            one(*kind)

    ms = {kind: [] for kind in kinds}
    try:
        server.ask(question="Who?")
        for i in range(total // 5):
            left_at = one(*kinds[i % 4])
            while running() > 0:
                time.sleep(0.002)
            ms[kinds[i % 4]].append(1000 * (time.monotonic() - left_at))
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        server.wait_until_idle()
        cancelled = server.metric("lectern_cancelled_total")
    finally:
        server.stop()
    for (when, is_reset), times in ms.items():
        row(f"left during {when}, by {'a reset' if is_reset else 'closing'}: the place is free within 400 ms",
            percentile(times, 0.99) <= 400,
            f"{len(times)} clients, p50 {percentile(times, 0.5):.0f} ms, p99 {percentile(times, 0.99):.0f} ms")
    row("all places free after; each counted as cancelled", cancelled >= 0.95 * total,
        f"{total} left, {cancelled:.0f} were cancelled")


class Process:
    """The figures of a process in /proc."""

    def __init__(self, pid):
        self.folder = f"/proc/{pid}/"

    def kilobytes(self):
        with open(self.folder + "smaps_rollup", encoding="utf-8") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("Anonymous:"))

    def descriptors(self):
        return len(os.listdir(self.folder + "fd"))

    def mapped(self, folder):
        """Mapped files of the folder, but for the catalog's."""
        with open(self.folder + "maps", encoding="utf-8") as file:
            return sum(folder in line and "catalog" not in line for line in file)

    def threads(self):
        return len(os.listdir(self.folder + "task"))


def soak(store, questions, seconds):
    """All ways to ask, good and bad, four at a time; a fifth of the time is warm-up. Without the
    allocator's caches for each thread, which would count as not freed and fill up for hours."""
    os.environ["GLIBC_TUNABLES"] = "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0"
    server = Server(store, "--model", MODEL)
    del os.environ["GLIBC_TUNABLES"]
    process = Process(server.process.pid)
    lock, asked, points = threading.Lock(), 0, []
    rng = random.Random(2)
    document = server.call("GET", "/v1/documents")[2]["documents"][0]["name"]

    def leave_early(fields):
        stream = Stream(server.port)
        stream.send({**fields, "stream": True})
        stream.read()
        stream.socket.close()

    def one():
        with lock:
            question, kind = rng.choice(questions), rng.randrange(7)
        if kind == 0:
            server.call("POST", "/v1/chat/completions", {
                "model": document, "messages": [{"role": "user", "content": question}]})
        elif kind == 1:
            server.call("POST", "/v1/responses", {"model": document, "input": question})
        elif kind == 2:
            server.events("POST", "/v1/ask", {"question": question, "stream": True})
        elif kind == 3:
            leave_early({"question": question})
        elif kind == 4:  # a conversation
            session = server.ask(question=question, session="new")[2]["session"]
            assert server.ask(question=question, session=session)[0] == 200
            leave_early({"question": question, "session": session})
            assert server.call("DELETE", "/v1/sessions/" + session)[0] == 200
        elif kind == 5:
            server.ask(question=question, kv_budget=7)
            server.ask(question=question, document="none")
        else:
            server.ask(question=question)

    def together_for(seconds):
        ends = time.monotonic() + seconds

        def work():
            nonlocal asked
            while time.monotonic() < ends:
                try:
                    one()
                except (OSError, http.client.HTTPException, AssertionError) as error:
                    print("soak:", repr(error), file=sys.stderr)
                    failed.append("soak")
                    return
                with lock:
                    asked += 1

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        server.wait_until_idle()

    try:
        server.ask(question=questions[0])
        together_for(0.2 * seconds)
        for _ in range(30):
            together_for(0.8 * seconds / 30)
            time.sleep(0.2)
            points.append((asked, process.kilobytes(), process.descriptors(), process.threads(),
                           server.metric("lectern_heap_bytes")))
    finally:
        server.stop()
    # Connections' threads keep a little for their next one: the least of ten times at rest.
    early, late = (min(points[at:at + 10], key=lambda p: p[4]) for at in (0, 20))
    grown = (late[4] - early[4]) / 1.024 / (late[0] - early[0])
    row("memory that is not freed grows by less than 1 KB in 1,000 asks", grown < 1,
        f"{seconds} s, {asked} asks: {grown:+.2f} KB in 1,000, {late[4] / 1024:.0f} KB at the end")
    anonymous = [p[1] for p in points]
    row("anonymous memory, with what the allocator keeps, stays under 40 MB",
        # Each of four answers without max_tokens reserves 1,024 rows: 4 MB of the bundled model.
        max(anonymous) < 40 << 10,
        f"{min(anonymous[:10])} KB at least in the first third after warm-up, "
        f"{min(anonymous[20:])} KB in the last, {max(anonymous)} KB at most")
    row("no more descriptors and threads at rest in the last third than in the first",
        all(max(p[i] for p in points[20:]) <= max(p[i] for p in points[:10]) for i in (2, 3)),
        f"descriptors {max(p[2] for p in points[:10])} -> {max(p[2] for p in points[20:])}, "
        f"threads {max(p[3] for p in points[:10])} -> {max(p[3] for p in points[20:])}")


def documents():
    """30 documents asked one after another: they stay open for a while, and no others."""
    with tempfile.TemporaryDirectory(prefix="lectern-load-") as store:
        for i in range(30):
            subprocess.run([os.path.join(BIN, "index-document"), "--store", store, "--model", MODEL,
                            "--progress", "none", "--name", f"d{i}", "-"], check=True,
                           capture_output=True, input=f"The tenant pays {i} euro. ".encode() * 100)
        server = Server(store, "--model", MODEL)
        process = Process(server.process.pid)
        points = []
        try:
            for i in list(range(30)) * 2:
                assert server.ask(document=f"d{i}", question="Who pays?", max_tokens=4)[0] == 200
                points.append((process.descriptors(), process.mapped(store)))
        finally:
            server.stop()
    first, second = ([max(p[i] for p in part) for i in (0, 1)] for part in (points[:30], points[30:]))
    row("30 documents in turn, twice: no more descriptors and mapped files the second time",
        all(late <= early for late, early in zip(second, first)),
        f"descriptors {first[0]}, then {second[0]} at most; of documents {first[1]}, then {second[1]} "
        f"files mapped at most")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--soak", type=int, default=600, metavar="SECONDS")
    parser.add_argument("--leave", type=int, default=1000, metavar="CLIENTS")
    parser.add_argument("parts", nargs="*", metavar="PART")
    options = parser.parse_args()
    parts = options.parts or ["burst", "documents", "fair", "leave", "soak"]
    print("| claim | measured | holds |\n|---|---|---|", flush=True)
    if "burst" in parts:
        burst()
    if "documents" in parts:
        documents()
    with tempfile.TemporaryDirectory(prefix="lectern-load-") as folder:
        subprocess.run([sys.executable, os.path.join(HERE, "../../tools/evaluate/make_documents.py"),
                        folder, "--lengths", "4096", "--documents", "1", "--questions", "20"],
                       check=True, stdout=subprocess.DEVNULL)
        [text] = [n for n in os.listdir(folder) if n.endswith(".txt")]
        with open(os.path.join(folder, text[:-4] + ".jsonl"), encoding="utf-8") as file:
            questions = [q["question"] for q in map(json.loads, file) if "question" in q]
        store = os.path.join(folder, "store")
        subprocess.run([os.path.join(BIN, "index-document"), "--store", store, "--model", MODEL,
                        "--progress", "none", os.path.join(folder, text)], check=True,
                       capture_output=True)
        if "fair" in parts:
            fair(store, questions)
        if "leave" in parts:
            leave(store, options.leave)
        if "soak" in parts:
            soak(store, questions, options.soak)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
