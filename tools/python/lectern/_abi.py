"""Structs, callbacks and functions of lectern_c.h, for ctypes.

Made by tools/python/generate.py of engine/lectern_c.h: change that header, and run it."""
from __future__ import annotations

from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_float,
                    c_int32, c_size_t, c_uint32, c_uint64, c_void_p)
from typing import Any

# enum lectern_codes
LECTERN_OK = 0
LECTERN_INVALID_ARGUMENT = 1
LECTERN_NOT_FOUND = 2
LECTERN_AMBIGUOUS = 3
LECTERN_MODEL_MISMATCH = 4
LECTERN_EMPTY_DOCUMENT = 5
LECTERN_CONTEXT_TOO_LONG = 6
LECTERN_BUDGET_TOO_SMALL = 7
LECTERN_NO_SPACE = 8
LECTERN_OUT_OF_MEMORY = 9
LECTERN_READ_ONLY = 10
LECTERN_LOCKED = 11
LECTERN_CANCELLED = 12
LECTERN_IO_ERROR = 13
LECTERN_MISSING_FILE = 14
LECTERN_TRUNCATED = 15
LECTERN_CHECKSUM_MISMATCH = 16
LECTERN_CORRUPT = 17
LECTERN_UNSUPPORTED_VERSION = 18
LECTERN_UNSUPPORTED_MODEL = 19
LECTERN_MALFORMED_MODEL = 20
LECTERN_UNSAFE_FORMAT = 21
LECTERN_LIMIT_EXCEEDED = 22
LECTERN_NOT_READY = 23
LECTERN_INVALID_HANDLE = 24
LECTERN_INTERNAL = 25
# enum lectern_ios
LECTERN_IO_DEFAULT = 0
LECTERN_IO_MMAP = 1
LECTERN_IO_PREAD = 2
# enum lectern_kv_types
LECTERN_KV_DEFAULT = 0
LECTERN_KV_F16 = 1
LECTERN_KV_BF16 = 2
LECTERN_KV_F32 = 3
LECTERN_KV_Q8 = 4
# enum lectern_fallbacks
LECTERN_FALLBACK_DEFAULT = 0
LECTERN_FALLBACK_WARN = 1
LECTERN_FALLBACK_EXACT = 2
# enum lectern_offset_units
LECTERN_OFFSET_UTF8 = 0
LECTERN_OFFSET_UTF16 = 1
LECTERN_OFFSET_CODEPOINT = 2
# enum lectern_changes
LECTERN_CHANGE_NEW = 0
LECTERN_CHANGE_RENEWED = 1
LECTERN_CHANGE_UNCHANGED = 2
LECTERN_BUDGET_AUTO = -1.0


class lectern_engine_options(Structure):
    struct_size: int
    store: Any
    store_len: int
    model: Any
    model_len: int
    num_threads: int
    quota_bytes: int
    io: int
    max_ram_bytes: int
    rehash_model: int
    weights: Any
    weights_len: int
    nice: int
    reserved: int
    ollama_models: Any
    ollama_models_len: int
    chat_template: Any
    chat_template_len: int
    device: Any
    device_len: int
    device_memory_bytes: int
    adapter: Any
    adapter_len: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("store", c_void_p),
        ("store_len", c_size_t),
        ("model", c_void_p),
        ("model_len", c_size_t),
        ("num_threads", c_uint64),
        ("quota_bytes", c_uint64),
        ("io", c_int32),
        ("max_ram_bytes", c_uint64),
        ("rehash_model", c_int32),
        ("weights", c_void_p),
        ("weights_len", c_size_t),
        ("nice", c_int32),
        ("reserved", c_int32),
        ("ollama_models", c_void_p),
        ("ollama_models_len", c_size_t),
        ("chat_template", c_void_p),
        ("chat_template_len", c_size_t),
        ("device", c_void_p),
        ("device_len", c_size_t),
        ("device_memory_bytes", c_uint64),
        ("adapter", c_void_p),
        ("adapter_len", c_size_t),
    ]


class lectern_counts(Structure):
    struct_size: int
    step_passes: int
    step_tokens: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("step_passes", c_uint64),
        ("step_tokens", c_uint64),
    ]


class lectern_progress(Structure):
    struct_size: int
    stage: Any
    done: int
    total: int
    tokens_per_second: float
    eta_seconds: float
    _fields_ = [
        ("struct_size", c_size_t),
        ("stage", c_void_p),
        ("done", c_uint64),
        ("total", c_uint64),
        ("tokens_per_second", c_double),
        ("eta_seconds", c_double),
    ]


lectern_progress_fn = CFUNCTYPE(c_int32, POINTER(lectern_progress), c_void_p)


