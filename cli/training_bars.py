"""Progress of a training: a bar or lines for each stage, loss, accuracy, and about how long it still takes."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from edgemeta.cli.options import remark
from edgemeta.cli.progress import Move, in_words, progress_bar
from edgemeta.toolchain.progress import TrainingEvent

_INTERRUPTED = 130
"""Exit code of a process that Ctrl-C ended, as shells have it."""


class TrainingBars:
    """Draws one bar for each stage; `last` is the newest event."""

    def __init__(self) -> None:
        self.last: TrainingEvent | None = None
        self._shown = ExitStack()
        self._first: TrainingEvent
        self._accuracy: float | None = None
        self._move: Move

    def show(self, event: TrainingEvent) -> None:
        """Show an event of the training."""
        if self.last is None or event.stage != self.last.stage:
            self.close()
            self._first, self._accuracy = event, None
            self._move = self._shown.enter_context(progress_bar(event.stage))
        self.last = event
        if event.accuracy is not None:
            self._accuracy = event.accuracy
        self._move(_done(event), event.epochs * event.steps, self._text(event))

    def close(self) -> None:
        """End the bar that is shown."""
        self._shown.close()

    def epochs_kept(self) -> tuple[int, int] | None:
        """Complete epochs of the newest stage, which are in its checkpoint, and all of them; None before the first."""
        if self.last is None:
            return None
        return self.last.epoch - (self.last.step < self.last.steps), self.last.epochs

    def _text(self, event: TrainingEvent) -> str:
        parts = [f"epoch {event.epoch}/{event.epochs}"]
        if event.loss is not None:
            parts.append(f"loss {event.loss:.3f}")
        if self._accuracy is not None:
            parts.append(f"accuracy {self._accuracy:.1f} %")
        left = remaining_seconds(self._first, event)
        return ", ".join([*parts, f"{in_words(left)} left"] if left else parts)


def remaining_seconds(first: TrainingEvent, now: TrainingEvent) -> float | None:
    """Estimate from the steps between two events of a stage; None if there are none between them.

    The first event of this process counts, not the start of the run: an interrupted run may have been on a faster day.
    """
    taken = _done(now) - _done(first)
    if taken <= 0:
        return None
    return (now.epochs * now.steps - _done(now)) * (now.seconds - first.seconds) / taken


def _done(event: TrainingEvent) -> int:
    return (event.epoch - 1) * event.steps + event.step


@dataclass(frozen=True)
class TrainingRun:
    """The options of every training. data, test: paths of images. folder: of the run. out: the model to write."""

    data: Path
    test: Path | None
    folder: Path
    out: Path
    name: str | None
    fresh: bool
    threads: int | None
    as_json: bool

    @contextmanager
    def watched(self) -> Iterator[dict[str, Any]]:
        """As `watched_training`; gives the arguments that all trainings take by name."""
        with watched_training() as bars:
            own = {"name": self.name, "fresh": self.fresh, "threads": self.threads}
            yield {**own, "progress": bars.show, "report": remark}


@contextmanager
def watched_training() -> Iterator[TrainingBars]:
    """Bars of a training; Ctrl-C becomes one sentence that says how to continue."""
    bars = TrainingBars()
    try:
        yield bars
    except KeyboardInterrupt:
        bars.close()
        kept = bars.epochs_kept()
        state = "before the first epoch" if kept is None else f"{kept[0]} of {kept[1]} epochs are kept"
        click.echo(f"\ninterrupted, {state}; the same command continues (--fresh starts afresh)", err=True)
        raise click.exceptions.Exit(_INTERRUPTED) from None
    finally:
        bars.close()
