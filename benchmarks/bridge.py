r"""Networks of others, retrained in PyTorch and written back: their integers in PyTorch beside the reference's.

    python benchmarks/bridge.py --train train.npz --test coco_val.npz --yolox yolox_nano.onnx \
        --vww vww_96_float.tflite --float mobilenetv2-quarter-cifar10-float.safetensors [--keep]

Each network becomes a module of PyTorch and learns its own float outputs on pictures, once with all weights free, once
in steps with powers of two (scheme `incremental`). It is written as a float graph again and quantized, by scheme
`auto` and without a multiplier. Both integer networks run as modules of PyTorch and in the reference: how many integers
of all outputs differ on the test pictures, and for a detection the mean average precision on them, at an overlap of one
half.

Pictures: JPEG containers with boxes (docs/test-data.md), of any sizes. With --keep the results, network by network, are
in benchmarks/results/bridge.{md,json}. Exits with 1 where an integer differs.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.result_file import RESULTS, GrowingResult
from edgemeta.model import reference
from edgemeta.model.float_file import load_float_model
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.tasks import Detection
from edgemeta.toolchain.data.boxed_images import BoxedImages
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.importer.heads.coco import COCO
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.pixels import Pixels
from edgemeta.toolchain.incremental.imitation import PictureParts
from edgemeta.toolchain.incremental.run import imitated, integer_network
from edgemeta.toolchain.incremental.settings import IncrementalSettings
from edgemeta.toolchain.quantize.auto import quantize_auto
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.compare import Expected
from edgemeta.toolchain.quantize.measure import measure_boxes, silent
from edgemeta.toolchain.torch_network import IntegerNetwork

SIZE, BESIDE = 416, 114
SETTINGS = {
    "auto": IncrementalSettings(shares=(0.0,), heat=0.0, batch=32, lr=0.002),
    "incremental": IncrementalSettings(shares=(0.5, 1.0), heat=0.0, batch=32),
}


def main() -> None:
    """Read the command line, measure every network that it names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, required=True, help="pictures to learn from")
    parser.add_argument("--test", type=Path, required=True, help="pictures to measure with")
    for name in ("yolox", "vww", "float"):
        parser.add_argument(f"--{name}", type=Path, help="a network")
    parser.add_argument("--images", type=int, default=100, help="test pictures")
    parser.add_argument("--learn", type=int, default=80, help="pictures to learn from")
    parser.add_argument("--epochs", type=int, default=1, help="passes over these in each step")
    parser.add_argument("--calibrate", type=int, default=16, help="pictures for scales")
    parser.add_argument("--schemes", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--keep", action="store_true", help="write into benchmarks/results")
    chosen = parser.parse_args()
    learn, test = pictures(chosen.train, chosen.learn), pictures(chosen.test, chosen.images)
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        command = "python benchmarks/bridge.py --train TRAIN --test TEST --yolox FILE --vww FILE --float FILE"
        results = RESULTS if chosen.keep else Path(folder)
        keys = ("network", "scheme")
        files = GrowingResult("bridge", command, results, {}, keys, lambda run: (run["network"], run["scheme"]))
        for model in networks(chosen, Path(folder)):
            for scheme in chosen.schemes:
                run = measured(model, scheme, chosen.epochs, learn, test, chosen.calibrate)
                print(run, flush=True)
                files.add(run, {}, table)
                different += run["different"]
    if different:
        raise SystemExit(f"{different} integers differ")


def networks(chosen: argparse.Namespace, folder: Path) -> Iterator[FloatModel]:
    """The float networks that the command names."""
    if chosen.float is not None:
        yield load_float_model(chosen.float)
    for name, path, pixels, labels in (
        ("vww", chosen.vww, Pixels((0.0,), (255.0,)), ("none", "person")),
        ("yolox", chosen.yolox, Pixels(colour="bgr", crop="letterbox", align="corner", fill=(BESIDE,)), COCO),
    ):
        if path is not None:
            yield import_network(path, folder / name, pixels, TaskSettings(labels=labels)).model


@dataclass(frozen=True)
class Pictures:
    """Pictures, letterboxed into one size, with boxes where labels of a network are among their own."""

    x: NDArray[np.uint8]
    boxes: NDArray[np.float32]
    labels: NDArray[np.str_]
    images: NDArray[np.int64]

    def of(self, model: FloatModel) -> BoxedImages:
        """With the boxes of a network's labels."""
        known = model.task.labels if isinstance(model.task, Detection) else ()
        kept = np.isin(self.labels, known)
        classes = np.array([known.index(label) for label in self.labels[kept].tolist()], np.int64)
        return BoxedImages(self.x, self.boxes[kept], classes, self.images[kept], known)


def pictures(path: Path, count: int) -> Pictures:
    """At most `count` pictures of a container, evenly chosen."""
    members: Mapping[str, NDArray[Any]] = np.load(path)
    jpeg, offsets = members["jpeg"], members["offsets"].astype(np.int64)
    total = len(offsets) - 1
    numbers = [i * total // count for i in range(count)] if count < total else list(range(total))
    x = np.full((len(numbers), SIZE, SIZE, 3), BESIDE, np.uint8)
    boxes, labels, images = [], [], []
    for place, number in enumerate(numbers):
        image = cv2.imdecode(jpeg[offsets[number] : offsets[number + 1]], cv2.IMREAD_COLOR)
        factor = SIZE / max(image.shape[:2])
        rows, columns = (round(side * factor) for side in image.shape[:2])
        x[place, :rows, :columns] = cv2.resize(image, (columns, rows), interpolation=cv2.INTER_AREA)[..., ::-1]
        mine = members["box_image"] == number
        scaled = np.clip(members["boxes"][mine] * factor, 0, [columns, rows, columns, rows])
        whole = (scaled[:, 2:] - scaled[:, :2] >= 1).all(1)
        boxes.append(scaled[whole].astype(np.float32))
        labels.append(members["labels"][members["box_label"][mine][whole]])
        images.append(np.full(int(whole.sum()), place, np.int64))
    return Pictures(x, np.concatenate(boxes), np.concatenate(labels), np.concatenate(images))


def measured(
    model: FloatModel, scheme: str, epochs: int, learn: Pictures, test: Pictures, calibrate: int
) -> dict[str, Any]:
    """One network through the bridge and back by a scheme."""
    begin = time.monotonic()
    images, shown = (PreparedImages(model, ArrayFrames(each.x)) for each in (learn, test))
    parts = PictureParts(images, 0.1)
    with tempfile.TemporaryDirectory() as folder:
        trained = imitated(model, replace(SETTINGS[scheme], epochs=epochs), parts, Path(folder)).network
    if scheme == "auto":
        integer = quantize_auto(trained.chain.written(), images.chosen(calibrate), ("mse",)).model
    else:
        integer = integer_network(trained, images.chosen(calibrate))[0]
    different, integers = differences(integer, shown)
    agreement = Expected(model, shown.chosen(calibrate)).measure(integer, scheme)
    run = {
        "network": model.name,
        "scheme": scheme,
        "learned": len(parts.learned),
        "epochs": epochs * len(SETTINGS[scheme].shares),
        "pictures": len(shown),
        "integers": integers,
        "different": different,
        "output_error": round(agreement.error, 5),
    }
    if isinstance(model.task, Detection):
        found = measure_boxes(model, integer, test.of(model), silent)
        run |= {"map50": round(found.integer.at_half, 4), "float_map50": round(found.floating.at_half, 4)}
    return {**run, "seconds": round(time.monotonic() - begin)}


def differences(model: Model, images: PreparedImages) -> tuple[int, int]:
    """How many integers of the outputs differ between PyTorch and the reference, of how many."""
    network, different, integers = IntegerNetwork(model), 0, 0
    for image in images:
        with torch.no_grad():
            found = network(torch.from_numpy(image.copy()))
        for one, other in zip(found, reference.run(model, image), strict=True):
            different += int(np.count_nonzero(one.numpy() != other))
            integers += other.size
    return different, integers


def table(runs: Sequence[Mapping[str, Any]]) -> str:
    """Markdown of all runs."""
    rows = [
        "| network | scheme | learned from | pictures | integers | that differ | relative error | mAP50, float |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        precision = f"{run['map50']:.1%}, {run['float_map50']:.1%}" if "map50" in run else ""
        compared = f"{run['integers']:,} | {run['different']} | {run['output_error']:.4f}"
        rows.append(
            f"| {run['network']} | {run['scheme']} | {run['learned']} pictures, {run['epochs']} epochs "
            f"| {run['pictures']} | {compared} | {precision} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    main()
