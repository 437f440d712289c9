"""Command `quantize`: converts a float model file to an integer model file."""

import hashlib
import resource
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from edgemeta.model.file import save as save_model
from edgemeta.model.self_test import with_self_test
from edgemeta.toolchain.data.boxed_images import BoxedImages, is_boxed
from edgemeta.toolchain.data.labelled_images import LabelledImages
from edgemeta.toolchain.decompose.integer import INT8_BITS
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.float_model.file import load_float_model
from edgemeta.toolchain.float_model.graph import FloatModel
from edgemeta.toolchain.quantize.auto import AutoResult, quantize_auto
from edgemeta.toolchain.quantize.binary import (
    BASES,
    FEATURE_BITS,
    BinaryResult,
    RealMeasured,
    measure_real,
    quantize_binary,
)
from edgemeta.toolchain.quantize.boxes import BoxesMeasured, boxed_images, measure_boxes
from edgemeta.toolchain.quantize.calibration import Calibration
from edgemeta.toolchain.quantize.images import PreparedImages
from edgemeta.toolchain.quantize.labelled import (
    Measured,
    labelled_images,
    measure,
    temperature_of,
    with_temperature,
)
from edgemeta.toolchain.quantize.maker import Maker
from edgemeta.toolchain.quantize.observer import Observer
from edgemeta.toolchain.quantize.paper import quantize_paper
from edgemeta.toolchain.quantize.ranges import RANGE_RULES, RangeRule
from edgemeta.toolchain.quantize.rehearsal import rehearse
from edgemeta.toolchain.quantize.run import require_self_test
from edgemeta.toolchain.quantize.stages import stages_of_auto, stages_of_binary, stages_of_measuring

Scheme = Literal["paper", "auto", "binary", "incremental"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)


@dataclass(frozen=True)
class QuantizeResult:
    """Result of `quantize`.

    path: the integer model file; sha256: its digest; size: its bytes. auto, binary: what these schemes report.
    validation: accuracy on the images that scheme incremental holds out, None for others. images: calibration images
    used. test: accuracy, None without test images. real: of scheme binary's real-valued form on the test images. boxes:
    of a detection, in place of these two. temperature: of the scores (1 without held-out images). seconds: elapsed.
    peak_memory: greatest memory of the process so far, bytes.
    """

    path: Path
    sha256: str
    size: int
    auto: AutoResult | None
    binary: BinaryResult | None
    validation: Measured | None
    images: int
    test: Measured | None
    real: RealMeasured | None
    boxes: BoxesMeasured | None
    temperature: float
    seconds: float
    peak_memory: int


def quantize(
    float_path: Path,
    out: Path,
    scheme: Scheme,
    *,
    calibration: Calibration | None = None,
    ranges: tuple[RangeRule, ...] = RANGE_RULES,
    bases: int = BASES,
    feature_bits: int = FEATURE_BITS,
    integer_bits: int = INT8_BITS,
    incremental: Maker | None = None,
    held_out: Path | None = None,
    test: Path | None = None,
    name: str | None = None,
    observer: Observer | None = None,
) -> QuantizeResult:
    """Quantize a float model file and write the integer model, with its self-test, to `out`.

    schemes "auto" and "binary" need `calibration`: images like those that the network will see, never those for
    measuring accuracy. ranges: rules of `auto` for the ranges of tensors, of which the best is taken. bases,
    feature_bits: of `binary`, 2 .. 8, the same in every layer; integer_bits: of its weights as integers, 8 .. 16.
    "incremental" needs `incremental`; its ranges come from
    training images where there is no `calibration`. held_out: labelled images not used for
    training, to fit the temperature of the scores. test: measure both networks on this data set and store the figures
    in the model's provenance. name: of the integer model; default: the float model's. Raises ToolchainError,
    BackendError.
    """
    begin = time.monotonic()
    observer = observer or Observer()
    model = load_float_model(float_path)
    rehearse(model, str(float_path))
    unseen = None if held_out is None else labelled_images(held_out, model, "train", observer.left_out)
    test_data = None if test is None else _test_images(test, model, observer)
    measuring = stages_of_measuring(*(None if each is None else len(each) for each in (unseen, test_data)))
    auto, binary, validation, images = None, None, None, 0
    if scheme == "paper":
        observer.planned(measuring)
        integer = quantize_paper(model)
    elif scheme == "incremental":
        if incremental is None:
            raise QuantizeError("scheme incremental needs labelled training images and a folder for its run")
        made = incremental.make(model, calibration, measuring, observer)
        integer, validation, images = made.model, made.validation, made.images
    elif calibration is None:
        raise QuantizeError(
            f"scheme {scheme} needs calibration images, found none: name a folder, a video or a data set"
        )
    else:
        frames = calibration.frames(observer.left_out)
        is_auto = scheme == "auto"
        stages = stages_of_auto(model, len(frames), len(ranges)) if is_auto else stages_of_binary(len(frames))
        observer.planned((*stages, *measuring))
        prepared = PreparedImages(model, frames, observer.stage("images"))
        images = len(prepared)
        if is_auto:
            auto = quantize_auto(model, prepared, ranges, observer)
            integer = auto.model
        else:
            binary = quantize_binary(model, prepared, bases, feature_bits, observer, integer_bits)
            integer = binary.model
    if unseen is not None:
        integer = with_temperature(integer, unseen, observer.stage("held-out images"), observer.left_out)
    float_digest = hashlib.sha256(float_path.read_bytes()).hexdigest()
    provenance = {**integer.provenance, "float_sha256": float_digest, "float": dict(model.provenance)}
    measured, real, boxes = None, None, None
    if isinstance(test_data, BoxedImages):
        real_form = None if binary is None else binary.real
        boxes = measure_boxes(model, integer, real_form, test_data, observer.stage("test images"))
        provenance |= boxes.provenance()
    elif test_data is not None:
        measured = measure(model, integer, test_data, observer.stage("test images"))
        provenance |= measured.provenance()
        if binary is not None:
            real = measure_real(binary.real, integer, test_data)
            provenance["real_form_test_accuracy"] = real.accuracy
        if measured.pixels_sha256 == integer.provenance.get("held_out_pixels_sha256"):
            observer.left_out(f"{test}: the test images are the held-out ones, to which the temperature was fitted")
    named = replace(integer, name=name or integer.name, provenance=provenance)
    tested = with_self_test(named)
    require_self_test(tested)
    digest = save_model(tested, out)
    return QuantizeResult(
        path=out,
        sha256=digest,
        size=out.stat().st_size,
        auto=auto,
        binary=binary,
        validation=validation,
        images=images,
        test=measured,
        real=real,
        boxes=boxes,
        temperature=temperature_of(integer),
        seconds=time.monotonic() - begin,
        peak_memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def _test_images(path: Path, model: FloatModel, observer: Observer) -> LabelledImages | BoxedImages:
    """What the network is measured on at the end. Raises DataError, QuantizeError."""
    if is_boxed(path):
        return boxed_images(path, model)
    return labelled_images(path, model, "test", observer.left_out)
