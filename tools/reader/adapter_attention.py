"""Attention of a pack, with its gradient: a document, and questions that see parts of it.

PyTorch's own attention computes what a mask hides and throws it away; here a question's rows meet only
the keys they may see, and the document's rows, in blocks, only the keys before them. On two cores that
makes a training step about twice as fast. adapter_test.py compares both.
"""

import torch

BLOCK = 512          # query rows of a document that are computed together
KEPT = 4 << 20       # pairs of rows whose attention is kept for the backward pass; beyond, it is computed again


class Plan:
    """Who sees what: `reading` is for the rows of a document, `asking` for those of the questions behind
    it. Both are lists of (ranges of keys, first and last query row); the last keys are the query rows'."""

    def __init__(self, document, visible, sizes):
        """document: its rows; visible: (document rows) bool of each question; sizes: their rows"""
        self.document = document
        self.reading = [([(0, min(begin + BLOCK, document))], begin, min(begin + BLOCK, document))
                        for begin in range(0, document, BLOCK)]
        self.asking = []
        begin, outside = 0, torch.zeros(1, dtype=torch.int8)
        for seen, size in zip(visible, sizes):
            edges = torch.from_numpy(seen).to(torch.int8).diff(prepend=outside, append=outside)
            starts, ends = ((edges == sign).nonzero()[:, 0].tolist() for sign in (1, -1))
            own = (document + begin, document + begin + size)
            self.asking.append(([*zip(starts, ends), own], begin, begin + size))
            begin += size


def gathered(t, ranges):
    """t (heads, rows, dim) -> the rows of the ranges, behind each other: a view where there is one
    range."""
    return t[:, slice(*ranges[0])] if len(ranges) == 1 else torch.cat([t[:, b:e] for b, e in ranges], 1)


def weights(q, keys):
    """q (heads, rows, dim), scaled; keys (heads, n, dim), of which the last are those of the rows themselves"""
    logits = q @ keys.transpose(1, 2)
    rows = q.shape[1]
    later = torch.ones(rows, rows, dtype=torch.bool, device=q.device).triu_(1)
    logits[:, :, -rows:].masked_fill_(later, float("-inf"))
    return logits.softmax(-1)


class Attention(torch.autograd.Function):
    """Attention of the parts of a Plan, as a function with a gradient; see forward()."""

    @staticmethod
    def forward(ctx, q, k, v, parts):
        """q (heads, rows, dim); k, v (heads, n, dim); parts: a list of a Plan -> (heads, rows, dim)"""
        q = q * q.shape[-1] ** -0.5
        out, kept, pairs = torch.empty_like(q), [], 0
        for ranges, begin, end in parts:
            p = weights(q[:, begin:end], gathered(k, ranges))
            torch.bmm(p, gathered(v, ranges), out=out[:, begin:end])
            pairs += p.shape[1] * p.shape[2]
            kept.append(p if pairs <= KEPT else None)
        ctx.save_for_backward(q, k, v, out, *kept)
        ctx.parts = parts
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, *kept = ctx.saved_tensors
        # The first row of a document draws most of many heads' attention: without its value, which all
        # rows' values may lose alike, the differences below are not lost to rounding.
        first = v[:, :1]
        inner = ((out.float() - first.float()) * grad.float()).sum(-1, keepdim=True).to(q.dtype)
        centred = v - first
        q_grad = torch.empty_like(q)
        k_grad, v_grad = torch.zeros_like(k), torch.zeros_like(v)
        for (ranges, begin, end), p in zip(ctx.parts, kept):
            rows = slice(begin, end)
            keys = gathered(k, ranges)
            if p is None:
                p = weights(q[:, rows], keys)
            of_values = p.transpose(1, 2) @ grad[:, rows]
            change = grad[:, rows] @ gathered(centred, ranges).transpose(1, 2)
            change.sub_(inner[:, rows]).mul_(p)
            q_grad[:, rows] = change @ keys
            of_keys = change.transpose(1, 2) @ q[:, rows]
            at = 0
            for b, e in ranges:
                k_grad[:, b:e] += of_keys[:, at:at + e - b]
                v_grad[:, b:e] += of_values[:, at:at + e - b]
                at += e - b
        return q_grad.mul_(q.shape[-1] ** -0.5), k_grad, v_grad, None
