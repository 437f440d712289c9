"""Progress bars on standard error, if it is a terminal."""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import click


class Move(Protocol):
    """Updates a bar: how much is done, of how much, and a text such as a loss and an estimate of the time left.

    A text takes the place of the bar's own estimate.
    """

    def __call__(self, done: int, total: int, text: str | None = None) -> None:
        """Show this state."""


@contextmanager
def progress_bar(label: str, *, wanted: bool = True) -> Iterator[Move]:
    """Show a bar, where it is wanted; yields the function that updates it."""
    hidden = not (wanted and sys.stderr.isatty())
    with click.progressbar(
        length=1, label=label, file=sys.stderr, hidden=hidden, item_show_func=lambda text: text
    ) as bar:

        def update(done: int, total: int, text: str | None = None) -> None:
            bar.length = total
            bar.show_eta = text is None
            bar.update(done - bar.pos, text)

        yield update


def in_words(seconds: float) -> str:
    """A time such as "40 s", "3 min" or "2 h 10 min", rounded up."""
    if seconds < 60:
        return f"{max(1, math.ceil(seconds))} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
