"""The command `lectern`: runs the programs that are in the wheel, as they are.

    lectern index FILE …      index-document: reads documents once
    lectern ask QUESTION      ask-document: answers questions
    lectern store COMMAND     lectern-store: lists, checks and removes documents
    lectern serve             lectern-server: the same over HTTP, with a page
    lectern doctor            lectern-doctor: what this machine and a model on it can do
    lectern COMMAND --help    the options of each
    lectern --version"""
from __future__ import annotations

import os
import sys

from . import _files
from .errors import LecternError

PROGRAMS = {"index": "index-document", "ask": "ask-document", "store": "lectern-store",
            "serve": "lectern-server", "doctor": "lectern-doctor"}


def main() -> int:
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(__doc__)
        return 0 if arguments else 2
    if arguments[0] == "--version":
        from . import __version__
        print("lectern", __version__)
        return 0
    if arguments[0] not in PROGRAMS:
        print(f'lectern: there is no command "{arguments[0]}"; there are '
              + ", ".join(PROGRAMS) + " (see lectern --help)", file=sys.stderr)
        return 2
    try:
        name = PROGRAMS[arguments[0]]
        os.execv(_files.program(name), [name, *arguments[1:]])
    except (LecternError, OSError) as error:
        print(f"lectern: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