class lectern_collection_progress(Structure):
    struct_size: int
    document: Any
    document_len: int
    number: int
    count: int
    progress: Any
    _fields_ = [
        ("struct_size", c_size_t),
        ("document", c_void_p),
        ("document_len", c_size_t),
        ("number", c_uint64),
        ("count", c_uint64),
        ("progress", POINTER(lectern_progress)),
    ]


lectern_collection_progress_fn = CFUNCTYPE(c_int32, POINTER(lectern_collection_progress), c_void_p)


class lectern_page(Structure):
    text_begin: int
    page: int
    _fields_ = [
        ("text_begin", c_uint64),
        ("page", c_uint64),
    ]


class lectern_index_options(Structure):
    struct_size: int
    name: Any
    name_len: int
    kv_type: int
    kv_budget: float
    num_levels: int
    again: int
    seed: int
    on_progress: Any
    progress_user: Any
    layer_budget: Any
    layer_budget_len: int
    head_budget: Any
    head_budget_len: int
    cluster_keys: Any
    cluster_keys_len: int
    keep: float
    retention: Any
    retention_len: int
    representatives: float
    stats: Any
    stats_len: int
    prefill: Any
    prefill_len: int
    prefill_budget: float
    pages: Any
    num_pages: int
    source: Any
    source_len: int
    path: Any
    path_len: int
    keep_versions: int
    reserved: int
    max_divergence: float
    page_labels: Any
    page_labels_len: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_void_p),
        ("name_len", c_size_t),
        ("kv_type", c_int32),
        ("kv_budget", c_float),
        ("num_levels", c_uint32),
        ("again", c_uint32),
        ("seed", c_uint64),
        ("on_progress", lectern_progress_fn),
        ("progress_user", c_void_p),
        ("layer_budget", c_void_p),
        ("layer_budget_len", c_size_t),
        ("head_budget", c_void_p),
        ("head_budget_len", c_size_t),
        ("cluster_keys", c_void_p),
        ("cluster_keys_len", c_size_t),
        ("keep", c_double),
        ("retention", c_void_p),
        ("retention_len", c_size_t),
        ("representatives", c_double),
        ("stats", c_void_p),
        ("stats_len", c_size_t),
        ("prefill", c_void_p),
        ("prefill_len", c_size_t),
        ("prefill_budget", c_double),
        ("pages", POINTER(lectern_page)),
        ("num_pages", c_size_t),
        ("source", c_void_p),
        ("source_len", c_size_t),
        ("path", c_void_p),
        ("path_len", c_size_t),
        ("keep_versions", c_uint32),
        ("reserved", c_uint32),
        ("max_divergence", c_double),
        ("page_labels", c_void_p),
        ("page_labels_len", c_size_t),
    ]


class lectern_index_numbers(Structure):
    struct_size: int
    tokens: int
    replaced_bytes: int
    bytes_on_disk: int
    generation: int
    resumed_tokens: int
    existed: int
    seconds: float
    reused_tokens: int
    kv_budget: float
    divergence: float
    num_parts: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("tokens", c_uint64),
        ("replaced_bytes", c_uint64),
        ("bytes_on_disk", c_uint64),
        ("generation", c_uint64),
        ("resumed_tokens", c_uint64),
        ("existed", c_uint64),
        ("seconds", c_double),
        ("reused_tokens", c_uint64),
        ("kv_budget", c_double),
        ("divergence", c_double),
        ("num_parts", c_uint64),
    ]


class lectern_index_estimate(Structure):
    struct_size: int
    tokens: int
    bytes_on_disk: int
    peak_bytes_on_disk: int
    free_bytes: int
    anonymous_bytes: int
    flops: float
    seconds: float
    existed: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("tokens", c_uint64),
        ("bytes_on_disk", c_uint64),
        ("peak_bytes_on_disk", c_uint64),
        ("free_bytes", c_uint64),
        ("anonymous_bytes", c_uint64),
        ("flops", c_double),
        ("seconds", c_double),
        ("existed", c_uint64),
    ]


lectern_answer_fn = CFUNCTYPE(c_int32, c_void_p, c_size_t, c_void_p)

lectern_part_fn = CFUNCTYPE(c_int32, c_uint64, c_uint64, c_void_p)


class lectern_turn(Structure):
    question: Any
    question_len: int
    answer: Any
    answer_len: int
    _fields_ = [
        ("question", c_void_p),
        ("question_len", c_size_t),
        ("answer", c_void_p),
        ("answer_len", c_size_t),
    ]


class lectern_string(Structure):
    text: Any
    text_len: int
    _fields_ = [
        ("text", c_void_p),
        ("text_len", c_size_t),
    ]


class lectern_logit_bias(Structure):
    id: int
    bias: float
    _fields_ = [
        ("id", c_int32),
        ("bias", c_float),
    ]


