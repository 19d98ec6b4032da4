"""Conversations: a Session is asked, and answers at once, piece by piece, or to `await`."""
from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from ctypes import byref, c_size_t, sizeof, string_at
from typing import TYPE_CHECKING, Any, Optional, TypeVar

from . import _abi, _library
from ._library import CancelToken, Guard, Handle, Options, library
from .errors import CancelledError
from .figures import Receipt
from .results import (Answer, ByteRanges, CollectionProgress, LikelyToken, Progress, SampledToken,
                      Token, answer_of)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import AskOptions

    class AskArguments(AskOptions, total=False):
        """Everything that Session.ask takes by name, but `cancel`."""
        on_text: Optional[Callable[[str], object]]
        on_reasoning: Optional[Callable[[str], object]]
        on_token: Optional[Callable[[SampledToken], object]]
        on_warning: Optional[Callable[[str, str], object]]
        on_index: Optional[Callable[[CollectionProgress], object]]
        on_part: Optional[Callable[[int, int], object]]

__all__ = ["AsyncStream", "Session", "Stream"]

OnText = Callable[[str], object]
T = TypeVar("T")


def progress_of(struct: Any) -> Progress:
    return Progress(string_at(struct.stage).decode(), struct.done, struct.total,
                    struct.tokens_per_second, struct.eta_seconds)


def collection_progress_of(struct: Any) -> CollectionProgress:
    return CollectionProgress(_library.text_of(struct, "document"), struct.number, struct.count,
                              progress_of(struct.progress[0]))


def _likely(token: Any) -> LikelyToken:
    return LikelyToken(token.id, token.logprob, _library.bytes_of(token, "bytes"))


class Session(Handle):
    """A conversation about a document or a collection: follow-ups see what was said before.

    One question at a time: a second one, from another thread, raises LockedError. A session keeps
    its document open; close() or a `with` lets it go."""
    _kind = "session"

    def __init__(self, handle: int):
        """Store.open and Collection.open make sessions."""
        self._handle = handle
        self._text: Optional[str] = None

    @property
    def text(self) -> str:
        """The document's text, into which all offsets point; "" for a collection."""
        if self._text is None:
            _library.enter()
            length = c_size_t()
            data = library.lectern_session_text(self._handle, byref(length))
            self._text = _library.string_at(data, length.value)
        return self._text

    def ask(self, question: str, *, on_text: Optional[OnText] = None,
            on_reasoning: Optional[OnText] = None,
            on_token: Optional[Callable[[SampledToken], object]] = None,
            on_warning: Optional[Callable[[str, str], object]] = None,
            on_index: Optional[Callable[[CollectionProgress], object]] = None,
            on_part: Optional[Callable[[int, int], object]] = None,
            cancel: Optional[CancelToken] = None, **options: Unpack[AskOptions]) -> Answer:
        """Asks, and returns the whole answer.

        on_text       gets each piece of the answer as it is decoded
        on_reasoning  gets pieces of the model's thoughts before it answers
        on_token      gets each token, with the top_logprobs likeliest ones in its place
        on_warning    gets the name of a warning and a sentence for the user, once it is known
        on_index      hears while a document of a collection is indexed for its first question
        on_part       gets how many of how many parts of a long document have answered

        Functions are called on this thread. What they raise ends the answer and is raised here;
        False ends the answer too, which then has the finish reason "cancelled". Ctrl-C works in the
        same way, once the first piece is decoded. Options: lectern.options.AskOptions."""
        asked = Options("ask", options)
        guard = Guard(cancel)
        struct = asked.struct

        def piece(function: Optional[OnText], data: int, length: int) -> int:
            # Without a function nothing is decoded, but a cancelled token is noticed.
            return guard(function and (lambda: function(_library.string_at(data, length))))

        # A callback each time, so that Ctrl-C and tokens end the answer.
        struct.on_text = asked.keep(_abi.lectern_answer_fn(
            lambda data, length, _: piece(on_text, data, length)))
        if on_reasoning:
            struct.on_reasoning = asked.keep(_abi.lectern_answer_fn(
                lambda data, length, _: piece(on_reasoning, data, length)))
        if on_token:
            struct.on_token = asked.keep(_abi.lectern_sampled_fn(lambda token, _: self._none(guard(
                lambda: on_token(SampledToken(_likely(token[0].token), tuple(
                    _likely(token[0].likeliest[i]) for i in range(token[0].num_likeliest))))))))
        if on_warning:
            struct.on_warning = asked.keep(_abi.lectern_warning_fn(
                lambda name, note, _: self._none(guard(
                    on_warning, string_at(name).decode(), string_at(note).decode()))))
        struct.on_index = asked.keep(_abi.lectern_collection_progress_fn(
            lambda event, _: guard(on_index and (
                lambda: on_index(collection_progress_of(event[0]))))))
        struct.on_part = asked.keep(_abi.lectern_part_fn(
            lambda done, count, _: guard(on_part, done, count)))

        handle = self._handle
        with _library.running(lambda: library.lectern_session_cancel(handle), cancel), \
                _library.interruptible(guard):
            try:
                answer = _library.take(library.lectern_session_ask, handle,
                                       *_library.view(question), byref(struct))
            except Exception:
                guard.finish()
                raise
        try:
            guard.finish()
            return self._read(answer)
        finally:
            library.lectern_answer_free(answer)

    @staticmethod
    def _none(_: object) -> None:
        """For callbacks of the library that return nothing."""

    @staticmethod
    def _read(answer: int) -> Answer:
        json = _library.take_json(library.lectern_answer_json, answer,
                                  _abi.LECTERN_OFFSET_CODEPOINT)
        evidence = _abi.lectern_evidence(struct_size=sizeof(_abi.lectern_evidence))
        in_bytes = []
        for i in range(library.lectern_answer_evidence_count(answer)):
            library.lectern_answer_evidence(answer, i, byref(evidence))
            in_bytes.append(ByteRanges.of(evidence))
        receipt = _abi.lectern_receipt(struct_size=sizeof(_abi.lectern_receipt))
        library.lectern_answer_receipt(answer, byref(receipt))
        return answer_of(json, in_bytes, Receipt.read(receipt))

    def stream(self, question: str, *, cancel: Optional[CancelToken] = None,
               **arguments: Unpack[AskArguments]) -> Stream:
        """Asks, and returns an iterator over the pieces of the answer, whose .answer is there at
        the end. Takes what ask takes; functions are called on another thread."""
        return Stream(self, question, cancel, dict(arguments))

    async def aask(self, question: str, *, cancel: Optional[CancelToken] = None,
                   **arguments: Unpack[AskArguments]) -> Answer:
        """ask for asyncio: the loop goes on meanwhile. Cancelling the task ends the answer."""
        return await in_thread(lambda token: self.ask(question, cancel=token, **arguments), cancel)

    def astream(self, question: str, *, cancel: Optional[CancelToken] = None,
                **arguments: Unpack[AskArguments]) -> AsyncStream:
        """stream for asyncio: `async for piece in session.astream(question)`."""
        return AsyncStream(self, question, cancel, dict(arguments))

    def cancel(self) -> None:
        """Ends the question that runs now, from any thread, within 250 ms."""
        _library.enter()
        library.lectern_session_cancel(self._handle)

    def tokenize(self, text: str) -> list[Token]:
        """The tokens that the document's model reads `text` as, by itself; also while it
        answers."""
        found: list[tuple[int, int, int]] = []

        def each(tokens: Any, count: int, _: object) -> None:
            found.extend((tokens[i].id, tokens[i].begin, tokens[i].end) for i in range(count))

        _library.call(library.lectern_session_tokenize, self._handle, *_library.view(text),
                      _abi.lectern_tokens_fn(each), None)
        places = character_places(text)
        return [Token(id_, places(begin), places(end), begin, end) for id_, begin, end in found]


