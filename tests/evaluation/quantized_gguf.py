#!/usr/bin/env python3
"""Measures how far quantised GGUF files move logits, here and in llama.cpp.

    quantized_gguf.py --logits BUILD/tests/evaluation/gguf_logits --work FOLDER

Needs numpy, gguf, sentencepiece and llama-cpp-python from PyPI. A model of normally distributed
weights is written in F32 by gguf and made into every other type by llama.cpp's quantiser, all its
matrices. The reference is a forward in float64 over what gguf's dequantize says the file's weights
are (tests/golden/make_gguf_golden.py, where it is compared with transformers). Both programs then
compute the logits after each of the last 32 of 96 tokens, one token a step, KV in f32: the distance
is the root of the mean square of the difference, in standard deviations of the reference.

Prints a Markdown table; exits 1 where Lectern is further away than 1.5 times what is expected of
the type, or than three times as far as llama.cpp. Expected: with plain types products are sums in
float32. With blocks both programs round what a matrix is multiplied with to 127 steps each side,
which puts an error of largest / 127 / sqrt(12) into each product: of normally distributed values in
groups of 32, whose largest is 2.4 in the mean, 0.54 % of the result (llama.cpp has groups of 256
for K types, whose largest is 3.0). Five such errors go into what a layer adds: in queries, keys and
values together, the output, gate, up, down; one more into the logits. As random errors that is
sqrt(1 + 5 per layer) times one of them: 2.5 % for four layers.
"""
import argparse
import ctypes
import importlib.util
import math
import pathlib
import subprocess
import sys

import gguf
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("golden",
                                              HERE.parent / "golden/make_gguf_golden.py")
golden = importlib.util.module_from_spec(spec)
spec.loader.exec_module(golden)

CONFIG = {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4,
          "vocab_size": 400, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64,
          "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0}
NUM_IDS, CONTEXT = 96, 64
# llama.cpp's number (llama_ftype) of a file of each type.
TYPES = {"F32": 0, "F16": 1, "BF16": 32, "Q8_0": 7, "Q4_0": 2, "Q4_1": 3, "Q5_0": 8, "Q5_1": 9,
         "Q4_K": 14, "Q5_K": 16, "Q6_K": 18, "Q2_K": 10, "Q3_K": 12, "IQ4_NL": 25, "IQ4_XS": 30,
         "MXFP4": 38}
PLAIN = 1e-5
BLOCKS = 2.4 / 127 / math.sqrt(12) * math.sqrt(1 + 5 * CONFIG["num_hidden_layers"])
AT_MOST, RATIO = 1.5, 3


def random_weights(seed):
    draw, c = np.random.RandomState(seed), CONFIG
    q = c["num_attention_heads"] * c["head_dim"]
    kv = c["num_key_value_heads"] * c["head_dim"]
    hidden, inner = c["hidden_size"], c["intermediate_size"]
    shapes = {"self_attn.q_proj": (q, hidden), "self_attn.k_proj": (kv, hidden),
              "self_attn.v_proj": (kv, hidden), "self_attn.o_proj": (hidden, q),
              "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden),
              "mlp.down_proj": (hidden, inner)}

    def matrix(*shape):
        return (draw.standard_normal(shape) / math.sqrt(shape[1])).astype(np.float32)

    def norm():
        return draw.uniform(0.5, 1.5, hidden).astype(np.float32)

    weights = {"model.embed_tokens.weight": matrix(c["vocab_size"], hidden)}
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        weights |= {f"{p}{part}.weight": matrix(*shape) for part, shape in shapes.items()}
        weights |= {f"{p}input_layernorm.weight": norm(),
                    f"{p}post_attention_layernorm.weight": norm()}
    return weights | {"model.norm.weight": norm(), "lm_head.weight": matrix(c["vocab_size"], hidden)}


def dequantised(path, names):
    """The file's weights as floats, under transformers' names and in its order of rows."""
    ours, weights = {golden.gguf_name(name): name for name in names}, {}
    for tensor in gguf.GGUFReader(path).tensors:
        shape = tensor.shape[::-1]
        value = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(shape)
        name = ours[tensor.name]
        heads = golden.heads_of(name, CONFIG)
        weights[name] = golden.unpermuted(value, heads) if heads else value
    return weights


class LlamaCpp:
    def __init__(self):
        import llama_cpp
        self.lib = llama_cpp
        self.quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.quiet, ctypes.c_void_p(0))

    def quantise(self, source, target, ftype, type_):
        params = self.lib.llama_model_quantize_default_params()
        params.ftype, params.pure, params.nthread = ftype, True, 1
        params.token_embedding_type = params.output_tensor_type = int(type_)
        status = self.lib.llama_model_quantize(str(source).encode(), str(target).encode(),
                                               ctypes.byref(params))
        assert status == 0, f"llama_model_quantize: {status}"

    def logits(self, path, ids, context):
        lib = self.lib
        model = lib.llama_model_load_from_file(str(path).encode(),
                                               lib.llama_model_default_params())
        assert model, path
        params = lib.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = 128
        params.n_threads = params.n_threads_batch = 1
        params.flash_attn_type = 0
        params.type_k = params.type_v = 0  # f32
        handle = lib.llama_init_from_model(model, params)
        assert handle
        rows = []
        for part in [ids[:context]] + [[i] for i in ids[context:]]:
            array = (lib.llama_token * len(part))(*[int(i) for i in part])
            assert lib.llama_decode(handle, lib.llama_batch_get_one(array, len(part))) == 0
            pointer = lib.llama_get_logits_ith(handle, -1)
            rows.append(np.ctypeslib.as_array(pointer, shape=(CONFIG["vocab_size"],)).copy())
        lib.llama_free(handle), lib.llama_model_free(model)
        return np.array(rows[1:])


