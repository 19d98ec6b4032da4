#!/usr/bin/env python3
"""Computes bytes, messages and seconds of a document that ranks share: the estimates of engine/SCALE.md.

    rank_model.py    # prints tables in Markdown

Constants are measured (rank_scaling.py, rank_balance, lectern-doctor) or, where they are of machines
that were not there, assumed and named so.
"""
import math

# The model: Llama 3.1 8B.
LAYERS, KV_HEADS, GROUP, DIM, HIDDEN, WEIGHTS = 32, 8, 4, 128, 4096, 8.0e9
ROW = 2 * DIM * 2  # key and value, f16
# Measured on one core of an AMD EPYC with AVX-512 and VNNI, with a document of 1,000,000 tokens (model T).
SPARSE_BYTES_PER_SECOND = 1.8e9   # of a token at a budget of 0.1: choosing takes most of it
EXACT_BYTES_PER_SECOND = 17.7e9   # of a token at a budget of 1
FLOPS_PER_CORE = 65e9             # products of a prefill, Q4_1 weights
READ_BY_A_TOKEN = 0.036           # share of the document's bytes, at a budget of 0.1
MEETINGS_LOOKUP, MEETINGS_EXACT = 15.1, 4.1  # a layer
# Busiest rank over the mean, in a token's pass (rank_balance, 1,000,000 tokens).
IMBALANCE = {1: 1, 2: 1.04, 4: 1.08, 8: 1.13, 16: 1.19, 32: 1.29, 64: 1.49, 128: 1.70, 256: 2.00, 512: 2.29}
# Assumed: a rank has 16 cores; a meeting takes 5 us for each doubling of the ranks; 100 Gbit/s.
CORES, STEP_SECONDS, NETWORK = 16, 5e-6, 12.5e9


def layer_message_bytes(rows):
    """Bytes that a rank gives to a layer's meetings, of a pass of so many query rows a kv head."""
    queries = KV_HEADS * rows * DIM * 4
    choices = 3 * 2 * 1024 * 2 * 8  # three choices, two rounds, 1,024 buckets of two doubles
    denominators = KV_HEADS * rows * (4 + 8)
    states = KV_HEADS * rows * (4 + DIM) * 4
    return queries + choices + denominators + states


def token(tokens, ranks):
    """Bytes read by the busiest rank, and seconds of reading and of meetings, for one token."""
    document = tokens * LAYERS * KV_HEADS * ROW
    busiest = document * READ_BY_A_TOKEN / ranks * IMBALANCE[ranks]
    reading = busiest / (SPARSE_BYTES_PER_SECOND * CORES)
    hops = math.log2(ranks) if ranks > 1 else 0
    meetings = LAYERS * hops * (MEETINGS_LOOKUP * STEP_SECONDS + layer_message_bytes(GROUP) / NETWORK)
    return document, busiest, reading, meetings


def prefill(tokens, ranks):
    """Seconds of arithmetic, and of the ring, to index a document."""
    products = 2 * WEIGHTS * tokens
    attention = 2 * tokens * tokens * LAYERS * KV_HEADS * GROUP * DIM
    arithmetic = (products + attention) / (FLOPS_PER_CORE * CORES * ranks)
    # Each chunk's queries and outputs make `ranks` steps in each layer, all ranks' at the same time.
    row_bytes = KV_HEADS * GROUP * (2 * DIM + 2) * 4
    ring = tokens / ranks * LAYERS * row_bytes * ranks / NETWORK if ranks > 1 else 0
    return arithmetic, ring


def seconds(value):
    if value >= 86400:
        return f"{value / 86400:,.1f} d"
    if value >= 3600:
        return f"{value / 3600:,.1f} h"
    return f"{value:,.1f} s" if value >= 1 else f"{1000 * value:,.2f} ms"


def main():
    print("| tokens | ranks | document, GB | of a rank, GB | read by the busiest rank for a token, MB | reading | "
          "meetings | indexing: arithmetic | indexing: ring |\n|---|---|---|---|---|---|---|---|---|")
    for tokens in (1_000_000, 10_000_000, 100_000_000):
        for ranks in (1, 8, 64, 512):
            document, busiest, reading, meetings = token(tokens, ranks)
            arithmetic, ring = prefill(tokens, ranks)
            print(f"| {tokens:,} | {ranks} | {document / 1e9:,.0f} | {document / ranks / 1e9:,.1f} | "
                  f"{busiest / 1e6:,.1f} | {seconds(reading)} | {seconds(meetings)} | {seconds(arithmetic)} | "
                  f"{seconds(ring)} |")
    print(f"\nmessages of a token: {MEETINGS_LOOKUP * LAYERS:,.0f} meetings, "
          f"{LAYERS * layer_message_bytes(GROUP) / 1e6:.1f} MB given by a rank")
    for tokens in (1_000_000, 10_000_000, 100_000_000):
        costs = {ranks: sum(token(tokens, ranks)[2:]) for ranks in IMBALANCE}
        best = min(costs, key=costs.get)
        print(f"{tokens:,} tokens: a token is fastest with {best} ranks, {seconds(costs[best])}")


if __name__ == "__main__":
    main()
