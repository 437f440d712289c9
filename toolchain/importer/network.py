"""A network of another program as plain records, whatever the format of its file: nodes, constants, shapes, types."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.importer.stored_names import StoredNames

Array = NDArray[Any]
ImageShape = tuple[int, int, int, int]
"""N, C, H, W of the network's input, N = 1."""
Order = Literal["chw", "hwc"]
"""Order of the axes of the network's input behind the first."""


MAX_SHOWN = 150
"""Characters of a name in a file that are shown."""


def printable(text: str) -> str:
    """The beginning of a text of a file, on one line."""
    return "".join(char if char.isprintable() else "_" for char in text[:MAX_SHOWN])


@dataclass(frozen=True, eq=False)
class Node:
    """One operation. inputs: names of tensors, "" for one left out. attributes: numbers, texts, tuples, arrays."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    @property
    def place(self) -> str:
        """How errors name it."""
        made = self.outputs[0] if self.outputs else ""
        name = self.name[:MAX_SHOWN]
        return f"{printable(self.op)} {name!r}" if name else f"{printable(self.op)} that makes {made[:MAX_SHOWN]!r}"


@dataclass(frozen=True, eq=False)
class Quantization:
    """How the file stores a tensor in integers: an integer q represents scale * (q - zero_point).

    scale float64 and zero_point int64, both [1], or [channels] for weights with one for each. signed: int8 or uint8
    (int32 for a bias). values: the integers of a constant, None for a tensor that is computed.
    """

    scale: NDArray[np.float64]
    zero_point: NDArray[np.int64]
    signed: bool
    values: Array | None = None


@dataclass(frozen=True, eq=False)
class Network:
    """A network with one image as input.

    shapes: of every tensor that has a known one. quantization: of the tensors that the file stores in integers;
    constants hold their real numbers. notes: what the file has that is left out. stored: what the file says beside it.
    """

    name: str
    input: str
    input_shape: ImageShape
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
    shapes: Mapping[str, tuple[int, ...]]
    input_order: Order = "chw"
    quantization: Mapping[str, Quantization] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    stored: StoredNames = field(default_factory=StoredNames)


SIXTEEN_BITS = (
    "its activations have 16 bits, which no integer layer here has: imported as the float network that its integers "
    "represent, for edgemeta quantize"
)
"""Note on a network whose integers are not kept."""
