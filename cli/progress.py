"""Progress on standard error: a bar if it is a terminal, otherwise, as in a log file, a line now and then."""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import click


class Move(Protocol):
    """Updates a bar: how much is done, of how much, and a text such as a loss and an estimate of the time left.

    A text takes the place of the bar's own estimate.
    """

    def __call__(self, done: int, total: int, text: str | None = None) -> None:
        """Show this state."""


_PAUSE = 30.0
"""Seconds between two lines."""


def progress_lines(label: str, clock: Callable[[], float] = time.monotonic) -> Move:
    """Prints a line if the last one is 30 s old, and at the end of what took longer. clock: seconds, increasing."""
    began = last = clock()

    def update(done: int, total: int, text: str | None = None) -> None:
        nonlocal last
        if clock() - last >= _PAUSE or (text and done == total and last > began):
            last = clock()
            click.echo(f"edgemeta: {label}: {text or f'{done:,} of {total:,}'}", err=True)

    return update


@contextmanager
def progress_bar(label: str, *, wanted: bool = True) -> Iterator[Move]:
    """Show a bar or lines, where they are wanted; yields the function that updates them."""
    if wanted and not sys.stderr.isatty():
        yield progress_lines(label)
        return
    with click.progressbar(
        length=1, label=label, file=sys.stderr, hidden=not wanted, item_show_func=lambda text: text
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
