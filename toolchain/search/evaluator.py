"""Accuracy of integer networks on a growing part of the held-out images, and what a trial needs to be built."""

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Report
from edgemeta.model.float_file import load_float_model
from edgemeta.model.float_reference import in_order, normalized, outputs
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.layers import Float32
from edgemeta.model.preprocess import look_up
from edgemeta.model.prove import prove
from edgemeta.model.tasks import Detection, task_name
from edgemeta.model.zoo import find
from edgemeta.plugins.registry import choose
from edgemeta.toolchain.data.boxed_images import boxed_part, load_boxed_images
from edgemeta.toolchain.data.dataset import Dataset, load_dataset
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.data.labelled_images import in_labels
from edgemeta.toolchain.data.split import split
from edgemeta.toolchain.errors import SearchError
from edgemeta.toolchain.quantize.bit_network import BitNetwork, Bits
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.rehearsal import rehearse
from edgemeta.toolchain.quantize.run import integer_session
from edgemeta.toolchain.quantize.weight_schemes import weight_scheme
from edgemeta.toolchain.search.config import SearchConfig
from edgemeta.toolchain.search.judge import Judge, MeanPrecision, TopOne
from edgemeta.toolchain.train.requirements import require_torch

if TYPE_CHECKING:
    from edgemeta.toolchain.search.trial_training import TrialTrainer

_BATCH = 250
_TIMED_RUNS = 200


@dataclass(frozen=True, eq=False)
class SearchSetup:
    """A search's float network and images.

    judge: has the images that trials are measured on. trainer: trains trials, None where they keep the float network's
    weights.
    """

    network: BitNetwork
    judge: Judge
    trainer: "TrialTrainer | None"

    def build(self, bits: Bits, epochs: int) -> Model:
        """The integer network of a choice, trained for so many epochs. Raises QuantizeError, SimulateError."""
        if epochs == 0:
            return self.network.build(bits)
        assert self.trainer is not None
        return self.trainer.train(bits, epochs)


def prepare(config: SearchConfig, report: Report) -> SearchSetup:
    """Read network and data, split them, and measure the ranges of the feature maps. Raises ToolchainError."""
    model = load_float_model(find(config.network))
    rehearse(model, config.network)
    if not (model.is_classification or isinstance(model.task, Detection)):
        raise SearchError(
            f"{config.network}: a search is for a classification or a detection, found {task_name(model.task)}"
        )
    if config.data is None:
        raise SearchError("a search needs labelled images, found none: name them as `data` in its file, or by --data")
    path = Path(config.data)
    if model.is_classification:
        return _classification(config, model, path, report)
    return _detection(config, model, path)


def _classification(config: SearchConfig, model: FloatModel, path: Path, report: Report) -> SearchSetup:
    loaded = load_dataset(path, "train", model.input_shape[0], report, labels=model.labels)
    data = Dataset(loaded.x, in_labels(loaded.y, loaded.labels, model.labels, path, report), model.labels, loaded.names)
    rest, held_out = split(data, config.held_out.share, config.held_out.seed)
    _require_images(config, path, len(held_out))
    judge = TopOne(held_out, config.images)
    network = _network(config, model, rest.balanced(config.calibration).x)
    return SearchSetup(network, judge, _trainer(config, network, rest, judge.judged))


def _detection(config: SearchConfig, model: FloatModel, path: Path) -> SearchSetup:
    if config.training is not None:
        raise SearchError(f"{config.network}: trials are trained for a classification, found a detection")
    data = load_boxed_images(path, model.labels, model.input_shape[0])
    part = boxed_part(data, config.held_out.share, config.held_out.seed)
    held_out = np.flatnonzero(part)
    _require_images(config, path, len(held_out))
    judge = MeanPrecision(model, data.take(held_out[: config.images]))
    return SearchSetup(_network(config, model, data.x[~part][: config.calibration]), judge, None)


def _require_images(config: SearchConfig, path: Path, held_out: int) -> None:
    if held_out < config.images:
        raise SearchError(
            f"{path}: the held-out part has {held_out} images, expected at least the {config.images} of `images`"
        )


def _network(config: SearchConfig, model: FloatModel, calibration: NDArray[np.uint8]) -> BitNetwork:
    events = Events()
    images = PreparedImages(model, ArrayFrames(calibration, str(config.data)), events.progress)
    return BitNetwork(model, images, weight_scheme(config.scheme), events)


def _trainer(config: SearchConfig, network: BitNetwork, images: Dataset, judged: Dataset) -> "TrialTrainer | None":
    if config.training is None:
        return None
    require_torch()
    from edgemeta.toolchain.search.trial_training import TrialTrainer

    return TrialTrainer(config, config.training, network, images, judged)


class Evaluator:
    """Runs integer networks on the judged images. evaluated: how many images all runs together had."""

    def __init__(self, model: FloatModel, judge: Judge) -> None:
        self._judge = judge
        self._pixels = in_order(judge.x, model.colour)
        self.evaluated = 0
        parts = [self._pixels[at : at + _BATCH] for at in range(0, len(judge.x), _BATCH)]
        found = [outputs(model, normalized(model, part)) for part in parts]
        self._float_outputs = tuple(np.concatenate(each) for each in zip(*found, strict=True))

    def float_accuracy(self, images: int) -> float:
        """Accuracy 0..1 of the float network on the first images."""
        return self._judge.float_accuracy(self._floats(images))

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

    def _floats(self, images: int) -> tuple[Float32, ...]:
        return tuple(each[:images] for each in self._float_outputs)


class Running:
    """One network on a growing number of images; those that it has seen are not run again."""

    def __init__(self, evaluator: Evaluator, model: Model) -> None:
        self._evaluator, self._model = evaluator, model
        self._session = integer_session(model)
        self._parts: list[tuple[NDArray[Any], ...]] = []
        self._seen = 0

    def accuracy(self, images: int) -> float:
        """Accuracy 0..1 on the first images."""
        return self._evaluator._judge.accuracy(self._model, self._outputs(images))

    def error(self, images: int) -> float:
        """The relative square error of the outputs of the first images beside the float network's."""
        return self._evaluator._judge.error(self._model, self._outputs(images), self._evaluator._floats(images))

    def _outputs(self, images: int) -> tuple[NDArray[Any], ...]:
        """The outputs of the first images."""
        while self._seen < images:
            last = min(self._seen + _BATCH, images)
            found = self._session.run(self._evaluator._integers(self._model, self._seen, last))
            self._parts.append(tuple(each.copy() for each in found))
            self._evaluator.evaluated += last - self._seen
            self._seen = last
        return tuple(np.concatenate(each)[:images] for each in zip(*self._parts, strict=True))

    def close(self) -> None:
        """Free the session."""
        self._session.close()
