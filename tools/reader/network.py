"""The reader's network: LlamaForCausalLM in plain PyTorch (RMSNorm, half-rotation RoPE, grouped
queries, SwiGLU, no biases, tied embeddings), the layout it is trained in, the start it is trained
from, and its folder in the Hugging Face layout.
"""

import dataclasses
import json
import math
import pathlib
import shutil
import struct

import torch
import torch.nn.functional as F
from torch import nn

HEAD_DIM = 64


@dataclasses.dataclass
class Shape:
    """The sizes of a reader."""
    vocab: int = 2048
    width: int = 192
    layers: int = 6
    heads: int = 4
    kv_heads: int = 2
    ffn: int = 512
    theta: float = 1e10        # half of a head's pairs turn by less than 1.5 rad in 131072 tokens
    eps: float = 1e-5
    max_positions: int = 131072


class RmsNorm(nn.Module):
    def __init__(self, width, eps, weight=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), weight))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rope_tables(positions, theta):
    """positions (...) -> cos, sin (..., HEAD_DIM), the two halves of a head equal."""
    pairs = torch.arange(0, HEAD_DIM, 2, dtype=torch.float64, device=positions.device)
    angles = positions.double().unsqueeze(-1) * theta ** (-pairs / HEAD_DIM)
    angles = torch.cat([angles, angles], -1)
    return angles.cos().float(), angles.sin().float()


def rotate(x, cos, sin):
    """x turned by its positions; the halves of a head are the two coordinates."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Layer(nn.Module):
    """One layer of a Llama."""

    def __init__(self, s):
        super().__init__()
        linear = lambda rows, columns: nn.Linear(rows, columns, bias=False)
        self.shape = s
        self.input_layernorm = RmsNorm(s.width, s.eps)
        self.post_attention_layernorm = RmsNorm(s.width, s.eps)
        self.self_attn = nn.ModuleDict({
            "q_proj": linear(s.width, s.heads * HEAD_DIM),
            "k_proj": linear(s.width, s.kv_heads * HEAD_DIM),
            "v_proj": linear(s.width, s.kv_heads * HEAD_DIM),
            "o_proj": linear(s.heads * HEAD_DIM, s.width)})
        self.mlp = nn.ModuleDict({"gate_proj": linear(s.width, s.ffn),
                                  "up_proj": linear(s.width, s.ffn),
                                  "down_proj": linear(s.ffn, s.width)})

    def qkv(self, x, cos, sin):
        """x (batch, rows, width) -> q (batch, heads, rows, dim), k and v (batch, kv heads, ...)"""
        batch, rows, _ = x.shape
        h = self.input_layernorm(x)
        split = lambda y, heads: y.view(batch, rows, heads, HEAD_DIM).transpose(1, 2)
        q = split(self.self_attn["q_proj"](h), self.shape.heads)
        k = split(self.self_attn["k_proj"](h), self.shape.kv_heads)
        v = split(self.self_attn["v_proj"](h), self.shape.kv_heads)
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def finish(self, x, attended):
        """attended (batch, heads, rows, dim)"""
        batch, heads, rows, dim = attended.shape
        flat = attended.transpose(1, 2).reshape(batch, rows, heads * dim)
        x = x + self.self_attn["o_proj"](flat)
        h = self.post_attention_layernorm(x)
        return x + self.mlp["down_proj"](F.silu(self.mlp["gate_proj"](h)) * self.mlp["up_proj"](h))


class Reader(nn.Module):
    """A Llama with random weights of the shape; wire() and load() give it others."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocab, shape.width)
        self.layers = nn.ModuleList([Layer(shape) for _ in range(shape.layers)])
        self.norm = RmsNorm(shape.width, shape.eps, 0.25)
        nn.init.normal_(self.embed_tokens.weight, std=0.25)
        for name, p in self.named_parameters():
            if p.dim() == 2 and "embed" not in name:
                last = "o_proj" in name or "down_proj" in name
                nn.init.normal_(p, std=(0.2 if last else 1.0) / math.sqrt(p.shape[1]))

    def logits(self, hidden):
        """hidden (..., width) before the last norm -> logits (..., vocab)"""
        return self.norm(hidden) @ self.embed_tokens.weight.t()

    def forward(self, ids, positions, num_document, question_mask, document_mask=None, watch=None):
        """The layout of training: `num_document` rows of one document, then the rows of questions
        about it, each of which sees the document and its own question before it.

        ids, positions (batch, rows); question_mask (batch, 1, question rows, rows), added to the
        logits; document_mask (batch, 1, document rows, document rows) or None for the plain causal
        one. watch: {layer: (items, question rows, document rows)}, three tensors: places that rows
        should look at. -> hidden (batch, rows, width), before the last norm; with watch, also the
        logs of the attention that the heads of those layers, in the mean, pay to them."""
        x = self.embed_tokens(ids)
        cos, sin = (t[:, None] for t in rope_tables(positions, self.shape.theta))
        group = self.shape.heads // self.shape.kv_heads
        d = num_document
        kind = lambda mask, like: None if mask is None else mask.to(like.dtype)
        looked = []
        for index, layer in enumerate(self.layers):
            q, k, v = layer.qkv(x, cos, sin)
            q, k = q.to(v.dtype), k.to(v.dtype)          # RoPE is in f32; autocast's values are not
            k, v = (t.repeat_interleave(group, 1) for t in (k, v))
            if watch and index in watch:
                item, row, target = watch[index]
                logits = torch.einsum("nhd,nhkd->nhk", q[item, :, d + row], k[item])
                logits = logits.float() / HEAD_DIM ** 0.5 + question_mask[item, 0, row][:, None]
                paid = logits.softmax(-1)[torch.arange(len(item)), :, target]
                looked.append((paid.mean(-1) + 1e-9).log())
            document = F.scaled_dot_product_attention(
                q[:, :, :d], k[:, :, :d], v[:, :, :d], attn_mask=kind(document_mask, v),
                is_causal=document_mask is None)
            questions = F.scaled_dot_product_attention(q[:, :, d:], k, v,
                                                       attn_mask=kind(question_mask, v))
            x = layer.finish(x, torch.cat([document, questions], 2))
        return (x, torch.cat(looked)) if watch else x

    @torch.no_grad()
    def prefill(self, ids):
        """ids (rows) -> [(k, v)] per layer, each (kv heads, rows, dim)"""
        x = self.embed_tokens(ids)[None]
        positions = torch.arange(len(ids), device=ids.device)[None]
        cos, sin = (t[:, None] for t in rope_tables(positions, self.shape.theta))
        group = self.shape.heads // self.shape.kv_heads
        kept = []
        for layer in self.layers:
            q, k, v = layer.qkv(x, cos, sin)
            kept.append((k[0], v[0]))
            attended = F.scaled_dot_product_attention(
                q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), is_causal=True)
            x = layer.finish(x, attended)
        return kept


