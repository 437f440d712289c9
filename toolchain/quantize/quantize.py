"""Command `quantize`: converts a float model file to an integer model file."""

import hashlib
import resource
import time
from dataclasses import dataclass, replace
from pathlib import Path

from edgemeta.model.file import save as save_model
from edgemeta.model.float_file import load_float_model
from edgemeta.model.graph import FloatModel
from edgemeta.model.self_test import with_self_test
from edgemeta.toolchain.data.boxed_images import is_boxed
from edgemeta.toolchain.data.class_folders import is_class_folder
from edgemeta.toolchain.data.dataset import is_dataset
from edgemeta.toolchain.data.labelled_images import LabelledImages
from edgemeta.toolchain.quantize.calibration import Calibration
from edgemeta.toolchain.quantize.events import Events, Stage
from edgemeta.toolchain.quantize.measure import (
    Unlabelled,
    boxed_images,
    labelled_images,
    temperature_of,
    with_temperature,
)
from edgemeta.toolchain.quantize.rehearsal import rehearse
from edgemeta.toolchain.quantize.run import require_self_test
from edgemeta.toolchain.quantize.scheme import Scheme, SchemeResult, Tested, TestImages


@dataclass(frozen=True)
class LabelledFiles:
    """Labelled images beside a scheme's own.

    held_out: not used for training, to fit the temperature of the scores. test: to measure both networks on; the
    figures are stored in the model's provenance. Pictures or a video without labels serve, too (`Calibration`).
    """

    held_out: Path | None = None
    test: Path | None = None

    def opened(self, model: FloatModel, events: Events) -> tuple[LabelledImages | None, TestImages | None]:
        """The images of each, for this network. Raises DataError, QuantizeError."""
        held_out = None
        if self.held_out is not None:
            held_out = labelled_images(self.held_out, model, "train", events.left_out)
        if self.test is None:
            return held_out, None
        if is_boxed(self.test):
            return held_out, boxed_images(self.test, model)
        if self.test.exists() and not _has_labels(self.test, model):
            return held_out, Unlabelled(Calibration(self.test).frames(events.left_out))
        return held_out, labelled_images(self.test, model, "test", events.left_out)


def _has_labels(path: Path, model: FloatModel) -> bool:
    """Whether images have labels for a network: folders of pictures name the classes of a classification only."""
    return is_dataset(path) or (model.is_classification and is_class_folder(path))


@dataclass(frozen=True)
class QuantizeResult:
    """Result of `quantize`.

    path: the integer model file; sha256: its digest; size: its bytes. made: what the scheme reports. test: both
    networks on the test images, None without any. temperature: of the scores (1 without held-out images). seconds:
    elapsed. peak_memory: greatest memory of the process so far, bytes.
    """

    path: Path
    sha256: str
    size: int
    made: SchemeResult
    test: Tested | None
    temperature: float
    seconds: float
    peak_memory: int


def quantize(
    float_path: Path,
    out: Path,
    scheme: Scheme,
    *,
    labelled: LabelledFiles | None = None,
    name: str | None = None,
    events: Events | None = None,
) -> QuantizeResult:
    """Quantize a float model file and write the integer model, with its self-test, to `out`.

    name: of the integer model; default: the float model's. Raises ToolchainError, BackendError.
    """
    begin = time.monotonic()
    events, labelled = events or Events(), labelled or LabelledFiles()
    model = load_float_model(float_path)
    rehearse(model, str(float_path))
    held_out, test = labelled.opened(model, events)
    stages = [] if held_out is None else [Stage("held-out images", 0.1 * len(held_out))]
    stages += [] if test is None else [Stage("test images", 1.1 * len(test))]
    made = scheme.run(model, stages, events)
    integer = made.model
    if held_out is not None:
        integer = with_temperature(integer, held_out, events.stage("held-out images"), events.left_out)
    float_digest = hashlib.sha256(float_path.read_bytes()).hexdigest()
    provenance = {**integer.provenance, "float_sha256": float_digest, "float": dict(model.provenance)}
    measured = None
    if test is not None:
        measured = made.measure(model, integer, test, events.stage("test images"))
        provenance |= measured.provenance()
        if provenance.get("test_pixels_sha256") == provenance.get("held_out_pixels_sha256", ""):
            events.left_out(
                f"{labelled.test}: the test images are the held-out ones, to which the temperature was fitted"
            )
    tested = with_self_test(replace(integer, name=name or integer.name, provenance=provenance))
    require_self_test(tested)
    digest = save_model(tested, out)
    return QuantizeResult(
        path=out,
        sha256=digest,
        size=out.stat().st_size,
        made=made,
        test=measured,
        temperature=temperature_of(integer),
        seconds=time.monotonic() - begin,
        peak_memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )
