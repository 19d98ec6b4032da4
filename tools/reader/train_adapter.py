#!/usr/bin/env python3
"""Teaches SmolLM2-135M-Instruct to answer questions about a given document: a LoRA adapter.

  train_adapter.py --base MODEL.gguf --out FOLDER [--tokens 4e6]

A step is one pack (adapter_data.py): a document of 300 to 7,000 tokens and up to 30 questions about it,
each of which sees the document, all or in part, and itself alone. The loss is that of the answers'
tokens, and of where some heads look while the model answers: at the sentences that state the answer.
Ctrl-C and SIGTERM save and stop; the same command goes on there, with the same result as without a
stop. --out gets log.jsonl, checkpoint.pt and adapter/, which is the running mean of the weights, in
peft's format. It uses a GPU if there is one.
"""

import argparse
import itertools
import json
import pathlib
import signal
import threading
import time

import numpy as np
import torch
import torch.nn.functional as F

import adapter_answers
import adapter_data
import adapter_network
import judging
import package_texts

RATE, WARM = 6e-4, 10        # learning rate; steps until it is reached
COOL = 0.25                  # the last share of the tokens, in which it falls to nothing
LOOK = 0.2                   # weight of the loss on attention
WATCHED = 16                 # heads that are shown where answers stand
STOP = threading.Event()     # set by Ctrl-C and SIGTERM: save after this step, and end
MEAN = 0.98                  # of the running mean of the weights, a step


def watch_of(pack, targets, block, heads, before):
    """The rows that predict an answer to a fact, and where it stands. None: there is none."""
    stacked = lambda rows: torch.from_numpy(np.stack(rows)).to(block.device)
    gold = stacked([q.gold for q in pack.questions])
    rows = ((targets >= 0) & gold.any(1)[block]).nonzero()[:, 0]
    if not len(rows):
        return None
    visible = stacked([q.visible for q in pack.questions])
    return adapter_network.Watch(heads, rows, visible[block[rows]], gold[block[rows]], before)


@torch.no_grad()
def choose_heads(network, tokens, packs, device):
    """{layer: [query heads]}: the heads that look at the answers' sentences most before any training."""
    everything = {layer: list(range(network.heads)) for layer in range(len(network.layers))}
    sums = torch.zeros(len(network.layers) * network.heads)
    for pack in packs:
        ids, positions, targets, block = pack.tensors(device)
        watch = watch_of(pack, targets, block, everything, len(tokens.prefix))
        if watch is not None:
            sums += network.learn(ids, positions, pack.plan(), watch)[1].exp().mean(1).cpu()
    best = sums.argsort(descending=True)[:WATCHED].tolist()
    heads = {}
    for number in sorted(best):
        heads.setdefault(number // network.heads, []).append(number % network.heads)
    return heads


def losses(network, pack, heads, before, device):
    """-> loss of the answers' tokens, loss of where heads look (or None), share of questions whose tokens
    are all the likeliest"""
    ids, positions, targets, block = pack.tensors(device)
    watch = watch_of(pack, targets, block, heads, before)
    hidden, shares = network.learn(ids, positions, pack.plan(), watch, pack.is_whole)
    looked = None if shares is None else -shares.mean()
    rows = targets >= 0
    logits = network.logits(hidden[rows])
    answered = F.cross_entropy(logits, targets[rows])
    wrong = block[rows][logits.argmax(-1) != targets[rows]].unique()
    return answered, looked, 1 - len(wrong) / len(pack.questions)


class Training:
    """Everything that a checkpoint holds."""

    def __init__(self, network):
        self.network = network
        self.adapter = network.adapter()
        self.optimizer = torch.optim.AdamW(self.adapter.values(), RATE, betas=(.9, .98), weight_decay=.01)
        self.mean = {name: p.detach().clone() for name, p in self.adapter.items()}
        self.steps = self.tokens = 0
        self.seconds = 0.0  # of the processor's cores, whatever else they did meanwhile
        self.heads = None

    def state(self):
        return {"adapter": {n: p.detach() for n, p in self.adapter.items()}, "mean": self.mean,
                "optimizer": self.optimizer.state_dict(), "steps": self.steps, "tokens": self.tokens,
                "seconds": self.seconds, "heads": self.heads}

    def load(self, state):
        """Goes on from a state(). Errors of Network.load_adapter."""
        self.network.load_adapter(state["adapter"])
        self.network.to(next(iter(self.adapter.values())).device)
        self.optimizer.load_state_dict(state["optimizer"])
        with torch.no_grad():
            for name, t in self.mean.items():
                t.copy_(state["mean"][name])
        self.steps, self.tokens, self.seconds, self.heads = (
            state[key] for key in ("steps", "tokens", "seconds", "heads"))

    def step(self, pack, total, before, device):
        """One step of the optimizer on a pack, of `total` tokens in all. -> loss of the answers,
        loss of where heads look (or None), share of right questions"""
        left = (total - self.tokens) / (COOL * total)
        for group in self.optimizer.param_groups:
            group["lr"] = RATE * min(1, (self.steps + 1) / WARM) * max(0.0, min(1, left))
        answered, looked, right = losses(self.network, pack, self.heads, before, device)
        loss = answered if looked is None else answered + LOOK * looked
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.adapter.values(), 1.0)
        self.optimizer.step()
        self.steps += 1
        self.tokens += len(pack.document) + sum(len(q.prompt) + len(q.answer) for q in pack.questions)
        # The mean forgets its beginning, when there was nothing to average.
        keep = min(MEAN, self.steps / (self.steps + 10))
        with torch.no_grad():
            for name, p in self.adapter.items():
                self.mean[name].lerp_(p, 1 - keep)
        return answered.item(), None if looked is None else looked.item(), right

    def judged(self, tokens, documents, dtype, device):
        """Right answers about the held-out documents, by the mean of the weights."""
        kept = {n: p.detach().clone() for n, p in self.adapter.items()}
        self.network.load_adapter(self.mean)
        found = adapter_answers.shares(adapter_answers.judge(self.network, tokens, documents, dtype, device))
        self.network.load_adapter(kept)
        return found


