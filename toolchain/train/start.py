"""First weights of a training: those of a float model that was trained here before."""

from edgemeta.model.errors import ModelError
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Conv
from edgemeta.model.tasks import task_name
from edgemeta.toolchain.train.designs import Design

ENTRY = "network"
"""Entry of a float model's provenance that describes its network."""


def described(design: Design) -> dict[str, object]:
    """A design for the provenance of the float model."""
    return {"family": design.family, "depth": design.depth, "width": design.width}


def is_trainable(model: FloatModel) -> bool:
    """Whether it is a classification of square colour pictures, which learns from labels."""
    rows, columns, _ = model.input_shape
    return model.is_classification and rows == columns and set(model.colour) <= set("rgb")


def require_trainable(model: FloatModel, source: str) -> None:
    """Raise ModelError with `source` unless it is a classification of square colour pictures."""
    if not model.is_classification:
        raise ModelError(f"{source}: its task is {task_name(model.task)}, expected a classification to train")
    if not is_trainable(model):
        rows, columns, _ = model.input_shape
        raise ModelError(
            f"{source}: its input is {columns}x{rows} pixels of colour {model.colour!r}, expected a square of 'rgb'"
        )


def design_of(model: FloatModel, source: str) -> Design:
    """The design of a float model that was trained here. Raises ModelError with `source` for another network."""
    found = known_design(model)
    if found is None:
        raise ModelError(f"{source}: is no network that `edgemeta train` makes, expected one to start from")
    return found


def known_design(model: FloatModel) -> Design | None:
    """The design of a float model that was trained here, with its size and classes; None for another network."""
    size, classes = model.input_shape[0], len(model.labels)
    entry = model.provenance.get(ENTRY)
    if isinstance(entry, dict) and set(entry) == {"family", "depth", "width"}:
        return Design(classes, size, entry["family"], entry["depth"], entry["width"])
    convolutions = [layer for layer in model.layers if isinstance(layer, Conv)]
    depth = len(convolutions) - 1  # of a residual network: two projections more, the dense layer less
    ours = {f"{kind}{number}" for kind in ("conv", "bn") for number in range(len(convolutions))} | {"fc"}
    is_ours = ours <= {layer.name for layer in model.layers}
    if not convolutions or not is_ours or (depth - 2) % 6 or any(layer.groups > 1 for layer in convolutions):
        return None
    return Design(classes, size, "resnet", depth, len(convolutions[0].real_weights) / 16)
