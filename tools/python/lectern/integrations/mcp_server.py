"""lectern-mcp: a server of the Model Context Protocol, by which an assistant lists, searches, asks
and cites the documents of a store, reads their texts, and, where that is allowed, indexes files.
MCP.md says how assistants are told of it.

Transports: stdin and stdout, or streamable HTTP. Each question is a conversation of its own; the
assistant has the other one. Work runs on threads; cancelling a request ends it within 250 ms."""
# mypy: disable-error-code="import-not-found, misc, no-any-return, untyped-decorator"
# (Types are also checked where the framework is not installed, and all of its names are Any.)
from __future__ import annotations

import argparse
import hmac
import ipaddress
import os
import pathlib
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Optional, TypeVar, cast

try:
    import anyio
    import anyio.to_thread
    import mcp_types as protocol
    import uvicorn
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
    from mcp.server.transport_security import TransportSecuritySettings
    from pydantic import BaseModel, Field
except ImportError as error:
    raise ImportError("lectern-mcp needs the official SDK, version 2: pip install 'lectern[mcp]'"
                      ) from error

import lectern

INSTRUCTIONS = """Answers questions about documents that were indexed on this machine, and shows the
passages that say so. list_documents says which there are. ask lets a local model read one document,
or a collection, and answer; say the page or the heading of a passage when you use it. search finds
words without a model. cite checks a text of yours against a document, sentence by sentence."""

# Most questions that are answered at a time; more wait. Each has keys and values of its own in
# memory, and all share the same cores.
MOST_AT_ONCE = 4


# --- what tools return --------------------------------------------------------------------------

class DocumentRow(BaseModel):
    name: str = Field(description="what other tools take as `document`; the id if it has no name")
    id: str
    source: Optional[str] = Field(description="where its text came from")
    tokens: int
    model: Optional[str] = Field(description="which reads it")
    ready: bool = Field(description="false: it is being indexed")
    uri: str = Field(description="the resource with its text")


class CollectionRow(BaseModel):
    name: str = Field(description="what other tools take as `collection`")
    documents: int
    indexed: int = Field(description="of them; the others are indexed when they are first asked")


class Listing(BaseModel):
    documents: list[DocumentRow]
    collections: list[CollectionRow]


class PassageRow(BaseModel):
    text: str
    document: str = Field(description="name of the document that has it")
    page: Optional[str] = Field(description="as it is printed on the page")
    heading: Optional[str] = Field(description="headings above it")
    score: Optional[float] = Field(description="probability in [0, 1] that it supports the answer, "
                                   "or the sentence; null: only its words were looked for")
    start: int = Field(description="in characters of the document's text")
    end: int
    uri: Optional[str] = Field(description="the resource with this part of the text")


class AnswerRow(BaseModel):
    answer: str
    passages: list[PassageRow] = Field(description="that support the answer, the best first")
    has_evidence: bool = Field(description="false: no passage is likely to support the answer")
    finish_reason: str = Field(description="stop, length (max_tokens cut it) or cancelled")
    warnings: list[str]
    note: Optional[str] = Field(description="something to tell the user")


class SentenceRow(BaseModel):
    text: str
    supported: bool
    passages: list[PassageRow]


class CitedRow(BaseModel):
    supported: bool = Field(description="whether every sentence is")
    sentences: list[SentenceRow]


class FoundRow(BaseModel):
    passages: list[PassageRow]


class IndexedRow(BaseModel):
    document: str = Field(description="its name")
    id: str
    tokens: int
    existed: bool = Field(description="true: the same text was there, and nothing was done")
    note: Optional[str]


def document_uri(document: str, start: int = 0, end: int = 0) -> str:
    part = f"?start={start}&end={end}" if end else ""
    return f"lectern://documents/{document}{part}"


def passage_row(passage: lectern.Passage, name: str, document: Optional[str],
                scored: bool = True) -> PassageRow:
    uri = document_uri(document, passage.start, passage.end) if document else None
    return PassageRow(text=passage.text, document=name, page=passage.label or None,
                      heading=passage.heading, score=passage.score if scored else None,
                      start=passage.start, end=passage.end, uri=uri)


# --- work on threads ----------------------------------------------------------------------------

T = TypeVar("T")

