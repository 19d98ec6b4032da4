#!/usr/bin/env python3
"""Programs and libraries of the field ask the server, read a stream, give up in its middle and get to
know what is wrong; a table says which did. What is not installed is skipped; CLIENTS=all: fails.
CLIENTS_ONLY: one of the table.

LECTERN_BIN         folder of the built tools
LECTERN_TEST_MODEL  model folder to index with
Programs: curl, wget, java, go, node, chromium, nginx, haproxy. PyPI: openai, litellm, langchain-openai,
llama-index-llms-openai-like, llm, requests, httpx, aiohttp.
"""

import asyncio
import base64
import http.client
import http.server
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from server_test import MODEL, ONCE, TEXT, Server, index, wait_for

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients")
ASK = {"document": "lease", "question": ONCE}
LONG = {"document": "lease", "question": "Tell me all.", "max_tokens": 4000, "temperature": 5,
        "stream": True}
WRONG = {"document": "lease", "question": ONCE, "kv_budget": 7}
CHAT = [{"role": "user", "content": ONCE}]
LONG_CHAT = [{"role": "user", "content": "Tell me all."}]
JSON = {"Content-Type": "application/json"}
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would be fetched
RESULTS = {}  # client: {what: "ok", "FAILED" or "not installed"}


def has_module(name):
    return importlib.util.find_spec(name) is not None


class Client:
    """`ask`: the answer's text. `stream`: the same from pieces. `cancel`: reads some of a long answer
    and gives up. `error`: what the client tells its user of a question that is wrong."""
    needs_program = needs_module = None

    def __init__(self, url, folder):
        self.url, self.folder = url, folder
        self.ask_url = url + "/v1/ask"

    @classmethod
    def is_installed(cls):
        return ((cls.needs_program is None or shutil.which(cls.needs_program) is not None) and
                (cls.needs_module is None or has_module(cls.needs_module)))


def text_of(events):
    """The answer that a stream of /v1/ask was about."""
    return "".join(json.loads(line[6:])["text"] for block in events.split("\n\n")
                   if block.startswith("event: text\n")
                   for line in block.split("\n") if line.startswith("data: "))


class AskClient(Client):
    """A client of /v1/ask. Its `post` gives the status and the text of the whole body."""

    def ask(self):
        status, text = self.post(ASK)
        assert status == 200, text
        return json.loads(text)["answer"]

    def stream(self):
        status, text = self.post({**ASK, "stream": True})
        assert status == 200 and "event: done\n" in text, text
        return text_of(text)

    def error(self):
        status, text = self.post(WRONG)
        assert status == 400, text
        return json.loads(text)["error"]["message"]


class Program(AskClient):
    """`command` prints the status on its first or last line."""

    def command(self, body, mode):
        raise NotImplementedError

    def post(self, fields):
        run = subprocess.run(self.command(json.dumps(fields), "read"), capture_output=True, text=True,
                             timeout=120, check=False)
        lines = run.stdout.split("\n", 1)
        assert len(lines) == 2, (run.returncode, run.stdout, run.stderr)
        return int(lines[0]), lines[1]

    def cancel(self):
        run = subprocess.run(self.command(json.dumps(LONG), "cancel"), capture_output=True, text=True,
                             timeout=120, check=True)
        assert run.stdout.startswith("200\n"), run.stdout


class Curl(Program):
    needs_program = "curl"
    flags = ()

    def command(self, body, mode):
        return ["curl", "-sSN", "--noproxy", "", *self.flags, "-H", "Content-Type: application/json",
                "-w", "\n%{http_code}", "-d", body, self.ask_url]

    def post(self, fields):
        run = subprocess.run(self.command(json.dumps(fields), "read"), capture_output=True, text=True,
                             timeout=120, check=True)
        text, status = run.stdout.rsplit("\n", 1)
        return int(status), text

    def cancel(self):
        kill_when_it_prints(self.command(json.dumps(LONG), "cancel"))


class Curl10(Curl):
    flags = ("--http1.0",)


class CurlH2(Curl):
    flags = ("--http2",)


class CurlChunked(Curl):
    flags = ("-H", "Transfer-Encoding: chunked", "-H", "Expect: 100-continue")


def kill_when_it_prints(command):
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout.read(1), "nothing came"
        process.kill()


class Wget(AskClient):
    needs_program = "wget"

    def command(self, fields):
        return ["wget", "-qO-", "--no-proxy", "--content-on-error", "--tries=1", "-S",
                "--header=Content-Type: application/json", "--post-data=" + json.dumps(fields),
                self.ask_url]

    def post(self, fields):
        run = subprocess.run(self.command(fields), capture_output=True, text=True, timeout=120,
                             check=False)
        status = [line.split()[1] for line in run.stderr.splitlines() if "HTTP/1.1 " in line][-1]
        return int(status), run.stdout

    def cancel(self):
        kill_when_it_prints(self.command(LONG))


