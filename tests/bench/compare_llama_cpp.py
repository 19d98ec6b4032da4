#!/usr/bin/env python3
"""Lectern beside llama.cpp with a saved state: same weights, same token ids, same threads.

    compare_llama_cpp.py --bin BUILD/tests/bench/ask_bench --work DIR
                         [--model S|M | --gguf FILE --text FILE] [--depth N…] [--pairs 5]
                         [--threads 1]
                         [--prefill [--stride N] | --cold [--answer N] [--max-ram MIB]]

Needs numpy, gguf and llama-cpp-python from PyPI. Models and documents are made in DIR once
(make_models.py, ask_bench): S with f16 weights on both sides; M q8_0 there, q8 here. Prints a
Markdown table, a row for each depth. Each pair asks both, one after the other; figures are medians
of the pairs, and in brackets how many times less Lectern takes: the median of the pairs' ratios.
With one thread, CPU time of the process; with more, wall time: only on a machine that does nothing
else. KV f16. Of the depth, the KV above the first 4,096 tokens (M: 512) is synthetic on both sides:
that of the first tokens, repeated (here with noise, so that keys are not all the same).

With --gguf both sides have the same released model, and the document is the beginning of a text: at
most as many tokens as the depth, all of them prefilled on both sides.

Without --prefill or --cold: a question of 64 tokens, one of 512, and a token of an answer, to a
document that both have open; budgets of 0.1 and 1. llama.cpp has the better flag of each column:
flash attention for questions, none for decoding. With --gguf two columns more: a token of a copy of
the document's beginning, with lookup decoding here and with llama-cpp-python's prompt lookup
(LlamaPromptLookupDecoding: two tokens are looked up, ten proposed) over document and question there;
and how many tokens each had of the copy.

--prefill: the whole document, once through the model, by chunks of 512 tokens; llama.cpp with flash
attention; here exact, as when a document is indexed, without the clustering after it. With one
thread. --stride N (a multiple of 512) measures the chunks that begin at multiples of N, and the
last, with synthetic KV before them, and adds up the line between them: hours become minutes.

--cold (root): from process start to the first token of the answer to 64 tokens, at 0.1, with page
caches dropped, but for programs and libraries, which are cached on both sides. Here the whole
process counts; there the time begins after Python has imported what it needs, and memory is what is
added from then on. llama.cpp maps its model, and reads the state that it has saved. Columns: wall
and CPU time; peak resident memory up to that token, mapped files that were touched included; what
is on disk of the document; and peak anonymous memory while --answer more tokens are generated (in
the first pair alone), in brackets how much it grew. --max-ram: of Lectern, which then lets pages of
the document go.
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
WEIGHTS = {"S": "stored", "M": "q8"}
CHUNK = 512
QUESTIONS = (64, 512)
ANSWER = 16
COPY = "Copy the first paragraph of the text word for word."
COPIED = 64


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
        params.n_batch = params.n_ubatch = CHUNK
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = 1 if flash else 0
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        assert self.context and llama_cpp.llama_n_ctx(self.context) >= depth
        self.flash, self.depth, self.threads = flash, depth, threads

    def decode_all(self, ids, place):
        """Feeds ids from that position on; returns the ids of the largest logit behind each."""
        batch = self.lib.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.logits[i] = token, place + i, True
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
        assert self.lib.llama_decode(self.context, batch) == 0
        self.lib.llama_batch_free(batch)
        return [int(np.argmax(self.logits(i))) for i in range(len(ids))]

    def decode(self, ids):
        """Feeds ids; returns the id of the largest last logit."""
        for begin in range(0, len(ids), CHUNK):
            part = ids[begin:begin + CHUNK]
            array = (self.lib.llama_token * len(part))(*part)
            batch = self.lib.llama_batch_get_one(array, len(part))
            assert self.lib.llama_decode(self.context, batch) == 0
        return int(np.argmax(self.logits()))

    def logits(self, index=-1):
        vocabulary = self.lib.llama_vocab_n_tokens(self.lib.llama_model_get_vocab(self.model))
        pointer = self.lib.llama_get_logits_ith(self.context, index)
        return np.ctypeslib.as_array(pointer, shape=(vocabulary,))

    def is_end(self, token):
        return self.lib.llama_vocab_is_eog(self.lib.llama_model_get_vocab(self.model), token)

    def forget(self, place=None):
        memory = self.lib.llama_get_memory(self.context)
        assert self.lib.llama_memory_seq_rm(memory, 0, place or self.depth, -1)

    def state(self):
        size = self.lib.llama_state_seq_get_size(self.context, 0)
        buffer = (ctypes.c_uint8 * size)()
        assert self.lib.llama_state_seq_get_data(self.context, buffer, size, 0) == size
        return bytes(buffer)

    def restore(self, state):
        """The state and nothing else."""
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        buffer = (ctypes.c_uint8 * len(state)).from_buffer(bytearray(state))
        assert self.lib.llama_state_seq_set_data(self.context, buffer, len(state), 0) == len(state)

    def fill(self, tokens):
        """With the KV of `tokens`, repeated up to the depth."""
        self.decode(tokens)
        if len(tokens) < self.depth:
            self.restore(repeated(self.state(), self.depth))

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
    def __init__(self, binary, model, store, depth, threads, max_ram=0):
        self.process = subprocess.Popen(
            [binary, "ask", model, store, str(depth), str(threads), str(max_ram)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.key = "cpu_ms" if threads == 1 else "ms"

    def ask(self, budget, question, answer, lookup="off", text=""):
        self.process.stdin.write(f"{budget} {question} {answer} {lookup} {text}\n")
        self.process.stdin.flush()
        result = json.loads(self.process.stdout.readline())
        result["prefill"] = result["prefill_" + self.key] / 1000
        result["token"] = result["token_" + self.key] / 1000
        return result

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Source:
    """Where both sides find a model, and how much of a document is prefilled."""

    def __init__(self, args):
        self.is_real = bool(args.gguf)
        self.name = args.gguf.stem.split(".")[0] if args.gguf else args.model
        self.ours = args.gguf or make_model(args)
        self.gguf = args.gguf or self.ours / "model.gguf"
        self.weights = "stored" if args.gguf else WEIGHTS[args.model]

    def prefilled(self, depth):
        return depth if self.is_real else min(depth, PREFILLED[self.name])


def make_model(args):
    folder = args.work / args.model
    if not (folder / "model.gguf").exists():
        subprocess.run([sys.executable, HERE / "make_models.py", args.model, folder], check=True)
    return folder


def make_documents(args, source):
    for depth in args.depth:
        record = args.work / f"{source.name}-{depth}.json"
        if record.exists():
            continue
        command = [args.bin, "index", source.ours, args.work / f"store-{source.name}",
                   source.weights, str(depth)]
        if source.is_real:
            command += [str(depth), args.text]
        elif depth > source.prefilled(depth):
            command.append(str(source.prefilled(depth)))
        record.write_bytes(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


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


def rival_copy(rival, document, ids, count):
    """Seconds of a token, and how many there were: decoding with prompt lookup."""
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding
    propose = LlamaPromptLookupDecoding(max_ngram_size=2, num_pred_tokens=10)
    rival.forget()
    said = [rival.decode(ids)]
    known = [*document, *ids]
    start = clock(rival.threads)
    while len(said) <= count and not rival.is_end(said[-1]):
        place = len(known) + len(said) - 1
        proposed = [int(token) for token in propose(np.array(known + said, dtype=np.intc))]
        after = rival.decode_all([said[-1], *proposed], place)
        accepted = 0
        while accepted < len(proposed) and proposed[accepted] == after[accepted]:
            accepted += 1
        rival.forget(place + 1 + accepted)
        said += after[:accepted + 1]
    steps = max(len(said) - 1, 1)
    return (clock(rival.threads) - start) / steps, steps


def cell(ours, theirs, scale=1000, digits=1):
    ratio = statistics.median(t / o for o, t in zip(ours, theirs))
    return f"{scale * statistics.median(ours):.{digits}f} ({ratio:.1f}x)"


def compare(args, source, depth):
    """A row of the table: question of 64, of 512 tokens, decode, of real models a copy."""
    record = json.loads((args.work / f"{source.name}-{depth}.json").read_text())
    tokens = record["tokens"][:source.prefilled(depth)]
    lectern = Lectern(args.bin, source.ours, args.work / f"store-{source.name}", depth, args.threads)
    columns = []
    for flash in (True, False):
        before = status_kb("VmRSS")
        rival = Rival(source.gguf, len(tokens) if source.is_real else depth, flash, args.threads)
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
        if source.is_real and not flash:
            columns.append(compare_copies(args, lectern, rival, tokens))
        print(f"depth {depth}, flash {flash}: resident {(status_kb('VmRSS') - before) // 1024} MiB",
              file=sys.stderr)
        rival.close()
    lectern.close()
    shown = len(tokens) if source.is_real else depth
    print(f"| {source.name} {shown} | " + " | ".join(" | ".join(c) for c in columns) + " |",
          flush=True)


def compare_copies(args, lectern, rival, tokens):
    theirs, ours, steps = [], [], ()
    for _ in range(args.pairs):
        copy = lectern.ask(0.1, 0, COPIED, "auto", COPY)
        seconds, num_theirs = rival_copy(rival, tokens, copy["question"], COPIED)
        theirs.append(seconds)
        ours.append(copy["token"])
        steps = num_theirs, int(copy["steps"])
    return [f"{1000 * statistics.median(theirs):.1f}", cell(ours, theirs), "%d, %d" % steps]


def measured_chunks(args, depth):
    """Where they begin."""
    return sorted({*range(0, depth, args.stride), depth - CHUNK})


def whole(begins, seconds, depth):
    """Seconds of all chunks, by those of some, the first and the last among them."""
    return float(np.interp(range(0, depth, CHUNK), begins, seconds).sum())


def rival_prefill(args, source, depth, ids):
    rival = Rival(source.gguf, depth, True, 1)
    seconds, first = [], None
    for begin in measured_chunks(args, depth):
        if first and args.stride > CHUNK:
            rival.restore(repeated(first, begin))
        start = clock(1)
        rival.decode(ids[begin:begin + CHUNK])
        seconds.append(clock(1) - start)
        first = first or rival.state()
    rival.close()
    return seconds


def prefill(args, source, depth):
    begins, ours, theirs = measured_chunks(args, depth), [], []
    for _ in range(args.pairs):
        command = [args.bin, "prefill", source.ours, args.work / f"store-{source.name}",
                   source.weights, str(depth), str(args.stride)]
        result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        ours.append(whole(begins, result["cpu_s"], depth))
        theirs.append(whole(begins, rival_prefill(args, source, depth, result["tokens"]), depth))
    how = "all" if args.stride == CHUNK else f"1 in {args.stride // CHUNK}"
    print(f"| {source.name} {depth} | {how} | {statistics.median(theirs):.1f} | "
          f"{cell(ours, theirs, 1)} |", flush=True)


def drop_caches(keep=()):
    """But for the files `keep`."""
    subprocess.run(["sync"], check=True)
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    for path in keep:
        pathlib.Path(path).read_bytes()


def program_files(binary):
    """The program, and the libraries that it is linked with."""
    linked = subprocess.run(["ldd", binary], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [binary, *(word for word in linked.split() if word.startswith("/"))]


def save_state(args, source, depth):
    import llama_cpp
    record = json.loads((args.work / f"{source.name}-{depth}.json").read_text())
    rival = Rival(source.gguf, depth, True, args.threads)
    rival.fill(record["tokens"][:source.prefilled(depth)])
    none, path = (llama_cpp.llama_token * 0)(), args.work / f"{source.name}-{depth}.state"
    unfinished = path.with_suffix(".unfinished")
    assert llama_cpp.llama_state_seq_save_file(rival.context, str(unfinished).encode(), 0, none, 0)
    unfinished.rename(path)


def cold_rival(args, source, depth):
    """In a process of its own. Standard input: the question's ids."""
    import llama_cpp
    question = json.load(sys.stdin)
    drop_caches()
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins anew
    resident, anonymous = status_kb("VmRSS"), status_kb("RssAnon")
    wall, cpu = time.monotonic(), time.process_time()
    rival = Rival(source.gguf, depth, True, args.threads)
    out, count = (llama_cpp.llama_token * 1)(), ctypes.c_size_t(0)
    path = args.work / f"{source.name}-{depth}.state"
    assert llama_cpp.llama_state_seq_load_file(rival.context, str(path).encode(), 0, out, 1,
                                               ctypes.byref(count))
    token = rival.decode(question)
    result = dict(wall=time.monotonic() - wall, cpu=time.process_time() - cpu,
                  rss=status_kb("VmHWM") - resident, anonymous=[status_kb("RssAnon") - anonymous])
    for _ in range(args.answer):
        token = rival.decode([token])
        result["anonymous"].append(status_kb("RssAnon") - anonymous)
    print(json.dumps(result))


