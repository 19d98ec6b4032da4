#!/usr/bin/env python3
"""Lectern beside llama.cpp with a saved state: same weights, same token ids, same threads.

    compare_llama_cpp.py --bin BUILD/tests/bench/ask_bench --work DIR [--model S|M] [--depth N…]
                         [--pairs 5] [--threads 1] [--cold]

Needs numpy, gguf and llama-cpp-python from PyPI. Models and documents are made in DIR once
(make_models.py, ask_bench). At depths above 4,096 tokens the KV is synthetic on both sides: the
first tokens' KV, repeated (here with noise, so that keys are not all the same).

Each pair asks both, one after the other; figures are medians of the pairs, and in brackets how many
times faster Lectern is: the median of the pairs' ratios. With one thread, CPU time of the process;
with more, wall time: only on a machine that does nothing else. llama.cpp has the better flag of each
column: flash attention for questions, none for decoding; KV f16. `--cold`: also from process start
to the first token with page caches dropped (needs root), peak memory and the size of the state.
Prints a Markdown table.
"""
import argparse
import ctypes
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import time

import numpy as np

HERE = pathlib.Path(__file__).parent
PREFILLED = {"S": 4096, "M": 512}
QUESTIONS = (64, 512)
ANSWER = 16


def clock(threads):
    return time.process_time() if threads == 1 else time.monotonic()


def status_kb(key):
    for line in open("/proc/self/status"):
        if line.startswith(key + ":"):
            return int(line.split()[1])
    return 0


class Rival:
    """A context of llama.cpp whose first `depth` cells are filled."""

    def __init__(self, path, depth, flash, threads):
        import llama_cpp
        self.lib = llama_cpp
        quiet = llama_cpp.llama_log_callback(lambda *_: None)
        self.quiet = quiet
        llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
        self.model = llama_cpp.llama_model_load_from_file(
            str(path).encode(), llama_cpp.llama_model_default_params())
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = depth + 1024
        params.n_batch = params.n_ubatch = 512
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = 1 if flash else 0
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        assert self.context and llama_cpp.llama_n_ctx(self.context) >= depth
        self.flash, self.depth, self.threads = flash, depth, threads

    def decode(self, ids):
        """Feeds ids; returns the id of the largest last logit."""
        for begin in range(0, len(ids), 512):
            part = ids[begin:begin + 512]
            array = (self.lib.llama_token * len(part))(*part)
            batch = self.lib.llama_batch_get_one(array, len(part))
            assert self.lib.llama_decode(self.context, batch) == 0
        return int(np.argmax(self.logits()))

    def logits(self):
        vocabulary = self.lib.llama_vocab_n_tokens(self.lib.llama_model_get_vocab(self.model))
        pointer = self.lib.llama_get_logits_ith(self.context, -1)
        return np.ctypeslib.as_array(pointer, shape=(vocabulary,))

    def forget(self):
        memory = self.lib.llama_get_memory(self.context)
        assert self.lib.llama_memory_seq_rm(memory, 0, self.depth, -1)

    def state(self):
        size = self.lib.llama_state_seq_get_size(self.context, 0)
        buffer = (ctypes.c_uint8 * size)()
        assert self.lib.llama_state_seq_get_data(self.context, buffer, size, 0) == size
        return bytes(buffer)

    def restore(self, state):
        buffer = (ctypes.c_uint8 * len(state)).from_buffer(bytearray(state))
        assert self.lib.llama_state_seq_set_data(self.context, buffer, len(state), 0) == len(state)

    def fill(self, tokens):
        """With the KV of `tokens`, repeated up to the depth."""
        self.decode(tokens)
        if len(tokens) < self.depth:
            state = repeated(self.state(), self.depth)
            self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
            self.restore(state)

    def close(self):
        self.lib.llama_free(self.context)
        self.lib.llama_model_free(self.model)