def our_logits(program, path, ids):
    done = subprocess.run([program, path, str(CONTEXT)], input=ids.astype("<i4").tobytes(),
                          capture_output=True, check=True)
    return np.frombuffer(done.stdout, "<f4").reshape(NUM_IDS - CONTEXT, CONFIG["vocab_size"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--logits", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    llama = LlamaCpp()
    plain = args.work / "F32.gguf"
    weights = random_weights(1)
    golden.write_model(plain, CONFIG, weights, golden.HERE / "tiny/tokenizer.model",
                       gguf.GGMLQuantizationType.F32)
    ids = np.random.RandomState(5).randint(3, CONFIG["vocab_size"], NUM_IDS)
    print("| type | Lectern | llama.cpp | times | expected |\n|---|---|---|---|---|")
    failed = []
    for name, ftype in TYPES.items():
        type_, path = gguf.GGMLQuantizationType[name], args.work / f"{name}.gguf"
        if path != plain:
            llama.quantise(plain, path, ftype, type_)
        types = {t.tensor_type for t in gguf.GGUFReader(path).tensors if len(t.shape) > 1}
        assert types == {type_}, f"{path}: {types}"
        reference = golden.forward(CONFIG, dequantised(path, weights), ids)[CONTEXT:]

        def distance(logits):
            return math.sqrt(np.mean((logits - reference) ** 2)) / reference.std()

        ours, theirs = distance(our_logits(args.logits, path, ids)), distance(
            llama.logits(path, ids, CONTEXT))
        expected = PLAIN if ftype in (0, 1, 32) else BLOCKS
        print(f"| {name} | {ours:.2e} | {theirs:.2e} | {ours / theirs:.2g} | {expected:.1e} |",
              flush=True)
        if ours > AT_MOST * expected or ours > RATIO * theirs:
            failed.append(name)
    if failed:
        sys.exit("too far away: " + ", ".join(failed))


if __name__ == "__main__":
    main()
