"""What came of a requested change."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class ChangeResult:
    """Result of a requested change in one sentence. cancelled: because a newer change was requested."""

    ok: bool
    message: str
    cancelled: bool = False


Answer: TypeAlias = Callable[[ChangeResult], None]
"""Called with the result of a change, in the thread of changes."""
