#!/usr/bin/env python3
"""Sends the requests of OpenAI's clients to lectern-server, field by field and whole.

LECTERN_BIN         folder of the built tools
LECTERN_TEST_MODEL  model folder to index with
Standard library only; openai_test.py goes on with OpenAI's own client.
"""

import json
import math
import os
import tempfile
import unittest

import openai_fields
from client_requests import REQUESTS
from openai_fields import CHAT, QUESTION, RESPONSES
from server_test import TEXT, Server, ServerCase, index

TOOL_CALL = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{\"q\": 1}"}}]}


class OpenAiFieldsTest(ServerCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lectern-openai-")
        cls.store = os.path.join(cls.folder.name, "store")
        index(cls.store, "lease.txt", TEXT)
        cls.server = Server(cls.store)
        cls.plain = cls.server.ask(question=QUESTION)[2]["answer"]

    @classmethod
    def tearDownClass(cls):
        code, _, err = cls.server.stop()
        cls.folder.cleanup()
        assert code == 0, (code, err)

    def post(self, path, body):
        status, _, answer = self.server.call("POST", path, body, {"Authorization": "Bearer sk-x"})
        return status, answer

    def chat(self, **fields):
        fields = {"model": "lease.txt", "messages": openai_fields.USER, **fields}
        return self.server.call("POST", CHAT, fields)

    def choice(self, **fields):
        """The first choice of an answer."""
        status, _, body = self.chat(**fields)
        self.assertEqual(status, 200, body)
        return body["choices"][0]

    def content(self, **fields):
        return self.choice(**fields)["message"]["content"]

    def chunks(self, **fields):
        """Chunks of a stream, without its end, which is asserted."""
        events = self.server.events("POST", CHAT, {
            "model": "lease.txt", "messages": openai_fields.USER, **fields, "stream": True})
        self.assertEqual(events[-1], ("", "[DONE]"))
        return [data for _, data in events[:-1]]

    # --- every field, every client ---

    def test_every_field_does_what_the_table_says(self):
        named = set()
        for path in (CHAT, RESPONSES):
            for field, state in openai_fields.fields_of(path).items():
                named.add(field)
                openai_fields.check(self, self.post, path, field, state)
        self.assertEqual(named, set(openai_fields.VALUES))

    def test_every_client_is_answered(self):
        self.assertGreaterEqual(len(REQUESTS), 40)
        for client, path, body, refused in REQUESTS:
            with self.subTest(client):
                if body.get("stream"):
                    events = self.server.events("POST", path, body)
                    self.assertNotIn("error", events[-1][1])
                    continue
                status, answer = self.post(path, body)
                if refused:
                    self.assertEqual((status, answer["error"]["param"]), (400, refused))
                else:
                    self.assertEqual(status, 200, answer)

    def test_tools_are_not_called(self):
        """Tools that may be called are answered in text with a warning, and do not change it."""
        tools, functions = [openai_fields.TOOL], [openai_fields.TOOL["function"]]
        for fields, is_warned in (({"tools": tools}, True), ({"tools": tools, "stream": True}, True),
                                  ({"tools": tools, "tool_choice": "auto"}, True),
                                  ({"functions": functions}, True), ({"tools": []}, False),
                                  ({"tools": tools, "tool_choice": "none"}, False),
                                  ({"functions": functions, "function_call": "none"}, False)):
            with self.subTest(fields):
                if fields.pop("stream", False):
                    chunks = self.chunks(stream_options={"include_usage": True}, **fields)
                    self.assertEqual([chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]][-1],
                                     "stop")
                    said = chunks[-1]["lectern"]
                else:
                    body = self.chat(**fields)[2]
                    self.assertNotIn("tool_calls", body["choices"][0]["message"])
                    said = body["lectern"]
                self.assertEqual(said["answer"], self.plain)
                self.assertEqual("tools_not_called" in said["warnings"], is_warned)
                self.assertEqual("no tool is called" in (said["note"] or ""), is_warned)
        items = [{"type": "function", **functions[0]}]
        response = self.post(RESPONSES, {"input": QUESTION, "tools": items})[1]
        self.assertIn("tools_not_called", response["lectern"]["warnings"])
        self.assertEqual((response["tools"], response["tool_choice"]), ([], "none"))
        done = self.server.events("POST", RESPONSES, {"input": QUESTION, "tools": items,
                                                      "stream": True})[-1][1]["response"]
        self.assertEqual(done["lectern"]["warnings"], response["lectern"]["warnings"])
        self.assertNotIn("tools_not_called", self.server.ask(question=QUESTION)[2]["warnings"])
        both = self.chat(tools=tools, response_format={"type": "json_schema", "json_schema": {
            "name": "x", "schema": {"type": "array", "uniqueItems": True, "maxItems": 2,
                                    "items": {"type": "integer"}}}})[2]
        self.assertLessEqual({"schema_not_kept", "tools_not_called"}, set(both["lectern"]["warnings"]))

    def called(self, **fields):
        """(name, arguments) of the call that a chat's answer is; a stream says the same."""
        choice = self.choice(**fields)
        message = choice["message"]
        self.assertIsNone(message["content"])
        (call,) = message["tool_calls"]
        self.assertEqual((choice["finish_reason"], call["type"]), ("tool_calls", "function"))
        chunks = [chunk["choices"][0] for chunk in self.chunks(**fields)]
        self.assertEqual(chunks[-1]["finish_reason"], "tool_calls")
        pieces = [one for chunk in chunks for one in chunk["delta"].get("tool_calls", ())]
        self.assertEqual({(piece["index"], piece["type"]) for piece in pieces}, {(0, "function")})
        self.assertEqual(pieces[0]["function"]["name"], call["function"]["name"])
        self.assertTrue(pieces[0]["id"].startswith("call_"))
        self.assertEqual("".join(piece["function"]["arguments"] for piece in pieces),
                         call["function"]["arguments"])
        return call["function"]["name"], json.loads(call["function"]["arguments"])

    def test_a_demanded_call(self):
        """An answer in JSON by the function's parameters, in every form in which it is demanded."""
        def tool(name, **properties):
            return {"type": "function", "function": {"name": name, "description": "Does it.", "parameters": {
                "type": "object", "properties": properties, "required": list(properties)}}}
        digit = {"type": "integer", "minimum": 0, "maximum": 9}
        one, two, none = tool("one", n=digit), tool("two", m=digit), {"type": "function", "function": {
            "name": "none"}}
        named = {"type": "function", "function": {"name": "two"}}
        for tools, choice, name, members in (
                ([one], "required", "one", ["n"]), ([one, two], named, "two", ["m"]),
                ([none], "required", "none", []), ([tool("empty")], "required", "empty", []), ([{"type": "web_search"}, one], "required", "one", ["n"]),
                ([one, two], {"type": "allowed_tools", "allowed_tools": {
                    "mode": "required", "tools": [named]}}, "two", ["m"])):
            with self.subTest(choice=choice, tools=len(tools)):
                said, arguments = self.called(tools=tools, tool_choice=choice)
                self.assertEqual((said, list(arguments)), (name, members))
        # The model chooses, among functions whose schemas have definitions of the same name.
        def with_definition(name, value):
            return {"type": "function", "function": {"name": name, "parameters": {
                "type": "object", "properties": {"x": {"$ref": "#/$defs/X"}}, "required": ["x"],
                "$defs": {"X": {"type": "object", "properties": {"v": {"const": value}},
                                "required": ["v"]}}}}}
        two_of_a_name = [with_definition("first", 1), with_definition("sec\"ond", "}")]
        for seed in range(4):
            said, arguments = self.called(tools=two_of_a_name, tool_choice="required", temperature=5,
                                          seed=seed)
            self.assertEqual(arguments, {"x": {"v": {"first": 1, "sec\"ond": "}"}[said]}})
        # A format is of texts; a call is none.
        said = self.called(tools=[one], tool_choice="required", response_format=openai_fields.SCHEMA)
        self.assertEqual((said[0], list(said[1])), ("one", ["n"]))

    def test_a_demanded_call_in_the_first_format(self):
        functions = [openai_fields.TOOL["function"]]
        choice = self.choice(functions=functions, function_call={"name": "look"}, max_tokens=40)
        self.assertEqual(choice["message"]["function_call"]["name"], "look")
        self.assertIn(choice["finish_reason"], ("function_call", "length"))
        deltas = [chunk["choices"][0]["delta"].get("function_call", {}) for chunk in self.chunks(
            functions=functions, function_call={"name": "look"}, max_tokens=40)]
        self.assertEqual("".join(delta.get("name", "") for delta in deltas), "look")
        self.assertEqual("".join(delta.get("arguments", "") for delta in deltas),
                         choice["message"]["function_call"]["arguments"])

    def test_a_demanded_call_as_a_response(self):
        digit = {"type": "integer", "minimum": 0, "maximum": 9}
        tools = [{"type": "function", "name": name, "parameters": {
            "type": "object", "properties": {"n": digit}, "required": ["n"]}} for name in ("one", "two")]
        for choice, names in (("required", ("one", "two")), ({"type": "function", "name": "two"}, ("two",))):
            body = {"input": QUESTION, "tools": tools, "tool_choice": choice}
            answer = self.post(RESPONSES, body)[1]
            (call,) = answer["output"]
            self.assertEqual((call["type"], call["status"]), ("function_call", "completed"))
            self.assertIn(call["name"], names)
            self.assertEqual(list(json.loads(call["arguments"])), ["n"])
            self.assertEqual((answer["tools"], answer["tool_choice"]), (tools, choice))
            self.assertNotIn("tools_not_called", answer["lectern"]["warnings"])
            events = self.server.events("POST", RESPONSES, {**body, "stream": True})
            self.assertEqual([name for name, _ in events if "delta" not in name],
                             ["response.created", "response.in_progress", "response.output_item.added",
                              "response.function_call_arguments.done", "response.output_item.done",
                              "response.completed"])
            self.assertEqual([event["sequence_number"] for _, event in events],
                             list(range(len(events))))
            self.assertEqual("".join(event["delta"] for name, event in events if "delta" in name),
                             call["arguments"])
            added, done = events[2][1]["item"], events[-2][1]["item"]
            self.assertEqual({**added, "status": "completed", "arguments": call["arguments"]}, done)
            self.assertEqual({**done, "id": 0, "call_id": 0}, {**call, "id": 0, "call_id": 0})

    def test_a_call_that_is_cut(self):
        """Before its name it is no call; behind it, arguments that are no whole JSON."""
        tools = [{"type": "function", "function": {"name": name, "parameters": {
            "type": "object", "properties": {"text": {"type": "string", "minLength": 100}},
            "required": ["text"]}}} for name in ("one", "two")]
        for length in (1, 40):
            choice = self.choice(tools=tools, tool_choice="required", max_tokens=length)
            self.assertEqual(choice["finish_reason"], "length")
            self.assertEqual("tool_calls" in choice["message"], length > 1)
            response = self.post(RESPONSES, {
                "input": QUESTION, "tool_choice": "required", "max_output_tokens": length,
                "tools": [{"type": "function", **tool["function"]} for tool in tools]})[1]
            self.assertEqual(response["status"], "incomplete")
            self.assertEqual([item["status"] for item in response["output"]],
                             ["incomplete"] if length > 1 else [])
        arguments = choice["message"]["tool_calls"][0]["function"]["arguments"]
        self.assertTrue(arguments.startswith('{"text": "'), arguments)

    def test_a_call_that_cannot_be_made(self):
        """The message names the tool or the place in its schema."""
        strict = {"type": "function", "function": {"name": "look", "strict": True, "parameters": {
            "type": "object", "properties": {"l": {"type": "array", "uniqueItems": True}}}}}
        for fields, param, told in (
                ({"tools": [openai_fields.TOOL], "tool_choice": {"type": "function", "name": "find"}},
                 "tool_choice", '"find"'),
                ({"tool_choice": "required"}, "tool_choice", "no function"),
                ({"tools": [{"type": "web_search"}], "tool_choice": "required"}, "tool_choice",
                 "no function"),
                ({"tools": [strict], "tool_choice": "required"}, "tools", "uniqueItems")):
            for path in (CHAT, RESPONSES):
                status, body = self.post(path, openai_fields.request(path, **fields))
                self.assertEqual((status, body["error"]["param"]), (400, param), body)
                self.assertIn(told, body["error"]["message"])

    def test_a_kept_response_names_the_way_out(self):
        """Agent frameworks go on by id unless they are told "store": false."""
        status, body = self.post(RESPONSES, {"input": QUESTION, "previous_response_id": "resp_1"})
        self.assertEqual((status, body["error"]["param"]), (400, "previous_response_id"))
        self.assertIn('"store": false', body["error"]["message"])

    def test_a_schema_as_huggingface_sends_it(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9, "minimum": 0}},
                  "required": ["n"]}
        for kind in ("json_object", "json"):
            said = self.content(response_format={"type": kind, "value": schema})
            self.assertRegex(said, r'^\{"n": \d\}$')
        both = {"type": "json_object", "value": {"type": "array"}, "schema": schema}
        self.assertRegex(self.content(response_format=both), r'^\{"n": \d\}$')
        self.assert_error(self.chat(response_format={"type": "json", "value": "x"}), 400,
                          "invalid_argument", "response_format")

    def test_members_that_strict_clients_need(self):
        """Clients that are made from OpenAI's description, such as Cerebras's, drop a chunk without."""
        wanted = {"id", "object", "created", "model", "system_fingerprint", "choices"}
        version = self.server.call("GET", "/version")[2]["version"]
        for said in (self.chat()[2], *self.chunks(stream_options={"include_usage": True})):
            self.assertLessEqual(wanted, set(said))
            self.assertEqual(said["system_fingerprint"], "lectern-" + version)

    def test_paths_of_other_servers(self):
        said = {"model": "lease.txt", "messages": openai_fields.USER}
        for path in ("/chat/completions", "/v1/v1/chat/completions", "/v1/chat/completions/",
                     "/openai/v1/chat/completions", "/openai/deployments/lease.txt/chat/completions",
                     "/v1/engines/lease.txt/chat/completions"):
            for body in (said, {**said, "stream": True}):
                with self.subTest(path):
                    status, _, answer = self.server.call("POST", path, body)
                    self.assertEqual(status, 200, answer)
        for path in ("/responses", "/openai/responses", "/openai/v1/responses"):
            self.assertEqual(self.post(path, {"input": QUESTION})[0], 200)
        models = self.server.call("GET", "/v1/models")[2]
        for path in ("/models", "/v1/models/", "/openai/models", "/openai/v1/models"):
            self.assertEqual(self.server.call("GET", path)[2], models)
        self.assertEqual(self.server.call("GET", "/models/lease.txt")[2], models["data"][0])
        # The path's model goes before the field; what is wrong is told as on the own paths.
        azure = "/openai/deployments/{}/chat/completions?api-version=1"
        self.assertEqual(self.post(azure.format("lease.txt"), {**said, "model": "gpt-4o"})[0], 200)
        self.assert_error(self.server.call("POST", azure.format("gpt-4o"), said), 404, "not_found",
                          "model")
        self.assert_error(self.server.call("POST", "/chat/completions", {
            "messages": [{"role": "user", "content": "word " * 20000}]}), 400,
            "context_length_exceeded", "messages")
        self.assertEqual(self.server.call("GET", "/chat/completions")[0], 405)

    def test_paths_that_are_missing_name_the_way_out(self):
        for path, way_out in (("/v1/completions", "chat/completions"), ("/completion", "chat/completions"),
                              ("/v1/embeddings", "/v1/cite"), ("/v1/rerank", "/v1/cite"),
                              ("/api/chat", "/v1 behind it"), ("/v1/messages", "/v1 behind it"),
                              ("/v1/responses/resp_1", "input"),
                              ("/v1/responses/input_tokens", "/tokenize"), ("/chat", "/v1 behind it"),
                              ("/openai/deployments//chat/completions", "chat/completions"),
                              ("/v1/none", "/openapi.json")):
            for method in ("GET", "POST"):
                refused = self.server.call(method, path, {} if method == "POST" else None)
                self.assert_error(refused, 404, "not_found")
                self.assertIn(way_out, refused[2]["error"]["message"], path)

    def test_unknown_fields_are_taken(self):
        self.assertEqual(self.content(no_such_field={"x": [1]}, options={"num_ctx": 4096}),
                         self.plain)

    def test_the_model_may_be_missing(self):
        for fields in ({"model": None}, {"model": ""}):
            status, _, body = self.chat(**fields)
            self.assertEqual((status, body["model"]), (200, "lease.txt"))
        self.assert_error(self.chat(model="gpt-4o"), 404, "not_found", "model")
        self.assert_error(self.server.call("POST", RESPONSES, {"model": "gpt-4o", "input": "x"}),
                          404, "not_found", "model")

    def test_models(self):
        [model] = self.server.call("GET", "/v1/models")[2]["data"]
        for name in ("lease.txt", model["meta"]["document"]):
            self.assertEqual(self.server.call("GET", "/v1/models/" + name)[2], model)
        self.assertEqual(set(model), {"id", "object", "created", "owned_by", "meta"})
        self.assert_error(self.server.call("GET", "/v1/models/gpt-4o"), 404, "not_found", "model")
        self.assert_error(self.server.call("GET", "/v1/models/a/b"), 404, "not_found", "model")

    def test_names_may_have_slashes(self):
        store = os.path.join(self.folder.name, "slashes")
        index(store, "2025/invoice.txt", "The invoice is about mills. " * 20)
        server = Server(store)
        self.addCleanup(server.stop)
        for name in ("2025/invoice.txt", "2025%2Finvoice.txt"):
            status, _, model = server.call("GET", "/v1/models/" + name)
            self.assertEqual((status, model.get("id")), (200, "2025/invoice.txt"), model)
            text = server.call("GET", f"/v1/documents/{name}/text?end=11")[2]
            self.assertEqual(text, "The invoice")

    # --- where an answer ends ---

    def test_a_stop_text_is_no_part_of_an_answer(self):
        self.assertEqual(self.plain, "Stuxwick")  # three tokens: St, ux and wick
        for stop, wanted in (("wick", "Stux"), ("xw", "Stu"), (["no", "uxwi", "k"], "St"),
                             ("S", ""), (["\n", "."], "Stuxwick"), (["Stuxwick."], "Stuxwick")):
            with self.subTest(stop):
                choice = self.choice(stop=stop)
                self.assertEqual(choice["message"]["content"], wanted)
                self.assertEqual(choice["finish_reason"], "stop")
                sent = "".join(chunk["choices"][0]["delta"].get("content", "")
                               for chunk in self.chunks(stop=stop))
                self.assertEqual(sent, wanted)
                response = self.post(RESPONSES, {"input": QUESTION, "stop": stop})[1]
                self.assertEqual(response["output"][0]["content"][0]["text"], wanted)
                self.assertEqual(response["status"], "completed")
        stopped = self.chat(stop="wick")[2]["lectern"]
        self.assertEqual(stopped["stopped_by"], "stop_sequence")

    def test_a_plain_question_has_the_same_fields(self):
        def ask(**fields):
            status, _, body = self.server.ask(question=QUESTION, **fields)
            self.assertEqual(status, 200, body)
            return body
        stopped = ask(stop="wick")
        self.assertEqual((stopped["answer"], stopped["stopped_by"]), ("Stux", "stop_sequence"))
        self.assertEqual(ask(stop=["no", "uxwi", "k"])["answer"], "St")
        self.assertEqual(ask(stop=None, min_p=None, logit_bias={})["answer"], self.plain)
        for only in ({"top_k": 1}, {"min_p": 1}):
            self.assertEqual(ask(temperature=9, seed=3, **only)["answer"], self.plain)
        first = self.server.call("POST", "/tokenize", {"content": "Stuxwick"})[2]["tokens"][0]
        bias = {str(first): 100}
        for fields in ({"max_tokens": 8, "logit_bias": bias, "frequency_penalty": 2},
                       {"max_tokens": 8, "logit_bias": {str(first): -100}, "presence_penalty": -2}):
            self.assertEqual(ask(**fields)["answer"], self.content(**fields))
        self.assertEqual(ask(max_tokens=4, logit_bias=bias)["answer"], "St" + " St" * 3)
        for field, wrong in (("stop", 1), ("stop", "x" * 8193), ("min_p", 2), ("top_k", -1),
                             ("frequency_penalty", 3), ("presence_penalty", -2.5),
                             ("logit_bias", [1]), ("logit_bias", {"2048": 1})):
            self.assert_error(self.server.ask(question=QUESTION, **{field: wrong}), 400,
                              "invalid_argument", field)

    def test_limits_are_clamped_to_what_fits(self):
        for fields in ({"max_tokens": 8192}, {"max_tokens": -1}, {"max_tokens": None},
                       {"max_tokens": 1 << 40}, {"max_completion_tokens": 100000}):
            self.assertEqual(self.content(**fields), self.plain)
        cut = self.choice(max_tokens=2)
        self.assertEqual((cut["message"]["content"], cut["finish_reason"]), ("Stux", "length"))
        both = self.choice(max_tokens=2, max_completion_tokens=1)
        self.assertEqual(both["message"]["content"], "St")
        self.assertEqual(self.chunks(max_tokens=1)[-1]["choices"][0]["finish_reason"], "length")

    # --- how it is drawn ---

    def test_seeds(self):
        def draw(**fields):
            return self.content(temperature=5, max_tokens=12, **fields)
        self.assertEqual(draw(seed=7), draw(seed=7))
        for fields in ({}, {"seed": None}, {"seed": -1}):
            self.assertGreater(len({draw(**fields) for _ in range(4)}), 1)
        self.assertEqual(self.content(temperature=5, top_p=0), self.plain)
        self.assertEqual(self.content(temperature=5, top_k=1), self.plain)
        self.assertEqual(self.content(temperature=5, min_p=1), self.plain)

    def test_several_choices(self):
        _, _, body = self.chat(n=3, temperature=5, max_tokens=8, seed=1)
        self.assertEqual([choice["index"] for choice in body["choices"]], [0, 1, 2])
        said = [choice["message"]["content"] for choice in body["choices"]]
        self.assertGreater(len(set(said)), 1)
        second = self.chat(temperature=5, max_tokens=8, seed=2)[2]
        self.assertEqual(second["choices"][0]["message"]["content"], said[1])
        self.assertGreater(body["usage"]["completion_tokens"],
                           second["usage"]["completion_tokens"])
        streamed = {}
        chunks = self.chunks(n=3, temperature=5, max_tokens=8, seed=1,
                             stream_options={"include_usage": True})
        for chunk in chunks[:-1]:
            [choice] = chunk["choices"]
            self.assertIsNone(chunk["usage"])
            streamed.setdefault(choice["index"], []).append(choice)
        self.assertEqual(["".join(choice["delta"].get("content", "") for choice in streamed[i])
                          for i in range(3)], said)
        for choices in streamed.values():
            self.assertEqual(choices[0]["delta"]["role"], "assistant")
            self.assertIsNotNone(choices[-1]["finish_reason"])
        self.assertEqual((chunks[-1]["choices"], chunks[-1]["usage"]), ([], body["usage"]))

    def test_logprobs(self):
        self.assertIsNone(self.choice()["logprobs"])
        for fields in ({}, {"temperature": 5, "seed": 3, "max_tokens": 8}, {"stop": "wick"}):
            with self.subTest(fields):
                choice = self.choice(logprobs=True, top_logprobs=5, **fields)
                content = choice["logprobs"]["content"]
                text = b"".join(bytes(token["bytes"]) for token in content)
                self.assertEqual(text.decode(errors="replace").strip(),
                                 choice["message"]["content"].strip())
                for token in content:
                    self.assertLessEqual(token["logprob"], 0)
                    likeliest = [likely["logprob"] for likely in token["top_logprobs"]]
                    self.assertEqual(len(likeliest), 5)
                    self.assertEqual(likeliest, sorted(likeliest, reverse=True))
                    self.assertLessEqual(sum(map(math.exp, likeliest)), 1 + 1e-9)
                    self.assertLessEqual(token["logprob"], likeliest[0])
                chunks = self.chunks(logprobs=True, top_logprobs=5, **fields)
                streamed = [token for chunk in chunks
                            for token in (chunk["choices"][0]["logprobs"] or {}).get("content", [])]
                self.assertEqual(streamed, content)
        token = self.choice(logprobs=True)["logprobs"]["content"][0]
        self.assertEqual((token["token"], token["bytes"], token["top_logprobs"]),
                         (" St", list(b" St"), []))

    def test_logprobs_of_responses(self):
        body = {"input": QUESTION, "top_logprobs": 2}
        whole = self.post(RESPONSES, body)[1]["output"][0]["content"][0]["logprobs"]
        wanted = self.choice(logprobs=True, top_logprobs=2)["logprobs"]["content"]
        self.assertEqual(whole, wanted)
        events = self.server.events("POST", RESPONSES, {**body, "stream": True})
        deltas = [token for name, data in events if name == "response.output_text.delta"
                  for token in data["logprobs"]]
        self.assertEqual(deltas, wanted)
        done = next(data for name, data in events if name == "response.output_text.done")
        self.assertEqual(done["logprobs"], wanted)
        included = self.post(RESPONSES, {"input": QUESTION,
                                         "include": ["message.output_text.logprobs"]})[1]
        self.assertEqual(len(included["output"][0]["content"][0]["logprobs"]), len(wanted))

    def test_biases_and_penalties(self):
        first = self.server.call("POST", "/tokenize", {"content": "Stuxwick"})[2]["tokens"][0]
        self.assertNotEqual(self.content(logit_bias={str(first): -100}, max_tokens=8), self.plain)
        wrong = self.chat(logit_bias={"2048": 1})
        self.assert_error(wrong, 400, "invalid_argument", "logit_bias")
        self.assertIn("0 to 2047", wrong[2]["error"]["message"])
        # Which token it is does not matter, where all of them are forced apart.
        repeats = [self.chat(logit_bias={str(first): 100}, max_tokens=16,
                             frequency_penalty=penalty)[2] for penalty in (0, 2)]
        for body, many in zip(repeats, (16, 16)):
            self.assertEqual(body["usage"]["completion_tokens"], many)
        self.assertEqual(self.content(logit_bias={str(first): 100}, max_tokens=4), "St" + " St" * 3)

    # --- who says what ---

    def test_roles(self):
        user = openai_fields.USER[0]
        hello = {"role": "assistant", "content": "Hi! How can I help?"}
        system = {"role": "system", "content": "Be brief."}
        for messages in ([{"role": "user", "content": "Hello."}, user],
                         [hello, user], [system, hello, user],
                         [{"role": "user", "content": "Hi."}, hello, system, user],
                         [{"role": "user", "content": "Hi."}, hello, hello, user],
                         [{"role": "developer", "content": "Be brief."}, user],
                         [{"role": "system", "content": QUESTION}],
                         [user, system],
                         [{"role": "user", "content": "Who pays?"}, TOOL_CALL,
                          {"role": "tool", "tool_call_id": "call_1", "content": "nothing"}, user],
                         [{"role": "user", "content": None}, user],
                         [{**user, "name": "ann"}],
                         [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}],
                         [{"role": "user", "content": "Hi."},
                          {"role": "assistant", "content": None, "refusal": "No."}, user],
                         [{"role": "user", "content": "Hi."},
                          {"role": "assistant", "content": "", "reasoning_content": "x"}, user],
                         [{"role": "user", "content": "Hi."}, {"role": "assistant"}, user]):
            with self.subTest(messages):
                self.assertEqual(self.content(messages=messages), self.plain)
        for messages in ([TOOL_CALL, {"role": "tool", "tool_call_id": "call_1", "content": "x"}],
                         [user, TOOL_CALL, {"role": "tool", "tool_call_id": "call_1",
                                            "content": [{"type": "text", "text": "x"}]}],
                         [user, {"role": "assistant", "content": None,
                                 "function_call": {"name": "look", "arguments": "{}"}},
                          {"role": "function", "name": "look", "content": "x"}]):
            self.content(messages=messages)

    def test_messages_are_put_together_as_one_would_write_them(self):
        def tokens(messages):
            return self.chat(messages=messages, max_tokens=1)[2]["usage"]["prompt_tokens"]
        def user(text):
            return {"role": "user", "content": text}
        def assistant(text):
            return {"role": "assistant", "content": text}
        call = {"role": "tool", "tool_call_id": "call_1", "content": "nothing"}
        for messages, wanted in (
                ([user("Who pays?"), user("How much?")], [user("Who pays? How much?")]),
                ([user("a\nb"), user("c")], [user("a\nb\nc")]),
                ([user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])],
                 [user("a\nb")]),
                ([user("a"), assistant("b"), assistant("c"), user("d")],
                 [user("a"), assistant("b c"), user("d")]),
                ([user("a"), TOOL_CALL, call, user("d")],
                 [user("a"), assistant("Called look({\"q\": 1})\nResult of look: nothing"), user("d")]),
                ([user("a"), TOOL_CALL, call],
                 [user("a"), assistant("Called look({\"q\": 1})"), user("Result of look: nothing")]),
                ([{"role": "system", "content": "a"}, user("b")], [user("b"),
                 {"role": "developer", "content": "a"}])):
            with self.subTest(messages):
                self.assertEqual(tokens(messages), tokens(wanted))
                self.assertEqual(self.content(messages=messages, max_tokens=16),
                                 self.content(messages=wanted, max_tokens=16))

    def test_items_of_responses(self):
        user = {"role": "user", "content": QUESTION}
        def text(items):
            status, body = self.post(RESPONSES, {"input": items})
            self.assertEqual(status, 200, body)
            return body["output"][0]["content"][0]["text"]
        for items in ([{"type": "message", **user}],
                      [{"type": "reasoning", "id": "rs_1", "summary": []}, user],
                      [{"type": "message", "role": "user", "content": [
                          {"type": "input_text", "text": QUESTION}]}],
                      [{"role": "user", "content": "Hi."},
                       {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                        "content": [{"type": "output_text", "text": "Hi.", "annotations": []}]}, user],
                      [{"role": "user", "content": "Who pays?"},
                       {"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"},
                       {"type": "function_call_output", "call_id": "1", "output": "nothing"}, user]):
            self.assertEqual(text(items), self.plain)
        for items in ([{"type": "item_reference", "id": "msg_1"}, user],
                      [user, {"type": "computer_call_output", "call_id": "1", "output": {}}],
                      [{"role": "user", "content": [{"type": "input_file", "file_id": "x"}]}]):
            status, body = self.post(RESPONSES, {"input": items})
            self.assertEqual((status, body["error"]["param"]), (400, "input"))

    def test_what_is_no_text_is_refused_by_name(self):
        for part in ({"type": "image_url", "image_url": {"url": "data:image/png;base64,x"}},
                     {"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}},
                     {"type": "file", "file": {"file_id": "x"}}):
            refused = self.chat(messages=[{"role": "user", "content": [
                {"type": "text", "text": "x"}, part]}])
            self.assert_error(refused, 400, "invalid_argument", "messages")
            self.assertIn(f'messages[0]: parts of type "{part["type"]}"',
                          refused[2]["error"]["message"])
        user, assistant = ({"role": role, "content": "x"} for role in ("user", "assistant"))
        for messages in ([user, assistant], [{"role": "user", "content": " \n"}],
                         [{"role": "robot", "content": "x"}], [{"content": "x"}], [3], ["x"],
                         [{"role": "user", "content": 3}], [{"role": "user", "content": {}}],
                         [{"role": "user", "content": [{"type": "text", "text": 3}]}]):
            for path, param in ((CHAT, "messages"), (RESPONSES, "input")):
                for stream in (False, True):
                    self.assert_error(self.server.call("POST", path, {
                        "model": "lease.txt", param: messages, "stream": stream}),
                        400, "invalid_argument", param)

    def test_what_is_missing_is_named(self):
        self.assert_error(self.server.call("POST", CHAT, {"model": "lease.txt"}), 400,
                          "invalid_argument", "messages")
        self.assert_error(self.server.call("POST", RESPONSES, {"model": "lease.txt"}), 400,
                          "invalid_argument", "input")
        self.assert_error(self.chat(top_logprobs=2), 400, "invalid_argument", "top_logprobs")

    def test_long_histories_and_deep_tools_are_read(self):
        deep = {"type": "object", "properties": {}}
        for _ in range(10):
            deep = {"type": "object", "properties": {"x": deep}}
        tool = {"type": "function", "function": {"name": "look", "parameters": deep}}
        self.assertEqual(self.content(tools=[tool] * 50), self.plain)
        self.assertEqual(self.content(tools=[tool] * 50, tool_choice="none"), self.plain)
        parts = [{"type": "text", "text": "", "cache_control": {"type": "ephemeral"}}] * 2000
        self.assertEqual(self.content(messages=[
            {"role": "user", "content": [*parts, {"type": "text", "text": QUESTION}]}]), self.plain)

    def test_what_is_too_long_is_told_as_openai_does(self):
        for path, param in ((CHAT, "messages"), (RESPONSES, "input")):
            refused = self.server.call("POST", path, {
                "model": "lease.txt", param: [{"role": "user", "content": "word " * 20000}]})
            self.assert_error(refused, 400, "context_length_exceeded", param)

    def test_errors_have_openais_shape(self):
        for method, path, body, status in (
                ("POST", CHAT, "{", 400), ("POST", CHAT, "[]", 400), ("GET", CHAT, None, 405),
                ("POST", RESPONSES, "{", 400), ("POST", "/v1/completions", "{}", 404),
                ("POST", "/v1/embeddings", "{}", 404), ("GET", "/v1/models/x", None, 404)):
            answer = self.server.call(method, path, body, {"Content-Type": "application/json"})
            self.assertEqual(answer[0], status)
            error = answer[2]["error"]
            self.assertEqual(error["type"], "invalid_request_error")
            self.assertLessEqual({"message", "type", "param", "code"}, set(error))


if __name__ == "__main__":
    unittest.main()
