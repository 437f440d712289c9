"""Launches that make images of camera frames, as plans of their own, and what they must give."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.one_launch.plan import one_launch
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import Buffer, LaunchPlan
from edgemeta.kernels.cuda.preprocess.geometry import FrameLayout, tables_of
from edgemeta.kernels.cuda.preprocess.launch import preprocessing_launch
from edgemeta.model.graph import INPUT, Model, Preprocessing, channels_of
from edgemeta.model.layers import TensorType
from edgemeta.model.preprocess import ImageInput, Rectangle, preprocess


@dataclass(frozen=True, eq=False)
class Target:
    """As `ImageInput`."""

    input: TensorType
    preprocessing: Preprocessing


@dataclass(frozen=True, eq=False)
class Shot:
    """A frame and its regions."""

    pixels: NDArray[np.uint8]
    regions: Sequence[Rectangle]


def target_of(
    size: tuple[int, int], colour: str, crop: Any = "center", signed: bool = True, align: Any = "center"
) -> Target:
    """An input with a random table for each channel, and a random fill for letterboxes."""
    rng = np.random.default_rng(len(colour))
    kind = TensorType((*size, len(channels_of(colour))), signed=signed)
    table = rng.integers(kind.lo, kind.hi + 1, (kind.shape[2], 256)).astype(kind.dtype)
    fill = tuple(map(int, rng.integers(0, 256, kind.shape[2])))
    border = (fill, align) if crop == "letterbox" else ()
    return Target(kind, Preprocessing(crop, colour, table, *border))


def shot(shape: tuple[int, ...], seed: int = 0, value: int | None = None) -> Shot:
    """A whole frame of random pixels, or of one value."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, shape, np.uint8) if value is None else np.full(shape, value, np.uint8)
    return Shot(pixels, [Rectangle(0, 0, shape[0], shape[1])])


def bright(shape: tuple[int, int]) -> Shot:
    """A gray frame of random pixels near 255, whose sums come close to their bounds."""
    pixels = np.random.default_rng(3).integers(240, 256, shape, np.uint8)
    return Shot(pixels, [Rectangle(0, 0, *shape)])


def plan_of(target: ImageInput, shots: Sequence[Shot], architecture: str) -> tuple[LaunchPlan, NDArray[np.uint8]]:
    """One launch for all images, and its batch: the frames lie in the first image of the buffer."""
    layouts = [FrameLayout(target, each.pixels.shape, each.regions) for each in shots]
    tables = tables_of(layouts)
    output = Buffer(INPUT, target.input, packed=True)
    found = ARCHITECTURES[architecture]
    launch = preprocessing_launch(target, found, tables, output)
    frames = launch.arguments[0]
    assert isinstance(frames, Buffer)
    batch = np.full((sum(layout.images for layout in layouts), *frames.shape), 201, np.uint8)
    for layout, offset, each in zip(layouts, tables.offsets, shots, strict=True):
        layout.copy(each.pixels, batch[0].reshape(-1)[offset : offset + layout.nbytes])
    return LaunchPlan(found, (launch,), frames, (output,)), batch


def network_plan_of(
    model: Model, shots: Sequence[Shot], architecture: str, multiprocessors: int
) -> tuple[LaunchPlan, NDArray[np.uint8]]:
    """A network that begins with the preprocessing, as one launch for a number of multiprocessors, and its batch."""
    alone, batch = plan_of(model, shots, architecture)
    network = lower(model, ARCHITECTURES[architecture])
    (preprocessing,), (images,) = alone.launches, alone.outputs
    arguments = tuple(network.input if each is images else each for each in preprocessing.arguments)
    launches = (replace(preprocessing, arguments=arguments), *network.launches)
    return one_launch(replace(network, launches=launches, input=alone.input), multiprocessors), batch


def expected_of(target: ImageInput, shots: Sequence[Shot]) -> NDArray[Any]:
    """The images by the definition."""
    images = []
    for each in shots:
        for part in each.regions:
            pixels = each.pixels[part.top : part.top + part.height, part.left : part.left + part.width]
            images.append(preprocess(pixels, target.input, target.preprocessing))
    return np.stack(images)
