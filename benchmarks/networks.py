"""Networks of others on one core: our cpu backend beside ONNX Runtime, LiteRT and OpenVINO, in one process, by turns.

    taskset -c 0 python benchmarks/networks.py [--yolox yolox_nano.onnx --yolox-model MODEL [--tflite FILE]]

YOLOX-nano at 416 x 416 is a file of others (docs/test-data.md); MODEL is ours of it, made by `edgemeta import` and
`edgemeta quantize`, FILE the TFLite int8 file of the same network. MobileNetV2 at 224 x 224 has random weights
(topologies.py). The int8 files of ONNX Runtime and OpenVINO are made by onnxruntime.quantization (QDQ, per channel);
the MobileNetV2 of our backend is imported from that file, so it has the same integers. Every round gives each runtime
the same number of calls, so that all share whatever else the machine does. Our integers are compared with the
reference's.
Writes results/networks.{json,md}; fails if an integer differs.
"""

import argparse
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.onnx_int8 import write_int8
from benchmarks.result_file import write_json, write_markdown
from benchmarks.topologies import write_topology
from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.plugins.measure import random_image
from edgemeta.plugins.registry import choose
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.pixels import Pixels

OURS = "edgemeta"
Call = Callable[[], object]


@dataclass(frozen=True)
class Entry:
    """A network in its files and ours."""

    name: str
    float_file: Path
    int8_file: Path
    tflite_files: tuple[tuple[str, Path], ...]
    model: Model


def main() -> None:
    """Measure and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--yolox", type=Path, help="yolox_nano.onnx")
    parser.add_argument("--yolox-model", type=Path, help="our integer model of it")
    parser.add_argument("--tflite", type=Path, help="yolox_nano_int8.tflite")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=5, help="calls per round")
    arguments = parser.parse_args()
    if (arguments.yolox is None) != (arguments.yolox_model is None):
        parser.error("--yolox and --yolox-model belong together")
    results: dict[str, Any] = {}
    texts = []
    with tempfile.TemporaryDirectory() as folder:
        for entry in entries(arguments, Path(folder)):
            wrong = mismatches(entry.model)
            times = take_turns(runtimes(entry), arguments.rounds, arguments.calls)
            results[entry.name] = {"mismatches": wrong, "microseconds": (found := figures(times))}
            texts.append(table(entry.name, wrong, found))
            print(texts[-1], flush=True)
    command = shlex.join(["python", "benchmarks/networks.py", *public(sys.argv[1:])])
    write_json("networks", command, results)
    head = (
        f"One image, one thread, one process, taking turns: {arguments.rounds} rounds of {arguments.calls} calls each. "
        "Milliseconds; the last column is the median of edgemeta divided by that of the row."
    )
    write_markdown("networks", command, "\n\n".join([head, *texts]))
    if any(result["mismatches"] for result in results.values()):
        raise SystemExit("integers differ from the reference")


def entries(arguments: argparse.Namespace, folder: Path) -> list[Entry]:
    """The networks to measure, with the files that have to be made."""
    file = write_topology("mobilenet_v2", folder)
    int8 = write_int8(file, folder / "mobilenet_v2-int8.onnx")
    imported = import_network(int8, folder / "mobilenet_v2.safetensors", Pixels(), name="mobilenet_v2")
    assert isinstance(imported.model, Model)
    found = [Entry("MobileNetV2-224", file, int8, (), imported.model)]
    if arguments.yolox is not None:
        int8 = write_int8(arguments.yolox, folder / "yolox-int8.onnx")
        tflite = () if arguments.tflite is None else (("LiteRT int8", arguments.tflite),)
        found.append(Entry("YOLOX-nano-416", arguments.yolox, int8, tflite, load(arguments.yolox_model)))
    return found


def mismatches(model: Model) -> int:
    """Integers of our outputs for a random image that differ from the reference's."""
    image = random_image(model)
    session = choose("cpu").compile(model, {"threads": 1})
    found, wanted = session.run(image), reference.run(model, image)
    return sum(int((a != b).sum()) for a, b in zip(found, wanted, strict=True))


