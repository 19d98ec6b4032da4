"""Exceptions: one for each code of lectern_c.h, all of them LecternError.

Made by tools/python/generate.py of engine/lectern_c.h: change that header, and run it."""
from __future__ import annotations

__all__ = [
    "LecternError", "InvalidArgumentError", "NotFoundError", "AmbiguousError",
    "ModelMismatchError", "EmptyDocumentError", "ContextTooLongError", "BudgetTooSmallError",
    "NoSpaceError", "OutOfMemoryError", "ReadOnlyError", "LockedError", "CancelledError",
    "IoError", "MissingFileError", "TruncatedError", "ChecksumMismatchError", "CorruptError",
    "UnsupportedVersionError", "UnsupportedModelError", "MalformedModelError",
    "UnsafeFormatError", "LimitExceededError", "NotReadyError", "InvalidHandleError",
    "InternalError"
    ]


class LecternError(Exception):
    """A call that failed. str() says what is wrong, with which thing, and the way out.

    code    the name of the code: "not_found"
    param   the option or argument that is wrong ("kv_budget"), or ""
    """
    code = "internal"

    def __init__(self, message: str, param: str = "", code: str = ""):
        super().__init__(message)
        self.param = param
        if code:
            self.code = code


class InvalidArgumentError(LecternError, ValueError):
    """An option or argument is out of its range, or missing."""
    code = "invalid_argument"


class NotFoundError(LecternError, LookupError):
    """No such document, store or model."""
    code = "not_found"


class AmbiguousError(LecternError):
    """A name was left out and several would fit."""
    code = "ambiguous"


class ModelMismatchError(LecternError):
    """Indexed with another model, tokenizer or template."""
    code = "model_mismatch"


class EmptyDocumentError(LecternError):
    code = "empty_document"


class ContextTooLongError(LecternError):
    """Document, question or answer exceed the model's positions."""
    code = "context_too_long"


class BudgetTooSmallError(LecternError):
    """The message has the smallest kv budget."""
    code = "budget_too_small"


class NoSpaceError(LecternError):
    """The disk (or its quota) is full or would be."""
    code = "no_space"


class OutOfMemoryError(LecternError, MemoryError):
    code = "out_of_memory"


class ReadOnlyError(LecternError):
    """The store cannot be written."""
    code = "read_only"


class LockedError(LecternError):
    """Someone else is writing this store, or using this session."""
    code = "locked"


class CancelledError(LecternError):
    code = "cancelled"


class IoError(LecternError):
    code = "io_error"


class MissingFileError(LecternError):
    """A file that the catalog or a model names is not there."""
    code = "missing_file"


class TruncatedError(LecternError):
    """A file is shorter (or longer) than it says."""
    code = "truncated"


class ChecksumMismatchError(LecternError):
    """Bytes changed after they were written."""
    code = "checksum_mismatch"


class CorruptError(LecternError):
    """The bytes verify but contradict each other."""
    code = "corrupt"


class UnsupportedVersionError(LecternError):
    code = "unsupported_version"


class UnsupportedModelError(LecternError):
    code = "unsupported_model"


class MalformedModelError(LecternError):
    code = "malformed_model"


class UnsafeFormatError(LecternError):
    """Pickle files are never opened."""
    code = "unsafe_format"


class LimitExceededError(LecternError):
    """A count or size is beyond what is accepted."""
    code = "limit_exceeded"


class NotReadyError(LecternError):
    """Not indexed to the end: the message says if to wait."""
    code = "not_ready"


class InvalidHandleError(LecternError):
    """NULL, freed, or of another kind."""
    code = "invalid_handle"


class InternalError(LecternError):
    """A bug in Lectern."""
    code = "internal"


BY_NUMBER: dict[int, type[LecternError]] = {
    1: InvalidArgumentError,
    2: NotFoundError,
    3: AmbiguousError,
    4: ModelMismatchError,
    5: EmptyDocumentError,
    6: ContextTooLongError,
    7: BudgetTooSmallError,
    8: NoSpaceError,
    9: OutOfMemoryError,
    10: ReadOnlyError,
    11: LockedError,
    12: CancelledError,
    13: IoError,
    14: MissingFileError,
    15: TruncatedError,
    16: ChecksumMismatchError,
    17: CorruptError,
    18: UnsupportedVersionError,
    19: UnsupportedModelError,
    20: MalformedModelError,
    21: UnsafeFormatError,
    22: LimitExceededError,
    23: NotReadyError,
    24: InvalidHandleError,
    25: InternalError,
}
