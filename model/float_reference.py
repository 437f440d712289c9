"""Forward pass of the float graph in NumPy and float32: for calibration, `eval` of a float model and as an oracle."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Progress
from edgemeta.model.graph import INPUT, FloatModel
from edgemeta.model.layers import Float32
from edgemeta.model.preprocess import in_channels


def network_input(model: FloatModel, pixels: NDArray[np.uint8]) -> Float32:
    """(pixel - mean) / scale as float32 [N, H, W, C], for pixels uint8 [N, H, W, 3] in R, G, B order."""
    return normalized(model, in_order(pixels, model.colour))


def normalized(model: FloatModel, pixels: NDArray[np.uint8]) -> Float32:
    """(pixel - mean) / scale as float32 [N, H, W, C], for pixels [N, H, W, C] in the network's own channels."""
    mean, scale = np.array(model.mean, np.float32), np.array(model.scale, np.float32)
    x: Float32 = (pixels.astype(np.float32) - mean) / scale
    return x


def in_order(pixels: NDArray[np.uint8], colour: str) -> NDArray[np.uint8]:
    """Pixels [N, H, W, 3] in R, G, B order, or gray [N, H, W, 1], as those of a network of this `colour`."""
    return in_channels(pixels[..., ::-1], colour)


def all_tensors(model: FloatModel, x: Float32) -> dict[str, Float32]:
    """Run the network on x [N, H, W, C] and return all tensors by name, including the input."""
    return dict(walk(model, x))


def walk(model: FloatModel, x: Float32) -> Iterator[tuple[str, Float32]]:
    """Run the network on x [N, H, W, C] and yield the name and value of every tensor, the input first.

    Only tensors that a later layer reads are kept, so memory is that of the widest place of the network.
    """
    last_use = {name: i for i, layer in enumerate(model.layers) for name in layer.sources}
    tensors = {INPUT: x}
    yield INPUT, x
    for i, layer in enumerate(model.layers):
        with np.errstate(over="ignore", invalid="ignore"):  # who reads the result says that it is infinite
            result = layer.reals([tensors[name] for name in layer.sources])
        for name in set(layer.sources):
            if last_use[name] == i:
                del tensors[name]
        if layer.name in last_use:
            tensors[layer.name] = result
        yield layer.name, result


def outputs(model: FloatModel, x: Float32) -> tuple[Float32, ...]:
    """Run the network on x [N, H, W, C] and return its outputs, each [N, H, W, C]."""
    found = {name: tensor for name, tensor in walk(model, x) if name in model.outputs}
    return tuple(found[name] for name in model.outputs)


def logits(model: FloatModel, pixels: NDArray[np.uint8], batch: int = 250) -> Float32:
    """Logits float32 [N, labels] of pixels uint8 [N, H, W, 3], `batch` images at a time."""
    return np.concatenate(list(logits_in_batches(model, pixels, batch)))


def logits_in_batches(model: FloatModel, pixels: NDArray[np.uint8], batch: int = 250) -> Iterator[Float32]:
    """Yield the logits [<= batch, labels] of each batch; tensors are freed as soon as possible."""
    for start in range(0, len(pixels), batch):
        out = outputs(model, network_input(model, pixels[start : start + batch]))[0]
        yield out.reshape(len(out), -1)


def accuracy(
    model: FloatModel,
    pixels: NDArray[np.uint8],
    y: NDArray[np.integer],
    progress: Progress | None = None,
) -> float:
    """Share 0..1 of images whose greatest logit is that of the label (at a tie the lowest index counts).

    pixels: [N, H, W, 3] in R, G, B order. y: [N]. progress: called with (images done, total images) after every batch.
    """
    right = done = 0
    for out in logits_in_batches(model, pixels):
        right += int((out.argmax(1) == y[done : done + len(out)]).sum())
        done += len(out)
        if progress is not None:
            progress(done, len(y))
    return right / len(y)
