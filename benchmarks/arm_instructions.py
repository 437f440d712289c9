"""Instructions per image on emulated ARM processors: our kernels, and LiteRT and ONNX Runtime in an emulated Python.

    python benchmarks/arm_instructions.py

A plugin of qemu counts them; they are the same in every run of ours, and nearly so of a Python program. LiteRT runs
MLPerf Tiny's file (folder of docs/test-data.md), the same topology with other weights; ONNX Runtime runs our integers,
which have three more outputs. Writes results/arm-instructions.{json,md}; a test fails where ours grow by more than 2 %.
"""

import argparse
import os
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from benchmarks.onnx_graph import to_onnx
from benchmarks.result_file import write_json, write_markdown
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.zoo import find
from rig.arm.instructions import counting, difference, instructions_per_image
from rig.arm.machines import AARCH64, MACHINES
from rig.arm.python import EmulatedPython

COMMAND = "python benchmarks/arm_instructions.py"
MODEL = "resnet8-cifar10"
MULTIPLY_ACCUMULATES = 12_501_632  # of ResNet-8's convolutions and dense layer
PEERS = {"litert": "LiteRT", "onnxruntime": "ONNX Runtime"}
REQUIREMENTS = tuple(f"{name}=={version(name)}" for name in ("ai-edge-litert", "onnxruntime", "numpy"))


def main() -> None:
    """Measure and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("EDGEMETA_DATA", "../shared/data"))
    file = data / "mlperf_tiny" / "pretrainedResnet_quant.tflite"
    parser.add_argument("--litert", type=Path, default=file, help="MLPerf Tiny's pretrainedResnet_quant.tflite")
    arguments = parser.parse_args()
    model = load(find(MODEL))
    rows = []
    for machine in MACHINES:
        row: dict[str, object] = {"processor": machine.processor, "isa": machine.isa}
        row["edgemeta"] = ours = round(instructions_per_image(machine, model))
        row["per_multiply_accumulate"] = round(ours / MULTIPLY_ACCUMULATES, 4)
        if machine.architecture is AARCH64:  # there are no wheels of these runtimes for armv7
            peers = peer_counts(machine.processor, model, arguments.litert)
            row |= peers
            row["ratio"] = round(ours / min(peers.values()), 3)
        rows.append(row)
        print(row, flush=True)
    write_json("arm-instructions", COMMAND, {"model": MODEL, "peers": REQUIREMENTS, "rows": rows})
    write_markdown("arm-instructions", COMMAND, table(rows))


def peer_counts(processor: str, model: Model, litert: Path) -> dict[str, int]:
    """Instructions per image of each peer on a processor."""
    python = EmulatedPython(processor, REQUIREMENTS, "peers")
    program = Path(__file__).with_name("arm_peer.py")
    counts = {}
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder) / "model.onnx"
        graph.write_bytes(to_onnx(model))
        for name, file in (("litert", litert), ("onnxruntime", graph)):

            def run(images: int, log: Path, name: str = name, file: Path = file) -> None:
                command = python.command(str(program), name, str(file), str(images), options=counting(log))
                settings = {**os.environ, "PYTHONPATH": str(python.packages), "PYTHONHASHSEED": "0"}
                subprocess.run(command, env=settings, check=True, capture_output=True)

            counts[name] = round(difference(run, (5, 105)))
    return counts


def table(rows: list[dict[str, object]]) -> str:
    """The Markdown table."""
    lines = [
        f"Instructions per image of {MODEL}, one thread; per multiply-accumulate of {MULTIPLY_ACCUMULATES:,}.",
        "",
        "| processor | our set | ours | per multiply-accumulate | "
        + " | ".join(PEERS.values())
        + " | ours / best peer |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        peers = [number(row, name) for name in PEERS]
        words = [row["processor"], row["isa"], number(row, "edgemeta"), row["per_multiply_accumulate"], *peers]
        lines.append(f"| {' | '.join(map(str, words))} | {row.get('ratio', '–')} |")
    return "\n".join(lines)


def number(row: Mapping[str, object], name: str) -> str:
    """A count, or a dash where there is none."""
    return f"{row[name]:,}" if name in row else "–"


if __name__ == "__main__":
    main()
