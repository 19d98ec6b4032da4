#!/usr/bin/env python3
"""Makes tests/golden/tiny: a random Llama model with its own tokenizer, for end-to-end tests.

Run by hand, from anywhere; nothing in the build calls it:

    pip install torch safetensors sentencepiece numpy
    python3 tests/golden/make_tiny_model.py

Made with torch 2.15.0, safetensors 0.8.0, sentencepiece 0.2.3, numpy 2.4.6. Its answers are noise,
but the same noise every time: the model is there to take a text through the whole engine in no
time. Positions reach 32768, so that documents can be long; attention is peaked, so that there is
something to find in them.
"""

import io
import json
import pathlib
import random

import numpy as np
import sentencepiece
import torch
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent / "tiny"
TEXT_SEED = 7
SEED = 9  # of the weights: greedy answers that wander instead of repeating one token
PIECES = 400
HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 32, 64, 2, 4, 2, 16

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": PIECES,
    "hidden_size": HIDDEN,
    "intermediate_size": FFN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "max_position_embeddings": 32768,
    "rope_theta": 100000.0,
    "rms_norm_eps": 1e-05,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "torch_dtype": "float32",
}

ADJECTIVES = "old quiet narrow bright heavy young tall wooden sharp grey local empty".split()
NOUNS = ("road market river garden letter window ladder kettle farmer clerk visitor child teacher "
         "guard boat cart horse basket lamp table wall field harbour bridge tower station").split()
VERBS = "crossed watched carried repaired opened closed followed painted visited moved".split()
ENDS = "slowly|often|again|before noon|after the rain|in the evening|with care|at night".split("|")


def training_text(count):
    """Plain sentences with numbers, and the words of the prompt."""
    pick = random.Random(TEXT_SEED)

    def thing():
        return f"the {pick.choice(ADJECTIVES)} {pick.choice(NOUNS)}"

    for i in range(count):
        sentence = f"{thing()} {pick.choice(VERBS)} {thing()} {pick.choice(ENDS)}."
        yield sentence[0].upper() + sentence[1:]
        if i % 8 == 0:
            yield f"{pick.randint(1, 999)} of them {pick.choice(VERBS)} {thing()}."
        if i % 16 == 0:
            yield f"Question: What {pick.choice(VERBS)} {thing()}?"
            yield f"Answer: {thing()}"


def make_tokenizer():
    """-> the bytes of tokenizer.model, with the settings of Llama 2's (identity normaliser)."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=training_text(2000), model_writer=model, model_type="bpe",
        vocab_size=PIECES, byte_fallback=True, split_digits=True, add_dummy_prefix=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False,
        character_coverage=1.0, unk_id=0, bos_id=1, eos_id=2, pad_id=-1, num_threads=1,
        minloglevel=2)
    return model.getvalue()


def make_weights():
    draw = np.random.RandomState(SEED)

    def matrix(rows, columns, gain):  # unit inputs give outputs of about `gain`
        return draw.standard_normal((rows, columns)) * gain / columns**0.5

    def norm(scale=1.0):
        return draw.uniform(0.5, 1.5, HIDDEN) * scale

    std = 0.1
    embedding = draw.standard_normal((PIECES, HIDDEN)) * std
    # Control and byte pieces come first. Small rows seldom win, so that answers are mostly words.
    embedding[:3 + 256] *= 0.5
    weights = {"model.embed_tokens.weight": embedding}
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        weights[p + "input_layernorm.weight"] = norm()
        # Scores of standard deviation 2.3 or so: attention is uneven, yet a key that rounds to its
        # other neighbour (float32 against float64) does not change an answer.
        weights[p + "self_attn.q_proj.weight"] = matrix(HEADS * HEAD_DIM, HIDDEN, 1.5)
        weights[p + "self_attn.k_proj.weight"] = matrix(KV_HEADS * HEAD_DIM, HIDDEN, 1.5)
        weights[p + "self_attn.v_proj.weight"] = matrix(KV_HEADS * HEAD_DIM, HIDDEN, 1.0)
        weights[p + "self_attn.o_proj.weight"] = matrix(HIDDEN, HEADS * HEAD_DIM, 2 * std)
        weights[p + "post_attention_layernorm.weight"] = norm()
        weights[p + "mlp.gate_proj.weight"] = matrix(FFN, HIDDEN, 1.5)
        weights[p + "mlp.up_proj.weight"] = matrix(FFN, HIDDEN, 1.5)
        weights[p + "mlp.down_proj.weight"] = matrix(HIDDEN, FFN, 2 * std)
    weights["model.norm.weight"] = norm(3.0 / (std * HIDDEN**0.5))
    return {name: torch.from_numpy(np.float32(w)) for name, w in weights.items()}


def main():
    HERE.mkdir(exist_ok=True)
    (HERE / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    (HERE / "tokenizer.model").write_bytes(make_tokenizer())
    save_file(make_weights(), HERE / "model.safetensors", {"format": "pt"})
    (HERE / "model.safetensors").chmod(0o644)  # save_file makes it private


if __name__ == "__main__":
    main()