def cold_lectern(args, source, depth, answer):
    drop_caches(keep=program_files(args.bin))
    start = time.monotonic()
    lectern = Lectern(args.bin, source.ours, args.work / f"store-{source.name}", depth, args.threads,
                      args.max_ram)
    result = lectern.ask(0.1, 64, answer)
    lectern.close()
    first = result["first"]
    return dict(wall=first["clock_s"] - start, cpu=first["cpu_s"], rss=first["rss_kb"],
                anonymous=[first["anonymous_kb"], result["anonymous_kb"]],
                question=result["question"])


def cold(args, source, depth):
    def part(name, *more, question=()):
        command = [sys.executable, __file__, *sys.argv[1:], "--part", name, "--depth", str(depth)]
        return subprocess.run([*command, *more], input=json.dumps(question), text=True, check=True,
                              stdout=subprocess.PIPE).stdout

    state = args.work / f"{source.name}-{depth}.state"
    if not state.exists():
        part("save-state")
    record = json.loads((args.work / f"{source.name}-{depth}.json").read_text())
    ours, theirs = [], []
    for pair in range(args.pairs):
        answer = args.answer if pair == 0 else 0
        ours.append(cold_lectern(args, source, depth, answer))
        theirs.append(json.loads(part("cold-rival", "--answer", str(answer),
                                      question=ours[-1]["question"])))
    columns = []
    for key, scale, digits in (("wall", 1, 2), ("cpu", 1, 2), ("rss", 1 / 1024, 0)):
        a, b = [o[key] for o in ours], [t[key] for t in theirs]
        columns += [f"{scale * statistics.median(b):.{digits}f}", cell(a, b, scale, digits)]
    for size in state.stat().st_size, record["report"]["bytes_on_disk"]:
        columns.append(f"{size / 1e6:.0f}")
    for side in theirs[0], ours[0]:
        first, most = side["anonymous"][0], max(side["anonymous"])
        columns.append(f"{most / 1024:.0f} ({(most - first) / 1024:+.0f})" if args.answer else "–")
    print(f"| {source.name} {depth} | " + " | ".join(columns) + " |", flush=True)


