"""Labels of collected pictures: each is the name of a folder, and later a label in messages."""

import unicodedata
from collections.abc import Iterable

from edgemeta.daemon.collect.errors import CollectError

LONGEST = 60
"""Most characters; in UTF-8 at most 240 bytes, and a file system takes 255."""

FORBIDDEN = '/\\:*?"<>|'
"""Separators of paths, and what a memory card's file system does not take."""

RULE = f"1 to {LONGEST} printable characters other than {' '.join(FORBIDDEN)}, without a dot at either end"


def checked_label(text: str, existing: Iterable[str] = ()) -> str:
    """Return a label in Unicode's normal form C, without blanks at its ends. Raises CollectError.

    existing: the labels so far. One that differs from them only in upper and lower case is refused: on a file system
    that ignores case both would be one folder.
    """
    label = unicodedata.normalize("NFC", text).strip()
    if (
        not 1 <= len(label) <= LONGEST
        or not label.isprintable()
        or label[0] == "."
        or label[-1] == "."
        or any(letter in FORBIDDEN for letter in label)
    ):
        raise CollectError(f"found label {text[: LONGEST + 1]!a}, expected {RULE}")
    for other in existing:
        if other != label and other.casefold() == label.casefold():
            raise CollectError(f"found label {label!r}, which differs from {other!r} only in case: use {other!r}")
    return label
