"""The results of calls: answers, passages, reports, documents. All are frozen dataclasses; those with
a member `json` have everything that the command-line tools print with --json there.

Offsets count characters, as indices of str do; members that begin with byte_ count bytes of UTF-8,
as the engine itself does."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from .figures import IndexNumbers, Receipt

__all__ = ["Added", "Answer", "AskedDocument", "AskedPart", "CitedSentence", "CitedText",
           "CollectionDocument", "CollectionInfo", "CollectionProgress", "Damage", "Document",
           "DocumentName", "IndexReport", "LikelyToken", "Mention", "Page", "Passage", "Progress",
           "Range", "SampledToken", "Token"]


@dataclass(frozen=True)
class Range:
    """text[start:end]"""
    start: int
    end: int
    byte_start: int
    byte_end: int


@dataclass(frozen=True)
class Passage:
    """A passage of a document: document.text[start:end] == text."""
    text: str
    start: int
    end: int
    byte_start: int
    byte_end: int
    # Where it begins and ends, from 1; None: the document has no pages, or it ends where it begins.
    page: Optional[int]
    page_end: Optional[int]
    # How these pages are printed ("xii"); None: by their numbers.
    page_label: Optional[str]
    page_end_label: Optional[str]
    heading: Optional[str]  # those above it: "Chapter 2 > Rent"
    # The probability in [0, 1] that it supports the answer, by the words of question, answer and
    # passage; 0 also where they were not compared.
    score: float
    mass: float  # share of the squared attention paid to it, in [0, 1]; 0 without a model
    highlights: tuple[Range, ...]  # words that question or answer have, too
    places: tuple[Range, ...]      # where the text has the same passage again
    document: Optional[str]        # of a collection: the name of the document that has it

    @property
    def label(self) -> str:
        """The page as a reader knows it: "xii", "12", or "" without pages."""
        return self.page_label or (str(self.page) if self.page else "")

    def _repr_html_(self) -> str:
        """How notebooks show it."""
        from .integrations.jupyter import html_of_passage
        return html_of_passage(self)


@dataclass(frozen=True)
class AskedDocument:
    """A document of a collection that was asked, or that mentions the words asked for."""
    name: str
    source: Optional[str]
    document: Optional[str]  # id; None: its words alone were looked at
    probability: float       # by words, that the answer stands here
    answer: str              # the model's answer about this document alone
    support: float           # score of its best passage
    logprob: float
    chosen: bool             # its answer is the answer
    new: bool                # it was indexed for this question
    passages: int            # that have all words, where words alone were looked at; else 0


@dataclass(frozen=True)
class AskedPart:
    """A part of a document that is longer than its model's room."""
    part: int  # from 1
    start: int
    end: int
    probability: float
    answer: str
    support: float
    logprob: float
    chosen: bool


@dataclass(frozen=True)
class Answer:
    text: str
    passages: tuple[Passage, ...]  # the best first
    finish_reason: str             # "stop", "length" or "cancelled"
    stopped_by: str                # "end", "stop_sequence", "max_tokens", "cancelled", "repetition"
    reasoning: str                 # the model's thoughts before it answered; or ""
    # By stable names: "whole_document", "no_evidence", "cpu_fallback", "repetition" and so on.
    warnings: tuple[str, ...]
    note: str                      # something to tell the user, or ""
    document: Optional[str]        # id of the document that was asked
    receipt: Receipt               # what was read, and how long it took
    asked_documents: tuple[AskedDocument, ...]  # of a collection
    asked_parts: tuple[AskedPart, ...]          # of a document in parts
    json: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def has_evidence(self) -> bool:
        """Whether some passage is likely to support the answer."""
        return bool(self.passages) and "no_evidence" not in self.warnings

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """How notebooks show it: the answer, and the passages with pages."""
        from .integrations.jupyter import html_of_answer
        return html_of_answer(self)


@dataclass(frozen=True)
class CitedSentence:
    """A sentence of the text that is cited, and the passages that support it, the best first."""
    text: str
    start: int  # of the given text
    end: int
    byte_start: int
    byte_end: int
    supported: bool
    passages: tuple[Passage, ...]


@dataclass(frozen=True)
class CitedText:
    document: str  # id
    sentences: tuple[CitedSentence, ...]
    json: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def supported(self) -> bool:
        """Whether every sentence is."""
        return all(sentence.supported for sentence in self.sentences)

    def _repr_html_(self) -> str:
        """How notebooks show it: sentences, and the passage that supports each."""
        from .integrations.jupyter import html_of_cited
        return html_of_cited(self)


@dataclass(frozen=True)
class Progress:
    stage: str  # "read", "prefill", "cluster", "calibrate", "write"; more may come
    done: int   # prefill: tokens; other stages: items of work
    total: int
    tokens_per_second: float  # of the prefill; 0: unknown
    eta_seconds: float        # of all that is left; below 0: unknown


@dataclass(frozen=True)
class CollectionProgress:
    document: str  # its name in the collection
    number: int    # of it among those that are to be indexed, from 1; 0: one, for a question
    count: int
    progress: Progress


@dataclass(frozen=True)
class Page:
    """Where a page of a document begins."""
    start: int   # in characters of a str, in bytes of bytes
    number: int  # from 1
    label: str = ""  # how it is printed, if that is not the number: "xii"


