"""Parses the payload of a command as strict JSON, and reads its `transaction` even if the rest is invalid."""

import json
from collections import Counter
from typing import Any

from pydantic import TypeAdapter, ValidationError

from edgemeta.daemon.messages.commands import Transaction

_DIGITS = 40
"""Integers of fewer digits are read as such: Python refuses very long ones."""

_TRANSACTION: TypeAdapter[str] = TypeAdapter(Transaction)


class Payload:
    """A parsed payload, which may be empty. mistake: why it is not JSON (RFC 8259); None if it is.

    Python's parser accepts NaN and Infinity, which are not JSON, and uses the last of two equal keys, where another
    parser may use the first: both are refused.
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
        except (AttributeError, ValidationError):  # the value is not a mapping, or this is not text of the right length
            return None

    def _unique(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = {key for key, count in Counter(key for key, _ in pairs).items() if count > 1}
        if twice:
            self.mistake = f"found no JSON (the key {ascii(min(twice))[:60]} twice)"
        return {key: value for key, value in pairs if key not in twice}

    def _constant(self, name: str) -> None:
        self.mistake = f"found no JSON ({name})"
