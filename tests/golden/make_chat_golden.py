#!/usr/bin/env python3
"""Makes chat_golden.json: published chat templates as jinja2 renders them.

Run by hand, from anywhere; nothing in the build calls it:

    pip install jinja2
    python3 tests/golden/make_chat_golden.py

Made with jinja2 3.1.6, in the environment that transformers makes (trim_blocks, lstrip_blocks). A
list; each has the `name` that the template must be recognised as, `jinja`, `bos`, `first` (a first
question and where its answer begins) and `second` (the same, the answer as the template writes it,
and another question). MISTRAL_V3 and its Tekken form are without the branches for tools.
"""

import json
import pathlib

import jinja2

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = "The bridge over the Aven was built in 1843.\n\nIt {has} five arches; <b>nobody</b> pays."
QUESTION, ANSWER, NEXT = "Who pays?", "Nobody.", "Since when?"

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
MISTRAL_TEKKEN = (MISTRAL_V3.replace('"[INST] "', '"[INST]"').replace('" " + message', "message")
                  .replace("TOOLS] [", "TOOLS]["))
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

#           name, jinja, bos, eos, the answer in its place
TEMPLATES = [
    ("llama2", LLAMA2, "<s>", "</s>", " Nobody. "),
    ("llama3", LLAMA3, "<|begin_of_text|>", "<|eot_id|>", ANSWER),
    ("mistral-v1", MISTRAL_V1, "<s>", "</s>", ANSWER),
    ("mistral-v3", MISTRAL_V3, "<s>", "</s>", " Nobody."),
    ("mistral-v3-tekken", MISTRAL_TEKKEN, "<s>", "</s>", ANSWER),
    ("chatml", CHATML, "", "<|im_end|>", ANSWER),
    ("qwen2", QWEN2, "", "<|im_end|>", ANSWER),
    ("qwen2.5", QWEN25, "", "<|im_end|>", ANSWER),
    ("smollm2", SMOLLM2, "", "<|im_end|>", ANSWER),
    ("gemma", GEMMA, "<bos>", "<eos>", ANSWER),
    ("phi3", PHI3, "<s>", "<|endoftext|>", ANSWER),
    ("zephyr", ZEPHYR, "", "</s>", ANSWER),
    ("vicuna", VICUNA, "<s>", "</s>", " Nobody."),
]


def fail(message):
    raise jinja2.TemplateError(message)


def main():
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = fail
    user = {"role": "user", "content": DOCUMENT + "\n\nQuestion: " + QUESTION}
    later = [user, {"role": "assistant", "content": ANSWER}, {"role": "user", "content": NEXT}]
    golden = []
    for name, jinja, bos, eos, answer in TEMPLATES:
        program = environment.from_string(jinja)
        more = {"bos_token": bos, "eos_token": eos, "add_generation_prompt": True}
        golden.append({"name": name, "jinja": jinja, "bos": bos, "answer": answer,
                       "first": program.render(messages=[user], **more),
                       "second": program.render(messages=later, **more)})
    golden = {"document": DOCUMENT, "question": QUESTION, "next": NEXT, "templates": golden}
    out = HERE / "chat_golden.json"
    out.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")
    print(out, out.stat().st_size)


if __name__ == "__main__":
    main()
