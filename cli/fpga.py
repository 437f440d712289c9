"""`fpga`: write a model as a netlist, and report its cost."""

from pathlib import Path

import click

from edgemeta.cli.completion import model_names
from edgemeta.cli.options import json_option, load_model, report
from edgemeta.cli.progress import progress_bar
from edgemeta.kernels.fpga.generate.build import TARGETS, write_build
from edgemeta.kernels.fpga.generate.foldings import choose_foldings, predicted
from edgemeta.kernels.fpga.report import fpga_report

_cycles = click.option(
    "--cycles", type=click.IntRange(1), help="Clocks per image; default 21000, or the least possible."
)


@click.group(short_help="Write a model as an FPGA netlist and report its cost.")
def fpga() -> None:
    """Write a model as SystemVerilog and report its cost.

    The convolutions add shifted values: they need power-of-two weights, or fixed ones at several times the logic, and
    no requantization may multiply.

    \b
    Examples:
      edgemeta fpga build mine.safetensors --target xc7z020 --out netlist
      edgemeta fpga report mine.safetensors
    """


@fpga.command()
@click.argument("model_name", metavar="MODEL", shell_complete=model_names)
@click.option("--target", type=click.Choice(list(TARGETS)), required=True, help="Device that it must fit.")
@_cycles
@click.option("--constant", is_flag=True, help="Weights as logic instead of memories: smallest, but fixed.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder to write.")
@json_option
def build(model_name: str, target: str, cycles: int | None, constant: bool, out: Path, as_json: bool) -> None:
    """Write a network's sources.

    Chooses the foldings that reach the clocks per image with the least logic, and writes sources, memories, a test
    bench with expected logits, a Vivado script and a README.

    \b
    Examples:
      edgemeta fpga build mine.safetensors --target xc7z020 --out netlist
      edgemeta fpga build mine.safetensors --target xc7z010 --cycles 100000 --out netlist
    """
    network = choose_foldings(load_model(model_name), cycles, constant=constant)
    write_build(network, TARGETS[target], out)
    costs = predicted(network)
    lut, bram36 = sum(cost for cost, _ in costs.values()), sum(blocks for _, blocks in costs.values())
    values = {
        "folder": str(out),
        "target": target,
        "cycles": network.interval,
        "predicted_lut": lut,
        "predicted_bram36": bram36,
    }
    lines = [
        f"{name:24} {steps:8} cycles, about {costs[name][0]} LUTs"
        for name, steps in ((engine.name, engine.steps) for engine in network.engines)
    ]
    lines.append(f"{out}: at least {network.interval} cycles per image, about {lut} LUTs and {bram36:g} block RAMs")
    report(as_json, values, lines)


@fpga.command("report")
@click.argument("model_name", metavar="MODEL", shell_complete=model_names)
@_cycles
@click.option("--frames", type=click.FloatRange(min=0.001), default=30.0, show_default=True, help="Images per second.")
@json_option
def report_cost(model_name: str, cycles: int | None, frames: float, as_json: bool) -> None:
    """Report logic and clocks of a network.

    Counts LUTs, flip-flops, DSP blocks and block RAMs of every engine with Yosys, and clocks per image by simulation,
    whose logits are compared with the reference's. Takes minutes; both are kept in the cache. Nothing is placed or
    routed, so no frequency is claimed. Needs pip install 'edgemeta[fpga]' and Debian's verilator.

    \b
    Examples:
      edgemeta fpga report mine.safetensors
      edgemeta fpga report mine.safetensors --cycles 100000 --json
    """
    network = choose_foldings(load_model(model_name), cycles)
    with progress_bar("engines") as progress:
        result = fpga_report(network, progress=progress)
    report(as_json, result.as_json(), result.lines(frames))
