"""Measures the CUDA kernels on this machine's GPU and compares with PyTorch and TensorRT; run by benchmarks/gpu/run.sh.

    python benchmarks/gpu/measure.py --tests build/gpu/conformance.xml build/gpu/tests.xml

Writes results/gpu.json and results/gpu.md after every part, so that a run that is cut off leaves what it has. A part
that fails is named with its reason, and the others go on; the exit code is then 1. Peers that are not installed are
left out.
"""

import argparse
import shlex
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu.convolutions import convolution_rows
from benchmarks.gpu.effort import Effort
from benchmarks.gpu.our_networks import float32_rows, int8_rows
from benchmarks.gpu.tables import markdown
from benchmarks.result_file import RESULTS, write_json, write_markdown
from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.compile.compiler import CubinMaker, find_compiler
from edgemeta.model.file import load
from edgemeta.model.float_file import load_float_model
from edgemeta.model.zoo import find
from edgemeta.plugins.cuda.device import DeviceContext
from edgemeta.plugins.cuda.driver import first_line

Rows = list[dict[str, Any]]
PEERS = ("torch", "tensorrt", "onnx")
"""Packages without which a part is left out."""


def main() -> None:
    """Measure with the compiler of this machine and write both files."""
    arguments = parse(sys.argv[1:])
    arguments.results.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["benchmarks/gpu/run.sh", *sys.argv[1:]])
    device = DeviceContext(arguments.device)
    try:
        for record in measure(device, find_compiler(device.architecture), arguments):
            write_json("gpu", command, record, arguments.results)
            write_markdown("gpu", command, markdown(record), arguments.results)
    finally:
        device.close()
    print(markdown(record))
    sys.exit(bool(record["failed"] or record["tests"].get("failed", 1)))


def parse(words: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--model", default="resnet8-cifar10")
    parser.add_argument("--float-model", default="resnet8-cifar10-float")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16, 64, 256, 1024])
    parser.add_argument("--warm-ups", type=int, default=500)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--tests", type=Path, nargs="+", default=[], help="JUnit files of the gpu tests")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write to")
    return parser.parse_args(words)


def measure(device: DeviceContext, compiler: CubinMaker, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield all results so far, after each part. `failed`: failed parts with reasons; `absent`: missing peers."""
    model, float_model = load(find(arguments.model)), load_float_model(find(arguments.float_model))
    cubins = Cubins(None, compiler)
    effort = Effort(arguments.warm_ups, arguments.runs)
    batches = arguments.batches

    def torch_rows() -> Rows:
        from benchmarks.gpu.torch_peers import torch_rows

        return torch_rows(float_model, batches, effort)

    def tensorrt_rows() -> Rows:
        from benchmarks.gpu.tensorrt_peer import tensorrt_rows

        return tensorrt_rows(float_model, batches, effort)

    parts: dict[str, tuple[str, Callable[[], Rows]]] = {
        "table 1": (
            "convolutions",
            lambda: convolution_rows(model, device.architecture, device.number, cubins, effort),
        ),
        "our int8": ("networks", lambda: int8_rows(model, device, cubins, batches, effort)),
        "our float32": ("networks", lambda: float32_rows(float_model, device, cubins, batches, effort)),
        "PyTorch": ("networks", torch_rows),
        "TensorRT": ("networks", tensorrt_rows),
    }
    record: dict[str, Any] = {
        "device": {"name": device.name, "architecture": device.architecture.name, "driver": device.driver},
        "compiler": compiler.version,
        "model": {"name": model.name, "sha256": model.digest},
        "warm_ups": arguments.warm_ups,
        "runs": arguments.runs,
        "tests": tests_of(arguments.tests),
        "convolutions": [],
        "networks": [],
        "failed": dict.fromkeys(parts, "not measured: the run ended earlier"),
        "absent": {},
    }
    for name, (table, rows) in parts.items():
        print(f"measuring {name}", file=sys.stderr)
        try:
            record[table] += rows()
            del record["failed"][name]
        except Exception as error:  # noqa: BLE001 - any error is reported and the other parts are still measured
            if isinstance(error, ModuleNotFoundError) and error.name in PEERS:
                del record["failed"][name]
                record["absent"][name] = f"{error.name} is not installed"
            else:
                record["failed"][name] = f"{type(error).__name__}: {first_line(error)}"
        yield record


def tests_of(files: list[Path]) -> dict[str, Any]:
    """Outcome of every gpu test by name, from pytest's JUnit files."""
    missing = [str(file) for file in files if not file.is_file()]
    if missing or not files:
        return {"failed_to_run": f"no JUnit file {' or '.join(missing)}".strip()}
    outcomes = {}
    for case in (case for file in files for case in ElementTree.parse(file).iter("testcase")):
        problem = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        words = "" if problem is None else problem.get("message", "")
        outcome = "passed" if problem is None else f"{problem.tag}: {next(iter(words.splitlines()), '')}"
        outcomes[f"{case.get('name')}"] = outcome
    kinds = [outcome.split(":")[0] for outcome in outcomes.values()]
    return {
        "passed": kinds.count("passed"),
        "failed": kinds.count("failure") + kinds.count("error"),
        "skipped": kinds.count("skipped"),
        "outcomes": outcomes,
    }


if __name__ == "__main__":
    main()
