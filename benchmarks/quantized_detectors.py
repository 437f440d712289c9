"""Detectors of others quantized by scheme `auto` beside NNCF's default, on the same pictures.

    python benchmarks/quantized_detectors.py --network NAME=FILE ... --train train.npz --coco coco_val.npz [--keep]

Each file is imported without options. 100 pictures of the training part calibrate, evenly chosen; the COCO pictures are
the test (docs/test-data.md). NNCF quantizes the imported float network, written as ONNX, with the same pictures by its
default, for OpenVINO, which also runs it; without these packages its column is empty. All three sets of outputs are
decoded by the same code. Of detectors of COCO's labels the figure is mean average precision, mAP50 and mAP50:95; of
others, as faces, how many objects are those of the float network, as F1: of those above 0.3, and at all scores as
`quantize` counts them.

--keep: write the results.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from torch.onnx.symbolic_helper import parse_args

from benchmarks.known_networks import SURE, Pictures, integer_objects, onnx_difference
from benchmarks.quantized_detection import CALIBRATE, Container, save_pictures
from benchmarks.quantized_networks import timed
from benchmarks.result_file import RESULTS, GrowingResult
from edgemeta.model.file import load
from edgemeta.model.float_file import load_float_model
from edgemeta.model.graph import FloatModel
from edgemeta.model.preprocess import placement, preprocess
from edgemeta.tasks.detection.objects import Object
from edgemeta.tasks.tiles import in_frame
from edgemeta.toolchain.evaluate.average_precision import mean_average_precision
from edgemeta.toolchain.evaluate.detection import least_scores
from edgemeta.toolchain.evaluate.float_detector import FloatDetector
from edgemeta.toolchain.importer.heads.coco import COCO
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.quantize.auto import AutoScheme
from edgemeta.toolchain.quantize.calibration import Calibration, PreparedImages
from edgemeta.toolchain.quantize.compare import Matches
from edgemeta.toolchain.quantize.image import image_input
from edgemeta.toolchain.quantize.quantize import quantize
from edgemeta.toolchain.torch_network import TorchNetwork

COMMAND = "python benchmarks/quantized_detectors.py --network NAME=FILE ... --train train.npz --coco coco_val.npz"
SAME_NETWORK = 1e-4
"""Greatest difference of an output of the network and of its ONNX file, as a share of its range."""
Image = NDArray[np.float32]
"""What a network takes, [1, C, H, W]."""
Run = Callable[[Image], Sequence[NDArray[np.float32]]]
"""Its outputs [1, C', H', W'], in their order."""
Found = list[tuple[Object, ...]]
"""The objects of each picture, in its pixels."""


def main() -> None:
    """Quantize, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", action="append", required=True, metavar="NAME=FILE")
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--coco", type=Path, required=True)
    parser.add_argument("--keep", action="store_true", help="write into benchmarks/results")
    arguments = parser.parse_args()
    test = Pictures.of(arguments.coco)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = RESULTS if arguments.keep else folder
        written = GrowingResult("quantized_detectors", COMMAND, results, {}, ("network",), lambda run: run["network"])
        save_pictures(Container(arguments.train), folder / "pictures")
        for each in arguments.network:
            title, _, file = each.partition("=")
            run = {"network": title} | measured(Path(file), test, folder)
            print(run, flush=True)
            written.add(run, {}, table)
        print(table(written.runs()))


def measured(file: Path, test: Pictures, folder: Path) -> dict[str, Any]:
    """The figures of one network."""
    source, out, exported = folder / "float.safetensors", folder / "int8.safetensors", folder / "float.onnx"
    import_network(file, source, {})
    model, calibration = load_float_model(source), Calibration(folder / "pictures", CALIBRATE)
    names = write_onnx(model, exported)
    if (difference := onnx_difference(exported, model, names)) > SAME_NETWORK:
        raise SystemExit(f"{file}: written as ONNX its outputs differ by {difference:.0e} of their range")
    session = onnxruntime.InferenceSession(str(exported), providers=["CPUExecutionProvider"])
    wanted = objects(model, test, lambda image: session.run(None, {"image": image}))
    ours, spent = timed(lambda: quantize(source, out, AutoScheme(calibration)))
    found = {"ours": list(integer_objects(load(out), test))}
    images = PreparedImages(model, calibration.frames(print))
    nncf, nncf_spent = of_nncf(exported, [channels_first(images.real(each)) for each in images])
    if nncf is not None:
        found["nncf"] = objects(model, test, nncf)
    figures = {key: value for name, each in found.items() for key, value in figure(name, wanted, each, test).items()}
    float_figure = figure("float", wanted, wanted, test)
    return float_figure | figures | {"choice": ours.made.model.provenance["choice"]} | spent | nncf_spent


def write_onnx(model: FloatModel, path: Path) -> list[str]:
    """The float network, whose image is its own input, [1, C, H, W]; returns its outputs' names.

    PyTorch refuses numbers, which the files of others have.
    """

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = TorchNetwork(model).eval()

        def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return self.network.values(image, model.outputs)

    @parse_args("v", "is", "none", "none")
    def nearest(graph: Any, x: Any, size: Sequence[int], *_: Any) -> Any:
        sides = torch.tensor([*x.type().sizes()[:2], *size])
        empty, sizes = (graph.op("Constant", value_t=each) for each in (torch.tensor([]), sides))
        modes = {"mode_s": "nearest", "nearest_mode_s": "floor", "coordinate_transformation_mode_s": "asymmetric"}
        return graph.op("Resize", x, empty, empty, sizes, **modes)

    torch.onnx.register_custom_op_symbolic("aten::_upsample_nearest_exact2d", nearest, 17)
    height, width, channels = model.input_shape
    image = torch.zeros(1, channels, height, width)
    names = [f"output{number}" for number in range(len(model.outputs))]
    torch.onnx.export(
        Whole(), (image,), str(path), opset_version=17, dynamo=False, input_names=["image"], output_names=names
    )
    return names


def objects(model: FloatModel, test: Pictures, run: Run) -> Found:
    """What a network with the float network's outputs finds."""
    detector, wanted, found = FloatDetector(model, least_scores(model.task)), image_input(model), []
    for frame in test.frames:
        integers = preprocess(frame, wanted.input, wanted.preprocessing)[np.newaxis]
        real = (integers.astype(np.float32) - wanted.input.zero_point) * np.float32(wanted.input.scale)
        outputs = [each.transpose(0, 2, 3, 1) for each in run(channels_first(real))]
        found.append(in_frame(detector.objects(outputs), placement(wanted.preprocessing, wanted.input, frame.shape)))
    return found


def of_nncf(file: Path, calibrate: Sequence[Image]) -> tuple[Run | None, dict[str, float]]:
    """NNCF's default, and the times that it took; nothing without its packages."""
    if find_spec("nncf") is None or find_spec("openvino") is None:
        return None, {}
    nncf, openvino = import_module("nncf"), import_module("openvino")
    core = openvino.Core()
    model, data = core.read_model(file), nncf.Dataset(calibrate)
    quantized, spent = timed(lambda: nncf.quantize(model, data, subset_size=len(calibrate)))
    compiled = core.compile_model(quantized, "CPU")
    return lambda image: list(compiled(image).values()), {f"nncf_{key}": value for key, value in spent.items()}


def channels_first(image: NDArray[np.float32]) -> Image:
    """An image [1, H, W, C] as [1, C, H, W]."""
    return np.ascontiguousarray(image.transpose(0, 3, 1, 2))


def figure(name: str, wanted: Found, found: Found, test: Pictures) -> dict[str, Any]:
    """Mean average precision in per cent where a label is one of COCO's; how many objects are the float network's."""
    sure, every = Matches(), Matches()
    for pair in zip(wanted, found, strict=True):
        sure.add(*([each for each in some if each.score >= SURE] for some in pair))
        every.add_at_all_scores(*pair)
    result = {f"{name}_f1": percent(sure.f1), f"{name}_f1_at_all_scores": percent(every.f1)}
    if any(each.label in COCO for each in _all(wanted)):
        known = [[each for each in some if each.label in test.boxes.labels] for some in found]
        precision = mean_average_precision(known, test.boxes)
        result |= {f"{name}_map50": percent(precision.at_half), f"{name}_map": percent(precision.mean)}
    return result


def percent(share: float) -> float:
    """With one digit."""
    return round(100 * share, 1)


def _all(found: Found) -> Iterable[Object]:
    return (each for some in found for each in some)


def table(runs: Sequence[Mapping[str, Any]]) -> str:
    """Markdown of all runs."""
    rows = [
        f"mAP50 / mAP50:95 of 112 COCO pictures, or objects of the float network above {SURE} / at all scores as F1,",
        f"in per cent; {CALIBRATE} others calibrate.",
        "",
        "| network | float | int8 | NNCF | choice | seconds, core s | NNCF |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        keys = ("map50", "map") if "float_map" in run else ("f1", "f1_at_all_scores")
        cells = [" / ".join(str(run.get(f"{name}_{key}", "")) for key in keys) for name in ("float", "ours", "nncf")]
        peer = f"{run.get('nncf_seconds', '')}, {run.get('nncf_core_seconds', '')}"
        times = f"{run['seconds']}, {run['core_seconds']}"
        rows.append(f"| {run['network']} | {' | '.join(cells)} | {run['choice']} | {times} | {peer} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
