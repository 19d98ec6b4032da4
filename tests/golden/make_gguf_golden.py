#!/usr/bin/env python3
"""Makes tests/golden/gguf: GGUF files by PyPI's gguf, and what they are worth.

Run by hand, from anywhere; nothing in the build calls it:

    pip install gguf==0.19.0 sentencepiece numpy llama-cpp-python==0.3.36
    python3 tests/golden/make_gguf_golden.py [CASE]…

With cases it makes their heads alone.

keys.gguf        a key of every kind and small tensors of two types, alignment 64
split-0000N-of-00003.gguf   three parts
blocks.bin       blocks of every quantised type and their values by gguf.quants.dequantize: for each
                 type u32 ggml's number, u32 values, u32 bytes, the blocks, the values as f32; once of
                 random bits, once as llama.cpp quantises normally distributed values
tiny-TYPE.gguf   tests/golden/tiny: the same weights, rows of queries and keys in llama.cpp's order,
                 and its vocabulary as arrays
ARCHITECTURE.head   all before the tensors of a file in F32: the case of this name of
                 architectures.json, tensors named by gguf's own tables; the test invents what is in
                 them (heads.json: where each lies, which one it is, whether norms are stored plus 1)
rope.gguf        tests/golden/models/llama3_v4 in F32: llama3 scaling as rope_freqs.weight
k.gguf           a model as wide as K blocks are, whose matrices are blocks of random bits: Q4_K,
                 Q5_K and Q6_K (quantised Q8_0 embedding), with k.bin: i32 ids[32] and, after each of
                 the last 8 of them, f32 logits[400] of a float64 forward over what gguf's dequantize
                 says; tiny-TYPE.bin is the same of tiny-TYPE.gguf
low.gguf         the same of Q2_K, Q3_K, IQ4_NL, IQ4_XS and MXFP4, with low.bin
"""

import ctypes
import json
import pathlib
import struct
import sys

import gguf
import numpy as np
import sentencepiece

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "gguf"
Type = gguf.GGMLQuantizationType
BLOCKS = [[Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q4_K, Type.Q5_K, Type.Q6_K],
          [Type.Q2_K, Type.Q3_K, Type.IQ4_NL, Type.IQ4_XS, Type.MXFP4]]
TINY = [Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1]
NUM_IDS, NUM_LOGITS = 32, 8


# ---- blocks --------------------------------------------------------------------------------------

def random_blocks(draw, type_, num_blocks, scale):
    """Bytes [num_blocks, block bytes] of random bits with scales of about `scale` a step."""
    _, size = gguf.GGML_QUANT_SIZES[type_]
    blocks = draw.randint(0, 256, (num_blocks, size), dtype=np.uint8)

    def put(at, values):
        blocks[:, at:at + 2] = values.astype(np.float16).view(np.uint8).reshape(-1, 2)

    d = scale * draw.uniform(0.5, 1.5, num_blocks)
    if type_ in (Type.Q4_1, Type.Q5_1):
        put(0, d), put(2, -d * (7.5 if type_ == Type.Q4_1 else 15.5))
    elif type_ in (Type.Q4_K, Type.Q5_K):
        put(0, d / 32), put(2, d / 32 * (7.5 if type_ == Type.Q4_K else 15.5))
    elif type_ == Type.Q6_K:
        put(208, d / 64)
    elif type_ == Type.Q2_K:
        put(80, d / 8), put(82, d / 8 * 1.5)
    elif type_ == Type.Q3_K:
        put(108, d / 16)
    elif type_ == Type.IQ4_XS:
        put(0, d / 16 / 16)
    elif type_ == Type.IQ4_NL:
        put(0, d / 16 * draw.choice([-1, 1], num_blocks))
    elif type_ == Type.MXFP4:
        blocks[:, 0] = np.round(np.log2(d)) + 128
    else:
        put(0, d * draw.choice([-1, 1], num_blocks))
    return blocks


