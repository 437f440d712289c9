"""Progress bars on standard error, if it is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


@contextmanager
def progress_bar(label: str, *, wanted: bool = True) -> Iterator[Callable[[int, int], None]]:
    """Show a bar, where it is wanted; yields a function (done, total) that updates it."""
    hidden = not (wanted and sys.stderr.isatty())
    with click.progressbar(length=1, label=label, file=sys.stderr, hidden=hidden) as bar:

        def update(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield update
