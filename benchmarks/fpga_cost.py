"""The cost model of the foldings beside Yosys: fits its factors, and checks them on ten foldings of their own.

    python -m benchmarks.fpga_cost

Engines are layers of ResNet-8 with random weights (tests/conformance/power_of_two.py), folded in ways that are either
fitted or checked, never both. The fit minimizes squared relative errors, without negative factors. Prints the factors,
which `kernels/fpga/generate/cost.py` holds, and the errors; writes results/fpga-cost.{json,md}. Exits with 1 if a
checked folding is off by more than 15 % with the factors that cost.py holds.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.result_file import write_json, write_markdown
from edgemeta.kernels.fpga.generate.cost import FACTORS, conv_features, predicted_lut
from edgemeta.kernels.fpga.generate.engines import Engine, Folding
from edgemeta.kernels.fpga.generate.network import plan_network
from edgemeta.kernels.fpga.synthesize.yosys import engine_cells
from edgemeta.model.graph import Model
from tests.conformance.power_of_two import random_resnet8

FITTED = {
    5: ("conv0/1", "conv1/1", "conv3/2", "conv4/2", "conv5/2", "conv6/4", "conv7/4", "conv8/4", "fc/64", "conv1/16"),
    3: ("conv0/1", "conv1/4", "conv3/4", "conv4/8", "fc/16"),
}
CHECKED = {
    5: ("conv0/3", "conv1/8", "conv3/1", "conv3/8", "conv4/8", "conv6/8", "conv1/4", "conv4/4"),
    4: ("conv0/1", "conv1/8"),
}
"""By bits of the weights: layer/folds."""
LIMIT = 0.15


def main() -> None:
    """Fit, check, print and write."""
    fitted, checked = engines(FITTED), engines(CHECKED)
    found = {name: engine_cells(engine).lut for name, engine in {**fitted, **checked}.items()}
    factors = fit(fitted, found)
    print("factors of the fit:", {name: round(value, 3) for name, value in factors.items()})
    rows = [row(name, engine, found[name], name in checked) for name, engine in {**fitted, **checked}.items()]
    worst = max(abs(each.error) for each in rows if each.checked)
    lines = ["| layer/folds, bits | | LUT by Yosys | predicted | error |", "|---|---|---:|---:|---:|"]
    for each in rows:
        kind = "checked" if each.checked else "fitted"
        lines.append(f"| {each.engine} | {kind} | {each.lut} | {each.predicted} | {100 * each.error:+.1f} % |")
    lines.append(f"\nWorst of the checked: {100 * worst:.1f} %.")
    print("\n".join(lines))
    command = "python -m benchmarks.fpga_cost"
    write_json(
        "fpga-cost",
        command,
        {"factors": dict(FACTORS), "fit": factors, "rows": [asdict(each) for each in rows], "worst_checked": worst},
    )
    write_markdown("fpga-cost", command, "\n".join(lines))
    sys.exit(worst > LIMIT)


@dataclass(frozen=True)
class Row:
    """An engine's LUTs, counted and predicted; error is relative."""

    engine: str
    checked: bool
    lut: int
    predicted: int
    error: float


def row(name: str, engine: Engine, lut: int, checked: bool) -> Row:
    """Compare a prediction with the count."""
    predicted = predicted_lut(engine)
    return Row(name, checked, lut, predicted, round(predicted / lut - 1, 4))


def engines(chosen: Mapping[int, Sequence[str]]) -> dict[str, Engine]:
    """Engines by "layer/folds, bits"."""
    made = {}
    for bits, entries in chosen.items():
        model = random_resnet8(0, bits)
        for entry in entries:
            layer, folds = entry.split("/")
            made[f"{entry}, {bits}"] = folded(model, layer, int(folds))
    return made


def folded(model: Model, layer: str, folds: int) -> Engine:
    """One engine of a network."""
    network = plan_network(model, {layer: Folding(folds)})
    return next(engine for engine in network.engines if engine.name == layer)


def fit(engines: Mapping[str, Engine], found: Mapping[str, int]) -> dict[str, float]:
    """Factors of the least squared relative errors that are not negative: features with a negative one are left out."""
    names = list(FACTORS)
    features: NDArray[np.float64] = np.array([[conv_features(e)[name] for name in names] for e in engines.values()])
    scaled = features / np.array([[found[name]] for name in engines])
    kept = list(range(len(names)))
    while True:
        solved, *_ = np.linalg.lstsq(scaled[:, kept], np.ones(len(engines)), rcond=None)
        if (solved >= 0).all():
            return dict.fromkeys(names, 0.0) | {names[at]: float(value) for at, value in zip(kept, solved, strict=True)}
        kept.pop(int(solved.argmin()))


if __name__ == "__main__":
    main()
