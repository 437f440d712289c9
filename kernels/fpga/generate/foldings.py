"""Chooses the foldings of a network: the least logic that reaches a number of clocks per image.

The slowest engine sets the clocks per image, so each engine may be chosen on its own: of the foldings that need at most
so many clocks the one with the fewest predicted LUTs, found by trying all.

LUTs and block RAMs are predicted without synthesis. A prediction is a sum of features, each a number of bits that some
part of the engine handles, times LUTs per bit. The factors were fitted to Yosys's counts by `benchmarks/fpga.py cost`,
which also checks them on foldings that the fit has not seen. For weights that are logic instead of memories the
prediction is too high.
"""

import math
from collections.abc import Mapping

from edgemeta.kernels.fpga.generate.engines import Engine
from edgemeta.kernels.fpga.generate.network import FpgaError, Network, plan_network
from edgemeta.kernels.fpga.generate.verilog import serial_credits
from edgemeta.model.graph import Model

DEFAULT_CYCLES = 21_000
"""Clocks per image without another wish: 4,760 images per second at 100 MHz."""

FACTORS: Mapping[str, Mapping[str, float]] = {
    "conv": {"product": 2.208, "choice": 1.032, "line": 1.528, "memory": 0.501, "accumulator": 4.503, "engine": 88.4},
    "pool": {"sum": 6.0, "engine": 70.0},
    "fifo": {"place": 3.897, "rows": 9.815, "fifo": 7.992},
    "axi": {"ports": 604.0},
    "serial": {"image": 6.429, "ports": 246.6},
}
"""LUTs per unit of each feature of an engine, of a residual FIFO with its fork, of the ports around a network."""

_ADD, _CLAMP = 40, 10
_LINE = 12.0
"""For each bit of a line's factor, and 4: what a requantization by lines takes beyond one by tables."""


def choose_foldings(model: Model, cycles: int | None = None, *, constant: bool = False) -> Network:
    """The network with the least predicted logic of at most `cycles` clocks per image.

    cycles None: DEFAULT_CYCLES, or what the slowest engine needs at least if that is more. Raises FpgaError where a
    goal cannot be reached.
    """
    candidates = _candidates(model, constant)
    fastest = {name: min(engine.steps for engine in found) for name, found in candidates.items()}
    slowest = max(fastest, key=lambda name: fastest[name])
    goal = cycles if cycles is not None else max(DEFAULT_CYCLES, fastest[slowest])
    if fastest[slowest] > goal:
        raise FpgaError(
            f"layer {slowest!r} takes at least {fastest[slowest]} clocks per image, asked for are {goal}: its input "
            "arrives one integer per clock"
        )
    chosen = {}
    for name, found in candidates.items():
        reaching = [each for each in found if each.steps <= goal and "FOLDS" in each.parameters]
        if reaching:
            chosen[name] = -min((predicted_lut(each), -int(each.parameters["FOLDS"])) for each in reaching)[1]
    return plan_network(model, chosen, constant=constant)


def predicted(network: Network, *, is_serial: bool) -> tuple[int, float]:
    """LUTs and block RAMs of all engines, residual FIFOs, and AXI ports, or a serial line with room for its images."""
    blocks = sum(map(predicted_bram36, network.engines)) + sum(_blocks(8, depth) for depth in network.fifos.values())
    if is_serial:
        blocks += _blocks(8, 1 << (serial_credits() * math.prod(network.model.input.shape) - 1).bit_length())
    lut = sum(map(predicted_lut, network.engines)) + weighed("serial" if is_serial else "axi", port_features(network))
    return round(lut + sum(weighed("fifo", fifo_features(depth)) for depth in network.fifos.values())), blocks


def weighed(part: str, features: Mapping[str, float]) -> float:
    """LUTs of features by FACTORS."""
    return sum(factor * features[name] for name, factor in FACTORS[part].items())


