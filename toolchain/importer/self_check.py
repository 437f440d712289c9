"""How far an imported float network is from the runtime that its file is for, on two images: it is run after an import.

A tensor at which the import ends is compared wherever the file has it under its name, also before a softmax or a
decoding that the import leaves out.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import INPUT
from edgemeta.model.layers import Float32
from edgemeta.plugins.drawn.crowd import CrowdedScenes
from edgemeta.toolchain.child import ChildError, in_child
from edgemeta.toolchain.importer.builder import Imported
from edgemeta.toolchain.importer.network import ImageShape, Network
from edgemeta.toolchain.importer.pixels import Pixels
from edgemeta.toolchain.importer.runtimes import runtime_of
from edgemeta.toolchain.importer.values import seen

_TINY, _APART = 1e-6, 1e9
_SIDE = 128
_MEMORY, _SECONDS = 1 << 32, 120.0
"""Bytes, beside 16 times those of the file, and time of the comparison."""


def difference(path: Path, network: Network, imported: Imported, pixels: Pixels) -> float | None:
    """The largest difference of an output, as a share of its range or of its greatest magnitude, whichever is greater.

    None where nothing is comparable: without the runtime (ONNX Runtime, LiteRT), for a file that it cannot run, for an
    integer network, for a TFLite file with weights in integers (LiteRT rounds the activations, too), and where the file
    has none of the tensors. network: as imported, perhaps cut. The runtime is run in a child process, which a damaged
    file may end.
    """
    if imported.quantized or network.quantization:
        return None
    memory = _MEMORY + 16 * path.stat().st_size
    try:
        return in_child(lambda: _compared(path, network, imported, pixels), memory, _SECONDS)
    except ChildError:
        return None


def _compared(path: Path, network: Network, imported: Imported, pixels: Pixels) -> float | None:
    runtime, shares = runtime_of(path, network), []
    for image in _images(network.input_shape, pixels):
        wanted, found = runtime(image), run(imported, image)
        for name in set(wanted) & set(found):
            if wanted[name].size == found[name].size:
                shares.append(_share(*(each[name].ravel().astype(np.float64) for each in (wanted, found))))
    return max(shares, default=None)


def _share(wanted: NDArray[np.float64], found: NDArray[np.float64]) -> float:
    """_APART where one of them is infinite or no number and the other is not."""
    same = (wanted == found) | (np.isnan(wanted) & np.isnan(found))
    finite = wanted[np.isfinite(wanted)]
    if not np.isfinite(found[~same]).all() or not np.isfinite(wanted[~same]).all():
        return _APART
    off = np.abs(found[~same] - wanted[~same]).max(initial=0.0)
    reach = max(np.ptp(finite), np.abs(finite).max()) if finite.size else 0.0
    return float(off / max(reach, _TINY))


def run(imported: Imported, image: Float32) -> dict[str, Float32]:
    """Outputs by the file's names, of an image [1, C, H, W]."""
    tensors = {INPUT: np.ascontiguousarray(image.transpose(0, 2, 3, 1))}
    for layer in imported.layers:
        tensors[layer.name] = layer.reals([tensors[name] for name in layer.sources])
    return {name: seen(value, tensors) for name, value in imported.outputs.items()}


def _images(shape: ImageShape, pixels: Pixels) -> tuple[Float32, Float32]:
    """A drawn scene, repeated over the image, and noise of all levels, as the network takes pixels: [1, C, H, W]."""
    _, channels, height, width = shape
    scene = CrowdedScenes(7, _SIDE).draw(0).pixels.transpose(2, 0, 1)
    tiles = (-(-channels // 3), -(-height // _SIDE), -(-width // _SIDE))
    drawn = np.tile(scene, tiles)[:channels, :height, :width]
    noise = np.random.default_rng(7).integers(0, 256, (channels, height, width))
    mean, deviation = (np.array(each, np.float32).reshape(-1, 1, 1) for each in (pixels.mean, pixels.deviation))
    first, second = (((each.astype(np.float32) - mean) / deviation)[np.newaxis] for each in (drawn, noise))
    return first, second