class lectern_likely_token(Structure):
    id: int
    reserved: int
    logprob: float
    bytes: Any
    bytes_len: int
    _fields_ = [
        ("id", c_int32),
        ("reserved", c_int32),
        ("logprob", c_double),
        ("bytes", c_void_p),
        ("bytes_len", c_size_t),
    ]


class lectern_sampled_token(Structure):
    struct_size: int
    token: Any
    likeliest: Any
    num_likeliest: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("token", lectern_likely_token),
        ("likeliest", POINTER(lectern_likely_token)),
        ("num_likeliest", c_size_t),
    ]


lectern_sampled_fn = CFUNCTYPE(None, POINTER(lectern_sampled_token), c_void_p)

lectern_warning_fn = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)


class lectern_ask_options(Structure):
    struct_size: int
    kv_budget: float
    no_tail: int
    max_tokens: int
    max_evidence: int
    temperature: float
    top_p: float
    seed: int
    on_text: Any
    text_user: Any
    fallback: int
    max_missed: float
    rule: Any
    rule_len: int
    mass: float
    layer_budget: Any
    layer_budget_len: int
    head_budget: Any
    head_budget_len: int
    max_session_rows: int
    turns: Any
    num_turns: int
    instructions: Any
    instructions_len: int
    on_reasoning: Any
    reasoning_user: Any
    frequency_penalty: float
    presence_penalty: float
    min_p: float
    top_k: int
    logit_bias: Any
    num_logit_bias: int
    stop_texts: Any
    num_stop_texts: int
    on_token: Any
    token_user: Any
    top_logprobs: int
    max_divergence: float
    on_warning: Any
    warning_user: Any
    focus: Any
    focus_len: int
    on_index: Any
    index_user: Any
    on_part: Any
    part_user: Any
    refuse_at: float
    json_schema: Any
    json_schema_len: int
    strict_schema: int
    lookup_decoding: Any
    lookup_decoding_len: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("kv_budget", c_float),
        ("no_tail", c_int32),
        ("max_tokens", c_uint32),
        ("max_evidence", c_uint32),
        ("temperature", c_float),
        ("top_p", c_float),
        ("seed", c_uint64),
        ("on_text", lectern_answer_fn),
        ("text_user", c_void_p),
        ("fallback", c_int32),
        ("max_missed", c_float),
        ("rule", c_void_p),
        ("rule_len", c_size_t),
        ("mass", c_double),
        ("layer_budget", c_void_p),
        ("layer_budget_len", c_size_t),
        ("head_budget", c_void_p),
        ("head_budget_len", c_size_t),
        ("max_session_rows", c_uint64),
        ("turns", POINTER(lectern_turn)),
        ("num_turns", c_size_t),
        ("instructions", c_void_p),
        ("instructions_len", c_size_t),
        ("on_reasoning", lectern_answer_fn),
        ("reasoning_user", c_void_p),
        ("frequency_penalty", c_float),
        ("presence_penalty", c_float),
        ("min_p", c_float),
        ("top_k", c_uint32),
        ("logit_bias", POINTER(lectern_logit_bias)),
        ("num_logit_bias", c_size_t),
        ("stop_texts", POINTER(lectern_string)),
        ("num_stop_texts", c_size_t),
        ("on_token", lectern_sampled_fn),
        ("token_user", c_void_p),
        ("top_logprobs", c_uint64),
        ("max_divergence", c_double),
        ("on_warning", lectern_warning_fn),
        ("warning_user", c_void_p),
        ("focus", c_void_p),
        ("focus_len", c_size_t),
        ("on_index", lectern_collection_progress_fn),
        ("index_user", c_void_p),
        ("on_part", lectern_part_fn),
        ("part_user", c_void_p),
        ("refuse_at", c_double),
        ("json_schema", c_void_p),
        ("json_schema_len", c_size_t),
        ("strict_schema", c_uint64),
        ("lookup_decoding", c_void_p),
        ("lookup_decoding_len", c_size_t),
    ]


class lectern_range(Structure):
    begin: int
    end: int
    _fields_ = [
        ("begin", c_uint64),
        ("end", c_uint64),
    ]


class lectern_evidence(Structure):
    struct_size: int
    begin: int
    end: int
    text: Any
    text_len: int
    mass: float
    page: int
    heading: Any
    heading_len: int
    page_end: int
    score: float
    highlights: Any
    num_highlights: int
    places: Any
    num_places: int
    page_label: Any
    page_label_len: int
    page_end_label: Any
    page_end_label_len: int
    document: Any
    document_len: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("begin", c_uint64),
        ("end", c_uint64),
        ("text", c_void_p),
        ("text_len", c_size_t),
        ("mass", c_double),
        ("page", c_uint64),
        ("heading", c_void_p),
        ("heading_len", c_size_t),
        ("page_end", c_uint64),
        ("score", c_double),
        ("highlights", POINTER(lectern_range)),
        ("num_highlights", c_size_t),
        ("places", POINTER(lectern_range)),
        ("num_places", c_size_t),
        ("page_label", c_void_p),
        ("page_label_len", c_size_t),
        ("page_end_label", c_void_p),
        ("page_end_label_len", c_size_t),
        ("document", c_void_p),
        ("document_len", c_size_t),
    ]


