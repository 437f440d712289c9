"""Scheme `binary`: the integer form beside the real-valued decomposition, for several numbers of bases and bits.

    python benchmarks/binary_decomposition.py --calibrate PATH --test PATH [--float NAME] [--pairs 6,6 4,6 8,8 4,4]

For each pair of B bases and Q feature bits, the same in every layer: accuracy of the real-valued form (with the integer
network's quantization of all tensors), of the integer form with weights of 8, 12 and 16 bits, and of two controls.
`unquantized branches` is the real-valued form without quantization of what only additions and the pool read. `one ulp`
is the real-valued form with each weight moved by one float32 step: what it differs by is chance that no integer form
can avoid. changed: images of which one form is right and the other is not; by chance the accuracies differ by about the
square root of it. Prints a table, writes results/binary-decomposition.json and .md, and exits with 1 if an integer form
is further than 0.2 points from the real-valued one.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.result_file import write_json, write_markdown
from edgemeta.model.errors import ModelError
from edgemeta.model.graph import Model
from edgemeta.model.preprocess import look_up
from edgemeta.model.prove import prove
from edgemeta.model.zoo import find
from edgemeta.toolchain.data.dataset import Dataset, load_dataset
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.float_model.file import load_float_model
from edgemeta.toolchain.float_model.forward import in_order
from edgemeta.toolchain.float_model.graph import Conv, Dense, FloatModel
from edgemeta.toolchain.quantize.bit_network import BitNetwork, Bits
from edgemeta.toolchain.quantize.blocks import Block
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.real_form import RealForm
from edgemeta.toolchain.quantize.run import integer_session
from edgemeta.toolchain.quantize.weight_schemes import Binary

MOST_POINTS = 0.2
INTEGER_BITS = (8, 12, 16)
_BATCH = 50

Labels = NDArray[np.int64]
Pair = tuple[int, int]
"""Bases, feature bits."""


class OneUlp(RealForm):
    """The real-valued form, each weight one float32 step further from 0."""

    def __init__(self, network: BitNetwork, scheme: Binary, bits: Bits) -> None:
        super().__init__(network, scheme, bits)
        self._blocks = [_moved(block) for block in self._blocks]


def _moved(block: Block) -> Block:
    core = block.core
    if not isinstance(core, Conv | Dense):
        return block
    weight = np.nextafter(core.weight, np.copysign(np.float32(np.inf), core.weight))
    return replace(block, core=replace(core, weight=weight))


class Forms:
    """All forms of one float network on the same test images."""

    def __init__(self, model: FloatModel, calibrate: Dataset, test: Dataset) -> None:
        images = PreparedImages(model, ArrayFrames(calibrate.x, "calibration images"))
        self._scheme = Binary()
        self._network = BitNetwork(model, images, self._scheme, Events())
        self._real: dict[Pair, Labels] = {}
        self._pixels, self.classes = in_order(test.x, model.colour), test.y.astype(np.int64)

    def integer_rows(self, pair: Pair) -> Iterator[dict[str, object]]:
        """The rows of the real-valued form of a pair and of its integer forms."""
        network, scheme = self._network, self._scheme
        bits = network.uniform(*pair)
        self._real[pair] = self._labels(RealForm(network, scheme, bits).logits)
        yield self._row(pair, "real-valued", self._real[pair])
        for integer_bits in INTEGER_BITS:
            integer = network.with_scheme(scheme.with_integer_bits(integer_bits)).build(bits)
            try:
                prove(integer)
            except ModelError:
                continue  # its worst-case sums do not fit int32
            yield self._row(pair, f"{integer_bits}-bit integers", self._of_integers(integer))

    def control_rows(self, pair: Pair) -> Iterator[dict[str, object]]:
        """The rows of both controls of a pair, after its `integer_rows`."""
        network, scheme = self._network, self._scheme
        bits = network.uniform(*pair)
        yield self._row(pair, "one ulp", self._labels(OneUlp(network, scheme, bits).logits))
        branches = RealForm(network, scheme, bits, only_read=True)
        yield self._row(pair, "unquantized branches", self._labels(branches.logits))

    def _row(self, pair: Pair, form: str, found: Labels) -> dict[str, object]:
        right, real_right = found == self.classes, self._real[pair] == self.classes
        return {
            "bases": pair[0],
            "feature_bits": pair[1],
            "form": form,
            "top1": round(100 * float(right.mean()), 2),
            "difference": round(100 * float(right.mean() - real_right.mean()), 2),
            "same_class": round(100 * float((found == self._real[pair]).mean()), 2),
            "changed": int((right != real_right).sum()),
        }

    def _of_integers(self, integer: Model) -> Labels:
        session = integer_session(integer)
        try:
            return self._labels(lambda pixels: session.run(look_up(integer.preprocessing.table, pixels))[0])
        finally:
            session.close()

    def _labels(self, logits: Callable[[NDArray[np.uint8]], NDArray[np.generic]]) -> Labels:
        starts = range(0, len(self._pixels), _BATCH)
        parts = [np.ascontiguousarray(self._pixels[start : start + _BATCH]) for start in starts]
        found: Labels = np.concatenate([logits(part).reshape(len(part), -1).argmax(1) for part in parts])
        return found


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--float", default="resnet8-cifar10-float", help="the float network, a shipped name or a file")
    parser.add_argument("--calibrate", required=True, help="calibration images")
    parser.add_argument("--test", required=True, help="labelled images that all forms are measured on")
    parser.add_argument("--pairs", nargs="+", default=["6,6", "4,6", "8,8", "4,4"], help="bases,feature bits")
    chosen = parser.parse_args()
    model = load_float_model(find(chosen.float))
    calibrate = load_dataset(Path(chosen.calibrate), "train", model.input_shape[0], print, labels=model.labels)
    test = load_dataset(Path(chosen.test), "test", model.input_shape[0], print, labels=model.labels)
    forms = Forms(model, calibrate.balanced(200), test)
    names = f"--calibrate {Path(chosen.calibrate).name} --test {Path(chosen.test).name}"
    rows: list[dict[str, object]] = []
    pairs = [(int(pair.split(",")[0]), int(pair.split(",")[1])) for pair in chosen.pairs]
    listed = " ".join(chosen.pairs)
    command = f"python benchmarks/binary_decomposition.py --float {chosen.float} {names} --pairs {listed}"
    for measured in (forms.integer_rows, forms.control_rows):
        for pair in pairs:
            for row in measured(pair):
                print(*row.values(), file=sys.stderr, flush=True)
                rows.append(row)
            rows.sort(key=lambda row: pairs.index((int(str(row["bases"])), int(str(row["feature_bits"])))))
            write_json("binary-decomposition", command, {"images": len(test), "rows": rows})  # as far as it is
            summary = f"{len(test):,} images; differences are to the real-valued form."
            write_markdown("binary-decomposition", command, f"{summary}\n\n{_table(rows)}")
    print(_table(rows))
    integers = [row for row in rows if str(row["form"]).endswith("integers")]
    sys.exit(any(abs(float(str(row["difference"]))) > MOST_POINTS for row in integers))


def _table(rows: list[dict[str, object]]) -> str:
    lines = [
        "| bases B | bits Q | form | top-1 % | difference, points | same class % | changed images |",
        "|---:|---:|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        cells = row["bases"], row["feature_bits"], row["form"], f"{row['top1']:.2f}", f"{row['difference']:+.2f}"
        lines.append("| " + " | ".join(map(str, (*cells, f"{row['same_class']:.2f}", f"{row['changed']:,}"))) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
