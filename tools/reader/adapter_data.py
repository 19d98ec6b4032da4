"""The data that an adapter is trained on: documents and questions as rows of tokens, and the rows that
each question may look at.

A Document is a text of questions/*.jsonl with its questions. A Pack is one training step: a window of
one document, or several documents behind each other, and up to `Recipe.questions` questions. A question
attends to the document as the engine will let it: to all rows, or (focused reading) to the first and the
last rows and those of sentences that share words with the question.
"""

import dataclasses
import functools
import hashlib
import json
import math
import pathlib
import random
import re
import sys

import numpy as np
import torch

import adapter_attention
import package_texts

ABSENT = "The document does not say."
SINKS, WINDOW = 4, 100  # rows that focused reading always reads, as the engine does
NUM_SENTENCES = (1, 2, 3, 5, 5, 8, 12)  # that focused reading chooses by words, each with its neighbours
MAX_POSITIONS = 8192
# Other pages of these packages are what the adapter is judged by.
JUDGES = {"doc-debian", "debian-policy", "debian-history", "git-doc", "git", "sqlite3-doc", "base-files"}


# ---- tokens ----------------------------------------------------------------------------------------

class Tokens:
    """The vocabulary of SmolLM2 and the prompt that Lectern makes with its chat template."""

    BEFORE = "system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"

    def __init__(self, vocabulary, merges):
        """vocabulary: the pieces by their ids; merges: "left right", the first ones first"""
        import tokenizers
        from tokenizers import models, pre_tokenizers
        self.encoder = tokenizers.Tokenizer(models.BPE(
            {t: i for i, t in enumerate(vocabulary)}, [tuple(m.split(" ")) for m in merges]))
        self.encoder.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
        self.encoder.decoder = tokenizers.decoders.ByteLevel()
        # A piece is written with one character a byte.
        self.lengths = np.array([len(t) for t in vocabulary])
        self.begin, self.end = vocabulary.index("<|im_start|>"), vocabulary.index("<|im_end|>")
        self.prefix = [self.begin, *self.of(self.BEFORE), self.end, *self.of("\n"),
                       self.begin, *self.of("user\n")]

    @staticmethod
    def read(gguf):
        """The vocabulary in a GGUF file. Needs the package gguf."""
        from gguf import GGUFReader
        fields = GGUFReader(str(gguf)).fields
        texts = lambda key: [bytes(fields[key].parts[i]).decode() for i in fields[key].data]
        return Tokens(texts("tokenizer.ggml.tokens"), texts("tokenizer.ggml.merges"))

    def of(self, text):
        return self.encoder.encode(text, add_special_tokens=False).ids

    def question(self, text):
        """From the document's end to where the answer begins."""
        return [*self.of("\n\nQuestion: " + text), self.end, *self.of("\n"), self.begin,
                *self.of("assistant\n")]

    def answer(self, text):
        return [*self.of(text), self.end]

    def text(self, ids):
        return self.encoder.decode([i for i in ids if i not in (self.begin, self.end)],
                                   skip_special_tokens=False)


# ---- documents -------------------------------------------------------------------------------------

@dataclasses.dataclass
class Document:
    """A text and the questions about it."""
    name: str
    package: str
    text: bytes
    questions: list  # as check_questions.py says


def documents(questions, texts, say=functools.partial(print, file=sys.stderr)):
    """The documents whose texts are there and are the recorded ones; `say` names the others."""
    found = []
    for path in sorted(pathlib.Path(questions).glob("*.jsonl")):
        record = package_texts.document(path)
        if record["package"] in JUDGES:
            say(f"{path.name}: SKIPPED: {record['package']} is kept for judging")
            continue
        file = pathlib.Path(texts) / (path.stem + ".txt")
        text = file.read_bytes() if file.exists() else None
        if text is None or hashlib.sha256(text).hexdigest() != record["sha256"]:
            say(f"{path.name}: SKIPPED: " + ("its text is missing; package_texts.py fetch brings it"
                                             if text is None else "its text is not the recorded one"))
            continue
        lines = path.read_text().splitlines()[1:]
        found.append(Document(path.stem, record["package"], text, [json.loads(line) for line in lines]))
    return found


# ---- sentences by words ----------------------------------------------------------------------------

STOP = set("the a an of to in is are was were be been and or for on with as at by it its this that which "
           "what who whom how when where why do does did can could should would may must i you your my we "
           "our they their if from not no than then there here about into so such any all one".split())


def sentences(text):
    """Byte ranges of sentences and lines, ascending."""
    return [m.span() for m in re.finditer(rb"[^\n]+?(?:[.!?](?=\s)|\n|$)", text) if m.end() - m.start() > 3]


def words(text):
    """The words of a text for the ranking: small letters, without stop words and common endings."""
    found = []
    for word in re.findall(r"[a-z0-9]+", text.lower()):
        if word in STOP:
            continue
        for ending in ("ing", "edly", "ed", "es", "s", "ly"):
            if word.endswith(ending) and len(word) - len(ending) >= 4:
                word = word[:-len(ending)]
                break
        found.append(word)
    return found


