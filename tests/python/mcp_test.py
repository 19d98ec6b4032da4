#!/usr/bin/env python3
"""lectern-mcp through the official client of the Model Context Protocol: every tool and resource,
progress, cancelling, errors; on stdin and stdout and over HTTP, by the protocol's current version and
by the one before. Environment: integrations_store.py."""
import asyncio
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request
from unittest import mock

from integrations_store import (ENDLESS, LEASE_ID, PASSAGE, QUESTION, STORE, TOWNS, TOWNS_ID, WORK,
                                command, store)

import mcp_types
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

SERVER = command("mcp_server")
# A server whose answers do not end by themselves, and which says when they began and how they
# ended.
SPY = """
import sys, time
import lectern
from lectern.integrations import mcp_server
class Spy(mcp_server.LecternServer):
    def _answer(self, *arguments):
        log = open(sys.argv[1], "a", buffering=1)
        print("began", file=log)
        try:
            answer = super()._answer(*arguments)
            print("ended", answer.finish_reason, file=log)
            return answer
        except BaseException as error:
            print("ended", repr(error), file=log)
            raise
mcp_server.LecternServer = Spy
real = Spy.__init__
def init(self, *arguments):
    real(self, *arguments, options=%r)
Spy.__init__ = init
sys.exit(mcp_server.main(sys.argv[2:]))
""" % ENDLESS


@contextlib.contextmanager
def http_server(*arguments, program=(*SERVER,)):
    """The URL of a server over HTTP, which ends with the body."""
    child = subprocess.Popen([*program, *(arguments or ("--http", "0"))], stderr=subprocess.PIPE,
                             text=True)
    try:
        line = child.stderr.readline()
        url = re.fullmatch(r"lectern-mcp: (http://\S+/mcp)\n", line)
        if not url:
            raise AssertionError(line + child.stderr.read())
        yield url[1]
    finally:
        child.terminate()
        child.communicate(timeout=20)


def over_stdio(*arguments, program=(*SERVER,)):
    return stdio_client(StdioServerParameters(
        command=program[0], args=[*program[1:], *arguments], env=dict(os.environ)))


