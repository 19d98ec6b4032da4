"""The store: indexes documents, lists them, opens conversations about them, cites them."""
from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, sizeof
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _abi, _files, _library
from ._files import Path
from ._library import CancelToken, Guard, Handle, Options, library
from .collection import Collection
from .errors import InvalidHandleError, LecternError
from .figures import Collected, Counts, IndexEstimate, IndexNumbers, Removed
from .results import (ByteRanges, CitedSentence, CitedText, CollectionInfo, Damage, Document,
                      IndexReport, Page, Progress, document_of, passage_of)
from .session import Session, in_thread, progress_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import EngineOptions, IndexOptions, PlanOptions

__all__ = ["Store"]

# A function that gets each step of the work and may return False to end it; True: a bar of tqdm's
# where that is installed, else lines on stderr.
ProgressArgument = Union[bool, Callable[[Progress], object], None]


class _Engine(Handle):
    _kind = "engine"

    def __init__(self, store: str, given: dict[str, Any]):
        options = Options("engine", given)
        options.set_text("store", store)
        self._handle = _library.take(library.lectern_engine_create, byref(options.struct))

    @property
    def handle(self) -> int:
        if not self._handle:
            raise InvalidHandleError("the store is closed")
        return self._handle


class Store:
    """A folder of indexed documents, and the models that they need.

        store = lectern.Store()
        report = store.index("lease.pdf")
        with store.open(report.document) as session:
            print(session.ask("Who pays for repairs?").passages[0].page)

    path      the folder, made when something is first indexed. None: the tools' own, LECTERN_STORE
              or ~/.local/share/lectern
    options   lectern.options.EngineOptions. `model`: what documents are indexed with. Without it
              it is what the tools take (LECTERN_MODEL, else the released model where it was
              fetched, else the small bundled one); each document is asked with its own

    `document` is everywhere an id, a name, the end of a source's path that fits one document
    ("b/x.txt"), or "" for the only one. Any thread may call anything. close() or a `with` ends the
    engine's threads; sessions live on."""

    def __init__(self, path: Optional[Path] = None, **options: Unpack[EngineOptions]):
        self.path = os.fspath(path) if path is not None else _files.default_store()
        self._options: dict[str, Any] = dict(options)
        self._lock = threading.Lock()
        self._engine: Optional[_Engine] = _Engine(self.path, self._options)
        # The engine that indexed last with a model that `options` do not name.
        self._indexing: Optional[tuple[_files.Reader, _Engine]] = None

    def close(self) -> None:
        """Closes the store; closing again does nothing."""
        with self._lock:
            engine, self._engine = self._engine, None
            indexing, self._indexing = self._indexing, None
        if engine:
            engine.close()
        if indexing:
            indexing[1].close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({self.path!r})"

    def _opened(self) -> _Engine:
        engine = self._engine
        if engine is None:
            raise InvalidHandleError("the store is closed")
        return engine

    @property
    def _handle(self) -> int:
        return self._opened().handle

    def _engine_to_index(self, model: Optional[Path], adapter: Optional[Path],
                         yes: bool) -> _Engine:
        """An engine with a model, which is kept until another one is wanted."""
        opened = self._opened()
        if model is None and self._options.get("model"):
            return opened
        if model is not None:
            reader = _files.Reader(os.fspath(model), "")
        else:
            reader = _files.default_reader(yes)
        if adapter is not None:
            reader = _files.Reader(reader.model, os.fspath(adapter))
        elif self._options.get("adapter"):
            reader = _files.Reader(reader.model, os.fspath(self._options["adapter"]))
        with self._lock:
            if self._indexing and self._indexing[0] == reader:
                return self._indexing[1]
        made = _Engine(self.path, {**self._options, "model": reader.model,
                                   "adapter": reader.adapter})
        with self._lock:
            self._indexing = reader, made
        return made

    # --- indexing ---------------------------------------------------------------------------------

    def index(self, file: Path, *, model: Optional[Path] = None, adapter: Optional[Path] = None,
              format: str = "auto", encoding: str = "auto", ocr: Optional[str] = None,
              progress: ProgressArgument = None, cancel: Optional[CancelToken] = None,
              yes: bool = False, **options: Unpack[IndexOptions]) -> IndexReport:
        """Indexes a file: text, Markdown, HTML, PDF, an office file, a book, a mail, a notebook.

        model, adapter    of this document; None: the store's
        format, encoding  as `lectern index --format --encoding`; "auto": by the file
        ocr               languages of Tesseract ("deu+eng"; "": its default) that reads pages
                          without text; None: they are left out
        progress          a function that gets Progress, or True for a bar
        yes               fetches the default model, 90 MB, if no model is named and it is missing
        options           lectern.options.IndexOptions

        A file that is indexed already and has not changed costs nothing. PDFs need the program
        pdftotext (Debian: poppler-utils), RTF needs unrtf, .doc needs antiword; errors say so."""
        read = _files.read_file(file, format=format, encoding=encoding, ocr=ocr, cancel=cancel)
        return self._index(read.text, read.pages, model, adapter, progress, cancel, yes, options,
                           source=read.source, path=read.path, note=read.note)

    def index_text(self, text: str | bytes, *, pages: Sequence[Page] = (), source: str = "",
                   model: Optional[Path] = None, adapter: Optional[Path] = None,
                   progress: ProgressArgument = None, cancel: Optional[CancelToken] = None,
                   yes: bool = False, **options: Unpack[IndexOptions]) -> IndexReport:
        """Indexes a text that the program has. `source`: where it comes from, the same each time: a
        text from the same source is the next version of the same document."""
        return self._index(text, pages, model, adapter, progress, cancel, yes, options,
                           source=source)

    async def aindex(self, file: Path, *, cancel: Optional[CancelToken] = None,
                     **arguments: Any) -> IndexReport:
        """index for asyncio. Cancelling the task ends the work; the same call continues it."""
        return await in_thread(lambda token: self.index(file, cancel=token, **arguments), cancel)

    def _index(self, text: str | bytes, pages: Sequence[Page], model: Optional[Path],
               adapter: Optional[Path], progress: ProgressArgument, cancel: Optional[CancelToken],
               yes: bool, given: Any, *, source: str, path: str = "",
               note: str = "") -> IndexReport:
        engine = self._engine_to_index(model, adapter, yes)
        data = text.encode() if isinstance(text, str) else text
        guard = Guard(cancel)
        with shown(progress) as show:
            options = self._index_options(text, pages, given, source, path)
            options.struct.on_progress = options.keep(_abi.lectern_progress_fn(
                lambda event, _: guard(show and (lambda: show(progress_of(event[0]))))))
            with _library.running(lambda: _exit_cancel(engine), cancel), \
                    _library.interruptible(guard):
                try:
                    report = _library.take(library.lectern_engine_index, engine.handle, data,
                                           len(data), byref(options.struct))
                except LecternError:
                    guard.finish()
                    raise
        try:
            guard.finish()
            return self._report(report, note)
        finally:
            library.lectern_index_report_free(report)

    @staticmethod
    def _index_options(text: str | bytes, pages: Sequence[Page], given: Any, source: str,
                       path: str) -> Options:
        options = Options("index", given)
        if source:
            options.set_text("source", source)
        if path:
            options.set_text("path", path)
        if pages:
            array, labels = _files.page_array(text, pages)
            options.struct.pages = options.keep(array)
            options.struct.num_pages = len(pages)
            if labels:
                options.set_text("page_labels", labels)
        return options

    @staticmethod
    def _report(report: int, file_note: str) -> IndexReport:
        numbers = _abi.lectern_index_numbers(struct_size=sizeof(_abi.lectern_index_numbers))
        library.lectern_index_report_numbers(report, byref(numbers))
        read = json.loads(_library.read_string(library.lectern_index_report_json, report))
        read["file_note"] = file_note or None
        notes = [file_note, _library.read_string(library.lectern_index_report_note, report)]
        return IndexReport(
            document=_library.read_string(library.lectern_index_report_document, report),
            name=_library.read_string(library.lectern_index_report_name, report),
            source=_library.read_string(library.lectern_index_report_source, report),
            replaced=_library.read_string(library.lectern_index_report_replaced, report),
            note=" ".join(filter(None, notes)), numbers=IndexNumbers.read(numbers), json=read)

    def estimate(self, file: Path, *, model: Optional[Path] = None,
                 adapter: Optional[Path] = None, yes: bool = False,
                 **options: Unpack[IndexOptions]) -> IndexEstimate:
        """Estimates the time, disk space and memory that indexing a file would take."""
        read = _files.read_file(file)
        engine = self._engine_to_index(model, adapter, yes)
        row = self._index_options(read.text, read.pages, options, read.source, read.path)
        estimate = _abi.lectern_index_estimate(struct_size=sizeof(_abi.lectern_index_estimate))
        _library.call(library.lectern_engine_estimate, engine.handle, read.text, len(read.text),
                      byref(row.struct), byref(estimate))
        return IndexEstimate.read(estimate)

    # --- asking -----------------------------------------------------------------------------------

    def open(self, document: str = "") -> Session:
        """Begins a conversation about a document. The first one of a model takes as long as opening
        the model."""
        return Session(_library.take(library.lectern_session_open, self._handle,
                                     *_library.view(document)))

    async def aopen(self, document: str = "") -> Session:
        """open for asyncio."""
        return await in_thread(lambda _: self.open(document))

    def cite(self, document: str, text: str, *, question: str = "",
             max_evidence: int = 0) -> CitedText:
        """Finds the passages of a document that support a text of any origin, sentence by sentence.
        It compares words and needs no model. `question`: that the text answers; it makes citations
        surer. `max_evidence`: passages of each sentence; 0: 3."""
        options = Options("cite", {"max_evidence": max_evidence})
        options.set_text("question", question)
        sentences: list[tuple[int, int, list[ByteRanges]]] = []

        def each(citation: Any, _: object) -> None:
            one = citation[0]
            if not sentences or sentences[-1][:2] != (one.begin, one.end):
                sentences.append((one.begin, one.end, []))
            if one.evidence:
                sentences[-1][2].append(ByteRanges.of(one.evidence[0]))

        json = _library.take_json(
            library.lectern_cite, self._handle, *_library.view(document), *_library.view(text),
            byref(options.struct), _abi.lectern_citation_fn(each), None,
            _abi.LECTERN_OFFSET_CODEPOINT)
        return CitedText(json["document"], tuple(
            CitedSentence(one["text"], one["begin"], one["end"], begin, end, one["supported"],
                          tuple(map(passage_of, one["evidence"], in_bytes)))
            for one, (begin, end, in_bytes) in zip(json["sentences"], sentences)), json)

    # --- documents --------------------------------------------------------------------------------

    def documents(self) -> list[Document]:
        """All documents that are ready or being indexed; none where there is no store yet."""
        try:
            read = _library.take_json(library.lectern_engine_list, self._handle, _NO_DOCUMENT, None)
        except LecternError as error:
            if error.code == "not_found" and error.param == "store":
                return []
            raise
        return [document_of(one) for one in read["documents"]]

    def document(self, document: str = "") -> Document:
        """One document; its .json also has the shards, the report and the plan."""
        return document_of(_library.take_json(
            library.lectern_engine_show, self._handle, *_library.view(document), _NO_DOCUMENT,
            _abi.lectern_shard_fn(), None))

    def text(self, document: str = "") -> str:
        """A document's text, into which all offsets point. Opens the document and its model."""
        with self.open(document) as session:
            return session.text

    def remove(self, document: str) -> Removed:
        """Removes a name, or by its id a document; a document goes with its last name."""
        removed = _abi.lectern_removed(struct_size=sizeof(_abi.lectern_removed))
        _library.call(library.lectern_engine_remove_named, self._handle, *_library.view(document),
                      byref(removed), None)
        return Removed.read(removed)

    def verify(self, document: str = "", *, full: bool = True) -> list[Damage]:
        """Checks a document ("": all documents and collections): every byte, or without `full`
        sizes and identities. Returns the damage that was found."""
        read = _library.take_json(library.lectern_engine_verify, self._handle,
                                  *_library.view(document), int(full), _abi.lectern_damage_fn(),
                                  None)
        return [Damage(one["document"], one["name"], one["collection"], one["code"],
                       one["message"]) for one in read["damaged"]]

    def change_plan(self, document: str = "", **options: Unpack[PlanOptions]) -> None:
        """Changes how questions that name no budget read a document."""
        plan = Options("plan", options)
        _library.call(library.lectern_engine_plan, self._handle, *_library.view(document),
                      byref(plan.struct))

    def export(self, document: str, file: Path) -> None:
        """Writes a document as a single file, which must not be there yet."""
        _library.call(library.lectern_engine_export, self._handle, *_library.view(document),
                      *_library.path_view(file))

    def import_(self, file: Path, *, name: str = "") -> Document:
        """Takes such a file into the store, under `name` or the one that it had."""
        read = _library.take_json(
            library.lectern_engine_import, self._handle, *_library.path_view(file),
            *_library.view(name), _NO_DOCUMENT, None, None)
        return self.document(read["document"])

    def collect(self) -> Collected:
        """Removes files that no reader can reach."""
        collected = _abi.lectern_collected(struct_size=sizeof(_abi.lectern_collected))
        _library.call(library.lectern_engine_collect, self._handle, byref(collected), None)
        return Collected.read(collected)

    def recover(self) -> dict[str, Any]:
        """Rebuilds a damaged catalog from the documents: {"documents", "refused", "replaced"}."""
        return _library.take_json(library.lectern_engine_recover, self._handle, _NO_DOCUMENT,
                                  _abi.lectern_refused_fn(), None, None)

    def seal(self) -> None:
        """Refuses changes from now on; removing the file SEALED in the store undoes it."""
        _library.call(library.lectern_engine_seal, self._handle)

    @property
    def counts(self) -> Counts:
        """Counters of this store's engine since it was opened."""
        counts = _abi.lectern_counts(struct_size=sizeof(_abi.lectern_counts))
        library.lectern_engine_counts(self._handle, byref(counts))
        return Counts.read(counts)

    # --- collections ------------------------------------------------------------------------------

    def collection(self, name: str) -> Collection:
        """A set of texts to which questions are put as one; "all": every document of the store. It
        is made when something is first added."""
        return Collection(self, name)

    def collections(self) -> list[CollectionInfo]:
        """The collections of the store, by name."""
        read = _library.take_json(library.lectern_list_collections, self._handle,
                                  _abi.lectern_collection_fn(), None)
        return [CollectionInfo(one["name"], one["documents"], one["indexed"], one["text_bytes"],
                               one["bytes_on_disk"]) for one in read["collections"]]