class lectern_receipt(Structure):
    struct_size: int
    document_tokens: int
    question_tokens: int
    answer_tokens: int
    kv_budget: float
    read_fraction_prefill: float
    read_fraction_decode: float
    bytes_read: int
    missed_mass_estimate: float
    open_ms: float
    prefill_ms: float
    first_token_ms: float
    per_token_ms: float
    total_ms: float
    fallback: int
    missed_mass_bound: float
    max_missed_by: int
    keep: float
    session_rows: int
    prefill_budget: float
    reasoning_tokens: int
    is_auto: int
    max_divergence: float
    divergence: float
    num_parts: int
    num_asked_parts: int
    num_documents: int
    num_asked_documents: int
    refusal_probability: float
    is_refused: int
    forced_tokens: int
    proposed_tokens: int
    accepted_tokens: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("document_tokens", c_uint64),
        ("question_tokens", c_uint64),
        ("answer_tokens", c_uint64),
        ("kv_budget", c_double),
        ("read_fraction_prefill", c_double),
        ("read_fraction_decode", c_double),
        ("bytes_read", c_uint64),
        ("missed_mass_estimate", c_double),
        ("open_ms", c_double),
        ("prefill_ms", c_double),
        ("first_token_ms", c_double),
        ("per_token_ms", c_double),
        ("total_ms", c_double),
        ("fallback", c_uint64),
        ("missed_mass_bound", c_double),
        ("max_missed_by", c_uint64),
        ("keep", c_double),
        ("session_rows", c_uint64),
        ("prefill_budget", c_double),
        ("reasoning_tokens", c_uint64),
        ("is_auto", c_uint64),
        ("max_divergence", c_double),
        ("divergence", c_double),
        ("num_parts", c_uint64),
        ("num_asked_parts", c_uint64),
        ("num_documents", c_uint64),
        ("num_asked_documents", c_uint64),
        ("refusal_probability", c_double),
        ("is_refused", c_uint64),
        ("forced_tokens", c_uint64),
        ("proposed_tokens", c_uint64),
        ("accepted_tokens", c_uint64),
    ]


class lectern_token(Structure):
    begin: int
    end: int
    id: int
    reserved: int
    _fields_ = [
        ("begin", c_uint64),
        ("end", c_uint64),
        ("id", c_int32),
        ("reserved", c_int32),
    ]


lectern_tokens_fn = CFUNCTYPE(None, POINTER(lectern_token), c_size_t, c_void_p)


class lectern_asked_document(Structure):
    struct_size: int
    name: Any
    name_len: int
    source: Any
    source_len: int
    document: Any
    document_len: int
    probability: float
    answer: Any
    answer_len: int
    support: float
    logprob: float
    is_chosen: int
    is_new: int
    num_passages: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_void_p),
        ("name_len", c_size_t),
        ("source", c_void_p),
        ("source_len", c_size_t),
        ("document", c_void_p),
        ("document_len", c_size_t),
        ("probability", c_double),
        ("answer", c_void_p),
        ("answer_len", c_size_t),
        ("support", c_double),
        ("logprob", c_double),
        ("is_chosen", c_uint64),
        ("is_new", c_uint64),
        ("num_passages", c_uint64),
    ]


class lectern_cite_options(Structure):
    struct_size: int
    question: Any
    question_len: int
    max_evidence: int
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("question", c_void_p),
        ("question_len", c_size_t),
        ("max_evidence", c_uint32),
        ("reserved", c_uint32),
    ]


class lectern_citation(Structure):
    struct_size: int
    begin: int
    end: int
    is_supported: int
    evidence: Any
    _fields_ = [
        ("struct_size", c_size_t),
        ("begin", c_uint64),
        ("end", c_uint64),
        ("is_supported", c_uint64),
        ("evidence", POINTER(lectern_evidence)),
    ]


lectern_citation_fn = CFUNCTYPE(None, POINTER(lectern_citation), c_void_p)


class lectern_name(Structure):
    name: Any
    name_len: int
    source: Any
    source_len: int
    _fields_ = [
        ("name", c_void_p),
        ("name_len", c_size_t),
        ("source", c_void_p),
        ("source_len", c_size_t),
    ]


