"""A web service over Lectern's documents, which streams answers:

    pip install build-wheel/dist/*.whl fastapi uvicorn
    uvicorn service:app
    curl -N localhost:8000/ask -H 'Content-Type: application/json' \\
      -d '{"document": "lease.pdf", "question": "Who pays for repairs?"}'

Answers come as server-sent events: {"text": …} for each piece, then {"answer": …, "passages": […]},
or {"error": …, "code": …} where one fails on the way. A client that goes ends its answer. Documents
are those of LECTERN_STORE (see `lectern index`). lectern-server is a ready-made service, with access
tokens, limits and a page; this is for a service that you have already."""
import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import lectern
from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

MOST_AT_ONCE = 4  # questions that are answered at a time; others wait

store = lectern.Store()


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    yield
    store.close()


app = FastAPI(title="Lectern", lifespan=lifespan)
turn = asyncio.Semaphore(MOST_AT_ONCE)


class Question(BaseModel):
    question: str = Field(min_length=1)
    document: str = ""  # name or id; may be left out where there is one
    max_tokens: int = Field(256, ge=1, le=4096)


@app.get("/documents")
def documents() -> list[dict[str, Any]]:
    return [{"name": one.name or one.id, "id": one.id, "tokens": one.tokens}
            for one in store.documents()]


def event(**data: Any) -> str:
    return f"data: {json.dumps(data)}\n\n"


@app.post("/ask")
async def ask(asked: Question) -> StreamingResponse:
    try:
        session = await store.aopen(asked.document)
    except lectern.NotFoundError as error:
        raise HTTPException(404, str(error)) from error
    except lectern.LecternError as error:
        raise HTTPException(400, str(error)) from error

    async def events() -> AsyncIterator[str]:
        try:
            with session:
                async with turn, session.astream(asked.question,
                                                 max_tokens=asked.max_tokens) as stream:
                    async for piece in stream:
                        yield event(text=piece)
                    answer = stream.answer
            yield event(answer=answer.text, passages=[
                {"text": one.text, "page": one.label or None, "heading": one.heading,
                 "start": one.start, "end": one.end, "score": one.score}
                for one in answer.passages])
        except lectern.LecternError as error:
            yield event(error=str(error), code=error.code)

    return StreamingResponse(events(), media_type="text/event-stream")