def character_places(text: str) -> Callable[[int], int]:
    """A function that turns byte offsets of the text's UTF-8 into indices of it, each at least the
    one before."""
    if text.isascii():
        return lambda offset: offset
    data = text.encode()
    last = [0, 0]  # bytes, characters

    def place(offset: int) -> int:
        if offset < last[0]:
            last[:] = [0, 0]
        last[1] += sum((byte & 0xC0) != 0x80 for byte in data[last[0]:offset])
        last[0] = offset
        return last[1]

    return place


# --- piece by piece -----------------------------------------------------------------------------

class _Ended:
    """The last thing in the queue of a stream."""

    def __init__(self, answer: Optional[Answer], error: Optional[BaseException]):
        self.answer, self.error = answer, error


def _ask_into(put: Callable[[object], object], session: Session, question: str,
              token: CancelToken, options: dict[str, Any]) -> None:
    """The thread of a stream. It knows the queue alone, so that a stream which nobody has any more
    is collected, and ends it."""
    on_text = options.pop("on_text", None)

    def piece(text: str) -> object:
        put(text)
        return on_text(text) if on_text else None

    try:
        put(_Ended(session.ask(question, on_text=piece, cancel=token, **options), None))
    except BaseException as error:
        put(_Ended(None, error))


class Stream(Iterator[str]):
    """The pieces of an answer as they are decoded.

        for piece in (stream := session.stream("Who pays?")):
            print(piece, end="", flush=True)
        print(stream.answer.passages)

    close(), the end of a `with`, and forgetting it end the answer; what there is of it is in
    .answer. The session is free for the next question when the last piece was taken or close() has
    returned."""

    def __init__(self, session: Session, question: str, cancel: Optional[CancelToken],
                 options: dict[str, Any]):
        self._token = CancelToken()
        self._pieces: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._ended: Optional[_Ended] = None
        self._taken = False
        self._scope = cancel.ending(self._token.cancel) if cancel else None
        if self._scope:
            self._scope.__enter__()
        self._thread = threading.Thread(
            target=_ask_into, name="lectern-stream", daemon=True,
            args=(self._pieces.put, session, question, self._token, options))
        self._thread.start()

    def _next(self) -> Optional[str]:
        if self._ended:
            return None
        item = self._pieces.get()
        if isinstance(item, str):
            return item
        assert isinstance(item, _Ended)
        self._ended = item
        self._thread.join()
        if self._scope:
            self._scope.__exit__(None, None, None)
            self._scope = None
        return None

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> str:
        piece = self._next()
        if piece is not None:
            return piece
        assert self._ended
        if self._ended.error and not self._taken:
            self._taken = True
            raise self._ended.error
        raise StopIteration

    @property
    def answer(self) -> Answer:
        """The whole answer; waits for its end, and takes the pieces that are left. Raises what
        ended it."""
        while not self._ended:
            self._next()
        if self._ended.answer is None:
            self._taken = True
            raise self._ended.error or CancelledError("cancelled")
        return self._ended.answer

    def close(self) -> None:
        """Ends the answer, and waits until it has ended."""
        self._token.cancel()
        while not self._ended:
            self._next()
        self._taken = True

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_token"):
            self._token.cancel()


