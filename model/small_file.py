"""Reads small files that a user names: keys, passwords, configs. One place for what such a file must not be."""

import os
import stat
from pathlib import Path

from edgemeta.model.errors import EdgemetaError


class FileError(EdgemetaError):
    """A file that cannot be read. reason: the text without its first word, the path."""

    def __init__(self, path: str | Path, reason: str) -> None:
        super().__init__(f"{shortened(str(path))} {reason}")
        self.reason = reason


def read_small_file(path: str | Path, most: int) -> bytes:
    """Return the bytes of a regular file of at most `most` bytes; a pipe or device is not waited for.

    Raises FileError.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise FileError(path, f"is {_kind(mode)}, expected a regular file")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                content = file.read(most + 1)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        raise FileError(path, f"cannot be read: {why(error)}") from error
    if len(content) > most:
        raise FileError(path, f"has more than {most:,} bytes")
    return content


def why(error: OSError | ValueError) -> str:
    """Return the reason of a failed call about a path, without the path, in the words of the system."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    if isinstance(error, UnicodeDecodeError):
        return "it is no text (UTF-8)"
    return "a NUL character in its name" if "null byte" in str(error) else "a name that the file system cannot have"


def shortened(text: str) -> str:
    """Return a path or name that is short enough for a sentence."""
    return text if len(text) <= 200 else f"{text[:150]}... ({len(text):,} characters)"


def is_file(path: str | Path) -> bool:
    """Whether there is a regular file; False where that cannot be told, as for too long a name."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises for some errors


def exists(path: str | Path) -> bool:
    """Whether there is anything at a path; False where that cannot be told."""
    return os.path.exists(path)  # noqa: PTH110 - as above


def is_folder(path: str | Path) -> bool:
    """Whether there is a folder; False where that cannot be told."""
    return os.path.isdir(path)  # noqa: PTH112 - as above


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")
