"""Requests as clients of OpenAI's API send them: (client, path, body, the field that is refused or None).

Bodies are those that the clients build for a question, with their defaults; keys and ids are left
out, texts are shortened, and `model` is a document. Those of openai, litellm, LangChain, LlamaIndex,
llm, pydantic-ai, the agents SDK and others were recorded from the clients themselves."""

from openai_fields import CHAT, MODEL_NAME, QUESTION, RESPONSES, SCHEMA, TOOL

ASK = {"role": "user", "content": QUESTION}
PARTS = {"role": "user", "content": [{"type": "text", "text": QUESTION}]}
SYSTEM = {"role": "system", "content": "You are a helpful assistant."}
DEVELOPER = {"role": "developer", "content": "You are a helpful assistant."}
HI = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello! How can I help?"}]
USAGE = {"include_usage": True}
CALL = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "[]"}
AZURE = f"/openai/deployments/{MODEL_NAME}/chat/completions?api-version=2024-06-01"
TOOL_ITEM = {"type": "function", "strict": True, **TOOL["function"]}
NAMED = {"type": "function", "function": {"name": "look"}}


def chat(client, *messages, refused=None, **fields):
    return client, CHAT, {"model": MODEL_NAME, "messages": list(messages), **fields}, refused


def responses(client, refused=None, **fields):
    return client, RESPONSES, {"model": MODEL_NAME, **fields}, refused


