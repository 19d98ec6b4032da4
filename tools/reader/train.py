#!/usr/bin/env python3
"""Trains the reader from nothing, or on from a trained one.

    train.py --out DIR [--tokens 9e6] [--preset cpu|gpu|more] [--from MODEL] [--seed 1]

Uses a GPU when there is one, else the CPU. DIR/checkpoint.pt is written every few minutes, and the
same command goes on from it; DIR/log.jsonl has the progress, DIR/model the folder that Lectern and
transformers load. --from begins with the reader in a folder, put into the preset's number of layers
(`more` is made for that). The data is made while training, each batch from (seed, number of the batch), so
that an interrupted training sees what an uninterrupted one sees.

PyTorch, and sentencepiece for the tokens.
"""

import argparse
import contextlib
import dataclasses
import functools
import json
import math
import multiprocessing
import pathlib
import random
import time

import numpy as np
import sentencepiece
import torch
import torch.nn.functional as F

import documents
import english
import network

BOS, EOS = 1, 2
NEAR = 48                  # keys so few rows back are never given more weight, see Batch


@dataclasses.dataclass
class Stage:
    """A part of the training; the learning rate is for all of it, see learning_rate()."""
    share: float           # of all tokens
    document: int          # rows of the document
    questions: int         # rows of the questions about it
    batch: int             # documents
    facts: tuple           # share of the document that is facts, at least and at most
    weight: float = 0.3    # chance that irrelevant keys are given more weight
    most_weight: float = 16
    jump: float = 0.4      # chance of jumps in the positions
    plain: float = 0.0     # share of documents that are simple: single plain facts


@dataclasses.dataclass
class Preset:
    """A model and the stages of its training."""
    shape: network.Shape
    stages: list
    rate: float = 0.02     # of Muon, for matrices
    adam_rate: float = 3e-3
    longest_jump: int = 100000
    shown: float = 0.5         # weight, at the start, of showing the middle layers where to look


PRESETS = {
    # About an hour of two cores.
    "cpu": Preset(network.Shape(), [
        Stage(0.12, 96, 96, 12, (0.6, 1.0), weight=0, plain=1.0),
        Stage(0.20, 192, 160, 8, (0.4, 1.0), plain=0.3),
        Stage(0.38, 384, 320, 5, (0.3, 0.9)),
        Stage(0.22, 640, 448, 4, (0.2, 0.9), most_weight=32),
        Stage(0.08, 1536, 640, 2, (0.1, 0.8), most_weight=32)]),
    # Hours of two cores, from a reader that `cpu` made: two layers more, more facts at once.
    "more": Preset(network.Shape(layers=8), [
        Stage(0.30, 384, 320, 5, (0.3, 0.9)),
        Stage(0.35, 704, 512, 3, (0.3, 0.9), most_weight=32),
        Stage(0.25, 1024, 640, 2, (0.2, 0.9), most_weight=32),
        Stage(0.10, 2048, 768, 1, (0.1, 0.8), most_weight=32)], rate=0.01, adam_rate=1.5e-3,
        shown=0.25),
    # About an hour of an H100: a wider model, longer documents.
    "gpu": Preset(network.Shape(width=320, layers=10, heads=8, kv_heads=4, ffn=640), [
        Stage(0.02, 96, 96, 256, (0.6, 1.0), weight=0, plain=1.0),
        Stage(0.10, 256, 256, 128, (0.4, 1.0), plain=0.3),
        Stage(0.28, 768, 640, 40, (0.2, 0.9)),
        Stage(0.30, 2048, 1024, 16, (0.1, 0.9), most_weight=64),
        Stage(0.20, 6144, 1536, 6, (0.05, 0.7), most_weight=32),
        Stage(0.10, 16384, 2048, 2, (0.03, 0.5), most_weight=16)]),
}

TASKS = {"facts": 0.84, "needle": 0.10, "variable": 0.04, "words": 0.02}


# ---- batches -------------------------------------------------------------------------------------

class Tokens:
    """Token ids as Lectern's prompt has them: document and questions are encoded apart."""

    def __init__(self, path):
        self.pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))

    def of_piece(self, text):
        """A piece of a document. Encoding the whole text gives the same: no piece of the
        vocabulary crosses a blank or a line break."""
        if text.startswith("\n"):
            return self.pieces.encode(text)[1:]          # without the blank put before it
        return self.pieces.encode(text.removeprefix(" "))

    def prompt(self, question):
        return self.pieces.encode(f"\n\nQuestion: {question}\nAnswer:")[1:]

    def answer(self, text):
        return self.pieces.encode(text) + [EOS]


