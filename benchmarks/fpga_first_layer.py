"""VGG16's first layer at one pixel per clock: our engine with 32-bit multipliers beside 5-bit powers of two, by Yosys.

    python -m benchmarks.fpga_first_layer [--whole]

3x3, 3 to 64 channels, 32x32 pixels, all 1,728 products in each clock, registers behind the products and at the end of
the adder tree in every form. The output lanes are alike and share the line buffer and the window, so cells grow with
their number in a line: it is drawn through engines of 2 and 6 output channels. --whole synthesizes 64, which takes long
where weights are constants. Engines whose weights are memories are synthesized by module, constants flattened. Writes
results/fpga-first-layer.{json,md}.
"""

import argparse
from collections.abc import Callable
from dataclasses import asdict, replace

import numpy as np

from benchmarks.result_file import write_json, write_markdown
from edgemeta.kernels.fpga.generate.engines import Engine, Folding
from edgemeta.kernels.fpga.generate.multiplier import multiplier_engine
from edgemeta.kernels.fpga.generate.network import plan_network
from edgemeta.kernels.fpga.synthesize.yosys import Cells, engine_cells
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import TensorType
from tests.conformance.power_of_two import PowerOfTwoBuilder

SIZE, CHANNELS, OUTPUTS = 32, 3, 64
PARTS = (2, 6)
EVERY = 6
"""Levels of the adder tree between registers: 27 products need 5, so there is one at the end only."""
PAPER = Cells(664_400, 206_592, 6_096, 768), Cells(204_096, 8_584, 1_664, 96)
"""32 and 5 bits, from Yamamoto, Kuroki and Numa."""


def multipliers(outputs: int, in_bits: int) -> Engine:
    """32-bit weights in block RAM."""
    rng = np.random.default_rng(0)
    weights = rng.integers(-(2**31), 2**31, (outputs, 3, 3, CHANNELS))
    bias = rng.integers(-(2**40), 2**40, outputs)
    return multiplier_engine(
        weights, bias, (SIZE, SIZE), in_bits + 4, Folding(1, outputs, CHANNELS), in_bits=in_bits, every=EVERY
    )


def powers_of_two(outputs: int, weight_style: str) -> Engine:
    """5-bit weights, requantized by a shift and a table for each channel."""
    net = PowerOfTwoBuilder(TensorType((SIZE, SIZE, CHANNELS)))
    net.conv("layer", INPUT, outputs)
    foldings = {"layer": Folding(1, outputs, CHANNELS)}
    engine = plan_network(net.model("layer"), foldings, constant=weight_style == "logic").engines[0]
    return replace(engine, parameters={**engine.parameters, "EVERY": EVERY, "WEIGHT_STYLE": weight_style})


FORMS: dict[str, Callable[[int], Engine]] = {
    "32 bits, weights in memories": lambda outputs: multipliers(outputs, 32),
    "32 bits, 8-bit pixels, weights in memories": lambda outputs: multipliers(outputs, 8),
    "5 bits, weights in memories": lambda outputs: powers_of_two(outputs, "distributed"),
    "5 bits, constants": lambda outputs: powers_of_two(outputs, "logic"),
}


def main() -> None:
    """Synthesize, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--whole", action="store_true")
    options = parser.parse_args()
    found = {}
    for name, form in FORMS.items():
        found[name] = cells(form(OUTPUTS)) if options.whole else drawn(*(cells(form(count)) for count in PARTS))
        print(name, found[name], flush=True)
    base = found[next(iter(FORMS))]
    lines = ["| form | LUT | FF | DSP | BRAM36 |", "|---|---:|---:|---:|---:|"]
    for name, each in found.items():
        lines.append(row(name, each, base))
    lines += [row("the paper, 32 bits", PAPER[0], PAPER[0]), row("the paper, 5 bits", PAPER[1], PAPER[0])]
    lines.append("\nIn brackets what is cut from 32 bits.")
    print("\n".join(lines))
    command = f"python -m benchmarks.fpga_first_layer{' --whole' if options.whole else ''}"
    write_json(
        "fpga-first-layer",
        command,
        {"whole": options.whole, "parts": PARTS, "forms": {name: asdict(each) for name, each in found.items()}},
    )
    write_markdown("fpga-first-layer", command, "\n".join(lines))


def cells(engine: Engine) -> Cells:
    """Of an engine; lanes with weights in memories are one module, which is synthesized once."""
    return engine_cells(engine, flatten=engine.parameters["WEIGHT_STYLE"] == "logic")


def drawn(few: Cells, more: Cells) -> Cells:
    """Cells of 64 output channels, on the line through those of the parts."""
    lanes = (OUTPUTS - PARTS[0]) / (PARTS[1] - PARTS[0])
    lower, upper = asdict(few), asdict(more)
    values = {key: round(lower[key] + lanes * (upper[key] - lower[key])) for key in lower}
    return Cells(**values)


def row(name: str, each: Cells, base: Cells) -> str:
    """Cells, and what is cut from `base`."""
    fields = []
    for key, value in asdict(each).items():
        cut = 1 - value / asdict(base)[key]
        fields.append(f"{value:,g}" if each is base else f"{value:,g} ({100 * cut:.1f} %)")
    return f"| {name} | {' | '.join(fields)} |"


if __name__ == "__main__":
    main()