class Ranking:
    """BM25 over the sentences of a text."""

    def __init__(self, text):
        self.ranges = sentences(text)
        self.words = [words(text[b:e].decode(errors="replace")) for b, e in self.ranges]
        self.frequency = {}
        for sentence in self.words:
            for word in set(sentence):
                self.frequency[word] = self.frequency.get(word, 0) + 1
        self.average = sum(map(len, self.words)) / max(1, len(self.words)) or 1

    def best(self, question):
        """Numbers of all sentences, the best first."""
        count = len(self.words)
        asked = {w: math.log(1 + (count - self.frequency[w] + .5) / (self.frequency[w] + .5))
                 for w in set(words(question)) if w in self.frequency}
        scores = []
        for sentence in self.words:
            score = 0
            for word, weight in asked.items():
                times = sentence.count(word)
                score += weight * times * 2.2 / (times + 1.2 * (.25 + .75 * len(sentence) / self.average))
            scores.append(score)
        return sorted(range(count), key=lambda i: -scores[i])

    def chosen(self, question, num):
        """Byte ranges of the best `num` sentences and their neighbours."""
        last = len(self.ranges) - 1
        return [(self.ranges[max(0, i - 1)][0], self.ranges[min(last, i + 1)][1])
                for i in self.best(question)[:num]]


# ---- packs -----------------------------------------------------------------------------------------

class Text:
    """A document as rows: the template's prefix and the text."""

    def __init__(self, tokens, text):
        pieces = tokens.of(text.decode(errors="replace"))
        self.ids = np.array(tokens.prefix + pieces)
        self.prefix, self.text = len(tokens.prefix), text
        ends = np.cumsum(tokens.lengths[pieces]) if pieces else np.zeros(0, int)
        self.begins = np.concatenate([[0], ends[:-1]]) if pieces else ends
        self.ends = ends
        self.rows = len(self.ids)

    @functools.cached_property
    def ranking(self):
        return Ranking(self.text)

    def rows_of(self, ranges):
        """(rows) bool: the rows of tokens with a byte in one of the ranges"""
        marked = np.zeros(self.rows, bool)
        for begin, end in ranges:
            marked[self.prefix:] |= (self.begins < end) & (self.ends > begin)
        return marked

    def always(self):
        """(rows) bool: the rows that focused reading always reads"""
        marked = np.zeros(self.rows, bool)
        marked[:SINKS] = marked[-WINDOW:] = True
        return marked

    def focused(self, question, num):
        """The rows that focused reading reads for a question."""
        return self.always() | self.rows_of(self.ranking.chosen(question, num))


@dataclasses.dataclass
class Question:
    """A question as rows, and the rows of the document that it may look at."""
    prompt: list       # tokens
    answer: list       # tokens
    visible: object    # (document rows) bool
    gold: object       # (document rows) bool; none of an absent one
    kind: str          # "fact" or "absent": what the answer is
    source: dict = None


@dataclasses.dataclass
class Pack:
    """One training step; see the top of the file."""
    document: object   # (rows) token ids
    positions: object  # (rows)
    questions: list
    is_whole: bool = True  # see Network.learn

    def tensors(self, device="cpu"):
        """ids, positions (rows), targets (question rows; -1 where there is none), block (question rows:
        number of the question)"""
        ids, positions, block, targets = [], [], [], []
        first = int(self.positions[-1]) + 1
        for number, q in enumerate(self.questions):
            piece = q.prompt + q.answer
            ids += piece
            positions += range(first, first + len(piece))
            block += [number] * len(piece)
            targets += [-1] * (len(q.prompt) - 1) + q.answer + [-1]
        join = lambda document, rest: torch.cat([torch.from_numpy(document), torch.tensor(rest)]).to(device)
        return (join(self.document, ids), join(self.positions, positions),
                torch.tensor(targets, device=device), torch.tensor(block, device=device))

    def plan(self):
        """The adapter_attention.Plan of the rows of tensors()."""
        return adapter_attention.Plan(len(self.document), [q.visible for q in self.questions],
                                      [len(q.prompt) + len(q.answer) for q in self.questions])

    def mask(self, block, dtype):
        """(question rows, rows): 0, or minus infinity where a row must not look"""
        visible = torch.from_numpy(np.stack([q.visible for q in self.questions])).to(block.device)[block]
        return as_mask(torch.cat([visible, own(block)], 1), dtype)


def own(block):
    """(rows, rows) bool: a row sees the rows of its own question up to itself."""
    number = torch.arange(len(block), device=block.device)
    return (block[:, None] == block[None]) & (number[:, None] >= number[None])


def as_mask(allowed, dtype):
    """0 where `allowed` is true, else minus infinity"""
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill_(~allowed, float("-inf"))


@dataclasses.dataclass
class Recipe:
    """How packs are made; shares of all questions or packs."""
    questions: int = 30           # at most, in a pack
    absent: float = 0.24          # share of a pack's questions that the document does not answer
    hidden: float = 0.10          # facts whose passages may not be seen: refused
    dense: float = 0.30           # questions that see the whole document
    whole: float = 0.25           # packs whose document's rows have gradients
    jump: float = 0.5             # packs with jumps in the positions, up to the model's limit
    # Tokens of a document: (share of packs, least, most).
    lengths: tuple = ((.25, 300, 1200), (.55, 1200, 2600), (.15, 2600, 4200), (.05, 4200, 7000))