class Java(Program):
    needs_program = "javac"

    def command(self, body, mode):
        if not os.path.exists(os.path.join(self.folder, "Client.class")):
            subprocess.run(["javac", "-d", self.folder, os.path.join(HERE, "Client.java")], check=True)
        return ["java", "-cp", self.folder, "Client", self.ask_url, body, mode]


class Go(Program):
    needs_program = "go"

    def command(self, body, mode):
        binary = os.path.join(self.folder, "go-client")
        if not os.path.exists(binary):
            subprocess.run(["go", "build", "-o", binary, os.path.join(HERE, "client.go")], check=True,
                           env={**os.environ, "GOCACHE": os.path.join(self.folder, "go-cache"),
                                "GO111MODULE": "off"})
        return [binary, self.ask_url, body, mode]


class Node(Program):
    needs_program = "node"

    def command(self, body, mode):
        return ["node", os.path.join(HERE, "client.mjs"), self.ask_url, body, mode]


class Chromium(Program):
    """A page of another site, which the server allows."""
    needs_program = "chromium"
    origin = None  # where the pages are served from

    def post(self, fields):
        return self.open(json.dumps(fields), "read")

    def open(self, body, mode):
        arguments = urllib.parse.quote(json.dumps({"url": self.ask_url, "body": body, "mode": mode}))
        with tempfile.TemporaryDirectory() as profile:
            run = subprocess.run(
                ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom",
                 "--user-data-dir=" + profile, "--virtual-time-budget=20000",
                 f"{self.origin}/page.html#{arguments}"], capture_output=True, text=True, timeout=120,
                check=True)
        shown = base64.b64decode(re.search("<pre>(.*)</pre>", run.stdout).group(1)).decode()
        status, text = shown.split("\n", 1)
        return int(status), text

    def cancel(self):
        assert self.open(json.dumps(LONG), "cancel")[0] == 200


class HttpClient(AskClient):
    """Python's http.client."""
    prefix = ""

    def begin(self, fields):
        address = self.url.split("//", 1)[1]
        connection = http.client.HTTPConnection(address, timeout=120)
        connection.request("POST", self.prefix + "/v1/ask", json.dumps(fields), JSON)
        return connection, connection.getresponse()

    def post(self, fields):
        connection, response = self.begin(fields)
        text = response.read().decode()
        connection.close()
        return response.status, text

    def cancel(self):
        connection, response = self.begin(LONG)
        assert response.read(1)
        response.close()
        connection.close()


class Proxied(HttpClient):
    """http.client through a proxy; `port` of it comes with the test."""
    ports = {}

    def __init__(self, url, folder):
        super().__init__(url, folder)
        self.url = f"http://127.0.0.1:{self.ports[self.needs_program]}"


class Nginx(Proxied):
    needs_program = "nginx"


class NginxKept(Nginx):
    prefix = "/kept"


class Haproxy(Proxied):
    needs_program = "haproxy"


class Urllib(AskClient):
    def open(self, fields):
        return urllib.request.urlopen(urllib.request.Request(
            self.ask_url, json.dumps(fields).encode(), JSON), timeout=120)

    def post(self, fields):
        try:
            with self.open(fields) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def cancel(self):
        with self.open(LONG) as response:
            assert response.read(1)


class Requests(AskClient):
    needs_module = "requests"

    def post(self, fields):
        import requests
        response = requests.post(self.ask_url, json=fields, timeout=120)
        return response.status_code, response.text

    def cancel(self):
        import requests
        with requests.post(self.ask_url, json=LONG, stream=True, timeout=120) as response:
            assert next(response.iter_lines())


class RequestsGenerator(Requests):
    def post(self, fields):
        import requests
        response = requests.post(self.ask_url, data=iter([json.dumps(fields).encode()]), headers=JSON,
                                 timeout=120)
        return response.status_code, response.text


class Httpx(AskClient):
    needs_module = "httpx"

    def post(self, fields):
        import httpx
        response = httpx.post(self.ask_url, json=fields, timeout=120)
        return response.status_code, response.text

    def cancel(self):
        import httpx
        with httpx.stream("POST", self.ask_url, json=LONG, timeout=120) as response:
            assert next(response.iter_lines())


class Aiohttp(AskClient):
    needs_module = "aiohttp"

    def post(self, fields):
        import aiohttp

        async def post():
            async with aiohttp.ClientSession() as session:
                async with session.post(self.ask_url, json=fields) as response:
                    return response.status, await response.text()
        return asyncio.run(post())

    def cancel(self):
        import aiohttp

        async def begin():
            async with aiohttp.ClientSession() as session:
                async with session.post(self.ask_url, json=LONG) as response:
                    assert await response.content.readline()
        asyncio.run(begin())