def repeated(state, depth):
    """A state of llama.cpp (state_seq_get_data, one stream) with its cells repeated."""
    at = 0

    def take(form):
        nonlocal at
        values = struct.unpack_from("<" + form, state, at)
        at += struct.calcsize("<" + form)
        return values if len(values) > 1 else values[0]

    magic, sequence, streams, cells = take("IiII")
    assert streams == 1
    for i in range(cells):
        assert take("iIi") == (i, 1, 0)
    copies = -(-depth // cells)
    parts = [struct.pack("<IiII", magic, sequence, 1, depth)]
    parts += [struct.pack("<iIi", i, 1, 0) for i in range(depth)]

    def rows(size):
        nonlocal at
        block = state[at:at + cells * size]
        at += cells * size
        parts.append((block * copies)[:depth * size])

    transposed, layers = take("I"), take("I")
    parts.append(struct.pack("<II", transposed, layers))
    for _ in range(layers):
        kind, size = take("iQ")
        parts.append(struct.pack("<iQ", kind, size))
        rows(size)
    for _ in range(layers):
        if not transposed:
            kind, size = take("iQ")
            parts.append(struct.pack("<iQ", kind, size))
            rows(size)
        else:
            kind, size, columns = take("iII")
            parts.append(struct.pack("<iII", kind, size, columns))
            for _ in range(columns):
                rows(size)
    assert at == len(state), (at, len(state))
    return b"".join(parts)


class Lectern:
    def __init__(self, binary, model, store, depth, threads):
        self.process = subprocess.Popen(
            [binary, "ask", model, store, str(depth), str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.key = "cpu_ms" if threads == 1 else "ms"

    def ask(self, budget, question, answer):
        self.process.stdin.write(f"{budget} {question} {answer}\n")
        self.process.stdin.flush()
        result = json.loads(self.process.stdout.readline())
        result["prefill"] = result["prefill_" + self.key] / 1000
        result["token"] = result["token_" + self.key] / 1000
        return result

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def prepare(args):
    folder = args.work / args.model
    if not (folder / "model.gguf").exists():
        subprocess.run([sys.executable, HERE / "make_models.py", args.model, folder], check=True)
    (args.work / "store").mkdir(exist_ok=True)
    for depth in args.depth:
        record = args.work / f"{args.model}-{depth}.json"
        if record.exists():
            continue
        command = [args.bin, "index", folder, args.work / f"store-{args.model}", str(depth)]
        if depth > PREFILLED[args.model]:
            command.append(str(PREFILLED[args.model]))
        record.write_text(subprocess.run(command, check=True, capture_output=True).stdout.decode())
    return folder


def rival_question(rival, ids):
    rival.forget()
    start = clock(rival.threads)
    token = rival.decode(ids)
    return clock(rival.threads) - start, token


def rival_decode(rival, ids, count):
    rival.forget()
    token = rival.decode(ids)
    start = clock(rival.threads)
    for _ in range(count):
        token = rival.decode([token])
    return (clock(rival.threads) - start) / count


def cell(ours, theirs):
    ratio = statistics.median(t / o for o, t in zip(ours, theirs))
    return f"{1000 * statistics.median(ours):.1f} ({ratio:.1f}x)"


def compare(args, folder, depth):
    """A row of the table: question of 64, of 512 tokens, decode."""
    record = json.loads((args.work / f"{args.model}-{depth}.json").read_text())
    tokens = record["tokens"][:min(depth, PREFILLED[args.model])]
    lectern = Lectern(args.bin, folder, args.work / f"store-{args.model}", depth, args.threads)
    columns = []
    for flash in (True, False):
        before = status_kb("VmRSS")
        rival = Rival(folder / "model.gguf", depth, flash, args.threads)
        rival.fill(tokens)
        for question in QUESTIONS if flash else (None,):
            if question == 512 and depth > args.longest_512:
                columns.append(["–"] * 3)
                continue
            theirs, sparse, dense = [], [], []
            for _ in range(args.pairs):
                # Warm on both sides: the first asks fault pages in.
                ours = lectern.ask(0.1, question or 64, 0 if flash else ANSWER)
                full = lectern.ask(1, question or 64, 0 if flash else ANSWER)
                if flash:
                    theirs.append(rival_question(rival, ours["question"])[0])
                else:
                    theirs.append(rival_decode(rival, ours["question"], ANSWER))
                sparse.append(ours["prefill" if flash else "token"])
                dense.append(full["prefill" if flash else "token"])
            columns.append([f"{1000 * statistics.median(theirs):.1f}", cell(sparse, theirs),
                            cell(dense, theirs)])
        print(f"depth {depth}, flash {flash}: resident {(status_kb('VmRSS') - before) // 1024} MiB",
              file=sys.stderr)
        rival.close()
    lectern.close()
    print(f"| {args.model} {depth} | " + " | ".join(" | ".join(c) for c in columns) + " |",
          flush=True)


def drop_caches():
    subprocess.run(["sync"], check=True)
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


def cold_rival(args, folder, depth):
    """In a process of its own: the time begins when Python has what it needs."""
    import llama_cpp
    record = json.loads((args.work / f"{args.model}-{depth}.json").read_text())
    state = args.work / f"{args.model}-{depth}.state"
    if not state.exists():
        rival = Rival(folder / "model.gguf", depth, True, args.threads)
        rival.fill(record["tokens"][:min(depth, PREFILLED[args.model])])
        none = (llama_cpp.llama_token * 0)()
        assert llama_cpp.llama_state_seq_save_file(rival.context, str(state).encode(), 0, none, 0)
        return print(json.dumps({}))
    question = [5] * 64
    drop_caches()
    before, start, wall = status_kb("VmHWM"), clock(1), time.monotonic()
    rival = Rival(folder / "model.gguf", depth, True, args.threads)
    out, count = (llama_cpp.llama_token * 1)(), ctypes.c_size_t(0)
    assert llama_cpp.llama_state_seq_load_file(rival.context, str(state).encode(), 0, out, 1,
                                               ctypes.byref(count))
    rival.decode(question)
    print(json.dumps(dict(cpu=clock(1) - start, wall=time.monotonic() - wall,
                          rss=status_kb("VmHWM") - before, state=state.stat().st_size)))


def cold_lectern(args, folder, depth):
    drop_caches()
    start, before = time.monotonic(), os.times()
    done = subprocess.run([args.bin, "ask", folder, args.work / f"store-{args.model}", str(depth),
                           str(args.threads)], input="0.1 64 0\n", text=True, check=True,
                          capture_output=True)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return dict(cpu=cpu, wall=time.monotonic() - start, rss=json.loads(done.stdout)["rss_kb"])


def cold(args, folder, depth):
    command = [sys.executable, __file__, *sys.argv[1:], "--cold-rival", str(depth)]
    def run():
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    run()
    pairs = [(cold_lectern(args, folder, depth), run()) for _ in range(args.pairs)]
    pairs = [(o, t) for o, t in pairs if t]
    middle = lambda side, key: statistics.median(pair[side][key] for pair in pairs)
    ratio = lambda key: statistics.median(t[key] / o[key] for o, t in pairs)
    print(f"| {args.model} {depth} | {middle(1, 'wall'):.2f} | {middle(0, 'wall'):.2f} "
          f"({ratio('wall'):.1f}x) | {middle(1, 'cpu'):.2f} | {middle(0, 'cpu'):.2f} "
          f"({ratio('cpu'):.1f}x) | {middle(1, 'rss') / 1024:.0f} | {middle(0, 'rss') / 1024:.0f} | "
          f"{pairs[0][1]['state'] / 1e6:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--model", choices=["S", "M"], default="S")
    parser.add_argument("--depth", type=int, nargs="+", default=[4096, 16384, 65536, 131072])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--longest-512", type=int, default=16384,
                        help="questions of 512 tokens up to this depth only")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--cold-rival", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    if args.cold_rival:
        return cold_rival(args, args.work / args.model, args.cold_rival)
    folder = prepare(args)
    if args.cold:
        print("| model, depth | llama.cpp, wall s | Lectern | llama.cpp, CPU s | Lectern | "
              "llama.cpp, MiB | Lectern | state, MB |\n|---|---|---|---|---|---|---|---|")
        for depth in args.depth:
            cold(args, folder, depth)
        return
    unit = "CPU ms" if args.threads == 1 else "ms"
    print(f"| model, depth | question of 64: llama.cpp, {unit} | Lectern, 0.1 | Lectern, 1 | "
          "question of 512: llama.cpp | Lectern, 0.1 | Lectern, 1 | token: llama.cpp | "
          "Lectern, 0.1 | Lectern, 1 |\n|---|---|---|---|---|---|---|---|---|---|")
    for depth in args.depth:
        compare(args, folder, depth)


if __name__ == "__main__":
    main()