def head(*columns):
    print("\n| model, depth | " + " | ".join(columns) + " |\n" + "|---" * (len(columns) + 1) + "|",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--model", choices=["S", "M"], default="S")
    parser.add_argument("--gguf", type=pathlib.Path, help="a released model, with --text")
    parser.add_argument("--text", type=pathlib.Path)
    parser.add_argument("--depth", type=int, nargs="+", default=[4096, 16384, 65536, 131072])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--longest-512", type=int, default=16384,
                        help="questions of 512 tokens up to this depth only")
    parser.add_argument("--prefill", action="store_true")
    parser.add_argument("--stride", type=int, default=CHUNK)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--answer", type=int, default=256)
    parser.add_argument("--max-ram", type=int, default=0, metavar="MIB")
    parser.add_argument("--part", help=argparse.SUPPRESS)  # of --cold, in a process of its own
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    if bool(args.gguf) != bool(args.text):
        parser.error("--gguf and --text need each other")
    source = Source(args)
    if args.part:
        return {"save-state": save_state, "cold-rival": cold_rival}[args.part](args, source,
                                                                              args.depth[0])
    unit = "CPU ms" if args.threads == 1 else "ms"
    if args.prefill:
        head("chunks measured", "llama.cpp, CPU s", "Lectern")
        row = prefill
    elif args.cold:
        head("llama.cpp, s", "Lectern", "llama.cpp, CPU s", "Lectern", "llama.cpp, MiB", "Lectern",
             "llama.cpp, MB on disk", "Lectern", "llama.cpp, anonymous MiB", "Lectern")
        row = cold
    else:
        head(f"question of 64: llama.cpp, {unit}", "Lectern, 0.1", "Lectern, 1",
             "question of 512: llama.cpp", "Lectern, 0.1", "Lectern, 1", "token: llama.cpp",
             "Lectern, 0.1", "Lectern, 1",
             *(["a copy's token: llama.cpp, prompt lookup", "Lectern, 0.1", "tokens"] *
               source.is_real))
        row = compare
    if not args.prefill:
        make_documents(args, source)
    for depth in args.depth:
        row(args, source, depth)


if __name__ == "__main__":
    main()
