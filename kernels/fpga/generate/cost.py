"""Predicts the LUTs and block RAMs of an engine without synthesis, for the choice of foldings.

A prediction is a sum of features, each a number of bits that some part of the engine handles, times LUTs per bit. The
factors were fitted to Yosys's counts by `benchmarks/fpga_cost.py`, which also checks them on foldings that the fit has
not seen.
"""

import math
from collections.abc import Mapping

from edgemeta.kernels.fpga.generate.engines import Engine

FACTORS: Mapping[str, float] = {
    "near": 1.0,
    "product": 1.0,
    "tree": 1.0,
    "choice": 0.5,
    "line": 1.0,
    "memory": 0.7,
    "accumulator": 3.0,
    "engine": 150.0,
}
"""LUTs per unit of each feature of a convolution."""

_ADD, _CLAMP, _FIFO = 40, 10, 60
_POOL = {"WIDTH": 6.0, "engine": 70.0}


def conv_features(engine: Engine) -> dict[str, float]:
    """What the LUTs of a convolution engine grow with, by name."""
    p = {key: int(value) for key, value in engine.parameters.items() if not isinstance(value, str)}
    lanes, bits = p["OUT_LANES"], p["BITS"]
    count = p["K"] ** 2 * p["C"] // p["FOLDS"]
    shift = p["CODE"] - 2
    near = bits + (1 << min(shift, 2)) - 1
    product = min(bits + (1 << shift), p["WIDTH"])
    tree, sums = 0, count
    for level in range(1, math.ceil(math.log2(count)) + 1 if count > 1 else 1):
        tree += (sums // 2) * min(product + level, p["WIDTH"])
        sums -= sums // 2
    distributed = 0.0
    for memory in engine.memories:
        style = "distributed" if memory.suffix == "start" else engine.parameters["WEIGHT_STYLE"]
        if style == "distributed" and not memory.suffix.startswith("table"):
            distributed += memory.width * math.ceil(len(memory.words) / 32)
    if engine.parameters["LINE_STYLE"] == "distributed":
        words = p["W"] * p["C"] // p["IN_LANES"]
        distributed += (p["K"] + p["STRIDE"]) * bits * p["IN_LANES"] * math.ceil(words / 32)
    return {
        "near": lanes * count * near if shift else 0.0,
        "product": lanes * count * product,
        "tree": lanes * tree,
        "choice": count * bits * math.ceil((2 ** math.ceil(math.log2(p["FOLDS"])) - 1) / 3),
        "line": p["K"] * p["IN_LANES"] * bits * (p["K"] + p["STRIDE"]),
        "memory": distributed,
        "accumulator": lanes * p["WIDTH"] * (2 if p["SHIFTS"] else 1),
        "engine": 1.0,
    }


def predicted_lut(engine: Engine) -> int:
    """LUTs of an engine."""
    match engine.module:
        case "edgemeta_conv":
            return round(sum(FACTORS[name] * value for name, value in conv_features(engine).items()))
        case "edgemeta_pool":
            return round(_POOL["WIDTH"] * int(engine.parameters["WIDTH"]) + _POOL["engine"])
        case "edgemeta_add":
            return _ADD
        case _:
            return _CLAMP


def predicted_bram36(engine: Engine) -> float:
    """Block RAMs of 36 Kbit, in halves: weights, tables and line buffers."""
    p = engine.parameters
    total = 0.0
    for memory in engine.memories:
        if memory.suffix.startswith("table"):
            total += _blocks(memory.width, len(memory.words)) if p["TABLE_STYLE"] == "block" else 0
        elif memory.suffix == "weights" and p["WEIGHT_STYLE"] == "block":
            total += _blocks(memory.width, len(memory.words))
    if p.get("LINE_STYLE") == "block":
        words = int(p["W"]) * int(p["C"]) // int(p["IN_LANES"])
        total += (int(p["K"]) + int(p["STRIDE"])) * _blocks(int(p["BITS"]) * int(p["IN_LANES"]), words)
    return total


def _blocks(width: int, words: int) -> float:
    """Of a memory: columns of 18 or 36 Kbit of the widest form that holds `words` words."""
    for depth, columns18 in ((512, 36), (1024, 18), (2048, 9)):
        if words <= depth:
            return math.ceil(width / columns18) / 2
    return math.ceil(width / 9) * math.ceil(words / 4096)
