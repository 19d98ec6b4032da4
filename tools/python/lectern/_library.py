"""The shared library: finds it, calls it, and turns its codes into exceptions.

A call releases the interpreter's lock for as long as it runs (ctypes.CDLL). Handles are freed when
they are closed or collected. In a process that was forked from one that uses the library nothing is
called, because the copies of its handles have no threads there."""
from __future__ import annotations

import atexit
import ctypes
import json
import os
import pathlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_size_t, c_void_p
from typing import Any, Optional, TypeVar

from . import _abi, errors, options

PACKAGE = pathlib.Path(__file__).resolve().parent


def _load() -> ctypes.CDLL:
    """LECTERN_LIBRARY, else the one in this package, else the system's liblectern.so.1."""
    named = os.environ.get("LECTERN_LIBRARY", "")
    inside = PACKAGE / "lib" / "liblectern.so.1"
    path = named or (str(inside) if inside.exists() else "liblectern.so.1")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"Lectern's library cannot be loaded: {error}. The wheel has it inside; otherwise "
            "install liblectern1, or set LECTERN_LIBRARY to the path of liblectern.so.1") from error
    for name, (result, arguments) in _abi.FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError as error:
            raise ImportError(f"{path} has no {name}: it is older than this package; install the "
                              "library of the same version") from error
        function.restype, function.argtypes = result, arguments
    return library


library = _load()
_forked = False


def _after_fork() -> None:
    global _forked
    _forked = True


os.register_at_fork(after_in_child=_after_fork)


# --- strings and errors -------------------------------------------------------------------------

def string_at(data: Optional[int], length: int) -> str:
    return ctypes.string_at(data, length).decode("utf-8", "replace") if data else ""


def read_string(function: Any, *arguments: Any) -> str:
    """Calls an accessor of a handle, whose last argument is the place of the length."""
    length = c_size_t()
    data = function(*arguments, byref(length))
    return string_at(data, length.value)


def error_of(code: str, message: str, param: str = "") -> errors.LecternError:
    """The exception of a code's name; LecternError itself for a code of a later version."""
    for kind in errors.BY_NUMBER.values():
        if kind.code == code:
            return kind(message, param)
    return errors.LecternError(message, param, code)


def check(code: int, error: c_void_p) -> None:
    """Raises the exception of a code that is not 0, and frees the error."""
    if code == 0:
        return
    try:
        name = ctypes.string_at(library.lectern_code_name(code)).decode()
        message = read_string(library.lectern_error_message, error) or name
        param = read_string(library.lectern_error_param, error)
        kind = errors.BY_NUMBER.get(code)
        raise kind(message, param) if kind else errors.LecternError(message, param, name)
    finally:
        library.lectern_error_free(error)


def enter() -> None:
    """Raises where this process may not call the library."""
    if _forked:
        raise errors.InvalidHandleError(
            "this process was forked from one that uses Lectern, whose threads it lacks: begin it "
            'with multiprocessing.get_context("spawn"), or import lectern only in the child')


def call(function: Any, *arguments: Any) -> None:
    """Calls a function whose last argument is the place of an error."""
    enter()
    error = c_void_p()
    check(function(*arguments, byref(error)), error)


def take(function: Any, *arguments: Any) -> int:
    """Calls a function whose last arguments are the places of a handle and of an error."""
    enter()
    handle, error = c_void_p(), c_void_p()
    check(function(*arguments, byref(handle), byref(error)), error)
    return handle.value or 0


def take_text(function: Any, *arguments: Any) -> str:
    """The same for a function that gives a text."""
    text = take(function, *arguments)
    try:
        return read_string(library.lectern_text_data, text)
    finally:
        library.lectern_text_free(text)


def take_json(function: Any, *arguments: Any) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(take_text(function, *arguments))
    return read


def view(text: str) -> tuple[bytes, int]:
    """A text as the two arguments that C takes: bytes and length."""
    data = text.encode()
    return data, len(data)


def path_view(path: str | os.PathLike[str]) -> tuple[bytes, int]:
    data = os.fsencode(path)
    return data, len(data)


# --- handles ------------------------------------------------------------------------------------

