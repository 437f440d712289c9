"""What came of a requested change."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ChangeResult:
    """Result of a requested change in one sentence. cancelled: because a newer change was requested."""

    ok: bool
    message: str
    cancelled: bool = False