# Seconds between looks at the progress of a call, and between reports where there is no news: the
# model is opened, or a long question is read. Many clients wait a minute for a sign of life.
_LOOK_EACH = 0.1
_QUIET_AT_MOST = 5.0


class Steps:
    """The progress of a call, written by the thread that works. The protocol wants numbers that
    grow; the message says the rest."""

    def __init__(self) -> None:
        self.progress = 0.0
        self.message = ""
        self.pieces = 0
        self._stage, self._stages = "", 0

    def piece(self, text: str) -> None:
        """A piece of the answer; progress counts pieces, the message is the answer so far."""
        self.message = self.message + text if self.pieces else text
        self.pieces += 1
        self.progress += 1

    def stage(self, event: lectern.Progress, of: str = "") -> None:
        """A step of indexing; progress counts stages, with a share for the one that runs."""
        key = f"{of} {event.stage}"
        if self._stage != key:
            self._stage, self._stages = key, self._stages + 1
        share = min(1.0, event.done / event.total) if event.total else 0.0
        self.progress = max(self.progress, self._stages - 1 + share)
        left = f", {event.eta_seconds:.0f} s left" if event.eta_seconds >= 0 else ""
        self.message = f"{of + ': ' if of else ''}{event.stage} {event.done}/{event.total}{left}"

    def part(self, done: int, count: int) -> None:
        """A part of a long document has answered."""
        self.progress += 1
        self.message = f"part {done} of {count}"


async def run(context: Context[Any, Any], limit: anyio.CapacityLimiter,
              work: Callable[[lectern.CancelToken, Steps], T]) -> T:
    """Runs `work` on a thread, reports its steps, and cancels it when the request is cancelled.
    Errors of Lectern become errors of the tool, which the assistant reads."""
    token, steps = lectern.CancelToken(), Steps()
    results: list[T] = []
    errors: list[Exception] = []

    def on_thread() -> None:
        try:
            results.append(work(token, steps))
        except Exception as error:
            errors.append(error)

    shown, said = 0.0, ""

    async def show() -> None:
        nonlocal shown, said
        said = steps.message
        shown = max(shown + 0.001, steps.progress)
        await context.report_progress(shown, message=said or "waiting for other requests")

    async def report() -> None:
        quiet = 0.0
        try:
            while True:
                await anyio.sleep(_LOOK_EACH)
                quiet += _LOOK_EACH
                if steps.message != said or quiet > _QUIET_AT_MOST:
                    quiet = 0.0
                    await show()
        finally:
            token.cancel()  # the request was cancelled, or the work has ended

    async with anyio.create_task_group() as group:
        group.start_soon(report)
        # The thread is waited for even when the request is cancelled, which takes a moment then.
        await anyio.to_thread.run_sync(on_thread, limiter=limit)
        if steps.message != said:
            await show()
        group.cancel_scope.cancel()
    if errors:
        if isinstance(errors[0], lectern.LecternError):
            raise ToolError(f"{errors[0].code}: {errors[0]}") from errors[0]
        raise errors[0]
    return results[0]


# --- the server ---------------------------------------------------------------------------------

