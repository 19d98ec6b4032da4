#!/usr/bin/env python3
"""Makes the reference models of tests/golden/models and what transformers computes on them.

Run by hand, from anywhere; nothing in the build calls it:

    pip install torch transformers safetensors numpy
    python3 tests/golden/make_goldens.py            # rewrite models/, then check them
    python3 tests/golden/make_goldens.py --search   # look for better seeds (slow), write nothing

Made with torch 2.15.0, transformers 5.23.0, safetensors 0.8.0, numpy 2.4.6. The weights and the
prompts come from numpy's frozen RandomState, so that they are the same bytes everywhere; logits
may differ in their last bits with another torch.

models/<name>/ holds config.json and model.safetensors (or shards and their index), as from the
Hub, and golden.bin, all little-endian, no padding, nothing after the last field:

    u32 num_tokens
    i32 prompt[num_tokens]              token ids, position 0 first; never 0, 1 or 2
    u32 vocab
    f32 logits[num_tokens][vocab]       one causal forward pass over the prompt
    u32 num_greedy
    i32 greedy[num_greedy]              the argmax continuation of the prompt; never 2 (</s>)
    f32 margin[num_greedy]              top-1 minus top-2 logit where each of them was chosen

greedy[0] is the argmax of the last row of logits and margin[0] its margin. Everything is float32
on the CPU with eager attention, on the values as stored (f16 and bf16 widened to f32). golden.json
says the same things for people: seed, spread of the logits, smallest margin.
"""

import argparse
import json
import pathlib
import struct

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent / "models"
VOCAB = 256
NUM_GREEDY = 256
END_OF_TEXT = 2
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

# factor, low and high around original_max_position_embeddings 64: of the 8 pairs of a head of 16
# at theta 5000 (wavelengths 6.3, 18, 53, 153, ...) one is kept, two are blended, five are scaled.
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def case(seed, prompt, dtype, hidden, ffn, layers, heads, kv_heads=None, shards=1, eps=1e-5,
         embedding_std=0.05, **config):
    """One model. kv_heads None leaves the field out (as many as heads); so does eps None (1e-6);
    `config` is merged into config.json as it is."""
    fields = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCAB,
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "max_position_embeddings": 1024,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": END_OF_TEXT,
    }
    if kv_heads is not None:
        fields["num_key_value_heads"] = kv_heads
    if eps is not None:
        fields["rms_norm_eps"] = eps
    # transformers 4 wrote torch_dtype, transformers 5 writes dtype.
    fields["dtype" if "rope_parameters" in config else "torch_dtype"] = dtype
    fields.update(config)
    return {"seed": seed, "prompt": prompt, "shards": shards, "embedding_std": embedding_std,
            "config": fields}


# The seeds are the best that --search found.
CASES = {
    # Neither rope_theta (10000) nor rope_scaling is given.
    "gqa": case(20, 64, "float32", 32, 64, 2, 4, 2, head_dim=16),
    # num_key_value_heads, head_dim and rms_norm_eps are left out; so is lm_head.weight.
    "tied_mha": case(18, 48, "float32", 32, 96, 2, 2, eps=None, embedding_std=0.02,
                     tie_word_embeddings=True, rope_theta=10000.0),
    # head_dim is not hidden / heads.
    "mqa_f16": case(9, 64, "float16", 48, 64, 2, 8, 1, head_dim=16, rope_theta=20000.0),
    "llama3_v4": case(22, 96, "float32", 32, 64, 2, 2, 1, tie_word_embeddings=True,
                      rope_theta=5000.0, rope_scaling=LLAMA3),
    "llama3_v5": case(16, 80, "float16", 48, 64, 3, 3, 1,
                      rope_parameters={**LLAMA3, "rope_theta": 5000.0}),
    "sharded_bf16": case(7, 64, "bfloat16", 48, 96, 2, 6, 3, shards=3, eps=1e-4,
                         embedding_std=0.1, head_dim=16, rope_theta=1e6, rope_scaling=None),
}


# ---- making a model ------------------------------------------------------------------------------

