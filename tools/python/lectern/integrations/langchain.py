"""LangChain: a retriever of passages, and a chat model that has read a document.

    from lectern.integrations.langchain import ChatLectern, LecternRetriever
    passages = LecternRetriever(store=lectern.Store(), document="lease").invoke("Who pays?")

Both take a document (name or id; "" is the only one) or a collection. `options` are those of
lectern.options.AskOptions. Cancelling the task of an asynchronous call ends the answer."""
# mypy: disable-error-code="import-not-found, misc, no-any-return, untyped-decorator"
# (Types are also checked where the framework is not installed, and all of its names are Any.)
from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Optional, TypeVar

try:
    from langchain_core.callbacks import (AsyncCallbackManagerForLLMRun,
                                          AsyncCallbackManagerForRetrieverRun,
                                          CallbackManagerForLLMRun,
                                          CallbackManagerForRetrieverRun)
    from langchain_core.documents import Document
    from langchain_core.language_models import BaseChatModel, LanguageModelInput
    from langchain_core.messages import (AIMessage, AIMessageChunk, BaseMessage, HumanMessage,
                                         SystemMessage)
    from langchain_core.messages.ai import UsageMetadata
    from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import Runnable
    from langchain_core.utils.function_calling import convert_to_json_schema
    from pydantic import BaseModel, Field
except ImportError as error:
    raise ImportError("the LangChain integration needs langchain-core: "
                      "pip install 'lectern[langchain]'") from error

import lectern
from lectern.session import in_thread

T = TypeVar("T")


def open_session(store: lectern.Store, document: str, collection: str) -> lectern.Session:
    return store.collection(collection).open() if collection else store.open(document)


def passage_documents(answer: lectern.Answer, store: lectern.Store) -> list[Document]:
    """The passages of an answer as LangChain has them. "page" counts from 1; "start" and "end" are
    characters of the document's text."""
    asked = {one.name: (one.document, one.source) for one in answer.asked_documents}
    if answer.document:
        shown = store.document(answer.document)
        asked[""] = shown.id, shown.source or shown.name
    found = []
    for passage in answer.passages:
        name = passage.document or ""
        document, source = asked.get(name, (None, None))
        found.append(Document(
            page_content=passage.text, id=f"{document or name}:{passage.start}-{passage.end}",
            metadata={"source": source or name, "document": document, "start": passage.start,
                      "end": passage.end, "page": passage.page, "page_label": passage.label,
                      "heading": passage.heading, "score": passage.score}))
    return found


