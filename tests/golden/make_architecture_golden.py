#!/usr/bin/env python3
"""Makes architectures.json: logits of tiny models of each architecture and RoPE recipe.

Run by hand, from anywhere; nothing in the build calls it:

    pip install torch transformers
    python3 tests/golden/make_architecture_golden.py [MODEL_TYPE]…

With model types it makes their cases alone and keeps the others. Made with torch 2.15.0,
transformers 5.23.0 (from granite on 5.24.0), Python 3.11.
Weights are a function of the tensor's name and the element's number (weight() here,
tests/engine/invented_model.cc there), so that no file of them is needed. Each case: config.json,
names and shapes of the tensors, and for texts the float32 bits of every fourth logit at some
positions, of one pass over all tokens in float32 on the CPU.
"""

import json
import pathlib
import struct
import sys
import tempfile

import numpy
import safetensors.torch
import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

HERE = pathlib.Path(__file__).resolve().parent
EVERY = 4
# A document without clusters and one with them: how many tokens are indexed (angles that depend on
# the length are frozen for them) and how many there are, and at which positions logits are kept.
TEXTS = [(48, 72, [61, 62, 66, 71]), (2100, 2120, [2110, 2119])]

SIZES = dict(vocab_size=400, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
             num_attention_heads=4, num_key_value_heads=2, head_dim=16,
             max_position_embeddings=4096, rms_norm_eps=1e-5, eos_token_id=2, bos_token_id=1,
             pad_token_id=0, tie_word_embeddings=False)
SHORT = dict(max_position_embeddings=32)
LONG_FACTORS = [1.0 + 0.5 * i for i in range(8)]
SHORT_FACTORS = [1.0 + 0.05 * i for i in range(8)]

MULTIPLIERS = dict(embedding_multiplier=6.0, attention_multiplier=0.17,
                   residual_multiplier=0.4, logits_scaling=3.0)
ALL_ATTENTION = dict(num_local_experts=0, shared_intermediate_size=48, mamba_n_heads=8,
                     layer_types=["attention"] * 3)
WINDOW_FIRST = ["sliding_attention", "full_attention", "sliding_attention"]
COHERE = dict(layer_norm_eps=1e-4, tie_word_embeddings=True)
EXPERTS = dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=24, rope_theta=1e6)
GPT_OSS = dict(num_local_experts=6, num_experts_per_tok=3, sliding_window=16, attention_bias=True,
               rope_theta=150000.0, rope_scaling=dict(
                   rope_type="yarn", factor=8.0, original_max_position_embeddings=32,
                   beta_fast=32.0, beta_slow=1.0, truncate=False))

