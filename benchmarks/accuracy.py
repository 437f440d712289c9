r"""Accuracy of integer networks beside float ones, each by a command; writes results/NAME.{json,md}.

    python benchmarks/accuracy.py shipped --data PATH
    python benchmarks/accuracy.py unknown --test PATH --clip PATH [--foreign FOLDER ...]
    python benchmarks/accuracy.py imported --float pretrainedResnet.tflite --int8 pretrainedResnet_quant.tflite \
        --train train.npz --test test.npz
    python benchmarks/accuracy.py detection --onnx yolox_nano.onnx --clip vtest_480x360.avi [--model FILE]

shipped: top-1 of the shipped networks on one data set, through `edgemeta eval`. Writes accuracy.

unknown: how well the shipped networks say that they do not know: the share of the clip's frames that get a label,
preprocessed as the service does it; the share of the test images that have a right label and lose it; the calibration
error of the scores of those that keep one; and that of all scores at temperature 1, without a rule. Threshold and
temperature were fitted to images held out of the training; neither the test images nor the clip took part in anything.
Also whether logits and predicted classes equal those without the rule. Writes unknown.

imported: MLPerf Tiny's float ResNet through our import and quantization, beside their own int8 file, on the same test
images. Both run on the cpu backend; their file keeps its integers. Calibrated with 500 training images. Writes
imported_accuracy.

detection: how many objects of ONNX Runtime's float YOLOX-nano ours in int8 finds, on frames that it was not calibrated
on. The network is imported (BGR, letterbox with 114 in the corner at the top left), quantized with 40 of the clip's
first 200 frames, and runs on frames 400, 402, ... on the cpu backend. Both networks see the same preprocessed images;
objects have a score of 0.4 or more and are matched by label and an overlap of one half. Writes detection_accuracy.

--model, of the last two: measure this integer model, which was made so before.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from benchmarks.result_file import write_json, write_markdown
from edgemeta.model.file import load
from edgemeta.model.float_file import load_float_model
from edgemeta.model.float_reference import accuracy
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.prove_float import prove_float
from edgemeta.model.tasks import Classification, Detection
from edgemeta.model.zoo import find
from edgemeta.plugins.registry import choose
from edgemeta.tasks.classification import scores
from edgemeta.tasks.detection.objects import Detector
from edgemeta.toolchain.data.dataset import CIFAR10_LABELS, Dataset, load_dataset
from edgemeta.toolchain.data.frames import ArrayFrames, ClipFrames, FolderFrames, Frames
from edgemeta.toolchain.evaluate.confidence import calibration_error
from edgemeta.toolchain.evaluate.float_detector import FloatDetector
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.pixels import Pixels
from edgemeta.toolchain.quantize.auto import AutoScheme
from edgemeta.toolchain.quantize.calibration import Calibration, PreparedImages
from edgemeta.toolchain.quantize.compare import Matches
from edgemeta.toolchain.quantize.measure import integer_logits
from edgemeta.toolchain.quantize.quantize import quantize
from edgemeta.toolchain.reject.evidence import without_rejection
from edgemeta.toolchain.reject.reject import measure

NETWORKS = ("resnet8-cifar10-float", "resnet8-cifar10", "resnet8-cifar10-paper", "resnet8-cifar10-pot5")
REJECTING = ("resnet8-cifar10", "resnet8-cifar10-paper")
EVERY = 1 << 30
IMAGES, MOST_POINTS_LOST = 500, 0.3
LIMIT, ORT_INT8 = 0.96, 0.930
FRAMES, LAST, FIRST_TEST, STEP = 40, 200, 400, 2
_TINY = 1e-12


def main() -> None:
    """Measure what the command names, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    of_shipped, of_unknown, of_imported, of_detection = (commands.add_parser(name) for name in COMMANDS)
    of_shipped.add_argument("--data", required=True, help="labelled images, as for `edgemeta eval`")
    of_unknown.add_argument("--test", type=Path, required=True, help="the 10,000 test images")
    of_unknown.add_argument("--clip", type=Path, required=True, help="a clip that shows none of the labels")
    of_unknown.add_argument("--foreign", type=Path, action="append", default=[], help="other foreign pictures")
    for name in ("--float", "--int8", "--train", "--test"):
        of_imported.add_argument(name, type=Path, required=True)
    of_detection.add_argument("--onnx", type=Path, required=True)
    of_detection.add_argument("--clip", type=Path, required=True)
    for each in (of_imported, of_detection):
        each.add_argument("--model", type=Path, help="an integer model that was made so before")
    arguments = parser.parse_args()
    COMMANDS[arguments.command](arguments)