class Handle:
    """Something of the library's that is freed by close(), at the end of a `with`, or when it is
    collected. Calls with a closed handle raise InvalidHandleError."""
    _kind = ""
    _handle: Optional[int] = None

    def close(self) -> None:
        """Frees it; a call that runs keeps what it works on. Closing again does nothing."""
        handle, self._handle = self._handle, None
        if handle and not _forked:
            getattr(library, f"lectern_{self._kind}_free")(handle)

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # the interpreter ends, and its modules are gone
            pass


_Self = TypeVar("_Self", bound=Handle)


# --- options ------------------------------------------------------------------------------------

_ROWS: dict[str, tuple[type[Any], frozenset[str]]] = {
    "engine": (_abi.lectern_engine_options, frozenset(options.EngineOptions.__annotations__)),
    "index": (_abi.lectern_index_options, frozenset(options.IndexOptions.__annotations__)),
    "ask": (_abi.lectern_ask_options, frozenset(options.AskOptions.__annotations__)),
    "cite": (_abi.lectern_cite_options, frozenset(options.CiteOptions.__annotations__)),
    "plan": (_abi.lectern_plan_options, frozenset(options.PlanOptions.__annotations__)),
}


class Options:
    """A struct of options of the library, and the memory that it points to."""

    def __init__(self, request: str, given: Mapping[str, Any]):
        kind, names = _ROWS[request]
        self.struct: Any = kind(struct_size=ctypes.sizeof(kind))
        self._types: dict[str, Any] = {name: type_ for name, type_ in kind._fields_}
        self._kept: list[Any] = []
        for name, value in given.items():
            if name not in names:
                raise TypeError(f'there is no option "{name}" here; there are '
                                + ", ".join(sorted(names)))
            if value is not None:
                self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        if name not in self._types:  # tail=False is no_tail of C
            self._number("no_" + name, 0 if value else 1)
        elif name in options.CHOICES:
            choices = options.CHOICES[name]
            if value not in choices:
                raise errors.InvalidArgumentError(
                    f'{name}="{value}" is none of {", ".join(choices)}', name)
            self._number(name, choices[value])
        elif name + "_len" in self._types:
            self.set_text(name, value)
        elif "num_" + name in self._types:
            self._set_array(name, value)
        else:
            self._number(name, -1.0 if value == "auto" else value)

    def _number(self, name: str, value: Any) -> None:
        is_real = self._types[name] in (ctypes.c_float, ctypes.c_double)
        try:
            number = float(value) if is_real else int(value)
            setattr(self.struct, name, number)
        except (TypeError, ValueError) as error:
            raise errors.InvalidArgumentError(f"{name}={value!r} is no number", name) from error
        if not is_real and (getattr(self.struct, name) != number or number != value):
            raise errors.InvalidArgumentError(f"{name}={value!r} is out of its range", name)

    def set_text(self, name: str, value: Any) -> None:
        """Sets a text and its length; dicts become JSON, and paths the bytes of the system."""
        if isinstance(value, Mapping):
            value = json.dumps(value)
        if isinstance(value, str):
            value = value.encode("utf-8", "surrogateescape")
        data = value if isinstance(value, bytes) else os.fsencode(value)
        self._kept.append(data)
        setattr(self.struct, name, ctypes.cast(c_char_p(data), c_void_p))
        setattr(self.struct, name + "_len", len(data))

    def _set_array(self, name: str, value: Any) -> None:
        pairs = list(value.items() if isinstance(value, Mapping) else value)
        item = self._types[name]._type_
        names = [field for field, _ in item._fields_ if not field.endswith("_len")]
        array = (item * len(pairs))()
        for place, given in zip(array, pairs):
            for field, part in zip(names, (given,) if isinstance(given, str) else given):
                if isinstance(part, str):
                    data = part.encode()
                    self._kept.append(data)
                    setattr(place, field, ctypes.cast(c_char_p(data), c_void_p))
                    setattr(place, field + "_len", len(data))
                else:
                    setattr(place, field, part)
        self._kept.append(array)
        setattr(self.struct, name, ctypes.cast(array, self._types[name]))
        setattr(self.struct, "num_" + name, len(pairs))

    def keep(self, thing: Any) -> Any:
        """Keeps what the struct points to, such as a callback, for as long as this object lives."""
        self._kept.append(thing)
        return thing


