"""Command `simulate export`: the finished run of a training under integer rules as a model file."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgemeta.model.callbacks import Progress, Report
from edgemeta.model.file import save as save_model
from edgemeta.model.graph import Model
from edgemeta.model.self_test import with_self_test
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.evaluate.classification import evaluate
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.run import integer_session
from edgemeta.toolchain.simulate.training.config import load_config
from edgemeta.toolchain.simulate.training.job import Job, open_job
from edgemeta.toolchain.simulate.training.train import CHECKPOINT
from edgemeta.toolchain.train.requirements import require_torch

if TYPE_CHECKING:
    from edgemeta.toolchain.torch_network import TorchNetwork

RANGE_IMAGES = 200
"""Training images for the ranges of the tensors that no rule observed."""

BeginStage = Callable[[str], Progress]
"""Begins a stage of this name, and returns what is called with (images done, all images)."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Exported:
    """Result of `export_run`.

    path: the integer model file; sha256: its digest; size: its bytes. accuracy: of the device's integers, simulated: of
    the network under its rules, both percent of `images` test images.
    """

    path: Path
    sha256: str
    size: int
    accuracy: float
    simulated: float
    images: int


def export_run(
    config: Path,
    data: Path,
    test: Path,
    folder: Path,
    out: Path,
    *,
    name: str | None = None,
    stage: BeginStage = lambda _: lambda _done, _total: None,
    report: Report = _log.warning,
) -> Exported:
    """Write the network of a finished run as an integer model file.

    config, data, test, folder: as the run was trained with. name: of the model; None: of network and config. Raises a
    ToolchainError: for a run that is not finished, of another config or other data, and for formats that no device has.
    """
    chosen = load_config(config)
    require_torch()
    from edgemeta.toolchain.simulate.training.run import accuracy_under_rules
    from edgemeta.toolchain.train.workers import ALONE

    job = open_job(chosen, data, test, report)
    network = _trained_network(job, folder)
    simulated = accuracy_under_rules(network, job.measured, ALONE)
    model = integer_model(network, job, name or f"{job.network_name}-{config.stem}", stage("ranges"))
    result = evaluate(model, integer_session(model), job.measured, stage("test images"))
    measured = {
        "test_images": result.images,
        "test_accuracy": result.top1,
        "simulated_test_accuracy": round(simulated / 100, 6),
    }
    digest = save_model(with_self_test(replace(model, provenance={**model.provenance, **measured})), out)
    return Exported(out, digest, out.stat().st_size, 100 * result.top1, simulated, result.images)


def _trained_network(job: Job, folder: Path) -> "TorchNetwork":
    from edgemeta.toolchain.simulate.training.run import simulated_network
    from edgemeta.toolchain.train.checkpoint import RunIdentity, load_checkpoint
    from edgemeta.toolchain.train.workers import ALONE

    state = load_checkpoint(folder / CHECKPOINT, RunIdentity(job.recipe, job.content))
    done, epochs = 0 if state is None else int(state["epoch"]), job.config.epochs
    if state is None or done < epochs:
        raise SimulateError(
            f"{folder}: has {done} of {epochs} epochs, expected a finished run; `edgemeta simulate train` continues it"
        )
    network = simulated_network(job, ALONE)
    network.load_state_dict(state["network"])
    return network.eval()


def integer_model(network: "TorchNetwork", job: Job, name: str, stage: Progress) -> Model:
    """The integers of a job's trained network. stage: called with (images done, all images). Raises SimulateError."""
    from edgemeta.toolchain.simulate.export import export
    from edgemeta.toolchain.simulate.prepare import rounded_weights

    trained = {"training_images": len(job.images), "epochs": job.config.epochs, "recipe_sha256": job.recipe}
    with rounded_weights(network):
        floats = network.classification(name, job.images.labels, trained)
    frames = ArrayFrames(job.images.balanced(RANGE_IMAGES).x, "training images")
    model = export(network, floats, PreparedImages(floats, frames), stage)
    return replace(model, provenance={**model.provenance, **trained})
