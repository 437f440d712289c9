"""How far imported networks are from the runtimes they were made for.

    python benchmarks/imports.py [--yolox FILE]              float; writes results/imports.{md,json}
    python benchmarks/imports.py --integers --data FOLDER    int8; writes results/import-integers.{md,json}

Float: beside ONNX Runtime on a random image, as a share of each output's range. YOLOX-nano is a file of others
(docs/test-data.md); the eleven topologies have random weights (topologies.py).

Integers: networks that others made int8: labels, steps of outputs and of each layer. FOLDER holds files of others and
images (docs/test-data.md). LiteRT runs its reference kernels, ONNX Runtime without its optimizations.
"""

import argparse
import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from benchmarks.result_file import write_json, write_markdown
from benchmarks.topologies import TOPOLOGIES, write_topology
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.zoo import find
from edgemeta.plugins.registry import choose
from edgemeta.toolchain.data.dataset import CIFAR10_LABELS, load_dataset
from edgemeta.toolchain.exporter.onnx_export import export_onnx
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.pixels import Pixels
from tests.toolchain.importer.litert import Steps, integer_steps, largest_float_difference
from tests.toolchain.importer.qdq_steps import qdq_steps, quantized
from tests.toolchain.importer.views import largest_difference

Row = dict[str, Any]


IMAGES = 1000
LIMIT = 1e-4


def main() -> None:
    """Read the command line, compare, write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--yolox", type=Path, help="yolox_nano.onnx")
    parser.add_argument("--integers", action="store_true", help="compare int8 networks of others instead")
    parser.add_argument("--data", type=Path, help="folder of files of others and of images, for --integers")
    arguments = parser.parse_args()
    if not arguments.integers:
        compare_floats(arguments.yolox)
    elif arguments.data is None:
        parser.error("--integers needs --data FOLDER")
    else:
        compare_integers(arguments.data)


def compare_floats(yolox: Path | None) -> None:
    """Compare each float network; exit 1 above LIMIT."""
    differences: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in TOPOLOGIES:
            path = write_topology(name, Path(folder))
            differences[name] = largest_difference(path)
            path.unlink()
            print(f"{name:20} {differences[name]:.1e}", flush=True)
    digest = None
    if yolox is not None:
        differences["yolox_nano"] = largest_difference(yolox)
        digest = hashlib.sha256(yolox.read_bytes()).hexdigest()
        print(f"{'yolox_nano':20} {differences['yolox_nano']:.1e}")
    command = f"python benchmarks/imports.py{' --yolox yolox_nano.onnx' if digest else ''}"
    write_json("imports", command, {"yolox_sha256": digest, "differences": differences})
    rows = "\n".join(f"| {name} | {value:.1e} |" for name, value in differences.items())
    text = (
        "Largest difference between the imported float network and ONNX Runtime (its optimizations off), as a share of "
        f"the output's range. At most {LIMIT:g} is asked.\n\n| network | difference |\n|---|---|\n{rows}\n"
    )
    write_markdown("imports", command, text)
    if max(differences.values()) > LIMIT:
        raise SystemExit(f"a difference is above {LIMIT:g}")


def compare_integers(data: Path) -> None:
    """Compare the int8 networks."""
    outcome: dict[str, Any] = {"tflite_differences": float_rows(data)}
    for name, step in {
        "accuracy": accuracy,
        "exported": exported,
        "litert_itself": litert_itself,
        "tflite": lambda folder: list(tflite_rows(folder)),
        "qdq": lambda _: list(qdq_rows()),
    }.items():
        outcome[name] = step(data)
        print(name, outcome[name], flush=True)
    command = "python benchmarks/imports.py --integers --data FOLDER"
    write_json("import-integers", command, outcome)
    write_markdown("import-integers", command, _text(outcome))


def _text(outcome: dict[str, Any]) -> str:
    rows = "\n".join(f"| {name} | {value:.1e} |" for name, value in outcome["tflite_differences"].items())
    accuracy, exported = outcome["accuracy"], outcome["exported"]
    return (
        'Int8 TFLite files beside LiteRT\'s reference kernels. "Layers" are compared one by one (3 images), each fed '
        f"with LiteRT's own integers.\n\n{_integers(outcome['tflite'])}\n"
        f"LiteRT's default kernels give the label of its reference kernels in {outcome['litert_itself']:.1%} of the "
        "images of the first row. Why whole networks differ: docs/import.md.\n\n"
        f"MLPerf's int8 ResNet-8 on the 10,000 CIFAR-10 test images of the data folder: {accuracy['litert']:.2%} by "
        f"LiteRT's default kernels, {accuracy['imported']:.2%} imported.\n\n"
        "QDQ ONNX as ONNX Runtime quantizes it (random weights, random images), beside ONNX Runtime.\n\n"
        f"{_integers(outcome['qdq'])}\n"
        f"`edgemeta export` of resnet8-cifar10 in ONNX Runtime gives our label in {exported['same_label']:.2%} of "
        f"{exported['images']:,} images.\n\n"
        "Float TFLite files beside LiteRT's reference kernels: largest difference, as a share of its range.\n\n"
        f"| network | difference |\n|---|---|\n{rows}\n"
    )


def _share(share: float | None) -> str:
    """Detections have no one label."""
    return "" if share is None else f"{share:.1%}"


def _integers(found: list[dict[str, Any]]) -> str:
    rows = "\n".join(
        f"| {row['network']} | {row['images']:,} | {_share(row['same_label'])} | {row['outputs_equal']:.1%} | "
        f"{row['outputs_within_one']:.1%} | {row['largest_step']} | {row['layers_equal']:.2%} | "
        f"{row['largest_step_of_a_layer']} |"
        for row in found
    )
    head = "| network | images | same label | outputs equal | within 1 step | largest | layers equal | largest |"
    return f"{head}\n|{'---|' * 8}\n{rows}\n"


def float_rows(data: Path) -> dict[str, float]:
    """Largest difference of float TFLite files from LiteRT, as a share of the output's range."""
    files = ("mlperf_tiny/pretrainedResnet.tflite", "networks/vww_96_float.tflite")
    return {Path(file).stem: largest_float_difference(data / file) for file in files}