class Tools(unittest.TestCase):
    # Modes of the client, and the version of the protocol that each agrees on with the server.
    MODES = {"auto": LATEST_MODERN_VERSION, "legacy": LATEST_HANDSHAKE_VERSION}

    def everywhere(self, case):
        """Runs a case over both transports and both versions."""
        with http_server() as url:
            for transport in ("stdio", "http"):
                for mode, version in self.MODES.items():
                    with self.subTest(transport=transport, version=version):
                        asyncio.run(self.connected(
                            case, url if transport == "http" else over_stdio(), mode, version))

    async def connected(self, case, server, mode, version):
        async with asyncio.timeout(60):
            async with Client(server, mode=mode) as client:
                self.assertEqual(client.protocol_version, version)
                await case(client)

    async def call(self, client, tool, **arguments):
        """The structured result, which the text for older assistants has too."""
        result = await client.call_tool(tool, arguments)
        self.assertFalse(result.is_error, result.content)
        self.assertEqual(json.loads(result.content[0].text), result.structured_content)
        return result.structured_content

    def test_what_it_offers(self):
        async def case(client):
            self.assertEqual(client.server_info.name, "lectern")
            self.assertIn("list_documents", client.instructions)
            tools = {one.name: one for one in (await client.list_tools()).tools}
            self.assertEqual(set(tools), {"list_documents", "ask", "search", "cite"})
            for tool in tools.values():
                self.assertTrue(tool.annotations.read_only_hint)
                self.assertTrue(tool.description and tool.output_schema)
            self.assertEqual(tools["ask"].input_schema["required"], ["question"])
            self.assertNotIn("context", tools["ask"].input_schema["properties"])

        self.everywhere(case)

    def test_list_documents(self):
        async def case(client):
            listed = await self.call(client, "list_documents")
            rows = {one["name"]: one for one in listed["documents"]}
            self.assertEqual(rows["towns"]["id"], TOWNS_ID)
            self.assertEqual(rows["lease.pdf"]["source"], str((WORK / "lease.pdf").resolve()))
            self.assertTrue(rows["towns"]["ready"])
            self.assertEqual([one["name"] for one in listed["collections"]], ["all"])

        self.everywhere(case)

    def test_ask_with_progress(self):
        async def case(client):
            heard = []

            async def progress(done, total, message):
                heard.append((done, message))

            result = await client.call_tool("ask", {"question": QUESTION, "document": "towns"},
                                            progress_callback=progress)
            answer = result.structured_content
            self.assertEqual(answer["answer"], "Stuxwick")
            self.assertEqual(heard[-1][1], "Stuxwick")
            self.assertEqual(heard, sorted(set(heard)))  # the numbers grow
            best = answer["passages"][0]
            self.assertEqual((best["text"], best["document"]), (PASSAGE, "towns"))
            self.assertEqual(TOWNS[best["start"]:best["end"]], PASSAGE)
            self.assertTrue(answer["has_evidence"])
            read = await client.read_resource(best["uri"])
            self.assertEqual(read.contents[0].text, PASSAGE)

            answer = await self.call(client, "ask", question="Who pays for repairs to the roof?",
                                     collection="all", max_passages=1)
            self.assertEqual([(one["document"], one["page"]) for one in answer["passages"]],
                             [("lease.pdf", "2")])
            self.assertIn(LEASE_ID, answer["passages"][0]["uri"])

        self.everywhere(case)

    def test_search_and_cite(self):
        async def case(client):
            found = await self.call(client, "search", words="repairs")
            self.assertEqual({one["document"] for one in found["passages"]}, {"towns", "lease.pdf"})
            found = await self.call(client, "search", words="Douquouth committee", document="towns")
            self.assertEqual(found["passages"][0]["text"], PASSAGE)
            self.assertEqual((await self.call(client, "search", words="bananas")), {"passages": []})
            cited = await self.call(client, "cite", document="towns", question=QUESTION,
                                    text="The committee meets in Stuxwick. Pigs fly at night.")
            self.assertFalse(cited["supported"])
            self.assertEqual([one["supported"] for one in cited["sentences"]], [True, False])
            self.assertEqual(cited["sentences"][0]["passages"][0]["text"], PASSAGE)

        self.everywhere(case)

    def test_resources(self):
        async def case(client):
            listed = {one.name: one for one in (await client.list_resources()).resources}
            self.assertEqual(set(listed), {"towns", "lease.pdf"})
            self.assertEqual(listed["towns"].size, len(TOWNS.encode()))
            read = (await client.read_resource(listed["towns"].uri)).contents[0]
            self.assertEqual((read.text, read.mime_type), (TOWNS, "text/plain"))
            read = await client.read_resource("lectern://documents/lease.pdf?start=0&end=9")
            self.assertEqual(read.contents[0].text, "The lease")
            templates = (await client.list_resource_templates()).resource_templates
            self.assertEqual([one.uri_template for one in templates],
                             ["lectern://documents/{document}{?start,end}"])

        self.everywhere(case)

    def test_errors(self):
        """A mistake that the assistant can put right is a result of the tool; an unknown resource
        is an error of the protocol."""
        async def case(client):
            for arguments, wanted in (
                    ({"question": QUESTION, "document": "nope"}, 'not_found: no document "nope"'),
                    ({"question": QUESTION}, "ambiguous: "),
                    ({"question": "", "document": "towns"}, "at least 1 character"),
                    ({"question": QUESTION, "document": "towns", "collection": "all"}, "not both"),
                    ({"question": QUESTION, "collection": "nope"}, "not_found: "),
                    ({"document": "towns"}, "Field required"),
                    ({"question": QUESTION, "max_tokens": 0}, "greater than or equal to 1")):
                result = await client.call_tool("ask", arguments)
                self.assertTrue(result.is_error, arguments)
                self.assertIn(wanted, result.content[0].text)
            result = await client.call_tool("index", {"file": "/etc/passwd"})
            self.assertTrue(result.is_error)
            self.assertIn("Unknown tool", result.content[0].text)
            for uri in ("lectern://documents/nope", "file:///etc/passwd"):
                with self.assertRaises(MCPError) as raised:
                    await client.read_resource(uri)
                self.assertEqual(raised.exception.error.code, mcp_types.INVALID_PARAMS)
            # It goes on after errors.
            self.assertEqual((await self.call(client, "ask", question=QUESTION, document="towns"))
                             ["answer"], "Stuxwick")

        self.everywhere(case)

    def test_questions_at_once(self):
        async def case(client):
            answers = await asyncio.gather(*(self.call(
                client, "ask", question=QUESTION, document="towns") for _ in range(12)))
            self.assertEqual({one["answer"] for one in answers}, {"Stuxwick"})

        self.everywhere(case)