def shipped(arguments: argparse.Namespace) -> None:
    """Top-1 of the shipped networks, float and integer."""
    data: str = arguments.data
    measured = {name: evaluate(name, data) for name in NETWORKS}
    reference = measured[NETWORKS[0]]["top1"]
    rows = ["| network | top-1 % | less than float | sha256 |", "|---|---|---|---|"]
    for name, result in measured.items():
        rows.append(
            f"| `{name}` | {result['top1']:.2f} | {reference - result['top1']:.2f} | `{result['sha256'][:12]}` |"
        )
    table = "\n".join(rows)
    print(table)
    command = f"python benchmarks/accuracy.py shipped --data {Path(data).name}"
    write_json("accuracy", command, {"data": Path(data).name, "networks": measured})
    write_markdown(
        "accuracy", command, f"Top-1 on `{Path(data).name}`, {measured[NETWORKS[0]]['images']:,} images.\n\n{table}"
    )


def evaluate(name: str, data: str) -> dict[str, float]:
    """What `edgemeta eval NAME --data DATA --json` prints."""
    command = [str(Path(sys.executable).with_name("edgemeta")), "eval", name, "--data", data, "--json"]
    print(" ".join(["edgemeta", *command[1:]]), file=sys.stderr)
    result: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return result


def unknown(paths: argparse.Namespace) -> None:
    """Labels of foreign frames, labels lost, and calibration errors."""
    test = load_dataset(paths.test, labels=CIFAR10_LABELS)
    foreign: list[Frames] = [ClipFrames(paths.clip, EVERY)]
    foreign += [FolderFrames(path, EVERY, print) for path in paths.foreign]
    measured = {name: of_network(load(find(name)), test, foreign) for name in REJECTING}
    rows = [
        "| network | clip: frames with a label % | before % | right labels lost, points | calibration error % |"
        " without rule and temperature | logits as without the rule |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in measured.items():
        rows.append(
            f"| `{name}` | {100 * found['labelled'][paths.clip.name]:.2f} | 100 | {100 * found['lost']:.2f} | "
            f"{100 * found['calibration_error']:.2f} | {100 * found['plain_calibration_error']:.2f} | "
            f"{'yes' if found['same_logits'] else 'no'} |"
        )
    table = "\n".join(rows)
    print(table)
    command = f"python benchmarks/accuracy.py unknown --test {paths.test.name} --clip {paths.clip.name}" + "".join(
        f" --foreign {path.parent.name}/{path.name}" for path in paths.foreign
    )
    write_json("unknown", command, {"test_images": len(test), "networks": measured})
    others = [
        f"`{name}`: of {source} {100 * share:.1f} % get a label."
        for name, found in measured.items()
        for source, share in found["labelled"].items()
        if source != paths.clip.name
    ]
    write_markdown("unknown", command, "\n\n".join([f"{len(test):,} test images.", table, *others]))


def of_network(model: Model, test: Dataset, foreign: list[Frames]) -> dict[str, Any]:
    """The figures of one network, shares 0..1."""
    task = model.task
    assert isinstance(task, Classification)
    assert task.rejection is not None
    found = measure(model, ArrayFrames(test.x))
    plain = measure(without_rejection(model), ArrayFrames(test.x))
    labelled, right = found.evidence >= task.rejection.threshold, found.logits.argmax(1) == test.y
    kind, stated = model.output_types[0], model.provenance["rejection"]
    assert isinstance(stated, dict)
    assert stated["held_out_pixels_sha256"] != test.sha256(), "the rule was fitted to the test images"
    shares = scores(found.logits, kind, task.temperature)
    return {
        "sha256": model.digest,
        "threshold": task.rejection.threshold,
        "temperature": task.temperature,
        "labelled": {
            Path(each.source).name: float((measure(model, each).evidence >= task.rejection.threshold).mean())
            for each in foreign
        },
        "lost": float((right & ~labelled).mean()),
        "calibration_error": calibration_error(shares[labelled], test.y[labelled]),
        "plain_calibration_error": calibration_error(scores(found.logits, kind), test.y),
        "same_logits": bool(np.array_equal(found.logits, plain.logits)),
    }


def imported(options: argparse.Namespace) -> None:
    """Measure the three networks."""
    arguments = vars(options)
    command = (
        "python benchmarks/accuracy.py imported --float pretrainedResnet.tflite --int8 pretrainedResnet_quant.tflite "
        "--train train.npz --test test.npz"
    )
    data = load_dataset(arguments["test"], "test", labels=CIFAR10_LABELS)
    with tempfile.TemporaryDirectory() as folder:
        floating, theirs, ours = (Path(folder) / name for name in ("float", "theirs", "ours"))
        import_network(arguments["float"], floating, Pixels())
        import_network(arguments["int8"], theirs, Pixels())
        if arguments["model"] is None:
            quantize(floating, ours, AutoScheme(Calibration(arguments["train"], IMAGES)))
        model = load(arguments["model"] or ours)
        top1 = {
            "float": accuracy(load_float_model(floating), data.x, data.y),
            "int8 of MLPerf": float((integer_logits(load(theirs), data).argmax(1) == data.y).mean()),
            "int8, ours": float((integer_logits(model, data).argmax(1) == data.y).mean()),
        }
    percent = {name: round(100 * share, 2) for name, share in top1.items()}
    choice = model.provenance["choice"]
    write_json(
        "imported_accuracy",
        command,
        {"images": len(data), "top1": percent, "choice": choice, "limit": MOST_POINTS_LOST},
    )
    rows = "\n".join(f"| {name} | {share:.2f} |" for name, share in percent.items())
    text = (
        f"MLPerf Tiny's ResNet on {len(data):,} CIFAR-10 test images in the project's JPEG copy (it was trained on the "
        f"published pixels), labels in CIFAR's order. Ours: {choice}, calibrated "
        f"with {IMAGES} training images; asked: not lower than theirs by more than {MOST_POINTS_LOST} points.\n\n"
        f"| network | top-1 % |\n|---|---|\n{rows}\n"
    )
    write_markdown("imported_accuracy", command, text)
    print(text)


def detection(arguments: argparse.Namespace) -> None:
    """Quantize and compare."""
    command = "python benchmarks/accuracy.py detection --onnx yolox_nano.onnx --clip vtest_480x360.avi"
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "float.safetensors", Path(folder) / "int.safetensors"
        import_network(
            arguments.onnx,
            source,
            Pixels(colour="bgr", crop="letterbox", fill=(114,), align="corner"),
            name="yolox_nano",
        )
        floating = load_float_model(source)
        if arguments.model is None:
            quantize(source, out, AutoScheme(Calibration(arguments.clip, FRAMES, 0, LAST)))
        integer = load(arguments.model or out)
    numbers = ClipFrames(arguments.clip, 1 << 20, FIRST_TEST)
    images = PreparedImages(floating, ClipFrames(arguments.clip, -(-len(numbers) // STEP), FIRST_TEST))
    session = onnxruntime.InferenceSession(str(arguments.onnx))
    (image_name,) = (each.name for each in session.get_inputs())
    theirs, ours, matches = FloatDetector(floating), Detector(integer), Matches()
    with closing(choose("cpu").compile(integer, {})) as runner:
        for image in images:
            (rows,) = session.run(None, {image_name: images.real(image).transpose(0, 3, 1, 2).copy()})
            wanted = theirs.objects(maps(floating, rows[0]))
            matches.add(wanted, ours.objects(tuple(each[0] for each in runner.run(image))))
    values = {
        "choice": integer.provenance["choice"],
        "tried": integer.provenance["tried"],
        "frames": len(images),
        "objects_float": matches.wanted,
        "objects_int8": matches.found,
        "matched": matches.matched,
        "f1": round(matches.f1, 4),
        "limit": LIMIT,
        "onnxruntime_int8_f1": ORT_INT8,
        "model_sha256": integer.digest,
    }
    write_json("detection_accuracy", command, values)
    text = (
        f"YOLOX-nano in int8 ({integer.provenance['choice']}), calibrated with {FRAMES} of the clip's first {LAST} "
        f"frames, against ONNX Runtime's float network on {len(images)} frames from {FIRST_TEST} on: "
        f"{matches.wanted} objects above 0.4 in float, {matches.found} in int8, {matches.matched} in both "
        f"(same label, overlap of one half or more): F1 {matches.f1:.3f}. At least {LIMIT} is asked; ONNX "
        f"Runtime's own int8, min-max and per channel, reached {ORT_INT8} with 40 of the same 200 frames."
    )
    write_markdown("detection_accuracy", command, text)
    print(text)


def maps(model: FloatModel, rows: NDArray[np.float32]) -> Sequence[NDArray[np.float64]]:
    """The logits [1, H, W, C] of the model's outputs from YOLOX's rows [cells, 4 + 1 + labels], scores by sigmoid."""
    shapes, task = prove_float(model, model.name), model.task
    assert isinstance(task, Detection)
    found, begin = {}, 0
    for level in task.levels:
        height, width, _ = shapes[level.boxes]
        part = rows[begin : begin + height * width].astype(np.float64).reshape(1, height, width, -1)
        begin += height * width
        assert level.objectness is not None
        found |= {
            level.boxes: part[..., :4],
            level.objectness: logit(part[..., 4:5]),
            level.classes: logit(part[..., 5:]),
        }
    return [found[name] for name in model.outputs]


def logit(score: NDArray[np.float64]) -> NDArray[np.float64]:
    """The number whose sigmoid is the score."""
    result: NDArray[np.float64] = np.log(np.maximum(score, _TINY)) - np.log(np.maximum(1 - score, _TINY))
    return result


COMMANDS = {"shipped": shipped, "unknown": unknown, "imported": imported, "detection": detection}


if __name__ == "__main__":
    main()