def find(values, ids, begin, end):
    """Where `values` stands in ids[begin:end], or -1."""
    for at in range(begin, end - len(values) + 1):
        if ids[at:at + len(values)] == values:
            return at
    return -1


def make_item(r, tokens, stage, split, wordings, task=None, longest_jump=0):
    """One document of exactly stage.document rows and the questions that fit beside it.

    -> ids, positions, weights, block (the question a row belongs to, -1 in the document),
       extra (what is added to the logits of each document key), source (the document row that
       holds the token that a row should predict, -1: none), link (the document row that leads to
       what answers, where two facts do: the last of the entity's name), kinds (per block)"""
    plain = r.random() < stage.plain
    task = task or ("facts" if plain else r.choices(list(TASKS), list(TASKS.values()))[0])
    o = documents.Options(split=split, wordings=wordings, refusals=0.15)
    if plain:
        o = documents.Options(split=split, wordings=wordings, hard=0.1, linked=0.0, extras=0.0,
                              refusals=0.0, blocks=0.0, simple=True)
    elif split == "train":
        o.hard, o.linked = r.choice([0.3, 0.5, 0.7]), r.choice([0.3, 0.6])
        o.refusals = r.choice([0.1, 0.3])
    size = stage.document
    share = r.uniform(*stage.facts)
    count = max(2, int(size * share / {"facts": 17, "needle": 26, "variable": 14, "words": 36}[task]))
    if task != "facts":
        count = min(count, 60)
    document = documents.make_document(
        r, int(size * 1.02) + 8, count, o, task, measure=lambda text: len(text) / 3.8,
        other_filler=english.filler(split, 0.25) if split == "train" else None)
    ids, starts = [BOS], []
    for piece in document.pieces:
        starts.append(len(ids))
        ids += tokens.of_piece(piece.text)
    starts.append(len(ids))
    while len(ids) < size:
        ids += tokens.of_piece(" " + documents.filler(r, split))
    ids = ids[:size]

    positions = np.arange(size)
    end = size
    if r.random() < stage.jump and longest_jump:
        jumps = np.zeros(size + 1, np.int64)
        leap = lambda: int(math.exp(r.uniform(0, math.log(longest_jump / 4))))
        inside = [s for s in starts[1:-1] if s < size]
        for at in r.sample(inside, min(len(inside), r.randint(1, 6))) + [size]:
            jumps[at] += leap()
        if r.random() < 0.5:
            jumps[1] += leap()                           # all but <s>
        jumps = np.minimum(np.cumsum(jumps), longest_jump)
        positions, end = positions + jumps[:size], size + jumps[size]

    rows, places, weights, block, kinds, relevant = list(ids), [positions], [0.0] * size, \
        [-1] * size, [], set()
    source, link = [-1] * size, [-1] * size
    room = stage.questions
    before = None                                        # a question asked earlier
    for q in document.questions:
        needed = {s.piece for _, s in q.answers}
        if q.via:
            needed.add(q.via[1].piece)
        if any(starts[p + 1] > size for p in needed):
            continue
        prompt, answer = tokens.prompt(q.text), tokens.answer(q.answer())
        if len(prompt) + len(answer) > room:
            break
        room -= len(prompt) + len(answer)
        follows = before is not None and r.random() < 0.08
        if not follows:
            kinds.append(q.kind)
            before = 0
        block += [len(kinds) - 1] * (len(prompt) + len(answer))
        rows += prompt + answer
        source += [-1] * (len(prompt) - 1 + len(answer) + 1)
        for value, statement in [] if q.fixed else q.answers:
            values = tokens.pieces.encode(value)
            start = find(values, ids, starts[statement.piece], starts[statement.piece + 1])
            place = find(values, answer, 0, len(answer))
            for i in range(len(values) if min(start, place) >= 0 else 0):
                source[len(rows) - len(answer) - 1 + place + i] = start + i
        leads = -1
        if q.via:
            name, piece = tokens.pieces.encode(q.via[0]), q.via[1].piece
            start = find(name, ids, starts[piece], starts[piece + 1])
            leads = start + len(name) - 1 if start >= 0 else -1
        link += [-1] * (len(prompt) - 1) + [leads] * len(answer) + [-1]
        # A row is weighed by what it should predict, the row after it.
        weights += [0.1] * (len(prompt) - 1) + [1.0] * len(answer) + [0.0]
        places.append(end + before + np.arange(len(prompt) + len(answer)))
        before += len(prompt) + len(answer)
        for p in needed:
            relevant.update(range(starts[p], min(starts[p + 1], size)))
    rows += [EOS] * room
    weights += [0.0] * room
    block += [-2] * room
    source += [-1] * room
    link += [-1] * room
    places.append(end + np.arange(room))

    extra = np.zeros(size, np.float32)
    if r.random() < stage.weight:
        # As if every key that no question needs occurred m times: a short document stands for a
        # long one.
        extra[:] = math.log(math.exp(r.uniform(0, math.log(stage.most_weight))))
        extra[list(relevant)] = 0
        extra[0] = 0
    return (np.array(rows), np.concatenate(places), np.array(weights, np.float32),
            np.array(block), extra, np.array(source), np.array(link), kinds)