REQUESTS = [
    # Chats
    chat("Open WebUI", SYSTEM, ASK, stream=True, stream_options=USAGE),
    chat("Open WebUI, all parameters", ASK, stream=False, temperature=0.8, top_p=0.9, max_tokens=128,
         frequency_penalty=0, presence_penalty=0, seed=0, stop=["###"], logit_bias={},
         reasoning_effort="medium", options={"num_ctx": 2048}),
    chat("Open WebUI, title", {"role": "user", "content": "### Task:\nGenerate a title.\n" + QUESTION},
         stream=False, max_completion_tokens=50),
    chat("LibreChat", SYSTEM, *HI, ASK, stream=True, user="66b2", stop=None, temperature=1, top_p=1,
         presence_penalty=0, frequency_penalty=0),
    chat("LibreChat, title", {"role": "system", "content": "Title in 5 words: " + QUESTION},
         temperature=0.2, presence_penalty=0, frequency_penalty=0, max_tokens=16),
    chat("LobeChat", SYSTEM, ASK, stream=True, temperature=1, top_p=1, frequency_penalty=0,
         presence_penalty=0, stream_options=USAGE),
    chat("NextChat", SYSTEM, ASK, stream=True, temperature=0.5, presence_penalty=0,
         frequency_penalty=0, top_p=1),
    chat("Chatbox", SYSTEM, ASK, stream=True, temperature=0.7, top_p=1),
    chat("Jan", ASK, stream=True, temperature=0.7, top_p=0.95, top_k=2, max_tokens=8192, stop=[],
         frequency_penalty=0, presence_penalty=0, n_predict=None, cache_prompt=True),
    chat("SillyTavern", SYSTEM, {"role": "assistant", "content": "Greetings, traveller."}, ASK,
         temperature=1, max_tokens=300, stream=False, presence_penalty=0, frequency_penalty=0, top_p=1,
         stop=["\nUser:"], top_k=0, min_p=0, repetition_penalty=1, logit_bias={}, n=1),
    chat("AnythingLLM", SYSTEM, ASK, stream=True, temperature=0.7, max_tokens=1024,
         stream_options=USAGE),
    chat("Msty", SYSTEM, *HI, ASK, stream=True, temperature=0.7, top_p=1, max_tokens=-1),
    chat("big-AGI", SYSTEM, ASK, stream=True, temperature=0.5, max_tokens=4096, n=1,
         stream_options=USAGE),
    chat("Obsidian Copilot", SYSTEM, ASK, stream=True, temperature=0.1, max_tokens=1000, top_p=1, n=1,
         frequency_penalty=0, presence_penalty=0),
    chat("a client whose answer was aborted", {"role": "user", "content": "Hi"}, ASK, stream=True),
    # Programmers' tools
    chat("opencode", SYSTEM, ASK, max_tokens=32000, stream=True, stream_options=USAGE,
         temperature=0, top_p=1),
    chat("opencode, tools", SYSTEM, ASK, max_tokens=32000, tools=[TOOL], tool_choice="auto",
         stream=False),
    chat("opencode, title", {"role": "system", "content": "You are a title generator."},
         {"role": "user", "content": "Generate a title:\n"}, ASK, max_tokens=20, stream=True),
    chat("Roo Code", SYSTEM, PARTS, temperature=0, stream=True, stream_options=USAGE),
    chat("Roo Code, follow-up", SYSTEM, PARTS, {"role": "assistant", "content": "Reading."}, PARTS,
         temperature=0, max_tokens=-1, stream=True, stream_options=USAGE),
    chat("Cline", SYSTEM, PARTS, temperature=0, stream=True, stream_options=USAGE,
         reasoning_effort=None, max_tokens=None),
    chat("Continue", SYSTEM, ASK, max_tokens=4096, temperature=0.5, stream=True),
    chat("Continue, with stops", ASK, max_tokens=4096, temperature=0.5, stream=True,
         stop=["<|im_end|>", "<|im_start|>", "```", "\n\n\n", "/src/"]),
    chat("aider", SYSTEM, {"role": "user", "content": "Files."}, {"role": "assistant", "content": "Ok."},
         ASK, temperature=0, stream=True),
    chat("mini-swe-agent", SYSTEM, ASK, {"role": "assistant", "content": "THOUGHT: look", "extra": {}},
         {"role": "user", "content": "<returncode>0</returncode>", "timestamp": 1764000000.5},
         temperature=0.0, drop_params=True),
    chat("Zed", SYSTEM, ASK, stream=True, stop=[], temperature=1.0, max_completion_tokens=8192,
         tools=[], parallel_tool_calls=None, prompt_cache_key=None),
    chat("Vercel AI SDK", ASK, temperature=0),
    chat("Vercel AI SDK, generateObject", SYSTEM, ASK, response_format={"type": "json_object"}),
    chat("CopilotChat.nvim", {"role": "system", "content": "You are Copilot."}, ASK, n=1, top_p=1,
         stream=True, temperature=0.1, max_tokens=4096),
    chat("gptel", SYSTEM, ASK, stream=True, temperature=1.0),
    # Frameworks
    chat("LangChain.js", ASK, temperature=1, top_p=1, frequency_penalty=0, presence_penalty=0, n=1,
         stream=False),
    chat("LangChain4j", SYSTEM, ASK, temperature=0.7, stream=False),
    chat("Spring AI", ASK, stream=False, temperature=0.7),
    chat("Semantic Kernel", SYSTEM, ASK, temperature=1, top_p=1, presence_penalty=0,
         frequency_penalty=0, n=1, stop=[], logit_bias={}, tool_choice="none"),
    chat("go-openai", ASK, max_tokens=64, temperature=0.2),
    chat("async-openai", {**ASK, "name": "ann"}, max_tokens=512, n=1, stream=False, user="u"),
    chat("ruby-openai", ASK, temperature=0.7, stream=False),
    chat("Flowise", SYSTEM, ASK, temperature=0.9, top_p=1, frequency_penalty=0, presence_penalty=0,
         n=1, stream=True, stream_options=USAGE),
    chat("Dify", SYSTEM, ASK, temperature=0.7, top_p=1, max_tokens=512, presence_penalty=0,
         frequency_penalty=0, stream=True, stream_options=USAGE, user="abc-123", response_format=None),
    chat("n8n", ASK, temperature=0.7, top_p=1, frequency_penalty=0, presence_penalty=0, n=1, stream=True,
         stream_options=USAGE, max_tokens=-1),
    chat("a history with tools", SYSTEM, {"role": "user", "content": "Look it up."}, CALL, RESULT,
         {"role": "assistant", "content": "There is nothing."}, ASK),
    # Recorded
    chat("litellm", ASK, temperature=0, n=1, stop=["\n\n"]),
    chat("litellm, stream", ASK, stream=True, stream_options=USAGE),
    responses("litellm, responses", input=QUESTION),
    chat("LangChain", ASK, stream=False),
    chat("LangChain, logprobs", {**SYSTEM, "content": "Be brief."}, ASK, logprobs=True,
         top_logprobs=2, stream=False),
    responses("LangChain, responses", input=[{**ASK, "type": "message"}], stream=False),
    chat("LlamaIndex", ASK, stream=False, temperature=0.1),
    chat("LlamaIndex, stream", SYSTEM, ASK, stream=True, temperature=0.1),
    chat("llm", SYSTEM, ASK, stream=True, stream_options=USAGE, max_tokens=50, seed=3, stop="#",
         temperature=0.5),
    chat("pydantic-ai", SYSTEM, ASK, stream=False),
    responses("OpenAI's agents SDK", include=[], input=[ASK], instructions="Be brief.", tools=[]),
    chat("Haystack", SYSTEM, ASK, n=1, stream=False),
    chat("smolagents", PARTS),
    chat("DSPy", ASK),
    chat("gptme", {"role": "system", "content": [{"type": "text", "text": "You are gptme."}]}, PARTS,
         stream=True, stream_options=USAGE, temperature=0.0, tools=[TOOL] * 8),
    chat("CrewAI, tools", SYSTEM, ASK, tool_choice="auto", tools=[TOOL]),
    chat("LangChain, tools", ASK, stream=False, tools=[TOOL]),
    chat("LangChain, function_calling", ASK, stream=False, tools=[TOOL], tool_choice=NAMED,
         parallel_tool_calls=False),
    chat("pydantic-ai, tools", ASK, stream=False, tools=[TOOL], tool_choice="auto"),
    chat("pydantic-ai, structured output", ASK, stream=False, tools=[TOOL], tool_choice="required"),
    chat("instructor", SYSTEM, ASK, tools=[TOOL], tool_choice=NAMED),
    chat("smolagents, ToolCallingAgent", PARTS, stop=["Observation:"], tools=[TOOL],
         tool_choice="required"),
    chat("mistralai, any", ASK, stream=False, tools=[TOOL], tool_choice="any"),
    chat("strands, structured output", PARTS, stream=True, stream_options=USAGE, tools=[TOOL],
         tool_choice=NAMED),
    chat("AutoGen, tools", SYSTEM, {**ASK, "name": "u"}, stream=True, tools=[TOOL]),
    chat("llm, tools", ASK, stream=True, stream_options=USAGE, tools=[TOOL]),
    responses("OpenAI's agents SDK, tools", include=[], input=[ASK], instructions="Be brief.",
              tools=[TOOL_ITEM]),
    responses("pydantic-ai, structured output, responses", stream=False, input=[ASK],
              tools=[TOOL_ITEM], tool_choice="required"),
    responses("instructor, RESPONSES_TOOLS", input=[ASK], tools=[TOOL_ITEM],
              tool_choice={"type": "function", "name": "look"}, text={"format": {
                  "type": "json_schema", "name": "look", "strict": True,
                  "schema": TOOL["function"]["parameters"]}}),
    responses("Agno, tools", input=[ASK], tools=[TOOL_ITEM], store=False),
    ("openai 0.28, engine", f"/v1/engines/{MODEL_NAME}/chat/completions", {"messages": [ASK]}, None),
    ("openai, base_url without /v1", "/chat/completions", {"model": MODEL_NAME, "messages": [ASK]},
     None),
    ("openai, Azure", AZURE, {"model": "gpt-4o", "messages": [ASK]}, None),
    ("openai, Azure's responses", "/openai/responses?api-version=preview",
     {"model": MODEL_NAME, "input": QUESTION}, None),
    ("any-llm, Azure", "/openai/v1/chat/completions", {"model": MODEL_NAME, "messages": [ASK]}, None),
    # Evaluations
    chat("garak", ASK, n=1, temperature=0.7, top_p=1.0, frequency_penalty=0.0, presence_penalty=0.0,
         max_tokens=150, seed=9, stop=["#", ";"]),
    chat("lm-evaluation-harness", ASK, max_tokens=256, temperature=0, stop=["\n\n", "Q:"], seed=1234),
    chat("promptfoo", ASK, max_tokens=1024, temperature=0, logprobs=True, top_logprobs=5),
    chat("ragas", ASK, n=3, temperature=0.3, stream=False),
    chat("DeepEval", ASK, logprobs=True, top_logprobs=20, n=2, temperature=1),
    chat("OpenAI evals", SYSTEM, ASK, logit_bias={"40": 1}, max_tokens=1, temperature=0),
    # Responses
    responses("Codex CLI", instructions="You are Codex.", input=[
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": QUESTION}]}],
        tools=[], tool_choice="auto", parallel_tool_calls=False, reasoning=None, store=False,
        stream=True, include=["reasoning.encrypted_content"], prompt_cache_key="0199"),
    responses("Vercel AI SDK, responses", input=[
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": QUESTION}]}], temperature=0),
    responses("a follow-up by id", input=QUESTION, previous_response_id="resp_1", store=True,
              refused="previous_response_id"),
    responses("structured output", input=QUESTION, text={
        "format": {"type": "json_schema", "name": "x", "strict": True,
                   "schema": SCHEMA["json_schema"]["schema"]}}),
]
