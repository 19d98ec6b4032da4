"""Attention of a pack, with its gradient: a document, and questions that see parts of it.

PyTorch's own attention computes what a mask hides and throws it away; here a question's rows meet only
the keys they may see, and the document's rows, in blocks, only the keys before them. On two cores that
makes a training step about twice as fast. adapter_test.py compares both.
"""

import torch

BLOCK = 512          # query rows of a document that are computed together
KEPT_ROWS = 2600     # documents up to this length keep their attention for the backward pass


class Plan:
    """document: its rows. questions: for each, the ranges of document rows that it sees, and its own rows
    behind the document [begin, end)."""

    def __init__(self, document, visible, sizes):
        """visible: (document rows) bool of each question; sizes: their rows"""
        self.document, self.questions = document, []
        begin = document
        for seen, size in zip(visible, sizes):
            edges = torch.from_numpy(seen).to(torch.int8).diff(prepend=torch.zeros(1, dtype=torch.int8),
                                                               append=torch.zeros(1, dtype=torch.int8))
            starts, ends = ((edges == sign).nonzero()[:, 0].tolist() for sign in (1, -1))
            self.questions.append(([*zip(starts, ends), (begin, begin + size)], begin, begin + size))
            begin += size

    def parts(self):
        """(ranges of keys, the first and the last query row): the last keys are the query rows themselves"""
        for begin in range(0, self.document, BLOCK):
            end = min(begin + BLOCK, self.document)
            yield [(0, end)], begin, end
        yield from self.questions


def gathered(t, ranges):
    return t[:, slice(*ranges[0])] if len(ranges) == 1 else torch.cat([t[:, b:e] for b, e in ranges], 1)


def weights(q, keys):
    """q (heads, rows, dim), scaled; keys (heads, n, dim), of which the last are those of the rows themselves"""
    logits = q @ keys.transpose(1, 2)
    rows = q.shape[1]
    later = torch.ones(rows, rows, dtype=torch.bool, device=q.device).triu_(1)
    logits[:, :, -rows:].masked_fill_(later, float("-inf"))
    return logits.softmax(-1)


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, plan):
        """q, k, v (heads, rows, dim) -> (heads, rows, dim)"""
        q = q * q.shape[-1] ** -0.5
        out, kept = torch.empty_like(q), []
        for ranges, begin, end in plan.parts():
            p = weights(q[:, begin:end], gathered(k, ranges))
            torch.bmm(p, gathered(v, ranges), out=out[:, begin:end])
            is_kept = begin >= plan.document or plan.document <= KEPT_ROWS
            kept.append(p if is_kept else None)
        ctx.save_for_backward(q, k, v, out, *kept)
        ctx.plan = plan
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
        for (ranges, begin, end), p in zip(ctx.plan.parts(), kept):
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
