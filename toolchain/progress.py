"""Progress of a training run: one typed record per event, handed to a callback and logged as JSON."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from edgemeta.toolchain.errors import CheckpointError

TrainingStage = Literal["teacher", "views", "student", "continuation", "training", "retraining"]


@dataclass(frozen=True)
class TrainingEvent:
    """The progress of a run.

    epoch counts from 1 to epochs (for "views": the number of the view), step from 1 to steps within it. loss: mean of
    the epoch so far. accuracy: on the test images, percent, of the weights that would be exported (None if not measured
    at this point); raw_accuracy: the same without averaging of weights. seconds: since this process started the stage.
    """

    stage: TrainingStage
    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float | None = None
    accuracy: float | None = None
    raw_accuracy: float | None = None
    seconds: float = 0.0


ProgressCallback = Callable[[TrainingEvent], None]


class Reporter:
    """Sends progress to a callback (if any) and appends one JSON line per finished epoch to `log`."""

    def __init__(self, log: Path, callback: ProgressCallback | None) -> None:
        self._log, self._callback = log, callback
        self._begin = time.monotonic()

    def restart_clock(self) -> None:
        """Count `seconds` from now on (at the start of a stage)."""
        self._begin = time.monotonic()

    def report(
        self,
        stage: TrainingStage,
        epoch: int,
        epochs: int,
        step: int,
        steps: int,
        loss: float | None = None,
        accuracy: float | None = None,
        raw_accuracy: float | None = None,
    ) -> None:
        """Report one event; it is logged when step == steps."""
        seconds = round(time.monotonic() - self._begin, 2)
        event = TrainingEvent(stage, epoch, epochs, step, steps, loss, accuracy, raw_accuracy, seconds)
        if step == steps:
            with self._log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(event)) + "\n")
        if self._callback is not None:
            self._callback(event)

    def has(self, stage: TrainingStage, epoch: int) -> bool:
        """Whether a finished epoch is in the log."""
        return any((each.stage, each.epoch) == (stage, epoch) for each in read_log(self._log))


def read_log(log: Path) -> list[TrainingEvent]:
    """The finished epochs of a log; empty without a file. Raises CheckpointError for a damaged line."""
    if not log.exists():
        return []
    events = []
    for number, line in enumerate(log.read_text("utf-8").splitlines(), 1):
        try:
            events.append(TrainingEvent(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise CheckpointError(f"{log} line {number}: is no finished epoch, expected one on each line") from error
    return events
