"""Lectern from Python: liblectern.so.1 by ctypes. Copy this file; it needs nothing else.

    with Engine("store", model="/usr/share/lectern/reader") as engine:
        report = engine.index("A text.", name="lease", on_progress=print)
        answer = engine.open("lease").ask("Who pays?", on_text=print)
        print(answer.text, [passage.text for passage in answer.evidence])

Failures raise Error, which has a code ("not_found"), a message that says the way out, and the
option that is wrong. Any thread may call anything; a call releases the interpreter's lock. Handles
are freed when they are closed or collected. LECTERN_LIBRARY: where the library is, if the system
does not find it."""
from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable
from ctypes import (POINTER, byref, c_char_p, c_double, c_float, c_int32, c_size_t, c_uint32,
                    c_uint64, c_void_p)
from dataclasses import dataclass

_library = ctypes.CDLL(os.environ.get("LECTERN_LIBRARY", "liblectern.so.1"))
_TextFn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_size_t, c_void_p)


# The structs as far as they are used: struct_size says how far that is.
class _EngineOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("store", c_char_p), ("store_len", c_size_t),
                ("model", c_char_p), ("model_len", c_size_t), ("num_threads", c_uint64)]


class _Progress(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("stage", c_char_p), ("done", c_uint64),
                ("total", c_uint64), ("tokens_per_second", c_double), ("eta_seconds", c_double)]


_ProgressFn = ctypes.CFUNCTYPE(c_int32, POINTER(_Progress), c_void_p)


class _IndexOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("name_len", c_size_t),
                ("kv_type", c_int32), ("kv_budget", c_float), ("num_levels", c_uint32),
                ("again", c_uint32), ("seed", c_uint64), ("on_progress", _ProgressFn),
                ("progress_user", c_void_p)]


class _AskOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("kv_budget", c_float), ("no_tail", c_int32),
                ("max_tokens", c_uint32), ("max_evidence", c_uint32), ("temperature", c_float),
                ("top_p", c_float), ("seed", c_uint64), ("on_text", _TextFn),
                ("text_user", c_void_p)]


class _TextToAdd(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("name_len", c_size_t), ("source", c_char_p),
                ("source_len", c_size_t), ("path", c_char_p), ("path_len", c_size_t),
                ("bytes", c_char_p), ("bytes_len", c_size_t), ("pages", c_void_p),
                ("num_pages", c_size_t), ("page_labels", c_char_p), ("page_labels_len", c_size_t)]


def _declare(name: str, result, *arguments):
    function = getattr(_library, "lectern_" + name)
    function.restype, function.argtypes = result, arguments
    return function


_BYTES = (c_void_p, c_char_p, c_size_t)
_OUT = (POINTER(c_void_p), POINTER(c_void_p))
_engine_create = _declare("engine_create", c_int32, POINTER(_EngineOptions), *_OUT)
_engine_cancel = _declare("engine_cancel", c_int32, c_void_p)
_engine_index = _declare("engine_index", c_int32, *_BYTES, POINTER(_IndexOptions), *_OUT)
_engine_list = _declare("engine_list", c_int32, c_void_p, c_void_p, c_void_p, *_OUT)
_engine_remove = _declare("engine_remove", c_int32, *_BYTES, POINTER(c_void_p))
_collection_add = _declare("collection_add", c_int32, *_BYTES, POINTER(_TextToAdd), c_size_t,
                           c_void_p, c_void_p, *_OUT)
_collection_text = _declare("collection_text", c_int32, *_BYTES, c_char_p, c_size_t, *_OUT)
_find_mentions = _declare("find_mentions", c_int32, *_BYTES, c_char_p, c_size_t, c_uint64, c_void_p,
                          c_void_p, POINTER(c_uint64), c_int32, *_OUT)
_open_collection = _declare("open_collection", c_int32, *_BYTES, *_OUT)
_report_json = _declare("index_report_json", c_void_p, c_void_p, POINTER(c_size_t))
_session_open = _declare("session_open", c_int32, *_BYTES, *_OUT)
_session_ask = _declare("session_ask", c_int32, *_BYTES, POINTER(_AskOptions), *_OUT)
_session_cancel = _declare("session_cancel", c_int32, c_void_p)
_answer_json = _declare("answer_json", c_int32, c_void_p, c_int32, *_OUT)
_text_data = _declare("text_data", c_void_p, c_void_p, POINTER(c_size_t))
_error_message = _declare("error_message", c_void_p, c_void_p, POINTER(c_size_t))
_error_param = _declare("error_param", c_void_p, c_void_p, POINTER(c_size_t))
_code_name = _declare("code_name", c_char_p, c_int32)
_version = _declare("version", c_char_p)
_free = {kind: _declare(kind + "_free", c_int32, c_void_p)
         for kind in ("engine", "session", "answer", "index_report", "text", "error")}