class OpenAi(Client):
    needs_module = "openai"

    def __init__(self, url, folder):
        super().__init__(url, folder)
        import openai
        self.client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
        self.create = self.client.chat.completions.create

    def ask(self):
        return self.create(model="lease", messages=CHAT).choices[0].message.content

    def stream(self):
        return "".join(chunk.choices[0].delta.content or ""
                       for chunk in self.create(model="lease", messages=CHAT, stream=True)
                       if chunk.choices)

    def cancel(self):
        with self.create(model="lease", messages=LONG_CHAT, stream=True, max_tokens=4000,
                         temperature=2) as stream:
            next(iter(stream))

    def error(self):
        import openai
        try:
            self.create(model="nothing", messages=CHAT)
        except openai.NotFoundError as error:
            return error.message
        return ""


class LiteLlm(Client):
    needs_module = "litellm"

    def complete(self, model="lease", messages=CHAT, **options):
        import litellm
        return litellm.completion(model="openai/" + model, messages=messages, max_retries=0,
                                  api_base=self.url + "/v1", api_key="none", **options)

    def ask(self):
        return self.complete().choices[0].message.content

    def stream(self):
        return "".join(chunk.choices[0].delta.content or "" for chunk in self.complete(stream=True))

    def cancel(self):
        stream = self.complete(messages=LONG_CHAT, stream=True, max_tokens=4000, temperature=2)
        next(iter(stream))
        stream.completion_stream.close()

    def error(self):
        import litellm
        try:
            self.complete(model="nothing")
        except litellm.exceptions.NotFoundError as error:
            return str(error)
        return ""


class LangChain(Client):
    needs_module = "langchain_openai"

    def chat(self, model="lease", **options):
        from langchain_openai import ChatOpenAI
        return ChatOpenAI(model=model, base_url=self.url + "/v1", api_key="none", max_retries=0,
                          **options)

    def ask(self):
        return self.chat().invoke(ONCE).content

    def stream(self):
        return "".join(piece.content for piece in self.chat().stream(ONCE))

    def cancel(self):
        pieces = self.chat(max_tokens=4000, temperature=2).stream("Tell me all.")
        next(pieces)
        pieces.close()

    def error(self):
        import openai
        try:
            self.chat("nothing").invoke(ONCE)
        except openai.NotFoundError as error:
            return error.message
        return ""


class LlamaIndex(Client):
    needs_module = "llama_index.llms.openai_like" if has_module("llama_index") else "llama_index"

    def llm(self, model="lease", **options):
        from llama_index.llms.openai_like import OpenAILike
        return OpenAILike(model=model, api_base=self.url + "/v1", api_key="none", is_chat_model=True,
                          max_retries=0, context_window=8000, **options)

    def ask(self):
        return self.llm().complete(ONCE).text

    def stream(self):
        return "".join(piece.delta or "" for piece in self.llm().stream_complete(ONCE))

    def cancel(self):
        import httpx
        with httpx.Client() as connections:  # llama-index has no way to give up but to end these
            next(self.llm(max_tokens=4000, temperature=2, http_client=connections).stream_complete(
                "Tell me all."))

    def error(self):
        import openai
        try:
            self.llm("nothing").complete(ONCE)
        except openai.NotFoundError as error:
            return error.message
        return ""


class Llm(Client):
    """Simon Willison's command line."""
    needs_module = "llm"

    def run(self, *flags, model="lease", **options):
        with open(os.path.join(self.folder, "extra-openai-models.yaml"), "w",
                  encoding="utf-8") as file:
            for name in ("lease", "nothing"):
                file.write(f"- model_id: {name}\n  model_name: {name}\n  api_base: {self.url}/v1\n")
        command = [sys.executable, "-m", "llm", "prompt", "-m", model, "--key", "none", *flags]
        return command, {**os.environ, "LLM_USER_PATH": self.folder}

    def prompt(self, *flags, **options):
        command, environment = self.run(*flags, **options)
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120,
                              check=False)

    def ask(self):
        return self.prompt("--no-stream", ONCE).stdout.strip()

    def stream(self):
        return self.prompt(ONCE).stdout.strip()

    def cancel(self):
        command, environment = self.run("-o", "max_tokens", "4000", "-o", "temperature", "2",
                                        "Tell me all.")
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout.read(1), "nothing came"
            process.kill()

    def error(self):
        return self.prompt(ONCE, model="nothing").stderr