class lectern_document(Structure):
    struct_size: int
    id: Any
    id_len: int
    name: Any
    name_len: int
    state: Any
    state_len: int
    model: Any
    model_len: int
    fingerprint: Any
    fingerprint_len: int
    generation: int
    tokens: int
    text_bytes: int
    bytes_on_disk: int
    keep: float
    retention: Any
    retention_len: int
    weights: Any
    weights_len: int
    prefill_budget: float
    source: Any
    source_len: int
    names: Any
    num_names: int
    adapter: Any
    adapter_len: int
    num_parts: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("id", c_void_p),
        ("id_len", c_size_t),
        ("name", c_void_p),
        ("name_len", c_size_t),
        ("state", c_void_p),
        ("state_len", c_size_t),
        ("model", c_void_p),
        ("model_len", c_size_t),
        ("fingerprint", c_void_p),
        ("fingerprint_len", c_size_t),
        ("generation", c_uint64),
        ("tokens", c_uint64),
        ("text_bytes", c_uint64),
        ("bytes_on_disk", c_uint64),
        ("keep", c_double),
        ("retention", c_void_p),
        ("retention_len", c_size_t),
        ("weights", c_void_p),
        ("weights_len", c_size_t),
        ("prefill_budget", c_double),
        ("source", c_void_p),
        ("source_len", c_size_t),
        ("names", POINTER(lectern_name)),
        ("num_names", c_size_t),
        ("adapter", c_void_p),
        ("adapter_len", c_size_t),
        ("num_parts", c_uint64),
    ]


lectern_document_fn = CFUNCTYPE(None, POINTER(lectern_document), c_void_p)


class lectern_shard(Structure):
    struct_size: int
    file: Any
    file_len: int
    bytes: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("file", c_void_p),
        ("file_len", c_size_t),
        ("bytes", c_uint64),
    ]


lectern_shard_fn = CFUNCTYPE(None, POINTER(lectern_shard), c_void_p)


class lectern_damage(Structure):
    struct_size: int
    document: Any
    document_len: int
    name: Any
    name_len: int
    code: int
    message: Any
    message_len: int
    collection: Any
    collection_len: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("document", c_void_p),
        ("document_len", c_size_t),
        ("name", c_void_p),
        ("name_len", c_size_t),
        ("code", c_int32),
        ("message", c_void_p),
        ("message_len", c_size_t),
        ("collection", c_void_p),
        ("collection_len", c_size_t),
    ]


lectern_damage_fn = CFUNCTYPE(None, POINTER(lectern_damage), c_void_p)


class lectern_document_plan(Structure):
    struct_size: int
    layer_budget: Any
    layer_budget_len: int
    head_budget: Any
    head_budget_len: int
    stats: Any
    stats_len: int
    kv_budget: float
    num_layers: int
    num_kv_heads: int
    layers: Any
    heads: Any
    cosine: Any
    competed: Any
    is_auto: int
    max_divergence: float
    divergence: float
    _fields_ = [
        ("struct_size", c_size_t),
        ("layer_budget", c_void_p),
        ("layer_budget_len", c_size_t),
        ("head_budget", c_void_p),
        ("head_budget_len", c_size_t),
        ("stats", c_void_p),
        ("stats_len", c_size_t),
        ("kv_budget", c_double),
        ("num_layers", c_uint64),
        ("num_kv_heads", c_uint64),
        ("layers", POINTER(c_double)),
        ("heads", POINTER(c_double)),
        ("cosine", POINTER(c_double)),
        ("competed", POINTER(c_double)),
        ("is_auto", c_uint64),
        ("max_divergence", c_double),
        ("divergence", c_double),
    ]


lectern_plan_fn = CFUNCTYPE(None, POINTER(lectern_document_plan), c_void_p)


class lectern_plan_options(Structure):
    struct_size: int
    layer_budget: Any
    layer_budget_len: int
    head_budget: Any
    head_budget_len: int
    kv_budget: float
    reserved: int
    max_divergence: float
    _fields_ = [
        ("struct_size", c_size_t),
        ("layer_budget", c_void_p),
        ("layer_budget_len", c_size_t),
        ("head_budget", c_void_p),
        ("head_budget_len", c_size_t),
        ("kv_budget", c_float),
        ("reserved", c_uint32),
        ("max_divergence", c_double),
    ]


class lectern_removed(Structure):
    struct_size: int
    names: int
    is_document_gone: int
    left: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("names", c_uint64),
        ("is_document_gone", c_uint64),
        ("left", c_uint64),
    ]


class lectern_collected(Structure):
    struct_size: int
    generations: int
    files: int
    in_use: int
    unknown: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("generations", c_uint64),
        ("files", c_uint64),
        ("in_use", c_uint64),
        ("unknown", c_uint64),
    ]


