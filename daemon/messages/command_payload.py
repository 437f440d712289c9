"""From the bytes of a command to a JSON value: strict, and still telling the `transaction` where all else is wrong."""

import json
from collections import Counter
from typing import Any

from pydantic import TypeAdapter, ValidationError

from edgemeta.daemon.messages.commands import Transaction

_DIGITS = 40
"""Digits of a whole number that is read as one; Python refuses to read very long ones."""

_TRANSACTION: TypeAdapter[str] = TypeAdapter(Transaction)


class Payload:
    """A payload that was read. `mistake` says why it is no JSON (RFC 8259), None where it is; it may be an empty one.

    Python's parser lets pass what is no JSON (NaN, Infinity) and takes the last of two equal keys, where another reader
    may take the first: neither is believed.
    """

    def __init__(self, content: bytes) -> None:
        self.value: Any = {}
        self.mistake: str | None = None
        if not content:
            return
        try:
            self.value = json.loads(
                content.decode(),
                object_pairs_hook=self._unique,
                parse_constant=self._constant,
                parse_int=lambda digits: int(digits) if len(digits) < _DIGITS else float(digits),
            )
        except (ValueError, RecursionError):
            self.value, self.mistake = None, "found no JSON"

    @property
    def transaction(self) -> str | None:
        """The command's transaction, if one can be read."""
        try:
            return _TRANSACTION.validate_python(self.value.get("transaction"), strict=True)
        except (AttributeError, ValidationError):  # the value is no mapping, or this is no text of the right length
            return None

    def _unique(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = {key for key, count in Counter(key for key, _ in pairs).items() if count > 1}
        if twice:
            self.mistake = f"found no JSON (the key {ascii(min(twice))[:60]} twice)"
        return {key: value for key, value in pairs if key not in twice}

    def _constant(self, name: str) -> None:
        self.mistake = f"found no JSON ({name})"
