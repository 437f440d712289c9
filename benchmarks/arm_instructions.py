"""Instructions per image on emulated ARM processors: our kernels, and LiteRT and ONNX Runtime in an emulated Python.

    python benchmarks/arm_instructions.py [--yolox yolox_nano.onnx --yolox-model MODEL --tflite FILE]

A plugin of qemu counts them; they are the same in every run of ours. Those of the peers are differences of two Python
programs and were up to a quarter apart in two runs of this one. Of the shipped ResNet-8 LiteRT runs MLPerf Tiny's file
(folder of docs/test-data.md), the same topology with other weights; ONNX Runtime runs our integers, which have three
more outputs. MobileNetV2 at 224 x 224 and YOLOX-nano, and the options, are those of networks.py. The peers take their
loops by the core that /proc/cpuinfo names; a Cortex-A55 is an emulated A76 with that name. Writes
results/arm-instructions.{json,md}; a test fails where those of the shipped network grow by more than 2 %.
"""

import argparse
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks.networks import entries
from benchmarks.onnx_graph import to_onnx
from benchmarks.result_file import as_run, write_json, write_markdown
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.zoo import find
from rig.arm.instructions import counting, difference, instructions_per_image
from rig.arm.machines import AARCH64, MACHINES, OTHER_MACHINES, Machine
from rig.arm.python import EmulatedPython

MODEL = "resnet8-cifar10"
MULTIPLY_ACCUMULATES = 12_501_632  # of ResNet-8's convolutions and dense layer
PEERS = {"litert": "LiteRT", "onnxruntime": "ONNX Runtime"}
LONG_NAMES = ("LiteRT int8", "ONNX Runtime int8")  # networks.py's
REQUIREMENTS = tuple(f"{name}=={version(name)}" for name in ("ai-edge-litert", "onnxruntime", "numpy"))
ALL_MACHINES = sorted((*MACHINES, *OTHER_MACHINES), key=lambda each: (each.isa != "neon", each.processor))


@dataclass(frozen=True)
class Network:
    """A network, with the file of each peer; counts: of images, between which instructions are counted."""

    name: str
    model: Model
    files: Mapping[str, Path]
    counts: tuple[int, int]


def main() -> None:
    """Measure and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("EDGEMETA_DATA", "../shared/data"))
    file = data / "mlperf_tiny" / "pretrainedResnet_quant.tflite"
    parser.add_argument("--litert", type=Path, default=file, help="MLPerf Tiny's pretrainedResnet_quant.tflite")
    parser.add_argument("--yolox", type=Path, help="yolox_nano.onnx")
    parser.add_argument("--yolox-model", type=Path, help="our integer model of it")
    parser.add_argument("--tflite", type=Path, help="yolox_nano_int8.tflite")
    given = argparse.Namespace(networks=["MobileNetV2-224"], attention=None, isas=[], only=list(LONG_NAMES))
    arguments = parser.parse_args(namespace=given)
    found: dict[str, list[dict[str, object]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for network in networks(arguments, Path(folder)):
            found[network.name] = [row_of(network, machine) for machine in ALL_MACHINES]
    command = as_run("arm_instructions")
    rows = found.pop(MODEL)
    values = {"model": MODEL, "peers": REQUIREMENTS, "rows": rows, "others": found}
    write_json("arm-instructions", command, values)
    head = f"Instructions per image, one thread. {MODEL} has {MULTIPLY_ACCUMULATES:,} multiply-accumulates."
    tables = [f"{name}\n\n{table(each)}" for name, each in {MODEL: rows, **found}.items()]
    write_markdown("arm-instructions", command, "\n\n".join([head, *tables]))


def networks(arguments: argparse.Namespace, folder: Path) -> Iterator[Network]:
    """The shipped network and those of networks.py."""
    model, graph = load(find(MODEL)), folder / "model.onnx"
    graph.write_bytes(to_onnx(model))
    yield Network(MODEL, model, {"litert": arguments.litert, "onnxruntime": graph}, (5, 105))
    for entry in entries(arguments, folder):
        files = {kind: file for kind, file in entry.files.values() if kind in PEERS}
        yield Network(entry.name, entry.model, files, (1, 4))


def row_of(network: Network, machine: Machine) -> dict[str, object]:
    """The counts of one network on one processor."""
    row: dict[str, object] = {"processor": machine.processor, "isa": machine.isa}
    row["edgemeta"] = ours = round(instructions_per_image(machine, network.model))
    if machine.architecture is AARCH64:  # there are no wheels of these runtimes for armv7
        peers = peer_counts(machine.processor, network)
        row |= peers
        row["ratio"] = round(ours / min(peers.values()), 3)
    print(network.name, row, flush=True)
    return row


def peer_counts(processor: str, network: Network) -> dict[str, int]:
    """Instructions per image of each peer on a processor."""
    python = EmulatedPython(processor, REQUIREMENTS, "peers")
    program = Path(__file__).with_name("arm_peer.py")
    counts = {}
    for name, file in network.files.items():

        def run(images: int, log: Path, name: str = name, file: Path = file) -> None:
            command = python.command(str(program), name, str(file), str(images), options=counting(log))
            settings = {**os.environ, "PYTHONPATH": str(python.packages), "PYTHONHASHSEED": "0"}
            subprocess.run(command, env=settings, check=True, capture_output=True)

        counts[name] = round(difference(run, network.counts))
    return counts


def table(rows: list[dict[str, object]]) -> str:
    """The Markdown table."""
    lines = [
        f"| processor | our set | ours | {' | '.join(PEERS.values())} | ours / best peer |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        words = [row["processor"], row["isa"], number(row, "edgemeta"), *(number(row, name) for name in PEERS)]
        lines.append(f"| {' | '.join(map(str, words))} | {row.get('ratio', '–')} |")
    return "\n".join(lines)


def number(row: Mapping[str, object], name: str) -> str:
    """A count, or a dash where there is none."""
    return f"{row[name]:,}" if name in row else "–"


if __name__ == "__main__":
    main()
