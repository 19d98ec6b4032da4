#!/usr/bin/env python3
"""Dense attention of cuda_bench's shapes by PyTorch: what our dense kernel should be as fast as.

Prints a table: microseconds of one layer's step, median of seven runs, for each backend of
scaled_dot_product_attention that takes the shape. Question tokens see the whole document and no
mask is given, as cuda_bench's do. As there, before each step there is a product with 256 MiB of
weights, so that caches hold nothing of the document, and its time is taken off.
"""
import statistics
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

SHAPES = ((32, 1), (8, 4))  # kv heads, and query heads of each
HEAD_DIM = 128
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION}


def record(enqueue):
    """A graph, so that Python's time does not count."""
    enqueue()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        enqueue()
    return graph


def launch_us(graph, count):
    begin = time.perf_counter()
    for _ in range(count):
        graph.replay()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / count * 1e6


def step_us(queries, keys, values, backend, token, weights):
    def attend():
        return scaled_dot_product_attention(queries, keys, values, enable_gqa=True)

    with sdpa_kernel([backend]):
        both = record(lambda: (token @ weights, attend()))
    other = record(lambda: token @ weights)
    launch_us(other, 3)
    launch_us(both, 3)
    count = max(1, int(5000 / launch_us(both, 3)))
    return statistics.median(launch_us(both, count) - launch_us(other, count) for _ in range(7))


def half(*shape):
    return torch.randn(shape, device="cuda", dtype=torch.float16)


def grouped(kv_heads, group, tokens):
    """A token's queries as rows of one kv head: the shape in which a query group reads KV once."""
    return half(1, kv_heads, tokens * group, HEAD_DIM)


def main():
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}\n")
    print("| kv heads | context | tokens | " + " | ".join(f"{name} us" for name in BACKENDS) + " |")
    print("|---|---|---|" + "---|" * len(BACKENDS))
    token, weights = half(1, 4096), half(32768, 4096).T
    for kv_heads, group in SHAPES:
        for context in (8192, 32768, 131072, 524288):
            shape = (1, kv_heads, context, HEAD_DIM)
            keys, values = half(*shape), half(*shape)
            for tokens in (1, 1024, 4096):
                queries, cells = grouped(kv_heads, group, tokens), []
                for backend in BACKENDS.values():
                    try:
                        cells.append(f"{step_us(queries, keys, values, backend, token, weights):.1f}")
                    except RuntimeError as error:  # a backend that does not take the shape
                        cells.append(str(error).split(".", maxsplit=1)[0][:40])
                print(f"| {kv_heads} | {context} | {tokens} | " + " | ".join(cells) + " |",
                      flush=True)


if __name__ == "__main__":
    main()