CASES = {
    "llama": ("llama", dict(rope_theta=1000.0)),
    "llama tied": ("llama", dict(tie_word_embeddings=True)),
    "llama biases": ("llama", dict(attention_bias=True)),
    "llama mlp biases": ("llama", dict(attention_bias=True, mlp_bias=True)),
    "llama 3": ("llama", dict(rope_scaling=dict(
        rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=32))),
    "llama linear": ("llama", dict(rope_scaling=dict(rope_type="linear", factor=4.0))),
    "llama dynamic": ("llama", dict(rope_scaling=dict(rope_type="dynamic", factor=4.0), **SHORT)),
    "llama yarn": ("llama", dict(rope_scaling=dict(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=32))),
    "llama yarn untruncated": ("llama", dict(rope_scaling=dict(
        rope_type="yarn", factor=8.0, original_max_position_embeddings=16, beta_fast=8.0,
        beta_slow=2.0, truncate=False, mscale=0.7, mscale_all_dim=1.3))),
    "mistral": ("mistral", dict(sliding_window=16)),
    "mistral without window": ("mistral", dict(sliding_window=None, rope_theta=1e6)),
    "qwen2": ("qwen2", dict(rope_theta=1e6)),
    "qwen2 windows": ("qwen2", dict(use_sliding_window=True, sliding_window=20,
                                    max_window_layers=1)),
    "qwen3": ("qwen3", dict(rope_theta=1e6)),
    "gemma2": ("gemma2", dict(sliding_window=16, query_pre_attn_scalar=24,
                              attn_logit_softcapping=3.0, final_logit_softcapping=4.0,
                              tie_word_embeddings=True, hidden_activation="gelu_pytorch_tanh")),
    "gemma2 default caps": ("gemma2", dict(sliding_window=30, query_pre_attn_scalar=16,
                                           tie_word_embeddings=True)),
    "gemma3": ("gemma3_text", dict(sliding_window=12, query_pre_attn_scalar=20,
                                   sliding_window_pattern=3, tie_word_embeddings=True,
                                   rope_theta=1e6, rope_local_base_freq=10000.0,
                                   rope_scaling=dict(rope_type="linear", factor=8.0))),
    "gemma3 new fields": ("gemma3_text", dict(
        sliding_window=12, query_pre_attn_scalar=16, tie_word_embeddings=True,
        layer_types=["full_attention", "sliding_attention", "full_attention"],
        rope_parameters=dict(
            full_attention=dict(rope_type="default", rope_theta=500000.0),
            sliding_attention=dict(rope_type="default", rope_theta=2000.0)))),
    "phi3": ("phi3", dict(sliding_window=20, original_max_position_embeddings=4096)),
    "phi3 long": ("phi3", dict(
        sliding_window=262144, original_max_position_embeddings=32,
        rope_scaling=dict(type="longrope", long_factor=LONG_FACTORS,
                          short_factor=SHORT_FACTORS))),
    "phi3 short": ("phi3", dict(
        original_max_position_embeddings=1024,
        rope_scaling=dict(type="longrope", long_factor=LONG_FACTORS,
                          short_factor=SHORT_FACTORS))),
    "phi4 mini": ("phi3", dict(
        partial_rotary_factor=0.75, tie_word_embeddings=True,
        original_max_position_embeddings=32,
        rope_scaling=dict(type="longrope", long_factor=LONG_FACTORS[:6],
                          short_factor=SHORT_FACTORS[:6]))),
    "granite": ("granite", dict(MULTIPLIERS)),
    "granite biases": ("granite", dict(MULTIPLIERS, attention_bias=True,
                                       tie_word_embeddings=True)),
    "granite mlp biases": ("granite", dict(MULTIPLIERS, mlp_bias=True)),
    "granite hybrid": ("granitemoehybrid", dict(MULTIPLIERS, **ALL_ATTENTION)),
    "granite hybrid rope": ("granitemoehybrid", dict(
        MULTIPLIERS, position_embedding_type="rope", **ALL_ATTENTION)),
    "olmo2": ("olmo2", dict(rope_theta=5000.0)),
    "olmo2 biases": ("olmo2", dict(attention_bias=True, num_key_value_heads=4)),
    "olmo3": ("olmo3", dict(sliding_window=16, num_hidden_layers=4, rope_parameters=dict(
        full_attention=dict(rope_type="default", rope_theta=5000.0),
        sliding_attention=dict(rope_type="default", rope_theta=5000.0)))),
    "olmo3 yarn": ("olmo3", dict(
        sliding_window=12, rope_theta=500000.0, layer_types=WINDOW_FIRST, rope_scaling=dict(
            rope_type="yarn", factor=4.0, original_max_position_embeddings=32,
            beta_fast=32.0, beta_slow=1.0, attention_factor=1.1))),
    "smollm3": ("smollm3", dict(num_hidden_layers=4, rope_theta=5000.0)),
    "smollm3 list": ("smollm3", dict(no_rope_layers=[0, 1, 1], attention_bias=True,
                                     rope_theta=5000.0, tie_word_embeddings=True)),
    "glm": ("glm", dict(rope_theta=5000.0)),
    "glm quarter": ("glm", dict(partial_rotary_factor=0.25, attention_bias=False)),
    "glm4": ("glm4", dict(rope_theta=5000.0)),
    "exaone": ("exaone", dict(rope_theta=5000.0)),
    "exaone4": ("exaone4", dict(sliding_window=16, num_hidden_layers=4, rope_theta=5000.0)),
    "exaone4 without window": ("exaone4", dict(
        sliding_window=None, layer_types=["full_attention"] * 3, rope_scaling=dict(
        rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=32))),
    "exaone4 types": ("exaone4", dict(sliding_window=12, layer_types=WINDOW_FIRST)),
    "cohere": ("cohere", dict(COHERE, rope_theta=5000.0)),
    "cohere biases": ("cohere", dict(COHERE, attention_bias=True, logit_scale=0.25)),
    "cohere2": ("cohere2", dict(COHERE, sliding_window=16, num_hidden_layers=4,
                                rope_theta=5000.0)),
    "cohere2 types": ("cohere2", dict(COHERE, sliding_window=12, layer_types=WINDOW_FIRST)),
    "mixtral": ("mixtral", dict(num_local_experts=6, num_experts_per_tok=2, rope_theta=1000.0)),
    "mixtral window": ("mixtral", dict(num_local_experts=4, num_experts_per_tok=3,
                                       sliding_window=16, rope_theta=1e6)),
    "qwen2 moe": ("qwen2_moe", dict(EXPERTS, shared_expert_intermediate_size=40)),
    "qwen2 moe dense layer": ("qwen2_moe", dict(
        EXPERTS, shared_expert_intermediate_size=64, mlp_only_layers=[1], norm_topk_prob=True,
        tie_word_embeddings=True)),
    "qwen3 moe": ("qwen3_moe", dict(EXPERTS, norm_topk_prob=True)),
    "qwen3 moe dense layers": ("qwen3_moe", dict(
        EXPERTS, num_hidden_layers=4, decoder_sparse_step=2, mlp_only_layers=[3])),
    "olmoe": ("olmoe", dict(num_experts=8, num_experts_per_tok=3, rope_theta=5000.0)),
    "gpt oss": ("gpt_oss", dict(GPT_OSS, num_hidden_layers=4)),
    "gpt oss clamped": ("gpt_oss", dict(
        {key: GPT_OSS[key] for key in GPT_OSS if not key.startswith("rope")},
        layer_types=WINDOW_FIRST, swiglu_limit=0.4,
        rope_parameters=dict(rope_type="default", rope_theta=5000.0))),
    "granite moe": ("granitemoe", dict(MULTIPLIERS, num_local_experts=6, num_experts_per_tok=3)),
}
CLASSES = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM",
           "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
           "gemma2": "Gemma2ForCausalLM", "gemma3_text": "Gemma3ForCausalLM",
           "phi3": "Phi3ForCausalLM", "granite": "GraniteForCausalLM",
           "granitemoehybrid": "GraniteMoeHybridForCausalLM", "olmo2": "Olmo2ForCausalLM",
           "olmo3": "Olmo3ForCausalLM", "smollm3": "SmolLM3ForCausalLM",
           "glm": "GlmForCausalLM", "glm4": "Glm4ForCausalLM",
           "exaone": "ExaoneForCausalLM", "exaone4": "Exaone4ForCausalLM",
           "cohere": "CohereForCausalLM",
           "cohere2": "Cohere2ForCausalLM", "mixtral": "MixtralForCausalLM",
           "qwen2_moe": "Qwen2MoeForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM",
           "olmoe": "OlmoeForCausalLM", "gpt_oss": "GptOssForCausalLM",
           "granitemoe": "GraniteMoeForCausalLM"}
