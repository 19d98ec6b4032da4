#!/usr/bin/env python3
"""The server through OpenAI's own Python client (PyPI: openai).

LECTERN_BIN         folder of the built tools
LECTERN_TEST_MODEL  model folder to index with
"""

import os
import subprocess
import tempfile
import unittest

import openai

from server_test import BIN, MODEL, ONCE, TEXT, Server


class OpenAiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lectern-openai-")
        store = os.path.join(cls.folder.name, "store")
        subprocess.run([os.path.join(BIN, "index-document"), "--store", store, "--model", MODEL,
                        "--name", "lease", "--progress", "none", "-"],
                       input=TEXT.encode(), check=True, capture_output=True)
        cls.server = Server(store)
        cls.client = openai.OpenAI(base_url=f"http://127.0.0.1:{cls.server.port}/v1",
                                   api_key="none", max_retries=0)
        cls.answer = cls.server.ask(question=ONCE)[2]["answer"]

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.process.terminate()
        cls.server.process.communicate()
        cls.folder.cleanup()

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["lease"])

    def test_chat_completions(self):
        messages = [{"role": "user", "content": ONCE}]
        chat = self.client.chat.completions.create(model="lease", messages=messages)
        self.assertEqual(chat.choices[0].message.content, self.answer)
        self.assertGreater(chat.usage.prompt_tokens_details.cached_tokens, 0)
        stream = self.client.chat.completions.create(model="lease", messages=messages, stream=True)
        pieces = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
        self.assertEqual("".join(pieces).strip(), self.answer.strip())

    def test_responses(self):
        response = self.client.responses.create(model="lease", input=ONCE, store=False)
        self.assertEqual((response.status, response.output_text), ("completed", self.answer))
        [part] = response.output[0].content
        self.assertEqual(part.annotations[0].type, "file_citation")
        with self.client.responses.stream(model="lease", input=ONCE, store=False) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_response()
        self.assertEqual(kinds[0], "response.created")
        self.assertEqual(final.output_text, self.answer)

    def test_errors_are_the_clients_own(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.responses.create(model="nothing", input=ONCE, store=False)
        self.assertEqual(caught.exception.code, "not_found")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.responses.create(model="lease", input=ONCE, store=True)
        self.assertEqual(caught.exception.param, "store")


if __name__ == "__main__":
    unittest.main()