def bytes_of(struct: Any, field: str) -> bytes:
    """The bytes of a struct's text, which may have a NUL inside."""
    return ctypes.string_at(getattr(struct, field), getattr(struct, field + "_len")) \
        if getattr(struct, field) else b""


def text_of(struct: Any, field: str) -> str:
    return bytes_of(struct, field).decode("utf-8", "replace")


# --- cancelling ---------------------------------------------------------------------------------

class CancelToken:
    """Ends calls from any thread: hand it to them as cancel=token, then token.cancel().

    A question that was cancelled gives what there is of its answer, with the finish reason
    "cancelled", or raises CancelledError where nothing was decoded yet. A token that is cancelled
    stays so: calls that get it later end at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[Callable[[], object]] = []
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            calls = list(self._calls)
        for end in calls:
            end()

    @contextmanager
    def ending(self, end: Callable[[], object]) -> Iterator[None]:
        """While the body runs, cancel() calls `end` too."""
        with self._lock:
            self._calls.append(end)
        try:
            if self._cancelled:
                end()
            yield
        finally:
            with self._lock:
                self._calls.remove(end)


_running_lock = threading.Lock()
_running: dict[object, Callable[[], object]] = {}
_exiting = False


@contextmanager
def running(end: Callable[[], object], cancel: Optional[CancelToken]) -> Iterator[None]:
    """Around a long call: `end` ends it when the token is cancelled, or the interpreter exits."""
    if cancel is not None and cancel.cancelled:
        raise errors.CancelledError("cancelled before it began")
    key = object()
    with _running_lock:
        _running[key] = end
    try:
        if cancel is None:
            yield
        else:
            with cancel.ending(end):
                yield
    finally:
        with _running_lock:
            del _running[key]


def exiting() -> bool:
    """Whether the interpreter is about to end."""
    return _exiting


def _end_running() -> None:
    """At the end of the interpreter: a callback may not come into it once it is gone."""
    global _exiting
    _exiting = True
    # A daemon thread that prints the exception of its call now may make Python 3.11 abort, for want
    # of the lock of stderr.
    print_exception = threading.excepthook

    def print_others(raised: threading.ExceptHookArgs) -> None:
        if not issubclass(raised.exc_type, errors.CancelledError):
            print_exception(raised)

    threading.excepthook = print_others
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and not _forked:
        with _running_lock:
            calls = list(_running.values())
        if not calls:
            return
        for end in calls:
            end()
        time.sleep(0.02)


atexit.register(_end_running)


class Guard:
    """Lets the library call Python's functions. One that returns False ends the call, and so does
    an exception, which is raised again when the call has returned."""

    def __init__(self, cancel: Optional[CancelToken]):
        self._cancel = cancel
        self.thrown: Optional[BaseException] = None

    def __call__(self, function: Optional[Callable[..., object]], *arguments: object) -> int:
        try:
            if self.thrown or _exiting or (self._cancel is not None and self._cancel.cancelled):
                return 1
            return 1 if function is not None and function(*arguments) is False else 0
        except BaseException as error:  # KeyboardInterrupt, too
            self.thrown = error
            return 1

    def keep(self, function: Callable[..., object], *arguments: object) -> None:
        """Calls a function, and keeps what it raises for finish."""
        try:
            function(*arguments)
        except BaseException as error:
            self.thrown = error

    def finish(self) -> None:
        """Raises what a function raised."""
        if self.thrown is not None:
            thrown, self.thrown = self.thrown, None
            raise thrown


@contextmanager
def interruptible(guard: Guard) -> Iterator[None]:
    """Around a call that calls back, on the main thread: Ctrl-C ends it. The interpreter looks for
    signals when it enters a function, before any `try` of it, and what is raised there ctypes only
    prints; so the handler's exception is kept for when the call has returned."""
    handler = signal.getsignal(signal.SIGINT) \
        if threading.current_thread() is threading.main_thread() else None
    if not callable(handler):
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: guard.keep(handler, number, frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
