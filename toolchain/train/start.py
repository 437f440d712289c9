"""First weights of a training: those of a float model that was trained here before."""

from edgemeta.toolchain.errors import FloatModelError
from edgemeta.toolchain.float_model.graph import Conv, FloatModel
from edgemeta.toolchain.train.designs import Design

ENTRY = "network"
"""Entry of a float model's provenance that describes its network."""


def described(design: Design) -> dict[str, object]:
    """A design for the provenance of the float model."""
    return {"family": design.family, "depth": design.depth, "width": design.width}


def design_of(model: FloatModel, source: str) -> Design:
    """The design of a float model that was trained here, with its size and classes.

    Raises FloatModelError with `source` for another network.
    """
    size, classes = model.input_shape[0], len(model.labels)
    entry = model.provenance.get(ENTRY)
    if isinstance(entry, dict) and set(entry) == {"family", "depth", "width"}:
        return Design(classes, size, entry["family"], entry["depth"], entry["width"])
    convolutions = [layer for layer in model.layers if isinstance(layer, Conv)]
    depth = len(convolutions) - 1  # of a residual network: two projections more, the dense layer less
    ours = {f"{kind}{number}" for kind in ("conv", "bn") for number in range(len(convolutions))} | {"fc"}
    is_ours = ours <= {layer.name for layer in model.layers}
    if not convolutions or not is_ours or (depth - 2) % 6 or any(layer.groups > 1 for layer in convolutions):
        raise FloatModelError(f"{source}: is no network that `edgemeta train` makes, expected one to start from")
    return Design(classes, size, "resnet", depth, len(convolutions[0].weight) / 16)
