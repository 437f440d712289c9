"""Scheme `recorded`: a calibration that was made before, so that everybody gets the same integers without images.

A record holds what calibration images decide: zero point and scale of each tensor, and the grids of those with a scale
for each channel. Weights and biases follow from the float network.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edgemeta.model.graph import INPUT, FloatModel
from edgemeta.model.layers import Shape, TensorType
from edgemeta.model.prove_float import prove_float
from edgemeta.model.tasks import compares_channels
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize.blocks import Block, blocks_of
from edgemeta.toolchain.quantize.channels import Grid
from edgemeta.toolchain.quantize.events import Events, Stage
from edgemeta.toolchain.quantize.folded import Folded
from edgemeta.toolchain.quantize.image import image_type
from edgemeta.toolchain.quantize.lower import Lowering, raw_outputs
from edgemeta.toolchain.quantize.scheme import SchemeResult
from edgemeta.toolchain.quantize.weights import LayerWeights

DIGITS = 4
"""Significant digits of a scale in a record: within 0.05 % of the calibration's."""
Finite = Annotated[float, Field(allow_inf_nan=False)]
Scale = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class RecordedTensor(BaseModel):
    """A tensor of a record.

    step: of each channel, where these differ; start: where it is not the zero point's. scale: of the type; without one,
    the greatest step.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    zero_point: Annotated[int, Field(ge=-128, le=255)]
    signed: bool
    scale: Scale | None = None
    step: tuple[Scale, ...] = ()
    start: tuple[Finite, ...] = ()

    @classmethod
    def of(cls, kind: TensorType, grid: Grid | None) -> "RecordedTensor":
        """That of a tensor's type and, where it has a scale for each channel, its grid."""
        scale = _short(kind.scale)
        if grid is None:
            return cls(zero_point=kind.zero_point, signed=kind.signed, scale=scale)
        is_zero = np.array_equal(grid.start, (kind.lo - kind.zero_point) * grid.step)
        step = tuple(map(_short, grid.step.tolist()))
        start = () if is_zero else tuple(map(_short, grid.start.tolist()))
        stated = None if scale == max(step) else scale
        return cls(zero_point=kind.zero_point, signed=kind.signed, scale=stated, step=step, start=start)

    def read(self, shape: Shape) -> tuple[TensorType, Grid | None]:
        """Type and grid of a tensor of a shape. Raises QuantizeError, without the tensor's name."""
        kind = TensorType(shape, signed=self.signed, zero_point=self.zero_point)
        if not kind.lo <= self.zero_point <= kind.hi:
            raise QuantizeError(f"has the zero point {self.zero_point}, expected {kind.lo} to {kind.hi}")
        if not self.step and self.scale is not None:
            return replace(kind, scale=self.scale), None
        step: NDArray[np.float64] = np.array(self.step)
        start = np.array(self.start) if self.start else (kind.lo - kind.zero_point) * step
        if not len(step) == len(start) == shape[2]:
            raise QuantizeError(f"has {len(step)} steps and {len(start)} starts, expected {shape[2]} each")
        scale = self.scale or float(step.max())
        return replace(kind, scale=scale), Grid(start, step, scale)


class Record(BaseModel):
    """A calibration of a network. tensors: by block."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    tensors: Mapping[str, RecordedTensor]

    @classmethod
    def of(cls, lowering: Lowering[Folded]) -> "Record":
        """That of what builds an integer network."""
        types, grids = lowering.types, lowering.grids
        return cls(
            tensors={each.name: RecordedTensor.of(types[each.name], grids.get(each.name)) for each in lowering.blocks}
        )

    @classmethod
    def load(cls, path: Path) -> "Record":
        """That of a file. Raises QuantizeError."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise QuantizeError(f"{path}: cannot be read: {error.strerror or error}") from None
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the file"
            raise QuantizeError(f"{path}: is no record of a calibration: {place}: {first['msg']}") from None

    def text(self) -> str:
        """The content of its file: one tensor a line."""
        each = [f'"{name}":{tensor.model_dump_json(exclude_defaults=True)}' for name, tensor in self.tensors.items()]
        return '{"tensors":{\n' + ",\n".join(each) + "\n}}\n"


@dataclass(frozen=True)
class RecordedScheme:
    """The scheme of the record in a file."""

    path: Path

    def run(self, model: FloatModel, following: Sequence[Stage], events: Events) -> SchemeResult:
        """As `Scheme.run`."""
        events.planned(following)
        provenance = {"scheme": "recorded", "record": self.path.name}
        return SchemeResult(replace(self.lowering(model).build(), provenance=provenance), 0)

    def lowering(self, model: FloatModel) -> Lowering[Folded]:
        """What builds the integer network. Raises QuantizeError for a record of another network."""
        record, shapes, blocks = Record.load(self.path), prove_float(model, model.name), blocks_of(model)
        types, grids = {INPUT: image_type(model)}, {}
        for block in blocks:
            types[block.name], grid = self._read(record, block, shapes[block.after])
            if grid is not None:
                grids[block.name] = grid
        policy = Folded(LayerWeights(blocks, grids), "multiplier", compares_channels(model.task))
        return Lowering(model, blocks, types, policy, raw_outputs(model, blocks), grids)

    def _read(self, record: Record, block: Block, shape: Shape) -> tuple[TensorType, Grid | None]:
        if block.name not in record.tensors:
            raise QuantizeError(f"{self.path}: has no tensor {block.name!r}: expected the record of this network")
        try:
            return record.tensors[block.name].read(shape)
        except QuantizeError as error:
            raise QuantizeError(f"{self.path}: tensor {block.name!r} {error}") from None


def _short(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")