def runtimes(entry: Entry) -> dict[str, Call]:
    """A call of each runtime on an image of its own, by name."""
    return {
        OURS: ours(entry.model),
        "ONNX Runtime float": onnx_runtime(entry.float_file),
        "ONNX Runtime int8": onnx_runtime(entry.int8_file),
        **{name: litert(file) for name, file in entry.tflite_files},
        "OpenVINO float": openvino(entry.float_file),
        "OpenVINO int8": openvino(entry.int8_file),
    }


def ours(model: Model) -> Call:
    """Our cpu backend."""
    session, image = choose("cpu").compile(model, {"threads": 1}), random_image(model)
    return lambda: session.run(image)


def onnx_runtime(file: Path) -> Call:
    """ONNX Runtime, all graph optimizations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    source = session.get_inputs()[0]
    feed = {source.name: random_pixels(source.shape)}
    return lambda: session.run(None, feed)


def litert(file: Path) -> Call:
    """LiteRT (TensorFlow Lite with XNNPACK)."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(file), num_threads=1)
    interpreter.allocate_tensors()
    source, targets = interpreter.get_input_details()[0], interpreter.get_output_details()
    image = np.random.default_rng(0).integers(-128, 128, source["shape"]).astype(source["dtype"])

    def run() -> list[Any]:
        interpreter.set_tensor(source["index"], image)
        interpreter.invoke()
        return [interpreter.get_tensor(target["index"]) for target in targets]

    return run


def openvino(file: Path) -> Call:
    """OpenVINO, latency mode."""
    from openvino import Core, Tensor

    core = Core()
    settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
    request = core.compile_model(core.read_model(file), "CPU", settings).create_infer_request()
    shape = [int(side) for side in request.get_input_tensor().shape]
    request.set_input_tensor(Tensor(random_pixels(shape)))
    return request.infer  # type: ignore[no-any-return]


def random_pixels(shape: Sequence[object]) -> Any:
    """Float32 pixels 0 .. 255; a size that the file leaves open is 1."""
    sides = [side if isinstance(side, int) else 1 for side in shape]
    return np.random.default_rng(0).uniform(0, 255, sides).astype(np.float32)


def take_turns(calls: Mapping[str, Call], rounds: int, count: int) -> dict[str, list[float]]:
    """Microseconds of every call by runtime."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, call in calls.items():
            for _ in range(count):
                begin = time.perf_counter_ns()
                call()
                if number > 0:  # the first round warms up
                    times[name].append((time.perf_counter_ns() - begin) / 1000)
    return times


def figures(times: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Minimum and median by runtime, and how long ours takes as a share of it."""
    own = float(np.median(times[OURS]))
    return {
        name: {
            "min": round(min(taken), 1),
            "median": round(float(np.median(taken)), 1),
            "ours_divided_by_it": round(own / float(np.median(taken)), 3),
        }
        for name, taken in times.items()
    }


def table(name: str, wrong: int, found: Mapping[str, Mapping[str, float]]) -> str:
    """Make the Markdown table of one network."""
    lines = [
        f"{name}: {wrong} integers of our outputs differ from the reference.",
        "",
        "| runtime | min | median | ours / it |",
        "| --- | ---: | ---: | ---: |",
    ]
    for runtime, row in sorted(found.items(), key=lambda item: item[1]["median"]):
        lines.append(
            f"| {runtime} | {row['min'] / 1000:.2f} | {row['median'] / 1000:.2f} | {row['ours_divided_by_it']} |"
        )
    return "\n".join(lines)


def public(arguments: Sequence[str]) -> list[str]:
    """Leave a machine's folders out of the recorded command."""
    return [Path(argument).name if "/" in argument else argument for argument in arguments]


if __name__ == "__main__":
    main()
