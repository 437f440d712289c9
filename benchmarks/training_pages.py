"""What pages of 2 MB, and memory that is kept, are worth in a training: time of a step, and memory.

    python benchmarks/training_pages.py

Networks in CIFAR-10's form, batch 128, random images, one thread, bfloat16 where the processor has it: forward,
backward and a step of SGD. Each measurement is a process of its own, with glibc's defaults or with TUNABLES; the two
take turns. The time is the median of all steps but the first two, memory the greatest resident size, both the median of
the rounds. Prints a table, and writes results/training-pages.json and results/training-pages.md.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from benchmarks.result_file import write_json, write_markdown

NETWORKS: Mapping[str, Mapping[str, Any]] = {
    "resnet8": {"depth": 8},
    "resnet20": {"depth": 20},
    "vgg16-quarter": {"family": "vgg16", "width": 0.25},
    "mobilenetv2-quarter": {"family": "mobilenetv2", "width": 0.25},
}
BATCH = 128
TUNABLES = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592"
"""glibc (2.35 or newer) asks for pages of 2 MB, takes large blocks from its heap, and keeps what is freed."""


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="processes of each form (default 5)")
    parser.add_argument("--steps", type=int, default=8, help="timed steps of each process (default 8)")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--step-of", choices=NETWORKS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.step_of is not None:
        measure_here(chosen.step_of, chosen.steps)
        return
    rows: list[dict[str, Any]] = []
    for network in chosen.networks:
        rows.append(compared(network, chosen.rounds, chosen.steps))
        print(*rows[-1].values(), flush=True)
    command = f"python benchmarks/training_pages.py --rounds {chosen.rounds} --steps {chosen.steps}"
    if len(rows) < len(NETWORKS):
        command += f" --networks {' '.join(chosen.networks)}"
    write_json("training-pages", command, {"batch": BATCH, "rounds": chosen.rounds, "rows": rows})
    write_markdown("training-pages", command, "\n".join(table(rows)))


def compared(network: str, rounds: int, steps: int) -> dict[str, Any]:
    """The row of a network: milliseconds of a step and megabytes, with glibc's defaults and with TUNABLES."""
    results: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for _ in range(rounds):
        for tuned, values in results.items():
            values.append(measured(network, tuned, steps))
    (plain, plain_memory), (tuned, tuned_memory) = (
        tuple(median(column) for column in zip(*results[form], strict=True)) for form in (False, True)
    )
    return {
        "network": network,
        "plain_ms": round(1000 * plain, 1),
        "tuned_ms": round(1000 * tuned, 1),
        "ratio": round(tuned / plain, 2),
        "plain_mb": round(plain_memory),
        "tuned_mb": round(tuned_memory),
    }


def measured(network: str, tuned: bool, steps: int) -> tuple[float, float]:
    """Seconds of a step and greatest resident size in MB of a process of its own."""
    command = [sys.executable, __file__, "--step-of", network, "--steps", str(steps)]
    environment = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
    if tuned:
        environment["GLIBC_TUNABLES"] = TUNABLES
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    seconds, megabytes = done.stdout.split()
    return float(seconds), float(megabytes)


def measure_here(network: str, steps: int) -> None:
    """Train in this process; print seconds of a step and the greatest resident size in MB."""
    import torch
    from torch.nn import functional

    from edgemeta.toolchain.train.batches import mixed_precision
    from edgemeta.toolchain.train.designs import Design
    from edgemeta.toolchain.train.networks import build
    from edgemeta.toolchain.train.student import nesterov

    torch.set_num_threads(1)
    model: Any = build(Design(**NETWORKS[network])).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = nesterov(model, 0.1, 0.9, 5e-4)
    x = torch.randn(BATCH, 3, 32, 32).to(memory_format=torch.channels_last)
    y = torch.arange(BATCH) % 10
    seconds = []
    for _ in range(steps + 2):
        begin = time.perf_counter()
        optimizer.zero_grad()
        with mixed_precision():
            logits = model(x)
        loss: Any = functional.cross_entropy(logits.float(), y)
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    print(median(seconds[2:]), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Markdown."""
    yield "| network | defaults, ms | tuned, ms | ratio | defaults, MB | tuned, MB |"
    yield "|---|---:|---:|---:|---:|---:|"
    for row in rows:
        yield "| " + " | ".join(map(str, row.values())) + " |"


if __name__ == "__main__":
    main()