class Cancelling(unittest.TestCase):
    def cancelled(self, over_http, mode):
        log = WORK / f"log-{over_http}-{mode}"
        log.write_text("")
        program = (sys.executable, "-c", SPY, str(log))

        async def case(server):
            async with asyncio.timeout(60), Client(server, mode=mode) as client:
                heard = asyncio.Event()

                async def progress(*_):
                    heard.set()

                asking = asyncio.create_task(client.call_tool(
                    "ask", {"question": "Who repairs?", "document": "towns", "max_tokens": 3000},
                    progress_callback=progress))
                await heard.wait()
                self.assertEqual(log.read_text(), "began\n")
                asking.cancel()
                began = time.monotonic()
                with self.assertRaises(asyncio.CancelledError):
                    await asking
                while "ended" not in log.read_text():
                    self.assertLess(time.monotonic() - began, 3)
                    await asyncio.sleep(0.01)
                took = time.monotonic() - began
                self.assertEqual(log.read_text(), "began\nended cancelled\n")
                # The server lives on, and its threads are free.
                listed = await client.call_tool("list_documents")
                self.assertFalse(listed.is_error)
                return took

        if over_http:
            with http_server("--http", "0", program=program) as url:
                return asyncio.run(case(url))
        return asyncio.run(case(over_stdio(program=program)))

    def test_cancel_ends_the_answer(self):
        for over_http in (False, True):
            for mode in Tools.MODES:
                with self.subTest(http=over_http, mode=mode):
                    took = self.cancelled(over_http, mode)
                    print(f"{'http' if over_http else 'stdio'}, {mode}: ended {took * 1000:.0f} ms "
                          "after it was cancelled", file=sys.stderr)
                    self.assertLess(took, 2)

    def test_a_client_that_goes_ends_its_answer(self):
        log = WORK / "log-gone"
        log.write_text("")

        async def case():
            async with Client(over_stdio(program=(sys.executable, "-c", SPY, str(log)))) as client:
                task = asyncio.create_task(client.call_tool(
                    "ask", {"question": "Who repairs?", "document": "towns", "max_tokens": 3000}))
                while not log.read_text():
                    await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        began = time.monotonic()
        asyncio.run(case())
        self.assertLess(time.monotonic() - began, 10)
        self.assertIn("ended", log.read_text())


class Indexing(unittest.TestCase):
    def test_index_below_the_folder_alone(self):
        folder = WORK / "papers"
        (folder / "sub").mkdir(parents=True)
        (folder / "sub/fruit.txt").write_text(
            "Quinces are sold in Osk. " + "Plums are sold in Ulm. " * 40)
        (WORK / "secret.txt").write_text("The password is plum.")
        (folder / "link.txt").symlink_to(WORK / "secret.txt")

        async def case():
            server = over_stdio("--store", str(WORK / "other"), "--allow-index", str(folder))
            async with asyncio.timeout(60), Client(server) as client:
                tool = next(one for one in (await client.list_tools()).tools if one.name == "index")
                self.assertFalse(tool.annotations.read_only_hint)
                self.assertEqual((await client.list_resources()).resources, [])
                listed = await client.call_tool("list_documents")
                self.assertEqual(listed.structured_content, {"documents": [], "collections": []})
                heard = []

                async def progress(done, total, message):
                    heard.append((done, message))

                indexed = await client.call_tool("index", {"file": str(folder / "sub/fruit.txt")},
                                                 progress_callback=progress)
                self.assertFalse(indexed.is_error, indexed.content)
                row = indexed.structured_content
                self.assertEqual((row["document"], row["existed"]), ("fruit.txt", False))
                self.assertEqual([done for done, _ in heard], sorted({done for done, _ in heard}))
                again = await client.call_tool("index", {"file": str(folder / "sub/fruit.txt")})
                self.assertTrue(again.structured_content["existed"])
                answer = await client.call_tool("ask", {"question": "Where are quinces sold?"})
                self.assertFalse(answer.is_error, answer.content)
                self.assertIn("Quinces", answer.structured_content["passages"][0]["text"])
                for file in (WORK / "secret.txt", folder / "link.txt", folder / "../secret.txt",
                             pathlib.Path("secret.txt")):
                    refused = await client.call_tool("index", {"file": str(file)})
                    self.assertTrue(refused.is_error)
                    self.assertIn("may not be indexed", refused.content[0].text)
                missing = await client.call_tool("index", {"file": str(folder / "none.txt")})
                self.assertTrue(missing.is_error)
                self.assertEqual(len((await client.list_resources()).resources), 1)
                # Several at once take turns: the store reads one document at a time.
                for number in range(3):
                    (folder / f"{number}.txt").write_text(f"Town {number} has {number} mills. " * 60)
                done = await asyncio.gather(*(client.call_tool(
                    "index", {"file": str(folder / f"{number}.txt")}) for number in range(3)))
                self.assertEqual([one.is_error for one in done], [False] * 3)

        asyncio.run(case())

    def test_a_sign_of_life(self):
        """Where a call takes long and has no news, it says so all the same."""
        from lectern.integrations import mcp_server

        async def case():
            server = mcp_server.LecternServer(store)
            heard = []

            async def progress(done, total, message):
                heard.append((done, message))

            real = store.documents
            with mock.patch.object(mcp_server, "_QUIET_AT_MOST", 0.3), \
                    mock.patch.object(store, "documents", lambda: (time.sleep(1.5), real())[1]):
                async with Client(server) as client:
                    listed = await client.call_tool("list_documents", progress_callback=progress)
            self.assertFalse(listed.is_error)
            self.assertIn(len(heard), range(2, 6))
            self.assertEqual(heard, sorted(set(heard)))

        asyncio.run(case())

        asyncio.run(case())


