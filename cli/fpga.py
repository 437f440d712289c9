"""`fpga`: write a model as a netlist, make a bitstream of it, and report its cost."""

from pathlib import Path

import click

from edgemeta.cli.completion import model_names
from edgemeta.cli.options import json_of, load_model, report
from edgemeta.cli.progress import progress_bar
from edgemeta.kernels.fpga.generate.build import TARGETS, write_build
from edgemeta.kernels.fpga.generate.foldings import choose_foldings, predicted, predicted_lut
from edgemeta.kernels.fpga.generate.lines import fitting
from edgemeta.kernels.fpga.generate.network import FpgaError
from edgemeta.kernels.fpga.report import fpga_report
from edgemeta.kernels.fpga.synthesize.boards import BOARDS, DEFAULT_BAUD, DEFAULT_MHZ
from edgemeta.kernels.fpga.synthesize.route import BITSTREAM, make_bitstream, missing_router, read_route

_cycles = click.option(
    "--cycles", type=click.IntRange(1), help="Clocks per image; default 21000, or the least possible; a board's own."
)


@click.group(short_help="Write a model as an FPGA netlist or bitstream and report its cost.")
def fpga() -> None:
    """Write a model as SystemVerilog and report its cost.

    The convolutions add shifted values: they need power-of-two weights, or fixed ones at several times the logic, and
    no requantization may multiply.

    \b
    Examples:
      edgemeta fpga build mine.safetensors --target xc7z020 --out netlist
      edgemeta fpga build mine.safetensors --target ulx3s-85f --out board
      edgemeta fpga report mine.safetensors
    """


@fpga.command()
@click.argument("model_name", metavar="MODEL", shell_complete=model_names)
@click.option(
    "--target", type=click.Choice([*TARGETS, *BOARDS]), required=True, help="Device that it must fit, or board."
)
@_cycles
@click.option("--constant", is_flag=True, help="Weights as logic instead of memories: smallest, but fixed.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder to write.")
@click.option("--mhz", type=click.FloatRange(5, 400), default=DEFAULT_MHZ, show_default=True, help="A board's clock.")
@click.option(
    "--baud", type=click.IntRange(9600), default=DEFAULT_BAUD, show_default=True, help="Of a board's serial port."
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the placement, for a board.")
@json_of(
    "folder, target, cycles, predicted_lut, predicted_bram36; for a board also fmax, used, available, "
    "images_per_second, seconds and more"
)
def build(
    model_name: str,
    target: str,
    cycles: int | None,
    constant: bool,
    out: Path,
    mhz: float,
    baud: int,
    seed: int,
    as_json: bool,
) -> None:
    """Write a network's sources; for a board, make a bitstream.

    Chooses the foldings that reach the clocks per image with the least logic, and writes sources, memories, a test
    bench with expected logits, a README, and for a device of AMD a Vivado script. For a board Yosys, nextpnr and
    ecppack follow, which takes ten minutes or more and needs pip install 'edgemeta[fpga]', nothing else: edgemeta.bit
    has the network behind the board's serial port. Where the clock is not reached there is no bitstream.

    \b
    Examples:
      edgemeta fpga build mine.safetensors --target xc7z020 --out netlist
      edgemeta fpga build mine.safetensors --target xc7z010 --cycles 100000 --out netlist
      edgemeta fpga build mine.safetensors --target ulx3s-85f --mhz 80 --out board
    """
    model = load_model(model_name)
    if target in BOARDS:
        missing = missing_router()
        if missing is not None:
            raise FpgaError(missing)
        device = BOARDS[target]
        board = fitting(choose_foldings(model, cycles or device.cycles, constant=constant), device.target)
        write_build(board, device.target, out)
        route = make_bitstream(board, target, out, mhz, seed, lambda text: click.echo(f"{text} …", err=True), baud)
        report(as_json, route.as_json(), [*route.lines(), f"{out / BITSTREAM}: for openFPGALoader"])
        return
    network = fitting(choose_foldings(model, cycles, constant=constant), TARGETS[target])
    write_build(network, TARGETS[target], out)
    lut, bram36 = predicted(network, is_serial=False)
    values = {
        "folder": str(out),
        "target": target,
        "cycles": network.interval,
        "predicted_lut": lut,
        "predicted_bram36": bram36,
    }
    lines = [
        f"{engine.name:24} {engine.steps:8} cycles, about {predicted_lut(engine)} LUTs" for engine in network.engines
    ]
    lines.append(f"{out}: at least {network.interval} cycles per image, about {lut} LUTs and {bram36:g} block RAMs")
    report(as_json, values, lines)


@fpga.command("report")
@click.argument("model_name", metavar="MODEL", shell_complete=model_names)
@_cycles
@click.option("--frames", type=click.FloatRange(min=0.001), default=30.0, show_default=True, help="Images per second.")
@click.option(
    "--route",
    type=click.Path(path_type=Path, file_okay=False),
    help="Report what place and route made in this folder of `build` for a board instead: cells and frequency.",
)
@json_of("lut, ff, dsp, bram36, cycles, latency, layers")
def report_cost(model_name: str, cycles: int | None, frames: float, route: Path | None, as_json: bool) -> None:
    """Report logic and clocks of a network.

    Counts LUTs, flip-flops, DSP blocks and block RAMs of every engine with Yosys, and clocks per image by simulation,
    whose logits are compared with the reference's. Takes minutes; both are kept in the cache. Nothing is placed or
    routed, so no frequency is claimed, except with --route. Needs pip install 'edgemeta[fpga]' and Debian's verilator.

    \b
    Examples:
      edgemeta fpga report mine.safetensors
      edgemeta fpga report mine.safetensors --cycles 100000 --json
      edgemeta fpga report mine.safetensors --route board
    """
    if route is not None:
        found = read_route(route, load_model(model_name))
        report(as_json, found.as_json(), found.lines())
        return
    network = choose_foldings(load_model(model_name), cycles)
    with progress_bar("engines") as progress:
        result = fpga_report(network, progress=progress)
    report(as_json, result.as_json(), result.lines(frames))