def save(path, state):
    """Writes a checkpoint: the file is whole at every moment."""
    torch.save(state, path.with_suffix(".new"))
    path.with_suffix(".new").rename(path)


def average(values):
    """The mean of the values that are not None, with three decimals; None of none."""
    values = [v for v in values if v is not None]
    return round(sum(values) / len(values), 3) if values else None


def run(network, tokens, train, apart, options, dtype, device, recipe=adapter_data.Recipe()):
    """Trains until --tokens, or for --minutes. -> the Training"""
    options.out.mkdir(parents=True, exist_ok=True)
    with open(options.out / "log.jsonl", "a", buffering=1) as log:
        def say(**what):
            print(json.dumps(what), file=log)
            print(json.dumps(what), flush=True)
        return follow(network, tokens, train, apart, options, dtype, device, recipe, say)


def follow(network, tokens, train, apart, options, dtype, device, recipe, say):
    """run() with a function that writes the log. Goes on from the checkpoint in --out, if there is
    one."""
    training = Training(network)
    checkpoint = options.out / "checkpoint.pt"
    if checkpoint.exists():
        training.load(torch.load(checkpoint, map_location=device, weights_only=True))
    before = len(tokens.prefix)
    if training.heads is None:
        sample = itertools.islice(adapter_data.packs(tokens, train, f"heads {options.seed}", 0, recipe), 6)
        training.heads = choose_heads(network, tokens, sample, device)
    say(step=training.steps, tokens=training.tokens, seed=options.seed, documents=len(train), apart=len(apart),
        questions=sum(len(d.questions) for d in train), heads=training.heads, device=device,
        torch=torch.__version__)
    begun = said = saved = time.time()
    earlier, since, recent = training.seconds - time.process_time(), training.tokens, []
    judged = training.tokens // options.judge
    for pack in adapter_data.packs(tokens, train, options.seed, training.steps, recipe):
        is_last = training.tokens >= options.tokens
        now = time.time()
        training.seconds = earlier + time.process_time()
        stop = is_last or STOP.is_set() or (options.minutes and now - begun > 60 * options.minutes) or \
            (options.stop_at and training.steps >= options.stop_at)
        if recent and (now - said > options.say or stop):
            say(step=training.steps, tokens=training.tokens, core_minutes=round(training.seconds / 60, 1),
                per_second=int((training.tokens - since) / (now - said)),
                loss=average(x for x, _, _ in recent), looked=average(x for _, x, _ in recent),
                right=average(x for _, _, x in recent))
            recent, said, since = [], now, training.tokens
        if now - saved > 60 * options.save or stop:
            save(checkpoint, training.state())
            adapter_network.save_adapter(options.out / "adapter", training.mean, options.base_name)
            saved = now
        if apart and (training.tokens // options.judge > judged or is_last):
            say(step=training.steps, tokens=training.tokens,
                held_out=training.judged(tokens, apart, dtype, device))
            judged = training.tokens // options.judge
            said += time.time() - now
        if stop:
            break
        recent.append(training.step(pack, options.tokens, before, device))
    return training


def parse(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=pathlib.Path, required=True, help="the model's GGUF file")
    parser.add_argument("--base-name", default="HuggingFaceTB/SmolLM2-135M-Instruct")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--texts", type=pathlib.Path, default=package_texts.HOME / "texts")
    parser.add_argument("--questions", type=pathlib.Path, default=package_texts.QUESTIONS)
    parser.add_argument("--tokens", type=float, default=4e6, help="rows of all packs, at the end of which "
                        "the learning rate is nothing")
    parser.add_argument("--minutes", type=float, default=0, help="stop after these; the same command goes on")
    parser.add_argument("--stop-at", type=int, default=0, help="stop after this step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--say", type=float, default=60, help="seconds between lines of the log")
    parser.add_argument("--save", type=float, default=10, help="minutes between checkpoints")
    parser.add_argument("--judge", type=float, default=3e5, help="tokens between answers to held-out documents")
    return parser.parse_args(given)


def main():
    options = parse()
    if options.threads:
        torch.set_num_threads(options.threads)
    device, dtype = "cuda" if torch.cuda.is_available() else "cpu", torch.bfloat16
    everything = adapter_data.documents(options.questions, options.texts)
    train = [d for d in everything if not judging.is_held_out(d.package)]
    apart = [d for d in everything if judging.is_held_out(d.package)]
    tokens = adapter_data.Tokens.read(options.base)
    network = adapter_network.load(options.base, dtype, options.seed, compiled=True).to(device)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: STOP.set())
    run(network, tokens, train, apart, options, dtype, device)


if __name__ == "__main__":
    main()
