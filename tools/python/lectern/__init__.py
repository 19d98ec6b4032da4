"""Lectern: questions about fixed documents, answered by a local model, with the passages.

    import lectern
    store = lectern.Store()
    report = store.index("lease.pdf", yes=True)
    with store.open(report.document) as session:
        answer = session.ask("Who pays for repairs?")
        print(answer, [passage.page for passage in answer.passages])

Failures raise LecternError, or the subclass that belongs to the code: NotFoundError, LockedError …
Any thread may call anything; a call releases the interpreter's lock while it works."""
from __future__ import annotations

import ctypes as _ctypes
import json as _json
from typing import Any as _Any

from . import errors, figures, options, results
from ._library import CancelToken, library as _lib
from .collection import Collection
from .errors import *  # noqa: F403
from .figures import *  # noqa: F403
from .results import *  # noqa: F403
from .session import AsyncStream, Session, Stream
from .store import Store

# The version of the library that is loaded.
__version__: str = _ctypes.string_at(_lib.lectern_version()).decode()

__all__ = ["AsyncStream", "CancelToken", "Collection", "Session", "Store", "Stream", "__version__",
           "build_info", "options", *errors.__all__, *figures.__all__, *results.__all__]


def build_info() -> dict[str, _Any]:
    """How the library was built, and for which machine: "version", "commit", "instruction_set" …"""
    read: dict[str, _Any] = _json.loads(_ctypes.string_at(_lib.lectern_build_info()))
    return read
