"""Sentences of real English that a Debian machine with Python has: its licence texts in
/usr/share/common-licenses and the documentation strings of Python's standard library. They stand
between generated sentences in training, and the vocabulary is trained on them too. Evaluation
documents do without, so that they are the same everywhere."""

import ast
import functools
import pathlib
import random
import re
import sysconfig

LICENCES = pathlib.Path("/usr/share/common-licenses")


def texts():
    """Yields the texts; files that cannot be parsed are left out, and so are folders that are
    missing."""
    for path in sorted(LICENCES.glob("*")):
        if not path.is_symlink():
            yield path.read_text(errors="replace")
    library = pathlib.Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(library.glob("*.py")) + sorted(library.glob("[a-z]*/*.py")):
        if "test" in str(path.relative_to(library)) or "packages" in str(path):
            continue
        try:
            tree = ast.parse(path.read_text())
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                yield ast.get_docstring(node) or ""


@functools.cache
def sentences(split):
    """The sentences of a split, in an order that the same texts give again. One sentence in seven
    is held out ("eval"); the others are "train". Empty where the machine has no texts."""
    found = set()
    for text in texts():
        for s in re.split(r"(?<=[.;:])\s+(?=[A-Z])", re.sub(r"\s+", " ", text)):
            if 30 < len(s) < 200 and re.fullmatch(r"[A-Z][A-Za-z0-9 ,;:()'\"-]+[.;:]", s):
                found.add(s[:-1] + ".")
    ordered = sorted(found)
    random.Random(1).shuffle(ordered)
    held_out = len(ordered) // 7
    return ordered[:held_out] if split == "eval" else ordered[held_out:]


def filler(split, chance):
    """For documents.make_document(other_filler=...): a function that returns a sentence with
    probability `chance`, else None; always None where there are no sentences."""
    known = sentences(split)
    return lambda r: r.choice(known) if known and r.random() < chance else None
