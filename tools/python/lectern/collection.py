"""Collections: sets of texts to which questions are put as one."""
from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from ctypes import byref, c_char_p, c_uint64, c_void_p, cast, sizeof
from typing import TYPE_CHECKING, Any, Optional

from . import _abi, _files, _library
from ._files import Path
from ._library import CancelToken, Guard, Options, library
from .errors import LecternError
from .figures import IndexedCollection
from .results import (Added, Answer, ByteRanges, CollectionDocument, CollectionProgress, Mention,
                      Page, passage_of)
from .session import Session, collection_progress_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import AskOptions, IndexOptions
    from .store import Store

__all__ = ["Collection"]


class Collection:
    """A collection of a store, by its name. The store keeps the texts and an index of all their
    words; a document is indexed for a model when it is first asked, or by index()."""

    def __init__(self, store: Store, name: str):
        """Store.collection makes them."""
        self.store, self.name = store, name

    def __repr__(self) -> str:
        return f"Collection({self.store!r}, {self.name!r})"

    def _arguments(self, *texts: str) -> tuple[Any, ...]:
        """The first arguments of every call: engine, collection, and texts with lengths."""
        views: list[Any] = []
        for text in (self.name, *texts):
            views += _library.view(text)
        return (self.store._handle, *views)

    # --- documents --------------------------------------------------------------------------------

    def add(self, *files: Path, format: str = "auto", encoding: str = "auto",
            ocr: Optional[str] = None) -> list[Added]:
        """Adds the texts of files, all or none; needs no model. A file that is there already is
        renewed if it has changed. Arguments: as Store.index."""
        return self._add([self._text_of_file(_files.read_file(
            file, format=format, encoding=encoding, ocr=ocr)) for file in files])

    def add_text(self, text: str | bytes, *, name: str = "", source: str = "",
                 pages: Sequence[Page] = ()) -> Added:
        """Adds a text that the program has: by a name, by where it comes from, or both."""
        data = text.encode() if isinstance(text, str) else text
        array, labels = _files.page_array(text, pages)
        return self._add([self._text(data, name.encode(), source.encode(), b"", array, labels)])[0]

    def add_document(self, document: str) -> Added:
        """Adds a document of the store, whose text is copied."""
        read = _library.take_json(library.lectern_collection_add_document,
                                  *self._arguments(document), _abi.lectern_added_fn(), None)
        return Added(read["added"][0]["name"], read["added"][0]["change"])

    @classmethod
    def _text_of_file(cls, file: _files.FileText) -> tuple[Any, list[Any]]:
        array, labels = _files.page_array(file.text, file.pages)
        return cls._text(file.text, b"", os.fsencode(file.source),
                         os.fsencode(file.path), array, labels)

    @staticmethod
    def _text(data: bytes, name: bytes, source: bytes, path: bytes, pages: Any,
              labels: bytes) -> tuple[Any, list[Any]]:
        """lectern_text_to_add, and what it points to."""
        item = _abi.lectern_text_to_add()
        for field, value in (("name", name), ("source", source), ("path", path), ("bytes", data),
                             ("page_labels", labels)):
            setattr(item, field, cast(c_char_p(value), c_void_p))
            setattr(item, field + "_len", len(value))
        item.pages, item.num_pages = pages, len(pages)
        return item, [data, name, source, path, pages, labels]

    def _add(self, texts: list[tuple[Any, list[Any]]]) -> list[Added]:
        array = (_abi.lectern_text_to_add * len(texts))(*(item for item, _ in texts))
        read = _library.take_json(library.lectern_collection_add, *self._arguments(), array,
                                  len(texts), _abi.lectern_added_fn(), None)
        return [Added(one["name"], one["change"]) for one in read["added"]]

    def documents(self) -> list[CollectionDocument]:
        """Its documents, by name."""
        read = _library.take_json(library.lectern_collection_documents, *self._arguments(),
                                  _abi.lectern_collection_document_fn(), None)
        return [CollectionDocument(one["name"], one["source"], one["document"], one["text_bytes"])
                for one in read["documents"]]

    def text(self, document: str) -> str:
        """The text of a document, by its name in the collection; needs no model."""
        return _library.take_text(library.lectern_collection_text, *self._arguments(document))

    def remove(self, document: str) -> None:
        """Takes a document out; if it was indexed, that stays in the store."""
        _library.call(library.lectern_collection_remove, *self._arguments(document))

    def rename_document(self, document: str, name: str) -> None:
        """Gives a document another name in the collection."""
        _library.call(library.lectern_collection_rename_document, *self._arguments(document, name))

    def rename(self, name: str) -> None:
        """Gives the collection another name."""
        _library.call(library.lectern_rename_collection, *self._arguments(name))
        self.name = name

    def delete(self) -> None:
        """Removes the collection; documents that were indexed from its texts stay."""
        _library.call(library.lectern_remove_collection, *self._arguments())

    def verify(self) -> None:
        """Reads every text and checks it; CorruptError."""
        _library.call(library.lectern_verify_collection, *self._arguments())

    # --- questions --------------------------------------------------------------------------------

    def open(self, *, model: Optional[Path] = None, adapter: Optional[Path] = None,
             yes: bool = False) -> Session:
        """Begins a conversation. `model`: with which documents are indexed that are not indexed
        yet; None: the one that documents of the collection were indexed with, else the store's."""
        engine = self.store._opened()
        if model is not None or not any(one.document for one in self.documents()):
            engine = self.store._engine_to_index(model, adapter, yes)
        return Session(_library.take(library.lectern_open_collection, engine.handle,
                                     *_library.view(self.name)))

    def ask(self, question: str, *, model: Optional[Path] = None, adapter: Optional[Path] = None,
            yes: bool = False, cancel: Optional[CancelToken] = None,
            **options: Unpack[AskOptions]) -> Answer:
        """Asks a question in a conversation of its own."""
        with self.open(model=model, adapter=adapter, yes=yes) as session:
            return session.ask(question, cancel=cancel, **options)

    def mentions(self, words: str, *, most: int = 100) -> list[Mention]:
        """The documents with a passage in which the words follow one another, or, where no document
        has one, that has all of them; those with the most such passages first. Needs no model."""
        in_bytes: list[ByteRanges] = []

        def each(mention: Any, _: object) -> None:
            in_bytes.append(ByteRanges.of(mention[0].passage[0]))

        read = _library.take_json(
            library.lectern_find_mentions, *self._arguments(words), most,
            _abi.lectern_mention_fn(each), None, byref(c_uint64()), _abi.LECTERN_OFFSET_CODEPOINT)
        return [Mention(one["name"], one["source"], one["document"], one["passages"],
                        passage_of(one["passage"], ranges))
                for one, ranges in zip(read["documents"], in_bytes)]

    def index(self, *, model: Optional[Path] = None, adapter: Optional[Path] = None,
              progress: Optional[Callable[[CollectionProgress], object]] = None,
              cancel: Optional[CancelToken] = None, yes: bool = False,
              **options: Unpack[IndexOptions]) -> IndexedCollection:
        """Indexes the documents that are not indexed yet, until quota or disk are full. Documents
        that are done stay when it is cancelled."""
        from .store import _exit_cancel
        engine = self.store._engine_to_index(model, adapter, yes)
        row, guard = Options("index", options), Guard(cancel)
        indexed = _abi.lectern_indexed_collection(
            struct_size=sizeof(_abi.lectern_indexed_collection))
        callback = _abi.lectern_collection_progress_fn(
            lambda event, _: guard(progress and (
                lambda: progress(collection_progress_of(event[0])))))
        with _library.running(lambda: _exit_cancel(engine), cancel), \
                _library.interruptible(guard):
            try:
                _library.call(library.lectern_index_collection, engine.handle,
                              *_library.view(self.name), byref(row.struct), callback, None,
                              byref(indexed), None)
            except LecternError:
                guard.finish()
                raise
        guard.finish()
        return IndexedCollection.read(indexed)
