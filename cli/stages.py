"""The stages of a long command on standard error, with the time left: a bar each on a terminal, otherwise lines."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Protocol

import click

from edgemeta.cli.progress import in_words, progress_bar
from edgemeta.model.callbacks import Progress


class PlannedStage(Protocol):
    """A stage of known work, in any unit that is the same for all stages."""

    @property
    def name(self) -> str:
        """What it is called; stages of one name and work take about equally long."""
        ...

    @property
    def work(self) -> float:
        """How much there is to do."""
        ...


class RemainingTime:
    """Estimates how long the rest of the planned stages takes, from those that ended.

    A stage takes as long as the last one of its name; one without such takes its work times the seconds that a unit of
    work took so far. clock: seconds, increasing.
    """

    def __init__(self, stages: Sequence[PlannedStage], clock: Callable[[], float] = time.monotonic) -> None:
        self._stages, self._clock = stages, clock
        self._number, self._began = -1, 0.0
        self._last: dict[str, float] = {}
        self._work = self._seconds = 0.0

    def begin(self) -> None:
        """The next planned stage begins; the one before ends."""
        now = self._clock()
        if 0 <= self._number < len(self._stages):
            ended, took = self._stages[self._number], now - self._began
            self._last[ended.name] = took
            self._work, self._seconds = self._work + ended.work, self._seconds + took
        self._number, self._began = self._number + 1, now

    @property
    def number(self) -> int:
        """Number of the stage that began last, from 1."""
        return self._number + 1

    @property
    def seconds(self) -> float | None:
        """From the begin of the stage that began last; None before one has ended."""
        if self._work <= 0:
            return None
        rate = self._seconds / self._work
        return sum(self._last.get(stage.name, rate * stage.work) for stage in self._stages[self._number :])


class Stages:
    """Shows stages as they begin and move."""

    def __init__(self) -> None:
        self._shown = ExitStack()
        self._stages: Sequence[PlannedStage] = ()
        self._remaining = RemainingTime(())
        self._move: Progress | None = None

    def plan(self, stages: Sequence[PlannedStage]) -> None:
        """These stages will begin, in this order."""
        self._stages, self._remaining = stages, RemainingTime(stages)

    def begin(self, name: str, detail: str = "") -> None:
        """The next stage begins."""
        self.close()
        self._remaining.begin()
        left = self._remaining.seconds
        text = f"{self._remaining.number}/{len(self._stages)} {name}{f' ({detail})' if detail else ''}"
        text += "" if left is None else f", about {in_words(left)} left"
        if not sys.stderr.isatty():
            click.echo(f"edgemeta: {text}", err=True)
            text = name
        self._move = self._shown.enter_context(progress_bar(text))

    def progress(self, done: int, total: int) -> None:
        """So much of the stage is done."""
        if self._move is not None:
            self._move(done, total)

    def close(self) -> None:
        """End the bar that is shown."""
        self._shown.close()
        self._move = None
