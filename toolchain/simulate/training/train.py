"""Command `simulate train`: trains by a config, alone or as one of several workers. Imports PyTorch when called."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgemeta.model.callbacks import Report
from edgemeta.toolchain.charts import require_matplotlib
from edgemeta.toolchain.progress import ProgressCallback, Reporter, TrainingEvent
from edgemeta.toolchain.simulate.training.config import TrainingConfig, load_config
from edgemeta.toolchain.simulate.training.job import Job, open_job
from edgemeta.toolchain.simulate.training.page import write_page
from edgemeta.toolchain.train.requirements import require_torch
from edgemeta.toolchain.train.run_folder import opened_run

if TYPE_CHECKING:
    from edgemeta.toolchain.torch_network import TorchNetwork
    from edgemeta.toolchain.train.workers import Workers

CHECKPOINT = "network.pt"
"""Name of the checkpoint in a run folder."""

_INTERRUPTED = 130
"""Exit code of a process that Ctrl-C ended, as shells have it."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SimulatedTraining:
    """Result of `train_simulated`.

    folder: the run, with network.pt, log.jsonl, curves.png and curves.html. accuracy: percent of `images` test images,
    under the formats. epochs: of the run. sha256: of all weights and buffers (`weights_digest`). network: under the
    rules, in evaluation mode. first: whether this process is the first of the workers, which speaks for them.
    """

    folder: Path
    accuracy: float
    images: int
    epochs: int
    sha256: str
    network: "TorchNetwork"
    first: bool


def train_simulated(
    config: TrainingConfig | Path,
    data: Path,
    test: Path,
    folder: Path,
    *,
    fresh: bool = False,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
    report: Report = _log.warning,
) -> SimulatedTraining:
    """Train by a config, or continue the run in `folder`.

    Started by torchrun, this process is one of the workers that share each batch; the first one owns the folder. data,
    test: data sets (`load_dataset`). fresh: delete the run in the folder before. threads: of this worker. report:
    called with one sentence for what is left out or deleted. Raises a ToolchainError, which is MissingExtraError
    without PyTorch or matplotlib.
    """
    chosen = load_config(config) if isinstance(config, Path) else config
    require_torch()
    require_matplotlib()
    import torch

    from edgemeta.toolchain.train.workers import joined_workers, workers_of_environment

    if not workers_of_environment().first:
        report = _quiet
    job = open_job(chosen, data, test, report)
    if threads is not None:
        torch.set_num_threads(threads)
    with joined_workers() as workers:
        chosen.require_batch(len(job.images), workers.count)
        with opened_run(folder, fresh, report) if workers.first else _interruptible():
            return _trained(job, folder, workers, progress)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C reaches all workers; the first one says how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _quiet(_: str) -> None:
    """What the first worker reports, too."""


def _trained(job: Job, folder: Path, workers: "Workers", progress: ProgressCallback | None) -> SimulatedTraining:
    from edgemeta.toolchain.simulate.training.run import train_network
    from edgemeta.toolchain.train.checkpoint import RunIdentity, weights_digest

    config, identity = job.config, RunIdentity(job.recipe, job.content)
    workers.require_same("config", identity.recipe)
    workers.require_same("data set", identity.data)
    log = folder / "log.jsonl"

    def watch(event: TrainingEvent) -> None:
        if event.step == event.steps:
            write_page(folder, log, config)
        if progress is not None:
            progress(event)

    trained = train_network(job, folder / CHECKPOINT, identity, workers, Reporter(log, watch))
    if workers.first:
        write_page(folder, log, config)
    sha256 = weights_digest(trained.network)
    assert trained.accuracy is not None  # the last epoch is always measured
    return SimulatedTraining(
        folder, trained.accuracy, len(job.measured), trained.epoch, sha256, trained.network, workers.first
    )
