#!/usr/bin/env python3
"""lectern-server as its clients meet it: the API, events, chat completions, jobs, limits.

LECTERN_BIN         folder of the built tools
LECTERN_TEST_MODEL  model folder to index with
Standard library only.
"""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from make_pdf import make_pdf

BIN = os.environ.get("LECTERN_BIN", "")
MODEL = os.environ.get("LECTERN_TEST_MODEL", "")
HERE = os.path.dirname(os.path.abspath(__file__))
# The programs are Windows' under Wine, which has no SIGTERM: they are stopped by Ctrl-C, as Wine takes
# SIGINT (packaging/windows_test.py).
IS_WINE = "LECTERN_WINE" in os.environ
STOP_SIGNAL = signal.SIGINT if IS_WINE else signal.SIGTERM
TEXT = "Änderungen für 3 € 🏠. The tenant of flat 4 pays 104 euro. The owner repairs the roof.\n" * 20
TEXT += "The Douquouth committee meets in Stuxwick.\n"
ONCE = "Where does the Douquouth committee meet?"  # one passage answers it
TOKEN = "0123456789abcdef0123456789abcdef"
LONG = {"question": "Tell me all.", "max_tokens": 4000, "temperature": 5}  # the answer takes long


class Server:
    """A running lectern-server; its address in .port."""

    def __init__(self, store, *flags, environment=None):
        self.process = subprocess.Popen(
            [os.path.join(BIN, "lectern-server"), "--store", store, "--port", "0", "--json",
             "--threads", "2", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **(environment or {})},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.process.stderr.read())
        self.port = int(re.search(r":(\d+)/", json.loads(line)["url"]).group(1))

    def call(self, method, path, body=None, headers=None, token=None, timeout=120):
        """Status, headers and parsed body (text where it is no JSON)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        headers = dict(headers or {})
        if token:
            headers["Authorization"] = "Bearer " + token
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        is_json = response.headers.get("Content-Type", "").startswith("application/json")
        return response.status, response.headers, json.loads(text) if is_json else text

    def ask(self, **fields):
        return self.call("POST", "/v1/ask", fields)

    def events(self, method, path, body=None):
        """[(name, data)] of a whole event stream."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, path, body=json.dumps(body) if body else None,
                           headers={"Content-Type": "application/json"} if body else {})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        assert response.headers["Content-Type"].startswith("text/event-stream")
        events = []
        for block in response.read().decode().split("\n\n"):
            name, data = "", None
            for line in block.split("\n"):
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: "):
                    data = line[6:]
            if data is not None:
                events.append((name, data if data == "[DONE]" else json.loads(data)))
        connection.close()
        return events

    def raw(self, request, wait=5):
        """The bytes that come back for these bytes; empty when the server says nothing."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait) as s:
            try:
                for at in range(0, len(request), 1 << 16):
                    s.sendall(request[at:at + (1 << 16)])
            except OSError:
                pass  # refused while sending: the answer is there
            parts = []
            try:
                while part := s.recv(1 << 16):
                    parts.append(part)
            except OSError:
                pass
            return b"".join(parts)

    def metric(self, name):
        text = self.call("GET", "/metrics")[2]
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                   if line.startswith(name) and not line.startswith("#"))

    def generations_open(self, document):
        """Whose files are mapped; `document`: an id."""
        with open(f"/proc/{self.process.pid}/maps", encoding="utf-8") as maps:
            return set(re.findall(f"/docs/{document}/([0-9]+)/", maps.read()))

    def peak_kilobytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as status:
            return int(re.search(r"VmHWM:\s+(\d+)", status.read()).group(1))

    def wait_until_idle(self):
        wait_for(lambda: self.metric("lectern_generations_running") == 0,
                 "a generation does not end")

    def begin(self, fields):
        """A connection that has asked this and not read the answer."""
        body = json.dumps(fields).encode()
        s = socket.create_connection(("127.0.0.1", self.port))
        s.sendall(b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\n"
                  b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                  + body)
        return s

    def stop(self):
        self.process.send_signal(STOP_SIGNAL)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


def index(store, name, text, *flags):
    subprocess.run([os.path.join(BIN, "index-document"), "--store", store, "--model", MODEL,
                    "--progress", "none", "--name", name, *flags, "-"], input=text.encode(),
                   check=True, stdout=subprocess.DEVNULL)


def wait_for(is_so, what):
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class ServerCase(unittest.TestCase):
    """`store` and `server` are what errors may not tell of, and who is asked."""

    def assert_error(self, answer, status, code, param=None):
        self.assertEqual(answer[0], status, answer[2])
        error = answer[2]["error"]
        self.assertEqual(error["code"], code)
        self.assertEqual(error["param"], param)
        self.assertEqual(set(error), {"message", "type", "param", "code", "request_id", "retryable"})
        self.assertTrue(error["request_id"])
        self.assertNotIn(self.store, error["message"])
        self.assertNotIn(MODEL, error["message"])


class ServerTest(ServerCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lectern-server-")
        cls.store = os.path.join(cls.folder.name, "store")
        index(cls.store, "lease.txt", TEXT)
        cls.server = Server(cls.store, "--model", MODEL, "--allow-index", "--max-upload", "1MB")

    @classmethod
    def tearDownClass(cls):
        code, _, err = cls.server.stop()
        cls.folder.cleanup()
        assert code == 0, (code, err)

    # --- asking ---

    def test_answer_is_the_tools_object(self):
        question = "Who repairs the roof?"
        tool = json.loads(subprocess.run(
            [os.path.join(BIN, "ask-document"), "--store", self.store, "--model", MODEL, "--json",
             "--document", "lease.txt", question], check=True, capture_output=True).stdout)
        status, headers, answer = self.server.ask(document="lease.txt", question=question)
        self.assertEqual(status, 200)
        self.assertEqual(set(answer), set(tool) | {"id"})
        self.assertEqual(answer["answer"], tool["answer"])
        self.assertEqual(answer["evidence"], tool["evidence"])
        self.assertEqual(headers["X-Request-Id"], answer["id"])
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
        self.assertNotIn("Server", headers)
        self.assertNotIn("Access-Control-Allow-Origin", headers)

    def test_stream_says_the_same(self):
        fields = {"question": "Who repairs the roof?", "offset_unit": "utf16"}
        whole = self.server.ask(**fields)[2]
        events = self.server.events("POST", "/v1/ask", {**fields, "stream": True})
        names = [name for name, _ in events]
        self.assertEqual(names[-2:], ["passages", "done"])
        self.assertEqual("".join(d["text"] for n, d in events if n == "text"), whole["answer"])
        self.assertEqual(events[-1][1]["answer"], whole["answer"])
        self.assertEqual(events[-2][1]["evidence"], whole["evidence"])
        for passage in whole["evidence"]:
            utf16 = TEXT.encode("utf-16-le")[2 * passage["begin"]:2 * passage["end"]]
            self.assertEqual(utf16.decode("utf-16-le"), passage["text"])

    def test_cite_says_what_the_tool_says(self):
        fields = {"text": "The owner repairs the roof. Zeppelins zoom.",
                  "question": "Who repairs the roof?", "max_evidence": 2, "offset_unit": "utf16"}
        tool = json.loads(subprocess.run(
            [os.path.join(BIN, "ask-document"), "--store", self.store, "--json", "--document",
             "lease.txt", "--cite", fields["text"], "--question", fields["question"],
             "--max-evidence", "2", "--offset-unit", "utf16"],
            check=True, capture_output=True).stdout)
        status, headers, cited = self.server.call("POST", "/v1/cite",
                                                  {**fields, "document": "lease.txt"})
        self.assertEqual(status, 200, cited)
        self.assertEqual(cited, {**tool, "id": headers["X-Request-Id"]})
        roof, _ = cited["sentences"]
        self.assertTrue(roof["supported"])
        self.assertIn("repairs the roof", roof["evidence"][0]["text"])
        self.assertEqual(len(roof["evidence"]), 2)
        # The only document, and no options.
        self.assertEqual(self.server.call("POST", "/v1/cite", {"text": fields["text"]})[0], 200)

    def test_wrong_fields_of_cite_are_named(self):
        def cite(**fields):
            return self.server.call("POST", "/v1/cite", fields)
        self.assert_error(cite(), 400, "invalid_argument", "text")
        self.assert_error(cite(text=""), 400, "invalid_argument", "text")
        self.assert_error(cite(text="x", max_evidence=0), 400, "invalid_argument", "max_evidence")
        self.assert_error(cite(text="x", max_evidence=101), 400, "invalid_argument", "max_evidence")
        self.assert_error(cite(text="x", question=1), 400, "invalid_argument", "question")
        self.assert_error(cite(text="x", offset_unit="bits"), 400, "invalid_argument", "offset_unit")
        self.assert_error(cite(text="x", kv_budget=1), 400, "invalid_argument", "kv_budget")
        self.assert_error(cite(text="x", document="none"), 404, "not_found", "document")
        self.assertEqual(self.server.call("GET", "/v1/cite")[0], 405)

    def test_wrong_fields_are_named(self):
        ask = self.server.ask
        self.assert_error(ask(), 400, "invalid_argument", "question")
        self.assert_error(ask(question=""), 400, "invalid_argument", "question")
        self.assert_error(ask(question=1), 400, "invalid_argument", "question")
        self.assert_error(ask(question="x", kv_budget=2), 400, "invalid_argument", "kv_budget")
        self.assert_error(ask(question="x", kv_budget=0), 400, "invalid_argument", "kv_budget")
        self.assert_error(ask(question="x", max_tokens=-1), 400, "invalid_argument", "max_tokens")
        self.assert_error(ask(question="x", max_tokens=4097), 400, "invalid_argument", "max_tokens")
        self.assert_error(ask(question="x", seed=1.5), 400, "invalid_argument", "seed")
        self.assert_error(ask(question="x", rule="best"), 400, "invalid_argument", "rule")
        self.assert_error(ask(question="x", stream="yes"), 400, "invalid_argument", "stream")
        self.assert_error(ask(question="x", layer_budget="best"), 400, "invalid_argument",
                          "layer_budget")
        self.assert_error(ask(question="x", exact=True, kv_budget=0.5), 400, "invalid_argument",
                          "exact")
        self.assert_error(ask(question="x", qestion="y"), 400, "invalid_argument", "qestion")
        self.assert_error(ask(question="x", document="none"), 404, "not_found", "document")
        for body in ("", "{", "[]", "1", '{"question":"x","question":"y"}', "[" * 100,
                     '{"question":"x","kv_budget":NaN}'):
            self.assert_error(self.server.call("POST", "/v1/ask", body,
                                               {"Content-Type": "application/json"}),
                              400, "invalid_argument")

    def test_chat_completions(self):
        messages = [{"role": "user", "content": "Who repairs the roof?"}]
        status, _, chat = self.server.call("POST", "/v1/chat/completions",
                                           {"model": "lease.txt", "messages": messages})
        self.assertEqual(status, 200, chat)
        self.assertEqual(chat["object"], "chat.completion")
        plain = self.server.ask(question="Who repairs the roof?")[2]
        self.assertEqual(chat["choices"][0]["message"],
                         {"role": "assistant", "content": plain["answer"], "refusal": None})
        self.assertEqual(chat["lectern"]["evidence"], plain["evidence"])
        usage = chat["usage"]
        self.assertEqual(usage["prompt_tokens"],
                         plain["tokens"]["document"] + plain["tokens"]["question"])
        events = self.server.events("POST", "/v1/chat/completions", {
            "model": "lease.txt", "stream": True, "stream_options": {"include_usage": True},
            "messages": [{"role": "system", "content": "Be brief."},
                         {"role": "user", "content": [{"type": "text", "text": "Who pays?"}]},
                         {"role": "assistant", "content": "The tenant."},
                         {"role": "user", "content": "How much?"}]})
        self.assertEqual(events[-1], ("", "[DONE]"))
        self.assertEqual(events[-2][1]["choices"], [])
        self.assertGreater(events[-2][1]["usage"]["completion_tokens"], 0)
        self.assertIn(events[-3][1]["choices"][0]["finish_reason"], ("stop", "length"))

    def test_a_conversation_at_once_is_the_session_that_it_was(self):
        """Earlier turns of a request stand before its question as those of a session do."""
        questions = ["Who repairs the roof?", "Who pays for it?"]
        begun = self.server.ask(question=questions[0], exact=True, session="new")[2]
        later = self.server.ask(question=questions[1], exact=True, session=begun["session"])[2]
        body = {"model": "lease.txt", "kv_budget": 1, "messages": [
            {"role": "user", "content": questions[0]},
            {"role": "assistant", "content": begun["answer"]},
            {"role": "user", "content": questions[1]}]}
        chat = self.server.call("POST", "/v1/chat/completions", body)[2]
        self.assertEqual(chat["choices"][0]["message"]["content"], later["answer"])
        # All tokens that the session has seen: its questions, its answer and the end of that.
        said = begun["tokens"]["question"] + begun["tokens"]["answer"] + later["tokens"]["question"]
        self.assertEqual(chat["usage"]["prompt_tokens"], begun["tokens"]["document"] + said + 1)
        responses = self.server.call("POST", "/v1/responses", {
            "model": "lease.txt", "kv_budget": 1, "input": body["messages"]})[2]
        self.assertEqual(responses["output"][0]["content"][0]["text"], later["answer"])
        # Instructions are part of the prompt, whichever way they come.
        system = [{"role": "system", "content": "Be"}, {"role": "developer", "content": "brief."}]
        told = self.server.call("POST", "/v1/chat/completions",
                                {**body, "messages": system + body["messages"]})[2]
        self.assertGreater(told["usage"]["prompt_tokens"], chat["usage"]["prompt_tokens"])
        again = self.server.call("POST", "/v1/responses", {
            "model": "lease.txt", "kv_budget": 1, "input": body["messages"],
            "instructions": "Be\nbrief."})[2]
        self.assertEqual(again["usage"]["input_tokens"], told["usage"]["prompt_tokens"])

    def test_tokenize(self):
        def tokenize(**fields):
            return self.server.call("POST", "/tokenize", fields)
        content = "<s>Wer zahlt \u00e4 \U0001f511 die Miete?\n</s>"
        status, _, body = tokenize(content=content, with_pieces=True, document="lease.txt")
        self.assertEqual(status, 200, body)
        encoded, end = content.encode(), 0
        for token in body["tokens"]:
            self.assertEqual(token["piece"], encoded[token["begin"]:token["end"]].decode())
            self.assertGreater(token["id"], 2)  # no control token
            self.assertIn(token["begin"], (end, end - len(token["piece"].encode())))
            end = token["end"]
        self.assertEqual(end, len(encoded))
        self.assertEqual(tokenize(content=content)[2]["tokens"],
                         [token["id"] for token in body["tokens"]])
        self.assert_error(tokenize(), 400, "invalid_argument", "content")
        self.assert_error(tokenize(content=3), 400, "invalid_argument", "content")
        most = 32768
        status, _, body = tokenize(content="a " * (most // 2), with_pieces=True)
        self.assertEqual((status, body["tokens"][-1]["end"]), (200, most))
        self.assert_error(tokenize(content="a" * (most + 1)), 400, "invalid_argument", "content")
        self.assert_error(tokenize(content="x", add_special=True), 400, "invalid_argument",
                          "add_special")
        self.assertEqual(tokenize(content="x", document="none")[0], 404)

    def test_responses(self):
        question = ONCE
        plain = self.server.ask(question=question)[2]
        self.assertTrue(plain["evidence"])
        status, _, response = self.server.call("POST", "/v1/responses",
                                               {"model": "lease.txt", "input": question})
        self.assertEqual(status, 200, response)
        self.assertEqual((response["object"], response["status"]), ("response", "completed"))
        [message] = response["output"]
        [part] = message["content"]
        self.assertEqual((part["type"], part["text"]), ("output_text", plain["answer"]))
        self.assertEqual([note["passage"] for note in part["annotations"]], plain["evidence"])
        self.assertTrue(all(note["type"] == "file_citation" and
                            note["file_id"] == plain["document"] and
                            note["filename"] == "lease.txt"
                            for note in part["annotations"]))
        self.assertEqual(response["usage"]["input_tokens"],
                         plain["tokens"]["document"] + plain["tokens"]["question"])
        cut = self.server.call("POST", "/v1/responses", {"model": "lease.txt", "input": question,
                                                         "max_output_tokens": 1})[2]
        self.assertEqual((cut["status"], cut["incomplete_details"]),
                         ("incomplete", {"reason": "max_output_tokens"}))

    def test_responses_stream_says_the_same(self):
        body = {"model": "lease.txt", "instructions": "Be brief.", "input": [
            {"role": "user", "content": "Who pays?"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "The tenant."}]},
            {"role": "user", "content": [{"type": "input_text", "text": "How much?"}]}]}
        whole = self.server.call("POST", "/v1/responses", body)[2]
        events = self.server.events("POST", "/v1/responses", {**body, "stream": True})
        self.assertTrue(all(name == data["type"] for name, data in events))
        self.assertEqual([data["sequence_number"] for _, data in events],
                         list(range(len(events))))
        names = [name for name, _ in events]
        self.assertEqual(names[:4], ["response.created", "response.in_progress",
                                     "response.output_item.added", "response.content_part.added"])
        self.assertEqual(names[-4:], ["response.output_text.done", "response.content_part.done",
                                      "response.output_item.done", "response.completed"])
        text = "".join(data["delta"] for name, data in events
                       if name == "response.output_text.delta")
        last = events[-1][1]["response"]
        # Pieces are said before what trails behind the answer is known to be nothing.
        self.assertEqual(text.strip(), last["output"][0]["content"][0]["text"].strip())
        self.assertEqual(last["output"][0]["content"], whole["output"][0]["content"])

    # --- documents ---

    def test_documents_and_text(self):
        listed = self.server.call("GET", "/v1/documents")[2]["documents"]
        lease = next(d for d in listed if d["name"] == "lease.txt")
        models = self.server.call("GET", "/v1/models")[2]
        self.assertIn("lease.txt", [m["id"] for m in models["data"]])
        for name in ("lease.txt", lease["document"]):
            self.assertEqual(self.server.call("GET", "/v1/documents/" + name)[2]["document"],
                             lease["document"])
        self.assertEqual(self.server.call("GET", "/v1/documents/lease.txt/text")[2], TEXT)
        self.assertEqual(self.server.call("GET", "/v1/documents/lease.txt/text?start=0&end=2")[2],
                         "Ä")
        for query in ("start=1", "end=1", "start=5&end=2", "end=99999999", "start=-1", "start=x",
                      "end="):
            self.assert_error(self.server.call("GET", "/v1/documents/lease.txt/text?" + query), 400,
                              "invalid_argument", "start")
        self.assert_error(self.server.call("GET", "/v1/documents/none"), 404, "not_found",
                          "document")
        self.assert_error(self.server.call("DELETE", "/v1/documents/none"), 404, "not_found",
                          "document")

    def upload(self, data, name="new.txt", server=None, query=""):
        return (server or self.server).call(
            "POST", "/v1/documents?name=" + name + query, data,
            {"Content-Type": "application/octet-stream"})

    def test_upload_index_ask_remove(self):
        status, headers, job = self.upload(b"The keeper of the lighthouse is Ann Brown. " * 40)
        self.assertEqual(status, 202, job)
        self.assertEqual(headers["Location"], "/v1/jobs/" + job["id"])
        events = self.server.events("GET", headers["Location"] + "/events")
        self.assertEqual(events[-1][0], "done")
        last = events[-1][1]
        self.assertEqual(last["state"], "done", last)
        self.assertEqual(last["report"]["name"], "new.txt")
        self.assertEqual(self.server.call("GET", headers["Location"])[2], last)
        self.assertEqual(self.server.ask(document="new.txt", question="Who is it?")[0], 200)
        self.assertEqual(self.server.call("DELETE", "/v1/documents/new.txt")[0], 200)
        self.assert_error(self.server.ask(document="new.txt", question="Who?"), 404, "not_found",
                          "document")

    def indexed(self, *args, **options):
        """The last event of an upload's job."""
        status, headers, job = self.upload(*args, **options)
        self.assertEqual(status, 202, job)
        return self.server.events("GET", headers["Location"] + "/events")[-1][1]

    def test_names_of_uploads(self):
        def names():
            return {name["name"]: document["document"]
                    for document in self.server.call("GET", "/v1/documents")[2]["documents"]
                    for name in document["names"]}
        first = self.indexed(b"Mills stand in Osk. " * 20, "mill.txt")["report"]
        second = self.indexed(b"Mills stand in Tal. " * 20, "mill.txt")["report"]
        self.assertEqual((second["name"], second["source"], second["replaced"]),
                         ("mill.txt", "mill.txt", first["document"]))
        self.assertEqual(names()["mill.txt"], second["document"])
        self.assert_error(self.server.call("GET", "/v1/documents/" + first["document"]), 404,
                          "not_found", "document")
        copy = self.indexed(b"Mills stand in Tal. " * 20, "2024%2Fmill.txt")["report"]
        self.assertEqual((copy["existed"], copy["document"]), (True, second["document"]))
        for name in ("mill.txt", "2024/mill.txt", "2024%2Fmill.txt", second["document"]):
            shown = self.server.call("GET", "/v1/documents/" + name)[2]
            self.assertEqual(shown["document"], second["document"], name)
            self.assertEqual([n["name"] for n in shown["names"]], ["2024/mill.txt", "mill.txt"])
            self.assertIn("Tal", self.server.call("GET", f"/v1/documents/{name}/text")[2])
        status, _, removed = self.server.call("DELETE", "/v1/documents/2024%2Fmill.txt")
        self.assertEqual((status, removed), (200, {
            "removed": "2024/mill.txt", "document": second["document"], "document_gone": False,
            "names": ["2024/mill.txt"], "left": ["mill.txt"]}))
        self.assertEqual(self.server.ask(document="mill.txt", question="Where?")[0], 200)
        removed = self.server.call("DELETE", "/v1/documents/" + second["document"])[2]
        self.assertEqual((removed["document_gone"], removed["names"]), (True, ["mill.txt"]))
        # The forms of Unicode are one; a document that another has put there keeps its name.
        nfd = self.indexed(b"It is open.", "Cafe%CC%81.txt")["report"]
        nfc = self.indexed(b"It is shut.", "Caf%C3%A9.txt")["report"]
        self.assertEqual((nfc["name"], nfc["replaced"]), ("Caf\u00e9.txt", nfd["document"]))
        path = os.path.join(self.folder.name, "theirs.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("Theirs.")
        subprocess.run([os.path.join(BIN, "index-document"), "--store", self.store, "--model", MODEL,
                        "--progress", "none", path], check=True, capture_output=True)
        ours = self.indexed(b"Ours.", "theirs.txt")["report"]
        self.assertEqual(ours["name"], "theirs.txt (2)")
        self.assertIn('as "theirs.txt" is', ours["note"])
        for name in ("theirs.txt", "theirs.txt%20(2)", "Caf%C3%A9.txt"):
            self.assertEqual(self.server.call("DELETE", "/v1/documents/" + name)[0], 200, name)

    def test_upload_of_a_pdf_and_of_html(self):
        pages = [["The report is about mills."], ["The Fethol bridge was designed by Mara Tolvin."]]
        last = self.indexed(make_pdf(pages + [[]]), "report")
        self.assertEqual(last["state"], "done", last)
        self.assertIn("page 3 has no text", last["warning"])
        text = "".join(line + "\n\n" for [line] in pages)[:-1]
        self.assertEqual(self.server.call("GET", "/v1/documents/report/text")[2], text)
        answer = self.server.ask(document="report", question="Who designed the Fethol bridge?")[2]
        self.assertEqual(answer["evidence"][0]["page"], 2)
        self.assertEqual(answer["evidence"][0]["text"], pages[1][0])
        last = self.indexed(b"<p>Mills stand in Osk.", "page", query="&format=html")
        self.assertIsNone(last["warning"])
        self.assertEqual(self.server.call("GET", "/v1/documents/page/text")[2],
                         "Mills stand in Osk.\n", last)
        last = self.indexed(make_pdf([[]]), "scan")
        self.assertEqual((last["state"], last["error"]["code"]), ("failed", "empty_document"))
        self.assertIn('"scan" has no text on its 1 pages', last["error"]["message"])
        self.assert_error(self.upload(b"x", query="&format=wps"), 400, "invalid_argument", "format")
        for name in ("report", "page"):
            self.assertEqual(self.server.call("DELETE", "/v1/documents/" + name)[0], 200)

    def test_uploads_in_other_encodings(self):
        text = "\u0412\u043b\u0430\u0434\u0435\u043b\u0435\u0446 \u043c\u043e\u0441\u0442\u0430 Ann Brown.\n"
        said = "read as windows-1251, which was assumed (encoding names another)"
        for encoding, query, warning in (("cp1251", "", said), ("cp1251", "&encoding=cp1251", None),
                                         ("utf-16", "", None), ("koi8-r", "&encoding=koi8-r", None)):
            with self.subTest(encoding=encoding, query=query):
                last = self.indexed(text.encode(encoding), "bridge", query=query)
                self.assertEqual(last["warning"], warning)
                self.assertEqual(self.server.call("GET", "/v1/documents/bridge/text")[2], text)
        self.assert_error(self.upload(b"x", query="&encoding=ibm037"), 400, "invalid_argument", "encoding")
        png = self.indexed(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "photo")
        self.assertRegex(png["error"]["message"], "photo.* is a PNG image and not text")
        self.assertEqual(self.server.call("DELETE", "/v1/documents/bridge")[0], 200)

    def test_upload_of_an_office_file(self):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "extract_files/stock.ods")
        with open(path, "rb") as file:
            last = self.indexed(file.read(), "stock")
        self.assertEqual(last["state"], "done", last)
        self.assertEqual(last["warning"], "hidden sheets are left out: Secret")
        self.assertEqual(last["report"]["file_note"], last["warning"])
        text = self.server.call("GET", "/v1/documents/stock/text")[2]
        self.assertIn("\nProduct: Beta valve | Price: 45.50 € | Stock: 230 |", text)
        self.assertEqual(self.server.call("DELETE", "/v1/documents/stock")[0], 200)

    def test_upload_says_how_it_is_stored(self):
        last = self.indexed(TEXT.encode() * 3, "small.txt",
                            query="&kv_type=q8&kv_budget=0.25&keep=0.5")
        self.assertEqual(last["state"], "done", last)
        plain = self.indexed(TEXT.encode() * 3 + b".", "plain.txt")
        shown = {name: self.server.call("GET", "/v1/documents/" + name)[2]
                 for name in ("small.txt", "plain.txt")}
        self.assertEqual(shown["small.txt"]["keep"], 0.5)
        self.assertEqual(shown["plain.txt"]["keep"], 1)
        self.assertEqual(shown["small.txt"]["plan"]["kv_budget"], 0.25)
        self.assertLess(last["report"]["bytes_on_disk"], 0.5 * plain["report"]["bytes_on_disk"])
        for name in shown:
            self.assertEqual(self.server.call("DELETE", "/v1/documents/" + name)[0], 200)
        for query, param in (("kv_type=f64", "kv_type"), ("kv_budget=2", "kv_budget"),
                             ("kv_budget=", "kv_budget"), ("kv_budget=a", "kv_budget"),
                             ("keep=0", "keep"), ("kv_bugdet=0.1", "kv_bugdet")):
            self.assert_error(self.upload(b"x", query="&" + query), 400, "invalid_argument", param)

    def test_too_many_uploads_come_again_later(self):
        jobs = [self.upload(TEXT.encode() * 60, "later.txt")]
        jobs += [self.upload(b"Mills %d." % i, "later.txt") for i in range(15)]
        self.assertEqual({status for status, _, _ in jobs}, {202})
        refused = self.upload(b"x" * 900000)
        for job in reversed(jobs):
            self.server.call("DELETE", "/v1/jobs/" + job[2]["id"])
        self.assert_error(refused, 503, "overloaded")
        self.assertTrue(refused[2]["error"]["retryable"])
        self.assertTrue(1 <= int(refused[1]["Retry-After"]) <= 3600)
        self.assertRegex(jobs[0][2]["id"], "^[0-9a-f]{32}$")
        for job in jobs:
            events = self.server.events("GET", "/v1/jobs/" + job[2]["id"] + "/events")
            self.assertEqual(events[-1][1]["state"], "cancelled")

    def test_uploads_that_cannot_be(self):
        self.assert_error(self.upload(b"x" * 1000001), 413, "payload_too_large")
        status, headers, _ = self.upload(b"")
        if status == 202:  # the job says what is wrong with no text
            last = self.server.events("GET", headers["Location"] + "/events")[-1][1]
            self.assertEqual(last["state"], "failed")
            self.assertEqual(last["error"]["code"], "empty_document")
        self.assert_error(self.server.call("POST", "/v1/documents", {"path": "/etc/passwd"}), 415,
                          "unsupported_media_type")
        self.assert_error(self.server.call("GET", "/v1/jobs/none"), 404, "not_found")
        self.assert_error(self.server.call("DELETE", "/v1/jobs/none"), 404, "not_found")

    # --- the service ---

    def test_description_is_true(self):
        api = self.server.call("GET", "/openapi.json")[2]
        for path, operations in api["paths"].items():
            for method in operations:
                status = self.server.call(method.upper(), path.replace("{id}", "none"),
                                          "{}" if method == "post" else None,
                                          {"Content-Type": "application/json"})[0]
                self.assertNotEqual(status, 405, (method, path))
                if "{id}" not in path:
                    self.assertNotEqual(status, 404, (method, path))
            self.assertEqual(self.server.call("DELETE" if "delete" not in operations else "POST",
                                              path.replace("{id}", "none"), "",
                                              {"Content-Type": "application/json"}
                                              if "delete" in operations else {})[0], 405, path)
        fields = api["components"]["schemas"]["Ask"]["properties"]
        wrong = self.server.ask(**{name: {} for name in fields})[2]["error"]
        self.assertIn(wrong["param"], fields)
        for name in ("layer_budget", "head_budget"):
            said = self.server.ask(question="x", **{name: "none"})[2]["error"]["message"]
            known = re.search(r"one of ([a-z, -]+), not", said).group(1).split(", ")
            self.assertEqual(fields[name]["enum"], [*known, None])
        formats = next(p for p in api["paths"]["/v1/documents"]["post"]["parameters"]
                       if p["name"] == "format")["schema"]["enum"]
        said = self.upload(b"x", query="&format=none")[2]["error"]["message"]
        self.assertEqual(re.findall(r"\w+", said.split("one of ")[1].replace(" or ", " ")), formats)
        source = os.path.join(HERE, "../../tools/server/service.cc")
        with open(source, encoding="utf-8") as file:
            served = set(re.findall(r'\{"(GET|POST|DELETE)", "([^"]+)"', file.read()))
        self.assertEqual(served, {(m.upper(), p) for p, o in api["paths"].items() for m in o})

    def test_page_health_version_metrics(self):
        status, headers, page = self.server.call("GET", "/")
        self.assertEqual(status, 200)
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertNotIn("unsafe", headers["Content-Security-Policy"])
        self.assertNotRegex(page, r"<script>|<style>| on\w+=|https?://")
        self.assertEqual(self.server.call("GET", "/page.js")[1]["Content-Type"],
                         "text/javascript; charset=utf-8")
        rules = os.path.join(HERE, "../../tools/server/access_rules.h")
        with open(rules, encoding="utf-8") as file:
            public = set(re.findall(r'"(/[\w.]*)"', file.read()))
        # The page asks for the token, so what it is made of comes without.
        for file in re.findall(r'<(?:script|link)[^>]* (?:src|href)="([\w.]+)"', page):
            self.assertIn("/" + file, public)
            self.assertEqual(self.server.call("GET", "/" + file)[0], 200)
        self.assertEqual(self.server.call("GET", "/health")[2], {"status": "ok"})
        self.assertEqual(self.server.call("GET", "/ready")[2], {"status": "ready"})
        self.assertTrue(self.server.call("GET", "/version")[2]["index_allowed"])
        self.server.ask(question="Who pays?")
        for line in self.server.call("GET", "/metrics")[2].splitlines():
            self.assertRegex(
                line, r'^(# (HELP|TYPE) lectern_\w+ .+|lectern_\w+(\{(\w+="[^"]*",?)+\})? [\d.e+-]+)$')
        self.assertGreater(self.server.metric("lectern_answer_tokens_total"), 0)
        self.assert_error(self.server.call("GET", "/v1/none"), 404, "not_found")
        refused = self.server.call("DELETE", "/v1/ask")
        self.assert_error(refused, 405, "method_not_allowed")
        self.assertEqual(refused[1]["Allow"], "POST, OPTIONS")
        refused = self.server.call("POST", "/v1/documents/none", {})
        self.assertEqual((refused[0], refused[1]["Allow"]), (405, "GET, HEAD, DELETE, OPTIONS"))
        for path in ("/health", "/v1/documents/none"):  # before what is wrong with its body
            self.assertEqual(self.server.call("POST", path, "x", {"Content-Type": "text/plain"})[0],
                             405)
        refused = self.server.call("PUT", "/v1/ask")
        self.assertEqual((refused[0], refused[1]["Allow"]), (405, "POST, OPTIONS"))
        self.assertEqual(self.server.call("DELETE", "/v1/ask", "x")[0], 405)

    def test_request_ids(self):
        self.assertEqual(self.server.call("GET", "/health", None, {"X-Request-Id": "a-1"})[1]
                         ["X-Request-Id"], "a-1")
        for bad in ("a b", "x" * 65, "<script>", "a%0d%0ab"):
            self.assertRegex(self.server.call("GET", "/health", None, {"X-Request-Id": bad})[1]
                             ["X-Request-Id"], "^[0-9a-f]{16}$")

    def test_who_leaves_frees_the_place(self):
        cancelled = self.server.metric("lectern_cancelled_total")
        for stream in (True, False):
            with self.server.begin({**LONG, "stream": stream}) as s:
                if stream:
                    self.assertIn(b"200", s.recv(1000))
                else:
                    while self.server.metric("lectern_generations_running") == 0:
                        time.sleep(0.01)
            self.server.wait_until_idle()
        # An answer may have been over before its client went.
        self.assertGreaterEqual(self.server.metric("lectern_cancelled_total"), cancelled)

    def test_many_at_once_all_get_their_answer(self):
        wanted = self.server.ask(question="Who repairs the roof?")[2]["answer"]
        before = [self.server.metric("lectern_step_" + of) for of in ("passes", "tokens")]
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(
            self.server.ask(question="Who repairs the roof?"))) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([a[0] for a in answers], [200] * 16)
        self.assertEqual({a[2]["answer"] for a in answers}, {wanted})
        passes, tokens = [self.server.metric("lectern_step_" + of) - was
                          for of, was in zip(("passes", "tokens"), before)]
        # A token of an answer, but its first, is a step; fewer passes than that took place.
        self.assertEqual(tokens, sum(a[2]["tokens"]["answer"] for a in answers))
        self.assertLess(passes, tokens)


