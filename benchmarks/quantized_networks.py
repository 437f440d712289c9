"""Classifications quantized by scheme `auto` beside NNCF's default: how many pictures keep the float network's label.

    python benchmarks/quantized_networks.py --network NAME=FILE.onnx ... --mean M --scale S --calibrate FOLDER \
        --test FOLDER [--head FOLDER] [--keep]

All networks take R, G, B pixels, (pixel - mean) / scale. 100 pictures calibrate, 500 others are compared, both evenly
chosen from folders of pictures and prepared as `quantize` does it (centre crop). NNCF quantizes the ONNX file with the
same pictures by its default, for OpenVINO, which also runs it; without these packages its column is empty. Times are of
`quantize` and of `nncf.quantize`, elapsed and of all cores; set OPENBLAS_NUM_THREADS=1, as the command line does.

--head: give each network a last linear layer of its own for the labels of this folder, fitted to its pictures
(linear_head.py); the test pictures are of the same labels.

--distill: train on at most 2,000 pictures of the calibration folder, too.

--keep: write the results.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from benchmarks.linear_head import write_with_head
from benchmarks.result_file import RESULTS, GrowingResult
from edgemeta.model.file import load
from edgemeta.model.float_file import load_float_model
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.pixels import Pixels
from edgemeta.toolchain.quantize.auto import AutoScheme
from edgemeta.toolchain.quantize.calibration import DISTILL_PICTURES, Calibration, PreparedImages
from edgemeta.toolchain.quantize.quantize import quantize
from edgemeta.toolchain.quantize.run import integer_session

COMMAND = (
    "python benchmarks/quantized_networks.py --network NAME=FILE.onnx ... --mean M --scale S --calibrate FOLDER "
    "--test FOLDER"
)
CALIBRATE, TEST, HEAD = 100, 500, 1500
Pictures = list[NDArray[np.float32]]
"""As an ONNX network takes them, [1, 3, H, W] each."""


def main() -> None:
    """Quantize, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", action="append", required=True, metavar="NAME=FILE")
    parser.add_argument("--mean", required=True, help="one number, or one for each of R, G, B with commas between")
    parser.add_argument("--scale", required=True, help="as --mean")
    parser.add_argument("--calibrate", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--head", type=Path, help="labelled pictures for a last layer of the network's own")
    parser.add_argument("--distill", action="store_true", help="train on the pictures of --calibrate")
    parser.add_argument("--keep", action="store_true", help="write into benchmarks/results")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = RESULTS if arguments.keep else folder
        written = GrowingResult("quantized_networks", COMMAND, results, {}, ("network",), lambda run: run["network"])
        for each in arguments.network:
            title, _, file = each.partition("=")
            title += "" if arguments.head is None else f", head for {arguments.head.parent.name}"
            title += ", distilled" if arguments.distill else ""
            run = {"network": title} | measured(Path(file), arguments, folder)
            print(run, flush=True)
            written.add(run, {}, table)
        print(table(written.runs()))


def measured(onnx: Path, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The figures of one network."""
    source, out = folder / "float.safetensors", folder / "int8.safetensors"
    if arguments.head is not None:
        onnx = headed(onnx, arguments, folder)
    import_network(onnx, source, pixels_of(arguments), TaskSettings(task="classification"), name=onnx.stem)
    model = load_float_model(source)
    calibrate, test = (
        PreparedImages(model, Calibration(path, count).frames(print))
        for path, count in ((arguments.calibrate, CALIBRATE), (arguments.test, TEST))
    )
    session = onnxruntime.InferenceSession(str(onnx), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    pictures = [channels_first(test.real(image)) for image in test]
    wanted = [int(session.run(None, {name: each})[0].argmax()) for each in pictures]
    pictures_of = Calibration(arguments.calibrate, DISTILL_PICTURES) if arguments.distill else None
    scheme = AutoScheme(Calibration(arguments.calibrate, CALIBRATE), distill=pictures_of)
    ours, spent = timed(lambda: quantize(source, out, scheme))
    with closing(integer_session(load(out))) as integers:
        found = [int(integers.run(image)[0].argmax()) for image in test]
    ours_says = {"same_label": same(found, wanted), "choice": ours.made.model.provenance["choice"]}
    data = [channels_first(calibrate.real(each)) for each in calibrate]
    return {"pictures": len(wanted)} | ours_says | spent | of_nncf(onnx, data, pictures, wanted)


def headed(onnx: Path, arguments: argparse.Namespace, folder: Path) -> Path:
    """The network with a last layer for the labels of --head."""
    source, out = folder / "float.safetensors", folder / "head.onnx"
    import_network(onnx, source, pixels_of(arguments), TaskSettings(task="classification"), name=onnx.stem)
    model = load_float_model(source)
    pictures, labels = [], []
    for number, place in enumerate(sorted(each for each in arguments.head.iterdir() if each.is_dir())):
        images = PreparedImages(model, Calibration(place, HEAD // 10).frames(print))
        pictures += [channels_first(images.real(image)) for image in images]
        labels += [number] * len(images)
    write_with_head(onnx, pictures, labels, out)
    return out


def pixels_of(arguments: argparse.Namespace) -> Pixels:
    """How pictures become numbers."""
    mean, scale = (tuple(map(float, each.split(","))) for each in (arguments.mean, arguments.scale))
    return Pixels(mean=mean, deviation=scale, colour="rgb", crop="center")


def channels_first(image: NDArray[np.float32]) -> NDArray[np.float32]:
    """An image [1, H, W, C] as [1, C, H, W]."""
    return np.ascontiguousarray(image.transpose(0, 3, 1, 2))


def same(found: Sequence[int], wanted: Sequence[int]) -> float:
    """Labels that are equal, in per cent."""
    return round(100 * float(np.mean(np.equal(found, wanted))), 1)


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What it returns, and the seconds that it took: elapsed, and of all cores."""
    begin, before = time.monotonic(), sum(os.times()[:4])  # of this process and of its children
    result = work()
    cores = sum(os.times()[:4]) - before
    return result, {"seconds": round(time.monotonic() - begin, 1), "core_seconds": round(cores, 1)}


def of_nncf(onnx: Path, calibrate: Pictures, pictures: Pictures, wanted: Sequence[int]) -> dict[str, float]:
    """Labels and times of NNCF's default; nothing without its packages."""
    if find_spec("nncf") is None or find_spec("openvino") is None:
        return {}
    nncf, openvino = import_module("nncf"), import_module("openvino")
    core = openvino.Core()
    model = core.read_model(onnx)
    data = nncf.Dataset(calibrate)
    quantized, spent = timed(lambda: nncf.quantize(model, data, subset_size=len(calibrate)))
    compiled = core.compile_model(quantized, "CPU")
    found = [int(compiled(each)[0].argmax()) for each in pictures]
    return {"nncf_same_label": same(found, wanted)} | {f"nncf_{key}": value for key, value in spent.items()}


def table(runs: Sequence[Mapping[str, Any]]) -> str:
    """Markdown of all runs."""
    rows = [
        f"The float network's label, in per cent of at most {TEST} pictures; {CALIBRATE} others calibrate.",
        "",
        "| network | same label | NNCF | choice | seconds, core s | NNCF |",
        "|---|---|---|---|---|---|",
    ]
    for run in runs:
        peer = f"{run.get('nncf_seconds', '')}, {run.get('nncf_core_seconds', '')}"
        rows.append(
            f"| {run['network']} | {run['same_label']} | {run.get('nncf_same_label', '')} | {run['choice']} "
            f"| {run['seconds']}, {run['core_seconds']} | {peer} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    main()
