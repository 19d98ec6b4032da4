#!/usr/bin/env python3
"""The server through OpenAI's own Python client (PyPI: openai).

LECTERN_BIN         folder of the built tools
LECTERN_TEST_MODEL  model folder to index with
"""

import json
import os
import re
import subprocess
import tempfile
import typing
import unittest

try:
    import openai
    from openai.types.chat import completion_create_params
    from openai.types.responses import response_create_params
except ImportError:
    openai = None

import openai_fields
from server_test import BIN, MODEL, ONCE, TEXT, Server


def fields_of(params):
    """The fields of a request, as the library's types have them."""
    names = set()
    for kind in vars(params).values():
        if isinstance(kind, type) and re.fullmatch(r"\w+CreateParams\w*", kind.__name__):
            names |= set(kind.__annotations__)
    return names


@unittest.skipIf(openai is None, "PyPI's openai is not installed: its client was not tried")
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

    def test_every_field_of_the_library_is_in_the_table(self):
        """And does what the table says, so that a new version's fields are noticed."""
        for path, params in ((openai_fields.CHAT, completion_create_params),
                             (openai_fields.RESPONSES, response_create_params)):
            names, table = fields_of(params), openai_fields.fields_of(path)
            self.assertGreater(len(names), 25)
            self.assertEqual(names - set(table), set(), path)
            for name in names:
                openai_fields.check(self, self.post, path, name, table[name])

    def post(self, path, body):
        body = {**body, "model": "lease" if body["model"] == openai_fields.MODEL_NAME else body["model"]}
        status, _, answer = self.server.call("POST", path, body)
        return status, answer

    def test_answers_in_json(self):
        import pydantic

        class Meeting(pydantic.BaseModel):
            place: str = pydantic.Field(max_length=40)
            kind: typing.Literal["open", "closed"]
            members: int = pydantic.Field(ge=1, le=99)
            chair: str | None

        messages = [{"role": "user", "content": ONCE}]
        for _ in range(2):  # two questions, one after the other
            chat = self.client.chat.completions.parse(model="lease", messages=messages,
                                                      response_format=Meeting)
            self.assertEqual(chat.choices[0].finish_reason, "stop")
            parsed = chat.choices[0].message.parsed
            self.assertIsInstance(parsed, Meeting)
            self.assertLessEqual(len(parsed.place), 40)
        response = self.client.responses.parse(model="lease", input=ONCE, text_format=Meeting)
        self.assertEqual(response.output_parsed, parsed)
        pieces = ""
        with self.client.chat.completions.stream(model="lease", messages=messages,
                                                 response_format=Meeting) as stream:
            for event in stream:
                pieces += event.delta if event.type == "content.delta" else ""
            final = stream.get_final_completion()
        self.assertEqual(final.choices[0].message.parsed, parsed)
        self.assertEqual(Meeting.model_validate_json(pieces), parsed)
        anything = self.client.chat.completions.create(
            model="lease", messages=messages, response_format={"type": "json_object"}, max_tokens=400)
        if anything.choices[0].finish_reason == "stop":
            self.assertIsInstance(json.loads(anything.choices[0].message.content), dict)
        else:
            self.assertTrue(anything.choices[0].message.content.startswith("{"))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(
                model="lease", messages=messages, response_format={
                    "type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {
                        "type": "array", "items": {"type": "integer"}, "uniqueItems": True}}})
        self.assertIn("uniqueItems", str(caught.exception))
        self.assertEqual(caught.exception.param, "response_format")
        with self.assertRaises(openai.LengthFinishReasonError):
            self.client.chat.completions.parse(model="lease", messages=messages, max_tokens=3,
                                               response_format=Meeting)

    def test_a_model_by_its_name(self):
        self.assertEqual(self.client.models.retrieve("lease").id, "lease")
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.models.retrieve("gpt-4o")
        self.assertEqual((caught.exception.code, caught.exception.param), ("not_found", "model"))

    def test_choices_stops_and_logprobs(self):
        chat = self.client.chat.completions.create(
            model="lease", messages=[{"role": "user", "content": ONCE}], n=2, stop=["wick"],
            logprobs=True, top_logprobs=2, seed=1)
        self.assertEqual([choice.message.content for choice in chat.choices], ["Stux"] * 2)
        for choice in chat.choices:
            self.assertEqual([token.token for token in choice.logprobs.content], [" St", "ux"])
            self.assertEqual(len(choice.logprobs.content[0].top_logprobs), 2)
        with self.client.chat.completions.stream(
                model="lease", messages=[{"role": "user", "content": ONCE}], logprobs=True,
                stream_options={"include_usage": True}) as stream:
            for _ in stream:
                pass
            final = stream.get_final_completion()
        self.assertEqual(final.choices[0].message.content, self.answer)
        self.assertEqual(final.choices[0].logprobs.content[0].token, " St")
        self.assertGreater(final.usage.completion_tokens, 0)

    def test_a_stream_that_is_left_ends(self):
        stream = self.client.chat.completions.create(
            model="lease", messages=[{"role": "user", "content": "Tell me all."}], stream=True,
            temperature=5, max_tokens=100000)
        next(iter(stream))
        stream.close()
        self.server.wait_until_idle()

    def test_errors_are_the_clients_own(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.responses.create(model="nothing", input=ONCE)
        self.assertEqual((caught.exception.code, caught.exception.param), ("not_found", "model"))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.responses.create(model="lease", input=ONCE, previous_response_id="resp_1")
        self.assertEqual(caught.exception.param, "previous_response_id")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(
                model="lease", messages=[{"role": "user", "content": "word " * 20000}])
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        self.assertEqual(self.client.responses.create(model="lease", input=ONCE, store=True).status,
                         "completed")


if __name__ == "__main__":
    unittest.main()
