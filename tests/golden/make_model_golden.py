#!/usr/bin/env python3
"""Makes small.safetensors, model_golden.json and utf8_golden.json with libraries that are not ours.

Run by hand, from anywhere; nothing in the build calls it:

    pip install torch transformers safetensors
    python3 tests/golden/make_model_golden.py

Made with torch 2.15.0, transformers 5.23.0, safetensors 0.8.0, Python 3.11.
model_golden.json:
  tensors   what is in small.safetensors: name -> dtype, shape, hex of the bytes
  folders   models/*: SHA-256 of what Weights::AddTo feeds (see digest()), layer 0's first norm
  rope      inverse frequencies as float32 bits, computed by transformers' own functions
utf8_golden.json: [hex of bytes, hex of what Python's decoder makes of them] pairs.
"""

import hashlib
import json
import pathlib
import random
import struct

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

HERE = pathlib.Path(__file__).resolve().parent
DTYPES = {torch.float32: ("F32", 0), torch.float16: ("F16", 1), torch.bfloat16: ("BF16", 2),
          torch.int64: ("I64", None), torch.uint8: ("U8", None), torch.bool: ("BOOL", None)}


def raw(tensor):
    if tensor.numel() == 0:
        return b""
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist())


def small():
    tensors = {
        "floats": torch.arange(6, dtype=torch.float32).reshape(2, 3) / 4,
        "halves": torch.arange(5, dtype=torch.float16) - 2.5,
        "brains": torch.arange(4, dtype=torch.bfloat16).reshape(4, 1) * 0.1,
        "longs": torch.tensor([-1, 2**40]),
        "scalar": torch.tensor(3, dtype=torch.uint8),
        "flags": torch.tensor([True, False, True]),
        "nothing": torch.zeros((0, 7)),
        "grüße \"x\"": torch.tensor([1.5]),
    }
    save_file(tensors, HERE / "small.safetensors", metadata={"format": "pt", "note": "golden"})
    (HERE / "small.safetensors").chmod(0o644)
    return {name: {"dtype": DTYPES[t.dtype][0], "shape": list(t.shape), "hex": raw(t).hex()}
            for name, t in tensors.items()}


def digest(folder):
    """u64 count; for each tensor in name order: text, dtype, rank, sizes, length, bytes."""
    config = json.loads((folder / "config.json").read_text())
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            tensors.update({name: file.get_tensor(name) for name in file.keys()})
    if config.get("tie_word_embeddings"):
        tensors.pop("lm_head.weight", None)
    number = lambda n: struct.pack("<Q", n)
    sha = hashlib.sha256(number(len(tensors)))
    size = 0
    for name in sorted(tensors):
        tensor = tensors[name]
        data = raw(tensor)
        size += len(data)
        sha.update(number(len(name)) + name.encode() + number(DTYPES[tensor.dtype][1]))
        sha.update(number(tensor.dim()) + b"".join(map(number, tensor.shape)) + number(len(data)))
        sha.update(data)
    norm = tensors["model.layers.0.input_layernorm.weight"].float().tolist()
    return {"sha256": sha.hexdigest(), "bytes": size, "norm": norm}


def bits(tensor):
    return tensor.to(torch.float32).view(torch.int32).tolist()


def rope():
    out = []
    for theta in (10000.0, 500000.0, 1e6, 1e7, 12345.678):
        for head_dim in (2, 6, 16, 64, 80, 96, 128, 256):
            config = transformers.LlamaConfig(
                hidden_size=head_dim, num_attention_heads=1,
                rope_parameters={"rope_type": "default", "rope_theta": theta})
            values, _ = LlamaRotaryEmbedding.compute_default_rope_parameters(config)
            out.append({"theta": theta, "head_dim": head_dim, "bits": bits(values)})
    for theta, head_dim, factor, low, high, original in (
            (500000.0, 128, 8.0, 1.0, 4.0, 8192), (500000.0, 64, 32.0, 1.0, 4.0, 8192),
            (10000.0, 16, 2.0, 1.0, 4.0, 64), (1e6, 96, 3.5, 0.5, 7.0, 4096)):
        parameters = {"rope_type": "llama3", "rope_theta": theta, "factor": factor,
                      "low_freq_factor": low, "high_freq_factor": high,
                      "original_max_position_embeddings": original}
        config = transformers.LlamaConfig(hidden_size=head_dim, num_attention_heads=1,
                                          rope_parameters=parameters)
        values, _ = ROPE_INIT_FUNCTIONS["llama3"](config, device="cpu")
        out.append({"theta": theta, "head_dim": head_dim, "factor": factor, "low": low,
                    "high": high, "original": original, "bits": bits(values)})
    return out


def utf8():
    rng = random.Random(11)
    pool = [0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1,
            0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF]
    cases = [bytes(rng.choice(pool) for _ in range(rng.randrange(1, 9))) for _ in range(600)]
    cases += [bytes(rng.randrange(256) for _ in range(30)) for _ in range(50)]
    cases = [c for c in cases if not c.startswith(b"\xef\xbb\xbf")]
    return [[c.hex(), c.decode("utf-8", "replace").encode().hex()] for c in cases]


def main():
    golden = {"tensors": small(),
              "folders": {p.name: digest(p) for p in sorted((HERE / "models").iterdir())
                          if (p / "config.json").exists()},
              "rope": rope()}
    (HERE / "model_golden.json").write_text(json.dumps(golden, indent=None, sort_keys=True) + "\n")
    (HERE / "utf8_golden.json").write_text(json.dumps(utf8(), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
