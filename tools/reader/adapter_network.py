"""A Llama with a LoRA adapter in plain PyTorch, for training adapters and asking with them.

Rows are tokens: a document's first, then those of many questions behind it (adapter_attention.py).
Projections that read the same input are one product (query, key and value; gate and up).
"""

import json
import math
import pathlib

import torch
import torch.nn.functional as F
from torch import nn

import adapter_attention

RANK, ALPHA = 16, 32
# The projections of a layer in the order of transformers, by what they read.
ATTENTION, OUTPUT = ("q_proj", "k_proj", "v_proj"), ("o_proj",)
GATES, DOWN = ("gate_proj", "up_proj"), ("down_proj",)
PARTS = {"self_attn": (ATTENTION, OUTPUT), "mlp": (GATES, DOWN)}


class LowRank(torch.autograd.Function):
    """y = Wx + scale BAx for projections of one input; W is frozen."""

    @staticmethod
    def forward(ctx, x, weight, sizes, scale, *parts):
        """x (rows, inputs), weight (outputs, inputs); parts: every A (rank, inputs), then every B"""
        num = len(sizes)
        a = torch.cat(parts[:num]).to(x.dtype) * scale
        b = [t.to(x.dtype) for t in parts[num:]]
        low = x @ a.t()
        y = x @ weight.t()
        for out, part, matrix in zip(y.split(sizes, 1), low.split(RANK, 1), b):
            out.addmm_(part, matrix.t())
        ctx.save_for_backward(x, weight, low, a, *b)
        ctx.sizes, ctx.scale = sizes, scale
        return y

    @staticmethod
    def backward(ctx, grad):
        x, weight, low, a, *b = ctx.saved_tensors
        parts = grad.split(ctx.sizes, 1)
        low_grad = torch.cat([g @ matrix for g, matrix in zip(parts, b)], 1)
        x_grad = torch.addmm(grad @ weight, low_grad, a) if ctx.needs_input_grad[0] else None
        a_grad = (low_grad.t() @ x).float() * ctx.scale
        b_grad = [(g.t() @ part).float() for g, part in zip(parts, low.split(RANK, 1))]
        return x_grad, None, None, None, *a_grad.split(RANK), *b_grad


class Adapted(nn.Module):
    """Projections of one input, frozen, each with its low-rank addition."""

    def __init__(self, weights, generator):
        """weights: {name: (outputs, inputs)}"""
        super().__init__()
        self.sizes = [w.shape[0] for w in weights.values()]
        self.register_buffer("weight", torch.cat(list(weights.values())), persistent=False)
        inputs = self.weight.shape[1]
        self.a = nn.ParameterDict()
        self.b = nn.ParameterDict()
        for name, w in weights.items():
            # As peft begins: the addition is nothing, because B is.
            bound = 1 / math.sqrt(inputs)
            self.a[name] = nn.Parameter((torch.rand(RANK, inputs, generator=generator) * 2 - 1) * bound)
            self.b[name] = nn.Parameter(torch.zeros(w.shape[0], RANK))

    def forward(self, x):
        """x (rows, inputs) -> (rows, outputs of all projections behind each other)"""
        return LowRank.apply(x, self.weight, self.sizes, ALPHA / RANK, *self.a.values(), *self.b.values())


class Layer(nn.Module):
    """The frozen weights of one layer with their low-rank additions. state: the model's tensors."""

    def __init__(self, state, prefix, generator):
        super().__init__()
        for part, groups in PARTS.items():
            for group in groups:
                setattr(self, group[0], Adapted(
                    {name: state[f"{prefix}{part}.{name}.weight"] for name in group}, generator))
        for name in ("input_layernorm", "post_attention_layernorm"):
            self.register_buffer(name, state[f"{prefix}{name}.weight"], persistent=False)


# ---- elementwise work, which torch.compile makes one loop each ---------------------------------------

def normed(x, weight, eps):
    """x by its root mean square, in f32, times the weight"""
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * weight


def added(x, y, weight, eps):
    """x + y, and that normed"""
    x = x + y
    return x, normed(x, weight, eps)