@dataclass(frozen=True)
class IndexReport:
    document: str  # id, 32 hex digits
    name: str
    source: str
    replaced: str  # id of the version before, or ""
    note: str      # something to tell the user, about the file too; or ""
    numbers: IndexNumbers
    json: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def tokens(self) -> int:
        return self.numbers.tokens

    @property
    def existed(self) -> bool:
        """The same document was there, and nothing was done."""
        return self.numbers.existed


@dataclass(frozen=True)
class DocumentName:
    name: str
    source: Optional[str]


@dataclass(frozen=True)
class Document:
    """An indexed document. Store.text(document.id) reads its text."""
    id: str    # 32 hex digits
    name: str  # "": reachable by id only
    names: tuple[DocumentName, ...]
    source: Optional[str]  # where its text came from
    state: str             # "ready" or "building"
    generation: int
    tokens: int
    parts: int  # that it was cut into, because it is longer than its model's room; 0: it was not
    text_bytes: int
    bytes_on_disk: int
    model: Optional[str]
    adapter: Optional[str]
    weights: Optional[str]
    fingerprint: str
    json: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Damage:
    """The first damage of a document, or of a collection."""
    document: Optional[str]
    name: Optional[str]
    collection: Optional[str]
    code: str
    message: str


@dataclass(frozen=True)
class CollectionInfo:
    name: str
    documents: int
    indexed: int  # of them, that have been indexed
    text_bytes: int
    bytes_on_disk: int  # of texts and words


@dataclass(frozen=True)
class CollectionDocument:
    name: str
    source: Optional[str]
    document: Optional[str]  # id in the store; None: it is not indexed
    text_bytes: int


@dataclass(frozen=True)
class Added:
    name: str    # in the collection
    change: str  # "new", "renewed" or "unchanged"


@dataclass(frozen=True)
class Mention:
    """A document of a collection that has the words."""
    name: str
    source: Optional[str]
    document: Optional[str]
    num_passages: int  # in which the words stand
    passage: Passage   # the first of them


@dataclass(frozen=True)
class Token:
    id: int
    start: int  # of the text
    end: int
    byte_start: int
    byte_end: int


@dataclass(frozen=True)
class LikelyToken:
    id: int
    logprob: float
    bytes: bytes  # what it stands for in running text; not always whole characters


@dataclass(frozen=True)
class SampledToken:
    token: LikelyToken
    likeliest: tuple[LikelyToken, ...]  # in its place, the likeliest first


# --- from what the library gives ----------------------------------------------------------------

@dataclass(frozen=True)
class ByteRanges:
    """The byte ranges of a lectern_evidence, copied while it is valid."""
    start: int
    end: int
    highlights: tuple[tuple[int, int], ...]
    places: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, evidence: Any) -> ByteRanges:
        def pairs(ranges: Any, count: int) -> tuple[tuple[int, int], ...]:
            return tuple((ranges[i].begin, ranges[i].end) for i in range(count))

        return cls(evidence.begin, evidence.end,
                   pairs(evidence.highlights, evidence.num_highlights),
                   pairs(evidence.places, evidence.num_places))


def _ranges(characters: Iterable[Mapping[str, int]],
            in_bytes: tuple[tuple[int, int], ...]) -> tuple[Range, ...]:
    return tuple(Range(one["begin"], one["end"], *pair)
                 for one, pair in zip(characters, in_bytes))


def passage_of(json: Mapping[str, Any], in_bytes: ByteRanges) -> Passage:
    """Makes a passage of the library's JSON, whose offsets are code points, and byte ranges."""
    return Passage(
        text=json["text"], start=json["begin"], end=json["end"], byte_start=in_bytes.start,
        byte_end=in_bytes.end, page=json["page"], page_end=json["page_end"],
        page_label=json["page_label"], page_end_label=json["page_end_label"],
        heading=json["heading"], score=json.get("score", 0.0), mass=json.get("mass", 0.0),
        highlights=_ranges(json["highlights"], in_bytes.highlights),
        places=_ranges(json["places"], in_bytes.places), document=json.get("document"))


def answer_of(json: Mapping[str, Any], in_bytes: list[ByteRanges], receipt: Receipt) -> Answer:
    collection, parts = json.get("collection"), json.get("parts")
    return Answer(
        text=json["answer"],
        passages=tuple(map(passage_of, json["evidence"], in_bytes)),
        finish_reason=json["finish_reason"], stopped_by=json["stopped_by"],
        reasoning=json["reasoning"] or "", warnings=tuple(json["warnings"]),
        note=json["note"] or "", document=json["document"], receipt=receipt,
        asked_documents=tuple(
            AskedDocument(one["name"], one["source"], one["document"], one["probability"],
                          one["answer"], one["support"], one["logprob"], one["chosen"], one["new"],
                          one["passages"]) for one in (collection or {}).get("asked", ())),
        asked_parts=tuple(
            AskedPart(one["part"], one["begin"], one["end"], one["probability"], one["answer"],
                      one["support"], one["logprob"], one["chosen"])
            for one in (parts or {}).get("asked", ())),
        json=json)


def document_of(json: Mapping[str, Any]) -> Document:
    return Document(
        id=json["document"], name=json["name"] or "",
        names=tuple(DocumentName(one["name"], one["source"]) for one in json["names"]),
        source=json["source"], state=json["state"], generation=json["generation"],
        tokens=json["tokens"], parts=json["parts"], text_bytes=json["text_bytes"],
        bytes_on_disk=json["bytes_on_disk"], model=json["model"], adapter=json["adapter"],
        weights=json["weights"], fingerprint=json["fingerprint"], json=json)
