"""A training under number formats by the shared epoch loop, on one worker or several.

Whatever number of workers share a batch, a step's quantizers see the same numbers: rows are dealt in turns, batch norms
use the whole batch, and each worker's loss is its part of the batch's mean.
"""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed, nn
from torch._C._distributed_c10d import GradBucket  # its name without an underscore is no type for mypy
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.progress import Reporter
from edgemeta.toolchain.simulate.prepare import prepare
from edgemeta.toolchain.simulate.training.batch_norm import share_statistics
from edgemeta.toolchain.simulate.training.config import TrainingConfig
from edgemeta.toolchain.simulate.training.job import Job
from edgemeta.toolchain.torch_network import TorchNetwork
from edgemeta.toolchain.train.augment import STREAM_ORDER, STREAM_STUDENT, ImageBank, draw_view, generator
from edgemeta.toolchain.train.batches import mixed_precision, network_input
from edgemeta.toolchain.train.checkpoint import RunIdentity
from edgemeta.toolchain.train.loop import BatchLoss, Trained, Training, run_epochs
from edgemeta.toolchain.train.networks import network_of
from edgemeta.toolchain.train.optimizer_step import OptimizerStep
from edgemeta.toolchain.train.student import cosine, distillation_loss, nesterov
from edgemeta.toolchain.train.targets import Target, live_target
from edgemeta.toolchain.train.workers import Workers

_TEST_BATCH = 500
"""Test images, of all workers together, that share their ranges."""

FIRST, GREATEST = 2.0**16, 2.0**24
"""First and greatest dynamic scale."""
_PATIENCE = 1000
"""Steps without overflow after which a dynamic scale is doubled."""


class ScaledStep(OptimizerStep):
    """A step with the loss multiplied by a scale, and its gradients divided by it before the optimizer reads them.

    A step with a gradient that is not finite is left out. scale: fixed; None: dynamic, halved by every such step and
    doubled after 1,000 steps in a row without one.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, scale: float | None) -> None:
        super().__init__(optimizer)
        self._dynamic = scale is None
        self.scale, self._good = FIRST if scale is None else scale, 0

    def take(self, loss: Tensor) -> None:
        """As `OptimizerStep.take`."""
        self.optimizer.zero_grad()
        (loss * self.scale).backward()  # type: ignore[no-untyped-call]
        gradients = [p.grad for group in self.optimizer.param_groups for p in group["params"] if p.grad is not None]
        torch._foreach_div_(gradients, self.scale)
        finite = all(bool(gradient.isfinite().all()) for gradient in gradients)
        if finite:
            self.optimizer.step()
        if self._dynamic:
            self._adapt(finite)

    def _adapt(self, finite: bool) -> None:
        self._good = self._good + 1 if finite else 0
        if not finite:
            self.scale = max(1.0, self.scale / 2)
        elif self._good == _PATIENCE:
            self.scale, self._good = min(GREATEST, self.scale * 2), 0

    def state(self) -> dict[str, Any]:
        """As `OptimizerStep.state`."""
        return {"optimizer": super().state(), "scale": self.scale, "good": self._good}

    def restore(self, state: dict[str, Any]) -> None:
        """As `OptimizerStep.restore`."""
        super().restore(state["optimizer"])
        self.scale, self._good = float(state["scale"]), int(state["good"])


def simulated_network(job: Job, workers: Workers) -> TorchNetwork:
    """The network under the config's rules, with its first weights. Raises SimulateError, ModelError."""
    config = job.config
    torch.manual_seed(config.seed)
    network = network_of(job.design, job.start, str(config.start))
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    share_statistics(network, workers)
    if config.simulation is not None:
        prepare(network, config.simulation)
    return network