class LecternServer(MCPServer[Any]):
    """The tools and resources over one store. `folders`: files below them may be indexed; none:
    there is no tool `index`. `yes`: as of Store.index. `options`: of every question, where the
    assistant names no other; lectern.options.AskOptions."""

    def __init__(self, store: lectern.Store, folders: tuple[pathlib.Path, ...] = (),
                 yes: bool = False, options: Optional[Mapping[str, Any]] = None):
        super().__init__("lectern", title="Lectern", version=lectern.__version__,
                         instructions=INSTRUCTIONS, log_level="WARNING")
        self.store, self.folders, self.yes = store, folders, yes
        self.options = dict(options or {})
        self._asking = anyio.CapacityLimiter(MOST_AT_ONCE)
        self._indexing = anyio.CapacityLimiter(1)  # as many as a store takes
        self._looking = anyio.CapacityLimiter(MOST_AT_ONCE)  # without a model: not behind answers
        # A question to a collection may index documents; they are a cache of texts that are there.
        reads = protocol.ToolAnnotations(read_only_hint=True, open_world_hint=False)
        for tool in (self.list_indexed, self.ask, self.search, self.cite):
            name = "list_documents" if tool == self.list_indexed else None
            self.add_tool(tool, name=name, annotations=reads)
        if folders:
            self.add_tool(self.index, annotations=protocol.ToolAnnotations(
                read_only_hint=False, destructive_hint=False, idempotent_hint=True,
                open_world_hint=False))
        self.resource("lectern://documents/{document}{?start,end}", name="document",
                      title="Text of a document", mime_type="text/plain",
                      description="The text of an indexed document, by id or name; start and end, "
                      "in characters, cut a part of it.")(self.read_document)

    # --- tools ------------------------------------------------------------------------------------

    async def list_indexed(self, context: Context[Any, Any]) -> Listing:
        """Lists the documents that can be asked, and the collections of documents."""
        return await run(context, self._looking, lambda token, steps: Listing(
            documents=[DocumentRow(name=one.name or one.id, id=one.id, source=one.source,
                                   tokens=one.tokens, model=one.model, ready=one.state == "ready",
                                   uri=document_uri(one.id)) for one in self.store.documents()],
            collections=[CollectionRow(name=one.name, documents=one.documents, indexed=one.indexed)
                         for one in self._collections()]))

    def _collections(self) -> list[lectern.CollectionInfo]:
        try:
            return self.store.collections()
        except lectern.NotFoundError as error:
            if error.param == "store":
                return []  # nothing was indexed yet
            raise

    async def ask(
            self, context: Context[Any, Any],
            question: Annotated[str, Field(
                min_length=1, description="one whole question, which stands alone")],
            document: Annotated[str, Field(
                description="name or id of a document; may be left out where there is one")] = "",
            collection: Annotated[str, Field(
                description='name of a collection instead; "all": every document')] = "",
            max_passages: Annotated[int, Field(ge=1, le=100)] = 3,
            max_tokens: Annotated[int, Field(ge=1, le=8192, description="of the answer")] = 256,
    ) -> AnswerRow:
        """Asks a document, or a collection, a question. A model on this machine reads it and
        answers; the result has the passages that support the answer, with pages."""
        if document and collection:
            raise ToolError("invalid_argument: give a document or a collection, not both")
        return await run(context, self._asking, lambda token, steps: self._answer(
            question, document, collection,
            {**self.options, "max_evidence": max_passages, "max_tokens": max_tokens}, token, steps))

    def _answer(self, question: str, document: str, collection: str, options: dict[str, Any],
                token: lectern.CancelToken, steps: Steps) -> AnswerRow:
        steps.message = "opening the document and its model"
        opened = self.store.collection(collection).open(yes=self.yes) if collection else \
            self.store.open(document)
        with opened as session:
            answer = session.ask(
                question, on_text=steps.piece, on_part=steps.part,
                on_index=lambda event: steps.stage(event.progress, event.document),
                cancel=token, **options)
        ids: dict[str, Optional[str]] = {one.name: one.document for one in answer.asked_documents}
        name = "" if collection else self._name(answer.document or document)
        return AnswerRow(
            answer=answer.text, has_evidence=answer.has_evidence,
            passages=[passage_row(one, one.document or name,
                                  ids.get(one.document) if one.document else answer.document)
                      for one in answer.passages],
            finish_reason=answer.finish_reason, warnings=list(answer.warnings),
            note=answer.note or None)

    def _name(self, document: str) -> str:
        shown = self.store.document(document)
        return shown.name or shown.id

    async def search(
            self, context: Context[Any, Any],
            words: Annotated[str, Field(description="words that stand in the text")],
            document: Annotated[str, Field(
                description="name or id of a document; left out: all documents")] = "",
            collection: Annotated[str, Field(description="name of a collection instead")] = "all",
            most: Annotated[int, Field(ge=1, le=100, description="passages at most")] = 10,
    ) -> FoundRow:
        """Finds passages by their words, without a model: of one document those that match best, of
        a collection the first passage of each document that has the words."""
        return await run(context, self._looking, lambda token, steps: FoundRow(
            passages=self._in_document(words, document, most) if document else
            self._in_collection(words, collection, most)))

    def _in_document(self, words: str, document: str, most: int) -> list[PassageRow]:
        name = self._name(document)
        cited = self.store.cite(document, words, max_evidence=most)
        found = {(one.start, one.end): one for sentence in cited.sentences
                 for one in sentence.passages}
        best = sorted(found.values(), key=lambda one: -one.score)[:most]
        return [passage_row(one, name, cited.document) for one in best]

    def _in_collection(self, words: str, collection: str, most: int) -> list[PassageRow]:
        return [passage_row(one.passage, one.name, one.document, scored=False)
                for one in self.store.collection(collection).mentions(words, most=most)]

    async def cite(
            self, context: Context[Any, Any],
            text: Annotated[str, Field(description="one or more sentences")],
            document: Annotated[str, Field(
                description="name or id of a document; may be left out where there is one")] = "",
            question: Annotated[str, Field(
                description="that the text answers; makes the comparison surer")] = "",
            max_passages: Annotated[int, Field(ge=1, le=100)] = 3,
    ) -> CitedRow:
        """Finds the passages of a document that support a text, sentence by sentence, and says
        which sentences no passage supports. Compares words, without a model."""
        return await run(context, self._looking, lambda token, steps: self._cited(
            document, text, question, max_passages))

    def _cited(self, document: str, text: str, question: str, most: int) -> CitedRow:
        name = self._name(document)
        cited = self.store.cite(document, text, question=question, max_evidence=most)
        return CitedRow(supported=cited.supported, sentences=[
            SentenceRow(text=one.text, supported=one.supported,
                        passages=[passage_row(passage, name, cited.document)
                                  for passage in one.passages]) for one in cited.sentences])

    async def index(
            self, context: Context[Any, Any],
            file: Annotated[str, Field(description="absolute path of a file on this machine")],
            name: Annotated[str, Field(description="to ask it by; left out: the file's")] = "",
    ) -> IndexedRow:
        """Reads a file (text, PDF, an office file, a book …) once, so that it can be asked. Takes
        seconds to minutes; the same file again costs nothing."""
        path = self._allowed(file)
        row = await run(context, self._indexing, lambda token, steps: self._indexed(
            path, name, token, steps))
        await context.notify_resources_changed()
        return row

    def _allowed(self, file: str) -> pathlib.Path:
        """The file's real path, so that no link leads out of the folders."""
        path = pathlib.Path(file).expanduser().resolve()
        if not any(path.is_relative_to(folder) for folder in self.folders):
            raise ToolError(f"invalid_argument: {file} may not be indexed; allowed are files below "
                            + ", ".join(map(str, self.folders)))
        return path

    def _indexed(self, path: pathlib.Path, name: str, token: lectern.CancelToken,
                 steps: Steps) -> IndexedRow:
        steps.message = "opening the file and the model"
        report = self.store.index(path, name=name, yes=self.yes, cancel=token,
                                  progress=steps.stage)
        return IndexedRow(document=report.name or report.document, id=report.document,
                          tokens=report.tokens, existed=report.existed, note=report.note or None)

    # --- resources --------------------------------------------------------------------------------

    async def list_resources(self) -> list[protocol.Resource]:
        """The documents that are there now: other programs index into the same store."""
        documents = await anyio.to_thread.run_sync(self.store.documents, limiter=self._looking)
        return [protocol.Resource(uri=document_uri(one.id), name=one.name or one.id,
                                  description=one.source, mime_type="text/plain",
                                  size=one.text_bytes)
                for one in documents if one.state == "ready"]

    async def read_document(self, document: str, start: int = 0, end: int = -1) -> str:
        try:
            text = await anyio.to_thread.run_sync(self._text, document, limiter=self._looking)
        except lectern.NotFoundError as error:
            raise ResourceNotFoundError(str(error)) from error
        except lectern.LecternError as error:
            raise ResourceError(f"{error.code}: {error}") from error
        return text[max(0, start):end if end >= 0 else len(text)]

    def _text(self, document: str) -> str:
        """The text, without a model where the store's index of words has it."""
        id_ = self.store.document(document).id
        everything = self.store.collection("all")
        for one in everything.documents():
            if one.document == id_:
                return everything.text(one.name)
        return self.store.text(id_)