CLIENTS = {
    "curl": Curl, "curl --http1.0": Curl10, "curl --http2": CurlH2, "curl, chunked, Expect": CurlChunked,
    "wget": Wget, "Java HttpClient": Java, "Go net/http, chunked": Go, "Node fetch": Node,
    "Chromium, another site's page": Chromium, "http.client": HttpClient, "urllib": Urllib, "requests": Requests,
    "requests, a generator": RequestsGenerator, "httpx": Httpx, "aiohttp": Aiohttp,
    "nginx, as it is": Nginx, "nginx, HTTP/1.1": NginxKept, "haproxy": Haproxy,
    "openai": OpenAi, "litellm": LiteLlm, "langchain-openai": LangChain, "llama-index": LlamaIndex,
    "llm": Llm,
}


class Pages(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *args):
        super().__init__(*args, directory=HERE)

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def is_listening(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


class ClientsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lectern-clients-")
        store = os.path.join(cls.folder.name, "store")
        index(store, "lease", TEXT)
        cls.pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
        threading.Thread(target=cls.pages.serve_forever, daemon=True).start()
        Chromium.origin = f"http://localhost:{cls.pages.server_port}"
        cls.server = Server(store, "--model", MODEL, "--allow-origin", Chromium.origin)
        cls.url = f"http://127.0.0.1:{cls.server.port}"
        cls.answer = cls.server.ask(**ASK)[2]["answer"]
        cls.proxies = [cls.begin_proxy(*proxy) for proxy in (
            ("nginx", "nginx.conf", ["nginx", "-c"]), ("haproxy", "haproxy.cfg", ["haproxy", "-db", "-f"]))
            if shutil.which(proxy[0])]

    @classmethod
    def begin_proxy(cls, name, file, command):
        port = Proxied.ports[name] = free_port()
        with open(os.path.join(HERE, file), encoding="utf-8") as template:
            text = template.read()
        for key, value in (("folder", cls.folder.name), ("server", cls.server.port), (name, port)):
            text = text.replace(f"@{key}@", str(value))
        path = os.path.join(cls.folder.name, file)
        with open(path, "w", encoding="utf-8") as config:
            config.write(text)
        process = subprocess.Popen([*command, path], stderr=subprocess.DEVNULL)
        wait_for(lambda: is_listening(port), name + " does not begin")
        return process

    @classmethod
    def tearDownClass(cls):
        for process in cls.proxies:
            process.terminate()
            process.wait()
        cls.pages.shutdown()
        cls.pages.server_close()
        code, _, err = cls.server.stop()
        cls.folder.cleanup()
        print_table()
        assert (code, err) == (0, ""), (code, err)

    def attempt(self, name, what, check):
        row = RESULTS.setdefault(name, {})
        row[what] = "FAILED"
        with self.subTest(client=name, what=what):
            check()
            row[what] = "ok"

    def check_cancel(self, client):
        """Another try where the answer was over before the client had begun to read."""
        for _ in range(5):
            before = self.server.metric("lectern_cancelled_total")
            client.cancel()
            self.server.wait_until_idle()
            if self.server.metric("lectern_cancelled_total") > before:
                return
        self.fail("the generation goes on")

    def test_clients(self):
        only = os.environ.get("CLIENTS_ONLY")
        for name, kind in CLIENTS.items():
            if only and only != name:
                continue
            if not kind.is_installed():
                RESULTS[name] = dict.fromkeys(("ask", "stream", "cancel", "error"), "not installed")
                with self.subTest(client=name):
                    self.assertNotEqual(os.environ.get("CLIENTS"), "all", "it is not installed")
                continue
            client = kind(self.url, self.folder.name)
            self.attempt(name, "ask", lambda: self.assertEqual(client.ask().strip(), self.answer))
            self.attempt(name, "stream",
                         lambda: self.assertEqual(client.stream().strip(), self.answer))
            self.attempt(name, "cancel", lambda: self.check_cancel(client))
            self.attempt(name, "error", lambda: self.assertRegex(
                client.error(), "kv_budget|no document|nothing"))

    def test_nginx_s_client_that_leaves_ends_the_generation(self):
        """The request is HTTP/1.0 without a stream, so no write can tell that the client has left."""
        if not shutil.which("nginx"):
            self.skipTest("nginx is not installed")
        for _ in range(5):
            before = self.server.metric("lectern_cancelled_total")
            with socket.create_connection(("127.0.0.1", Proxied.ports["nginx"])) as s:
                # No end of the text (its token is 2): the answer lasts for seconds.
                body = json.dumps({**LONG, "stream": False, "logit_bias": {"2": -100}}).encode()
                s.sendall(b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                          b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                time.sleep(1.1)
            self.server.wait_until_idle()
            if self.server.metric("lectern_cancelled_total") > before:
                return
        self.fail("the generation goes on")


def print_table():
    print("\n| client | ask | stream | cancel | error |\n|---|---|---|---|---|")
    for name, row in RESULTS.items():
        print(f"| {name} | " + " | ".join(row.get(what, "") for what in
                                         ("ask", "stream", "cancel", "error")) + " |")


if __name__ == "__main__":
    unittest.main()
