"""int8 networks on one and two threads: our cpu backend beside LiteRT, OpenVINO, ONNX Runtime, ncnn and ExecuTorch.

    python benchmarks/networks.py [--cores 1,0] [--yolox yolox_nano.onnx --yolox-model MODEL --tflite FILE]

Each runtime has a process of its own, pinned to the first of --cores, or to both for two threads. The processes take
turns: every round gives each the same number of calls, so that all share whatever else the machine does. Hot: calls one
after the other. Paced: 10 ms of sleep before each, as a camera's frames come. In brackets the ratio of the medians of a
round, where 90 % of the rounds lie.

ResNet-8, ResNet-20 and VGG16 for CIFAR-10 and MobileNetV2 at 224 x 224 have random weights (topologies.py), which does
not matter for time. onnxruntime.quantization makes the int8 file (QDQ, per channel) that ONNX Runtime and OpenVINO run;
our model is imported from it, so it has the same integers; LiteRT's file is written from ours (tflite_graph.py); those
of ncnn and ExecuTorch are peer_files.py's, where the packages ncnn and pnnx, executorch and torch are installed.
YOLOX-nano at 416 x 416 is a file of others (docs/test-data.md); MODEL is ours of it, made by `edgemeta import` and
`edgemeta quantize`, FILE the TFLite int8 file of the same network. Our integers are compared with the reference's.
A file of an attention network (--attention, such as timm_export.py's vit_tiny_patch16_224) has no TFLite form here:
our model is quantized with ranges of drawn scenes, ONNX Runtime's file as above; both only for time.
Writes results/networks.{json,md}; fails if an integer differs.
"""

import argparse
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import peer_files
from benchmarks.onnx_int8 import write_int8
from benchmarks.result_file import as_run, write_json, write_markdown
from benchmarks.runtime_turns import Turns, figures, measure, table
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
NETWORKS = {
    "ResNet-8": ("resnet8", 10),
    "ResNet-20": ("resnet20", 10),
    "MobileNetV2-224": ("mobilenet_v2", 1000),
    "VGG16-CIFAR": ("vgg16_cifar", 10),
}
"""The topology and number of classes of each."""


@dataclass(frozen=True)
class Entry:
    """A network: our model, and for each runtime its kind (runtime_process.RUNTIMES) and file."""

    name: str
    model: Model
    files: Mapping[str, tuple[str, Path]]


def main() -> None:
    """Measure and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--attention", type=Path, help="a float ONNX file of an attention network; nothing else is run")
    parser.add_argument("--yolox", type=Path, help="yolox_nano.onnx")
    parser.add_argument("--yolox-model", type=Path, help="our integer model of it")
    parser.add_argument("--tflite", type=Path, help="yolox_nano_int8.tflite")
    free = ",".join(map(str, sorted(os.sched_getaffinity(0), reverse=True)[:2]))
    parser.add_argument("--cores", default=free, help="processors to pin to, by commas; the first: one thread")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no round after so many, but 9 at least")
    parser.add_argument("--calls", type=int, default=20, help="hot calls per round; a quarter as many are paced")
    parser.add_argument("--paced", type=float, default=10.0, help="milliseconds before a paced call")
    parser.add_argument("--busy", type=int, metavar="CORE", help="one thread again, while a program works on this core")
    parser.add_argument("--isas", nargs="*", default=[], help="instruction sets of ours to force, too")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="runtimes to run, such as 'LiteRT int8'")
    parser.add_argument("--out", default="networks", help="name of the result files")
    arguments = parser.parse_args()
    if (arguments.yolox is None) != (arguments.yolox_model is None):
        parser.error("--yolox and --yolox-model belong together")
    cores = arguments.cores.split(",")
    turns = Turns(arguments.rounds, arguments.seconds, arguments.calls, arguments.paced / 1000)
    kinds = [(f"threads_{n}", f"{n} thread{'s' * (n > 1)}", n, turns) for n in range(1, min(len(cores), 2) + 1)]
    if arguments.busy is not None:
        kinds.insert(1, ("busy", "1 thread beside a busy core", 1, replace(turns, busy=arguments.busy)))
    results: dict[str, Any] = {}
    texts = []
    with tempfile.TemporaryDirectory() as folder:
        for entry in entries(arguments, Path(folder)):
            wrong = mismatches(entry.model)
            results[entry.name] = {"mismatches": wrong}
            for kind, words, threads, how in kinds:
                title = f"{entry.name}, {words}"
                found = figures(measure(entry.files, threads, ",".join(cores[:threads]), how, title), OURS)
                results[entry.name][kind] = found
                rounds = f"{title}, {found[OURS]['rounds']} rounds"
                texts.append(table(f"{rounds}: {wrong} integers of our outputs differ from the reference.", found))
                print(texts[-1], flush=True)
    command = as_run("networks")
    write_json(arguments.out, command, {"paced_ms": arguments.paced, "busy": arguments.busy, "networks": results})
    head = (
        f"One image, each runtime in a process of its own, pinned, taking turns: rounds of {turns.calls} calls one "
        f"after the other, and of {turns.paced_calls} with {arguments.paced:g} ms of sleep before each. Microseconds; "
        "the last columns are edgemeta's medians divided by those of the row, in brackets those of 90 % of the rounds."
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
        yield Entry(file.stem, model, files(file, int8, ours, None, arguments))
        return
    for title in arguments.networks:
        topology, classes = NETWORKS[title]
        file = write_topology(topology, folder, classes=classes)
        int8, ours = write_int8(file, folder / f"{topology}-int8.onnx"), folder / f"{topology}.safetensors"
        model = import_network(int8, ours, Pixels(), name=topology).model
        assert isinstance(model, Model)
        tflite = write_tflite(model, folder / f"{topology}.tflite")
        yield Entry(title, model, files(file, int8, ours, tflite, arguments))
    if arguments.yolox is not None:
        int8 = write_int8(arguments.yolox, folder / "yolox-int8.onnx")
        model = load(arguments.yolox_model)
        ours = arguments.yolox_model
        yield Entry("YOLOX-nano-416", model, files(arguments.yolox, int8, ours, arguments.tflite, arguments))


def files(
    float_file: Path, int8: Path, ours: Path, tflite: Path | None, arguments: argparse.Namespace
) -> dict[str, tuple[str, Path]]:
    """The runtimes of a network, by name."""
    found = {
        OURS: ("edgemeta", ours),
        **{f"{OURS} {isa}": (f"edgemeta-{isa}", ours) for isa in arguments.isas},
        **({} if tflite is None else {"LiteRT int8": ("litert", tflite)}),
        "OpenVINO int8": ("openvino", int8),
        "OpenVINO float": ("openvino", float_file),
        "ONNX Runtime int8": ("onnxruntime", int8),
        "ONNX Runtime float": ("onnxruntime", float_file),
    }
    for name, runtime in (("ncnn float", "ncnn"), ("ExecuTorch int8", "executorch")):
        wanted = arguments.only is None or name in arguments.only
        if wanted and peer_files.installed(runtime):
            made = peer_files.write(runtime, float_file, int8.with_suffix(f".{runtime}"))
            found |= {name: (runtime, made)} if made is not None else {}
    return {name: each for name, each in found.items() if arguments.only is None or name in (OURS, *arguments.only)}


def mismatches(model: Model) -> int:
    """Integers of our outputs for a random image that differ from the reference's."""
    image = random_image(model)
    session = choose("cpu").compile(model, {"threads": 1})
    found, wanted = session.run(image), reference.run(model, image)
    return sum(int((a != b).sum()) for a, b in zip(found, wanted, strict=True))


if __name__ == "__main__":
    main()
