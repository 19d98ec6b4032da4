"""tools/server/OPENAI.md, and values of each field that it names: what is taken, what is refused."""

import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
MODEL_NAME = "lease.txt"
QUESTION = "Where does the Douquouth committee meet?"

TOOL = {"type": "function", "function": {"name": "look", "parameters": {
    "type": "object", "properties": {"q": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
NO_SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "text"}}}
# A strict schema is refused for a keyword that cannot be kept.
STRICT = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {
    "type": "array", "uniqueItems": True}}}
USER = [{"role": "user", "content": QUESTION}]

# field: (values that are taken, values that are refused). null is taken everywhere but for what is
# required.
VALUES = {
    "model": ([MODEL_NAME], [3, ["x"]]),
    "messages": ([USER, [{"role": "system", "content": "Be brief."}, *USER]],
                 [None, [], "x", 3, [3], [{"role": "robot", "content": "x"}]]),
    "input": ([QUESTION, USER], [None, [], 3, "", [3]]),
    "instructions": (["Be brief.", ""], [3]),
    "max_tokens": ([1, 8192, -1, 10**12, 16.0], [0, -2, 1.5, "x"]),
    "max_completion_tokens": ([1, 8192, -1], [0, -2, "x"]),
    "max_output_tokens": ([16, 8192, -1], [0, -2, "x"]),
    "stop": (["\n", ["\n"], [], "", ["a b", "c", "d", "e", "f"]], [3, [3], "x" * 9000]),
    "temperature": ([0, 0.7, 1, 2], [-1, "x", 11]),
    "top_p": ([0, 0.5, 1], [-0.1, 1.1, "x"]),
    "seed": ([0, 5, -1, 2**64 - 1, -7], [1.5, "x"]),
    "n": ([1, 3], [0, 129, 1.5, "x"]),
    "frequency_penalty": ([0, 0.5, -2, 2], [-2.1, 3, "x"]),
    "presence_penalty": ([0, 0.5, -2, 2], [-2.1, 3, "x"]),
    "logit_bias": ([{}, [], {"5": -100}, {"5": -1000}],
                   [{"999999": 1}, {"-1": 1}, {"x": 1}, [5], {"5": "x"}]),
    "logprobs": ([True, False], ["x", 3]),
    "top_logprobs": ([0], [-1, 21, "x"]),
    "include": ([["message.output_text.logprobs"], ["reasoning.encrypted_content"], []], ["x", 3]),
    "stream": ([False], ["x"]),
    "stream_options": ([{"include_usage": True}, {"include_obfuscation": False}],
                       [{"include_usage": "x"}, "x"]),
    "tools": ([[], [TOOL], [{"type": "function", "name": "look", "parameters": {}}],
               [{"type": "web_search"}]], [3, {"look": TOOL}]),
    "tool_choice": (["none", "auto", {"type": "auto"}, "required", "any", "", {},
                     {"type": "function", "function": {"name": "look"}},
                     {"type": "function", "name": "look"}, {"type": "tool", "name": "look"},
                     {"type": "allowed_tools", "mode": "auto", "tools": []},
                     {"type": "allowed_tools", "mode": "required", "tools": [TOOL["function"]]},
                     {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [TOOL]}}],
                    ["always", {"type": "web_search"}, {"type": "function", "name": "no such"}, 3, ["x"],
                     {"type": "function"}, {"type": "allowed_tools", "mode": "required", "tools": []},
                     {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}}]),
    "functions": ([[], [TOOL["function"]]], [3]),
    "function_call": (["none", "auto", {"name": "look"}], [{"name": "no such"}]),
    "response_format": ([{"type": "text"}, {}, {"type": "json_object"}, SCHEMA],
                        ["json", {"type": "xml"}, NO_SCHEMA, STRICT]),
    "text": ([{"format": {"type": "text"}}, {"verbosity": "low"}, {}, {"format": {"type": "json_object"}},
              {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}}}],
             [{"format": {"type": "xml"}}, {"format": {**NO_SCHEMA["json_schema"], "type": "json_schema"}}]),
    "modalities": ([["text"], []], [["text", "audio"], ["image"]]),
    "audio": ([{}], [{"voice": "alloy", "format": "wav"}]),
    "web_search_options": ([], [{}, {"search_context_size": "low"}]),
    "moderation": ([{}], [{"model": "omni-moderation-latest"}]),
    "previous_response_id": ([""], ["resp_1"]),
    "conversation": ([""], ["conv_1", {"id": "conv_1"}]),
    "prompt": ([{}], [{"id": "pmpt_1"}]),
    "background": ([False], [True]),
    # without effect
    "metadata": ([{"a": "b"}], []),
    "parallel_tool_calls": ([True, False], []),
    "prediction": ([{"type": "content", "content": "x"}], []),
    "prompt_cache_key": (["x"], []),
    "prompt_cache_options": ([{"mode": "explicit"}], []),
    "prompt_cache_retention": (["24h"], []),
    "reasoning_effort": (["low", "minimal"], []),
    "reasoning": ([{"effort": "low", "summary": "auto"}], []),
    "safety_identifier": (["x"], []),
    "service_tier": (["auto", "default"], []),
    "store": ([True, False], []),
    "user": (["x"], []),
    "verbosity": (["low"], []),
    "access_programs": ([{"x": True}], []),
    "background_options": ([{}], []),
    "context_management": ([[{"type": "compaction", "compact_threshold": 9999}]], []),
    "image": ([{}], []),
    "max_tool_calls": ([1], []),
    "truncation": (["auto", "disabled"], []),
    # of other servers
    "kv_budget": ([1, 0.5], [0, 1.5, "x"]),
    "top_k": ([0, -1, 40], [-2, 1.5, "x"]),
    "min_p": ([0, 0.05, 1], [-0.1, 1.1, "x"]),
    "grammar": ([""], ["root ::= \"x\""]),
    "json_schema": ([{}, {"type": "object"}], [{"type": "text"}, 3]),
    "guided_json": ([{}, {"type": "object"}, '{"type": "object"}'], [{"type": "text"}]),
    "guided_regex": ([""], ["x+"]),
    "guided_choice": ([[]], [["yes", "no"]]),
    "guided_grammar": ([""], ["x"]),
    "structured_outputs": ([{}, {"json": {"type": "object"}}], [{"regex": "x"}]),
    "repetition_penalty": ([1, 1.0], [1.1]),
    "repeat_penalty": ([1, 1.0], [1.1]),
    "typical_p": ([1], [0.5]),
    "mirostat": ([0], [2]),
    "xtc_probability": ([0], [0.5]),
    "dry_multiplier": ([0], [0.8]),
    "use_beam_search": ([False], [True]),
    "min_tokens": ([0], [5]),
    "ignore_eos": ([False], [True]),
    "stop_token_ids": ([[]], [[2]]),
    "include_stop_str_in_output": ([False], [True]),
    "bad_words": ([[]], [["x"]]),
    "echo": ([False], [True]),
    "continue_final_message": ([False], [True]),
    "add_generation_prompt": ([True], [False]),
    "chat_template": ([""], ["{{ messages }}"]),
}
# Fields that a request needs beside a field.
BESIDE = {"top_logprobs": {"logprobs": True}, "tool_choice": {"tools": [TOOL]},
          "function_call": {"functions": [TOOL["function"]]}}
