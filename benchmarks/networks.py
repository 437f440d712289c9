"""int8 networks on one and two threads: our cpu backend beside LiteRT, OpenVINO and ONNX Runtime.

    python benchmarks/networks.py [--cores 1,0] [--yolox yolox_nano.onnx --yolox-model MODEL --tflite FILE]

Each runtime has a process of its own, pinned to the first of --cores, or to both for two threads. The processes take
turns: every round gives each the same number of calls, so that all share whatever else the machine does. Hot: calls one
after the other. Paced: 10 ms of sleep before each, as a camera's frames come.

ResNet-8, ResNet-20 and VGG16 for CIFAR-10 and MobileNetV2 at 224 x 224 have random weights (topologies.py), which does
not matter for time. onnxruntime.quantization makes the int8 file (QDQ, per channel) that ONNX Runtime and OpenVINO run;
our model is imported from it, so it has the same integers; LiteRT's file is written from ours (tflite_graph.py).
YOLOX-nano at 416 x 416 is a file of others (docs/test-data.md); MODEL is ours of it, made by `edgemeta import` and
`edgemeta quantize`, FILE the TFLite int8 file of the same network. Our integers are compared with the reference's.
A file of an attention network (--attention, such as timm_export.py's vit_tiny_patch16_224) has no TFLite form here:
our model is quantized with ranges of drawn scenes, ONNX Runtime's file as above; both only for time.
Writes results/networks.{json,md}; fails if an integer differs.
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.onnx_int8 import write_int8
from benchmarks.result_file import as_run, write_json, write_markdown
from benchmarks.tflite_graph import write_tflite
from benchmarks.timm_networks import quantized
from benchmarks.topologies import write_topology
from edgemeta.model import reference
from edgemeta.model.file import load, save
from edgemeta.model.graph import FloatModel, Model
from edgemeta.plugins.measure import random_image
from edgemeta.plugins.registry import choose
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.pixels import Pixels

OURS = "edgemeta"
REPOSITORY = Path(__file__).resolve().parent.parent
NETWORKS = {
    "ResNet-8": ("resnet8", 10),
    "ResNet-20": ("resnet20", 10),
    "MobileNetV2-224": ("mobilenet_v2", 1000),
    "VGG16-CIFAR": ("vgg16_cifar", 10),
}
"""The topology and number of classes of each."""
MOST_PACED_SHARE = 4
"""A paced call sleeps, so that there are fewer of them: one for so many hot ones."""


@dataclass(frozen=True)
class Entry:
    """A network: our model, and for each runtime its kind (runtime_process.RUNTIMES) and file."""

    name: str
    model: Model
    files: Mapping[str, tuple[str, Path]]


class Process:
    """A runtime with the network loaded, in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._answer()

    def times(self, calls: int, pause: float) -> list[float]:
        """Microseconds of so many calls, with `pause` seconds of sleep before each."""
        assert self._process.stdin is not None
        print(calls, pause, file=self._process.stdin, flush=True)
        found: list[float] = json.loads(self._answer())
        return found

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{shlex.join(map(str, self._process.args))} ended with {self._process.wait()}")  # type: ignore[arg-type]
        return line