def lines(text):
    """Byte ranges of lines."""
    at, found = 0, []
    for line in text.splitlines(keepends=True):
        found.append((at, at + len(line)))
        at += len(line)
    return found


def window(document, r, most):
    """A range of whole lines of about `most` bytes."""
    if len(document.text) <= most:
        return 0, len(document.text)
    parts = lines(document.text)
    first = r.randrange(len(parts))
    end = next((n for n in range(first, len(parts)) if parts[n][1] - parts[first][0] > most), len(parts))
    while first > 0 and parts[end - 1][1] - parts[first - 1][0] <= most:
        first -= 1
    return parts[first][0], parts[max(end, first + 1) - 1][1]


def moved(question, begin, end, offset):
    """The question of a document's range that stands at `offset` now: a fact if all its passages are in
    it, "absent" if none touches it or nothing answers it, else None."""
    passages = question["passages"]
    if question["kind"] == "absent" or not any(p["begin"] < end and p["end"] > begin for p in passages):
        return {**question, "kind": "absent", "answer": ABSENT, "passages": []}
    if all(p["begin"] >= begin and p["end"] <= end for p in passages):
        shift = offset - begin
        return {**question, "passages": [{"begin": p["begin"] + shift, "end": p["end"] + shift}
                                         for p in passages]}
    return None


def jumped(rows, r, recipe, room):
    """Positions of the document's rows; with jumps, they stand for a longer document."""
    positions = np.arange(rows)
    spare = MAX_POSITIONS - rows - room
    if spare > 0 and rows > 64 and r.random() < recipe.jump:
        for cut in sorted(r.sample(range(40, rows), r.randint(1, 4))):
            step = int(spare * r.random() ** 2)
            positions[cut:] += step
            spare -= step
    return positions


def make_pack(tokens, everything, document, r, recipe):
    """A pack about `document` and, if it is short, others behind or before it. None: too few questions."""
    share, choice = 0, r.random()
    for part, least, most in recipe.lengths:
        share += part
        if choice < share:
            break
    size = 4 * r.randint(least, most)  # bytes
    parts = [document]
    while sum(len(d.text) for d in parts) < 0.75 * size and len(parts) < 5:
        parts.append(r.choice(everything))
    r.shuffle(parts)
    text, asked, names = b"", [], set()
    for part in parts:
        if part.name in names:
            continue
        names.add(part.name)
        begin, end = window(part, r, min(len(part.text), max(600, size - len(text))))
        if text:
            text += b"\n\n"
        asked += filter(None, (moved(q, begin, end, len(text)) for q in part.questions))
        text += part.text[begin:end]
        if len(text) >= size:
            break
    rows = Text(tokens, text)
    facts = [q for q in asked if q["kind"] == "fact"]
    absent = [q for q in asked if q["kind"] == "absent"]
    # Questions that were written to look answerable come before those about the rest of the text.
    r.shuffle(facts)
    absent.sort(key=lambda q: (len(q["answers"]) > 1 or q["answers"][0] != ABSENT, r.random()))
    num_absent = round(recipe.absent * min(recipe.questions, len(facts) / (1 - recipe.absent)))
    picked = facts[:recipe.questions - num_absent] + absent[:num_absent]
    r.shuffle(picked)
    questions = [made for q in picked if (made := make_question(tokens, rows, q, r, recipe))]
    if len(questions) < 3:
        return None
    room = max(len(q.prompt) + len(q.answer) for q in questions)
    return Pack(rows.ids, jumped(rows.rows, r, recipe, room), questions, r.random() < recipe.whole)


def make_question(tokens, rows, q, r, recipe):
    """The question with a random way to read the document; None: it does not fit."""
    gold = rows.rows_of((p["begin"], p["end"]) for p in q["passages"])
    answer, kind = q["answer"], q["kind"]
    if r.random() < recipe.dense:
        visible = np.ones(rows.rows, bool)
    else:
        visible = rows.focused(q["question"], r.choice(NUM_SENTENCES))
    if kind == "fact" and r.random() < recipe.hidden:
        visible &= ~gold
        answer, kind, gold = ABSENT, "absent", np.zeros(rows.rows, bool)
    visible = visible | gold
    return Question(tokens.question(q["question"]), tokens.answer(answer), visible, gold, kind, q)


def packs(tokens, everything, seed, first, recipe):
    """Yields packs number first, first + 1, … without end: the same for a seed, wherever they
    begin. Every document comes once in len(everything) packs. Never yields where no pack has enough
    questions."""
    number = first
    while True:
        epoch, at = divmod(number, len(everything))
        order = list(range(len(everything)))
        random.Random(f"{seed}/{epoch}").shuffle(order)
        r = random.Random(f"{seed}/{number}")
        pack = None
        while pack is None:
            pack = make_pack(tokens, everything, everything[order[at]], r, recipe)
        yield pack
        number += 1