REQUIRED = {"messages", "input"}


def tables():
    """{title of a section: {field: "works", "no effect" or "refused"}} of OPENAI.md."""
    with open(os.path.join(HERE, "../../tools/server/OPENAI.md"), encoding="utf-8") as file:
        sections = re.split(r"^## (.*)\n", file.read(), flags=re.MULTILINE)
    read = {}
    for title, text in zip(sections[1::2], sections[2::2]):
        read[title] = dict(re.findall(r"^\| `(\w+)` \| (works|no effect|refused) \|", text,
                                      re.MULTILINE))
    return read


def fields_of(path):
    """{field: state} of a path, with those of other servers."""
    read = tables()
    return {**read["Chat completions" if path == CHAT else "Responses"],
            **read["Fields of servers like this one"]}


def request(path, **fields):
    said = {"messages": USER} if path == CHAT else {"input": QUESTION}
    return {"model": MODEL_NAME, **said, **fields}


def answer_of(path, body):
    message = body["choices"][0]["message"] if path == CHAT else body["output"][0]["content"][0]
    return message["content" if path == CHAT else "text"]


def check(case, call, path, field, state):
    """`case`: a TestCase. `call`(path, body): status and body of what the server says."""
    taken, refused = VALUES[field]
    if state == "no effect":  # on this path
        taken, refused = taken + refused, []
    plain = call(path, request(path))[1]
    for value in taken + ([] if field in REQUIRED else [None]):
        with case.subTest(path=path, field=field, taken=value):
            status, body = call(path, request(path, **BESIDE.get(field, {}), **{field: value}))
            case.assertEqual(status, 200, body)
            if state == "no effect":
                case.assertEqual(answer_of(path, body), answer_of(path, plain))
    case.assertEqual(bool(refused), state != "no effect")
    for value in refused:
        with case.subTest(path=path, field=field, refused=value):
            status, body = call(path, request(path, **BESIDE.get(field, {}), **{field: value}))
            case.assertEqual((status, body.get("error", {}).get("param")), (400, field), body)
            case.assertEqual(body["error"]["type"], "invalid_request_error")
            case.assertNotIn("--", body["error"]["message"])
