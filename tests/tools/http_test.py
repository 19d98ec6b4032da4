#!/usr/bin/env python3
"""lectern-server as an HTTP server: programs of the field are served, attacks are refused, pages of
other sites may ask where they are allowed to.

LECTERN_BIN         folder of the built tools
LECTERN_TEST_MODEL  model folder to index with
Standard library only; curl where it is installed.
"""

import http.client
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from recorded_clients import CLIENTS, LOCAL, get
from server_test import BIN, IS_WINE, LONG, MODEL, TEXT, TOKEN, Server, index, wait_for

L = b"Host: localhost\r\n"
J = b"Content-Type: application/json\r\n"
ASK = b"POST /v1/ask HTTP/1.1\r\n" + L
CHUNKED = ASK + J + b"Transfer-Encoding: chunked\r\n\r\n"
GET = b"GET /v1/documents HTTP/1.1\r\n"
FORM = ASK + b"Content-Type: text/plain\r\nContent-Length: 16\r\n"
QUESTION = b"\r\n{\"question\":\"x\"}"

# name: (bytes, status)
ATTACKS = {
    "no http": (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
    "http 0.9": (b"GET /health\r\n\r\n", 400),
    "http 2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "http 2 without preface": (b"GET / HTTP/2.0\r\n" + L + b"\r\n", 505),
    "no version": (b"GET / HTTP/\r\n" + L + b"\r\n", 400),
    # --- whose server this is ---
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", 400),
    "empty host": (GET + b"Host:\r\n\r\n", 400),
    "two hosts": (b"GET /health HTTP/1.1\r\n" + L + b"Host: evil\r\n\r\n", 400),
    "two hosts alike": (GET + L + L + b"\r\n", 400),
    "foreign host": (GET + b"Host: evil.example\r\n\r\n", 403),
    "rebinding with port": (b"GET / HTTP/1.1\r\nHost: evil.example:80\r\n\r\n", 403),
    "rebinding by an absolute target": (b"GET http://evil.example/v1/documents HTTP/1.1\r\n" + L +
                                        b"\r\n", 403),
    "rebinding in http 1.0": (b"GET /v1/documents HTTP/1.0\r\nHost: evil.example\r\n\r\n", 403),
    "rebinding by an address as name": (GET + b"Host: 127.0.0.1.evil.example\r\n\r\n", 403),
    "localhost as a part": (GET + b"Host: localhost.evil.example\r\n\r\n", 403),
    "host in user info": (b"GET / HTTP/1.1\r\nHost: localhost@evil\r\n\r\n", 403),
    "user info in the target": (b"GET http://localhost@evil/ HTTP/1.1\r\n" + L + b"\r\n", 403),
    "host with a path": (GET + b"Host: localhost/evil\r\n\r\n", 403),
    "port that is none": (GET + b"Host: localhost:evil\r\n\r\n", 403),
    # --- other sites' pages ---
    "foreign origin": (GET + L + b"Origin: http://evil.example\r\n\r\n", 403),
    "null origin": (GET + L + b"Origin: null\r\n\r\n", 403),
    "rebound name's origin": (GET + L + b"Origin: http://evil.example\r\nSec-Fetch-Site: same-origin\r\n"
                              b"\r\n", 403),
    "another port's origin": (GET + L + b"Origin: http://localhost:3000\r\n\r\n", 403),
    "origin with another start": (GET + L + b"Origin: http://localhost.evil\r\n\r\n", 403),
    "cross site": (GET + L + b"Sec-Fetch-Site: cross-site\r\n\r\n", 403),
    "form of another site": (FORM + b"Origin: http://evil\r\n" + QUESTION, 403),
    "form of a sandbox": (FORM + b"Origin: null\r\n" + QUESTION, 403),
    "form of an old browser": (FORM + b"Referer: http://evil/\r\n" + QUESTION, 415),
    "form without referrer": (FORM + b"User-Agent: Mozilla/5.0\r\n" + QUESTION, 415),
    "form with cookies": (FORM + b"Cookie: a=b\r\n" + QUESTION, 415),
    "form of a neighbour": (FORM + b"Sec-Fetch-Site: same-site\r\n" + QUESTION, 415),
    "beacon": (ASK + b"Origin: http://evil\r\nContent-Length: 2\r\n\r\n{}", 403),
    "multipart": (b"POST /v1/documents HTTP/1.1\r\n" + L + b"Content-Type: multipart/form-data; "
                  b"boundary=x\r\nContent-Length: 1\r\n\r\nx", 415),
    "octets elsewhere": (ASK + b"Content-Type: application/octet-stream\r\nContent-Length: 1\r\n\r\nx",
                         415),
    "options": (b"OPTIONS /v1/ask HTTP/1.1\r\n" + L + b"Origin: http://evil\r\n\r\n", 403),
    "preflight": (b"OPTIONS /v1/ask HTTP/1.1\r\n" + L + b"Origin: http://evil\r\n"
                  b"Access-Control-Request-Method: POST\r\n\r\n", 403),
    # --- two readings of where a request ends ---
    "chunked and length": (ASK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
                           + GET + L + b"\r\n", 400),
    "length and chunked": (ASK + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"
                           + GET + L + b"\r\n", 400),
    "chunked in http 1.0": (b"POST /v1/ask HTTP/1.0\r\n" + L + b"Transfer-Encoding: chunked\r\n\r\n"
                            b"0\r\n\r\n" + GET + L + b"\r\n", 400),
    "chunked twice": (ASK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                      501),
    "chunked not last": (ASK + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 501),
    "unknown coding": (ASK + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
    "coding with a tab": (ASK + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400),
    "compressed coding": (ASK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    "space before colon": (b"GET / HTTP/1.1\r\n" + L + b"X : a\r\n\r\n", 400),
    "space before the coding's colon": (ASK + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
    "folded header": (b"GET / HTTP/1.1\r\n" + L + b"X: a\r\n b\r\n\r\n", 400),
    "folded coding": (ASK + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400),
    "bare line feed": (b"GET / HTTP/1.1\nHost: localhost\n\n", 400),
    "bare line feed in a header": (b"GET / HTTP/1.1\r\n" + L + b"X: a\nContent-Length: 5\r\n\r\n", 400),
    "bare carriage return": (b"GET / HTTP/1.1\r\n" + L + b"X: a\rContent-Length: 5\r\n\r\n", 400),
    "negative length": (ASK + b"Content-Length: -1\r\n\r\n", 400),
    "letters as length": (ASK + b"Content-Length: abc\r\n\r\n", 400),
    "hex length": (ASK + b"Content-Length: 0x10\r\n\r\n", 400),
    "plus length": (ASK + b"Content-Length: +5\r\n\r\n", 400),
    "empty length": (ASK + b"Content-Length:\r\n\r\n", 400),
    "two lengths": (ASK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", 400),
    "length list": (ASK + b"Content-Length: 2, 2\r\n\r\n{}", 400),
    "huge length": (ASK + b"Content-Length: 99999999999999999999\r\n\r\n", 400),
    # --- chunks ---
    "chunk size in letters": (CHUNKED + b"xyz\r\n", 400),
    "negative chunk": (CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n", 400),
    "chunk with 0x": (CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n", 400),
    "chunk that overflows": (CHUNKED + b"ffffffffffffffff\r\n", 400),
    "chunk longer than it says": (CHUNKED + b"5\r\nhello!\r\n0\r\n\r\n", 400),
    "chunk ended by a line feed": (CHUNKED + b"5\nhello\n0\n\n", 400),
    "chunk of a space": (CHUNKED + b" 5\r\nhello\r\n0\r\n\r\n", 400),
    "endless extension": (CHUNKED + b"5;" + b"e" * 4000000, 400),
    "endless trailers": (CHUNKED + b"0\r\n" + b"A: b\r\n" * 1000000, 400),
    "large chunk": (CHUNKED + b"fffffff\r\n", 413),
    "many chunks": (CHUNKED + (b"10000\r\n" + b"a" * 65536 + b"\r\n") * 200, 413),
    "many small chunks": (CHUNKED + (b"1;" + b"e" * 1000 + b"\r\na\r\n") * 20000, 413),
    # --- bodies ---
    "large length": (ASK + J + b"Content-Length: 99999999999\r\n\r\n", 413),
    "large length, expecting": (ASK + J + b"Expect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n",
                                413),
    "unknown expectation": (ASK + J + b"Expect: 200-ok\r\nContent-Length: 2\r\n\r\n{}", 417),
    "gzip": (ASK + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b", 415),
    "less than it says": (ASK + J + b"Content-Length: 50\r\n\r\n{}", 400),
    "large body on get": (GET + L + b"Content-Length: 99999999\r\n\r\n", 413),
    # --- methods and targets ---
    "put": (b"PUT / HTTP/1.1\r\n" + L + b"\r\n", 405),
    "trace": (b"TRACE / HTTP/1.1\r\n" + L + b"\r\n", 405),
    "connect": (b"CONNECT evil:443 HTTP/1.1\r\n" + L + b"\r\n", 400),
    "star of another method": (b"GET * HTTP/1.1\r\n" + L + b"\r\n", 400),
    "another scheme": (b"GET file:///etc/passwd HTTP/1.1\r\n" + L + b"\r\n", 400),
    "long target": (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n" + L + b"\r\n", 414),
    "traversal": (b"GET /../../etc/passwd HTTP/1.1\r\n" + L + b"\r\n", 404),
    "encoded traversal": (b"GET /v1/documents/%2e%2e%2f%2e%2e%2fetc HTTP/1.1\r\n" + L + b"\r\n", 404),
    "encoded nul": (b"GET /health%00 HTTP/1.1\r\n" + L + b"\r\n", 400),
    "bad percent": (b"GET /%zz HTTP/1.1\r\n" + L + b"\r\n", 400),
    "control in target": (b"GET /\x01 HTTP/1.1\r\n" + L + b"\r\n", 400),
    "space in target": (b"GET / x HTTP/1.1\r\n" + L + b"\r\n", 400),
    # --- headers ---
    "nul in header": (b"GET / HTTP/1.1\r\n" + L + b"X: a\x00b\r\n\r\n", 400),
    "nameless header": (b"GET / HTTP/1.1\r\n" + L + b": a\r\n\r\n", 400),
    "two origins": (GET + L + b"Origin: http://localhost\r\nOrigin: http://evil\r\n\r\n", 400),
    "many headers": (b"GET / HTTP/1.1\r\n" + L + b"X: a\r\n" * 200 + b"\r\n", 431),
    "long header": (b"GET / HTTP/1.1\r\n" + L + b"X: " + b"a" * 60000000, 431),
    "endless headers": (b"GET / HTTP/1.1\r\n" + L + b"X: a\r\n" * 2000000, 431),
    # --- behind a request that is well ---
    "a body behind its length": (ASK + J + b"Content-Length: 2\r\n\r\n{}{\"a\":1} / HTTP/1.1\r\n\r\n",
                                 400),
}
# These attack with their second request: the first one gets its own answer, of status 400.
TWO_ANSWERS = {"a body behind its length"}


class Answer:
    """One response, taken from the front of `data`; `rest` follows it."""

    def __init__(self, data, method="GET"):
        head, found, body = data.partition(b"\r\n\r\n")
        assert found, data[:200]
        lines = head.decode("latin-1").split("\r\n")
        self.version, status, self.reason = (lines[0] + " ").split(" ", 2)
        self.status = int(status)
        self.headers = [tuple(line.split(": ", 1)) for line in lines[1:]]
        has_body = method != "HEAD" and self.status >= 200 and self.status != 204
        if not has_body:
            self.body, self.rest = b"", body
        elif self.header("Transfer-Encoding") == "chunked":
            self.body, self.rest = self.dechunk(body)
        elif self.header("Content-Length") is not None:
            length = int(self.header("Content-Length"))
            assert len(body) >= length, (length, body[:200])
            self.body, self.rest = body[:length], body[length:]
        else:
            assert self.header("Connection") == "close", head
            self.body, self.rest = body, b""

    def header(self, name):
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        return ", ".join(values) if values else None

    @staticmethod
    def dechunk(data):
        body = b""
        while True:
            size, _, data = data.partition(b"\r\n")
            size = int(size, 16)
            body, end, data = body + data[:size], data[size:size + 2], data[size + 2:]
            assert end == b"\r\n", end
            if size == 0:
                return body, data


def answers(data, method="GET"):
    """All final responses of a connection; those of 1xx are left out."""
    found = []
    while data:
        answer = Answer(data, method)
        data = answer.rest
        if answer.status >= 200:
            found.append(answer)
    return found


def is_whole(data, count, method):
    try:
        return len(answers(data, method)) >= count
    except (AssertionError, ValueError):
        return False


def converse(port, client):
    """The bytes that `client` receives."""
    received = b""
    method = client.pieces[0].lstrip().split(b" ", 1)[0].decode()
    with socket.create_connection(("127.0.0.1", port), timeout=30) as s:
        for at, piece in enumerate(client.pieces):
            s.sendall(piece)
            if at + 1 < len(client.pieces):
                received += s.recv(1 << 16)
        if client.half_closes:
            s.shutdown(socket.SHUT_WR)
        while not is_whole(received, client.count, method):
            part = s.recv(1 << 16)
            if not part:
                break
            received += part
    return answers(received, method)


class HttpCase(unittest.TestCase):
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lectern-http-")
        cls.store = os.path.join(cls.folder.name, "store")
        index(cls.store, "lease.txt", TEXT)
        cls.server = Server(cls.store, "--model", MODEL, *cls.flags)

    @classmethod
    def tearDownClass(cls):
        code, _, err = cls.server.stop()
        cls.folder.cleanup()
        assert (code, err) == (0, ""), (code, err)

    def ask(self, client, **fields):
        """A POST of /v1/ask on an http.client connection: status, headers, body."""
        client.request("POST", "/v1/ask", json.dumps({"document": "lease.txt", "question": "Who pays?", **fields}),
                       {"Content-Type": "application/json"})
        response = client.getresponse()
        return response.status, response.headers, response.read()


class ClientsTest(HttpCase):
    flags = ("--allow-index",)

    def test_recorded_clients_are_served(self):
        self.assertGreaterEqual(len(CLIENTS), 80)
        for name, client in CLIENTS.items():
            with self.subTest(name):
                got = converse(self.server.port, client)
                self.assertEqual([a.status for a in got], [client.status] * client.count,
                                 got and got[-1].body)
                self.assertIn(client.has, got[-1].body)
                if b" HTTP/1.0\r\n" in client.pieces[0]:
                    self.assertIsNone(got[-1].header("Transfer-Encoding"))

    def test_head_says_what_get_does(self):
        for path in ("/", "/health", "/openapi.json", "/v1/documents", "/v1/documents/lease.txt"):
            got, = converse(self.server.port, self.client("GET", path))
            head, = converse(self.server.port, self.client("HEAD", path))
            own = ("Date", "X-Request-Id")
            self.assertEqual([h for h in head.headers if h[0] not in own],
                             [h for h in got.headers if h[0] not in own])
            self.assertEqual((head.status, head.body), (200, b""))
            self.assertEqual(head.header("Content-Length"), str(len(got.body)))
        refused, = converse(self.server.port, self.client("HEAD", "/v1/ask"))
        self.assertEqual((refused.status, refused.body), (405, b""))

    def client(self, method, path, *headers):
        return get(f"{method} {path} HTTP/1.1", LOCAL, *headers)

    def test_options_says_what_there_is(self):
        for path, allowed in (("/v1/ask", "POST, OPTIONS"), ("/health", "GET, HEAD, OPTIONS"),
                              ("/v1/documents/x", "GET, HEAD, DELETE, OPTIONS")):
            status, headers, body = self.server.call("OPTIONS", path)
            self.assertEqual((status, headers["Allow"], body), (204, allowed, ""))
            self.assertNotIn("Content-Length", headers)
            refused = self.server.call("PATCH", path)
            self.assertEqual((refused[0], refused[1]["Allow"]), (405, allowed))
        self.assertEqual(self.server.call("OPTIONS", "/v1/none")[0], 404)

    def test_one_connection_serves_many_requests(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        self.addCleanup(connection.close)
        connection.connect()
        port = connection.sock.getsockname()[1]
        for _ in range(3):
            self.assertEqual(self.ask(connection, max_tokens=2)[0], 200)
            status, headers, body = self.ask(connection, max_tokens=2, stream=True)
            self.assertEqual((status, headers["Transfer-Encoding"]), (200, "chunked"))
            self.assertIn(b"event: done\n", body)
            self.assertEqual(self.ask(connection, kv_budget=7)[0], 400)
            self.assertEqual(connection.sock.getsockname()[1], port)
        connection.request("GET", "/health", headers={"Connection": "close"})
        response = connection.getresponse()
        self.assertEqual(response.headers["Connection"], "close")
        response.read()
        self.assertIsNone(connection.sock)

    def test_a_stream_of_http_1_0_ends_with_its_connection(self):
        body = b'{"document":"lease.txt","question":"Who pays?","stream":true,"max_tokens":4}'
        got = self.server.raw(b"POST /v1/ask HTTP/1.0\r\nConnection: keep-alive\r\n" + J +
                              b"Content-Length: %d\r\n\r\n" % len(body) + body, wait=60)
        answer = Answer(got)
        self.assertEqual((answer.status, answer.header("Connection")), (200, "close"))
        self.assertIsNone(answer.header("Transfer-Encoding"))
        self.assertIn(b"event: done\n", answer.body)
        self.assertTrue(answer.body.startswith(b"event: "))

    def test_expect_is_answered_before_the_body(self):
        head = ASK + J + b"Expect: 100-continue\r\nContent-Length: 23\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as s:
            s.sendall(head)
            self.assertEqual(s.recv(1000), b"HTTP/1.1 100 Continue\r\n\r\n")
            s.sendall(b'{"question":"Who pays?"')
            self.assertTrue(s.recv(1000).startswith(b"HTTP/1.1 400 "))
        # Who is refused anyway is not asked for the body.
        for other, status in ((b"Content-Length: 99999999\r\n", 413),
                              (b"Content-Length: 9\r\nHost: evil\r\n", 400)):
            got = self.server.raw(ASK + J + b"Expect: 100-continue\r\n" + other + b"\r\n")
            self.assertEqual([a.status for a in answers(got)], [status])
            self.assertNotIn(b"100 Continue", got)

    def test_half_closed_sockets_get_their_answer(self):
        """Also where the answer takes a while, and where the writing side is shut down later."""
        body = json.dumps({"document": "lease.txt", "question": "Tell me all.", "max_tokens": 200, "temperature": 5}).encode()
        for version in (b"1.1", b"1.0"):
            for pause in (0, 0.05):
                head = b"POST /v1/ask HTTP/" + version + b"\r\n" + L + J
                with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as s:
                    s.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                    time.sleep(pause)
                    s.shutdown(socket.SHUT_WR)
                    got = b""
                    while part := s.recv(1 << 16):
                        got += part
                answer, = answers(got)
                self.assertEqual(answer.status, 200, answer.body)
                self.assertIn(b'"answer"', answer.body)
                if version == b"1.0":
                    self.assertNotIn(b"100 Continue", got)

    def test_localhost_is_both_addresses(self):
        for address in ("127.0.0.1", "::1") if has_ipv6() else ("127.0.0.1",):
            with socket.create_connection((address, self.server.port), timeout=10) as s:
                s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertTrue(s.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n"))

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_curl(self):
        url = f"http://localhost:{self.server.port}"
        large = os.path.join(self.folder.name, "large.txt")
        with open(large, "w", encoding="utf-8") as file:
            file.write(TEXT * 800)  # curl sends Expect from 1 MB on
        question = ["-d", '{"document":"lease.txt","question":"Who pays?"}', url + "/v1/ask"]
        for flags, status, has in (
                (question, "200", '"answer"'), (["-0", *question], "200", '"answer"'),
                (["--http2", *question], "200", '"answer"'),
                (["-H", "Transfer-Encoding: chunked", *question], "200", '"answer"'),
                (["-H", "Expect: 100-continue", *question], "200", '"answer"'),
                (["-H", "Expect: 200-ok", *question], "417", "expectation_failed"),
                (["-I", url + "/"], "200", "Content-Length"),
                (["-x", url, "http://localhost/health"], "200", "ok"),
                (["-H", "Content-Type: application/octet-stream", "--data-binary", "@" + large,
                  url + "/v1/documents?name=large"], "202", '"id"'),
                (["-X", "POST", url + "/v1/ask"], "400", "not JSON")):
            with self.subTest(flags):
                run = subprocess.run(["curl", "-sS", "--noproxy", "", "-m", "60", "-w",
                                      "\n%{http_code}", *flags], capture_output=True, check=True,
                                     text=True)
                self.assertEqual(run.stdout.rsplit("\n", 1)[1], status, run.stdout)
                self.assertIn(has, run.stdout)
                if status == "202":  # a text of many parts: nobody waits for it
                    job = json.loads(run.stdout.rsplit("\n", 1)[0])["id"]
                    subprocess.run(["curl", "-sS", "-X", "DELETE", f"{url}/v1/jobs/{job}"],
                                   capture_output=True, check=True)


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
        return True
    except OSError:
        return False


class AttacksTest(HttpCase):
    flags = ("--allow-index", "--max-upload", "1MB")

    def test_attacks_are_refused(self):
        """Cheaply, and others are answered meanwhile."""
        before = self.server.peak_kilobytes()
        self.assertGreaterEqual(len(ATTACKS), 60)
        for name, (request, status) in ATTACKS.items():
            with self.subTest(name):
                got = []
                attacker = threading.Thread(target=lambda: got.append(self.attack(request)))
                attacker.start()
                self.assertEqual(self.server.call("GET", "/v1/documents", timeout=5)[0], 200)
                attacker.join()
                expected = [status] * (2 if name in TWO_ANSWERS else 1)
                self.assertEqual([a.status for a in answers(got[0])], expected, got[0][:200])
                self.assertNotIn(b"Access-Control-Allow", got[0])
        self.assertLess(self.server.peak_kilobytes() - before, 16 * 1024)

    def attack(self, request):
        """All that comes back for these bytes, and no more."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=15) as s:
            parts = []
            try:
                for at in range(0, len(request), 1 << 16):
                    s.sendall(request[at:at + (1 << 16)])
                s.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # refused while sending: the answer is there
            try:
                while part := s.recv(1 << 16):
                    parts.append(part)
            except OSError:
                pass
            return b"".join(parts)

    def test_who_takes_too_long_is_told_so(self):
        """All at once, because each waits for its time to be up."""
        slow = {"head": b"GET /health HTTP/1.1\r\n", "body": ASK + J + b"Content-Length: 9\r\n\r\n{",
                "chunks": CHUNKED + b"5\r\nhel", "expecting": ASK + J + b"Expect: 100-continue\r\n"
                b"Content-Length: 9\r\n\r\n"}
        got = {}

        def wait(name, request):
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as s:
                s.sendall(request)
                data = b""
                while part := s.recv(1 << 16):
                    data += part
                got[name] = [a.status for a in answers(data)]
        threads = [threading.Thread(target=wait, args=item) for item in slow.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(got, {name: [408] for name in slow})

    def test_slow_clients_do_not_hold_up_others(self):
        slow = [socket.create_connection(("127.0.0.1", self.server.port)) for _ in range(100)]
        try:
            for s in slow:
                s.sendall(b"GET /hea")
            self.assertEqual(self.server.call("GET", "/health", timeout=5)[0], 200)
            self.assertEqual(self.server.ask(question="Who pays?")[0], 200)
        finally:
            for s in slow:
                s.close()

    def test_spoofed_headers_change_nothing(self):
        answer = Answer(self.server.raw(
            b"GET /health HTTP/1.1\r\nConnection: close\r\n" + L + b"REMOTE_ADDR: 6.6.6.6\r\n"
            b"Range: bytes=0-0,0-0,0-0\r\nX-A: %0d%0aSet-Cookie: a=b\r\n\r\n"))
        self.assertEqual((answer.status, answer.body), (200, b'{"status":"ok"}'))
        self.assertIsNone(answer.header("Set-Cookie"))

    def test_an_upload_in_chunks_keeps_its_limit(self):
        head = (b"POST /v1/documents?name=x HTTP/1.1\r\n" + L +
                b"Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b"4000\r\n" + b"a" * 0x4000 + b"\r\n"
        [refused] = answers(self.attack(head + piece * 80))
        self.assertEqual(refused.status, 413)
        self.assertIn(b"1000000 bytes", refused.body)


class OriginsTest(HttpCase):
    """Browsers at pages of another site (https://fetch.spec.whatwg.org/#http-cors-protocol)."""
    PAGE = "https://app.example"
    flags = ("--allow-origin", "https://App.example/", "--allow-origin", "http://localhost:3000")

    def call(self, method, path, body=None, origin=PAGE, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if origin:
            headers["Origin"] = origin
        return self.server.call(method, path, body, headers)

    def assert_readable(self, headers, origin=PAGE):
        self.assertEqual(headers["Access-Control-Allow-Origin"], origin)
        self.assertIn("Origin", headers.get_all("Vary"))

    def test_preflight(self):
        for path in ("/v1/ask", "/v1/chat/completions", "/v1/documents", "/v1/none"):
            status, headers, body = self.call(
                "OPTIONS", path, Access_Control_Request_Method="POST",
                Access_Control_Request_Headers="authorization,content-type,x-stainless-os",
                Access_Control_Request_Private_Network="true")
            self.assertEqual((status, body), (204, ""))
            self.assert_readable(headers)
            self.assertIn("POST", headers["Access-Control-Allow-Methods"].split(", "))
            self.assertIn("DELETE", headers["Access-Control-Allow-Methods"].split(", "))
            self.assertEqual(headers["Access-Control-Allow-Headers"],
                             "authorization,content-type,x-stainless-os")
            self.assertEqual(headers["Access-Control-Allow-Private-Network"], "true")
            self.assertGreater(int(headers["Access-Control-Max-Age"]), 0)
        refused = self.call("OPTIONS", "/v1/ask", origin="https://evil.example",
                            Access_Control_Request_Method="POST")
        self.assertEqual(refused[0], 403)
        self.assertNotIn("Access-Control-Allow-Origin", refused[1])

    def test_answers_and_errors_can_be_read(self):
        ask = {"question": "Who pays?", "max_tokens": 2}
        for origin in (self.PAGE, "http://localhost:3000"):
            for status, call in ((200, ("GET", "/health")), (200, ("POST", "/v1/ask", ask)),
                                 (404, ("GET", "/v1/none")), (405, ("PUT", "/v1/ask")),
                                 (400, ("POST", "/v1/ask", {"question": 1})),
                                 (403, ("DELETE", "/v1/documents/lease.txt")),
                                 (413, ("POST", "/v1/ask", {"question": "x" * 2000000}))):
                answer = self.call(*call, origin=origin)
                self.assertEqual(answer[0], status)
                self.assert_readable(answer[1], origin)
                self.assertIn("X-Request-Id", answer[1]["Access-Control-Expose-Headers"])
        status, headers, body = self.call("POST", "/v1/ask", {**ask, "stream": True})
        self.assertEqual(status, 200)
        self.assert_readable(headers)
        self.assertIn("event: done", body)

    def test_others_cannot(self):
        for origin in ("https://evil.example", "http://app.example", "https://app.example.evil", "null",
                       "http://localhost:3001"):
            status, headers, _ = self.call("GET", "/health", origin=origin)
            self.assertEqual(status, 403)
            self.assertNotIn("Access-Control-Allow-Origin", headers)
        headers = self.call("GET", "/health", origin=None)[1]
        self.assertEqual(headers["Vary"], "Origin")  # a cache may keep it
        self.assertNotIn("Access-Control-Allow-Origin", headers)
        own = self.call("POST", "/v1/ask", {"question": "Who?", "max_tokens": 1},
                        origin=f"http://127.0.0.1:{self.server.port}")
        self.assertEqual(own[0], 200)


class StartTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lectern-http-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.token = self.path("token")
        with open(self.token, "w", encoding="utf-8") as file:
            file.write(TOKEN + "\n")

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, *flags, **environment):
        server = Server(self.path("store"), *flags, environment=environment)
        self.addCleanup(server.stop)
        return server

    def fails(self, *flags, **environment):
        run = subprocess.run([os.path.join(BIN, "lectern-server"), "--store",
                              self.path("store"), "--port", "0", *flags], capture_output=True,
                             text=True, timeout=60, check=False, env={**os.environ, **environment})
        self.assertEqual(run.stdout, "")
        return run.returncode, run.stderr

    def status_at(self, address, port, host, token=TOKEN):
        with socket.create_connection((address, port), timeout=10) as s:
            s.sendall(f"GET /v1/documents HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
                      f"Authorization: Bearer {token}\r\n\r\n".encode())
            return int(s.recv(1000).split(b" ", 2)[1])

    def test_the_address_listened_on_is_known(self):
        server = self.start("--host", "127.0.0.2")
        for host in ("127.0.0.2", f"127.0.0.2:{server.port}", "localhost"):
            self.assertEqual(self.status_at("127.0.0.2", server.port, host), 200)
        self.assertEqual(self.status_at("127.0.0.2", server.port, "evil.example"), 403)
        with self.assertRaises(OSError):
            self.status_at("127.0.0.1", server.port, "127.0.0.1")

    def test_all_addresses(self):
        for host in ("0.0.0.0", "::", "[::]") if has_ipv6() else ("0.0.0.0",):
            server = Server(self.path("store"), "--host", host, "--token-file", self.token)
            try:
                name = socket.gethostname()
                for known in ("127.0.0.1", "192.168.7.7:8017", "[fd00::1]:8017", name,
                              name + ".local:8017", "localhost"):
                    self.assertEqual(self.status_at("127.0.0.1", server.port, known), 200, known)
                self.assertEqual(self.status_at("127.0.0.1", server.port, "other.example"), 403)
                self.assertEqual(self.status_at("127.0.0.1", server.port, "127.0.0.1", "x"), 401)
                if host != "0.0.0.0":
                    self.assertEqual(self.status_at("::1", server.port, "[::1]"), 200)
            finally:
                _, _, err = server.stop()
            self.assertIn("--allow-host", err)  # the hint for names
            self.assertIn(name, err)

    @unittest.skipUnless(has_ipv6(), "this machine has no IPv6")
    def test_ipv6(self):
        for host in ("::1", "[::1]"):
            server = self.start("--host", host)
            for known in ("[::1]", f"[::1]:{server.port}"):
                self.assertEqual(self.status_at("::1", server.port, known), 200)

    def test_other_names(self):
        server = self.start("--allow-host", "Lectern.Example:443")
        for host in ("lectern.example", "LECTERN.example.:8443"):
            self.assertEqual(self.status_at("127.0.0.1", server.port, host), 200)
        code, err = self.fails("--allow-host", "*")
        self.assertEqual(code, 2)
        self.assertIn("--token-file", err)
        server = self.start("--allow-host", "*", "--token-file", self.token)
        self.assertEqual(self.status_at("127.0.0.1", server.port, "any.example"), 200)
        for wrong in ("http://", "a b", "a/b"):
            self.assertEqual(self.fails("--allow-host", wrong)[0], 2)

    def test_origins_are_origins(self):
        for wrong in ("app.example", "https://app.example/page", "", "https://"):
            code, err = self.fails("--allow-origin", wrong)
            self.assertEqual(code, 2)
            self.assertIn("https://example.org", err)
        for any_page in ("*", "null"):
            code, err = self.fails("--allow-origin", any_page)
            self.assertEqual(code, 2)
            self.assertIn("--token-file", err)
        server = self.start("--allow-origin", "*", "--token-file", self.token)
        status, headers, _ = server.call("GET", "/v1/documents", headers={"Origin": "https://x.example"},
                                         token=TOKEN)
        self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (200, "https://x.example"))
        # A page has to see that its token is wrong.
        status, headers, _ = server.call("GET", "/v1/documents", headers={"Origin": "https://x.example"})
        self.assertEqual((status, headers["Access-Control-Allow-Origin"], headers["WWW-Authenticate"]),
                         (401, "https://x.example", "Bearer"))
        preflight = server.call("OPTIONS", "/v1/ask", headers={
            "Origin": "https://x.example", "Access-Control-Request-Method": "POST"})
        self.assertEqual(preflight[0], 204)  # browsers send no token with it

    def test_tokens_of_other_clients(self):
        with open(self.token, "w", encoding="utf-8") as file:
            file.write(TOKEN + "\r\n")  # as editors on Windows do
        server = self.start("--token-file", self.token)
        for headers in ({"Authorization": "bearer " + TOKEN}, {"X-Api-Key": TOKEN}):
            self.assertEqual(server.call("GET", "/v1/documents", headers=headers)[0], 200)
        for path in ("/health", "/ready"):
            self.assertEqual(server.call("GET", path)[0], 200)

    @unittest.skipIf(IS_WINE, "Wine itself needs the folder")
    def test_needs_no_folder_for_uploads_that_are_not_taken(self):
        server = self.start(TMPDIR="/nonexistent")
        self.assertEqual(server.call("GET", "/ready")[2], {"status": "ready"})
        code, err = self.fails("--allow-index", TMPDIR="/nonexistent")
        self.assertEqual(code, 1, err)
        self.assertIn("/nonexistent", err)
        self.assertIn("TMPDIR", err)

    def test_health_is_not_readiness(self):
        server = self.start()
        self.assertEqual(server.call("GET", "/ready")[0], 200)
        index(self.path("store"), "a", "Mills stand in Osk. " * 20)
        catalog = os.path.join(self.path("store"), "catalog.db")
        os.remove(catalog)
        os.mkdir(catalog)
        self.assertEqual(server.call("GET", "/health")[2], {"status": "ok"})
        status, _, body = server.call("GET", "/ready")
        self.assertEqual((status, body["error"]["code"], body["error"]["retryable"]),
                         (503, "not_ready", True))

    def test_check_asks_a_server_that_runs(self):
        def check(url):
            done = subprocess.run([os.path.join(BIN, "lectern-server"), "--check", url],
                                  capture_output=True, text=True, timeout=30, check=False)
            return done.returncode, done.stdout + done.stderr
        server = self.start()
        url = f"http://127.0.0.1:{server.port}"
        self.assertEqual(check(url), (0, ""))
        self.assertEqual(check(url + "/"), (0, ""))
        catalog = os.path.join(self.path("store"), "catalog.db")
        os.makedirs(catalog)
        status, said = check(url)
        self.assertEqual(status, 1)
        self.assertIn("takes no questions: status 503", said)
        server.stop()
        status, said = check(url)
        self.assertEqual(status, 1)
        self.assertIn("nothing answers at " + url, said)
        for wrong in ("127.0.0.1:8017", "https://127.0.0.1", "http://"):
            self.assertEqual(check(wrong)[0], 1, wrong)

    def test_stops_while_clients_stay_connected(self):
        """Neither connections that wait nor answers that run hold it up."""
        index(self.path("store"), "a", TEXT)
        server = Server(self.path("store"), "--model", MODEL)
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
        kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        kept.request("GET", "/health")
        kept.getresponse().read()
        running = server.begin({**LONG, "stream": True})
        self.assertIn(b"200", running.recv(1000))
        stopped = time.monotonic()
        code, _, err = server.stop()
        self.assertEqual((code, err), (0, ""))
        # Below the 5 seconds that any of them would have waited for.
        self.assertLess(time.monotonic() - stopped, 4)
        for s in (*idle, kept, running):
            s.close()

    def test_waiting_connections_make_room(self):
        server = self.start("--max-connections", "4")
        waiting = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=30) for _ in range(12)]
        for connection in waiting:  # each keeps its connection, which the server does not
            connection.request("GET", "/health")
            self.assertEqual(connection.getresponse().read(), b'{"status":"ok"}')
        wait_for(lambda: server.metric("lectern_connections") <= 5, "connections are too many")
        for connection in waiting:
            connection.close()


if __name__ == "__main__":
    unittest.main()