class Http(unittest.TestCase):
    @staticmethod
    def status(url, **headers):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": LATEST_HANDSHAKE_VERSION, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}}).encode()
        request = urllib.request.Request(url, body, {
            "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
            **{name.replace("_", "-"): value for name, value in headers.items()}})
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return response.status
        except urllib.error.HTTPError as error:
            return error.code

    def test_other_pages_names_and_tokens_are_refused(self):
        token = WORK / "token"
        token.write_text("quince-17\n")
        with http_server("--http", "127.0.0.1:0", "--token-file", str(token)) as url:
            right = {"Authorization": "Bearer quince-17"}
            self.assertEqual(self.status(url), 401)
            self.assertEqual(self.status(url, Authorization="Bearer quince-1"), 401)
            self.assertEqual(self.status(url, **right), 200)
            self.assertEqual(self.status(url, **right, Origin="https://evil.example"), 403)
            self.assertEqual(self.status(url, **right, Host="evil.example"), 421)

            async def case():
                import httpx2
                from mcp.client.streamable_http import streamable_http_client
                async with httpx2.AsyncClient(headers=right) as http:
                    async with Client(streamable_http_client(url, http_client=http)) as client:
                        result = await client.call_tool("ask", {"question": QUESTION,
                                                                "document": "towns"})
                        self.assertEqual(result.structured_content["answer"], "Stuxwick")

            asyncio.run(case())

    def test_every_address_with_a_token(self):
        token = WORK / "token2"
        token.write_text("quince-18")
        with http_server("--http", "0.0.0.0:0", "--token-file", str(token)) as url:
            url = url.replace("0.0.0.0", "127.0.0.1")
            self.assertEqual(self.status(url, Host="lectern.example"), 401)
            self.assertEqual(self.status(url, Host="lectern.example",
                                         Authorization="Bearer quince-18"), 200)

    def refused(self, *arguments, status=2):
        done = subprocess.run([*SERVER, *arguments], stdin=subprocess.DEVNULL, text=True,
                              timeout=60, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertNotIn("Traceback", done.stderr)
        return done.stderr

    def test_wrong_command_lines(self):
        self.assertIn("--token-file FILE", self.refused("--http", "0.0.0.0:0"))
        self.assertIn("is not PORT", self.refused("--http", "here"))
        self.assertIn("needs --http", self.refused("--token-file", "x"))
        self.assertIn("no such folder", self.refused("--allow-index", str(WORK / "none")))
        (WORK / "empty").write_text(" \n")
        self.assertIn("is empty", self.refused("--http", "0", "--token-file", str(WORK / "empty")))
        self.assertIn("invalid_argument: ", self.refused("--device", "abacus", status=1))
        with http_server() as url:
            port = url.split(":")[2].split("/")[0]
            self.assertIn("in use", self.refused("--http", port, status=1))

    def test_nothing_but_the_protocol_on_stdout(self):
        """Also where lines are no JSON: what is on stdout is read by a program."""
        lines = [b"no json\n", json.dumps({
            "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": LATEST_HANDSHAKE_VERSION, "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"}}}).encode() + b"\n"]
        done = subprocess.run(SERVER, input=b"".join(lines), stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=60, check=False)
        self.assertEqual(done.returncode, 0)
        answered = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertTrue(any(one.get("id") == 1 and one["result"]["serverInfo"]["name"] == "lectern"
                            for one in answered))


if __name__ == "__main__":
    assert STORE.exists()
    unittest.main()
