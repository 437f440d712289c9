"""Scheme `binary`, layer by layer: where the integer form leaves the real-valued decomposition.

    python benchmarks/binary_layers.py --calibrate PATH --test PATH [--float NAME] [--bases 4] [--feature-bits 4]

For weights of 8 and 16 bits as integers: how near a layer's weights are to the real M c, in dB; the share of the
elements of its output that have another integer in the real-valued form, and the mean difference in steps; and the
share where the integer network's own weights run in float32 arithmetic, which leaves the rounding of bias, sums,
requantization, additions and pool. Prints a table and writes results/binary-layers.json and .md.
"""

import argparse
import math
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.result_file import write_json, write_markdown
from edgemeta.model import layers as q
from edgemeta.model.float_file import load_float_model
from edgemeta.model.float_reference import in_order
from edgemeta.model.graph import Model
from edgemeta.model.layers import Conv, Dense, Float32
from edgemeta.model.preprocess import look_up
from edgemeta.model.prove import MAX_OUTPUTS
from edgemeta.model.zoo import find
from edgemeta.toolchain.data.dataset import load_dataset
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.quantize.binary import RealForm
from edgemeta.toolchain.quantize.bit_network import BitNetwork, Bits
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.run import integer_session, needed
from edgemeta.toolchain.quantize.weight_schemes import Binary

INTEGER_BITS = (8, 16)


class IntegerWeights(RealForm):
    """The real-valued form with the weights of an integer network."""

    def __init__(self, network: BitNetwork, scheme: Binary, bits: Bits, integer: Model) -> None:
        super().__init__(network, scheme, bits)
        made = real_weights(integer)
        for number, block in enumerate(self._blocks):
            if isinstance(block.core, Conv | Dense):
                weight = made[block.name].astype(np.float32).reshape(block.core.weights.shape)
                self._blocks[number] = replace(block, core=replace(block.core, weights=weight))


def real_weights(integer: Model) -> dict[str, NDArray[np.float64]]:
    """What the integer weights of each layer stand for."""
    found = {}
    for layer in integer.layers:
        if isinstance(layer, q.Conv | q.Dense):
            decoded = layer.weights.decode()
            found[layer.name] = decoded * layer.weights.scale.reshape(-1, *[1] * (decoded.ndim - 1))
    return found


def integers(model: Model, pixels: NDArray[np.uint8]) -> dict[str, NDArray[np.generic]]:
    """The integers of every layer but the last, whose output are raw sums."""
    names = [layer.name for layer in model.layers if layer.output.bits <= 8]
    batch = np.ascontiguousarray(look_up(model.preprocessing.table, pixels))
    found: dict[str, NDArray[np.generic]] = {}
    with ExitStack() as stack:
        for first in range(0, len(names), MAX_OUTPUTS):
            part = names[first : first + MAX_OUTPUTS]
            session = stack.enter_context(closing(integer_session(needed(model, part))))
            found |= {name: each.copy() for name, each in zip(part, session.run(batch), strict=True)}
    return found


def compared(integer: Model, found: dict[str, NDArray[np.generic]], real: dict[str, Float32]) -> dict[str, list[float]]:
    """Of each layer the share of elements with another integer, and the mean difference in steps."""
    kinds = integer.types
    result = {}
    for name, each in found.items():
        steps = np.rint(real[name] / np.float32(kinds[name].scale)) + kinds[name].zero_point
        off = each.astype(np.float64) - steps
        result[name] = [float((off != 0).mean()), float(off.mean())]
    return result


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--float", default="resnet8-cifar10-float", help="the float network, a shipped name or a file")
    parser.add_argument("--calibrate", required=True, help="calibration images")
    parser.add_argument("--test", required=True, help="images to compare on")
    parser.add_argument("--bases", type=int, default=4)
    parser.add_argument("--feature-bits", type=int, default=4)
    parser.add_argument("--images", type=int, default=200, help="how many of them")
    chosen = parser.parse_args()
    model = load_float_model(find(chosen.float))
    calibrate = load_dataset(Path(chosen.calibrate), "train", model.input_shape[0], print, labels=model.labels)
    test = load_dataset(Path(chosen.test), "test", model.input_shape[0], print, labels=model.labels)
    pixels = in_order(test.x[: chosen.images], model.colour)
    scheme = Binary()
    images = PreparedImages(model, ArrayFrames(calibrate.balanced(200).x, "calibration images"))
    network = BitNetwork(model, images, scheme, Events())
    bits = network.uniform(chosen.bases, chosen.feature_bits)
    real = RealForm(network, scheme, bits).tensors(pixels)
    rows: list[dict[str, object]] = []
    for integer_bits in INTEGER_BITS:
        integer = network.with_scheme(scheme.with_integer_bits(integer_bits)).build(bits)
        found, weights = integers(integer, pixels), real_weights(integer)
        by_real = compared(integer, found, real)
        by_float = compared(integer, found, IntegerWeights(network, scheme, bits, integer).tensors(pixels))
        for name, (share, mean) in by_real.items():
            row: dict[str, object] = {"integer_bits": integer_bits, "layer": name, "decibels": None}
            if name in weights:
                wanted = scheme.decomposition(network.weights[name], chosen.bases).decode()
                off = np.square(weights[name].reshape(wanted.shape) - wanted).sum()
                row["decibels"] = round(10 * math.log10(np.square(wanted).sum() / max(float(off), 1e-30)), 1)
            row |= {"other_percent": round(100 * share, 4), "mean_steps": round(mean, 4)}
            rows.append(row | {"other_percent_same_weights": round(100 * by_float[name][0], 4)})
    lines = [
        "| integer bits | layer | weights, dB | other integers % | mean, steps | with the same weights % |",
        "|---:|---|---:|---:|---:|---:|",
    ]
    lines += ["| " + " | ".join("" if cell is None else str(cell) for cell in row.values()) + " |" for row in rows]
    table = "\n".join(lines)
    print(table)
    widths = f"--bases {chosen.bases} --feature-bits {chosen.feature_bits} --images {chosen.images}"
    names = f"--float {chosen.float} --calibrate {Path(chosen.calibrate).name} --test {Path(chosen.test).name}"
    command = f"python benchmarks/binary_layers.py {names} {widths}"
    write_json("binary-layers", command, {"images": chosen.images, "rows": rows})
    write_markdown("binary-layers", command, table)


if __name__ == "__main__":
    main()