# --- HTTP ---------------------------------------------------------------------------------------

class Guarded:
    """An ASGI application behind a bearer token."""

    def __init__(self, app: Any, token: str):
        self._app, self._expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._expected):
                await send({"type": "http.response.start", "status": 401, "headers": [
                    (b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]})
                await send({"type": "http.response.body",
                            "body": b"Authorization: Bearer TOKEN is missing or wrong\n"})
                return
        await self._app(scope, receive, send)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve_http(server: LecternServer, host: str, port: int, token: str) -> None:
    # On this machine only its own names are answered, which keeps web pages out that let their own
    # name point here. Elsewhere the token does, which no page knows.
    security = None if is_loopback(host) else TransportSecuritySettings(
        enable_dns_rebinding_protection=False)
    app: Any = server.streamable_http_app(
        host="127.0.0.1" if is_loopback(host) else host, transport_security=security)
    if token:
        app = Guarded(app, token)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listening:
        shown = f"[{host}]" if ":" in host else host
        print(f"lectern-mcp: http://{shown}:{listening.getsockname()[1]}/mcp", file=sys.stderr,
              flush=True)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5)
        uvicorn.Server(config).run(sockets=[listening])


# --- the command --------------------------------------------------------------------------------

def address(text: str) -> tuple[str, int]:
    """[HOST:]PORT; without a host this machine alone is served."""
    host, _, port = text.rpartition(":")
    try:
        number = int(port)
    except ValueError:
        number = -1
    if not 0 <= number < 65536:
        raise argparse.ArgumentTypeError(f'"{text}" is not PORT or HOST:PORT, such as 8765')
    return host.strip("[]") or "127.0.0.1", number


