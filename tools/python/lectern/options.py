"""The options of each request, as keyword arguments: session.ask("Who?", max_tokens=20).

Names, ranges and defaults are those of lectern_c.h, whose comments stand here; 0 and "" are the
default. A switch that C calls no_tail is tail=False here, numbers of an enumeration are names, and
LECTERN_BUDGET_AUTO is "auto".

Made by tools/python/generate.py of engine/lectern_c.h: change that header, and run it."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Literal, TypedDict

__all__ = ["AskOptions", "CiteOptions", "EngineOptions", "IndexOptions", "PlanOptions"]


class EngineOptions(TypedDict, total=False):
    # A folder as transformers saves it, a .gguf file (any part of a split one), a folder that
    # holds one GGUF model, or a name that Ollama knows; empty: the one that a document was
    # indexed with.
    model: str | PathLike[str]
    # Threads that the engine works with; 0: one for each physical core that the process may run
    # on, but no more than the whole cores that the CPU quota of its control groups grants.
    num_threads: int
    # Limit on the total size of the store's files; 0: none. An operation that would exceed it
    # (index, plan, import) is refused before it begins: NoSpaceError says what is used, needed
    # and allowed.
    quota_bytes: int
    io: Literal["mmap", "pread"]
    # Limit on the memory that indexing and asking take beside the program itself: weights,
    # activations, keys and values of conversations, pages of documents in use; 0: none. Not
    # counted: the tokenizer, and freed memory that malloc keeps. Pages are dropped when there
    # is no room for them, and read again. Work that cannot be done within the limit is refused
    # before it begins: OutOfMemoryError says what is needed, taken and allowed.
    max_ram_bytes: int
    # True: a model's weights are hashed even if their files have the same sizes, times and
    # inodes as when they were hashed last. 0: in that case the identity found last time, kept
    # in the store, is used.
    rehash_model: bool
    # The type that the model's matrices are multiplied as: "stored"; or quantised in groups of
    # 32, "q8" or "q4", made when first needed and kept in the store. A document is asked with
    # the weights that it was indexed with; others are ModelMismatchError. Empty: the
    # document's; for indexing "stored".
    weights: str
    # [0, 19]: added to the niceness of the threads that the engine starts, so that other
    # programs come first. The calling thread, which works along, keeps its own.
    nice: int
    # Ollama's folder of models ("manifests" and "blobs"), in which names are looked up without
    # the network; empty: names are not looked up.
    ollama_models: str | PathLike[str]
    # The chat template, which writes the text around document, question and answer: a built-in
    # name ("llama3", "chatml" and so on), a Jinja program as models carry them, or the path of
    # a file with one; anything else is InvalidArgumentError, whose message lists the names. A
    # document is asked with the template that it was indexed with; a template that begins
    # differently is ModelMismatchError. Empty: the document's; for indexing the model's own
    # ("plain" if it has none, which the report's note says; UnsupportedModelError if it cannot
    # be run).
    chat_template: str | PathLike[str]
    # Where documents are indexed and questions are answered: "cpu" or empty; "cuda", the first
    # NVIDIA GPU of compute capability 8.0 or later; "cuda:N"; "auto", the first such GPU, or
    # the CPU if there is none or the model does not fit: answers and reports then have the
    # warning "cpu_fallback", and their note says why. A named GPU that cannot be used is
    # InvalidArgumentError, param "device". Needs liblectern_cuda.so.1 beside this library. An
    # interrupted run continues on the kind of device that began it; on another kind it begins
    # anew.
    device: str
    # Limit on the GPU's memory; 0: what is free when the engine is made, less a reserve. Work
    # that does not fit is OutOfMemoryError, param "device_memory". Documents' keys and values
    # are an exception: if they do not fit, the GPU keeps a cache of them and fetches the rest
    # when it is read.
    device_memory_bytes: int
    # A LoRA adapter beside the model: a folder in the format of PEFT, its
    # adapter_model.safetensors, or a GGUF file of kind "adapter". It is part of what a document
    # is: a document is asked with the adapter that it was indexed with, another one is
    # ModelMismatchError. Empty: the document's; for indexing none. Models with an adapter run
    # on the CPU.
    adapter: str | PathLike[str]


class IndexOptions(TypedDict, total=False):
    # Points to the document afterwards; empty: made from `source`, or none
    name: str
    kv_type: Literal["f16", "bf16", "f32", "q8"]
    # (0, 1] or "auto": of later asks that name none; 0: "auto"
    kv_budget: float | Literal["auto"]
    # num_levels: of clusters: 1, 2 or 3; 0: 2
    num_levels: int
    # True: also when it is there, as a new generation: see below
    again: bool
    # seed: of the clustering; 0: 1234
    seed: int
    # The plan of later asks, as in AskOptions. Empty: "uniform" and "global".
    layer_budget: str
    head_budget: str
    # How keys are assigned to clusters, and coded: "unrotated", assigned without their
    # positions; "queries", likewise, and coded so that the document's own queries can tell most
    # by the codes; "stored", by the keys as they are. Empty or "auto": "queries", but "stored"
    # if a GPU indexes the document.
    cluster_keys: str
    # Share of the document's rows (keys and values) that is stored, in (0, 1]; 0: 1, all. Below
    # 1 `retention` chooses the rows: "kv-compress" (or empty), "pyramid", "snapkv", "kvcrush",
    # …; an unknown name is InvalidArgumentError, whose message lists all. Both are part of the
    # document: the same text kept differently is another document. Rows that are not stored are
    # never attended to. Documents of under 2,048 tokens keep everything.
    keep: float
    retention: str
    # representatives: of what is kept, stand in for what goes, in (0, 1]; 0: the method's
    representatives: float
    # Statistics that are gathered for policies: "window" (or empty), the attention of the last
    # tokens; "full", also that of all tokens, for the policy kv-compress-full: the prefill then
    # takes longer.
    stats: str
    # "exact" (or empty): every token of the document attends to all tokens before it. "sparse",
    # for very long documents: tokens from the 16,384th on attend to a share of the keys that
    # lie further back, in [0.02, 1] (0: 0.1), chosen by clusters, and to stand-ins for the
    # rest. This changes keys and values, so the document is another one than the same text
    # prefilled exactly. A share of 1 is exact.
    prefill: str
    prefill_budget: float
    # True: the version before stays, reachable by its id
    keep_versions: bool
    # As in AskOptions, of later asks; 0: 0.01.
    max_divergence: float


class AskOptions(TypedDict, total=False):
    # (0, 1] or "auto"; 0: the document's default; 1: exact, reads everything
    kv_budget: float | Literal["auto"]
    # False: clusters that are not read do not count at all
    tail: bool
    # max_tokens: of the answer, fewer where no more fit; 0: 256
    max_tokens: int
    # Passages; 0: 3
    max_evidence: int
    # [0, 10]; 0: greedy
    temperature: float
    # (0, 1]; 0: 1
    top_p: float
    # seed: of the sampling
    seed: int
    fallback: Literal["warn", "exact"]
    # (0, 1): every step reads on, past the budget, until at most this share of the attention
    # lies on what it did not read (see the receipt); 0: no limit
    max_missed: float
    # How rows are chosen below a kv_budget of 1: "default"; or whole clusters only, by
    # "threshold" (kv_budget in the mean over questions), "cap" (never above kv_budget) or
    # "top-p" (clusters that hold the share `mass` of the attention, whatever kv_budget says).
    # Empty: "default".
    rule: str
    # (0, 1), of "top-p" alone; 0: 0.95
    mass: float
    # Policies that share kv_budget over layers: "uniform", "pyramid", "squeeze", "kv-compress",
    # "dense-first"; and over the kv heads of a layer: "global" (they compete for it),
    # "uniform", "kv-compress". Empty: the document's. An unknown name is InvalidArgumentError,
    # whose message lists all.
    layer_budget: str
    head_budget: str
    # After the answer at most this many rows of the conversation are kept for each layer and kv
    # head, in the mean; those that later tokens attended to least are dropped. At least 64; 0:
    # all are kept.
    max_session_rows: int
    # With the first question of a session: questions and answers from before, elsewhere, oldest
    # first, and instructions for all of it. They stand before the question in the chat
    # template's form; text in them is plain text, whatever it looks like. With a later
    # question, which knows the conversation anyway: InvalidArgumentError.
    turns: Sequence[tuple[str, str]]
    instructions: str
    # A token is drawn in these steps: the model's logits, plus logit_bias, minus the penalties,
    # divided by the temperature; softmax; then min_p, then top_k, then top_p select tokens. The
    # penalties, [-2, 2], lower the logit of tokens that the answer has already:
    # frequency_penalty once for each occurrence, presence_penalty once.
    frequency_penalty: float
    presence_penalty: float
    # [0, 1]: tokens at least this times as likely as the likeliest one
    min_p: float
    # This many of the likeliest tokens; 0: all
    top_k: int
    logit_bias: Mapping[int, float]
    # Texts that end the answer, even if they span tokens: it stops before the first of them,
    # and no part of that text is shown. The model's thoughts may contain them. None may be
    # empty; all together have at most 8,192 bytes.
    stop_texts: Sequence[str]
    top_logprobs: int
    # Most that the answer's tokens may diverge from exact ones in the mean, as predicted for
    # the document: KL divergence in nats, (0, 100]. An automatic budget keeps it; a smaller
    # budget gets the warning "low_budget". 0: the document's.
    max_divergence: float
    # "only": question and answer read the passages that the question's words, and the model's
    # retrieval heads if it has any, point to, and nothing else; small models answer better from
    # less. On a GPU, documents under 2,048 tokens are read whole. "words": these passages are
    # read first, and what is left of the budget as without a focus; rows that are not read do
    # not count. "off": `rule` chooses. "auto", or empty: "only" where the model's adapter was
    # trained so and neither kv_budget nor rule nor max_missed is given, else "off". "words" and
    # "only" go with no max_missed, and have no effect with a kv_budget of 1.
    focus: str
    # (0, 1]: for a model that was taught a sentence for "the document does not say": that
    # sentence is the answer, whatever the sampling, where the model gives it at least this
    # probability, and is not where it gives it less. 1: where decoding comes to it. 0: the
    # model's threshold.
    refuse_at: float
    # A JSON schema, as JSON text: the answer is JSON that fits it, on one line, with members in
    # the order of the schema. The keywords of JSON Schema are kept, and so are the commonest
    # formats and $ref within the schema; one that cannot be kept, such as "uniqueItems" of any
    # texts, gets the warning "schema_not_kept", with `strict_schema` it is
    # InvalidArgumentError. {"type": "object"} is any object. An answer that max_tokens cut has
    # finish reason "length" and is no whole JSON. A model that thinks does so before. The
    # model's sentence for "the document does not say" is never the answer; the warning
    # "refusal_likely" says where it would have been. A model that was taught plain answers
    # alone is asked for each value of an object by itself, by its description or the words of
    # its key, and numbers, dates, booleans and choices are read out of its plain answers; where
    # it would rather say that sentence, the value is null or left out, if it may be. In a
    # document in parts, and in a collection, each value chooses the parts or documents that are
    # asked for it. Empty: any text.
    json_schema: str | Mapping[str, object]
    # True: what cannot be kept is an error
    strict_schema: bool
    # "auto", or empty: where the latest tokens occurred before, in the document or the
    # conversation, those that followed them are checked in the same pass over the weights, as
    # many as that is worth. The answer is the same, bit for bit. Not on a GPU, and not with
    # max_session_rows. "off": tokens are decoded one by one.
    lookup_decoding: str


class CiteOptions(TypedDict, total=False):
    # Passages of each sentence, up to 100; 0: 3
    max_evidence: int


class PlanOptions(TypedDict, total=False):
    # As in AskOptions
    layer_budget: str
    head_budget: str
    # (0, 1] or "auto": of asks that name none
    kv_budget: float | Literal["auto"]
    # (0, 100], nats a token
    max_divergence: float


# The numbers of names.
CHOICES: dict[str, dict[str, int]] = {
    "io": {"mmap": 1, "pread": 2},
    "kv_type": {"f16": 1, "bf16": 2, "f32": 3, "q8": 4},
    "fallback": {"warn": 1, "exact": 2},
}