def make_weights(c, random):
    """Random weights that make every part of the model matter: trained models have peaked
    attention and logits far apart, the usual N(0, 0.02) start has neither."""
    f = c["config"]
    hidden, ffn, heads = f["hidden_size"], f["intermediate_size"], f["num_attention_heads"]
    kv_heads = f.get("num_key_value_heads", heads)
    head_dim = f.get("head_dim", hidden // heads)

    def matrix(rows, columns, gain):  # unit inputs give outputs of about `gain`
        return random.standard_normal((rows, columns)) * gain / columns**0.5

    def norm(scale):
        return random.uniform(0.5, 1.5, hidden) * scale

    # Small embeddings, so that rms_norm_eps counts; the layers add several times their size.
    std = c["embedding_std"]
    weights = {"model.embed_tokens.weight": random.standard_normal((VOCAB, hidden)) * std}
    for i in range(f["num_hidden_layers"]):
        p = f"model.layers.{i}."
        weights[p + "input_layernorm.weight"] = norm(1.0)
        # Scores of standard deviation 3 or so: a few keys get most of the weight.
        weights[p + "self_attn.q_proj.weight"] = matrix(heads * head_dim, hidden, 1.7)
        weights[p + "self_attn.k_proj.weight"] = matrix(kv_heads * head_dim, hidden, 1.7)
        weights[p + "self_attn.v_proj.weight"] = matrix(kv_heads * head_dim, hidden, 1.0)
        weights[p + "self_attn.o_proj.weight"] = matrix(hidden, heads * head_dim, 2 * std)
        weights[p + "post_attention_layernorm.weight"] = norm(1.0)
        weights[p + "mlp.gate_proj.weight"] = matrix(ffn, hidden, 1.5)
        weights[p + "mlp.up_proj.weight"] = matrix(ffn, hidden, 1.5)
        weights[p + "mlp.down_proj.weight"] = matrix(hidden, ffn, 2 * std)
    # Logits of standard deviation 3 or so.
    if f["tie_word_embeddings"]:
        output = weights["model.embed_tokens.weight"]
        weights["model.norm.weight"] = norm(3.0 / (std * hidden**0.5))
    else:
        output = weights["lm_head.weight"] = matrix(VOCAB, hidden, 3.0)
        weights["model.norm.weight"] = norm(1.0)
    # Its logit is 0 and never wins: a greedy run that stops at </s> sees all of the golden.
    output[END_OF_TEXT] = 0.0
    dtype = DTYPES[f.get("dtype", f.get("torch_dtype"))]
    return {name: torch.from_numpy(np.float32(w)).to(dtype) for name, w in weights.items()}


def write_model(folder, c, weights):
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    (folder / "config.json").write_text(json.dumps(c["config"], indent=2) + "\n")
    metadata = {"format": "pt"}

    def save(tensors, file):
        save_file(tensors, folder / file, metadata)
        (folder / file).chmod(0o644)  # save_file makes it private

    if c["shards"] == 1:
        save(weights, "model.safetensors")
        return
    files = [f"model-{i + 1:05}-of-{c['shards']:05}.safetensors" for i in range(c["shards"])]
    # Dealt out in turn, so that every layer is spread over all files.
    place = {name: files[i % len(files)] for i, name in enumerate(sorted(weights))}
    for file in files:
        save({n: w for n, w in weights.items() if place[n] == file}, file)
    total = sum(w.numel() * w.element_size() for w in weights.values())
    index = {"metadata": {"total_size": total}, "weight_map": place}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def load(folder, **changes):
    """The model in `folder` as transformers reads it; `changes` replace fields of config.json."""
    fields = json.loads((folder / "config.json").read_text())
    fields.update(changes)
    config = transformers.LlamaConfig.from_dict(fields)
    model = transformers.LlamaForCausalLM.from_pretrained(
        folder, config=config, dtype=torch.float32, attn_implementation="eager")
    return model.eval()


# ---- running it ----------------------------------------------------------------------------------

def forward(model, prompt):
    with torch.no_grad():
        return model(torch.tensor([prompt]), use_cache=False).logits[0].float().numpy()


def continue_greedily(model, prompt, count):
    """-> ids, margins. With transformers' key-value cache, one token at a time."""
    ids, margins, cache, feed = [], [], None, torch.tensor([prompt])
    with torch.no_grad():
        while len(ids) < count:
            out = model(feed, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            top = out.logits[0, -1].float().topk(2)
            ids.append(int(top.indices[0]))
            margins.append(float(top.values[0] - top.values[1]))
            feed = torch.tensor([[ids[-1]]])
    return ids, margins


def loops(ids):
    """Whether the last half repeats with some period."""
    tail = ids[len(ids) // 2:]
    return any(tail[p:] == tail[:-p] for p in range(1, len(tail) // 2 + 1))


def make(name, c, folder):
    """Writes the model; -> prompt, logits, greedy ids, margins."""
    random = np.random.RandomState(c["seed"])
    write_model(folder, c, make_weights(c, random))
    prompt = [int(t) for t in random.randint(3, VOCAB, c["prompt"])]
    model = load(folder)
    logits = forward(model, prompt)
    ids, margins = continue_greedily(model, prompt, NUM_GREEDY)
    return prompt, logits, ids, margins


def spread(logits):
    """Standard deviation over the vocabulary, mean of all positions: the unit of every figure."""
    return float(logits.std(axis=1).mean())


def write_golden(folder, c, prompt, logits, ids, margins):
    with open(folder / "golden.bin", "wb") as out:
        out.write(struct.pack("<I", len(prompt)) + np.array(prompt, "<i4").tobytes())
        out.write(struct.pack("<I", VOCAB) + logits.astype("<f4").tobytes())
        out.write(struct.pack("<I", len(ids)) + np.array(ids, "<i4").tobytes())
        out.write(np.array(margins, "<f4").tobytes())
    about = {
        "made_by": "tests/golden/make_goldens.py",
        "transformers": transformers.__version__,
        "torch": torch.__version__.split("+")[0],
        "seed": c["seed"],
        "num_tokens": len(prompt),
        "num_greedy": len(ids),
        "logits_std": round(spread(logits), 4),
        "smallest_margin": round(min(margins), 5),
        "distinct_greedy_tokens": len(set(ids)),
    }
    (folder / "golden.json").write_text(json.dumps(about, indent=2) + "\n")


# ---- checking that nothing in config.json can be misread unnoticed -------------------------------

def misreadings(c):
    """-> [(what, changed fields of config.json)], each leaving the shapes valid."""
    f = c["config"]
    heads = f["num_attention_heads"]
    kv_heads = f.get("num_key_value_heads", heads)
    head_dim = f.get("head_dim", f["hidden_size"] // heads)
    out = [
        ("twice the heads of half the size", {"num_attention_heads": 2 * heads,
                                              "num_key_value_heads": 2 * kv_heads,
                                              "head_dim": head_dim // 2}),
        ("rms_norm_eps x 10", {"rms_norm_eps": 10 * f.get("rms_norm_eps", 1e-6)}),
        ("hidden_act gelu", {"hidden_act": "gelu"}),
        ("tie_word_embeddings", {"tie_word_embeddings": True}),
    ]
    if f["tie_word_embeddings"]:
        out.pop()  # there is no other matrix to misread
    recipe_field = next((k for k in ("rope_parameters", "rope_scaling") if f.get(k)), None)
    recipe = f.get(recipe_field, {})
    theta = recipe.get("rope_theta", f.get("rope_theta", 10000.0))

    def changed(**fields):
        if recipe_field == "rope_parameters":
            return {recipe_field: {**recipe, **fields}}
        scaling = {k: v for k, v in fields.items() if k != "rope_theta"}
        return {"rope_theta": fields.get("rope_theta", theta),
                **({recipe_field: {**recipe, **scaling}} if scaling else {})}

    out.append(("rope_theta x 1.5", changed(rope_theta=1.5 * theta)))
    if recipe_field:
        out.append(("rope_theta 10000", changed(rope_theta=10000.0)))
        out.append(("no llama3", {recipe_field: {"rope_type": "default", "rope_theta": theta}}))
        for key in ("factor", "low_freq_factor", "high_freq_factor",
                    "original_max_position_embeddings"):
            out.append((key + " x 1.5", changed(**{key: type(recipe[key])(1.5 * recipe[key])})))
    return out


def rewired(model, c):
    """-> [(what, model)]: mistakes of an implementation, not of a configuration."""
    f = c["config"]
    heads = f["num_attention_heads"]
    kv_heads = f.get("num_key_value_heads", heads)
    head_dim = f.get("head_dim", f["hidden_size"] // heads)
    if 1 < kv_heads < heads:
        # Query head h reading kv head h % kv_heads instead of h / group.
        group = heads // kv_heads
        order = torch.arange(heads).view(group, kv_heads).t().reshape(-1)
        rows = (order[:, None] * head_dim + torch.arange(head_dim)).reshape(-1)
        for layer in model.model.layers:
            a = layer.self_attn
            a.q_proj.weight.data = a.q_proj.weight.data[rows]
            a.o_proj.weight.data = a.o_proj.weight.data[:, rows]
        yield "query heads dealt to kv heads in turn", model
        for layer in model.model.layers:
            a = layer.self_attn
            back = torch.argsort(rows)
            a.q_proj.weight.data = a.q_proj.weight.data[back]
            a.o_proj.weight.data = a.o_proj.weight.data[:, back]
    # Rotary pairs (2i, 2i + 1) instead of (i, i + head_dim / 2).
    pairs = torch.arange(head_dim).view(-1, 2).t().reshape(-1)
    for layer in model.model.layers:
        for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj):
            w = projection.weight.data
            projection.weight.data = w.view(-1, head_dim, w.shape[1])[:, pairs].reshape(w.shape)
    yield "rotary pairs side by side", model


def check(name, c, folder, prompt, logits, ids, margins):
    """Prints the table of one golden; -> whether it is fit for use."""
    std, good = spread(logits), True

    def line(what, value, fine):
        nonlocal good
        good = good and fine
        print(f"  {what:<46}{value:>12}{'' if fine else '   TOO WEAK'}")

    model = load(folder)
    with torch.no_grad():
        attention = model(torch.tensor([prompt]), output_attentions=True).attentions
    peaks = [float(a[0, :, len(prompt) // 2:].amax(-1).mean()) for a in attention]
    peak = sum(peaks) / len(peaks)
    wide = forward(model.double(), prompt)
    print(f"{name}: {sum(p.stat().st_size for p in folder.iterdir())} bytes")
    line("std of the logits", f"{std:.2f}", std >= 2)
    line("mean largest attention weight", f"{peak:.2f}", 0.3 < peak < 0.95)
    line("smallest greedy margin / std", f"{min(margins) / std:.5f}", min(margins) > 1e-3 * std)
    line("distinct greedy tokens", len(set(ids)), len(set(ids)) >= 32 and not loops(ids))
    line("float64 differs by (max, / std)", f"{abs(wide - logits).max() / std:.1e}", True)
    again = forward(load(folder), prompt)
    line("a second load differs by", f"{abs(again - logits).max():.1e}", (again == logits).all())
    print("  largest change of a logit / std, if misread:")
    wrong = [(what, load(folder, **fields)) for what, fields in misreadings(c)]
    for what, model in wrong:
        if what == "tie_word_embeddings":
            # from_pretrained keeps a stored lm_head.weight whatever the field says.
            model.lm_head.weight = model.model.embed_tokens.weight
        change = abs(forward(model, prompt) - logits).max() / std
        line("  " + what, f"{change:.4f}", change > 1e-3)
    for what, model in rewired(load(folder), c):
        change = abs(forward(model, prompt) - logits).max() / std
        line("  " + what, f"{change:.4f}", change > 1e-3)
    return good


def search(name, c, seeds):
    """Prints the seeds whose greedy run is fair and varied, the widest smallest margin first."""
    import tempfile
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            _, logits, ids, margins = make(name, {**c, "seed": seed}, pathlib.Path(folder))
            if not loops(ids) and len(set(ids)) >= 32:
                found.append((round(min(margins) / spread(logits), 5), seed, len(set(ids))))
    best = sorted(found, reverse=True)[:5]
    print(name, "(smallest margin / std, seed, distinct tokens):", best, flush=True)


README = """\
# Reference models

Six tiny random Llama checkpoints and what transformers computes on them: logits of a prompt and
256 greedy tokens after it, in `golden.bin` (layout: `../make_goldens.py`, which made all of this).
They are noise, not language models; each covers one way of writing or shaping a checkpoint.
Remake: `pip install torch transformers safetensors numpy && python3 tests/golden/make_goldens.py`.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--search", action="store_true", help="look for seeds, write nothing")
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--only", help="one case by name")
    options = parser.parse_args()
    torch.set_num_threads(1)  # one order of additions
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    cases = {n: c for n, c in CASES.items() if options.only in (None, n)}
    if options.search:
        for name, c in cases.items():
            search(name, c, range(1, options.seeds + 1))
        return
    good = True
    HERE.mkdir(exist_ok=True)
    for name, c in cases.items():
        golden = make(name, c, HERE / name)
        write_golden(HERE / name, c, *golden)
        good = check(name, c, HERE / name, *golden) and good
    (HERE / "README.md").write_text(README)
    if not good:
        raise SystemExit("some goldens are too weak")


if __name__ == "__main__":
    main()
