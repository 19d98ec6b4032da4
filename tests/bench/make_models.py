#!/usr/bin/env python3
"""Writes a Llama model of random weights twice: as the folder that Lectern opens, f16, and as GGUF.

    make_models.py S|M|T FOLDER [--no-gguf]    # needs numpy and, for the GGUF, gguf from PyPI

S: 8 layers of 512, 8 heads over 2 kv heads of 64, feed-forward 1536, vocabulary 8192: 32.5M weights,
   both files f16.
M: the shape of TinyLlama 1.1B; the GGUF is q8_0 (FOLDER/model.gguf) of the same f16 weights.
T: 2 layers of 256, 4 heads over 2 kv heads: for documents of a million tokens.
The tokenizer is the bundled reader's; the other file has none, it is fed ids.
"""
import json
import pathlib
import shutil
import struct
import sys

try:
    import numpy as np
except ImportError:
    sys.exit("make_models.py needs numpy from PyPI")
try:
    import gguf
except ImportError:
    gguf = None

SHAPES = {
    "S": dict(hidden=512, layers=8, heads=8, kv_heads=2, inner=1536, vocab=8192, quantized=False),
    "T": dict(hidden=256, layers=2, heads=4, kv_heads=2, inner=512, vocab=8192, quantized=False),
    "M": dict(hidden=2048, layers=22, heads=32, kv_heads=4, inner=5632, vocab=32000, quantized=True),
}
HEAD_DIM = 64
MAX_POSITIONS = 1 << 20
EPSILON = 1e-5
THETA = 1e4
READER = pathlib.Path(__file__).parents[2] / "tools/reader/model"


def tensors(shape):
    """(name in the folder, name in GGUF, shape) of every tensor, in the order they are drawn."""
    hidden, inner = shape["hidden"], shape["inner"]
    q, kv = shape["heads"] * HEAD_DIM, shape["kv_heads"] * HEAD_DIM
    yield "model.embed_tokens.weight", "token_embd.weight", (shape["vocab"], hidden)
    for i in range(shape["layers"]):
        ours, theirs = f"model.layers.{i}.", f"blk.{i}."
        yield ours + "self_attn.q_proj.weight", theirs + "attn_q.weight", (q, hidden)
        yield ours + "self_attn.k_proj.weight", theirs + "attn_k.weight", (kv, hidden)
        yield ours + "self_attn.v_proj.weight", theirs + "attn_v.weight", (kv, hidden)
        yield ours + "self_attn.o_proj.weight", theirs + "attn_output.weight", (hidden, q)
        yield ours + "mlp.gate_proj.weight", theirs + "ffn_gate.weight", (inner, hidden)
        yield ours + "mlp.up_proj.weight", theirs + "ffn_up.weight", (inner, hidden)
        yield ours + "mlp.down_proj.weight", theirs + "ffn_down.weight", (hidden, inner)
        yield ours + "input_layernorm.weight", theirs + "attn_norm.weight", (hidden,)
        yield ours + "post_attention_layernorm.weight", theirs + "ffn_norm.weight", (hidden,)
    yield "model.norm.weight", "output_norm.weight", (hidden,)
    yield "lm_head.weight", "output.weight", (shape["vocab"], hidden)


def interleaved(weight):
    """Rows of q or k as GGUF wants them: RoPE turns neighbours there, halves of a head here."""
    heads = weight.reshape(-1, 2, HEAD_DIM // 2, weight.shape[1])
    return np.ascontiguousarray(heads.swapaxes(1, 2)).reshape(weight.shape)


def values(name, shape, random):
    if len(shape) == 1:
        return np.ones(shape, np.float16)
    scale = 1 if "embed" in name else shape[1] ** -0.5
    return (random.standard_normal(shape, np.float32) * scale).astype(np.float16)


def write_config(shape, folder):
    config = dict(
        architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=shape["vocab"],
        hidden_size=shape["hidden"], intermediate_size=shape["inner"], head_dim=HEAD_DIM,
        num_hidden_layers=shape["layers"], num_attention_heads=shape["heads"],
        num_key_value_heads=shape["kv_heads"], rms_norm_eps=EPSILON, rope_theta=THETA,
        max_position_embeddings=MAX_POSITIONS, tie_word_embeddings=False, hidden_act="silu",
        attention_bias=False, mlp_bias=False, bos_token_id=1, eos_token_id=2, torch_dtype="float16")
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    shutil.copy(READER / "tokenizer.model", folder)


def gguf_writer(shape, path):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_vocab_size(shape["vocab"])
    writer.add_context_length(MAX_POSITIONS)
    writer.add_embedding_length(shape["hidden"])
    writer.add_block_count(shape["layers"])
    writer.add_feed_forward_length(shape["inner"])
    writer.add_head_count(shape["heads"])
    writer.add_head_count_kv(shape["kv_heads"])
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(THETA)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_tokenizer_model("no_vocab")
    writer.add_file_type(7 if shape["quantized"] else 1)
    return writer


def add_to_gguf(writer, shape, name, weight):
    if weight.ndim == 1:
        return writer.add_tensor(name, weight.astype(np.float32))
    if "attn_q" in name or "attn_k" in name:
        weight = interleaved(weight)
    if not shape["quantized"]:
        return writer.add_tensor(name, weight)
    q8 = gguf.GGMLQuantizationType.Q8_0
    writer.add_tensor(name, gguf.quants.quantize(weight.astype(np.float32), q8), raw_dtype=q8)


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--no-gguf"]
    if len(arguments) != 2 or arguments[0] not in SHAPES:
        sys.exit(__doc__)
    shape, folder = SHAPES[arguments[0]], pathlib.Path(arguments[1])
    with_gguf = "--no-gguf" not in sys.argv
    if with_gguf and gguf is None:
        sys.exit("make_models.py needs gguf from PyPI; with --no-gguf it writes the folder alone")
    folder.mkdir(parents=True, exist_ok=True)
    write_config(shape, folder)
    random = np.random.default_rng(1)
    writer = gguf_writer(shape, folder / "model.gguf") if with_gguf else None
    header, offset = {}, 0
    for name, _, dims in tensors(shape):
        size = 2 * int(np.prod(dims))
        header[name] = dict(dtype="F16", shape=dims, data_offsets=[offset, offset + size])
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for ours, theirs, dims in tensors(shape):
            weight = values(ours, dims, random)
            out.write(weight.tobytes())
            if writer:
                add_to_gguf(writer, shape, theirs, weight)
    if writer:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


if __name__ == "__main__":
    main()