class lectern_refused(Structure):
    struct_size: int
    directory: Any
    directory_len: int
    code: int
    message: Any
    message_len: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("directory", c_void_p),
        ("directory_len", c_size_t),
        ("code", c_int32),
        ("message", c_void_p),
        ("message_len", c_size_t),
    ]


lectern_refused_fn = CFUNCTYPE(None, POINTER(lectern_refused), c_void_p)


class lectern_collection(Structure):
    struct_size: int
    name: Any
    name_len: int
    num_documents: int
    num_indexed: int
    text_bytes: int
    bytes_on_disk: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_void_p),
        ("name_len", c_size_t),
        ("num_documents", c_uint64),
        ("num_indexed", c_uint64),
        ("text_bytes", c_uint64),
        ("bytes_on_disk", c_uint64),
    ]


lectern_collection_fn = CFUNCTYPE(None, POINTER(lectern_collection), c_void_p)


class lectern_collection_document(Structure):
    struct_size: int
    name: Any
    name_len: int
    source: Any
    source_len: int
    document: Any
    document_len: int
    text_bytes: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_void_p),
        ("name_len", c_size_t),
        ("source", c_void_p),
        ("source_len", c_size_t),
        ("document", c_void_p),
        ("document_len", c_size_t),
        ("text_bytes", c_uint64),
    ]


lectern_collection_document_fn = CFUNCTYPE(None, POINTER(lectern_collection_document), c_void_p)


class lectern_text_to_add(Structure):
    name: Any
    name_len: int
    source: Any
    source_len: int
    path: Any
    path_len: int
    bytes: Any
    bytes_len: int
    pages: Any
    num_pages: int
    page_labels: Any
    page_labels_len: int
    _fields_ = [
        ("name", c_void_p),
        ("name_len", c_size_t),
        ("source", c_void_p),
        ("source_len", c_size_t),
        ("path", c_void_p),
        ("path_len", c_size_t),
        ("bytes", c_void_p),
        ("bytes_len", c_size_t),
        ("pages", POINTER(lectern_page)),
        ("num_pages", c_size_t),
        ("page_labels", c_void_p),
        ("page_labels_len", c_size_t),
    ]


class lectern_added(Structure):
    struct_size: int
    name: Any
    name_len: int
    change: int
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_void_p),
        ("name_len", c_size_t),
        ("change", c_int32),
        ("reserved", c_int32),
    ]


lectern_added_fn = CFUNCTYPE(None, POINTER(lectern_added), c_void_p)


class lectern_mention(Structure):
    struct_size: int
    name: Any
    name_len: int
    source: Any
    source_len: int
    document: Any
    document_len: int
    num_passages: int
    passage: Any
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_void_p),
        ("name_len", c_size_t),
        ("source", c_void_p),
        ("source_len", c_size_t),
        ("document", c_void_p),
        ("document_len", c_size_t),
        ("num_passages", c_uint64),
        ("passage", POINTER(lectern_evidence)),
    ]


lectern_mention_fn = CFUNCTYPE(None, POINTER(lectern_mention), c_void_p)


class lectern_indexed_collection(Structure):
    struct_size: int
    indexed: int
    existed: int
    left: int
    failures: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("indexed", c_uint64),
        ("existed", c_uint64),
        ("left", c_uint64),
        ("failures", c_uint64),
    ]