class LecternRetriever(BaseRetriever):
    """The k passages that support the model's answer to the query best. The answer itself is not
    kept: options={"max_tokens": 1} makes it short, and retrieval quicker."""
    store: Any = Field(description="lectern.Store")
    document: str = ""
    collection: str = ""
    k: int = 3
    options: dict[str, Any] = Field(default_factory=dict)

    def _passages(self, query: str, cancel: Optional[lectern.CancelToken] = None) -> list[Document]:
        with open_session(self.store, self.document, self.collection) as session:
            answer = session.ask(query, cancel=cancel, **{"max_evidence": self.k, **self.options})
        return passage_documents(answer, self.store)

    def _get_relevant_documents(self, query: str, *,
                                run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return self._passages(query)

    async def _aget_relevant_documents(
            self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        return await in_thread(lambda token: self._passages(query, token))


def text_of(message: BaseMessage) -> str:
    """The text of a message, whose other parts (images) no document can be asked about."""
    content = message.content
    if isinstance(content, str):
        return content
    parts = [one if isinstance(one, str) else one.get("text") for one in content]
    if None in parts:
        raise lectern.InvalidArgumentError("Lectern reads text alone: a message has another part",
                                           "messages")
    return "".join(str(one) for one in parts)


def conversation_of(messages: Sequence[BaseMessage]) -> tuple[str, dict[str, Any]]:
    """The question, which is the last message, and the options for what is before it: turns and
    instructions."""
    instructions: list[str] = []
    turns: list[tuple[str, str]] = []
    asked: list[str] = []  # by the user, and not yet answered
    for message in messages:
        if isinstance(message, SystemMessage):
            instructions.append(text_of(message))
        elif isinstance(message, HumanMessage):
            asked.append(text_of(message))
        elif isinstance(message, AIMessage):
            turns.append(("\n\n".join(asked), text_of(message)))
            asked = []
        else:
            raise lectern.InvalidArgumentError(
                f"Lectern takes system, human and AI messages; this is one of {message.type}",
                "messages")
    if not asked:
        raise lectern.InvalidArgumentError("the last message must be the user's question",
                                           "messages")
    options: dict[str, Any] = {}
    if turns:
        options["turns"] = turns
    if instructions:
        options["instructions"] = "\n\n".join(instructions)
    return "\n\n".join(asked), options


class ChatLectern(BaseChatModel):
    """A chat model that answers from a document. An answer's response_metadata["passages"] has the
    passages that support it, as LangChain's documents."""
    store: Any = Field(description="lectern.Store")
    document: str = ""
    collection: str = ""
    options: dict[str, Any] = Field(default_factory=dict)

    @property
    def _llm_type(self) -> str:
        return "lectern"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"store": self.store.path, "document": self.document, "collection": self.collection,
                **self.options}

    def _request(self, messages: Sequence[BaseMessage], stop: Optional[list[str]],
                 given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        question, before = conversation_of(messages)
        options = {**self.options, **given, **before}
        if stop:
            options["stop_texts"] = stop
        return question, options

    def _open(self) -> lectern.Session:
        return open_session(self.store, self.document, self.collection)

    def _about(self, answer: lectern.Answer) -> dict[str, Any]:
        return {"finish_reason": answer.finish_reason, "warnings": list(answer.warnings),
                "document": answer.document, "has_evidence": answer.has_evidence,
                "passages": passage_documents(answer, self.store)}

    @staticmethod
    def _usage(answer: lectern.Answer) -> UsageMetadata:
        """The question's and the answer's tokens: those of the document were paid for when it was
        indexed."""
        read, written = answer.receipt.question_tokens, answer.receipt.answer_tokens
        return UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)

    def _result(self, answer: lectern.Answer) -> ChatResult:
        message = AIMessage(content=answer.text, response_metadata=self._about(answer),
                            usage_metadata=self._usage(answer))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def with_structured_output(self, schema: dict[str, Any] | type, *, include_raw: bool = False,
                               **kwargs: Any) -> Runnable[LanguageModelInput, Any]:
        """Answers as JSON that fits the schema: a class of pydantic's gives its objects, any other
        schema dicts."""
        if include_raw or kwargs:
            raise lectern.InvalidArgumentError("with_structured_output takes the schema alone",
                                               "schema")
        parser: Any = JsonOutputParser()
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            parser = PydanticOutputParser(pydantic_object=schema)
        return self.bind(json_schema=convert_to_json_schema(schema)) | parser

    def _generate(self, messages: list[BaseMessage], stop: Optional[list[str]] = None,
                  run_manager: Optional[CallbackManagerForLLMRun] = None,
                  **kwargs: Any) -> ChatResult:
        question, options = self._request(messages, stop, kwargs)
        with self._open() as session:
            return self._result(session.ask(question, **options))

    async def _agenerate(self, messages: list[BaseMessage], stop: Optional[list[str]] = None,
                         run_manager: Optional[AsyncCallbackManagerForLLMRun] = None,
                         **kwargs: Any) -> ChatResult:
        question, options = self._request(messages, stop, kwargs)

        def ask(token: lectern.CancelToken) -> ChatResult:
            with self._open() as session:
                return self._result(session.ask(question, cancel=token, **options))

        return await in_thread(ask)

    def _last_chunk(self, answer: lectern.Answer) -> ChatGenerationChunk:
        return ChatGenerationChunk(message=AIMessageChunk(
            content="", response_metadata=self._about(answer), usage_metadata=self._usage(answer),
            chunk_position="last"))

    def _stream(self, messages: list[BaseMessage], stop: Optional[list[str]] = None,
                run_manager: Optional[CallbackManagerForLLMRun] = None,
                **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        question, options = self._request(messages, stop, kwargs)
        with self._open() as session, session.stream(question, **options) as stream:
            for piece in stream:
                chunk = ChatGenerationChunk(message=AIMessageChunk(content=piece))
                if run_manager:
                    run_manager.on_llm_new_token(piece, chunk=chunk)
                yield chunk
            yield self._last_chunk(stream.answer)

    async def _astream(self, messages: list[BaseMessage], stop: Optional[list[str]] = None,
                       run_manager: Optional[AsyncCallbackManagerForLLMRun] = None,
                       **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        question, options = self._request(messages, stop, kwargs)
        session = await in_thread(lambda _: self._open())
        with session:
            async with session.astream(question, **options) as stream:
                async for piece in stream:
                    chunk = ChatGenerationChunk(message=AIMessageChunk(content=piece))
                    if run_manager:
                        await run_manager.on_llm_new_token(piece, chunk=chunk)
                    yield chunk
                yield self._last_chunk(stream.answer)
