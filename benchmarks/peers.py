"""ResNet-8 on one thread: ONNX Runtime, OpenVINO, LiteRT and our cpu backend, in one process, taking turns.

    python benchmarks/peers.py

Every round gives each runtime the same number of calls, so that all share whatever else the machine does. LiteRT runs
MLPerf Tiny's file, the same topology with other weights; the others run our integers. That file and the labelled images
come from the folder of docs/test-data.md; what is missing there is left out. Writes results/peers.{json,md}.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.onnx_graph import to_onnx
from benchmarks.peer_runtimes import edgemeta, openvino
from benchmarks.result_file import as_run, write_json, write_markdown
from edgemeta.cli.doctor.runtimes import Runtime, litert, onnx_runtime
from edgemeta.kernels.cpu.library import ISA_NAMES, X86_ISAS, best_isa
from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.zoo import find
from edgemeta.plugins.measure import random_image
from edgemeta.plugins.preprocess import make_preprocessor
from edgemeta.tasks.classification import logits_of
from edgemeta.toolchain.data.dataset import CIFAR10_LABELS, load_dataset

WARM_UP_RUNS = 100
LITERT = "LiteRT int8"


def main() -> None:
    """Measure and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet8-cifar10")
    folder = Path(os.environ.get("EDGEMETA_DATA", "../shared/data"))
    litert_file = folder / "mlperf_tiny" / "pretrainedResnet_quant.tflite"
    parser.add_argument("--litert", type=Path, default=litert_file, help="MLPerf Tiny's pretrainedResnet_quant.tflite")
    images = folder / "cifar10" / "test.npz"
    parser.add_argument("--data", type=Path, default=images, help="images on which the labels are compared")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--calls", type=int, default=100, help="calls per round")
    parser.add_argument("--paced", type=float, default=10.0, help="milliseconds between calls, as a camera")
    parser.add_argument("--paced-calls", type=int, default=200)
    arguments = parser.parse_args()
    model = load(find(arguments.model))
    graph = to_onnx(model)
    isas = ISA_NAMES[ISA_NAMES.index(best_isa()) :: -1]
    runtimes = [
        *([litert(arguments.litert.read_bytes(), model)] if present(arguments.litert) else []),
        openvino(graph, model),
        onnx_runtime(graph, model),
        *(edgemeta(model, isa) for isa in isas if isa in X86_ISAS),
    ]
    image = random_image(model)
    back_to_back = take_turns(runtimes, image, arguments.rounds, arguments.calls, lambda: None)
    pause = arguments.paced / 1000
    paced = take_turns(runtimes, image, arguments.paced_calls, 1, lambda: time.sleep(pause))
    agreement = agreements(runtimes, model, arguments.data) if present(arguments.data) else {}
    rows = [row(runtime, back_to_back, paced, agreement) for runtime in runtimes]
    command = as_run("peers")
    values = {"model": model.name, "sha256": model.digest, "paced_ms": arguments.paced, "rows": rows}
    write_json("peers", command, values)
    text = table(rows, arguments)
    write_markdown("peers", command, text)
    print(text)


def present(file: Path) -> bool:
    """Whether a file is there; says so where it is not."""
    if not file.exists():
        print(f"left out: {file} is not there (docs/test-data.md)", file=sys.stderr)
    return file.exists()


def take_turns(
    runtimes: Sequence[Runtime], image: NDArray[Any], rounds: int, calls: int, before: Callable[[], None]
) -> dict[str, NDArray[np.float64]]:
    """Microseconds of every call by runtime; `before` runs, untimed, ahead of each."""
    times: dict[str, list[int]] = {runtime.name: [] for runtime in runtimes}
    for runtime in runtimes:
        for _ in range(WARM_UP_RUNS):
            runtime.run(image)
    for _ in range(rounds):
        for runtime in runtimes:
            for _ in range(calls):
                before()
                begin = time.perf_counter_ns()
                runtime.run(image)
                times[runtime.name].append(time.perf_counter_ns() - begin)
    return {name: np.array(taken) / 1000 for name, taken in times.items()}


def agreements(runtimes: Sequence[Runtime], model: Model, path: Path) -> dict[str, float]:
    """Share of 1,000 images, in percent, on which a runtime of our weights names the reference's label."""
    data = load_dataset(path, labels=CIFAR10_LABELS)
    prepare = make_preprocessor(model, data.x.shape[1:])
    images = [prepare(np.ascontiguousarray(image[..., ::-1])).copy() for image in data.x[:1000]]
    expected = logits_of(reference.run(model, np.concatenate(images))).argmax(axis=1)
    shares = {}
    for runtime in runtimes:
        if runtime.weights == "ours":
            labels = np.array([runtime.run(image).argmax() for image in images])
            shares[runtime.name] = float(100 * (labels == expected).mean())
    return shares


def row(
    runtime: Runtime,
    back_to_back: dict[str, NDArray[np.float64]],
    paced: dict[str, NDArray[np.float64]],
    agreement: dict[str, float],
) -> dict[str, Any]:
    """One runtime's figures, in microseconds."""
    taken, litert_times = back_to_back[runtime.name], back_to_back.get(LITERT)
    ratio = None if litert_times is None else round(float(np.median(taken) / np.median(litert_times)), 3)
    return {
        "runtime": runtime.name,
        "weights": runtime.weights,
        "min_us": round(float(taken.min()), 1),
        "median_us": round(float(np.median(taken)), 1),
        "p99_us": round(float(np.percentile(taken, 99)), 1),
        "times_litert": ratio,
        "paced_median_us": round(float(np.median(paced[runtime.name])), 1),
        "same_label_percent": agreement.get(runtime.name),
    }


def table(rows: Sequence[dict[str, Any]], arguments: argparse.Namespace) -> str:
    """Make the Markdown table."""
    lines = [
        "ResNet-8, batch 1, one thread, one process, taking turns; microseconds. Back to back: "
        f"{arguments.rounds} rounds of {arguments.calls} calls each. Paced: {arguments.paced_calls} calls with "
        f"{arguments.paced:g} ms of sleep before each.",
        "",
        "| runtime | weights | min | median | p99 | median / LiteRT's | paced median | same label as the reference |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for r in sorted(rows, key=lambda r: float(r["median_us"])):
        share = "" if r["same_label_percent"] is None else f"{r['same_label_percent']:.1f} %"
        lines.append(
            f"| {r['runtime']} | {r['weights']} | {r['min_us']} | {r['median_us']} | {r['p99_us']} | "
            f"{r['times_litert'] or ''} | {r['paced_median_us']} | {share} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