@dataclasses.dataclass
class Batch:
    """Items of make_item(), stacked; kinds: a list for each."""
    ids: torch.Tensor
    positions: torch.Tensor
    weights: torch.Tensor
    block: torch.Tensor
    extra: torch.Tensor
    source: torch.Tensor
    link: torch.Tensor
    kinds: list

    @staticmethod
    def of(items):
        columns = [torch.from_numpy(np.stack(c)) for c in list(zip(*items))[:7]]
        return Batch(*columns, [item[7] for item in items])

    def to(self, device):
        moved = [getattr(self, f.name).to(device, non_blocking=True)
                 for f in dataclasses.fields(self)[:7]]
        return Batch(*moved, self.kinds)

    def watch(self, size, layers):
        """For Reader.forward: which question rows should look at which document rows. The middle
        layer at the token to copy; the one before it at what leads there, where two facts do."""
        watched = {}
        for layer, rows in ((layers // 2, self.source), (layers // 2 - 1, self.link)):
            item, row = (rows[:, size:] >= 0).nonzero(as_tuple=True)
            if len(item):
                watched[layer] = item, row, rows[:, size:][item, row]
        return watched

    def question_mask(self, size):
        """(batch, 1, question rows, rows)"""
        block = self.block[:, size:]
        rows = torch.arange(block.shape[1], device=block.device)
        own = (block[:, :, None] == block[:, None, :]) & (rows[:, None] >= rows[None, :])
        mask = torch.full(own.shape, float("-inf"), device=block.device).masked_fill(own, 0.0)
        extra = self.extra[:, None, :].expand(-1, block.shape[1], -1)
        return torch.cat([extra, mask], 2)[:, None]

    def document_mask(self, size):
        """(batch, 1, size, size) where keys have extra weight, else None"""
        if not self.extra.any():
            return None
        rows = torch.arange(size, device=self.extra.device)
        back = rows[:, None] - rows[None, :]
        mask = torch.where(back > NEAR, self.extra[:, None, :], 0.0)
        return mask.masked_fill(back < 0, float("-inf"))[:, None]


def make_batch(tokens, stage, seed, split="train", wordings="train", task=None, longest_jump=0):
    """The batch of a seed (any text): the same items in every run."""
    items = []
    for i in range(stage.batch):
        r = random.Random(f"{seed}/{i}")
        items.append(make_item(r, tokens, stage, split, wordings, task, longest_jump))
    return Batch.of(items)


_tokens = None


def _start_worker(path):
    global _tokens
    torch.set_num_threads(1)
    _tokens = Tokens(path)


def _work(stage, seed, longest_jump):
    return make_batch(_tokens, stage, seed, longest_jump=longest_jump)


def stream(path, schedule, seed, first, longest_jump, workers):
    """The batches from number `first` on, in order, made by other processes."""
    with multiprocessing.get_context("spawn").Pool(workers, _start_worker, (str(path),)) as pool:
        waiting = []
        for number in range(first, len(schedule)):
            waiting.append(pool.apply_async(_work, (schedule[number], f"{seed}/{number}",
                                                    longest_jump)))
            if len(waiting) > 3 * workers:
                yield waiting.pop(0).get()
        for result in waiting:
            yield result.get()


def token_shares(tokens):
    """(vocabulary): how frequent each token is in generated text; none is 0."""
    counts = torch.ones(tokens.pieces.vocab_size())
    r = random.Random(9)
    for _ in range(60):
        document = documents.make_document(r, 1500, 25, documents.Options())
        for text in [document.text()] + [q.text for q in document.questions]:
            counts += torch.bincount(torch.tensor(tokens.pieces.encode(text)),
                                     minlength=len(counts))
    return counts / counts.sum()


# ---- the optimizer -------------------------------------------------------------------------------

def orthogonalise(stack):
    """The nearest semi-orthogonal matrices, by five Newton-Schulz steps."""
    x = stack / (stack.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    x = x.bfloat16() if x.is_cuda else x
    tall = x.shape[1] > x.shape[2]
    x = x.transpose(1, 2) if tall else x
    for _ in range(5):
        a = x @ x.transpose(1, 2)
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return (x.transpose(1, 2) if tall else x).to(stack.dtype)


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalised: for the matrices between the embedding and the logits."""

    def __init__(self, parameters, lr, momentum=0.95, decay=0.01):
        super().__init__(parameters, dict(lr=lr, momentum=momentum, decay=decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            by_shape = {}
            for p in group["params"]:
                state = self.state[p]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(p)
                m = state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                update = p.grad.lerp(m, group["momentum"])
                by_shape.setdefault(p.shape, []).append((p, update))
            for shape, entries in by_shape.items():
                updates = orthogonalise(torch.stack([u for _, u in entries]))
                updates *= max(1, shape[0] / shape[1]) ** 0.5
                for (p, _), u in zip(entries, updates):
                    p.mul_(1 - group["lr"] * group["decay"]).add_(u, alpha=-group["lr"])


def learning_rate(done):
    """The factor after this share of all tokens: down to nothing in a straight line."""
    return max(0.01, min(1.0, 1.05 - done))


# ---- measuring -----------------------------------------------------------------------------------

def exact_matches(batch, logits_argmax, size):
    """-> {kind: [right or not of each block]}: every answer token is the likeliest."""
    right = (logits_argmax == torch.roll(batch.ids, -1, 1)) | (batch.weights < 1)
    result = {}
    for b, kinds in enumerate(batch.kinds):
        for i, kind in enumerate(kinds):
            rows = batch.block[b] == i
            result.setdefault(kind, []).append(bool(right[b][rows].all()))
    return result


@torch.no_grad()
def evaluate(model, tokens, size, wordings, device, seed=1, num_batches=4):
    """The share of questions about held-out names whose answer tokens are all the likeliest: "all",
    each kind, and "n", the number of questions. The model must be in evaluation mode."""
    stage = Stage(1, size, 320, max(1, 2048 // size), (0.15, 0.5), weight=0, jump=0)
    found = {}
    for i in range(num_batches):
        batch = make_batch(tokens, stage, f"evaluate {seed}/{i}", "eval", wordings).to(device)
        hidden = model(batch.ids, batch.positions, size, batch.question_mask(size))
        argmax = model.logits(hidden[:, size:]).argmax(-1)
        argmax = F.pad(argmax, (size, 0))
        for kind, right in exact_matches(batch, argmax, size).items():
            found.setdefault(kind, []).extend(right)
    every = [x for right in found.values() for x in right]
    return {"all": round(float(np.mean(every)), 3), "n": len(every),
            **{k: round(float(np.mean(v)), 2) for k, v in sorted(found.items())}}


# ---- training ------------------------------------------------------------------------------------

def main(given=None):
    """Trains, and writes what the top of the file says. given: the arguments; None: the command
    line."""
    parser = argparse.ArgumentParser(description="Trains the reader; see the top of the file.")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--preset", choices=PRESETS)
    parser.add_argument("--tokens", type=float)
    parser.add_argument("--from", dest="begin", type=pathlib.Path, help="folder of a reader")
    parser.add_argument("--tokenizer", type=pathlib.Path,
                        default=pathlib.Path(__file__).parent / "model/tokenizer.model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--stop-at", type=int, default=0, help="batch to stop at; the same command "
                        "without it goes on")
    a = parser.parse_args(given)

    device = "cuda" if torch.cuda.is_available() else "cpu"
    preset = PRESETS[a.preset or ("gpu" if device == "cuda" else "cpu")]
    total = a.tokens or (1.5e9 if device == "cuda" else 9e6)
    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    a.out.mkdir(parents=True, exist_ok=True)
    tokens = Tokens(a.tokenizer)
    preset.shape.vocab = tokens.pieces.vocab_size()

    if a.begin:
        model = network.deepen(network.load(a.begin).train(), preset.shape.layers)
    else:
        model = network.Reader(preset.shape)
        network.wire(model, token_shares(tokens))
    model.to(device)
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and "embed" not in n]
    others = [p for n, p in model.named_parameters() if p.dim() != 2 or "embed" in n]
    optimizers = [Muon(matrices, preset.rate),
                  torch.optim.AdamW(others, preset.adam_rate, betas=(0.9, 0.95), weight_decay=0)]
    base = [preset.rate, preset.adam_rate]

    schedule = []
    for stage in preset.stages:
        rows = stage.batch * (stage.document + stage.questions)
        schedule += [stage] * max(1, round(stage.share * total / rows))
    first = seen = 0
    checkpoint = a.out / "checkpoint.pt"
    if checkpoint.exists():
        saved = torch.load(checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(saved["model"])
        for optimizer, state in zip(optimizers, saved["optimizers"]):
            optimizer.load_state_dict(state)
        first, seen = saved["batches"], saved["tokens"]

    log = open(a.out / "log.jsonl", "a", buffering=1)

    def say(**what):
        print(json.dumps(what), file=log)
        print(json.dumps(what), flush=True)

    def save(batches):
        torch.save({"model": model.state_dict(), "batches": batches, "tokens": seen,
                    "optimizers": [o.state_dict() for o in optimizers]}, a.out / "new.pt")
        (a.out / "new.pt").rename(checkpoint)
        network.export(model, a.out / "model", a.tokenizer)

    say(parameters=sum(p.numel() for p in model.parameters()), device=device, batches=len(schedule),
        first=first, tokens=total, seed=a.seed, preset=a.preset, torch=torch.__version__)
    precision = functools.partial(torch.autocast, "cuda", torch.bfloat16) if device == "cuda" \
        else contextlib.nullcontext
    begun = last_said = last_saved = time.time()
    recent, matches, rows_since = [], {}, 0
    workers = a.workers or (14 if device == "cuda" else 1)
    batches = stream(a.tokenizer, schedule, a.seed, first, preset.longest_jump, workers)
    for number, batch in enumerate(batches, first):
        stage = schedule[number]
        size = stage.document
        factor = learning_rate(seen / total) * min(1.0, (number + 1) / 30)
        for optimizer, rate in zip(optimizers, base):
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
        batch = batch.to(device)
        with precision():
            # At first the middle layer is shown where the answers stand.
            shown = max(0.0, preset.shown * (1 - 2 * seen / total))
            watch = batch.watch(size, preset.shape.layers) if shown else None
            hidden = model(batch.ids, batch.positions, size, batch.question_mask(size),
                           batch.document_mask(size), watch)
            looked = None
            if watch:
                hidden, looked = hidden
        # The document's own next tokens, one in eight, keep the windows of words useful.
        weights = batch.weights.clone()
        weights[:, number % 8:size - 1:8] = 0.05
        chosen = weights > 0
        targets = torch.roll(batch.ids, -1, 1)[chosen]
        weighed = weights[chosen]
        logits = model.logits(hidden[chosen].float())
        losses = F.cross_entropy(logits, targets, reduction="none")
        loss = (losses * weighed).sum() / weighed.sum()
        if looked is not None:
            loss = loss - shown * looked.mean()
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        seen += batch.ids.numel()
        rows_since += batch.ids.numel()

        with torch.no_grad():
            answers = weighed == 1
            guess = torch.zeros_like(batch.ids)
            guess[chosen] = logits.argmax(-1)
            recent.append((losses[answers].mean().item(),
                           (logits[answers].argmax(-1) == targets[answers]).float().mean().item()))
            for kind, right in exact_matches(batch, guess, size).items():
                matches.setdefault(kind, []).extend(right)
        now = time.time()
        if now - last_said > 60 or number == len(schedule) - 1:
            say(minutes=round((now - begun) / 60, 1), batch=number + 1, mtokens=round(seen / 1e6, 2),
                rows=size, per_second=int(rows_since / (now - last_said)),
                loss=round(float(np.mean([x for x, _ in recent])), 3),
                token_accuracy=round(float(np.mean([x for _, x in recent])), 3),
                looked=None if looked is None else round(looked.mean().item(), 2),
                exact={k: round(float(np.mean(v)), 2) for k, v in sorted(matches.items())})
            recent, matches, rows_since, last_said = [], {}, 0, now
        over = a.stop_at and number + 1 >= a.stop_at
        if now - last_saved > 420 or number == len(schedule) - 1 or over:
            model.eval()
            for wordings in ("train", "eval"):
                for length in (256, 1024):
                    say(held_out_names=True, wordings=wordings, length=length,
                        exact=evaluate(model, tokens, length, wordings, device))
            model.train()
            save(number + 1)
            last_said = last_saved = time.time()
            rows_since = 0
        if over:
            break


if __name__ == "__main__":
    main()