def heads_of(y, cos, sin, heads, kv_heads):
    """y (rows, query, key and value of all heads); cos, sin (rows, dim / 2)
    -> q, k, v (heads, rows, dim): q and k turned by their positions, each kv head once a query head"""
    rows, half = y.shape[0], cos.shape[-1]
    y = y.view(rows, heads + 2 * kv_heads, 2, half)
    turning = y[:, :heads + kv_heads].float()
    c, s = cos[:, None], sin[:, None]
    first, second = turning[:, :, 0], turning[:, :, 1]
    turned = torch.cat([first * c - second * s, second * c + first * s], -1).to(y.dtype)
    shared = lambda t: t[:, :, None].expand(-1, -1, heads // kv_heads, -1).reshape(rows, heads, 2 * half)
    q, k, v = turned[:, :heads], shared(turned[:, heads:]), shared(y[:, heads + kv_heads:].flatten(2))
    return tuple(t.transpose(0, 1).contiguous() for t in (q, k, v))


def gated(y):
    """y (rows, gate and up behind each other)"""
    gate, up = y.chunk(2, -1)
    return F.silu(gate) * up


class Network(nn.Module):
    """config: transformers' LlamaConfig; state: the state_dict of its LlamaForCausalLM. `compiled`: faster
    after the first minute, the same up to rounding."""

    def __init__(self, config, state, seed=0, compiled=False):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.dim = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.eps = config.rms_norm_eps
        self.theta = config.rope_parameters["rope_theta"]
        self.layers = nn.ModuleList(
            Layer(state, f"model.layers.{i}.", generator) for i in range(config.num_hidden_layers))
        embedding = state["model.embed_tokens.weight"]
        self.register_buffer("embedding", embedding, persistent=False)
        self.register_buffer("norm", state["model.norm.weight"], persistent=False)
        self.register_buffer("head", state.get("lm_head.weight", embedding), persistent=False)
        fused = (lambda f: torch.compile(f, dynamic=True)) if compiled else (lambda f: f)
        self.added, self.heads_of, self.gated = fused(added), fused(heads_of), fused(gated)

    def tables(self, positions):
        """positions (rows) -> cos, sin (rows, dim / 2) in f32"""
        steps = torch.arange(0, self.dim, 2, dtype=torch.float64, device=positions.device) / self.dim
        angles = positions.double()[:, None] * self.theta ** -steps
        return angles.cos().float(), angles.sin().float()

    def enter(self, layer, x, h):
        """The residual stream and what a layer's attention reads. h: the MLP's output before, or None."""
        if h is None:
            return x, normed(x, layer.input_layernorm, self.eps)
        return self.added(x, h, layer.input_layernorm, self.eps)

    def leave(self, layer, x, attended):
        """attended (heads, rows, dim) -> the residual stream, and the MLP's output to be added to it"""
        joined = attended.transpose(0, 1).flatten(1)
        x, h = self.added(x, layer.o_proj(joined), layer.post_attention_layernorm, self.eps)
        return x, layer.down_proj(self.gated(layer.gate_proj(h)))

    def forward(self, ids, positions, mask=None, past=None, keep=None):
        """To answer: ids, positions (rows) -> hidden (rows, width) before the last norm.

        past: [(key, value)] of the rows before, each (heads, rows, dim), or None. mask (rows, past + rows):
        0, or minus infinity where a row must not look; None: each row sees all before it. keep: a list,
        to which each layer's keys and values of all rows are added."""
        x, h = F.embedding(ids, self.embedding), None
        tables = self.tables(positions)
        for index, layer in enumerate(self.layers):
            x, h = self.enter(layer, x, h)
            q, k, v = self.heads_of(layer.q_proj(h), *tables, self.heads, self.kv_heads)
            if past is not None:
                k, v = (torch.cat([old, new], 1) for old, new in zip(past[index], (k, v)))
            if keep is not None:
                keep.append((k, v))
            attended = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask,
                                                      is_causal=mask is None)[0]
            x, h = self.leave(layer, x, attended)
        return x + h

    def learn(self, ids, positions, plan, watch=None, is_whole=True):
        """To train: ids, positions of a document's rows and the questions' behind it.
        -> hidden (question rows, width) before the last norm, and log shares (heads watched, rows
        watched) or None.

        is_whole: gradients go through the document's rows too. Else they end where a question reads
        them: in the adapters of keys and values, whose inputs count as given; that takes little more
        than half of the time and a fraction of the memory."""
        d = plan.document
        tables = self.tables(positions)
        of_document, of_questions = ([t[:d] for t in tables], [t[d:] for t in tables])
        x, y = F.embedding(ids, self.embedding).split([d, len(ids) - d])
        looked, h, g = [], None, None
        for index, layer in enumerate(self.layers):
            last = index == len(self.layers) - 1
            with torch.set_grad_enabled(is_whole and torch.is_grad_enabled()):
                x, h = self.enter(layer, x, h)
            q, k, v = self.heads_of(layer.q_proj(h), *of_document, self.heads, self.kv_heads)
            if not last:
                with torch.set_grad_enabled(is_whole and torch.is_grad_enabled()):
                    x, h = self.leave(layer, x, adapter_attention.Attention.apply(q, k, v, plan.reading))
            y, g = self.enter(layer, y, g)
            q, *own = self.heads_of(layer.q_proj(g), *of_questions, self.heads, self.kv_heads)
            k, v = (torch.cat([t, new], 1) for t, new in zip((k, v), own))
            if watch is not None and index in watch.heads:
                looked.append(watch.log_shares(index, q, k))
            y, g = self.leave(layer, y, adapter_attention.Attention.apply(q, k, v, plan.asking))
        return y + g, torch.cat(looked) if looked else None

    def logits(self, hidden):
        """hidden (rows, width) before the last norm -> logits (rows, vocabulary) in f32"""
        return F.linear(normed(hidden, self.norm, self.eps), self.head).float()

    # ---- the adapter's file ----------------------------------------------------------------------

    def adapter(self):
        """{name as peft writes it: parameter}"""
        named = {}
        for index, layer in enumerate(self.layers):
            for part, groups in PARTS.items():
                for group in groups:
                    module = getattr(layer, group[0])
                    for name in group:
                        prefix = f"base_model.model.model.layers.{index}.{part}.{name}."
                        named[prefix + "lora_A.weight"] = module.a[name]
                        named[prefix + "lora_B.weight"] = module.b[name]
        return named

    @torch.no_grad()
    def load_adapter(self, tensors):
        """Copies an adapter's tensors, named as adapter() has them, into the parameters.
        ValueError, with nothing copied: they are not the tensors of this model."""
        named = self.adapter()
        if set(named) != set(tensors):
            raise ValueError("the adapter's tensors are not this model's: " +
                             ", ".join(sorted(set(named) ^ set(tensors))[:3]))
        for name, parameter in named.items():
            parameter.copy_(tensors[name])


