"""How many objects of ONNX Runtime's float YOLOX-nano ours in int8 finds, on frames that it was not calibrated on.

    python benchmarks/detection_accuracy.py --onnx yolox_nano.onnx --clip vtest_480x360.avi [--model FILE]
        writes results/detection_accuracy.{json,md}

The network is imported (BGR, letterbox with 114 in the corner at the top left), quantized with 40 of the clip's first
200 frames, and runs on frames 400, 402, ... on the cpu backend. Both networks see the same preprocessed images; objects
have a score of 0.4 or more and are matched by label and an overlap of one half. --model: measure this file, which was
made so before.
"""

import argparse
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from benchmarks.result_file import write_json, write_markdown
from edgemeta.model.file import load
from edgemeta.model.tasks import Detection
from edgemeta.plugins.registry import choose
from edgemeta.tasks.detection.objects import Detector
from edgemeta.toolchain.data.frames import ClipFrames
from edgemeta.toolchain.evaluate.float_detector import FloatDetector
from edgemeta.toolchain.float_model.file import load_float_model
from edgemeta.toolchain.float_model.graph import FloatModel
from edgemeta.toolchain.float_model.shapes import check
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.pixels import Pixels
from edgemeta.toolchain.quantize.auto import AutoScheme
from edgemeta.toolchain.quantize.calibration import Calibration, PreparedImages
from edgemeta.toolchain.quantize.compare import Matches
from edgemeta.toolchain.quantize.quantize import quantize

COMMAND = "python benchmarks/detection_accuracy.py --onnx yolox_nano.onnx --clip vtest_480x360.avi"
LIMIT, ORT_INT8 = 0.96, 0.930
FRAMES, LAST, FIRST_TEST, STEP = 40, 200, 400, 2
_TINY = 1e-12


def main() -> None:
    """Read the command line, quantize, compare, write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnx", type=Path, required=True)
    parser.add_argument("--clip", type=Path, required=True)
    parser.add_argument("--model", type=Path, help="an integer model that was made so before")
    arguments = parser.parse_args()
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
    write_json("detection_accuracy", COMMAND, values)
    text = (
        f"YOLOX-nano in int8 ({integer.provenance['choice']}), calibrated with {FRAMES} of the clip's first {LAST} "
        f"frames, against ONNX Runtime's float network on {len(images)} frames from {FIRST_TEST} on: "
        f"{matches.wanted} objects above 0.4 in float, {matches.found} in int8, {matches.matched} in both "
        f"(same label, overlap of one half or more): F1 {matches.f1:.3f}. At least {LIMIT} is asked; ONNX "
        f"Runtime's own int8, min-max and per channel, reached {ORT_INT8} with 40 of the same 200 frames."
    )
    write_markdown("detection_accuracy", COMMAND, text)
    print(text)


def maps(model: FloatModel, rows: NDArray[np.float32]) -> Sequence[NDArray[np.float64]]:
    """The logits [1, H, W, C] of the model's outputs from YOLOX's rows [cells, 4 + 1 + labels], scores by sigmoid."""
    shapes, task = check(model, model.name), model.task
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


if __name__ == "__main__":
    main()