# ---- the start -----------------------------------------------------------------------------------

def wire(model, token_shares, gain=2.0, apart=0.7):
    """Gives a fresh model heads that look where reading needs them from the first step on: still
    plain Llama weights, all of them trained on. From a random start the same training found no
    such heads in the time that the whole of it takes with them.

    token_shares (vocabulary): how frequent each token is.

    The channels of the residual stream are shared out: 0 is a constant; 1 gives every embedding
    the same norm; then the token's content, short for frequent tokens; what stood before and
    before that; and the pool, a sum over the words around.
    - Projections of the constant alone, turned by RoPE, attend to a fixed distance: the first kv
      head of layer 0 looks 1 and 2 tokens back; its second one pools about 3 and 9 tokens back,
      and that of layer 1 about 6 and 16.
    - The first kv head of layer 1 compares what is here with what stood before (induction).
    - Later layers compare pools, on the pairs that RoPE turns slowly, and look away from what is
      near (`apart`), which resembles itself most; they copy the content of what they find.
    """
    s = model.shape
    width, dim, half = s.width, HEAD_DIM, HEAD_DIM // 2
    group = s.heads // s.kv_heads
    generator = torch.Generator().manual_seed(0)
    frequency = s.theta ** (-torch.arange(0, dim, 2).float() / dim)

    def orthogonal(rows, columns):
        long, short = max(rows, columns), min(rows, columns)
        q = torch.linalg.qr(torch.randn(long, short, generator=generator))[0]
        return q.t() if rows <= columns else q

    def kernel(weights):
        """{radians per token: weight} -> what one half of the head has of it"""
        u = torch.zeros(half)
        for radians, weight in weights.items():
            u[(frequency.log() - math.log(radians)).abs().argmin()] += weight
        return u.sqrt()

    def looking(u, back):
        """A query whose product with the key [u, 0] peaks `back` tokens before it."""
        return torch.cat([u * torch.cos(frequency * back), -u * torch.sin(frequency * back)])

    def rows_of(head):
        return slice(head * dim, (head + 1) * dim)

    sharp = kernel({1.0: 3, .6: 3, .365: 2, .22: 1, .133: 1, .08: 1, .02: .5, .005: .5, .001: .5})
    wide = kernel({.6: .3, .365: 1, .22: 1.5, .133: 2, .08: 2, .048: 2, .03: 1, .018: 1})
    wider = kernel({.08: 1, .048: 2, .03: 2, .018: 1, .011: .5})
    near = torch.zeros(half)
    near[2:13] = 11 ** -0.5
    slow = list(range(half // 2, half))
    slow += [i + half for i in slow]

    num_pool = dim
    num_before = (width - 2 - num_pool) // 5
    num_content = width - 2 - num_pool - 2 * num_before
    content = slice(2, 2 + num_content)
    before = [slice(content.stop + i * num_before, content.stop + (i + 1) * num_before)
              for i in (0, 1)]
    pool = slice(width - num_pool, width)

    with torch.no_grad():
        length = 4.0
        tokens = torch.randn(s.vocab, num_content, generator=generator)
        tokens /= tokens.norm(dim=1, keepdim=True)
        rare = (1e-3 / token_shares).sqrt().clamp(0.2, 1.0)
        embedding = model.embed_tokens.weight.zero_()
        embedding[:, 0] = 1.0
        embedding[:, 1] = length * (1 - rare * rare).sqrt()
        embedding[:, content] = length * tokens * rare[:, None]
        size = embedding.pow(2).mean(1).sqrt().mean().item()
        amplitude = math.sqrt(24.0) * size

        for layer in model.layers:
            attention = layer.self_attn
            for name, scale in (("q_proj", .1), ("k_proj", .1), ("v_proj", .3), ("o_proj", .3)):
                attention[name].weight.mul_(scale)
            for name in ("q_proj", "k_proj", "v_proj"):
                attention[name].weight[:, :2] = 0

        def look(attention, head, u, back, scale=1.0):
            attention["q_proj"].weight[rows_of(head), 0] = looking(u, back) * amplitude * scale

        def be_seen(attention, kv_head, u):
            key = torch.cat([u, torch.zeros(half)])
            attention["k_proj"].weight[rows_of(kv_head), 0] = key * amplitude

        def carry(attention, kv_head, heads, source, code, target):
            """Values: code of the source channels; each head writes them to the target."""
            value = torch.zeros(dim, width)
            value[:code.shape[0], source] = code
            attention["v_proj"].weight[rows_of(kv_head)] = value
            for head, (channels, back, weight) in zip(heads, target):
                output = torch.zeros(width, dim)
                output[channels, :code.shape[0]] = back * weight * size
                attention["o_proj"].weight[:, rows_of(head)] = output

        first, second = (model.layers[i].self_attn for i in (0, 1))
        short = orthogonal(num_before, num_content)
        same = torch.eye(num_before)
        be_seen(first, 0, sharp)
        for head in range(min(group, 2)):
            look(first, head, sharp, head + 1)
        carry(first, 0, range(2), content, short, [(b, same, 1.0) for b in before])

        words = orthogonal(dim, num_content)
        for attention, u, backs, scale, weights in (
                (first, wide, (3, 9, 5, 13), 0.15, (1.0, 1.3, 1.0, 1.0)),
                (second, wider, (6, 16, 11, 24), 0.6, (1.3, 1.3, 1.0, 1.0))):
            heads = range(group, 2 * group)
            be_seen(attention, 1, u)
            for head, back in zip(heads, backs):
                look(attention, head, u, back, scale)
            carry(attention, 1, heads, content, words,
                  [(pool, torch.eye(dim), w) for w in weights])

        def slow_rows(head):
            return [head * dim + i for i in slow]

        code = torch.randn(len(slow), num_before, generator=generator) / math.sqrt(num_before)
        second["k_proj"].weight[slow_rows(0), before[0]] += code * gain
        for head in range(group):
            second["q_proj"].weight[slow_rows(head), content] += code @ short * gain

        copy = orthogonal(dim, num_content)
        for index, layer in enumerate(model.layers[1:], 1):
            attention = layer.self_attn
            for k in range(s.kv_heads):
                if index == 1 and k == 1:
                    continue
                heads = range(k * group, (k + 1) * group)
                carry(attention, k, heads, content, copy, [(content, copy.t(), 0.5)] * group)
                if index == 1:
                    continue
                match = orthogonal(len(slow), num_pool) * gain
                attention["k_proj"].weight[slow_rows(k), pool] += match
                be_seen(attention, k, near * apart)
                for head in heads:
                    attention["q_proj"].weight[slow_rows(head), pool] += match
                    look(attention, head, -near * apart, 0)


@torch.no_grad()
def deepen(model, layers):
    """A model that computes what `model` does with more layers: copies of the middle layer, beside
    it, whose outputs are nothing. The middle layer stays the middle one. For training on."""
    middle, extra = model.shape.layers // 2, layers - model.shape.layers
    if extra < 0:
        raise ValueError(f"a reader of {model.shape.layers} layers cannot get {layers}")
    before = layers // 2 - middle
    order = [*range(middle), *[None] * before, middle, *[None] * (extra - before),
             *range(middle + 1, model.shape.layers)]
    deep = Reader(dataclasses.replace(model.shape, layers=layers))
    deep.embed_tokens, deep.norm = model.embed_tokens, model.norm
    for layer, source in zip(deep.layers, order):
        layer.load_state_dict(model.layers[middle if source is None else source].state_dict())
        if source is None:
            layer.self_attn["o_proj"].weight.zero_()
            layer.mlp["down_proj"].weight.zero_()
    return deep


# ---- the folder ----------------------------------------------------------------------------------

def write_safetensors(path, tensors):
    """{name: tensor} as bf16."""
    header, blobs, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, tensor in tensors.items():
        bits = tensor.detach().cpu().to(torch.bfloat16).contiguous().view(torch.int16)
        blob = bits.numpy().tobytes()
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(blob)]}
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def read_safetensors(path):
    """A file of bf16 tensors -> {name: f32 tensor}"""
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    tensors = {}
    for name, entry in json.loads(raw[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        bits = torch.frombuffer(bytearray(raw[begin:end]), dtype=torch.int16)
        tensors[name] = bits.view(torch.bfloat16).float().view(entry["shape"])
    return tensors


def export(model, folder, tokenizer):
    """Writes the folder that Lectern and transformers load, over files that are there. tokenizer:
    the path of its SentencePiece model, which is copied."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    s = model.shape
    write_safetensors(folder / "model.safetensors",
                      {"model." + name: t for name, t in model.state_dict().items()})

    def write(name, value):
        (folder / name).write_text(json.dumps(value, indent=2) + "\n")

    write("config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": s.vocab,
        "hidden_size": s.width, "intermediate_size": s.ffn, "num_hidden_layers": s.layers,
        "num_attention_heads": s.heads, "num_key_value_heads": s.kv_heads, "head_dim": HEAD_DIM,
        "rms_norm_eps": s.eps, "rope_theta": s.theta, "rope_scaling": None,
        "max_position_embeddings": s.max_positions, "tie_word_embeddings": True,
        "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
        "attention_dropout": 0.0, "initializer_range": 0.02, "use_cache": True,
        "pretraining_tp": 1, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "bfloat16"})
    write("generation_config.json", {"bos_token_id": 1, "eos_token_id": 2, "do_sample": False})
    write("tokenizer_config.json", {
        "tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False,
        "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "legacy": False})
    shutil.copyfile(tokenizer, folder / "tokenizer.model")


def load(folder):
    """The reader in a folder of export(), ready for evaluation. Other folders of Llamas do not
    fit."""
    folder = pathlib.Path(folder)
    c = json.loads((folder / "config.json").read_text())
    model = Reader(Shape(c["vocab_size"], c["hidden_size"], c["num_hidden_layers"],
                         c["num_attention_heads"], c["num_key_value_heads"],
                         c["intermediate_size"], c["rope_theta"], c["rms_norm_eps"],
                         c["max_position_embeddings"]))
    tensors = read_safetensors(folder / "model.safetensors")
    model.load_state_dict({name.removeprefix("model."): t for name, t in tensors.items()})
    return model.eval()
