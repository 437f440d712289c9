"""Accuracy of integer networks on a growing part of the held-out images, and what a trial needs to be built."""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.model.preprocess import look_up
from edgemeta.model.prove import prove
from edgemeta.model.zoo import find
from edgemeta.plugins.registry import choose
from edgemeta.toolchain.data.dataset import Dataset, load_dataset
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.data.labelled_images import in_labels
from edgemeta.toolchain.data.split import split
from edgemeta.toolchain.errors import SearchError
from edgemeta.toolchain.float_model.file import load_float_model
from edgemeta.toolchain.float_model.forward import in_order, normalized, outputs
from edgemeta.toolchain.float_model.graph import Float32, FloatModel
from edgemeta.toolchain.quantize.bit_network import BitNetwork, Bits
from edgemeta.toolchain.quantize.images import PreparedImages
from edgemeta.toolchain.quantize.observer import Observer
from edgemeta.toolchain.quantize.run import integer_session
from edgemeta.toolchain.quantize.weight_schemes import weight_scheme
from edgemeta.toolchain.search.config import SearchConfig
from edgemeta.toolchain.train.requirements import require_torch

if TYPE_CHECKING:
    from edgemeta.toolchain.search.trial_training import TrialTrainer

Report = Callable[[str], None]

_BATCH = 250
_TIMED_RUNS = 200


@dataclass(frozen=True, eq=False)
class Prepared:
    """A search's float network and images.

    judged: those that trials are measured on, in an order of balanced parts. trainer: trains trials, None where they
    keep the float network's weights.
    """

    network: BitNetwork
    judged: Dataset
    held_out: Dataset
    trainer: "TrialTrainer | None"

    def build(self, bits: Bits, epochs: int) -> Model:
        """The integer network of a choice, trained for so many epochs. Raises QuantizeError, SimulateError."""
        if epochs == 0:
            return self.network.build(bits)
        assert self.trainer is not None
        return self.trainer.train(bits, epochs)


def prepare(config: SearchConfig, report: Report) -> Prepared:
    """Read network and data, split them, and measure the ranges of the feature maps. Raises ToolchainError."""
    model = load_float_model(find(config.network))
    if not model.is_classification:
        raise SearchError(f"{config.network}: a search is for a classification, found another task")
    if config.data is None:
        raise SearchError("a search needs labelled images, found none: name them as `data` in its file, or by --data")
    path = Path(config.data)
    loaded = load_dataset(path, "train", model.input_shape[0], report, labels=model.labels)
    data = Dataset(loaded.x, in_labels(loaded.y, loaded.labels, model.labels, path, report), model.labels, loaded.names)
    rest, held_out = split(data, config.held_out.share, config.held_out.seed)
    if len(held_out) < config.images:
        raise SearchError(
            f"{path}: the held-out part has {len(held_out)} images, expected at least the {config.images} of `images`"
        )
    frames = ArrayFrames(rest.balanced(config.calibration).x, str(path))
    observer = Observer()
    images = PreparedImages(model, frames, observer.progress)
    network = BitNetwork(model, images, weight_scheme(config.scheme), observer)
    judged = in_turns(held_out).take(np.arange(config.images))
    return Prepared(network, judged, held_out, _trainer(config, network, rest, judged))


def _trainer(config: SearchConfig, network: BitNetwork, images: Dataset, judged: Dataset) -> "TrialTrainer | None":
    if config.training is None:
        return None
    require_torch()
    from edgemeta.toolchain.search.trial_training import TrialTrainer

    return TrialTrainer(config, config.training, network, images, judged)


def in_turns(data: Dataset) -> Dataset:
    """The images in an order whose every beginning has about equally many of each class."""
    turn = np.empty(len(data), np.int64)
    for label in np.unique(data.y):
        members = np.flatnonzero(data.y == label)
        turn[members] = np.arange(len(members))
    return data.take(np.lexsort((data.y, turn)))


class Evaluator:
    """Runs integer networks on the judged images. evaluated: how many images all runs together had."""

    def __init__(self, model: FloatModel, judged: Dataset) -> None:
        self._pixels = in_order(judged.x, model.colour)
        self._classes = judged.y
        self.evaluated = 0
        parts = [self._pixels[at : at + _BATCH] for at in range(0, len(judged), _BATCH)]
        found = [outputs(model, normalized(model, part))[0].reshape(len(part), -1) for part in parts]
        self.float_logits: Float32 = np.concatenate(found)

    def float_accuracy(self, images: int) -> float:
        """Share 0..1 of the first images that the float network classifies correctly."""
        return self._share(self.float_logits, 0, images)

    def run(self, model: Model) -> "Running":
        """Begin to measure a network, part by part. Raises ProofError for one that no backend may run."""
        prove(model)
        return Running(self, model)

    def microseconds(self, model: Model, backend: str) -> float:
        """The least time of one image on a backend, of many runs. Raises BackendError."""
        image = self._integers(model, 0, 1)
        with closing(choose(backend).compile(model, {})) as session:
            session.run(image)
            times = []
            for _ in range(_TIMED_RUNS):
                begin = time.perf_counter_ns()
                session.run(image)
                times.append(time.perf_counter_ns() - begin)
        return min(times) / 1000

    def _integers(self, model: Model, first: int, last: int) -> NDArray[np.int8] | NDArray[np.uint8]:
        return np.ascontiguousarray(look_up(model.preprocessing.table, self._pixels[first:last]))

    def _share(self, logits: NDArray[np.generic], first: int, last: int) -> float:
        return float((logits[first:last].argmax(1) == self._classes[first:last]).mean())


class Running:
    """One network on a growing number of images; those that it has seen are not run again.

    steps: what one step of each logit is worth, [labels] or [1].
    """

    def __init__(self, evaluator: Evaluator, model: Model) -> None:
        self._evaluator, self._model = evaluator, model
        self._session = integer_session(model)
        self.steps = model.steps(model.outputs[0])
        self._rows: list[NDArray[np.generic]] = []
        self._seen = 0

    def accuracy(self, images: int) -> float:
        """Share 0..1 of the first images that are classified correctly; a tie counts for the lowest class."""
        return self._evaluator._share(self.logits(images), 0, images)

    def logits(self, images: int) -> NDArray[np.generic]:
        """Logits, as integers, of the first images [images, labels] (and of more, where they were asked for before)."""
        while self._seen < images:
            last = min(self._seen + _BATCH, images)
            found = self._session.run(self._evaluator._integers(self._model, self._seen, last))[0]
            self._rows.append(found.reshape(last - self._seen, -1).copy())
            self._evaluator.evaluated += last - self._seen
            self._seen = last
        return np.concatenate(self._rows)

    def close(self) -> None:
        """Free the session."""
        self._session.close()
