#!/usr/bin/env python3
"""Makes chat_golden.json: published chat templates as jinja2 renders them.

Run by hand, from anywhere; nothing in the build calls it:

    pip install jinja2
    python3 tests/golden/make_chat_golden.py

Made with jinja2 3.1.6, in the environment that transformers makes (trim_blocks, lstrip_blocks). A
list; each has the `name` of the built-in template that renders alike, `jinja`, `bos`, `eos`, and what it makes
of three conversations: `first` (a first question and where its answer begins), `second` (the same,
its answer, and another question) and `third` (the same with instructions, which a user's turn has
between the document and the question). Templates are those that were published with the models; of
long ones the branches for tools and images are left out.
"""

import json
import pathlib

import jinja2

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = "The bridge over the Aven was built in 1843.\n\nIt {has} five arches; <b>nobody</b> pays."
QUESTION, ANSWER, NEXT = "Who pays? ", " Nobody.\u2003", "\nSince when?\t"
INSTRUCTIONS = "Be brief."

ALTERNATE = ("{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception("
             "'Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}")
LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}"
    "{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
    "{% for message in loop_messages %}" + ALTERNATE +
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}"
    "{% endif %}{% endfor %}")
LLAMA3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'"
    "+ message['content'] | trim + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}"
    "{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")
MISTRAL_V1 = (
    "{{ bos_token }}{% for message in messages %}" + ALTERNATE +
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}"
    "{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}")
MISTRAL_V1_SPACE = MISTRAL_V1.replace("eos_token}}", "eos_token + ' ' }}")
MISTRAL_V1_SPACES = """{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}

{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('conversation roles must alternate') }}
    {%- endif %}
    {%- if message['role'] == 'user' %}
        {%- if loop.first and system_message is defined %}
            {{- ' [INST] ' + system_message + '\\n\\n' + message['content'] + ' [/INST]' }}
        {%- else %}
            {{- ' [INST] ' + message['content'] + ' [/INST]' }}
        {%- endif %}
    {%- elif message['role'] == 'assistant' %}
        {{- ' ' + message['content'] + eos_token}}
    {%- endif %}
{%- endfor %}
"""
LLAMA31 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- This block extracts the system message, so we can slot it into the right place. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}

