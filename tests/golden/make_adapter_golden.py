#!/usr/bin/env python3
"""Makes tests/golden/adapter: LoRA adapters of tests/golden/tiny by PyPI's peft, and its logits.

Run by hand, from anywhere; nothing in the build calls it:

    pip install torch transformers safetensors numpy peft==0.21.2 gguf==0.19.0
    python3 tests/golden/make_adapter_golden.py

lora/      f32, rank 4, alpha 8, on all seven matrices of a layer
rslora/    f16, rank 3, alpha 6 (of q_proj 9, by alpha_pattern), rsLoRA's scale, on queries, values and
           the MLP's second matrix
lora.gguf  lora/ as llama.cpp's convert_lora_to_gguf.py writes it: rows of queries and keys in the order of
           its llama models
NAME.bin   i32 ids[32] and, after each of the last 8 of them, f32 logits[400] of transformers with peft
"""

import json
import pathlib
import shutil

import gguf
import numpy as np
import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "adapter"
NUM_IDS, NUM_LOGITS = 32, 8
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
CASES = {
    "lora": (dict(r=4, lora_alpha=8, target_modules=ALL), torch.float32),
    "rslora": (dict(r=3, lora_alpha=6, alpha_pattern={"q_proj": 9}, use_rslora=True,
                    target_modules=["q_proj", "v_proj", "down_proj"]), torch.float16),
}


def base():
    return transformers.AutoModelForCausalLM.from_pretrained(HERE / "tiny", dtype=torch.float32,
                                                             attn_implementation="eager").eval()


def make(name, settings, dtype, draw):
    folder = OUT / name
    model = peft.get_peft_model(base(), peft.LoraConfig(task_type="CAUSAL_LM", **settings))
    model.save_pretrained(folder)
    tensors = load_file(folder / "adapter_model.safetensors")
    for key in sorted(tensors):  # values of numpy's frozen RandomState: the same bytes everywhere
        tensor = tensors[key]
        values = torch.from_numpy(draw.normal(0, 0.3, tuple(tensor.shape)).astype(np.float32))
        tensors[key] = values.to(dtype).contiguous()
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    (folder / "README.md").unlink(missing_ok=True)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = "tiny"
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    return tensors


def logits(name, ids):
    model = peft.PeftModel.from_pretrained(base(), OUT / name).float().eval()
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0, -NUM_LOGITS:].numpy()


def permuted(rows, heads):
    """LlamaModel.permute of llama.cpp's convert_hf_to_gguf.py."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def write_gguf(tensors, alpha, config):
    writer = gguf.GGUFWriter(OUT / "lora.gguf", "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(alpha))
    names = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output",
             "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down"}
    for key in sorted(tensors):
        parts = key.split(".")
        layer, module, half = parts[parts.index("layers") + 1], parts[-3], parts[-2]
        values = tensors[key].numpy()
        if half == "lora_B" and module in ("q_proj", "k_proj"):
            values = permuted(values, config.num_attention_heads if module == "q_proj" else
                              config.num_key_value_heads)
        writer.add_tensor(f"blk.{layer}.{names[module]}.weight.lora_{half[-1].lower()}",
                          np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    draw = np.random.RandomState(7)
    ids = draw.randint(3, 400, NUM_IDS).astype(np.int32)
    for name, (settings, dtype) in CASES.items():
        tensors = make(name, settings, dtype, draw)
        if name == "lora":
            write_gguf(tensors, settings["lora_alpha"], base().config)
        found = logits(name, ids.tolist())
        (OUT / f"{name}.bin").write_bytes(ids.tobytes() + found.astype(np.float32).tobytes())
        print(name, "deviation of the logits", found.std(), "from the base",
              np.abs(found - base()(torch.tensor([ids.tolist()])).logits[0, -NUM_LOGITS:].detach().numpy()).max())


if __name__ == "__main__":
    main()
