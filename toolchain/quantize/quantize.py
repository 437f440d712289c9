"""Command `quantize`: converts a float model file to an integer model file."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from edgemeta.model import reference
from edgemeta.model.file import save as save_model
from edgemeta.model.graph import Model
from edgemeta.model.self_test import with_self_test
from edgemeta.model.tasks import Classification
from edgemeta.tasks.classification import logits_of, scores
from edgemeta.toolchain.confidence import calibration_error, fit_temperature
from edgemeta.toolchain.data.dataset import Dataset, load_dataset
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.float_model.file import load_float_model
from edgemeta.toolchain.float_model.forward import accuracy, in_order
from edgemeta.toolchain.float_model.graph import FloatModel
from edgemeta.toolchain.quantize.auto import Agreement, quantize_auto
from edgemeta.toolchain.quantize.paper import quantize_paper

Scheme = Literal["paper", "auto"]
SCHEMES: tuple[Scheme, ...] = ("paper", "auto")
DEFAULT_IMAGES = 1000


@dataclass(frozen=True)
class QuantizeResult:
    """Result of `quantize`.

    path: the integer model file; sha256: its digest. choice: the choice of scheme auto (None for paper).
    float_accuracy, accuracy: share 0..1 of correctly classified test images before and after (None without test
    images); images: their number. temperature: of the scores (1 without held-out images); calibration_error,
    plain_calibration_error: of the integer network's scores on the test images, with and without the temperature.
    """

    path: Path
    sha256: str
    choice: str | None
    float_accuracy: float | None
    accuracy: float | None
    images: int
    temperature: float
    calibration_error: float | None
    plain_calibration_error: float | None


def quantize(
    float_path: Path,
    out: Path,
    scheme: Scheme,
    *,
    calibration: Path | None = None,
    images: int = DEFAULT_IMAGES,
    held_out: Path | None = None,
    test: Path | None = None,
    name: str | None = None,
    progress: Callable[[Agreement], None] | None = None,
) -> QuantizeResult:
    """Quantize a float model file and write the integer model, with its self-test, to `out`.

    scheme "auto" needs `calibration`, a data set of which about `images` images are used, equally many of each class:
    training images, never those for measuring accuracy. held_out: images not used for training, to fit the temperature
    of the scores. test: measure both networks on this data set and store the figures in the model's provenance. name:
    of the integer model; default: the float model's. progress: called with every choice that auto has tried. Raises
    ToolchainError.
    """
    model = load_float_model(float_path)
    if not model.is_classification:
        raise QuantizeError(
            f"{float_path}: has {len(model.outputs)} outputs and {len(model.labels)} labels, expected one output with "
            "a label for each logit: only classification is quantized so far"
        )
    float_digest = hashlib.sha256(float_path.read_bytes()).hexdigest()
    if scheme == "paper":
        integer = quantize_paper(model)
    elif calibration is None:
        raise QuantizeError("scheme auto needs calibration images, found none: name a data set")
    else:
        sample = _fitting(load_dataset(calibration, "train"), model, calibration).balanced(images)
        integer = quantize_auto(model, sample.x, progress)
    provenance = {**integer.provenance, "float_sha256": float_digest, "float": dict(model.provenance)}
    if held_out is not None:
        unseen = _fitting(load_dataset(held_out, "train"), model, held_out)
        temperature = fit_temperature(integer_logits(integer, unseen), integer.output_types[0], unseen.y)
        integer = replace(integer, task=Classification(integer.labels, temperature))
        provenance |= {"held_out_images": len(unseen), "held_out_pixels_sha256": unseen.sha256()}
    float_accuracy = exact = error = plain_error = None
    count = 0
    if test is not None:
        data = _fitting(load_dataset(test, "test"), model, test)
        count, float_accuracy = len(data), accuracy(model, data.x, data.y)
        logits = integer_logits(integer, data)
        exact = float((logits.argmax(1) == data.y).mean())
        error, plain_error = (
            calibration_error(scores(logits, integer.output_types[0], temperature), data.y)
            for temperature in (_temperature(integer), 1.0)
        )
        provenance |= {
            "test_images": count,
            "test_pixels_sha256": data.sha256(),
            "test_accuracy": exact,
            "test_calibration_error": round(error, 6),
            "float_test_accuracy": float_accuracy,
        }
    named = replace(integer, name=name or integer.name, provenance=provenance)
    digest = save_model(with_self_test(named), out)
    choice = provenance.get("choice")
    return QuantizeResult(
        path=out,
        sha256=digest,
        choice=choice if isinstance(choice, str) else None,
        float_accuracy=float_accuracy,
        accuracy=exact,
        images=count,
        temperature=_temperature(integer),
        calibration_error=error,
        plain_calibration_error=plain_error,
    )


def integer_logits(model: Model, data: Dataset) -> NDArray[Any]:
    """Logits [N, labels] of the reference interpreter, as the integers they are."""
    table = model.preprocessing.table.reshape(-1)
    return logits_of(reference.run(model, table[in_order(data.x, model.preprocessing.colour)]))


def _fitting(data: Dataset, model: FloatModel, path: Path) -> Dataset:
    if data.x.shape[1:] != model.input_shape:
        raise QuantizeError(
            f"{path}: images are {data.x.shape[1:]}, expected {model.input_shape}, the float model's input shape"
        )
    if len(data.labels) != len(model.labels):
        raise QuantizeError(
            f"{path}: images have {len(data.labels)} classes, expected {len(model.labels)} as in the float model"
        )
    return data


def _temperature(model: Model) -> float:
    assert isinstance(model.task, Classification)
    return model.task.temperature