_NO_DOCUMENT = _abi.lectern_document_fn()  # the JSON has it all


def _exit_cancel(engine: _Engine) -> None:
    """Ends what the engine indexes. A token ends its own call by the callback; at the end of the
    interpreter all calls of the engine end."""
    if _library.exiting():
        library.lectern_engine_cancel(engine.handle)


# --- progress -----------------------------------------------------------------------------------

@contextmanager
def shown(progress: ProgressArgument) -> Iterator[Optional[Callable[[Progress], object]]]:
    """The function that shows progress, for the length of the body."""
    if not progress:
        yield None
    elif progress is not True:
        yield progress
    else:
        bar = _bar()
        try:
            yield bar
        finally:
            bar.close()


class _Lines:
    """A line on stderr for each stage."""
    _stage = ""

    def __call__(self, event: Progress) -> None:
        if event.stage != self._stage:
            self._stage = event.stage
            print(f"lectern: {event.stage}", file=sys.stderr)

    def close(self) -> None:
        """Nothing is left to tidy up."""


class _Bar:
    """A bar of tqdm's for each stage."""

    def __init__(self, tqdm: Any):
        self._tqdm, self._bar, self._stage = tqdm, None, ""

    _bar: Any

    def __call__(self, event: Progress) -> None:
        if event.stage != self._stage:
            self.close()
            self._stage = event.stage
            self._bar = self._tqdm(total=event.total, desc=event.stage, leave=False)
        self._bar.total = event.total
        self._bar.update(event.done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _bar() -> _Bar | _Lines:
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        return _Lines()
    return _Bar(tqdm)