def train_network(
    job: Job, checkpoint: Path, identity: RunIdentity, workers: Workers, reporter: Reporter
) -> Trained[TorchNetwork]:
    """Train, or continue from the checkpoint; returns the network after the last epoch, under its rules."""
    config = job.config
    network = simulated_network(job, workers)
    shared = shared_network(network, workers)
    bank, labels = ImageBank(job.images.x, config.pad), torch.from_numpy(job.images.y.astype(np.int64))
    steps = bank.images // config.batch
    target = _target(job, config.epochs * steps)
    warmup = min(config.warmup_epochs / config.epochs, 0.5)

    def rates(epoch: int, step: int) -> tuple[float, float]:
        rate = config.lr * _factor(config.schedule, (epoch * steps + step) / (config.epochs * steps), warmup)
        return rate, rate

    def losses(epoch: int) -> BatchLoss:
        view = draw_view(config.seed, STREAM_STUDENT, epoch, bank.images, bank.pad, 0.0)

        def loss(index: NDArray[np.int64]) -> Tensor:
            mine = workers.share(index)
            x = network_input(bank.cut(view, mine))
            with mixed_precision() if config.mixed_precision else nullcontext():
                logits = shared(x)
            if target is None:
                return functional.cross_entropy(logits.float(), labels[mine], reduction="sum") / len(index)
            learnt = distillation_loss(
                logits.float(), target(mine, x), labels[mine], config.softness, 1.0 - config.soft
            )
            return learnt * (len(mine) / len(index))

        return loss

    optimizer = nesterov(network, config.lr, config.momentum, config.weight_decay)
    training = Training(
        stage="training",
        network=network,
        step=_step(config, optimizer),
        epochs=config.epochs,
        images=bank.images,
        batch=config.batch,
        order=lambda epoch: generator(config.seed, STREAM_ORDER, epoch).permutation(bank.images),
        rates=rates,
        losses=losses,
        measure=lambda candidate: accuracy_under_rules(candidate, job.measured, workers),
        workers=workers,
    )
    return run_epochs(training, checkpoint, identity, reporter)


def _target(job: Job, batches: int) -> Target | None:
    """The logits of the float model, where the training learns from them; for so many batches."""
    if job.config.soft == 0 or job.start is None:
        return None
    teacher = network_of(job.design, job.start, str(job.config.start))
    return live_target([teacher.to(memory_format=torch.channels_last)], batches)  # type: ignore[call-overload]


def shared_network(network: nn.Module, workers: Workers) -> nn.Module:
    """The network as several workers run it: after a backward pass all have the sum of their gradients."""
    if workers.count == 1:
        return network
    shared = DistributedDataParallel(network, forward_sync_buffers=False)
    shared.register_comm_hook(workers.count, _summed_in_turn)
    return shared


def _summed_in_turn(workers: int, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """Add the workers' gradients in the order of the workers: the same bits however they are cut into pieces."""
    mine = bucket.buffer()
    parts = [torch.empty_like(mine) for _ in range(workers)]
    gathered = distributed.all_gather(parts, mine, async_op=True)
    assert gathered is not None

    def add(_: object) -> Tensor:
        total = parts[0]
        for part in parts[1:]:
            total += part
        return total

    future: torch.futures.Future[Tensor] = gathered.get_future().then(add)
    return future


def _step(config: TrainingConfig, optimizer: torch.optim.Optimizer) -> OptimizerStep:
    if config.loss_scale is None:
        return OptimizerStep(optimizer)
    return ScaledStep(optimizer, None if config.loss_scale == "dynamic" else config.loss_scale)


def _factor(schedule: str, position: float, warmup: float) -> float:
    """Factor on the learning rate at `position` 0..1: linear from 0 to 1 at `warmup`, then by the schedule."""
    if position < warmup or schedule == "cosine":
        return cosine(position, warmup)
    return 1.0 if schedule == "constant" else (1.0 - position) / (1.0 - warmup)


def accuracy_under_rules(network: nn.Module, images: Dataset, workers: Workers) -> float:
    """Percent of the images that are classified right, in evaluation; the workers share them.

    Where a batch has no equal shares, its last image is repeated: that changes no range.
    """
    network.eval()
    pixels = np.ascontiguousarray(images.x.transpose(0, 3, 1, 2))
    right = 0
    for first in range(0, len(images), _TEST_BATCH):
        index = np.arange(first, min(first + _TEST_BATCH, len(images)))
        missing = -len(index) % workers.count
        mine = workers.share(np.concatenate([index, np.full(missing, index[-1])]))
        real = workers.share(np.arange(len(index) + missing)) < len(index)
        with torch.no_grad():
            guess = network(network_input(pixels[mine])).argmax(1).numpy()
        right += int(((guess == images.y[mine]) & real).sum())
    return round(100.0 * workers.total(right) / len(images), 3)