class Watch:
    """Some rows of questions and the places of the document where their answers stand.

    heads: {layer: [query heads]}; rows (n): numbers of rows behind the document; visible, gold (n,
    document rows) bool: what they see of it, and what they should look at; before: the first rows of the
    document, which many heads look at when they look for nothing."""

    def __init__(self, heads, rows, visible, gold, before):
        self.heads, self.rows, self.before = heads, rows, before
        hidden = lambda allowed: torch.zeros(allowed.shape, device=gold.device).masked_fill_(
            ~allowed, float("-inf"))[:, before:]
        self.visible, self.gold = hidden(visible), hidden(gold)

    def log_shares(self, layer, q, k):
        """-> (heads, n): log of gold's share in the attention to the document beyond its first rows"""
        heads = self.heads[layer]
        keys = k[heads, self.before:self.before + self.gold.shape[1]]
        logits = (q[heads][:, self.rows] @ keys.transpose(1, 2)).float() * q.shape[-1] ** -0.5
        return (logits + self.gold).logsumexp(-1) - (logits + self.visible).logsumexp(-1)


# ---- files -----------------------------------------------------------------------------------------

def load(gguf, dtype, seed=0, compiled=False):
    """The network of a GGUF file, frozen weights in `dtype`, with an adapter that adds nothing yet.
    Needs transformers; holds the model twice while it loads."""
    from transformers import AutoModelForCausalLM
    gguf = pathlib.Path(gguf)
    model = AutoModelForCausalLM.from_pretrained(str(gguf.parent), gguf_file=gguf.name, dtype=torch.float32)
    state = {name: t.to(dtype) for name, t in model.state_dict().items()}
    return Network(model.config, state, seed, compiled)


def save_adapter(folder, tensors, base):
    """Writes a folder that peft loads, and Lectern, in f16, over files that are there. base: the
    name of the model, for peft."""
    from safetensors.torch import save_file
    folder.mkdir(parents=True, exist_ok=True)
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": base,
              "r": RANK, "lora_alpha": ALPHA, "lora_dropout": 0.0, "bias": "none",
              "fan_in_fan_out": False, "use_rslora": False, "use_dora": False, "inference_mode": True,
              "target_modules": sorted(n for groups in PARTS.values() for g in groups for n in g)}
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    halves = {name: t.detach().to(torch.float16).cpu().contiguous() for name, t in tensors.items()}
    save_file(halves, folder / "adapter_model.safetensors", metadata={"format": "pt"})


def read_adapter(folder):
    """{name: tensor} of a folder that save_adapter() or peft wrote"""
    from safetensors.torch import load_file
    return load_file(pathlib.Path(folder) / "adapter_model.safetensors")
