"""What a simulated training works on: config, data, network, and to which run a checkpoint belongs. Without PyTorch."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from edgemeta.model.callbacks import Report
from edgemeta.model.float_file import load_float_model
from edgemeta.model.graph import FloatModel
from edgemeta.model.zoo import find
from edgemeta.toolchain.data.apart import check_apart
from edgemeta.toolchain.data.dataset import Dataset, load_dataset
from edgemeta.toolchain.errors import DataError
from edgemeta.toolchain.simulate.training.config import TrainingConfig
from edgemeta.toolchain.train.designs import Design
from edgemeta.toolchain.train.run_folder import data_digest
from edgemeta.toolchain.train.start import design_of, known_design, require_trainable


@dataclass(frozen=True)
class Job:
    """A training by a config: its data, its network, and what a checkpoint of it belongs to.

    design: None: the network is that of `start`. start: the float model of the first weights, None for random ones.
    recipe, content: SHA-256 (hex) of what decides the steps, and of the data.
    """

    config: TrainingConfig
    images: Dataset
    measured: Dataset
    design: Design | None
    start: FloatModel | None
    recipe: str
    content: str

    @property
    def network_name(self) -> str:
        """Of the network, for file names."""
        if self.design is not None:
            return self.design.name
        return "network" if self.start is None else self.start.name


def open_job(config: TrainingConfig, data: Path, test: Path, report: Report) -> Job:
    """Read and check the data and the first weights of a training. Raises a ToolchainError."""
    first = None if config.start is None else find(config.start)
    start = None if first is None else load_float_model(first)
    own = start if config.network is None and start is not None and known_design(start) is None else None
    size = config.network.size if config.network is not None else None
    if own is not None:
        require_trainable(own, str(config.start))
        size = own.input_shape[0]
    images = load_dataset(data, "train", size, report, labels=config.labels)
    measured = load_dataset(test, "test", size, report, labels=config.labels)
    _check(images, measured, data, test, report)
    if own is not None and own.labels != images.labels:
        raise DataError(
            f"{data}: has {len(images.labels)} classes ({images.labels[0]}, ...), expected the {len(own.labels)} of "
            f"{config.start} ({own.labels[0]}, ...)"
        )
    design = None if own is not None else _design(config, start, images)
    recipe = config.digest(design, None if first is None else hashlib.sha256(first.read_bytes()).hexdigest())
    return Job(config, images, measured, design, start, recipe, data_digest(images, measured))


def _design(config: TrainingConfig, start: FloatModel | None, images: Dataset) -> Design:
    """That of the config; without one, that of `start`. Raises SimulateError, ModelError."""
    given = None if start is None else design_of(start, str(config.start))
    size, classes = images.x.shape[1], len(images.labels)
    if config.network is None and given is not None:
        return replace(given, size=size, classes=classes)
    return config.design(size, classes)


def _check(images: Dataset, measured: Dataset, data: Path, test: Path, report: Report) -> None:
    if images.labels != measured.labels:
        raise DataError(
            f"{test}: has {len(measured.labels)} classes ({measured.labels[0]}, ...), expected the "
            f"{len(images.labels)} of the training images ({images.labels[0]}, ...)"
        )
    height, width = images.x.shape[1:3]
    if height != width or measured.x.shape[1:] != images.x.shape[1:]:
        found = f"{width}x{height} and {measured.x.shape[2]}x{measured.x.shape[1]}"
        raise DataError(f"{data}: training and test images are {found} pixels, expected squares of one size")
    check_apart(images, measured, data, test, report)
