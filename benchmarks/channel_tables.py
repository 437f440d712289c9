"""What a table for each channel costs a network whose functions have one for each layer: time, memory, bytes of a file.

    python benchmarks/channel_tables.py MODEL [--rounds 200]     writes benchmarks/results/channel-tables.{json,md}

MODEL, an integer model with lookups, runs as it is, with a table for each channel made by a recipe behind every layer,
with such tables only in front of layers that depthwise convolutions alone read, and with the same tables stored. The
tables are random swishes: the integers mean nothing, and are compared with the reference's. One thread of the cpu
backend, on each instruction set of the machine; the programs take turns, so that all share whatever else it does, and
the least time of each counts. Memory is that of a process that has loaded the file and opened the program, beyond one
that has imported the same code.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from ctypes import c_void_p
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.result_file import write_json, write_markdown
from edgemeta.kernels.cpu.library import supported_isas
from edgemeta.kernels.cpu.program import Program
from edgemeta.model import reference
from edgemeta.model.file import load, save
from edgemeta.model.graph import Model
from edgemeta.model.layers import Conv, Lookup, TableRecipe
from edgemeta.plugins.measure import random_image

MEMORY = """
import sys
from pathlib import Path
from edgemeta.kernels.cpu.program import Program
from edgemeta.model.file import load
def used(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))
before = used("VmRSS")
model = load(sys.argv[1])
program = Program(model, "auto", 1)
print(used("VmRSS") - before, used("VmHWM") - before)
"""


def with_channel_tables(model: Model, *, only_depthwise: bool = False, stored: bool = False) -> Model:
    """The model with another swish for each channel in every lookup, or where depthwise convolutions alone read it."""
    rng = np.random.default_rng(0)
    layers = list(model.layers)
    for i, layer in enumerate(layers):
        readers = [each for each in model.layers if layer.name in each.sources]
        is_depthwise = bool(readers) and all(isinstance(each, Conv) and each.groups > 1 for each in readers)
        if isinstance(layer, Lookup) and (is_depthwise or not only_depthwise):
            channels = layer.output.shape[2]
            start, step, scale = (rng.uniform(*ends, channels) for ends in ((-9, -3), (0.02, 0.1), (0.02, 0.1)))
            recipe = TableRecipe.of("silu", start, step, scale, layer.output)
            layers[i] = replace(layer, table=recipe.make(layer.output) if stored else recipe)
    return replace(model, layers=tuple(layers), self_test=None)


def least_times(models: Mapping[str, Model], isa: str, rounds: int) -> dict[str, float]:
    """Milliseconds of one image by the models' names. Raises SystemExit where an integer differs from the reference."""
    calls, times = {}, dict.fromkeys(models, float("inf"))
    with ExitStack() as opened:
        for name, model in models.items():
            image = random_image(model)
            outputs = [np.empty((1, *kind.shape), kind.dtype) for kind in model.output_types]
            addresses = (c_void_p * len(outputs))(*(each.ctypes.data for each in outputs))
            program = opened.enter_context(closing(Program(model, isa, 1)))
            call = program.bind(1, image.ctypes.data, addresses)
            call()
            for found, expected in zip(outputs, reference.run(model, image), strict=True):
                if not np.array_equal(found, expected):
                    raise SystemExit(f"{name} differs from the reference on {isa}")
            calls[name] = (call, image, outputs)
        for _ in range(rounds):
            for name, (call, *_) in calls.items():
                begin = time.perf_counter()
                call()
                times[name] = min(times[name], (time.perf_counter() - begin) * 1e3)
    return times


def main() -> None:
    """Measure, and write the result files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    model = load(options.model)
    models = {
        "one for each layer": replace(model, self_test=None),
        "one for each channel": with_channel_tables(model),
        "for each channel in front of depthwise convolutions": with_channel_tables(model, only_depthwise=True),
        "one for each channel, stored": with_channel_tables(model, stored=True),
    }
    rows: dict[str, dict[str, Any]] = {name: {"milliseconds": {}} for name in models}
    isas = [isa for isa in supported_isas() if isa != "portable"] or ["portable"]
    for isa in isas:
        for name, least in least_times(models, isa, options.rounds).items():
            rows[name]["milliseconds"][isa] = round(least, 3)
    for name, each in models.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.safetensors"
            save(each, path)
            done = subprocess.run([sys.executable, "-c", MEMORY, path], capture_output=True, text=True, check=True)
            rows[name]["file_bytes"] = path.stat().st_size
        rows[name]["kib"], rows[name]["peak_kib"] = map(int, done.stdout.split())
    command = f"python benchmarks/channel_tables.py {options.model.name} --rounds {options.rounds}"
    made = sum(layer.tables_made for layer in models["one for each channel"].layers)
    write_json("channel-tables", command, {"model": model.name, "tables": made, "rows": rows})
    write_markdown("channel-tables", command, table(rows, isas))
    print(json.dumps(rows, indent=2))


def table(rows: Mapping[str, Mapping[str, Any]], isas: list[str]) -> str:
    """The rows as Markdown, times as shares of the first row's."""
    first = next(iter(rows.values()))["milliseconds"]
    lines = [
        "| tables | " + " | ".join(f"{isa}, ms" for isa in isas) + " | file, KiB | memory, KiB | at most |",
        "|---|" + "---|" * (len(isas) + 3),
    ]
    for name, row in rows.items():
        times = [f"{row['milliseconds'][isa]:.2f} ({row['milliseconds'][isa] / first[isa]:.2f})" for isa in isas]
        cells = [name, *times, row["file_bytes"] >> 10, row["kib"], row["peak_kib"]]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