def arguments_of(given: Optional[list[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="lectern-mcp", description="Serves the documents of a store to assistants, by the "
        "Model Context Protocol: on stdin and stdout, or over HTTP.")
    # Assistants start programs without a shell, so that nobody else replaces a "~".
    parser.add_argument("--store", metavar="DIR", type=os.path.expanduser,
                        help="folder with the indexed documents (default: $LECTERN_STORE, else "
                        "~/.local/share/lectern)")
    parser.add_argument("--model", metavar="PATH", help="model that new documents are indexed with "
                        "(default: as `lectern index`)")
    parser.add_argument("--device", metavar="D", help="cpu, cuda, cuda:N or auto (default: cpu)")
    parser.add_argument("--allow-index", metavar="FOLDER", action="append", default=[],
                        help="offer the tool `index` for files below this folder; may be repeated")
    parser.add_argument("--yes", action="store_true", help="fetch the default model (90 MB) when "
                        "something is indexed and it is missing")
    parser.add_argument("--http", metavar="[HOST:]PORT", type=address, help="serve streamable "
                        "HTTP at http://HOST:PORT/mcp (HOST: 127.0.0.1), not stdin and stdout")
    parser.add_argument("--token-file", metavar="FILE", type=pathlib.Path, help="with --http: "
                        "clients must send the token in this file; needed where HOST is not this "
                        "machine")
    parser.add_argument("--version", action="version", version=f"lectern-mcp {lectern.__version__}")
    read = parser.parse_args(given)
    if read.token_file and not read.http:
        parser.error("--token-file needs --http")
    if read.http and not is_loopback(read.http[0]) and not read.token_file:
        parser.error(f"{read.http[0]} can be reached from other machines: name a file with a "
                     "token, --token-file FILE, that clients then send")
    read.folders = tuple(pathlib.Path(one).expanduser().resolve() for one in read.allow_index)
    for folder in read.folders:
        if not folder.is_dir():
            parser.error(f"--allow-index {folder}: there is no such folder")
    read.token = ""
    if read.token_file:
        try:
            read.token = read.token_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            parser.error(f"--token-file: {error}")
        if not read.token:
            parser.error(f"--token-file: {read.token_file} is empty")
    return read


def main(given: Optional[list[str]] = None) -> int:
    read = arguments_of(given)
    options = {name: getattr(read, name) for name in ("model", "device") if getattr(read, name)}
    try:
        store = lectern.Store(read.store, **cast(Any, options))
    except lectern.LecternError as error:
        print(f"lectern-mcp: {error.code}: {error}", file=sys.stderr)
        return 1
    server = LecternServer(store, read.folders, read.yes)
    try:
        if read.http:
            serve_http(server, read.http[0], read.http[1], read.token)
        else:
            server.run("stdio")
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"lectern-mcp: {error}", file=sys.stderr)
        return 1
    finally:
        store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