# Result and arguments of every function.
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "lectern_code_name": (c_void_p, [
        c_int32
    ]),
    "lectern_exit_status": (c_int32, [
        c_int32
    ]),
    "lectern_version": (c_void_p, [
    ]),
    "lectern_abi_version": (c_uint32, [
    ]),
    "lectern_build_info": (c_void_p, [
    ]),
    "lectern_error_code": (c_int32, [
        c_void_p
    ]),
    "lectern_error_message": (c_void_p, [
        c_void_p, POINTER(c_size_t)
    ]),
    "lectern_error_cli_message": (c_void_p, [
        c_void_p, POINTER(c_size_t)
    ]),
    "lectern_error_param": (c_void_p, [
        c_void_p, POINTER(c_size_t)
    ]),
    "lectern_error_free": (c_int32, [
        c_void_p
    ]),
    "lectern_text_data": (c_void_p, [
        c_void_p, POINTER(c_size_t)
    ]),
    "lectern_text_free": (c_int32, [
        c_void_p
    ]),
    "lectern_engine_create": (c_int32, [
        POINTER(lectern_engine_options), POINTER(c_void_p), POINTER(c_void_p)
    ]),
    "lectern_engine_free": (c_int32, [
        c_void_p
    ]),
    "lectern_engine_cancel": (c_int32, [
        c_void_p
    ]),
    "lectern_engine_counts": (c_int32, [
        c_void_p, POINTER(lectern_counts)
    ]),
    "lectern_engine_index": (c_int32, [
        c_void_p, c_char_p, c_size_t, POINTER(lectern_index_options), POINTER(c_void_p),
        POINTER(c_void_p)
    ]),
    "lectern_engine_index_file": (c_int32, [
        c_void_p, c_char_p, c_size_t, POINTER(lectern_index_options), POINTER(c_void_p),
        POINTER(c_void_p)
    ]),
    "lectern_engine_estimate": (c_int32, [
        c_void_p, c_char_p, c_size_t, POINTER(lectern_index_options),
        POINTER(lectern_index_estimate), POINTER(c_void_p)
    ]),
    "lectern_index_estimate_json": (c_int32, [
        POINTER(lectern_index_estimate), POINTER(c_void_p), POINTER(c_void_p)
    ]),
    "lectern_index_report_document": (c_void_p, [
        c_void_p, POINTER(c_size_t)
    ]),
    "lectern_index_report_name": (c_void_p, [
        c_void_p, POINTER(c_size_t)
    ]),
    "lectern_index_report_source": (c_void_p, [
        c_void_p, POINTER(c_size_t)
    ]),
    "lectern_index_report_replaced": (c_void_p, [
        c_void_p, POINTER(c_size_t)
    ]),
    "lectern_index_report_json": (c_void_p, [
        c_void_p, POINTER(c_size_t)
    ]),
    "lectern_index_report_numbers": (c_int32, [
        c_void_p, POINTER(lectern_index_numbers)
    ]),
    "lectern_index_report_note": (c_void_p, [
        c_void_p, POINTER(c_size_t)
    ]),
    "lectern_index_report_cli_note": (c_void_p, [
        c_void_p, POINTER(c_size_t)
    ]),
    "lectern_index_report_free": (c_int32, [
        c_void_p
    ]),
    "lectern_session_open": (c_int32, [
        c_void_p, c_char_p, c_size_t, POINTER(c_void_p), POINTER(c_void_p)
    ]),
    "lectern_session_text": (c_void_p, [
        c_void_p, POINTER(c_size_t)
    ]),
    "lectern_session_tokenize": (c_int32, [
        c_void_p, c_char_p, c_size_t, lectern_tokens_fn, c_void_p, POINTER(c_void_p)
    ]),
    "lectern_session_ask": (c_int32, [
        c_void_p, c_char_p, c_size_t, POINTER(lectern_ask_options), POINTER(c_void_p),
        POINTER(c_void_p)
    ]),
    "lectern_session_cancel": (c_int32, [
        c_void_p
    ]),
    "lectern_session_free": (c_int32, [
        c_void_p
    ]),
    "lectern_answer_text": (c_void_p, [
        c_void_p, POINTER(c_size_t)
    ]),
    "lectern_answer_reasoning": (c_void_p, [
        c_void_p, POINTER(c_size_t)
    ]),
    "lectern_answer_stopped_by": (c_void_p, [
        c_void_p, POINTER(c_size_t)
    ]),
    "lectern_answer_finish_reason": (c_void_p, [
        c_void_p, POINTER(c_size_t)
    ]),
    "lectern_answer_note": (c_void_p, [
        c_void_p, POINTER(c_size_t)
    ]),
    "lectern_answer_cli_note": (c_void_p, [
        c_void_p, POINTER(c_size_t)
    ]),
    "lectern_answer_warning_count": (c_size_t, [
        c_void_p
    ]),
    "lectern_answer_warning": (c_void_p, [
        c_void_p, c_size_t, POINTER(c_size_t)
    ]),
    "lectern_answer_evidence_count": (c_size_t, [
        c_void_p
    ]),
    "lectern_answer_evidence": (c_int32, [
        c_void_p, c_size_t, POINTER(lectern_evidence)
    ]),
    "lectern_answer_asked_document": (c_int32, [
        c_void_p, c_size_t, POINTER(lectern_asked_document)
    ]),
    "lectern_answer_receipt": (c_int32, [
        c_void_p, POINTER(lectern_receipt)
    ]),
    "lectern_answer_json": (c_int32, [
        c_void_p, c_int32, POINTER(c_void_p), POINTER(c_void_p)
    ]),
    "lectern_answer_free": (c_int32, [
        c_void_p
    ]),
    "lectern_cite": (c_int32, [
        c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, POINTER(lectern_cite_options),
        lectern_citation_fn, c_void_p, c_int32, POINTER(c_void_p), POINTER(c_void_p)
    ]),
    "lectern_engine_list": (c_int32, [
        c_void_p, lectern_document_fn, c_void_p, POINTER(c_void_p), POINTER(c_void_p)
    ]),
    "lectern_engine_show": (c_int32, [
        c_void_p, c_char_p, c_size_t, lectern_document_fn, lectern_shard_fn, c_void_p,
        POINTER(c_void_p), POINTER(c_void_p)
    ]),
    "lectern_engine_show_plan": (c_int32, [
        c_void_p, c_char_p, c_size_t, lectern_plan_fn, c_void_p, POINTER(c_void_p)
    ]),
    "lectern_engine_verify": (c_int32, [
        c_void_p, c_char_p, c_size_t, c_int32, lectern_damage_fn, c_void_p,
        POINTER(c_void_p), POINTER(c_void_p)
    ]),
    "lectern_engine_plan": (c_int32, [
        c_void_p, c_char_p, c_size_t, POINTER(lectern_plan_options), POINTER(c_void_p)
    ]),
    "lectern_engine_remove": (c_int32, [
        c_void_p, c_char_p, c_size_t, POINTER(c_void_p)
    ]),
    "lectern_engine_remove_named": (c_int32, [
        c_void_p, c_char_p, c_size_t, POINTER(lectern_removed), POINTER(c_void_p),
        POINTER(c_void_p)
    ]),
    "lectern_engine_collect": (c_int32, [
        c_void_p, POINTER(lectern_collected), POINTER(c_void_p), POINTER(c_void_p)
    ]),
    "lectern_engine_recover": (c_int32, [
        c_void_p, lectern_document_fn, lectern_refused_fn, c_void_p, POINTER(c_int32),
        POINTER(c_void_p), POINTER(c_void_p)
    ]),
    "lectern_engine_seal": (c_int32, [
        c_void_p, POINTER(c_void_p)
    ]),
    "lectern_engine_export": (c_int32, [
        c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, POINTER(c_void_p)
    ]),
    "lectern_engine_import": (c_int32, [
        c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, lectern_document_fn, c_void_p,
        POINTER(c_int32), POINTER(c_void_p), POINTER(c_void_p)
    ]),
    "lectern_list_collections": (c_int32, [
        c_void_p, lectern_collection_fn, c_void_p, POINTER(c_void_p), POINTER(c_void_p)
    ]),
    "lectern_collection_documents": (c_int32, [
        c_void_p, c_char_p, c_size_t, lectern_collection_document_fn, c_void_p,
        POINTER(c_void_p), POINTER(c_void_p)
    ]),
    "lectern_collection_text": (c_int32, [
        c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, POINTER(c_void_p),
        POINTER(c_void_p)
    ]),
    "lectern_collection_add": (c_int32, [
        c_void_p, c_char_p, c_size_t, POINTER(lectern_text_to_add), c_size_t,
        lectern_added_fn, c_void_p, POINTER(c_void_p), POINTER(c_void_p)
    ]),
    "lectern_collection_add_document": (c_int32, [
        c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, lectern_added_fn, c_void_p,
        POINTER(c_void_p), POINTER(c_void_p)
    ]),
    "lectern_collection_remove": (c_int32, [
        c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, POINTER(c_void_p)
    ]),
    "lectern_collection_rename_document": (c_int32, [
        c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, c_char_p, c_size_t,
        POINTER(c_void_p)
    ]),
    "lectern_remove_collection": (c_int32, [
        c_void_p, c_char_p, c_size_t, POINTER(c_void_p)
    ]),
    "lectern_rename_collection": (c_int32, [
        c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, POINTER(c_void_p)
    ]),
    "lectern_verify_collection": (c_int32, [
        c_void_p, c_char_p, c_size_t, POINTER(c_void_p)
    ]),
    "lectern_open_collection": (c_int32, [
        c_void_p, c_char_p, c_size_t, POINTER(c_void_p), POINTER(c_void_p)
    ]),
    "lectern_find_mentions": (c_int32, [
        c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, c_uint64, lectern_mention_fn,
        c_void_p, POINTER(c_uint64), c_int32, POINTER(c_void_p), POINTER(c_void_p)
    ]),
    "lectern_index_collection": (c_int32, [
        c_void_p, c_char_p, c_size_t, POINTER(lectern_index_options),
        lectern_collection_progress_fn, c_void_p, POINTER(lectern_indexed_collection),
        POINTER(c_void_p), POINTER(c_void_p)
    ]),
    "lectern_error_json": (c_int32, [
        c_int32, c_char_p, c_size_t, c_char_p, c_size_t, POINTER(c_void_p),
        POINTER(c_void_p)
    ]),
    "lectern_json_get_string": (c_int32, [
        c_char_p, c_size_t, c_char_p, c_size_t, POINTER(c_void_p), POINTER(c_void_p)
    ]),
    "lectern_json_set_string": (c_int32, [
        c_char_p, c_size_t, c_char_p, c_size_t, c_char_p, c_size_t, POINTER(c_void_p),
        POINTER(c_void_p)
    ]),
}
