"""`quantize`: makes an integer model file of a float model."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from edgemeta.cli.completion import float_model_names
from edgemeta.cli.incremental_options import incremental_of, incremental_options
from edgemeta.cli.options import json_option, remark, report, writes_files
from edgemeta.cli.stages import Stages
from edgemeta.cli.training_bars import TrainingBars, watched_training
from edgemeta.model.graph import Model
from edgemeta.model.zoo import find
from edgemeta.toolchain.decompose.integer import INT8_BITS, MOST_BITS
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.evaluate.average_precision import Precision
from edgemeta.toolchain.incremental.command import Imitated, IncrementalResult
from edgemeta.toolchain.progress import TrainingEvent
from edgemeta.toolchain.quantize.auto import AutoResult, AutoScheme
from edgemeta.toolchain.quantize.binary import (
    BASES,
    FEATURE_BITS,
    BinaryBoxesMeasured,
    BinaryMeasured,
    BinaryResult,
    BinaryScheme,
    RealMeasured,
)
from edgemeta.toolchain.quantize.calibration import DATASET_IMAGES, DISTILL_PICTURES, PICTURES, Calibration
from edgemeta.toolchain.quantize.compare import decibels
from edgemeta.toolchain.quantize.events import Agreement, Events, Stage, StageName
from edgemeta.toolchain.quantize.loss import Loss, loss_of, loss_of_agreement
from edgemeta.toolchain.quantize.measure import Agreed, BoxesMeasured, Measured
from edgemeta.toolchain.quantize.paper import PaperScheme
from edgemeta.toolchain.quantize.quantize import LabelledFiles, QuantizeResult
from edgemeta.toolchain.quantize.quantize import quantize as quantize_file
from edgemeta.toolchain.quantize.ranges import RANGE_RULES
from edgemeta.toolchain.quantize.scheme import Scheme
from edgemeta.toolchain.train.requirements import require_torch

SCHEMES = ("paper", "auto", "binary", "incremental")
_path = click.Path(path_type=Path)
_SHOWN_LAYERS = 10
_MIB = 1 << 20


@click.command(short_help="Turn a float model into an integer model file.")
@click.argument("float_model", metavar="FLOAT", shell_complete=float_model_names)
@click.option("--scheme", type=click.Choice(SCHEMES), default="auto", show_default=True, help="Quantization scheme.")
@click.option(
    "--calibrate",
    type=_path,
    metavar="PATH",
    help="Images for the choice of scales: a folder of pictures, a video, or a labelled data set.",
)
@click.option(
    "--images",
    "--frames",
    "images",
    type=click.IntRange(min=1),
    help=f"Number of images used, evenly chosen.  [default: {PICTURES}; of a data set {DATASET_IMAGES}]",
)
@click.option("--from", "first", type=click.IntRange(min=0), default=0, help="First frame of a video that may be used.")
@click.option("--to", "last", type=click.IntRange(min=1), help="Frame of a video before which to stop.")
@click.option(
    "--ranges",
    type=click.Choice(("best", *RANGE_RULES)),
    default="best",
    show_default=True,
    help="Ranges of tensors: all values, all but the rarest, those of least square error, or the best by measurement.",
)
@click.option(
    "--distill",
    type=_path,
    metavar="PATH",
    help="Scheme `auto`: pictures to train the last layers on, without labels, where the quantizer alone does not do.",
)
@incremental_options
@click.option(
    "--bases",
    type=click.IntRange(2, 8),
    default=BASES,
    show_default=True,
    metavar="B",
    help="Binary vectors that each layer's weights become in scheme `binary`, 2 to 8.",
)
@click.option(
    "--feature-bits",
    type=click.IntRange(2, 8),
    default=FEATURE_BITS,
    show_default=True,
    metavar="Q",
    help="Bits of the feature maps that layers with weights read in scheme `binary`, 2 to 8.",
)
@click.option(
    "--integer-bits",
    type=click.IntRange(INT8_BITS, MOST_BITS),
    default=INT8_BITS,
    show_default=True,
    metavar="N",
    help="Bits of the weights as integers in scheme `binary`, 8 to 16; more are nearer to real factors, 8 is fastest.",
)
@click.option(
    "--held-out",
    type=_path,
    metavar="PATH",
    help="Labelled images not used for training, to fit the temperature of the scores.",
)
@click.option(
    "--test",
    type=_path,
    metavar="PATH",
    help="Measure both networks on images with labels or boxes, or without (then how they agree); store the figures.",
)
@click.option("--name", help="Name of the model in messages and logs; default: that of the float model.")
@click.option("--out", type=_path, required=True, metavar="FILE", help="The integer model to write.")
@json_option
@writes_files("out")
def quantize(
    float_model: str,
    scheme: str,
    calibrate: Path | None,
    images: int | None,
    first: int,
    last: int | None,
    ranges: str,
    distill: Path | None,
    bases: int,
    feature_bits: int,
    integer_bits: int,
    held_out: Path | None,
    test: Path | None,
    name: str | None,
    out: Path,
    as_json: bool,
    **retraining: Any,
) -> None:
    """Turn the float model FLOAT (a file or a shipped name) into an integer model file.

    `auto` chooses scales with calibration images like those that the camera will deliver; they need no labels. It
    prints how far each choice is from the float network, and the signal-to-noise ratio of every layer, worst first.
    With --distill, which needs PyTorch, weights are then trained to give the float network's outputs on pictures, and
    kept if the network agrees better on calibration images that nothing was fitted to.
    `paper` is exactly the scheme of Terakura et al. (image Q7, weights Q5, activations Q3, tables). `binary` is that of
    Kondo and Yamashita: weights as B vectors of -1 and +1 with integer factors, feature maps of Q bits, no training.
    `incremental` makes every weight 0 or a power of two, as Yamamoto et al., and retrains in steps; nothing is left to
    multiply. It needs --train, --folder and PyTorch; interrupted, the same command continues. Labels are needed for a
    classification of square colour pictures only; any other network learns from its float network.

    \b
    Examples:
      edgemeta quantize net-float.safetensors --calibrate pictures/ --out net.safetensors
      edgemeta quantize net-float.safetensors --calibrate yard.mp4 --frames 200 --from 0 --to 6000 \\
          --out net.safetensors --json
      edgemeta quantize resnet8-cifar10-float --calibrate train.npz --test test.npz --out mine.safetensors
      edgemeta quantize net-float.safetensors --calibrate pictures/ --images 100 --distill pictures/ \\
          --out net.safetensors
      edgemeta quantize mine-float.safetensors --scheme binary --bases 5 --feature-bits 4 --calibrate train.npz \\
          --out binary.safetensors
      edgemeta quantize mine-float.safetensors --scheme paper --test test.npz --out paper.safetensors --json
      edgemeta quantize resnet8-cifar10-float --scheme incremental --bits 4 --train train.npz \\
          --folder runs/pot4 --out pot4.safetensors
    """
    if last is not None and last <= first:
        raise click.BadParameter(f"found {last}, expected more than {first}, the first frame", param_hint="--to")
    calibration = None if calibrate is None else Calibration(calibrate, images, first, last)
    if distill is not None:
        if scheme != "auto":
            raise click.UsageError(f"--distill is for --scheme auto, found {scheme}")
        require_torch()
    retrained = incremental_of(scheme, calibration=calibration, **retraining)
    if retrained is not None:
        chosen: Scheme = retrained
    elif scheme == "paper":
        chosen = PaperScheme()
    elif calibration is None:
        raise QuantizeError(
            f"scheme {scheme} needs calibration images, found none: name a folder, a video or a data set"
        )
    elif scheme == "auto":
        rules = tuple(rule for rule in RANGE_RULES if ranges in ("best", rule))
        chosen = AutoScheme(calibration, rules, None if distill is None else Calibration(distill, DISTILL_PICTURES))
    else:
        chosen = BinaryScheme(calibration, bases, feature_bits, integer_bits)
    continues = scheme == "incremental"
    with watched_training() if continues else closing(TrainingBars()) as bars, closing(_Shown(bars)) as shown:
        files = LabelledFiles(held_out, test)
        result = quantize_file(find(float_model), out, chosen, labelled=files, name=name, events=shown)
    lost = _lost(result)
    report(as_json, _values(result, scheme, lost), _text(result, scheme, lost))
    if lost is not None and lost.too_much:
        hint = "; --distill PICTURES may mend a part of it" if scheme == "auto" and distill is None else ""
        remark(f"warning: {lost.text}{hint}")


def _lost(result: QuantizeResult) -> Loss | None:
    """The loss on the test images; without any, on the images by which scheme `auto` chose the network."""
    made = result.made
    if result.test is not None:
        return loss_of(result.test)
    if not isinstance(made, AutoResult):
        return None
    return loss_of_agreement(made.agreement, f"{made.judged:,} images by which it was chosen")


def _values(result: QuantizeResult, scheme: str, lost: Loss | None) -> dict[str, object]:
    made, test = result.made, result.test
    auto = made if isinstance(made, AutoResult) else None
    validated = made.validation if isinstance(made, IncrementalResult) else None
    validation = validated if isinstance(validated, Measured) else None
    agreement = auto.agreement if auto else validated.agreement if isinstance(validated, Imitated) else None
    real = test.real if isinstance(test, BinaryMeasured) else None
    classes = test if isinstance(test, Measured) else None
    return {
        "path": str(result.path),
        "sha256": result.sha256,
        "bytes": result.size,
        "scheme": scheme,
        "choice": auto.agreement.choice if auto else None,
        "calibration_images": made.images,
        "distill_pictures": auto.distilled if auto else 0,
        "tried": [asdict(each) for each in auto.tried] if auto else [],
        "output_errors": dict(zip(made.model.outputs, agreement.errors, strict=True)) if agreement else {},
        "same_label": _percent(agreement.same_label if agreement else None),
        "same_objects": agreement.same_objects if agreement else None,
        "layers": [asdict(each) for each in made.layers] if isinstance(made, AutoResult | BinaryResult) else [],
        "validation_top1": _percent(validation.accuracy if validation else None),
        "float_validation_top1": _percent(validation.float_accuracy if validation else None),
        "float_top1": _percent(classes.float_accuracy if classes else None),
        "top1": _percent(classes.accuracy if classes else None),
        "real_top1": _percent(real.accuracy if real else None),
        "real_same_label": _percent(real.same_label if real else None),
        "real_changed": _percent(real.changed if real else None),
        **(_boxes_values(test) if isinstance(test, BoxesMeasured) else {}),
        "images": test.images if test else 0,
        "test_agreement": asdict(test.agreement) if isinstance(test, Agreed) else None,
        "lost_points": None if lost is None or lost.points is None else round(lost.points, 2),
        "lost": None if lost is None else lost.text,
        "temperature": result.temperature,
        "calibration_error": _percent(classes.calibration_error if classes else None),
        "plain_calibration_error": _percent(classes.plain_calibration_error if classes else None),
        "seconds": round(result.seconds, 1),
        "peak_memory": result.peak_memory,
    }


def _precisions(boxes: BoxesMeasured) -> tuple[tuple[str, str, Precision | None], ...]:
    real = boxes.real if isinstance(boxes, BinaryBoxesMeasured) else None
    return ("", "integers", boxes.integer), ("real_", "with real factors", real), ("float_", "float", boxes.floating)


def _boxes_values(boxes: BoxesMeasured) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    for key, _, each in _precisions(boxes):
        values[f"{key}map50"] = _percent(None if each is None else each.at_half)
        values[f"{key}map"] = _percent(None if each is None else each.mean)
    return values


def _boxes_text(boxes: BoxesMeasured, images: str) -> Iterator[str]:
    yield f"mean average precision on {boxes.images:,} {images}, at IoU 0.5 and of 0.5 to 0.95:"
    for _, name, each in _precisions(boxes):
        if each is not None:
            yield f"  {name:<17}  {100 * each.at_half:6.2f} %  {100 * each.mean:6.2f} %"


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 4)


def _text(result: QuantizeResult, scheme: str, lost: Loss | None) -> Iterator[str]:
    made, test = result.made, result.test
    choice = ""
    if isinstance(made, AutoResult):
        choice = f", {made.agreement.choice}"
        yield from _auto_text(made)
    if isinstance(made, BinaryResult):
        yield from _binary_text(made)
    yield f"{result.path}: scheme {scheme}{choice}, {result.size:,} bytes, sha256 {result.sha256[:12]}"
    if isinstance(made, IncrementalResult):
        yield from _validation_text(made, made.validation)
    if isinstance(test, Measured):
        real = _real_text(test.real) if isinstance(test, BinaryMeasured) else ""
        yield _top1(test, f"{test.images:,} test images{real}")
    elif isinstance(test, BoxesMeasured):
        yield from _boxes_text(test, "test images")
    if result.temperature != 1.0:
        yield f"temperature of the scores {result.temperature:g}, fitted on the held-out images"
    if isinstance(test, Measured):
        before, after = 100 * test.plain_calibration_error, 100 * test.calibration_error
        yield f"calibration error {after:.2f} % on the test images, at temperature 1 {before:.2f} %"
    if lost is not None:
        yield lost.text
    yield f"{result.seconds:.1f} s, at most {result.peak_memory / _MIB:,.0f} MiB of memory"


def _validation_text(made: IncrementalResult, validation: Measured | Imitated) -> Iterator[str]:
    images = "images held out of the retraining"
    if isinstance(validation, Measured):
        yield _top1(validation, f"{validation.images:,} {images}")
        return
    yield f"{validation.images:,} {images}; agreement with the float network{_same(validation.agreement)}:"
    yield from _output_errors(made.model, validation.agreement)
    if validation.boxes is not None:
        yield from _boxes_text(validation.boxes, images)


def _output_errors(model: Model, agreement: Agreement) -> Iterator[str]:
    for name, error in zip(model.outputs, agreement.errors, strict=True):
        yield f"  output {name}: relative error {error:.2e}, {decibels(1, error):.1f} dB"


def _top1(measured: Measured, images: str) -> str:
    return f"top-1 {100 * measured.accuracy:.2f} % of {images}, float {100 * measured.float_accuracy:.2f} %"


def _auto_text(auto: AutoResult) -> Iterator[str]:
    for each in auto.tried:
        yield f"tried {each.choice}: output error {each.error:.2e}{_same(each)}"
    if auto.distilled and auto.tried[-1] != auto.agreement:
        yield f"distilled on {auto.distilled:,} pictures, but not kept: {auto.agreement.choice} agrees better"
    shown = auto.layers[:_SHOWN_LAYERS]
    width = max(len(each.layer) for each in shown)
    yield f"signal-to-quantization-noise, the worst {len(shown)} of {len(auto.layers)} layers (--json has all):"
    for layer in shown:
        yield f"  {layer.layer:<{width}}  {layer.kind:<14} {layer.decibels:6.1f} dB"
    yield f"{auto.images:,} calibration images; agreement with the float network{_same(auto.agreement)}:"
    yield from _output_errors(auto.model, auto.agreement)


def _binary_text(binary: BinaryResult) -> Iterator[str]:
    width = max(len(each.layer) for each in binary.layers)
    yield "signal-to-noise ratio of the decomposed weights, and with integer factors:"
    for layer in binary.layers:
        errors = f"{layer.decibels:6.1f} dB {layer.integer_decibels:6.1f} dB"
        yield f"  {layer.layer:<{width}}  {layer.weights:>9,} weights, {layer.bases} bases {errors}"


def _real_text(real: RealMeasured) -> str:
    return f", with real factors {100 * real.accuracy:.2f} % (same class {100 * real.same_label:.2f} %)"


def _same(agreement: Agreement) -> str:
    if agreement.objects_of_scores is not None:
        return f", objects agree by {agreement.objects_of_scores:.3f}"
    return "" if agreement.same_label is None else f", same label {agreement.same_label:.2%}"


class _Shown(Events):
    """Shows the retraining, the stages, and what is left out."""

    def __init__(self, bars: TrainingBars) -> None:
        self._bars, self._stages = bars, Stages()

    def retrained(self, event: TrainingEvent) -> None:
        self._bars.show(event)

    def planned(self, stages: Sequence[Stage]) -> None:
        self._bars.close()
        self._stages.plan(stages)

    def begin(self, stage: StageName, detail: str = "") -> None:
        self._stages.begin(stage, detail)

    def progress(self, done: int, total: int) -> None:
        self._stages.progress(done, total)

    def left_out(self, sentence: str) -> None:
        remark(sentence)

    def close(self) -> None:
        """End the bar that is shown."""
        self._stages.close()