# Their tensors have other names and shapes in files than in memory, so they are made as files.
WITH_EXPERTS = ("mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "granitemoe", "gpt_oss")
# Their head_dim is always hidden_size / num_attention_heads.
WITHOUT_HEAD_DIM = ("phi3", "olmo2", "olmo3", "cohere", "cohere2", "granitemoehybrid",
                    "granitemoe", "olmoe", "qwen2_moe")


# The names that EXAONE 3.5's files have in the place of Llama's.
EXAONE_TENSORS = [
    ("model.embed_tokens", "transformer.wte"), ("model.norm", "transformer.ln_f"),
    ("model.layers", "transformer.h"), ("self_attn.o_proj", "attn.attention.out_proj"),
    ("self_attn", "attn.attention"), ("input_layernorm", "ln_1"),
    ("post_attention_layernorm", "ln_2"), ("gate_proj", "c_fc_0"), ("up_proj", "c_fc_1"),
    ("down_proj", "c_proj")]


def name_in_file(name, model_type):
    for ours, theirs in EXAONE_TENSORS if model_type == "exaone" else []:
        name = name.replace(ours, theirs)
    return name


def weight(name, shape, norm_base):
    """splitmix64 of FNV-1a of the name plus the element's number, as 24 bits in [-0.5, 0.5)."""
    hashed = 0xCBF29CE484222325
    for byte in name.encode():
        hashed = (hashed ^ byte) * 0x100000001B3 % 2**64
    count = int(numpy.prod(shape))
    with numpy.errstate(over="ignore"):
        z = numpy.uint64(hashed) + numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(
            0x9E3779B97F4A7C15)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        z = z ^ (z >> numpy.uint64(31))
    unit = (z >> numpy.uint64(40)).astype(numpy.float64) / 2**24 - 0.5
    if name.endswith("sinks"):
        values = unit * 8.0
    elif len(shape) == 1:
        values = unit * 0.4 + (norm_base if name.endswith("norm.weight") else 0.0)
    else:
        values = unit * 3.5 / numpy.sqrt(shape[1])
    return torch.from_numpy(values.astype(numpy.float32).reshape(shape))


def through_files(config):
    """The model of `config` with our weights, and the shapes of the tensors in its files."""
    with tempfile.TemporaryDirectory() as folder:
        transformers.AutoModelForCausalLM.from_config(config).to(torch.float32).save_pretrained(
            folder)
        path = pathlib.Path(folder) / "model.safetensors"
        state = {key: weight(key, list(value.shape), 1.0)
                 for key, value in safetensors.torch.load_file(path).items()}
        safetensors.torch.save_file(state, path, metadata=dict(format="pt"))
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager",
            experts_implementation="eager", output_loading_info=True)
    assert not any(info.values()), info
    return model.eval(), {key: list(value.shape) for key, value in state.items()}


def make(name):
    model_type, changes = CASES[name]
    fields = dict(SIZES, **changes)
    if model_type in WITHOUT_HEAD_DIM:
        fields["hidden_size"] = 64
    config = transformers.AutoConfig.for_model(model_type, **json.loads(json.dumps(fields)))
    config._attn_implementation = "eager"
    written = dict(fields, model_type=model_type, architectures=[CLASSES[model_type]])
    if model_type in WITH_EXPERTS:
        model, shapes = through_files(config)
        return dict(config=written, tensors=shapes, every=EVERY,
                    texts=[run(model, model.config, *text) for text in TEXTS])
    model = transformers.AutoModelForCausalLM.from_config(config).eval().to(torch.float32)
    norm_base = 0.0 if model_type.startswith("gemma") else 1.0
    state = {key: weight(name_in_file(key, model_type), list(value.shape), norm_base)
             for key, value in model.state_dict().items() if key != "lm_head.weight"}
    if not config.tie_word_embeddings:
        state["lm_head.weight"] = weight("lm_head.weight", [400, fields["hidden_size"]],
                                         norm_base)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    shapes = {name_in_file(key, model_type): list(value.shape) for key, value in state.items()}
    return dict(config=written, tensors=shapes, every=EVERY,
                texts=[run(model, config, *text) for text in TEXTS])


def run(model, config, document, count, positions):
    tokens = [1] + [(7 * i * i + 13 * i + i // 397 * 5 + 5) % 397 + 3 for i in range(1, count)]
    if config.rope_parameters.get("rope_type") == "dynamic":  # frozen for the document
        rotary = model.model.rotary_emb
        rotary.inv_freq, _ = ROPE_INIT_FUNCTIONS["dynamic"](config, "cpu", seq_len=document)
        rotary.max_seq_len_cached = 10**9
        rotary.original_max_seq_len = 0
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0]
    vocabulary = logits.shape[1]
    rows = [struct.pack(f"<{vocabulary // EVERY}f", *logits[p][::EVERY].tolist()).hex()
            for p in positions]
    return dict(tokens=count, document=document, positions=positions, logits=rows,
                std=float(logits.std()))


def main():
    path = HERE / "architectures.json"
    cases = json.loads(path.read_text()) if sys.argv[1:] else {}
    names = [name for name, case in CASES.items() if case[0] in sys.argv[1:] or not cases]
    for name in names:
        cases[name] = make(name)
        print(name, [round(text["std"], 3) for text in cases[name]["texts"]], flush=True)
        lines = [f"{json.dumps(key)}: {json.dumps(cases[key])}" for key in CASES if key in cases]
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