def tflite_rows(data: Path) -> Iterator[Row]:
    """The int8 files, on images of the kind they are for."""
    pixels, _ = _cifar(data)
    yield _row("MLPerf ResNet-8", data / "mlperf_tiny/pretrainedResnet_quant.tflite", _signed(pixels[:IMAGES]))
    photos = sorted((data / "clothing" / "train").rglob("*.jpg"))[::3]
    yield _row("visual wake words", data / "networks/vww_96_int8.tflite", _signed(_resized(photos[:IMAGES], 96)))
    frames = _frames(data / "video" / "vtest_480x360.avi", 416, 4)
    yield _row("YOLOX-nano", data / "networks/yolox_nano_int8.tflite", _signed(frames)) | {"same_label": None}


def _row(name: str, path: Path, images: NDArray[np.int8]) -> Row:
    return _described(name, integer_steps(path, images, 3), len(images), path)


def _described(name: str, steps: Steps, images: int, path: Path | None = None) -> Row:
    return {
        "network": name,
        "images": images,
        "same_label": steps.same_label,
        "largest_step": len(steps.outputs) - 1,
        "outputs_equal": float(steps.outputs[0] / steps.outputs.sum()),
        "outputs_within_one": float(steps.outputs[:2].sum() / steps.outputs.sum()),
        "largest_step_of_a_layer": len(steps.layers) - 1,
        "layers_equal": float(steps.layers[0] / steps.layers.sum()),
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest() if path is not None else None,
    }


