"""A plugin of `llm` (https://llm.datasette.io): models that have read a document.

    llm -m lectern -o document lease "Who pays for repairs?"
    llm chat -m lectern -o document lease

It is there as soon as both are installed: pip install 'lectern[llm]'."""
# mypy: disable-error-code="import-not-found, misc, no-any-return, untyped-decorator"
# (Types are also checked where the framework is not installed, and all of its names are Any.)
from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Any, Optional

try:
    import llm
    from pydantic import Field
except ImportError as error:
    raise ImportError("the plugin needs llm: pip install 'lectern[llm]'") from error

import lectern
from lectern.session import in_thread


class Options(llm.Options):
    document: Optional[str] = Field(
        default=None, description="Name or id of a document; may be left out where there is one")
    collection: Optional[str] = Field(
        default=None, description='Name of a collection instead; "all": every document')
    store: Optional[str] = Field(default=None, description="Folder with the indexed documents")
    max_tokens: Optional[int] = Field(default=None, description="Of the answer", ge=1)
    temperature: Optional[float] = Field(default=None, description="0: greedy", ge=0, le=10)
    seed: Optional[int] = Field(default=None, description="Of the sampling")
    kv_budget: Optional[float] = Field(
        default=None, gt=0, le=1,
        description="Share of the document's keys and values that is read")
    passages: bool = Field(
        default=False, description="Whether the passages that support the answer follow it")


def asked(prompt: Any, conversation: Any) -> tuple[str, dict[str, Any]]:
    """The question, and the options of Session.ask: turns before it, instructions, sampling."""
    given = prompt.options
    names = ("max_tokens", "temperature", "seed", "kv_budget")
    options = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    if conversation is not None:
        turns = [(one.prompt.prompt or "", text) for one in conversation.responses
                 if (text := said(one))]
        if turns:
            options["turns"] = turns
    if prompt.system:
        options["instructions"] = prompt.system
    if prompt.schema:
        options["json_schema"] = prompt.schema
    return prompt.prompt or "", options


def said(response: Any) -> str:
    """The answer, without the passages that may have followed it."""
    kept = response.response_json or {}
    return str(kept["answer"] if "answer" in kept else response.text_or_raise())


def ended(answer: lectern.Answer, response: Any) -> None:
    """Hands `llm logs` the tokens, and the answer as the command-line tools print it."""
    response.set_usage(input=answer.receipt.question_tokens, output=answer.receipt.answer_tokens)
    response.response_json = dict(answer.json)


def passages_of(answer: lectern.Answer) -> str:
    shown = "\n"
    for passage in answer.passages:
        place = ", ".join(filter(None, (passage.document, passage.label and f"p. {passage.label}",
                                        passage.heading)))
        shown += f"\n> {passage.text}" + (f" ({place})" if place else "") + "\n"
    return shown


class _Common:
    model_id = "lectern"
    can_stream = True
    supports_schema = True
    Options = Options

    def __str__(self) -> str:
        return "Lectern: lectern"

    @staticmethod
    def open(options: Any) -> lectern.Session:
        """A session, which keeps the engine of its store."""
        with lectern.Store(options.store) as store:
            return store.collection(options.collection).open() if options.collection else \
                store.open(options.document or "")


class Lectern(_Common, llm.Model):
    def execute(self, prompt: Any, stream: bool, response: Any,
                conversation: Any = None) -> Iterator[str]:
        try:
            question, options = asked(prompt, conversation)
            with self.open(prompt.options) as session:
                with session.stream(question, **options) as pieces:
                    yield from pieces
                    ended(pieces.answer, response)
                    if prompt.options.passages:
                        yield passages_of(pieces.answer)
        except lectern.LecternError as error:
            raise llm.ModelError(str(error)) from error


class AsyncLectern(_Common, llm.AsyncModel):
    async def execute(self, prompt: Any, stream: bool, response: Any,
                      conversation: Any = None) -> AsyncGenerator[str, None]:
        try:
            question, options = asked(prompt, conversation)
            with await in_thread(lambda _: self.open(prompt.options)) as session:
                async with session.astream(question, **options) as pieces:
                    async for piece in pieces:
                        yield piece
                    ended(pieces.answer, response)
                    if prompt.options.passages:
                        yield passages_of(pieces.answer)
        except lectern.LecternError as error:
            raise llm.ModelError(str(error)) from error


@llm.hookimpl
def register_models(register: Any) -> None:
    register(Lectern(), AsyncLectern())
