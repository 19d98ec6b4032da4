#!/usr/bin/env python3
"""Our logits of released models beside llama.cpp's and, on the dequantised weights, transformers'.

    logits.py --logits BUILD/tests/evaluation/gguf_logits --models FOLDER --text FILE --work FOLDER

Needs numpy, gguf, torch, transformers and llama-cpp-python from PyPI. The text's first CONTEXT tokens,
which are llama.cpp's, are the document; each of the next STEPS is one step. Everything is read, and
keys and values are float32 in all three. transformers computes in float32 what the file's weights are
worth. Written for each pair: the root of the mean square of the difference in standard deviations of
the second's logits, the mean and the largest KL divergence from the second, how often the greedy
choice is the same; and the perplexity of each.

Exits 1 where the mean KL from llama.cpp is above 0.01, where the perplexity differs from its by more
than 0.5 %, or where we are further from transformers than llama.cpp is.
"""
import argparse
import ctypes
import math
import pathlib
import subprocess
import sys
import zlib

import numpy as np

FILES = {"SmolLM2": "SmolLM2-135M-Instruct.Q4_1.gguf", "Gemma3": "gemma-3-270m-q4_k_m.gguf"}
CONTEXT, STEPS = 1024, 1024
MOST_KL, MOST_PERPLEXITY = 0.01, 0.005


class LlamaCpp:
    def __init__(self, path):
        import llama_cpp
        self.lib = llama_cpp
        self.quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.quiet, ctypes.c_void_p(0))
        self.llm = llama_cpp.Llama(model_path=str(path), vocab_only=True, verbose=False)
        self.model = self.lib.llama_model_load_from_file(str(path).encode(),
                                                         self.lib.llama_model_default_params())
        assert self.model, path

    def tokens(self, text):
        return np.array(self.llm.tokenize(text, add_bos=True)[:CONTEXT + STEPS], np.int32)

    def logits(self, ids):
        """One token a step, as we compute them."""
        lib, params = self.lib, self.lib.llama_context_default_params()
        params.n_ctx = params.n_batch = CONTEXT + STEPS + 8
        params.flash_attn_type = 0
        params.type_k = params.type_v = 0  # f32
        handle = lib.llama_init_from_model(self.model, params)
        assert handle
        size = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))
        rows = []
        for part in [ids[:CONTEXT]] + [[i] for i in ids[CONTEXT:]]:
            array = (lib.llama_token * len(part))(*[int(i) for i in part])
            assert lib.llama_decode(handle, lib.llama_batch_get_one(array, len(part))) == 0
            pointer = lib.llama_get_logits_ith(handle, -1)
            rows.append(np.ctypeslib.as_array(pointer, shape=(size,)).copy())
        lib.llama_free(handle)
        return np.array(rows[1:])


def transformers_logits(path, ids):
    import torch
    import transformers
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(
        str(path.parent), gguf_file=path.name, dtype=torch.float32).eval()
    with torch.no_grad():
        logits = model(input_ids=torch.from_numpy(ids[None].astype(np.int64)), use_cache=False,
                       logits_to_keep=STEPS).logits
    return logits[0].float().numpy()


def our_logits(program, path, ids):
    done = subprocess.run([program, path, str(CONTEXT)], input=ids.astype("<i4").tobytes(),
                          capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr.decode())
    return np.frombuffer(done.stdout, "<f4").reshape(STEPS, -1)


def cached(path, make):
    """References that take long are kept: a change of ours does not change them."""
    if not path.exists():
        np.save(path, make())
    return np.load(path, mmap_mode="r")


def log_probabilities(row):
    row = row.astype(np.float64)
    row = row - row.max()
    return row - math.log(np.exp(row).sum())


def compare(first, second):
    """Logits [steps, vocabulary] -> distance, KL of every step, share of equal choices."""
    squares, kl, same = 0.0, [], 0
    for a, b in zip(first, second):
        squares += np.square(a.astype(np.float64) - b).mean()
        p, q = log_probabilities(b), log_probabilities(a)
        kl.append(float((np.exp(p) * (p - q)).sum()))
        same += int(a.argmax() == b.argmax())
    distance = math.sqrt(squares / len(first)) / float(np.std(second, dtype=np.float64))
    return distance, np.array(kl), same / len(first)


def standard_error(values):
    return float(np.std(values, ddof=1)) / math.sqrt(len(values))


def perplexity(logits, ids):
    wanted = ids[CONTEXT + 1:]
    return math.exp(-np.mean([log_probabilities(row)[i] for row, i in zip(logits, wanted)]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--logits", required=True, type=pathlib.Path)
    parser.add_argument("--models", required=True, type=pathlib.Path)
    parser.add_argument("--text", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("names", nargs="*", default=list(FILES))
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    failed = []
    print("| model | pair | distance | mean KL | largest KL | same choice | perplexity |")
    print("|---|---|---:|---:|---:|---:|---|")
    for name in args.names:
        path = args.models / FILES[name]
        llama = LlamaCpp(path)
        ids = llama.tokens(args.text.read_bytes())
        assert len(ids) == CONTEXT + STEPS, f"{args.text}: {len(ids)} tokens"
        key = f"{name}-{zlib.crc32(ids.tobytes()):08x}"
        logits = {
            "Lectern": our_logits(args.logits, path, ids),
            "llama.cpp": cached(args.work / f"{key}-llama.npy", lambda: llama.logits(ids)),
            "transformers": cached(args.work / f"{key}-transformers.npy",
                                   lambda: transformers_logits(path, ids))}
        size = min(row.shape[1] for row in logits.values())
        logits = {who: rows[:, :size] for who, rows in logits.items()}
        worth = {who: perplexity(rows, ids) for who, rows in logits.items()}
        said = {}
        for pair in (("Lectern", "llama.cpp"), ("Lectern", "transformers"),
                     ("llama.cpp", "transformers")):
            said[pair] = compare(logits[pair[0]], logits[pair[1]])
            distance, kl, same = said[pair]
            print(f"| {name} | {pair[0]} – {pair[1]} | {distance:.4f} | {kl.mean():.5f} ± "
                  f"{standard_error(kl):.5f} | {kl.max():.3f} | "
                  f"{100 * same:.1f} % | {worth[pair[0]]:.3f} / {worth[pair[1]]:.3f} |", flush=True)
        if said["Lectern", "llama.cpp"][1].mean() > MOST_KL:
            failed.append(f"{name}: mean KL from llama.cpp is above {MOST_KL}")
        if abs(worth["Lectern"] / worth["llama.cpp"] - 1) > MOST_PERPLEXITY:
            failed.append(f"{name}: perplexity is not llama.cpp's")
        ours, theirs = (said[who, "transformers"] for who in ("Lectern", "llama.cpp"))
        if ours[0] > theirs[0]:
            failed.append(f"{name}: distance from transformers is more than llama.cpp's")
        # Both round activations to int8, each in its own way, so that one of two equally good ones has
        # the larger mean: it is further away where the steps' differences say so.
        further = ours[1] - theirs[1]
        if further.mean() > 2 * standard_error(further):
            failed.append(f"{name}: KL from transformers is {further.mean():.5f} ± "
                          f"{standard_error(further):.5f} more than llama.cpp's")
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
