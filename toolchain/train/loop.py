"""The epoch loop that all trainings share: order, learning rate, loss, moving average, measuring, checkpoint, report.

What differs between trainings is a `Training` record of values and functions; `run_epochs` does the rest. All random
numbers of an epoch must depend only on its number, so that a continued run makes the steps of an uninterrupted one.
Several workers run the loop side by side; the first one writes checkpoint and log.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgemeta.toolchain.progress import Reporter, TrainingStage
from edgemeta.toolchain.train.checkpoint import RunIdentity, load_checkpoint, save_checkpoint
from edgemeta.toolchain.train.optimizer_step import OptimizerStep
from edgemeta.toolchain.train.workers import ALONE, Workers

N = TypeVar("N", bound=nn.Module)

BatchLoss: TypeAlias = Callable[[NDArray[np.int64]], Tensor]
"""Loss of one batch, a scalar with a gradient, for the numbers of its images (int64 [batch]).

Of several workers each gives a part; the sum of the parts is the loss.
"""


@dataclass(frozen=True)
class Training(Generic[N]):
    """What one training does. Epochs and steps count from 0 here, from 1 in reports.

    stage: its name in reports. network: with its first values; it is changed. step: what changes it by a loss.
    epochs: passes over the images. images: their number. batch: images of a step; the rest of an epoch is left out.
    order: the images of an epoch in their order, a permutation int64 [images].
    rates: learning rates of an epoch's step, one for each parameter group of the optimizer.
    losses: called at the start of an epoch, gives the function of its batches' losses (draw the epoch's views there).
    after_epoch: called after the last step of an epoch, before it is measured and kept.
    measure: accuracy in percent of a network (called in any mode; may leave it in evaluation mode).
    evaluate_every: epochs from one measurement to the next; the first and the last epoch are always measured.
    average: decay per step of the moving average of weights and batch statistics, which is then the result; None: the
    result is the network itself.
    keep_best: the result is the measured epoch of greatest accuracy (at a tie the later), instead of the last epoch.
    report_every: steps between two reports inside of an epoch.
    first_epoch, all_epochs: place of this training in the reports of a stage of several; None: `epochs`.
    workers: the processes that share the batches; all of them have the same network after a step.
    """

    stage: TrainingStage
    network: N
    step: OptimizerStep
    epochs: int
    images: int
    batch: int
    order: Callable[[int], NDArray[np.int64]]
    rates: Callable[[int, int], Sequence[float]]
    losses: Callable[[int], BatchLoss]
    measure: Callable[[nn.Module], float]
    after_epoch: Callable[[], None] | None = None
    evaluate_every: int = 1
    average: float | None = None
    keep_best: bool = False
    report_every: int = 50
    first_epoch: int = 0
    all_epochs: int | None = None
    workers: Workers = ALONE

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return self.images // self.batch


@dataclass(frozen=True)
class Trained(Generic[N]):
    """Result of `run_epochs`: the network to use, in evaluation mode, its epoch (from 1) and its accuracy in percent.

    accuracy is None where an earlier version finished a run that keeps no best epoch.
    """

    network: N
    epoch: int
    accuracy: float | None


def run_epochs(training: Training[N], checkpoint: Path, identity: RunIdentity, reporter: Reporter) -> Trained[N]:
    """Train, or continue from the checkpoint, which is written after every epoch; return the result.

    identity: what the checkpoint must belong to. Raises CheckpointError.
    """
    run = _Run(training, reporter)
    run.restore(load_checkpoint(checkpoint, identity, training.workers))
    reporter.restart_clock()
    run.report(once=True)
    for epoch in range(run.done, training.epochs):
        loss = run.train_epoch(epoch)
        if training.after_epoch is not None:
            training.after_epoch()
        run.measured = loss, *run.measure(epoch)
        if training.workers.first:
            save_checkpoint(checkpoint, identity, run.state())
        run.report()
    return run.result()


class _Run(Generic[N]):
    """State of a training between two epochs."""

    def __init__(self, training: Training[N], reporter: Reporter) -> None:
        self.training, self.reporter = training, reporter
        self.network = training.network
        self.average: N | None = None if training.average is None else deepcopy(training.network).eval()
        self.done = 0
        self.best: dict[str, Any] | None = None
        self.accuracy: float | None = None
        self.measured: tuple[float, float | None, float | None] | None = None
        """Loss, accuracy and raw accuracy of the newest epoch."""

    @property
    def candidate(self) -> N:
        """The network that would be the result now."""
        return self.network if self.average is None else self.average

    def restore(self, state: dict[str, Any] | None) -> None:
        """Continue from a checkpoint's state, if there is one."""
        if state is None:
            return
        self.network.load_state_dict(state["network"])
        self.training.step.restore(state["optimizer"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        self.done = int(state["epoch"])
        self.best = state.get("best")
        if "measured" in state:
            loss, accuracy, raw_accuracy = state["measured"]
            self.measured, self.accuracy = (loss, accuracy, raw_accuracy), accuracy

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        state: dict[str, Any] = {
            "network": self.network.state_dict(),
            "optimizer": self.training.step.state(),
            "epoch": self.done,
            "measured": self.measured,
        }
        if self.average is not None:
            state["average"] = self.average.state_dict()
        if self.best is not None:
            state["best"] = self.best
        return state

    def report(self, *, once: bool = False) -> None:
        """Report the newest epoch; once: not if a process did that before it was killed or stopped."""
        part = self.training
        if self.measured is None or not part.workers.first:
            return
        epoch, epochs = self._place(self.done - 1)
        if not (once and self.reporter.has(part.stage, epoch)):
            self.reporter.report(part.stage, epoch, epochs, part.steps, part.steps, *self.measured)

    def train_epoch(self, epoch: int) -> float:
        """All steps of an epoch; returns the mean loss."""
        part, optimizer = self.training, self.training.step.optimizer
        self.network.train()
        order, batch_loss = part.order(epoch), part.losses(epoch)
        total = 0.0
        for step in range(part.steps):
            for group, rate in zip(optimizer.param_groups, part.rates(epoch, step), strict=True):
                group["lr"] = rate
            loss = batch_loss(order[step * part.batch : (step + 1) * part.batch])
            part.step.take(loss)
            self._update_average(epoch * part.steps + step)
            total += loss.item()
            if (step + 1) % part.report_every == 0 and step + 1 < part.steps:
                mean = part.workers.total(total) / (step + 1)
                if part.workers.first:
                    self.reporter.report(part.stage, *self._place(epoch), step + 1, part.steps, mean)
        self.done = epoch + 1
        return part.workers.total(total) / part.steps

    def measure(self, epoch: int) -> tuple[float | None, float | None]:
        """Accuracy of the candidate, and of the network without averaging; None where this epoch is not measured."""
        part = self.training
        if (epoch + 1) % part.evaluate_every and epoch + 1 not in (1, part.epochs):
            return None, None
        self.accuracy = part.measure(self.candidate)
        if part.keep_best and (self.best is None or self.accuracy >= self.best["accuracy"]):
            weights = {name: tensor.clone() for name, tensor in self.candidate.state_dict().items()}
            self.best = {"epoch": epoch + 1, "accuracy": self.accuracy, "network": weights}
        return self.accuracy, None if self.average is None else part.measure(self.network)

    def result(self) -> Trained[N]:
        """The best epoch where one is kept, else the last."""
        network, epoch, accuracy = self.candidate, self.done, self.accuracy
        if self.best is not None:
            network.load_state_dict(self.best["network"])
            epoch, accuracy = int(self.best["epoch"]), float(self.best["accuracy"])
        network.eval()
        return Trained(network, epoch, accuracy)

    def _place(self, epoch: int) -> tuple[int, int]:
        """An epoch's number in reports, and that of the last one."""
        part = self.training
        return part.first_epoch + epoch + 1, part.all_epochs or part.epochs

    def _update_average(self, taken: int) -> None:
        """Move averaged weights and batch statistics towards those of the network, after step number `taken`.

        The average is shorter at first, so that the random initial weights are forgotten quickly.
        """
        if self.average is None or self.training.average is None:
            return
        decay = min(self.training.average, (1.0 + taken) / (10.0 + taken))
        with torch.no_grad():
            mine, theirs = self.average.state_dict(), self.network.state_dict()
            floats = [name for name, value in mine.items() if value.is_floating_point()]
            torch._foreach_lerp_([mine[k] for k in floats], [theirs[k] for k in floats], 1.0 - decay)