{#- System message #}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}

{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim \
+ '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
# Where there is no system message there is no date.
LLAMA31_BARE = LLAMA31.replace('{{- "<|start_header_id|>system', '{%- if system_message %}\n'
                               '{{- "<|start_header_id|>system').replace(
    '{{- "<|eot_id|>" }}', '{{- "<|eot_id|>" }}\n{%- endif %}')
MISTRAL_V3 = """{%- set loop_messages = messages %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none %}
            {{- "[AVAILABLE_TOOLS] [" }}
        {%- endif %}
        {{- "[INST] " + message["content"] + "[/INST]" }}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- endif %}
{%- endfor %}
"""
MISTRAL_TEKKEN = (MISTRAL_V3.replace('"[INST] "', '"[INST]"').replace("TOOLS] [", "TOOLS][")
                  .replace('" " + message["content"]|trim', 'message["content"]'))
CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content']"
    " + '<|im_end|>' + '\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
QWEN2 = CHATML.replace(
    "{% for message in messages %}",
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}{% endif %}")
QWEN25 = """{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.\
<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
SMOLLM2 = QWEN2.replace("You are a helpful assistant.",
                        "You are a helpful AI assistant named SmolLM, trained by Hugging Face")
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}" +
    ALTERNATE +
    "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}"
    "{% set role = message['role'] %}{% endif %}"
    "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}")
PHI3 = (
    "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') %}"
    "{{'<|user|>' + '\n' + message['content'] + '<|end|>' + '\n' + '<|assistant|>' + '\n'}}"
    "{% elif (message['role'] == 'assistant') %}{{message['content'] + '<|end|>' + '\n'}}"
    "{% endif %}{% endfor %}")
PHI35 = (
    "{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}"
    "{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}"
    "{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}"
    "{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}")
PHI3_SMALL = (
    "{{ bos_token }}{% for message in messages %}{{'<|' + message['role'] + '|>' + '\n' + "
    "message['content'] + '<|end|>\n' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}")
PHI4_MINI = (
    "{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and "
    "message['tools'] is not none %}{{ '<|' + message['role'] + '|>' + message['content'] + "
    "'<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}{% else %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}")
GEMMA3 = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- endif -%}
    {{ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\n'}}
{%- endif -%}
"""
ZEPHYR = (
    "{% for message in messages %}\n{% if message['role'] == 'user' %}\n"
    "{{ '<|user|>\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'system' %}\n"
    "{{ '<|system|>\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'assistant' %}\n"
    "{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n"
    "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}")
VICUNA = (  # FastChat's vicuna_v1.1
    "{{ bos_token }}{{ 'A chat between a curious user and an artificial intelligence assistant. The "
    "assistant gives helpful, detailed, and polite answers to the user\\'s questions. ' }}"
    "{% for message in messages %}{% if message['role'] == 'user' %}"
    "{{ 'USER: ' + message['content'] + ' ASSISTANT:' }}{% else %}"
    "{{ ' ' + message['content'] + eos_token }}{% endif %}{% endfor %}")

#    name, jinja, bos, eos
TEMPLATES = [
    ("llama2", LLAMA2, "<s>", "</s>"),
    ("llama3", LLAMA3, "<|begin_of_text|>", "<|eot_id|>"),
    ("llama3.1", LLAMA31, "<|begin_of_text|>", "<|eot_id|>"),
    ("llama3", LLAMA31_BARE, "<|begin_of_text|>", "<|eot_id|>"),
    ("mistral-v1", MISTRAL_V1, "<s>", "</s>"),
    ("mistral-v1-space", MISTRAL_V1_SPACE, "<s>", "</s>"),
    ("mistral-v1-spaces", MISTRAL_V1_SPACES, "<s>", "</s>"),
    ("mistral-v3", MISTRAL_V3, "<s>", "</s>"),
    ("mistral-v3-tekken", MISTRAL_TEKKEN, "<s>", "</s>"),
    ("chatml", CHATML, "", "<|im_end|>"),
    ("chatml-bos", "{{ bos_token }}" + CHATML, "<s>", "<|im_end|>"),
    ("qwen2", QWEN2, "", "<|im_end|>"),
    ("qwen2.5", QWEN25, "", "<|im_end|>"),
    ("smollm2", SMOLLM2, "", "<|im_end|>"),
    ("gemma", GEMMA, "<bos>", "<eos>"),
    ("gemma", GEMMA3, "<bos>", "<eos>"),
    ("phi3", PHI3, "<s>", "<|endoftext|>"),
    ("phi3", PHI35, "", "<|endoftext|>"),
    ("phi3", PHI3_SMALL, "<|endoftext|>", "<|endoftext|>"),
    ("phi4-mini", PHI4_MINI, "", "<|endoftext|>"),
    ("zephyr", ZEPHYR, "", "</s>"),
    ("vicuna", VICUNA, "<s>", "</s>"),
]


def fail(message):
    raise jinja2.TemplateError(message)


def main():
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = fail
    turn = lambda role, content: {"role": role, "content": content}
    later = [turn("assistant", ANSWER), turn("user", NEXT)]
    first = [turn("user", DOCUMENT + "\n\nQuestion: " + QUESTION)]
    instructed = [turn("user", f"{DOCUMENT}\n\n{INSTRUCTIONS}\n\nQuestion: {QUESTION}")]
    golden = []
    for name, jinja, bos, eos in TEMPLATES:
        program = environment.from_string(jinja)
        more = {"bos_token": bos, "eos_token": eos, "add_generation_prompt": True}
        golden.append({"name": name, "jinja": jinja, "bos": bos, "eos": eos,
                       "first": program.render(messages=first, **more),
                       "second": program.render(messages=first + later, **more),
                       "third": program.render(messages=instructed + later + later, **more)})
    golden = {"document": DOCUMENT, "instructions": INSTRUCTIONS, "question": QUESTION,
              "answer": ANSWER, "next": NEXT, "templates": golden}
    out = HERE / "chat_golden.json"
    out.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")
    print(out, out.stat().st_size)


if __name__ == "__main__":
    main()
