"""What a prepared network rounds: format, range and losses of every tensor, and sums that overflow."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.number_formats.formats import Accumulator, Format, name_of
from edgemeta.toolchain.simulate.accumulate import Accumulation
from edgemeta.toolchain.simulate.prepare import accumulations_of, quantizers_of
from edgemeta.toolchain.simulate.quantizer import Quantizer, Role, Statistics

_Role: TypeAlias = Role | Literal["accumulator"]


@dataclass(frozen=True)
class Row:
    """One tensor of a layer.

    elements: how many were rounded; 0 where the network did not call the layer, as it does not call an auxiliary
    classifier in evaluation. least, greatest: of its finite elements. limited: share 0..1 of elements beyond the
    format's ends; of sums: that overflowed. flushed: share that is zero after rounding and was not before.
    """

    layer: str
    role: _Role
    kind: Format | Accumulator
    elements: int
    least: float
    greatest: float
    limited: float
    flushed: float


def report(model: nn.Module, batches: Iterable[Tensor]) -> list[Row]:
    """Run batches [n, ...] through a prepared network in evaluation; measure its activations, weights and sums.

    The network keeps its state. Raises SimulateError for a network that is not prepared, and without batches.
    """
    quantizers = {place: each for place, each in quantizers_of(model).items() if each.role in ("activation", "weight")}
    if not quantizers:
        raise SimulateError("found a network without rounded activations and weights, expected one that is prepared")
    measured: dict[tuple[str, _Role], Quantizer | Accumulation] = dict(quantizers.items())
    measured |= {(layer, each.role): each for layer, each in accumulations_of(model).items()}
    training = {module: module.training for module in model.modules()}
    model.eval()
    for part in measured.values():
        part.statistics = Statistics()
    try:
        with torch.no_grad():
            for batch in batches:
                model(batch)
        rows = [_row(layer, role, part.kind, part.statistics) for (layer, role), part in measured.items()]
    finally:
        for part in measured.values():
            part.statistics = None
        for module, was_training in training.items():
            module.training = was_training
    if not any(row.elements for row in rows):
        raise SimulateError("none of the rounded layers was run, expected at least one batch")
    return rows


def as_text(rows: list[Row]) -> str:
    """A table, a line for each row."""
    cells = [("layer", "role", "format"), *((row.layer, row.role, name_of(row.kind)) for row in rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
    figures = [f"{'least':>10} {'greatest':>10} {'limited':>8} {'to zero':>8}", *(_figures(row) for row in rows)]
    return "\n".join(
        " ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=True)), each])
        for line, each in zip(cells, figures, strict=True)
    )


def _figures(row: Row) -> str:
    if row.elements == 0:
        return f"{'not run':>10}"
    return f"{row.least:10.4g} {row.greatest:10.4g} {row.limited:8.2%} {row.flushed:8.2%}"


def _row(layer: str, role: _Role, kind: Format | Accumulator, found: Statistics | None) -> Row:
    assert found is not None, "statistics, as long as the report runs"
    shares = found.limited / max(1, found.elements), found.flushed / max(1, found.elements)
    return Row(layer, role, kind, found.elements, found.least, found.greatest, *shares)
