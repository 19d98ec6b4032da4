#!/usr/bin/env python3
"""The blocks of MCP.md and FRAMEWORKS.md run: settings of assistants start a server that answers, code
and commands print what they should. Environment: integrations_store.py."""
import asyncio
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

from integrations_store import PACKAGE, WORK, store

HOME = "/home/me/lectern/bin/lectern-mcp"


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", (PACKAGE / page).read_text(), re.M | re.S)


def needs(module):
    return unittest.skipUnless(importlib.util.find_spec(module), f"{module} is not installed")


@needs("mcp")
class Assistants(unittest.TestCase):
    @staticmethod
    def settings():
        """The server's settings in each block: those of JSON, then that of TOML."""
        import tomllib
        for text in blocks("MCP.md", "json"):
            [(key, servers)] = json.loads(text).items()
            yield key, servers["lectern"]
        for text in blocks("MCP.md", "toml"):
            yield "toml", tomllib.loads(text)["mcp_servers"]["lectern"]

    async def answers(self, server):
        from mcp import Client
        async with asyncio.timeout(60), Client(server) as client:
            result = await client.call_tool("ask", {"question": "When does the lease begin?",
                                                    "document": "lease.pdf"})
            self.assertFalse(result.is_error, result.content)
            self.assertIn("ask", [one.name for one in (await client.list_tools()).tools])

    @unittest.skipIf(sys.version_info < (3, 11), "tomllib is new in Python 3.11")
    def test_settings_start_a_server(self):
        from mcp.client.stdio import StdioServerParameters, stdio_client
        here = [sys.executable, "-m", "lectern.integrations.mcp_server"]
        kinds = []
        for key, given in self.settings():
            kinds.append(key)
            with self.subTest(given):
                if "url" in given:
                    continue  # below
                line = [given["command"], *given["args"]]
                if line[0] == "wsl.exe":
                    del line[0]
                self.assertEqual(line[0], HOME)
                asyncio.run(self.answers(stdio_client(StdioServerParameters(
                    command=here[0], args=[*here[1:], *line[1:]],
                    env={**os.environ, **given.get("env", {})}))))
        self.assertEqual(kinds, ["mcpServers", "servers", "context_servers", "mcpServers",
                                 "mcpServers", "toml"])

    @unittest.skipIf(sys.version_info < (3, 11), "tomllib is new in Python 3.11")
    def test_settings_of_http(self):
        import httpx2
        from mcp.client.streamable_http import streamable_http_client
        [given] = [one for _, one in self.settings() if "url" in one]
        token = WORK / "token"
        token.write_text(given["headers"]["Authorization"].split()[1])
        child = subprocess.Popen(
            [sys.executable, "-m", "lectern.integrations.mcp_server", "--http", "0",
             "--token-file", token], stderr=subprocess.PIPE, text=True)
        try:
            port = re.search(r":(\d+)/mcp$", child.stderr.readline().strip())[1]
            url = re.sub(r":\d+/", f":{port}/", given["url"])

            async def case():
                async with httpx2.AsyncClient(headers=given["headers"]) as http:
                    await self.answers(streamable_http_client(url, http_client=http))

            asyncio.run(case())
        finally:
            child.terminate()
            child.communicate(timeout=20)

    def test_options_and_tools_are_what_the_page_says(self):
        page = (PACKAGE / "MCP.md").read_text()
        shown = subprocess.run([sys.executable, "-m", "lectern.integrations.mcp_server", "--help"],
                               text=True, stdout=subprocess.PIPE, check=True).stdout
        for option in set(re.findall(r"`(--[a-z-]+)|lectern-mcp (--[a-z-]+)", page)):
            self.assertIn(next(filter(None, option)), shown)
        from lectern.integrations.mcp_server import LecternServer
        tools = asyncio.run(LecternServer(store, (WORK,)).list_tools())
        named = re.findall(r"^\| `(\w+)` \|", page, re.M)
        self.assertEqual(named, ["list_documents", "ask", "search", "cite", "index"])
        self.assertEqual({one.name for one in tools}, set(named))
        from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
        first, last = re.search(r"versions from ([\d-]+) to ([\d-]+)", page).groups()
        self.assertEqual((first, last), (KNOWN_PROTOCOL_VERSIONS[0], KNOWN_PROTOCOL_VERSIONS[-1]))


class Frameworks(unittest.TestCase):
    def printed(self, number):
        """The output of a block of Python, run in the folder with the store."""
        code = blocks("FRAMEWORKS.md", "python")
        self.assertEqual(len(code), 3)
        self.assertLessEqual(len(code[number].splitlines()), 6)
        before, output = pathlib.Path.cwd(), io.StringIO()
        os.chdir(WORK)
        try:
            with contextlib.redirect_stdout(output):
                exec(compile(code[number], "FRAMEWORKS.md", "exec"), {})
        finally:
            os.chdir(before)
        return output.getvalue()

    @needs("langchain_core")
    def test_langchain(self):
        self.assertIn("'page': 2", self.printed(0))

    @needs("llama_index")
    def test_llama_index(self):
        self.assertIn("The owner pays for repairs to the roof.", self.printed(1))

    def test_notebooks(self):
        self.assertIn("<mark>repairs</mark>", self.printed(2))

    @needs("llm")
    def test_llm(self):
        if "LECTERN_LIBRARY" in os.environ:
            self.skipTest("only an installed wheel tells `llm` of the plugin")
        [lines] = blocks("FRAMEWORKS.md", "sh")
        folder = os.path.dirname(sys.executable)
        done = subprocess.run(
            ["bash", "-ec", lines], cwd=WORK, text=True, stdin=subprocess.DEVNULL, timeout=120,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            env={**os.environ, "LLM_USER_PATH": str(WORK / "llm"),
                 "PATH": folder + os.pathsep + os.environ["PATH"]})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("(p. 1", done.stdout)


if __name__ == "__main__":
    unittest.main()
