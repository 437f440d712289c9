"""Verb `quantize`: from a float model file to an integer model file."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from edgemeta.model import reference
from edgemeta.model.file import save as save_model
from edgemeta.model.graph import Model
from edgemeta.toolchain.data import Dataset, load_dataset
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.float_file import load_float_model
from edgemeta.toolchain.float_forward import accuracy
from edgemeta.toolchain.quantize.auto import Agreement, quantize_auto
from edgemeta.toolchain.quantize.paper import quantize_paper

Scheme = Literal["paper", "auto"]
SCHEMES: tuple[Scheme, ...] = ("paper", "auto")
DEFAULT_IMAGES = 1000


@dataclass(frozen=True)
class QuantizeResult:
    """What `quantize` made.

    path: the integer model file; sha256: its digest. choice: what scheme auto took (None for paper).
    float_accuracy, accuracy: share 0..1 of the test images named right before and after (None without test images);
    images: how many those are.
    """

    path: Path
    sha256: str
    choice: str | None
    float_accuracy: float | None
    accuracy: float | None
    images: int


def quantize(
    float_path: Path,
    out: Path,
    scheme: Scheme,
    *,
    calibration: Path | None = None,
    images: int = DEFAULT_IMAGES,
    test: Path | None = None,
    progress: Callable[[Agreement], None] | None = None,
) -> QuantizeResult:
    """Quantize a float model file and write the integer model to `out`.

    scheme "auto" needs `calibration`, a data set of which about `images` images are used, as many of each class:
    training images, never those that accuracy is measured on. test: measure both networks on this data set and keep the
    figures in the model's provenance. progress is called with every choice that auto has tried. Raises ToolchainError.
    """
    model = load_float_model(float_path)
    float_digest = hashlib.sha256(float_path.read_bytes()).hexdigest()
    if scheme == "paper":
        integer = quantize_paper(model)
    elif calibration is None:
        raise QuantizeError("scheme auto needs calibration images, found none: name a data set")
    else:
        sample = _fitting(load_dataset(calibration, "train"), model.input_shape, calibration).balanced(images)
        integer = quantize_auto(model, sample.x, progress)
    provenance = {**integer.provenance, "float_sha256": float_digest, "float": dict(model.provenance)}
    float_accuracy = exact = None
    count = 0
    if test is not None:
        data = _fitting(load_dataset(test, "test"), model.input_shape, test)
        count, float_accuracy = len(data), accuracy(model, data.x, data.y)
        exact = integer_accuracy(integer, data)
        provenance |= {
            "test_images": count,
            "test_pixels_sha256": data.sha256(),
            "test_accuracy": exact,
            "float_test_accuracy": float_accuracy,
        }
    digest = save_model(replace(integer, provenance=provenance), out)
    choice = provenance.get("choice")
    return QuantizeResult(out, digest, choice if isinstance(choice, str) else None, float_accuracy, exact, count)


def integer_accuracy(model: Model, data: Dataset) -> float:
    """Share of images 0..1 that the reference interpreter names right (the lowest class at a tie)."""
    table = model.preprocessing.table.reshape(-1)
    guess = reference.run(model, table[data.x]).argmax(1)
    return float((guess == data.y).mean())


def _fitting(data: Dataset, shape: tuple[int, int, int], path: Path) -> Dataset:
    if data.x.shape[1:] != shape:
        raise QuantizeError(f"{path}: images are {data.x.shape[1:]}, expected {shape} as the float model takes")
    return data
