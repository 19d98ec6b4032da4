#!/usr/bin/env python3
"""Writes goldens.json: llama.cpp's tokens of some strings and its greedy answer, of both models.

    make_goldens.py FOLDER    # of the models; needs jinja2 and llama-cpp-python from PyPI

The prompt of the answer is the model's own chat template around lighthouse.txt and a question; without
a template it is "document, Question: …, Answer:". Document, question and what is around them are cut
into tokens apart, as Lectern does. The answer ends before the first token that llama.cpp prefers to
its next by less than MARGIN: other roundings may choose another one there.
"""
import json
import pathlib
import sys

import jinja2
import numpy as np
from llama_cpp import Llama

HERE = pathlib.Path(__file__).resolve().parent
FILES = {"SmolLM2": "SmolLM2-135M-Instruct.Q4_1.gguf", "Gemma3": "gemma-3-270m-q4_k_m.gguf"}
# For each model the one is kept to which llama.cpp's answer is clear for longest.
QUESTIONS = [
    "How many steps are there to the lantern room?", "What is the text about?",
    "Who built the lighthouse in 1783?", "What hangs in the town hall of Tarrow?",
    "Repeat the first sentence of the text."]
MARGIN, MOST = 0.5, 24
STRINGS = [
    "Hello world", "  leading and trailing  ", "tabs\t\tand\nlines\n\n\nand\r\n\r\nmore",
    "don't I'll WE'RE they've", "1234567890 3.14159 1,000,000", "def f(x):\n    return x ** 2\n",
    "<table><tr><td>1</td></tr></table>", "Änderungen für 3 €", "Привет, мир!",
    "日本語のテキスト、句読点。", "مرحبا بالعالم", "नमस्ते दुनिया", "a\u0301 combining",
    "👩‍👩‍👧‍👦🏳️‍🌈 end", "\u200bzero\u00a0nbsp", "\x01\x02ctl", "x" * 60, "ﬁ ligature",
    "<|im_start|>user", "<start_of_turn>user"]
MARK = "\x00"


def around(llm, text):
    """The texts that the template puts before a document and after a question."""
    template = llm.metadata.get("tokenizer.chat_template")
    if template is None:
        return "", "\nAnswer:"
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(
        messages=[{"role": "user", "content": text}], add_generation_prompt=True,
        bos_token="", eos_token="").split(MARK)


def greedy(llm, context, question):
    """The greedy answer to the question, after a context that was evaluated."""
    llm.n_tokens = len(context)
    llm.eval(question)
    ids = []
    while len(ids) < MOST:
        logits = np.array(llm.scores[llm.n_tokens - 1])
        best = np.argsort(logits)[::-1][:2]
        if logits[best[0]] - logits[best[1]] < MARGIN or best[0] == llm.token_eos():
            break
        ids.append(int(best[0]))
        llm.eval(ids[-1:])
    return llm.detokenize(ids).decode(errors="ignore")


def main():
    folder, goldens = pathlib.Path(sys.argv[1]), {}
    document = (HERE / "lighthouse.txt").read_bytes()
    for name, file in FILES.items():
        llm = Llama(model_path=str(folder / file), n_ctx=2048, verbose=False, logits_all=True)

        def tokens(text, special=False):
            return llm.tokenize(text, add_bos=False, special=special)

        before, after = around(llm, MARK)
        bos = [llm.token_bos()] if llm.metadata.get("tokenizer.ggml.add_bos_token") == "true" else []
        context = bos + tokens(before.encode(), True) + tokens(document)
        # A template that begins in plain text is cut with what follows; none of these does.
        llm.eval(context)
        answers = {}
        for question in QUESTIONS:
            asked = f"\n\nQuestion: {question}"
            ids = (tokens(asked.encode()) + tokens(after.encode(), True) if before else
                   tokens((asked + after).encode()))
            answers[question] = greedy(llm, context, ids)
        question = max(answers, key=lambda q: len(answers[q]))
        goldens[name] = {"document_tokens": len(context), "question": question,
                         "answer": answers[question],
                         "tokens": {text: tokens(text.encode()) for text in STRINGS}}
    with open(HERE / "goldens.json", "w", encoding="utf-8") as file:
        json.dump(goldens, file, ensure_ascii=True, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