def quantised_by_llama_cpp(type_, values):
    """Blocks of `values` by ggml_quantize_chunk."""
    import llama_cpp
    folder = pathlib.Path(llama_cpp.__file__).parent / "lib"
    ggml = ctypes.CDLL(str(next(folder.glob("libggml-base.so*"))))
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    ggml.ggml_quantize_chunk.argtypes = (
        [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p])
    ggml.ggml_quantize_init(int(type_))
    per_block, size = gguf.GGML_QUANT_SIZES[type_]
    values = np.ascontiguousarray(values, np.float32)
    blocks = np.zeros(values.size // per_block * size, np.uint8)
    written = ggml.ggml_quantize_chunk(int(type_), values.ctypes.data, blocks.ctypes.data, 0, 1,
                                       values.size, None)
    assert written == blocks.size
    return blocks


def write_blocks():
    draw = np.random.RandomState(1)
    with open(OUT / "blocks.bin", "wb") as out:
        def write(type_, blocks):
            worth = gguf.quants.dequantize(blocks.reshape(1, -1), type_).ravel()
            assert worth.size == 512
            out.write(struct.pack("<III", int(type_), worth.size, blocks.size))
            out.write(blocks.tobytes() + worth.astype("<f4").tobytes())

        for types in BLOCKS:
            for type_ in types:
                values, _ = gguf.GGML_QUANT_SIZES[type_]
                write(type_, random_blocks(draw, type_, 512 // values, 1.0))
            for type_ in types:
                write(type_, quantised_by_llama_cpp(type_, draw.standard_normal(512)))


# ---- the format ----------------------------------------------------------------------------------

def write_keys():
    w = gguf.GGUFWriter(OUT / "keys.gguf", "llama")
    w.add_custom_alignment(64)
    w.add_uint8("a.u8", 200), w.add_int8("a.i8", -100)
    w.add_uint16("a.u16", 60000), w.add_int16("a.i16", -30000)
    w.add_uint32("a.u32", 4000000000), w.add_int32("a.i32", -2000000000)
    w.add_uint64("a.u64", 2**60), w.add_int64("a.i64", -2**60)
    w.add_float32("a.f32", 0.5), w.add_float64("a.f64", 1e-300)
    w.add_bool("a.bool", True), w.add_string("a.string", "a “quoted” line\n")
    w.add_array("a.strings", ["one", "", "three"]), w.add_array("a.ints", [1, -2, 3])
    w.add_array("a.floats", [0.25, -4.0])
    w.add_tensor("matrix", np.arange(6, dtype=np.float32).reshape(2, 3))
    w.add_tensor("blocks", gguf.quants.quantize(np.ones((2, 64), np.float32), Type.Q4_0),
                 raw_dtype=Type.Q4_0)
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


def read_safetensors(path):
    raw = path.read_bytes()
    size, = struct.unpack_from("<Q", raw)
    tensors = {}
    for name, t in json.loads(raw[8:8 + size]).items():
        if name != "__metadata__":
            assert t["dtype"] == "F32"
            begin, end = t["data_offsets"]
            data = np.frombuffer(raw[8 + size + begin:8 + size + end], "<f4")
            tensors[name] = data.reshape(t["shape"])
    return tensors


NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
         "post_attention_layernorm": "ffn_norm"}


def gguf_name(name):
    fixed = {"model.embed_tokens.weight": "token_embd.weight",
             "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
    if name in fixed:
        return fixed[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight"


def permuted(w, heads):
    """As llama.cpp's convert_hf_to_gguf.py (LlamaModel.permute)."""
    return (w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:])
            .swapaxes(1, 2).reshape(w.shape))


def heads_of(name, c):
    if "q_proj" in name:
        return c["num_attention_heads"]
    return c["num_key_value_heads"] if "k_proj" in name else 0


def add_vocabulary(w, model):
    sp = sentencepiece.SentencePieceProcessor(model_file=str(model))
    ids = range(sp.get_piece_size())

    def kind(i):
        return (2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 5 if sp.is_unused(i)
                else 6 if sp.is_byte(i) else 1)

    w.add_tokenizer_model("llama")
    w.add_token_list([sp.id_to_piece(i) for i in ids])
    w.add_token_scores([sp.get_score(i) for i in ids])
    w.add_token_types([kind(i) for i in ids])
    w.add_bos_token_id(sp.bos_id()), w.add_eos_token_id(sp.eos_id())
    w.add_unk_token_id(sp.unk_id())


def writer(path, c, vocabulary, **options):
    w = gguf.GGUFWriter(path, "llama", **options)
    w.add_embedding_length(c["hidden_size"]), w.add_block_count(c["num_hidden_layers"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"]), w.add_head_count_kv(c["num_key_value_heads"])
    dim = c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])
    w.add_key_length(dim), w.add_value_length(dim), w.add_rope_dimension_count(dim)
    w.add_context_length(c["max_position_embeddings"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"]), w.add_rope_freq_base(c["rope_theta"])
    w.add_vocab_size(c["vocab_size"])
    add_vocabulary(w, vocabulary)
    return w


def finish(w):
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


def rope_divisors(c):
    """As convert_hf_to_gguf.py makes rope_freqs.weight."""
    r, dim = c["rope_scaling"], c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])
    frequencies = 1 / c["rope_theta"] ** (np.arange(0, dim, 2) / dim)
    low, high = r["low_freq_factor"], r["high_freq_factor"]
    context = r["original_max_position_embeddings"]
    divisors = []
    for f in frequencies:
        length = 2 * np.pi / f
        if length < context / high:
            divisors.append(1)
        elif length > context / low:
            divisors.append(r["factor"])
        else:
            smooth = (context / length - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / r["factor"] + smooth))
    return np.array(divisors, np.float32)


def write_model(path, c, weights, vocabulary, type_, **options):
    """-> what the file's weights are worth, under transformers' names."""
    w, worth = writer(path, c, vocabulary, **options), {}
    for name, value in weights.items():
        heads = heads_of(name, c)
        value = permuted(value, heads) if heads else value
        if value.ndim == 1:
            w.add_tensor(gguf_name(name), value)
            worth[name] = value
            continue
        stored = gguf.quants.quantize(value, type_)
        w.add_tensor(gguf_name(name), stored, raw_dtype=type_)
        back = gguf.quants.dequantize(stored, type_).reshape(value.shape)
        worth[name] = unpermuted(back, heads) if heads else back
    if c.get("rope_scaling"):
        w.add_tensor("rope_freqs.weight", rope_divisors(c))
    finish(w)
    return worth


def unpermuted(w, heads):
    return (w.reshape(heads, w.shape[0] // heads // 2, 2, *w.shape[1:])
            .swapaxes(1, 2).reshape(w.shape))


K_TYPES = {"q_proj": Type.Q4_K, "k_proj": Type.Q5_K, "v_proj": Type.Q6_K, "o_proj": Type.Q4_K,
           "gate_proj": Type.Q4_K, "up_proj": Type.Q5_K, "down_proj": Type.Q6_K}
LOW_TYPES = {"q_proj": Type.Q2_K, "k_proj": Type.IQ4_XS, "v_proj": Type.IQ4_NL, "o_proj": Type.Q3_K,
             "gate_proj": Type.Q3_K, "up_proj": Type.MXFP4, "down_proj": Type.Q2_K}


def write_k_model(path, types):
    c = {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1, "vocab_size": 400,
         "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32,
         "max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "rope_theta": 100000.0}
    draw, p = np.random.RandomState(3), "model.layers.0."
    w, worth = writer(path, c, HERE / "tiny/tokenizer.model"), {}

    def blocks(name, rows, gain):
        # The scale of a quantised matrix whose outputs are of about `gain`: steps are evenly spread.
        type_ = types[name.split(".")[-2]]
        steps = {Type.Q4_K: 4.6, Type.Q5_K: 9.2, Type.Q6_K: 18.5, Type.Q2_K: 1.8, Type.Q3_K: 2.8,
                 Type.IQ4_NL: 4.4, Type.IQ4_XS: 5.1, Type.MXFP4: 6.1}[type_]
        values, _ = gguf.GGML_QUANT_SIZES[type_]
        raw = random_blocks(draw, type_, rows * 256 // values, gain / 16 / steps).reshape(rows, -1)
        w.add_tensor(gguf_name(name), raw, raw_dtype=type_)
        value = gguf.quants.dequantize(raw, type_).reshape(rows, 256)
        heads = heads_of(name, c)
        worth[name] = unpermuted(value, heads) if heads else value

    def plain(name, value, type_=Type.F32):
        stored = gguf.quants.quantize(value.astype(np.float32), type_)
        w.add_tensor(gguf_name(name), stored, raw_dtype=type_)
        worth[name] = gguf.quants.dequantize(stored, type_).reshape(value.shape)

    plain("model.embed_tokens.weight", draw.standard_normal((400, 256)) * 0.1, Type.Q8_0)
    plain("model.norm.weight", draw.uniform(0.5, 1.5, 256) * 3 / 1.6)
    plain(p + "input_layernorm.weight", draw.uniform(0.5, 1.5, 256))
    plain(p + "post_attention_layernorm.weight", draw.uniform(0.5, 1.5, 256))
    blocks(p + "self_attn.q_proj.weight", 256, 1.5)
    blocks(p + "self_attn.k_proj.weight", 128, 1.5)
    blocks(p + "self_attn.v_proj.weight", 128, 1.0)
    blocks(p + "self_attn.o_proj.weight", 256, 0.2)
    blocks(p + "mlp.gate_proj.weight", 256, 1.5)
    blocks(p + "mlp.up_proj.weight", 256, 1.5)
    blocks(p + "mlp.down_proj.weight", 256, 0.2)
    finish(w)
    return c, worth


# ---- what models compute -------------------------------------------------------------------------

def forward(c, weights, ids, divisors=None):
    """Logits [len(ids), vocab] in float64."""
    weights = {n: w.astype(np.float64) for n, w in weights.items()}
    heads, kv_heads = c["num_attention_heads"], c["num_key_value_heads"]
    dim = c.get("head_dim", c["hidden_size"] // heads)
    n = len(ids)
    frequencies = np.float32(1) / np.float32(c["rope_theta"]) ** (
        np.arange(0, dim, 2, dtype=np.float32) / np.float32(dim))
    if divisors is not None:
        frequencies = frequencies / divisors
    angle = (np.arange(n, dtype=np.float32)[:, None] * frequencies).astype(np.float64)

    def norm(x, w):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"]) * w

    def rotate(x):  # [n, heads, dim]
        a, b = x[..., :dim // 2], x[..., dim // 2:]
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    x = weights["model.embed_tokens.weight"][ids]
    for i in range(c["num_hidden_layers"]):
        def w(part):
            return weights[f"model.layers.{i}.{part}.weight"]
        y = norm(x, w("input_layernorm"))
        q = rotate((y @ w("self_attn.q_proj").T).reshape(n, heads, dim))
        k = rotate((y @ w("self_attn.k_proj").T).reshape(n, kv_heads, dim))
        v = (y @ w("self_attn.v_proj").T).reshape(n, kv_heads, dim)
        k, v = (np.repeat(z, heads // kv_heads, 1) for z in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k) / dim**0.5
        scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
        weight = np.exp(scores - scores.max(-1, keepdims=True))
        weight /= weight.sum(-1, keepdims=True)
        x = x + np.einsum("hij,jhd->ihd", weight, v).reshape(n, -1) @ w("self_attn.o_proj").T
        y = norm(x, w("post_attention_layernorm"))
        gate = y @ w("mlp.gate_proj").T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ w("mlp.up_proj").T)) @ w("mlp.down_proj").T
    output = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    return norm(x, weights["model.norm.weight"]) @ output.T


def write_logits(path, c, worth):
    ids = np.random.RandomState(5).randint(3, c["vocab_size"], NUM_IDS)
    logits = forward(c, worth, ids)[-NUM_LOGITS:]
    path.write_bytes(ids.astype("<i4").tobytes() + logits.astype("<f4").tobytes())
    return logits


def check_forward():
    """The forward above is transformers' (tests/golden/make_goldens.py)."""
    for name in ("gqa", "llama3_v4"):
        folder = HERE / "models" / name
        c = json.loads((folder / "config.json").read_text())
        raw = (folder / "golden.bin").read_bytes()
        n, = struct.unpack_from("<I", raw)
        ids = np.frombuffer(raw, "<i4", n, 4)
        logits = np.frombuffer(raw, "<f4", n * 256, 8 + 4 * n).reshape(n, 256)
        c.setdefault("rope_theta", 10000.0)
        divisors = rope_divisors(c) if c.get("rope_scaling") else None
        ours = forward(c, read_safetensors(folder / "model.safetensors"), ids, divisors)
        error = abs(ours - logits).max() / logits.std()
        print(f"{name}: forward differs from transformers by {error:.1e} of the spread")
        assert error < 1e-4


HEADS = {"llama": ("llama", {}), "qwen2": ("qwen2", {}), "qwen3": ("qwen3", {}),
         "llama yarn": ("llama", {}),
         "gemma2": ("gemma2", {"query_pre_attn_scalar": 16}),
         "gemma3": ("gemma3", {"query_pre_attn_scalar": 16, "sliding_window_pattern": 6,
                               "num_hidden_layers": 6}),
         "phi3": ("phi3", {}), "phi3 long": ("phi3", {}), "phi4 mini": ("phi3", {}),
         "granite": ("granite", {}), "granite biases": ("granite", {}),
         "olmo2": ("olmo2", {}), "olmo3": ("olmo2", {}), "smollm3": ("smollm3", {}),
         "glm": ("chatglm", {}), "glm4": ("glm4", {}), "exaone": ("exaone", {}),
         "exaone4": ("exaone4", {}), "exaone4 types": ("exaone4", {}),
         "cohere": ("command-r", {}), "cohere2": ("cohere2", {})}
PERMUTED = ("llama", "granite", "smollm3")


def write_head(case, arch, changes, architectures):
    """Keys as convert_hf_to_gguf.py writes them. `changes`: of config.json, what no key can say."""
    c = dict(architectures[case]["config"], **changes)
    path = OUT / "whole.gguf"
    w = gguf.GGUFWriter(path, arch)
    w.add_embedding_length(c["hidden_size"]), w.add_block_count(c["num_hidden_layers"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"]), w.add_head_count_kv(c["num_key_value_heads"])
    w.add_context_length(c["max_position_embeddings"])
    if "layer_norm_eps" in c:
        w.add_layer_norm_eps(c["layer_norm_eps"])
    else:
        w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    full = c.get("rope_parameters", {}).get("full_attention", {})
    w.add_rope_freq_base(full.get("rope_theta", c.get("rope_theta", 10000.0)))
    for field, add in [("attention_multiplier", w.add_attention_scale),
                       ("embedding_multiplier", w.add_embedding_scale),
                       ("residual_multiplier", w.add_residual_scale),
                       ("logits_scaling", w.add_logit_scale)]:
        if field in c:
            add(c[field])
    if "layer_norm_eps" in c:
        w.add_logit_scale(c.get("logit_scale", 0.0625))
        w.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    dim = c["head_dim"]
    if arch == "phi3":
        dim = int(dim * c.get("partial_rotary_factor", 1))
    else:
        w.add_key_length(dim), w.add_value_length(dim)
    w.add_rope_dimension_count(dim // 2 if "glm" in arch else dim)
    if arch in ("olmo2", "exaone4") and c.get("sliding_window"):
        kinds = c.get("layer_types") or [
            "sliding_attention" if (layer + 1) % 4 else "full_attention"
            for layer in range(c["num_hidden_layers"])]
        w.add_sliding_window_pattern([kind == "sliding_attention" for kind in kinds])
    if c.get("sliding_window"):
        w.add_sliding_window(c["sliding_window"])
    if "attn_logit_softcapping" in c:
        w.add_attn_logit_softcapping(c["attn_logit_softcapping"])
        w.add_final_logit_softcapping(c["final_logit_softcapping"])
    rope = c.get("rope_scaling", {})
    if "long_factor" in rope:
        original = c["original_max_position_embeddings"]
        factor = c["max_position_embeddings"] / original
        w.add_rope_scaling_orig_ctx_len(original)
        w.add_rope_scaling_attn_factors(np.sqrt(1 + np.log(factor) / np.log(original)))
        for name in ("long", "short"):
            w.add_tensor(f"rope_factors_{name}.weight",
                         np.array(rope[f"{name}_factor"], np.float32))
    elif rope:
        w.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        w.add_rope_scaling_factor(rope["factor"])
        if "original_max_position_embeddings" in rope:
            w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    add_vocabulary(w, HERE / "tiny/tokenizer.model")
    arch_id = next(a for a, name in gguf.MODEL_ARCH_NAMES.items() if name == arch)
    names = gguf.get_tensor_name_map(arch_id, c["num_hidden_layers"])
    ours, shapes = {}, dict(architectures[case]["tensors"])
    for name, shape in architectures[case]["tensors"].items():
        for layer in range(3, c["num_hidden_layers"]):
            shapes.setdefault(name.replace(".layers.0.", f".layers.{layer}."), shape)
    for name, shape in shapes.items():
        own = names.get_name(name, try_suffixes=(".weight", ".bias"))
        ours[own] = name
        w.add_tensor(own, np.zeros(shape, np.float32))
    finish(w)
    reader = gguf.GGUFReader(path)
    places = {ours[t.name]: int(t.data_offset) for t in reader.tensors if t.name in ours}
    factors = [int(t.data_offset + t.n_bytes) for t in reader.tensors if t.name not in ours]
    begin = max(factors) if factors else min(places.values())
    head = path.read_bytes()
    (OUT / f"{case.replace(' ', '_')}.head").write_bytes(head[:begin])
    path.unlink()
    return {"config": c, "bytes": len(head), "norms_plus_one": arch.startswith("gemma"),
            "heads_are_permuted": arch in PERMUTED, "tensors": shapes, "places": places}


def write_heads(cases):
    architectures = json.loads((HERE / "architectures.json").read_text())
    heads = json.loads((OUT / "heads.json").read_text()) if cases else {}
    heads.update((case, write_head(case, arch, changes, architectures))
                 for case, (arch, changes) in HEADS.items() if case in cases or not cases)
    (OUT / "heads.json").write_text(json.dumps(heads) + "\n")


def main():
    OUT.mkdir(exist_ok=True)
    write_heads(sys.argv[1:])
    if sys.argv[1:]:
        return
    check_forward()
    write_blocks()
    write_keys()
    tiny = json.loads((HERE / "tiny/config.json").read_text())
    weights = read_safetensors(HERE / "tiny/model.safetensors")
    vocabulary = HERE / "tiny/tokenizer.model"
    plain = None
    for type_ in TINY:
        name = f"tiny-{type_.name}"
        worth = write_model(OUT / f"{name}.gguf", tiny, weights, vocabulary, type_)
        logits = write_logits(OUT / f"{name}.bin", tiny, worth)
        plain = logits if plain is None else plain
        print(f"{name}: {abs(logits - plain).max() / plain.std():.3f} of the spread from F32")
    for old in OUT.glob("split-*.gguf"):
        old.unlink()
    write_model(OUT / "split.gguf", tiny, weights, vocabulary, Type.Q8_0, split_max_tensors=8)
    rope = json.loads((HERE / "models/llama3_v4/config.json").read_text())
    write_model(OUT / "rope.gguf", rope,
                read_safetensors(HERE / "models/llama3_v4/model.safetensors"),
                HERE / "models/tokenizer.model", Type.F32)
    for name, types in (("k", K_TYPES), ("low", LOW_TYPES)):
        c, worth = write_k_model(OUT / f"{name}.gguf", types)
        logits = write_logits(OUT / f"{name}.bin", c, worth)
        print(f"{name}: spread of the logits {logits.std():.2f}")


if __name__ == "__main__":
    main()
