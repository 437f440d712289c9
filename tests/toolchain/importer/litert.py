"""What LiteRT's reference kernels give, and how far the integers of an imported network are from theirs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model import reference
from edgemeta.model.graph import INPUT, Model, Preprocessing
from edgemeta.model.tasks import Embedding
from edgemeta.toolchain.importer.builder import Builder
from edgemeta.toolchain.importer.integer_network import IntegerNetwork, integer_network
from edgemeta.toolchain.importer.network import Network
from edgemeta.toolchain.importer.tflite_network import TFLITE_OPERATORS, import_tflite
from edgemeta.toolchain.importer.values import Axes
from edgemeta.toolchain.importer.views import axes_of
from tests.toolchain.importer.views import run

Array = NDArray[Any]


class ReferenceKernels:
    """LiteRT on a file, with its plain kernels. Every tensor can be read, by the name that the import gives it."""

    def __init__(self, path: Path, kernels: str = "BUILTIN_REF") -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        self.network, self.imported = import_tflite(path)
        self._interpreter = Interpreter(
            str(path),
            experimental_op_resolver_type=OpResolverType[kernels],
            experimental_preserve_all_tensors=kernels == "BUILTIN_REF",
        )
        self._interpreter.allocate_tensors()
        self._numbers = {name: number for number, name in enumerate(self.network.shapes)}
        self._views = views_of(self.network, TFLITE_OPERATORS)

    def __call__(self, image: Array) -> None:
        """Run on an image in the file's own order of axes."""
        self._interpreter.set_tensor(self._numbers[self.network.input], image)
        self._interpreter.invoke()

    def tensor(self, name: str) -> Array:
        found: Array = self._interpreter.get_tensor(self._numbers[name])
        return found

    def map(self, name: str, shape: tuple[int, int, int]) -> Array | None:
        """A tensor as [1, H, W, C], if the file has it."""
        if name not in self._numbers:
            return None
        found, (height, width, channels) = self.tensor(name), shape
        if (seen := as_map(found, shape, self._views.get(name))) is not None:
            return seen
        if found.shape == (1, channels, height, width) and found.shape != (1, *shape):
            found = found.transpose(0, 2, 3, 1)
        return found.reshape(1, *shape) if found.size == np.prod(shape) else None


def views_of(network: Network, operators: Mapping[str, Any]) -> dict[str, Axes | None]:
    """How each tensor of a file is seen, by its name."""
    build = Builder(network)
    for node in network.nodes:
        build.take(node, operators.get(node.op))
    return {name: axes_of(value) for name, value in build.values.items()}


def as_map(found: Array, shape: tuple[int, int, int], view: Axes | None) -> Array | None:
    """A tensor of any rank as the map [1, H, W, C] that is seen so; None for another map."""
    parts = [part for axis in view.axes for part in axis] if view is not None else []
    if view is None or view.map.shape != shape or found.shape != view.shape or not parts:
        return None
    split = found.reshape([size for size, _ in parts])
    return split.transpose(np.argsort([-stride for _, stride in parts])).reshape(1, *shape)


def largest_float_difference(path: Path, kernels: str = "BUILTIN_REF") -> float:
    """Between the imported float network and LiteRT on a random image, as a share of the output's range."""
    litert = ReferenceKernels(path, kernels)
    _, channels, height, width = litert.network.input_shape
    image = np.random.default_rng(0).normal(0, 1, (1, height, width, channels)).astype(np.float32)
    litert(image if litert.network.input_order == "hwc" else image.transpose(0, 3, 1, 2))
    found, shares = run(litert.imported, image.transpose(0, 3, 1, 2)), []
    for name in litert.network.outputs:
        got, wanted = found[name], litert.tensor(name)
        assert got.shape == wanted.shape
        shares.append(float(np.abs(got - wanted).max() / max(float(np.ptp(wanted)), 1e-6)))
    return max(shares)


@dataclass(frozen=True, eq=False)
class Steps:
    """How far integers are from LiteRT's: elements by the number of steps, and images of which the label is the same.

    layers: the same, counted layer by layer, each layer fed with LiteRT's own integers.
    """

    outputs: NDArray[np.int64]
    layers: NDArray[np.int64]
    same_label: float


def integer_steps(path: Path, images: Array, layered: int = 1000) -> Steps:
    """Compare the integer network of a file with LiteRT on images [N, H, W, C] of its input's type.

    layered: how many of the images are compared layer by layer, too.
    """
    kernels = ReferenceKernels(path)
    made = integer_network(kernels.network, kernels.imported, kernels.imported.tensors, path)
    outputs, layers, same = np.zeros(256, np.int64), np.zeros(256, np.int64), 0
    everything = reference.run(_model(made), images)
    for number, image in enumerate(images[:, np.newaxis]):
        kernels(image if kernels.network.input_order == "hwc" else np.ascontiguousarray(image.transpose(0, 3, 1, 2)))
        wanted, found = [], []
        for name, ours in zip(made.outputs, everything, strict=True):
            shape = next(layer.output.shape for layer in made.layers if layer.name == name)
            theirs = kernels.map(name, shape)
            assert theirs is not None, name
            wanted.append(theirs.ravel().astype(int))
            found.append(ours[number].ravel().astype(int))
        outputs += _counted(np.concatenate(wanted), np.concatenate(found))
        same += int(np.argmax(wanted[0]) == np.argmax(found[0]))
        if number < layered:
            layers += _layer_by_layer(kernels, made, image)
    return Steps(_trimmed(outputs), _trimmed(layers), same / len(images))


def _model(made: IntegerNetwork) -> Model:
    colours = {1: "gray", 3: "rgb"}[made.input.shape[2]]
    pixels = Preprocessing("full", colours, np.zeros((1, 256), made.input.dtype))
    return Model("net", made.input, made.layers, made.outputs, Embedding(), pixels)


def _tensors(made: IntegerNetwork, image: Array) -> dict[str, Array]:
    types = made.types
    tensors = {INPUT: image}
    for layer in made.layers:
        tensors[layer.name] = layer.integers([tensors[n] for n in layer.sources], [types[n] for n in layer.sources])
    return tensors


def _layer_by_layer(kernels: ReferenceKernels, made: IntegerNetwork, image: Array) -> NDArray[np.int64]:
    """Of each layer whose tensor the file has: its integers for those that LiteRT has in front of it."""
    types = made.types
    tensors, counts = {INPUT: image}, np.zeros(256, np.int64)
    for layer in made.layers:
        found = layer.integers([tensors[n] for n in layer.sources], [types[n] for n in layer.sources])
        theirs = kernels.map(layer.name, layer.output.shape)
        if theirs is not None:
            counts += _counted(theirs.ravel().astype(int), found.ravel().astype(int))
        tensors[layer.name] = found if theirs is None else theirs
    return counts


def _counted(a: Array, b: Array) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = np.bincount(np.abs(a - b), minlength=256)
    return counts


def _trimmed(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.trim_zeros(counts, "b")
