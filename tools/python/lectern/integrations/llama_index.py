"""LlamaIndex: a retriever of passages, and a query engine.

    from lectern.integrations.llama_index import LecternQueryEngine
    print(LecternQueryEngine(lectern.Store(), document="lease").query("Who pays for repairs?"))

Both take a document (name or id; "" is the only one) or a collection. `options` are those of
lectern.options.AskOptions. The model that answers is Lectern's; none of LlamaIndex's is used."""
# mypy: disable-error-code="import-not-found, misc, no-any-return, untyped-decorator"
# (Types are also checked where the framework is not installed, and all of its names are Any.)
from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any, Optional

try:
    from llama_index.core.base.base_query_engine import BaseQueryEngine
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.base.response.schema import (RESPONSE_TYPE, AsyncStreamingResponse,
                                                       Response, StreamingResponse)
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.prompts.mixin import PromptMixinType
    from llama_index.core.schema import (NodeRelationship, NodeWithScore, QueryBundle,
                                         RelatedNodeInfo, TextNode)
except ImportError as error:
    raise ImportError("the LlamaIndex integration needs llama-index-core: "
                      "pip install 'lectern[llama-index]'") from error

import lectern
from lectern.session import in_thread


def passage_nodes(answer: lectern.Answer) -> list[NodeWithScore]:
    """The passages of an answer. Offsets are characters of the document's text."""
    ids = {one.name: one.document for one in answer.asked_documents}
    nodes = []
    for passage in answer.passages:
        document = (ids.get(passage.document) if passage.document else answer.document) or ""
        metadata = {"document": passage.document or document, "page": passage.page,
                    "page_label": passage.label, "heading": passage.heading}
        nodes.append(NodeWithScore(score=passage.score, node=TextNode(
            id_=f"{document}:{passage.start}-{passage.end}", text=passage.text,
            start_char_idx=passage.start, end_char_idx=passage.end, metadata=metadata,
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document)})))
    return nodes


class _Asked:
    """Where questions go, and with which options."""

    def __init__(self, store: lectern.Store, document: str, collection: str,
                 options: dict[str, Any]):
        self.store, self.document, self.collection = store, document, collection
        self.options = options

    def open(self) -> lectern.Session:
        return self.store.collection(self.collection).open() if self.collection else \
            self.store.open(self.document)

    def ask(self, question: str, cancel: Optional[lectern.CancelToken] = None) -> lectern.Answer:
        with self.open() as session:
            return session.ask(question, cancel=cancel, **self.options)


class LecternRetriever(BaseRetriever):
    """The passages that support the model's answer to the query best. The answer itself is not
    kept: max_tokens=1 makes it short, and retrieval quicker."""

    def __init__(self, store: lectern.Store, document: str = "", *, collection: str = "",
                 similarity_top_k: int = 3, callback_manager: Optional[CallbackManager] = None,
                 **options: Any):
        super().__init__(callback_manager=callback_manager)
        self._asked = _Asked(store, document, collection,
                             {"max_evidence": similarity_top_k, **options})

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return passage_nodes(self._asked.ask(query_bundle.query_str))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return passage_nodes(await in_thread(
            lambda token: self._asked.ask(query_bundle.query_str, token)))


class LecternQueryEngine(BaseQueryEngine):
    """Answers with source_nodes. With streaming=True the response has a generator, and its
    source_nodes and metadata are there once that has ended."""

    def __init__(self, store: lectern.Store, document: str = "", *, collection: str = "",
                 streaming: bool = False, callback_manager: Optional[CallbackManager] = None,
                 **options: Any):
        super().__init__(callback_manager=callback_manager)
        self._asked, self._streaming = _Asked(store, document, collection, options), streaming

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}

    @staticmethod
    def _metadata(answer: lectern.Answer) -> dict[str, Any]:
        return {"document": answer.document, "finish_reason": answer.finish_reason,
                "warnings": list(answer.warnings), "has_evidence": answer.has_evidence}

    def _response(self, answer: lectern.Answer) -> Response:
        return Response(answer.text, source_nodes=passage_nodes(answer),
                        metadata=self._metadata(answer))

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        if not self._streaming:
            return self._response(self._asked.ask(query_bundle.query_str))
        metadata: dict[str, Any] = {}
        nodes: list[NodeWithScore] = []

        def pieces() -> Generator[str, None, None]:
            with self._asked.open() as session, \
                    session.stream(query_bundle.query_str, **self._asked.options) as stream:
                yield from stream
                nodes.extend(passage_nodes(stream.answer))
                metadata.update(self._metadata(stream.answer))

        return StreamingResponse(response_gen=pieces(), source_nodes=nodes, metadata=metadata)

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        if not self._streaming:
            return self._response(await in_thread(
                lambda token: self._asked.ask(query_bundle.query_str, token)))
        metadata: dict[str, Any] = {}
        nodes: list[NodeWithScore] = []

        async def pieces() -> AsyncGenerator[str, None]:
            session = await in_thread(lambda _: self._asked.open())
            with session:
                async with session.astream(query_bundle.query_str, **self._asked.options) as stream:
                    async for piece in stream:
                        yield piece
                    nodes.extend(passage_nodes(stream.answer))
                    metadata.update(self._metadata(stream.answer))

        return AsyncStreamingResponse(response_gen=pieces(), source_nodes=nodes, metadata=metadata)
