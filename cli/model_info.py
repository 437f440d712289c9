"""What `model info` says of a float model, and of the task and outputs of an integer model."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from edgemeta.model.float_file import next_step
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.prove_float import prove_float
from edgemeta.model.tasks import (
    Classification,
    Detection,
    DetectionLevel,
    MultiLabel,
    ObjectMasks,
    ObjectPoints,
    Segmentation,
    task_name,
)


def task_values(model: Model) -> dict[str, object]:
    """The fields of the task's record without its labels, for `--json`."""
    return {key: value for key, value in asdict(model.task).items() if key != "labels"}


def task_lines(model: Model) -> Iterator[str]:
    """The same as lines of text, then the outputs."""
    task = model.task
    match task:
        case Classification():
            yield f"scores at temperature {task.temperature:g}"
            if task.rejection is not None:
                summed = " + ".join(task.rejection.outputs) or "the greatest logit"
                yield f"unknown below {task.rejection.threshold} of {summed}"
        case MultiLabel():
            yield f"labels are present from a score of {task.score_threshold:g} on"
        case Segmentation():
            yield f"labels are present from a share of {task.least_share:g} of the cells on"
        case Detection():
            yield f"decoding {task.decoding}{', with background' if task.background else ''}, box {task.box_order}"
            yield (
                f"objects from a score of {task.score_threshold:g} on, overlap up to {task.overlap_threshold:g}, "
                + ("" if task.label_overlap is None else f"of different labels {task.label_overlap:g}, ")
                + f"at most {task.max_objects}"
            )
            yield from (_level_line(model, level) for level in task.levels)
            match task.extras:
                case ObjectPoints(names=names):
                    yield f"points of each object: {', '.join(names)}"
                case ObjectMasks(prototypes=name):
                    yield f"masks of the objects: of prototypes {name}"
    for name, kind in zip(model.outputs, model.output_types, strict=True):
        yield f"output {name}: {'x'.join(map(str, kind.shape))}, {kind.bits} bits"


def _level_line(model: Model, level: DetectionLevel) -> str:
    height, width, _ = model.output_types[model.outputs.index(level.classes)].shape
    sides = level.stride or (model.input.shape[1] / width, model.input.shape[0] / height)
    parts = (
        [f"classes {level.classes}"] if level.boxes is None else [f"boxes {level.boxes}", f"classes {level.classes}"]
    )
    if level.sizes is not None:
        parts.append(f"sizes {level.sizes}")
    if level.objectness is not None:
        parts.append(f"objectness {level.objectness}")
    if level.extras is not None:
        parts.append(f"extras {level.extras}")
    if level.anchors:
        parts.append(f"anchors {' '.join(f'{across:g}x{down:g}' for across, down in level.anchors)}")
    return f"level {height}x{width}, stride {sides[0]:g}x{sides[1]:g}: {', '.join(parts)}"


def float_values(model: FloatModel, path: Path) -> dict[str, object]:
    """The values for `--json`."""
    shapes = prove_float(model, str(path))
    return {
        "kind": "float model",
        "name": model.name,
        "input": {"shape": model.input_shape, "colour": model.colour, "crop": model.crop},
        "task": task_name(model.task),
        "labels": model.labels,
        "layers": dict(Counter(type(layer).__name__ for layer in model.layers)),
        "outputs": {name: shapes[name] for name in model.outputs},
        "provenance": dict(model.provenance),
        "next": next_step(path),
    }


def float_lines(model: FloatModel, path: Path) -> Iterator[str]:
    """The same as lines of text."""
    height, width, channels = model.input_shape
    yield f"{model.name}: a float model, before quantization; the service runs integer models"
    yield f"input {height}x{width}x{channels}, colour {model.colour}, crop {model.crop}"
    decoding = f", decoding {model.task.decoding}" if isinstance(model.task, Detection) else ""
    yield f"task {task_name(model.task)}{decoding}"
    if model.labels:
        yield f"labels {', '.join(model.labels)}"
    counts = sorted(Counter(type(layer).__name__ for layer in model.layers).items())
    yield ", ".join(f"{count} {kind}" for kind, count in counts)
    shapes = prove_float(model, str(path))
    yield from (f"output {name}: {' x '.join(map(str, shapes[name]))}" for name in model.outputs)
    yield f"next: {next_step(path)}"