_CODEPOINTS = 2  # offsets count what indices of str count


class Error(Exception):
    """code: the name of a code of lectern_c.h, "not_found"; param: the option that is wrong, or
    ""."""

    def __init__(self, code: str, message: str, param: str):
        super().__init__(message)
        self.code, self.param = code, param


def _string(read, handle) -> str:
    length = c_size_t()
    data = read(handle, byref(length))
    return ctypes.string_at(data, length.value).decode() if data else ""


def _check(code: int, error: c_void_p) -> None:
    """Raises Error unless the code is 0, and frees the error."""
    if code == 0:
        return
    try:
        name = _code_name(code).decode()
        raise Error(name, _string(_error_message, error) or name, _string(_error_param, error))
    finally:
        _free["error"](error)


def _take(function, *arguments) -> int:
    """Calls a function that gives a handle or an error. Returns the handle; raises Error."""
    handle, error = c_void_p(), c_void_p()
    _check(function(*arguments, byref(handle), byref(error)), error)
    return handle.value or 0


def _take_json(kind: str, read, handle: int) -> dict:
    """Parses the handle's JSON, and frees the handle."""
    try:
        return json.loads(_string(read, handle))
    finally:
        _free[kind](handle)


class _Handle:
    """Freed by close(), at the end of a `with`, or when it is collected."""
    _kind = ""

    def __init__(self, handle: int):
        self._handle: int | None = handle

    def close(self) -> None:
        handle, self._handle = self._handle, None
        _free[self._kind](handle)

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()


class _Callback:
    """Calls back into Python: False ends the call, and so does an exception, which comes through."""

    def __init__(self, function: Callable | None):
        self.function, self.thrown = function, None

    def __call__(self, *arguments) -> int:
        try:
            return 1 if self.function(*arguments) is False else 0
        except BaseException as error:  # KeyboardInterrupt, too
            self.thrown = error
            return 1

    def run(self, kind: str, function, *arguments) -> int:
        """Calls what calls back and gives a handle of the kind."""
        try:
            handle = _take(function, *arguments)
        except Error:
            if self.thrown:
                raise self.thrown from None
            raise
        if self.thrown:
            _free[kind](handle)
            raise self.thrown
        return handle


@dataclass(frozen=True)
class Progress:
    stage: str  # "read", "prefill", "cluster", "calibrate", "write"
    done: int
    total: int
    eta_seconds: float  # of all that is left; below 0: unknown


@dataclass(frozen=True)
class Passage:
    begin: int  # text[begin:end] of the indexed text
    end: int
    text: str
    mass: float  # share of the attention, in [0, 1]
    page: int | None
    heading: str | None = None  # those above it: "Chapter 2 > Rent"
    document: str | None = None  # of a collection: the name of the text that has the passage


@dataclass(frozen=True)
class Answer:
    text: str
    finish_reason: str  # "stop", "length", "cancelled"
    evidence: list[Passage]
    json: dict  # all that `ask-document --json` prints


class Session(_Handle):
    """A conversation about one document, or a collection: follow-ups see what was said before."""
    _kind = "session"

    def ask(self, question: str, *, kv_budget: float = 0, max_tokens: int = 0,
            on_text: Callable[[str], object] | None = None) -> Answer:
        """Asks, and returns the whole answer. 0: the default. on_text gets the pieces of text as
        they come, on this thread; returning False ends the answer ("cancelled"), and an exception
        is raised again."""
        callback = _Callback(on_text)
        options = _AskOptions(struct_size=ctypes.sizeof(_AskOptions), kv_budget=kv_budget,
                              max_tokens=max_tokens)
        if on_text:
            options.on_text = _TextFn(
                lambda data, size, _: callback(ctypes.string_at(data, size).decode()))
        data = question.encode()
        answer = callback.run("answer", _session_ask, self._handle, data, len(data),
                              byref(options))
        try:
            text = _take(_answer_json, answer, _CODEPOINTS)
        finally:
            _free["answer"](answer)
        read = _take_json("text", _text_data, text)
        passages = [Passage(one["begin"], one["end"], one["text"], one["mass"], one.get("page"),
                            one.get("heading"), one.get("document"))
                    for one in read["evidence"]]
        return Answer(read["answer"], read["finish_reason"], passages, read)

    def cancel(self) -> None:
        """Ends the ask that runs now, from any thread: what there is of the answer is returned."""
        _session_cancel(self._handle)