def qdq_rows() -> Iterator[Row]:
    """Networks with random weights, as ONNX Runtime quantizes them, on random images."""
    images = np.random.default_rng(9).normal(0, 1, (5, 3, 64, 64)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("mobilenet_v2", "resnet18", "squeezenet"):
            steps = qdq_steps(quantized(write_topology(name, Path(folder), 64)), images)
            yield _described(name, steps, len(images))


def litert_itself(data: Path) -> float:
    """Share of images of which LiteRT's default kernels give the label of its reference kernels: MLPerf's ResNet-8."""
    pixels, _ = _cifar(data)
    path, images = data / "mlperf_tiny/pretrainedResnet_quant.tflite", _signed(pixels[:IMAGES])
    ours, theirs = (_litert_labels(path, images, kernels) for kernels in ("AUTO", "BUILTIN_REF"))
    return float((ours == theirs).mean())


def accuracy(data: Path) -> dict[str, float]:
    """Top-1 of MLPerf's int8 file on the CIFAR-10 test images of the data folder, by LiteRT and imported."""
    pixels, labels = _cifar(data)
    path = data / "mlperf_tiny/pretrainedResnet_quant.tflite"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "net.safetensors"
        import_network(path, out, Pixels())
        model = load(out)
    session = choose("cpu").compile(model, {})
    found = np.concatenate([_labels(session.run(batch[np.newaxis])) for batch in _signed(pixels)])
    session.close()
    theirs = _litert_labels(path, _signed(pixels), "AUTO")
    return {"litert": float((theirs == labels).mean()), "imported": float((found == labels).mean())}


def exported(data: Path) -> Row:
    """The shipped network as QDQ ONNX in ONNX Runtime, beside our own integers."""
    import onnxruntime

    pixels, _ = _cifar(data)
    model: Model = load(find("resnet8-cifar10"))
    batch = model.preprocessing.table[0][pixels[:IMAGES]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        export_onnx(model, path)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(str(path), options)
    ours = choose("cpu").compile(model, {})
    same = 0
    for image in batch[:, np.newaxis]:
        real = (image.astype(np.float32) - model.input.zero_point) * np.float32(model.input.scale)
        theirs, *_ = session.run(None, {"input": real.transpose(0, 3, 1, 2)})
        same += int(theirs.argmax() == _labels(ours.run(image))[0])
    ours.close()
    return {"images": len(batch), "same_label": same / len(batch)}


def _labels(outputs: tuple[NDArray[Any], ...]) -> NDArray[np.int64]:
    labels: NDArray[np.int64] = outputs[0].reshape(len(outputs[0]), -1).argmax(1)
    return labels


def _litert_labels(path: Path, images: NDArray[np.int8], kernels: str) -> NDArray[np.int64]:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(str(path), experimental_op_resolver_type=OpResolverType[kernels], num_threads=1)
    interpreter.allocate_tensors()
    source, target = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]
    labels = []
    for image in images[:, np.newaxis]:
        interpreter.set_tensor(source, image)
        interpreter.invoke()
        labels.append(int(interpreter.get_tensor(target).argmax()))
    return np.array(labels)


def _cifar(data: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    test = load_dataset(data / "cifar10" / "test.npz", labels=CIFAR10_LABELS)
    return test.x, test.y


def _signed(pixels: NDArray[np.uint8]) -> NDArray[np.int8]:
    return (pixels.astype(np.int16) - 128).astype(np.int8)


def _resized(photos: list[Path], side: int) -> NDArray[np.uint8]:
    """R, G, B [N, side, side, 3]."""
    images = (cv2.imread(str(photo)) for photo in photos)
    return np.stack([cv2.resize(each, (side, side), interpolation=cv2.INTER_AREA)[..., ::-1] for each in images])


def _frames(clip: Path, side: int, count: int) -> NDArray[np.uint8]:
    """Frames of a clip, B, G, R, scaled to the width and filled with gray below."""
    capture, frames = cv2.VideoCapture(str(clip)), []
    for number in range(count):
        capture.set(cv2.CAP_PROP_POS_FRAMES, number * 180)
        is_read, frame = capture.read()
        assert is_read
        height = side * frame.shape[0] // frame.shape[1]
        filled = np.full((side, side, 3), 114, np.uint8)
        filled[:height] = cv2.resize(frame, (side, height))
        frames.append(filled)
    return np.stack(frames)


if __name__ == "__main__":
    main()