class SessionTest(ServerCase):
    """Conversations that go on by their id."""

    OTHER = "The keeper of the lighthouse is Ann Brown. " * 30

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lectern-server-")
        cls.store = os.path.join(cls.folder.name, "store")
        index(cls.store, "lease", TEXT)
        index(cls.store, "tower", cls.OTHER)
        cls.server = Server(cls.store, "--model", MODEL, "--allow-index", "--max-sessions", "3")

    @classmethod
    def tearDownClass(cls):
        code, _, err = cls.server.stop()
        cls.folder.cleanup()
        assert code == 0, (code, err)

    def ask(self, **fields):
        return self.server.ask(**{"question": "Who repairs the roof?", "max_tokens": 8, **fields})

    def begin(self, document="lease", server=None):
        status, _, answer = (server or self.server).ask(
            document=document, question="Who repairs the roof?", max_tokens=8, session="new")
        self.assertEqual(status, 200, answer)
        self.assertRegex(answer["session"], "^[0-9a-f]{32}$")
        return answer["session"]

    def num_open(self):
        return self.server.metric("lectern_sessions")

    def test_follow_ups_are_those_of_the_tool(self):
        questions = ["Who repairs the roof?", "And who pays?", ONCE]
        tool = subprocess.run(
            [os.path.join(BIN, "ask-document"), "--store", self.store, "--model", MODEL, "--json",
             "--document", "lease", "--max-tokens", "8"], check=True, capture_output=True,
            input="".join(q + "\n" for q in questions).encode()).stdout.splitlines()
        session, answers = "new", []
        for i, question in enumerate(questions):
            fields = {"question": question, "session": session, "max_tokens": 8}
            if i == 0:
                fields["document"] = "lease"
            if i == 1:
                events = self.server.events("POST", "/v1/ask", {**fields, "stream": True})
                self.assertEqual(events[-1][0], "done")
                answers.append(events[-1][1])
            else:
                answers.append(self.server.ask(**fields)[2])
            session = answers[-1]["session"]
        self.assertEqual({answer["session"] for answer in answers}, {session})
        for answer, line in zip(answers, tool):
            wanted = json.loads(line)
            for each in (answer, wanted):  # measured times decide how many tokens are proposed
                del each["tokens"]["proposed"], each["tokens"]["accepted"]
            for key in ("answer", "evidence", "tokens"):
                self.assertEqual(answer[key], wanted[key])
            self.assertEqual(answer["kv"]["session_rows"], wanted["kv"]["session_rows"])
        rows = [answer["kv"]["session_rows"] for answer in answers]
        self.assertEqual(rows, sorted(set(rows)))  # the conversation grows
        self.assertNotIn("session", self.ask(document="lease")[2])

    def test_the_conversation_is_compressed_where_it_is_asked_for(self):
        session = self.begin()
        for _ in range(4):
            answer = self.ask(question=ONCE, session=session, max_tokens=40, max_session_rows=64)[2]
        self.assertLessEqual(answer["kv"]["session_rows"], 64)
        self.assert_error(self.ask(session=session, max_session_rows=63), 400, "invalid_argument",
                          "max_session_rows")

    def test_wrong_sessions_are_named(self):
        for unknown in ("none", "0" * 32, "NEW", "x" * 1000, "../new"):
            self.assert_error(self.ask(session=unknown), 404, "not_found", "session")
        self.assertIn('"session": "new"', self.ask(session="none")[2]["error"]["message"])
        for wrong in ("", 1, True, []):
            self.assert_error(self.ask(session=wrong), 400, "invalid_argument", "session")
        self.assert_error(self.ask(session="new"), 400, "ambiguous", "document")
        self.assert_error(self.ask(session="new", document="none"), 404, "not_found", "document")
        session = self.begin()
        self.assert_error(self.ask(session=session, document="tower"), 400, "invalid_argument",
                          "document")
        self.assert_error(self.ask(session=session, document="none"), 404, "not_found", "document")
        self.assert_error(self.ask(session=session, layer_budget="best"), 400, "invalid_argument",
                          "layer_budget")
        self.assertEqual(self.ask(session=session, document="lease")[0], 200)  # it is still there

    def test_a_first_question_that_fails_leaves_no_session(self):
        before = self.num_open()
        self.assert_error(self.ask(session="new", document="lease", layer_budget="best"), 400,
                          "invalid_argument", "layer_budget")
        self.server.begin({**LONG, "document": "lease", "session": "new"}).close()
        self.server.wait_until_idle()
        wait_for(lambda: self.num_open() <= before, "a session is left")

    def test_the_longest_idle_one_makes_room(self):
        first = self.begin()
        second, third = self.begin("tower"), self.begin()
        self.assertEqual(self.ask(session=first)[0], 200)
        fourth = self.begin()
        self.assertEqual(self.num_open(), 3)
        self.assert_error(self.ask(session=second), 404, "not_found", "session")
        for session in (first, third, fourth):
            self.assertEqual(self.ask(session=session)[0], 200)

    def test_one_request_at_a_time(self):
        session = self.begin()
        with self.server.begin({**LONG, "session": session, "stream": True}) as s:
            self.assertIn(b"200", s.recv(1000))
            refused = self.ask(session=session)
            if refused[0] != 200:  # the answer is not over
                self.assert_error(refused, 409, "session_in_use", "session")
                self.assertTrue(refused[2]["error"]["retryable"])
                self.assertEqual(refused[1]["Retry-After"], "1")
        # Its client has gone: the conversation goes on from what was said.
        self.server.wait_until_idle()
        status, _, answer = self.ask(session=session)
        self.assertEqual(status, 200, answer)
        self.assertGreater(answer["kv"]["session_rows"], answer["tokens"]["question"] + 8)

    def test_ended_on_request(self):
        session = self.begin()
        before = self.num_open()
        status, _, body = self.server.call("DELETE", "/v1/sessions/" + session)
        self.assertEqual((status, body), (200, {"ended": session}))
        self.assertEqual(self.num_open(), before - 1)
        self.assert_error(self.ask(session=session), 404, "not_found", "session")
        self.assert_error(self.server.call("DELETE", "/v1/sessions/" + session), 404, "not_found",
                          "session")

    def test_a_document_that_is_removed_ends_its_sessions(self):
        index(self.store, "gone", "Mills stand in Osk. " * 40)
        index(self.store, "by another", "Mills stand in Tal. " * 40)
        idle, busy = self.begin("gone"), self.begin("gone")
        other = self.begin("by another")
        with self.server.begin({**LONG, "session": busy, "stream": True}) as s:
            self.assertIn(b"200", s.recv(1000))
            self.assertEqual(self.server.call("DELETE", "/v1/documents/gone")[0], 200)
            for session in (idle, busy):
                self.assert_error(self.ask(session=session), 404, "not_found", "session")
        subprocess.run([os.path.join(BIN, "lectern-store"), "--store", self.store, "remove",
                        "--yes", "by another"], check=True, capture_output=True)
        self.assert_error(self.ask(session=other), 404, "not_found", "document")
        self.assert_error(self.ask(session=other), 404, "not_found", "session")

    def test_an_idle_one_ends_by_itself(self):
        server = Server(self.store, "--model", MODEL, "--session-timeout", "1")
        self.addCleanup(server.stop)
        session = self.begin(server=server)
        self.assertEqual(server.ask(question="Who?", session=session, max_tokens=1)[0], 200)
        self.assertEqual(server.metric("lectern_sessions"), 1)
        wait_for(lambda: server.metric("lectern_sessions") == 0, "the session does not end")
        self.assert_error(server.ask(question="Who?", session=session), 404, "not_found", "session")

    def test_a_document_stays_open_for_the_next_question(self):
        """Until it is removed or idle for too long."""
        store = os.path.join(self.folder.name, "kept")
        for name in ("first", "second"):
            index(store, name, TEXT + name)
        server = Server(store, "--model", MODEL, "--allow-index", "--session-timeout", "2")
        self.addCleanup(server.stop)
        first, second = (server.call("GET", "/v1/documents/" + name)[2]["document"]
                         for name in ("first", "second"))
        for document in (first, second, first):
            self.assertEqual(server.ask(question="Who?", document=document, max_tokens=1)[0], 200)
            self.assertEqual(len(server.generations_open(document)), 1)
        self.assertEqual(server.metric("lectern_sessions"), 0)  # no conversation
        self.assertEqual(server.call("DELETE", "/v1/documents/second")[0], 200)
        self.assertEqual(server.generations_open(second), set())
        self.assertEqual(os.listdir(os.path.join(store, "docs")), [first])
        wait_for(lambda: not server.generations_open(first), "the document stays open")
        # Files that were replaced do not.
        self.assertEqual(server.ask(question="Who?", max_tokens=1)[0], 200)
        before = server.generations_open(first)
        index(store, "first", TEXT + "first", "--again")
        self.assertEqual(server.ask(question="Who?", max_tokens=1)[0], 200)
        after = server.generations_open(first)
        self.assertEqual(len(after), 1)
        self.assertNotEqual(after, before)

    def test_more_documents_than_fit(self):
        store = os.path.join(self.folder.name, "many")
        names = [f"d{i}" for i in range(6)]
        for name in names:
            index(store, name, TEXT + name)
        server = Server(store, "--model", MODEL, "--max-ram", "16MiB")
        self.addCleanup(server.stop)
        for _ in range(2):
            sessions = [self.begin(name, server) for name in names]
            self.assertLess(server.metric("lectern_sessions"), len(names))
        self.assert_error(server.ask(question="Who?", session=sessions[0]), 404, "not_found",
                          "session")
        for _ in range(3):
            self.assertEqual(server.ask(question="And who pays?", max_tokens=8,
                                        session=sessions[-1])[0], 200)
        # At the same time, where one fits and no other beside it: they wait for each other.
        small = Server(store, "--model", MODEL, "--max-ram", "10MiB", "--parallel", "6")
        self.addCleanup(small.stop)
        # A request that generates nothing also gets its document beside an idle conversation.
        for path, fields in (("/v1/cite", {"text": "The tenant repairs the roof."}),
                             ("/tokenize", {"content": "roof"})):
            self.begin(names[0], small)
            for name in names[1:]:
                self.assertEqual(small.call("POST", path, {"document": name, **fields})[0], 200)
        answers = []
        threads = [threading.Thread(target=lambda fields=fields: answers.append(small.ask(
            question="Who repairs the roof?", max_tokens=20, **fields)))
                   for fields in [{"document": name, **kept} for name in names
                                  for kept in ({}, {"session": "new"})]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([answer[0] for answer in answers], [200] * len(threads))
        self.assertLess(small.metric("lectern_sessions"), len(names))
        ids = [small.call("GET", "/v1/documents/" + name)[2]["document"] for name in names]
        self.assertLess(sum(len(small.generations_open(i)) for i in ids), len(names))
        # A question that never fits waits for nobody.
        smaller = Server(store, "--model", MODEL, "--max-ram", "9MiB", "--wait-seconds", "3600")
        self.addCleanup(smaller.stop)
        refused = smaller.ask(document="d0", question="Who?")
        self.assert_error(refused, 503, "out_of_memory", "max_ram")
        self.assertIn("Retry-After", refused[1])

    def test_stops_with_sessions_open(self):
        server = Server(self.store, "--model", MODEL)
        session = self.begin(server=server)
        with server.begin({**LONG, "session": session, "stream": True}) as s:
            self.assertIn(b"200", s.recv(1000))
            code, _, err = server.stop()
        self.assertEqual((code, err), (0, ""))


# The bundled reader's form, but that the answer begins with a mark of thinking, which never ends.
THINKS = ("{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}\nAnswer:"
          "{% else %} {{ m.content }}{% endif %}{% endfor %}{% if false %}<think>{% endif %}"
          "{% if add_generation_prompt and 'aloud' in messages[-1].content %}<think>{% endif %}")


class ThinkingTest(ServerCase):
    """A model that thinks before it answers, by its template."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        store = os.path.join(cls.folder.name, "store")
        template = os.path.join(cls.folder.name, "thinks.jinja")
        with open(template, "w", encoding="utf-8") as file:
            file.write(THINKS)
        index(store, "lease", TEXT, "--chat-template", template)
        cls.server = Server(store)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.folder.cleanup()

    def test_thinking_is_no_part_of_the_answer(self):
        _, _, thought = self.server.ask(question=ONCE + " Think aloud.", max_tokens=8)
        self.assertEqual(thought["answer"], "")
        self.assertTrue(thought["reasoning"])
        self.assertEqual(thought["tokens"]["reasoning"], thought["tokens"]["answer"])
        events = self.server.events("POST", "/v1/ask", {
            "question": ONCE + " Think aloud.", "max_tokens": 8, "stream": True})
        self.assertEqual("".join(data["text"] for name, data in events if name == "reasoning"),
                         thought["reasoning"])
        _, _, plain = self.server.ask(question=ONCE, max_tokens=8)
        self.assertTrue(plain["answer"])
        self.assertIsNone(plain["reasoning"])
        self.assertEqual(plain["tokens"]["reasoning"], 0)
        self.assertIn(plain["stopped_by"], ("end", "max_tokens"))

    def test_openai_clients_get_it_apart(self):
        request = {"model": "lease", "max_tokens": 8,
                   "messages": [{"role": "user", "content": ONCE + " Think aloud."}]}
        status, _, whole = self.server.call("POST", "/v1/chat/completions", request)
        self.assertEqual(status, 200, whole)
        message = whole["choices"][0]["message"]
        self.assertEqual(message["content"], "")
        self.assertTrue(message["reasoning_content"])
        usage = whole["usage"]
        self.assertEqual(usage["completion_tokens_details"]["reasoning_tokens"],
                         usage["completion_tokens"])
        events = self.server.events("POST", "/v1/chat/completions", {**request, "stream": True})
        deltas = [data["choices"][0]["delta"] for _, data in events
                  if data != "[DONE]" and data["choices"]]
        self.assertEqual("".join(delta.get("reasoning_content", "") for delta in deltas),
                         message["reasoning_content"])
        self.assertEqual("".join(delta.get("content", "") for delta in deltas), "")


class StartTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lectern-server-")
        self.addCleanup(self.folder.cleanup)

    def path(self, name, text=None):
        path = os.path.join(self.folder.name, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def fails(self, *flags):
        run = subprocess.run([os.path.join(BIN, "lectern-server"), "--store", self.path("store"),
                              *flags], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.stdout, "")
        return run.returncode, run.stderr

    def test_other_machines_need_a_token(self):
        code, err = self.fails("--host", "0.0.0.0")
        self.assertEqual(code, 2)
        self.assertIn("--token-file", err)
        code, err = self.fails("--token-file", self.path("none"))
        self.assertEqual(code, 2)
        code, err = self.fails("--token-file", self.path("short", "abc\n"))
        self.assertEqual(code, 2)
        self.assertIn("guessed", err)

    def test_token(self):
        server = Server(self.path("store"), "--token-file", self.path("token", TOKEN + "\n"))
        self.addCleanup(server.stop)
        self.assertEqual(server.call("GET", "/health")[0], 200)
        self.assertEqual(server.call("GET", "/")[0], 200)
        for token in (None, "x", TOKEN + "0", TOKEN[:-1]):
            self.assertEqual(server.call("GET", "/v1/documents", token=token)[0], 401)
        self.assertEqual(server.call("GET", "/v1/documents", token=TOKEN)[0], 200)
        self.assertEqual(server.call("GET", "/metrics")[0], 401)

    def test_the_device_of_indexing_is_a_device(self):
        code, err = self.fails("--allow-index", "--index-device", "gpu")
        self.assertEqual(code, 2)
        self.assertIn("none of cpu, cuda, cuda:N and auto", err)
        for size in ("0", "8 XB"):
            code, err = self.fails("--allow-index", "--index-device-memory", size)
            self.assertEqual(code, 2)
            self.assertIn("not a size", err)

    def test_only_answers_where_indexing_is_not_allowed(self):
        server = Server(self.path("store"))
        self.addCleanup(server.stop)
        self.assertEqual(server.call("GET", "/v1/documents")[2], {"documents": []})
        self.assertEqual(server.call("DELETE", "/v1/documents/x")[2]["error"]["code"],
                         "index_not_allowed")
        for kind in ("application/octet-stream", "application/json"):  # before its bytes are read
            refused = server.call("POST", "/v1/documents", b"x", {"Content-Type": kind})
            self.assertEqual((refused[0], refused[2]["error"]["code"]), (403, "index_not_allowed"))

    def test_port_in_use(self):
        server = Server(self.path("store"))
        self.addCleanup(server.stop)
        code, err = self.fails("--port", str(server.port))
        self.assertEqual(code, 1)
        self.assertIn("in use", err)

    def test_stops_when_told(self):
        server = Server(self.path("store"))
        code, out, err = server.stop()
        self.assertEqual((code, out, err), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