class Engine(_Handle):
    """A store and the models that its documents need."""
    _kind = "engine"

    def __init__(self, store: str | os.PathLike, model: str | os.PathLike = "", *,
                 threads: int = 0):
        folder, weights = os.fsencode(store), os.fsencode(model)
        options = _EngineOptions(ctypes.sizeof(_EngineOptions), folder, len(folder), weights,
                                 len(weights), threads)
        super().__init__(_take(_engine_create, byref(options)))

    def index(self, text: str | bytes, *, name: str = "", again: bool = False,
              on_progress: Callable[[Progress], object] | None = None) -> dict:
        """Indexes a text; returns the report that `index-document --json` prints. A text that is indexed
        already is left as it is, unless `again`."""
        data = text.encode() if isinstance(text, str) else text
        name_data, callback = name.encode(), _Callback(on_progress)
        options = _IndexOptions(struct_size=ctypes.sizeof(_IndexOptions), name=name_data,
                                name_len=len(name_data), again=again)
        if on_progress:
            options.on_progress = _ProgressFn(lambda event, _: callback(Progress(
                event[0].stage.decode(), event[0].done, event[0].total, event[0].eta_seconds)))
        report = callback.run("index_report", _engine_index, self._handle, data, len(data),
                              byref(options))
        return _take_json("index_report", _report_json, report)

    def open(self, document: str = "") -> Session:
        """Begins a conversation. `document`: id, name, or empty: the only one."""
        data = document.encode()
        return Session(_take(_session_open, self._handle, data, len(data)))

    def add(self, collection: str, texts: dict[str, str | bytes]) -> list[dict]:
        """Adds texts by their names to a collection, which is made if it is missing; needs no
        model. A text is indexed when it is first asked. Returns {"name", "change"} of each."""
        name = collection.encode()
        items = [(key.encode(), text.encode() if isinstance(text, str) else text)
                 for key, text in texts.items()]
        array = (_TextToAdd * len(items))(*(
            _TextToAdd(name=key, name_len=len(key), bytes=data, bytes_len=len(data))
            for key, data in items))
        added = _take(_collection_add, self._handle, name, len(name), array, len(items), None, None)
        return _take_json("text", _text_data, added)["added"]

    def open_collection(self, collection: str) -> Session:
        """Begins a conversation about a collection ("all": every document of the store)."""
        data = collection.encode()
        return Session(_take(_open_collection, self._handle, data, len(data)))

    def text(self, collection: str, document: str) -> str:
        """The text of a document of a collection, of which passages have offsets."""
        name, data = collection.encode(), document.encode()
        text = _take(_collection_text, self._handle, name, len(name), data, len(data))
        try:
            return _string(_text_data, text)
        finally:
            _free["text"](text)

    def mentions(self, collection: str, words: str, most: int = 100) -> list[dict]:
        """The documents of a collection that have the words, each with a passage, without a model."""
        name, data = collection.encode(), words.encode()
        found = _take(_find_mentions, self._handle, name, len(name), data, len(data), most, None,
                      None, None, _CODEPOINTS)
        return _take_json("text", _text_data, found)["documents"]

    def documents(self) -> list[dict]:
        """All documents of the store, as `lectern-store list --json` prints them."""
        text = _take(_engine_list, self._handle, None, None)
        return _take_json("text", _text_data, text)["documents"]

    def remove(self, document: str) -> None:
        """Removes a name, or by its id a document; a document goes with its last name."""
        data, error = document.encode(), c_void_p()
        _check(_engine_remove(self._handle, data, len(data), byref(error)), error)

    def cancel(self) -> None:
        """Ends what this engine indexes now, from any thread; the same call later goes on there."""
        _engine_cancel(self._handle)


def version() -> str:
    """The library's version."""
    return _version().decode()