def main() -> None:
    """Measure and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--attention", type=Path, help="a float ONNX file of an attention network; nothing else is run")
    parser.add_argument("--yolox", type=Path, help="yolox_nano.onnx")
    parser.add_argument("--yolox-model", type=Path, help="our integer model of it")
    parser.add_argument("--tflite", type=Path, help="yolox_nano_int8.tflite")
    parser.add_argument(
        "--cores", default="1,0", help="processors to pin to, separated by commas; the first: one thread"
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=20, help="hot calls per round; a quarter as many are paced")
    parser.add_argument("--paced", type=float, default=10.0, help="milliseconds before a paced call")
    parser.add_argument("--out", default="networks", help="name of the result files")
    arguments = parser.parse_args()
    if (arguments.yolox is None) != (arguments.yolox_model is None):
        parser.error("--yolox and --yolox-model belong together")
    cores = arguments.cores.split(",")
    results: dict[str, Any] = {}
    texts = []
    with tempfile.TemporaryDirectory() as folder:
        for entry in entries(arguments, Path(folder)):
            wrong = mismatches(entry.model)
            results[entry.name] = {"mismatches": wrong}
            for threads in range(1, min(len(cores), 2) + 1):
                title = f"{entry.name}, {threads} thread{'s' if threads > 1 else ''}"
                found = figures(measure(entry, threads, ",".join(cores[:threads]), arguments, title))
                results[entry.name][f"threads_{threads}"] = found
                texts.append(table(f"{title}: {wrong} integers of our outputs differ from the reference.", found))
                print(texts[-1], flush=True)
    command = as_run("networks")
    write_json(arguments.out, command, {"paced_ms": arguments.paced, "networks": results})
    head = (
        f"One image, each runtime in a process of its own, pinned, taking turns: {arguments.rounds} rounds of "
        f"{arguments.calls} calls one after the other, and of {paced_calls(arguments)} with {arguments.paced:g} ms of "
        "sleep before each. Microseconds; the last columns are edgemeta's medians divided by those of the row."
    )
    write_markdown(arguments.out, command, "\n\n".join([head, *texts]))
    if any(result["mismatches"] for result in results.values()):
        raise SystemExit("integers differ from the reference")


def entries(arguments: argparse.Namespace, folder: Path) -> Iterator[Entry]:
    """The networks to measure, with the files that have to be made."""
    if arguments.attention is not None:
        file, ours = arguments.attention, folder / "attention.safetensors"
        int8 = write_int8(file, folder / "attention-int8.onnx")
        found = import_network(file, folder / "attention-float.safetensors", Pixels(deviation=(255.0,))).model
        assert isinstance(found, FloatModel)
        model, _ = quantized(found)
        save(model, ours)
        yield Entry(file.stem, model, files(file, int8, ours, None))
        return
    for title in arguments.networks:
        topology, classes = NETWORKS[title]
        file = write_topology(topology, folder, classes=classes)
        int8, ours = write_int8(file, folder / f"{topology}-int8.onnx"), folder / f"{topology}.safetensors"
        model = import_network(int8, ours, Pixels(), name=topology).model
        assert isinstance(model, Model)
        yield Entry(title, model, files(file, int8, ours, write_tflite(model, folder / f"{topology}.tflite")))
    if arguments.yolox is not None:
        int8 = write_int8(arguments.yolox, folder / "yolox-int8.onnx")
        model = load(arguments.yolox_model)
        yield Entry("YOLOX-nano-416", model, files(arguments.yolox, int8, arguments.yolox_model, arguments.tflite))


def files(float_file: Path, int8: Path, ours: Path, tflite: Path | None) -> dict[str, tuple[str, Path]]:
    """The runtimes of a network, by name."""
    return {
        OURS: ("edgemeta", ours),
        **({} if tflite is None else {"LiteRT int8": ("litert", tflite)}),
        "OpenVINO int8": ("openvino", int8),
        "OpenVINO float": ("openvino", float_file),
        "ONNX Runtime int8": ("onnxruntime", int8),
        "ONNX Runtime float": ("onnxruntime", float_file),
    }


def mismatches(model: Model) -> int:
    """Integers of our outputs for a random image that differ from the reference's."""
    image = random_image(model)
    session = choose("cpu").compile(model, {"threads": 1})
    found, wanted = session.run(image), reference.run(model, image)
    return sum(int((a != b).sum()) for a, b in zip(found, wanted, strict=True))


def paced_calls(arguments: argparse.Namespace) -> int:
    """Paced calls of a round."""
    return max(1, int(arguments.calls) // MOST_PACED_SHARE)


def measure(
    entry: Entry, threads: int, cores: str, arguments: argparse.Namespace, title: str
) -> dict[str, dict[str, list[float]]]:
    """Microseconds of every call, by runtime and "hot" or "paced"."""
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(started(kind, file, threads, cores)) for name, (kind, file) in entry.files.items()
        }
        times: dict[str, dict[str, list[float]]] = {name: {"hot": [], "paced": []} for name in processes}
        for number in range(arguments.rounds):
            print(f"\r{title}: round {number + 1} of {arguments.rounds}", end="", file=sys.stderr, flush=True)
            for name, process in processes.items():
                times[name]["hot"] += process.times(arguments.calls, 0)
            for name, process in processes.items():
                times[name]["paced"] += process.times(paced_calls(arguments), arguments.paced / 1000)
        print(file=sys.stderr)
    return times


@contextmanager
def started(kind: str, file: Path, threads: int, cores: str) -> Iterator[Process]:
    """A runtime's process, ended with the block."""
    command = [sys.executable, "-m", "benchmarks.runtime_process", kind, str(file), str(threads), cores]
    process = subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with process:
        yield Process(process)


def figures(times: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, dict[str, float]]:
    """Least, median and p99 by runtime, and how long ours takes as a share of it."""
    found: dict[str, dict[str, float]] = {}
    for name, taken in times.items():
        found[name] = {}
        for pace, each in taken.items():
            own, median = float(np.median(times[OURS][pace])), float(np.median(each))
            found[name] |= {
                f"{pace}_min": round(min(each), 1),
                f"{pace}_median": round(median, 1),
                f"{pace}_p99": round(float(np.percentile(each, 99)), 1),
                f"{pace}_ours_divided_by_it": round(own / median, 3),
            }
    return found


def table(title: str, found: Mapping[str, Mapping[str, float]]) -> str:
    """Make the Markdown table of one network."""
    lines = [
        title,
        "",
        "| runtime | min | median | p99 | paced min | paced median | paced p99 | ours / it | paced |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    columns = [f"{pace}_{figure}" for pace in ("hot", "paced") for figure in ("min", "median", "p99")]
    columns += ["hot_ours_divided_by_it", "paced_ours_divided_by_it"]
    for runtime, row in sorted(found.items(), key=lambda item: item[1]["hot_median"]):
        lines.append(f"| {runtime} | {' | '.join(f'{row[column]}' for column in columns)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
