#!/usr/bin/env python3
"""The server through frameworks over OpenAI's client (PyPI): each asks and meets an error; those that
stream also leave a stream. What is not installed is skipped. The last lines are a table. clients_test.py
has more clients.

LECTERN_BIN         folder of the built tools
LECTERN_TEST_MODEL  model folder to index with
"""

import asyncio
import importlib.metadata
import os
import sys
import tempfile
import unittest

from openai_fields import QUESTION
from server_test import TEXT, Server, index

os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", OPENAI_API_KEY="sk-x",
                  OPENAI_AGENTS_DISABLE_TRACING="1")
MODEL, WANTED, KEY = "lease", "Stuxwick", "sk-x"
LONG = {"temperature": 2, "max_tokens": 100000}  # a stream that would go on


class LangChainResponses:
    package = "langchain-openai"

    def __init__(self, url):
        from langchain_openai import ChatOpenAI
        self.model = lambda model, **more: ChatOpenAI(
            model=model, base_url=url, api_key=KEY, max_retries=0, use_responses_api=True, **more)

    def ask(self, model):
        return self.model(model).invoke([("system", "Be brief."), ("human", QUESTION)]).text

    def stream(self, model, **more):
        for chunk in self.model(model, **more).stream(QUESTION):
            yield str(chunk.text)


class PydanticAi:
    package = "pydantic-ai-slim"

    def __init__(self, url):
        from pydantic_ai import Agent
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider
        provider = OpenAIProvider(base_url=url, api_key=KEY)
        self.agent = lambda model: Agent(OpenAIChatModel(model, provider=provider),
                                         instructions="Be brief.")

    def ask(self, model):
        return self.agent(model).run_sync(QUESTION).output


class Agents:
    package = "openai-agents"

    def __init__(self, url):
        import agents
        import openai
        # A client is of the event loop that it was made in.
        self.run = lambda model: agents.Runner.run(agents.Agent(
            name="reader", instructions="Be brief.", model=agents.OpenAIResponsesModel(
                model, openai.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0))), QUESTION)

    def ask(self, model):
        return asyncio.run(self.run(model)).final_output


class Haystack:
    package = "haystack-ai"

    def __init__(self, url):
        from haystack.components.generators.chat import OpenAIChatGenerator
        from haystack.dataclasses import ChatMessage
        self.generator = lambda model: OpenAIChatGenerator(model=model, api_base_url=url,
                                                           max_retries=0)
        self.messages = [ChatMessage.from_system("Be brief."), ChatMessage.from_user(QUESTION)]

    def ask(self, model):
        return self.generator(model).run(self.messages)["replies"][0].text


class SmolAgents:
    package = "smolagents"

    def __init__(self, url):
        from smolagents import OpenAIServerModel
        self.model = lambda model: OpenAIServerModel(model_id=model, api_base=url, api_key=KEY)

    def ask(self, model):
        return self.model(model)([{"role": "user", "content": [
            {"type": "text", "text": QUESTION}]}]).content


class DsPy:
    package = "dspy"

    def __init__(self, url):
        import dspy
        self.model = lambda model: dspy.LM("openai/" + model, api_base=url, api_key=KEY, cache=False,
                                           num_retries=0)

    def ask(self, model):
        return self.model(model)(QUESTION)[0]


CLIENTS = [LangChainResponses, PydanticAi, Agents, Haystack, SmolAgents, DsPy]


class ClientsTest(unittest.TestCase):
    rows = []

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lectern-clients-")
        store = os.path.join(cls.folder.name, "store")
        index(store, MODEL, TEXT)
        cls.server = Server(store)

    @classmethod
    def tearDownClass(cls):
        code, _, err = cls.server.stop()
        cls.folder.cleanup()
        assert code == 0, (code, err)
        print("\n| client | version | ask | stream | leave | error |\n|---|---|---|---|---|---|",
              *cls.rows, sep="\n", file=sys.stderr)

    def run_client(self, kind):
        try:
            version = importlib.metadata.version(kind.package)
            client = kind(f"http://127.0.0.1:{self.server.port}/v1")
        except ImportError as error:
            self.rows.append(f"| {kind.__name__} | not installed | | | | |")
            self.skipTest(f"PyPI's {kind.package} was not tried: {error}")
        self.assertEqual(client.ask(MODEL), WANTED)
        streams = hasattr(client, "stream")
        if streams:
            self.assertEqual("".join(client.stream(MODEL)), WANTED)
            left = client.stream(MODEL, **LONG)
            next(left)
            left.close()
            self.server.wait_until_idle()
        with self.assertRaises(Exception) as caught:
            client.ask("gpt-4o")
        said = f"{type(caught.exception).__name__} {caught.exception} {caught.exception.__cause__}"
        self.assertRegex(said, "404|NotFound|not_found")
        streamed = "ok" if streams else ""
        self.rows.append(f"| {kind.__name__} | {version} | ok | {streamed} | {streamed} | ok |")


def test_of(kind):
    return lambda self: self.run_client(kind)


for client_class in CLIENTS:
    setattr(ClientsTest, "test_" + client_class.__name__, test_of(client_class))


if __name__ == "__main__":
    unittest.main()