# --- asyncio ------------------------------------------------------------------------------------

async def in_thread(work: Callable[[CancelToken], T], cancel: Optional[CancelToken] = None) -> T:
    """Runs `work` on a thread of its own. When the task is cancelled, the token that it got is, and
    the task goes on once the work has ended: what it used is free then."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Optional[T], Optional[BaseException]]] = loop.create_future()
    token = CancelToken()

    def tell(result: tuple[Optional[T], Optional[BaseException]]) -> None:
        if not done.done():
            done.set_result(result)

    def run() -> None:
        result: tuple[Optional[T], Optional[BaseException]]
        try:
            result = work(token), None
        except BaseException as error:
            result = None, error
        try:
            loop.call_soon_threadsafe(tell, result)
        except RuntimeError:  # the loop is closed: nobody waits
            pass

    thread = threading.Thread(target=run, name="lectern-async", daemon=True)
    if cancel is not None and cancel.cancelled:
        token.cancel()
    scope = cancel.ending(token.cancel) if cancel else None
    if scope:
        scope.__enter__()
    try:
        thread.start()
        try:
            value, error = await asyncio.shield(done)
        except asyncio.CancelledError:
            token.cancel()
            while not done.done():  # a second cancel() does not leave the work alone either
                try:
                    await asyncio.shield(done)
                except asyncio.CancelledError:
                    continue
            raise
    finally:
        if scope:
            scope.__exit__(None, None, None)
    thread.join()
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # there is one where there is no error


class AsyncStream(AsyncIterator[str]):
    """A Stream for `async for`. aclose(), the end of an `async with`, and cancelling the task that
    waits for a piece end the answer."""

    def __init__(self, session: Session, question: str, cancel: Optional[CancelToken],
                 options: dict[str, Any]):
        self._token = CancelToken()
        self._start: Optional[tuple[Any, ...]] = (session, question, options)
        self._cancel = cancel
        self._pieces: asyncio.Queue[object] = asyncio.Queue()
        self._ended: Optional[_Ended] = None
        self._taken = False
        self._scope: Any = None

    def _begin(self) -> None:
        if self._start is None:
            return
        (session, question, options), self._start = self._start, None
        loop, pieces = asyncio.get_running_loop(), self._pieces
        if self._cancel is not None:
            self._scope = self._cancel.ending(self._token.cancel)
            self._scope.__enter__()

        def put(item: object) -> None:
            try:
                loop.call_soon_threadsafe(pieces.put_nowait, item)
            except RuntimeError:  # the loop is closed: nobody listens
                token.cancel()

        token = self._token
        threading.Thread(target=_ask_into, name="lectern-stream", daemon=True,
                         args=(put, session, question, token, options)).start()

    async def _next(self) -> Optional[str]:
        if self._ended:
            return None
        self._begin()
        try:
            item = await self._pieces.get()
        except asyncio.CancelledError:
            self._token.cancel()
            raise
        if isinstance(item, str):
            return item
        assert isinstance(item, _Ended)
        self._ended = item
        if self._scope:
            self._scope.__exit__(None, None, None)
            self._scope = None
        return None

    def __aiter__(self) -> AsyncStream:
        return self

    async def __anext__(self) -> str:
        piece = await self._next()
        if piece is not None:
            return piece
        assert self._ended
        if self._ended.error and not self._taken:
            self._taken = True
            raise self._ended.error
        raise StopAsyncIteration

    @property
    def answer(self) -> Answer:
        """The whole answer, once the last piece was taken or aclose() has returned; RuntimeError
        before that."""
        if not self._ended:
            raise RuntimeError("the answer has not ended: take its pieces first")
        if self._ended.answer is None:
            self._taken = True
            raise self._ended.error or CancelledError("cancelled")
        return self._ended.answer

    async def aclose(self) -> None:
        """Ends the answer, and waits until it has ended."""
        self._token.cancel()
        if self._start is not None:
            self._start = None
            self._ended = _Ended(None, CancelledError("cancelled before it began"))
        while not self._ended:
            await self._next()
        self._taken = True

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if hasattr(self, "_token"):
            self._token.cancel()
