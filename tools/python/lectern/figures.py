"""Numbers that calls report, as lectern_c.h has them.

Made by tools/python/generate.py of engine/lectern_c.h: change that header, and run it."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Collected", "Counts", "IndexEstimate", "IndexNumbers", "IndexedCollection",
           "Receipt", "Removed"]


@dataclass(frozen=True)
class Counts:
    # Over weights, each for a token of one or more sessions
    step_passes: int
    # Tokens taken in them
    step_tokens: int

    @classmethod
    def read(cls, struct: Any) -> "Counts":
        """Copies the struct of C."""
        return cls(
            step_passes=struct.step_passes,
            step_tokens=struct.step_tokens,
        )


@dataclass(frozen=True)
class IndexNumbers:
    tokens: int
    # replaced_bytes: of invalid UTF-8
    replaced_bytes: int
    bytes_on_disk: int
    generation: int
    # Taken over from an interrupted run
    resumed_tokens: int
    # 1: nothing was done, the same document was there
    existed: bool
    seconds: float
    # reused_tokens: of the document that had the name before: what both texts begin with
    reused_tokens: int
    # kv_budget: of asks that name none; 0: the document existed
    kv_budget: float
    # Predicted at kv_budget, nats a token; below 0: not measured
    divergence: float
    # num_parts: that it was cut into, because it is longer than the model's room; other numbers
    # count all of them; 0: it was not
    num_parts: int

    @classmethod
    def read(cls, struct: Any) -> "IndexNumbers":
        """Copies the struct of C."""
        return cls(
            tokens=struct.tokens,
            replaced_bytes=struct.replaced_bytes,
            bytes_on_disk=struct.bytes_on_disk,
            generation=struct.generation,
            resumed_tokens=struct.resumed_tokens,
            existed=bool(struct.existed),
            seconds=struct.seconds,
            reused_tokens=struct.reused_tokens,
            kv_budget=struct.kv_budget,
            divergence=struct.divergence,
            num_parts=struct.num_parts,
        )


@dataclass(frozen=True)
class IndexEstimate:
    tokens: int
    # bytes_on_disk: of the finished document
    bytes_on_disk: int
    # While indexing
    peak_bytes_on_disk: int
    # free_bytes: of the store's file system
    free_bytes: int
    # Memory, beside the page cache
    anonymous_bytes: int
    # flops: of the prefill
    flops: float
    # On the CPU, at the speed of a short trial on this machine
    seconds: float
    # 1: the document is there, indexing would do nothing
    existed: bool

    @classmethod
    def read(cls, struct: Any) -> "IndexEstimate":
        """Copies the struct of C."""
        return cls(
            tokens=struct.tokens,
            bytes_on_disk=struct.bytes_on_disk,
            peak_bytes_on_disk=struct.peak_bytes_on_disk,
            free_bytes=struct.free_bytes,
            anonymous_bytes=struct.anonymous_bytes,
            flops=struct.flops,
            seconds=struct.seconds,
            existed=bool(struct.existed),
        )


@dataclass(frozen=True)
class Receipt:
    document_tokens: int
    question_tokens: int
    answer_tokens: int
    kv_budget: float
    # read_fraction_prefill: of the document's key and value bytes, in [0, 1]; above 1 after a
    # fallback, which counts both prefills, as bytes_read does
    read_fraction_prefill: float
    # Below 0: no decode step ran
    read_fraction_decode: float
    bytes_read: int
    # Share of the attention that keys not read would get; below 0: it was not estimated, with a
    # focus
    missed_mass_estimate: float
    open_ms: float
    prefill_ms: float
    first_token_ms: float
    per_token_ms: float
    total_ms: float
    # 1: the fallback "exact" made the answer exact
    fallback: bool
    # missed_mass_bound: what it cannot exceed, with max_missed; below 0: not known
    missed_mass_bound: float
    # 1: max_missed was kept by that bound in every step and layer; 2: in some by the estimate
    # and the document's margin; 0: no limit
    max_missed_by: int
    # Share of the document's rows that is stored, in (0, 1]
    keep: float
    # session_rows: of the conversation so far that a next question attends to, per layer and kv
    # head in the mean
    session_rows: int
    # Lectern_index_options; below 1: what exact mode reads, too, comes of a sparse prefill
    prefill_budget: float
    # Those of answer_tokens that the model thought before it answered
    reasoning_tokens: int
    # 1: kv_budget follows from max_divergence
    is_auto: bool
    # Nats a token
    max_divergence: float
    # Predicted at kv_budget, of the mean token; below 0: not known
    divergence: float
    # num_parts: that the document was cut into, because it is longer than its model's room; 0:
    # it was not
    num_parts: int
    # Those that were asked; answer's JSON has their places and answers
    num_asked_parts: int
    # num_documents: of the collection that was asked; 0: a document was asked
    num_documents: int
    # Those that were asked, or that mention what the question asks for, at most 20; answer's
    # JSON has their names and answers
    num_asked_documents: int
    # refusal_probability: that the model gave to its own sentence for "the document does not
    # say", all of it; below 0: it has none, or thinks first, or has no room for it
    refusal_probability: float
    # 1: that sentence is the answer because it was so likely (refuse_at)
    is_refused: bool
    # Those of answer_tokens that json_schema left no choice for
    forced_tokens: int
    # By lookup decoding
    proposed_tokens: int
    # Those of them that were drawn, which took no pass of their own
    accepted_tokens: int

    @classmethod
    def read(cls, struct: Any) -> "Receipt":
        """Copies the struct of C."""
        return cls(
            document_tokens=struct.document_tokens,
            question_tokens=struct.question_tokens,
            answer_tokens=struct.answer_tokens,
            kv_budget=struct.kv_budget,
            read_fraction_prefill=struct.read_fraction_prefill,
            read_fraction_decode=struct.read_fraction_decode,
            bytes_read=struct.bytes_read,
            missed_mass_estimate=struct.missed_mass_estimate,
            open_ms=struct.open_ms,
            prefill_ms=struct.prefill_ms,
            first_token_ms=struct.first_token_ms,
            per_token_ms=struct.per_token_ms,
            total_ms=struct.total_ms,
            fallback=bool(struct.fallback),
            missed_mass_bound=struct.missed_mass_bound,
            max_missed_by=struct.max_missed_by,
            keep=struct.keep,
            session_rows=struct.session_rows,
            prefill_budget=struct.prefill_budget,
            reasoning_tokens=struct.reasoning_tokens,
            is_auto=bool(struct.is_auto),
            max_divergence=struct.max_divergence,
            divergence=struct.divergence,
            num_parts=struct.num_parts,
            num_asked_parts=struct.num_asked_parts,
            num_documents=struct.num_documents,
            num_asked_documents=struct.num_asked_documents,
            refusal_probability=struct.refusal_probability,
            is_refused=bool(struct.is_refused),
            forced_tokens=struct.forced_tokens,
            proposed_tokens=struct.proposed_tokens,
            accepted_tokens=struct.accepted_tokens,
        )


@dataclass(frozen=True)
class Removed:
    # names: that are gone
    names: int
    # 1: the document is
    is_document_gone: bool
    # Names that it has still
    left: int

    @classmethod
    def read(cls, struct: Any) -> "Removed":
        """Copies the struct of C."""
        return cls(
            names=struct.names,
            is_document_gone=bool(struct.is_document_gone),
            left=struct.left,
        )


@dataclass(frozen=True)
class Collected:
    # generations: of documents, whose files were removed
    generations: int
    # Temporary ones, removed
    files: int
    # Generations that are still being read: a later collection's
    in_use: int
    # Directories with documents that the catalog does not know; left alone
    unknown: int

    @classmethod
    def read(cls, struct: Any) -> "Collected":
        """Copies the struct of C."""
        return cls(
            generations=struct.generations,
            files=struct.files,
            in_use=struct.in_use,
            unknown=struct.unknown,
        )


@dataclass(frozen=True)
class IndexedCollection:
    # Documents now
    indexed: int
    # existed: that were indexed before
    existed: int
    # left: that are not, because quota or disk leave no room
    left: int
    # failures: that could not be indexed for another reason; the JSON's note says why
    failures: int

    @classmethod
    def read(cls, struct: Any) -> "IndexedCollection":
        """Copies the struct of C."""
        return cls(
            indexed=struct.indexed,
            existed=struct.existed,
            left=struct.left,
            failures=struct.failures,
        )
