"""What `model info` says of a float model."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from edgemeta.model.float_file import next_step
from edgemeta.model.graph import FloatModel
from edgemeta.model.prove_float import prove_float
from edgemeta.model.tasks import Detection, task_name


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