def fifo_features(depth: int) -> dict[str, float]:
    """Of a residual FIFO of `depth` words and its fork. place: bits of a counter; rows: further rows of block RAMs."""
    return {"place": (depth - 1).bit_length(), "rows": (depth - 1) // 4096, "fifo": 1.0}


def port_features(network: Network) -> dict[str, float]:
    """Of what lies around a network. image: bits of a counter of its bytes."""
    return {"image": (math.prod(network.model.input.shape) - 1).bit_length(), "ports": 1.0}


def _candidates(model: Model, constant: bool) -> dict[str, list[Engine]]:
    """Every engine with every number of folds that divides its channels, by layer."""
    base = plan_network(model, {}, constant=constant)
    channels = {e.name: int(e.parameters["C"]) for e in base.engines if e.module == "edgemeta_conv"}
    found = {engine.name: [] if engine.name in channels else [engine] for engine in base.engines}
    for folds in sorted({f for count in channels.values() for f in range(1, count + 1) if count % f == 0}):
        foldings = {name: folds for name, count in channels.items() if count % folds == 0}
        for engine in plan_network(model, foldings, constant=constant).engines:
            if engine.name in foldings:
                found[engine.name].append(engine)
    return found


def conv_features(engine: Engine) -> dict[str, float]:
    """What the LUTs of a convolution engine grow with, by name.

    product: bits of all shifted values, each of which is shifted, inverted and added once. choice: LUTs of the
    multiplexers that choose a part of the window, one for each 3 further parts, or of K columns where windows are in
    LUT RAM. line: bits of a column of the window times the row banks that each may come from. memory: bits of 32 words
    in LUT RAM. accumulator: its bits, twice where shifts differ by channel.
    """
    p = {key: int(value) for key, value in engine.parameters.items() if not isinstance(value, str)}
    bits = p["BITS"]
    count = p["K"] ** 2 * p["C"] // p["FOLDS"]
    shift = p["CODE"] - 2
    product = min(bits + (1 << shift), p["WIDTH"])
    distributed = 0.0
    for memory in engine.memories:
        style = "distributed" if memory.suffix == "start" else engine.parameters["WEIGHT_STYLE"]
        is_lut_ram = style == "distributed" and memory.suffix != "table"
        if is_lut_ram or ("LINE_A" in p and memory.suffix == "table"):
            distributed += memory.width * math.ceil(len(memory.words) / 32)
    if engine.parameters["LINE_STYLE"] == "distributed":
        words = p["W"] * p["C"]
        distributed += (p["K"] + p["STRIDE"]) * bits * math.ceil(words / 32)
    parts = 2 ** math.ceil(math.log2(p["FOLDS"]))
    choices = math.ceil((parts - 1) / 3)
    if engine.parameters["WINDOW_STYLE"] == "distributed":
        choices = int(p["K"] > 1)
        distributed += count * bits * math.ceil(2 * parts / 32)
    return {
        "product": count * product,
        "choice": count * bits * choices,
        "line": p["K"] * bits * (p["K"] + p["STRIDE"]),
        "memory": distributed,
        "accumulator": p["WIDTH"] * (2 if p["SHIFTS"] else 1),
        "engine": 1.0,
    }


def predicted_lut(engine: Engine) -> int:
    """LUTs of an engine."""
    line = _LINE * (int(engine.parameters["LINE_A"]) + 4) if "LINE_A" in engine.parameters else 0.0
    match engine.module:
        case "edgemeta_conv":
            return round(weighed("conv", conv_features(engine)) + line)
        case "edgemeta_pool":
            return round(weighed("pool", {"sum": int(engine.parameters["WIDTH"]), "engine": 1.0}) + line)
        case "edgemeta_add":
            return _ADD
        case _:
            return _CLAMP


def predicted_bram36(engine: Engine) -> float:
    """Block RAMs of 36 Kbit, in halves: weights, tables and line buffers: a byte with its parity for each row."""
    p = engine.parameters
    total = 0.0
    for memory in engine.memories:
        if memory.suffix == "table":
            total += _blocks(memory.width, len(memory.words)) if p["TABLE_STYLE"] == "block" else 0
        elif memory.suffix == "weights" and p["WEIGHT_STYLE"] == "block":
            total += _blocks(memory.width, len(memory.words))
    if p.get("LINE_STYLE") == "block":
        total += _blocks(9 * (int(p["K"]) + int(p["STRIDE"])), int(p["W"]) * int(p["C"]))
    return total


def _blocks(width: int, words: int) -> float:
    """Of a memory: columns of 18 or 36 Kbit of the widest form that holds `words` words."""
    for depth, columns18 in ((512, 36), (1024, 18), (2048, 9)):
        if words <= depth:
            return math.ceil(width / columns18) / 2
    return math.ceil(width / 9) * math.ceil(words / 4096)
