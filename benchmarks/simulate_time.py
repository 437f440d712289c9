"""Training under the formats of the precision simulator beside float32: time of a step, and memory.

    python benchmarks/simulate_time.py

ResNet-20 (CIFAR-10's form), batch 128, random images, two threads, stochastic rounding: forward, backward and a step of
SGD. The formats take turns, step by step; the ratio is of the medians. Memory is the greatest resident size of a
process of its own that makes three steps, less that of one that makes none, the median of three such pairs. Prints a
table, and writes results/simulate-time.json and results/simulate-time.md.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.nn import functional

from benchmarks.result_file import write_json, write_markdown
from edgemeta.toolchain.simulate.prepare import prepare
from edgemeta.toolchain.train.batches import mixed_precision
from edgemeta.toolchain.train.designs import Design
from edgemeta.toolchain.train.networks import build

BATCH, THREADS = 128, 2
FORMATS: dict[str, dict[str, str]] = {
    "float32": {},
    "Qint8": {"activation": "int8", "weight": "int8_per_channel"},
    "Qint8, gradients too": {"activation": "int8", "weight": "int8_per_channel", "gradient": "int8"},
    "bfloat16": {"activation": "bfloat16", "weight": "bfloat16", "gradient": "bfloat16"},
    "FlexFP8": {"activation": "flexfp8_e4m3", "weight": "flexfp8_e4m3", "gradient": "flexfp8_e5m2"},
    "FlexFP8, shared exponents": {
        "activation": "flexfp8_e4m3_shared",
        "weight": "flexfp8_e4m3_shared",
        "gradient": "flexfp8_e5m2_shared",
    },
}
"""By the names of the paper, which reports 1.95, 2.70, 1.89, 1.88 and 2.43 times float32's time."""
_INT2 = {"kind": "int", "bits": 2, "symmetric": True, "per_channel": True, "observer": "mean_squared_error"}
MIXED = "int2 weights, mixed precision"
TIMED: dict[str, dict[str, Any]] = {
    **FORMATS,
    "int2 weights": {"activation": "int8", "weight": _INT2},
    MIXED: {"activation": "int8", "weight": _INT2},
}
"""The range of a channel's weights of 2 bits is the one of least mean squared error, looked for in each step."""


class Run:
    """ResNet-20 with its optimizer.

    change: puts the network under its formats, in place. mixed: whether layers compute in bfloat16, where the processor
    has it.
    """

    def __init__(self, change: Callable[[Any], object], mixed: bool = False) -> None:
        self.precision: Callable[[], AbstractContextManager[object]] = mixed_precision if mixed else nullcontext
        torch.manual_seed(1)
        self.model: Any = build(Design(depth=20)).to(memory_format=torch.channels_last)
        change(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)
        self.x = torch.randn(BATCH, 3, 32, 32).to(memory_format=torch.channels_last)
        self.y = torch.arange(BATCH) % 10
        self.seconds: list[float] = []

    def step(self) -> None:
        """One step of training, timed."""
        begin = time.perf_counter()
        self.optimizer.zero_grad()
        with self.precision():
            logits = self.model(self.x)
        functional.cross_entropy(logits.float(), self.y).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.seconds.append(time.perf_counter() - begin)


def rules(formats: dict[str, Any], rounding: str = "stochastic") -> Callable[[Any], object]:
    """What puts a network under formats, by role, in all its layers; none: it stays in float32."""
    if not formats:
        return lambda model: model
    entries = {"rounding": {"training": rounding}, "rules": [{"layers": "*", **formats}]}
    return lambda model: prepare(model, entries)


def take_turns(runs: dict[str, Run], steps: int) -> dict[str, float]:
    """The median time of a step of each, in seconds, of so many after two that warm up."""
    for number in range(steps + 2):
        for run in runs.values():
            run.step()
        if number == 1:
            for run in runs.values():
                run.seconds.clear()
    return {name: median(run.seconds) for name, run in runs.items()}


def run_of(name: str) -> Run:
    """The run of one of TIMED."""
    return Run(rules(TIMED[name]), mixed=name == MIXED)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20, help="timed steps of each format (default 20)")
    parser.add_argument("--memory-of", choices=tuple(TIMED), help=argparse.SUPPRESS)
    parser.add_argument("--memory-steps", type=int, default=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    torch.set_num_threads(THREADS)
    if chosen.memory_of is not None:
        run = run_of(chosen.memory_of)
        for _ in range(chosen.memory_steps):
            run.step()
        print(_greatest_resident_size())
        return
    times = take_turns({name: run_of(name) for name in TIMED}, chosen.steps)
    memory = {name: median(_kilobytes(name, 3) - _kilobytes(name, 0) for _ in range(3)) for name in TIMED}
    rows = {
        name: {
            "milliseconds": round(1000 * times[name], 1),
            "ratio": round(times[name] / times["float32"], 2),
            "megabytes": round(memory[name] / 1000),
            "memory_ratio": round(memory[name] / memory["float32"], 2),
        }
        for name in TIMED
    }
    lines = ["| format | ms per step | ratio to float32 | MB | ratio |", "|---|---|---|---|---|"]
    lines += [f"| {name} | " + " | ".join(str(value) for value in row.values()) + " |" for name, row in rows.items()]
    text = "\n".join(lines)
    print(text)
    command = "python benchmarks/simulate_time.py"
    write_json(
        "simulate-time",
        command,
        {"network": "resnet20", "batch": BATCH, "threads": THREADS, "steps": chosen.steps, "formats": rows},
    )
    write_markdown("simulate-time", command, text)


def _greatest_resident_size() -> int:
    """Of this process, in kilobytes; getrusage counts what the process was before exec, too."""
    status = Path("/proc/self/status").read_text("utf-8")
    return int(status.split("VmHWM:")[1].split()[0])


def _kilobytes(name: str, steps: int) -> int:
    """Greatest resident size of a process that makes some steps."""
    arguments = [sys.executable, __file__, "--memory-of", name, "--memory-steps", str(steps)]
    return int(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main()
