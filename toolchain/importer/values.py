"""What a tensor of an ONNX file is in the float graph: a map, or maps seen as a list of rows or columns.

ONNX has N, C, H, W and moves axes freely at the end of a network; the float graph has H, W, C throughout. So a Reshape
or Transpose makes no layer here: it changes how the same map is seen.
"""

from dataclasses import dataclass
from typing import TypeAlias

from edgemeta.toolchain.float_model.graph import Shape


@dataclass(frozen=True)
class Map:
    """[1, C, H, W]: the tensor itself."""

    tensor: str
    shape: Shape


@dataclass(frozen=True)
class Flat:
    """[1, C * H * W]: a map in the order C, H, W."""

    tensor: str
    shape: Shape


@dataclass(frozen=True)
class Pixels:
    """[1, H, W, C]: a map with its channels last."""

    map: Map


@dataclass(frozen=True)
class Columns:
    """[1, C, P]: the pixels of maps with C channels each, row by row, one map after the other."""

    maps: tuple[Map, ...]


@dataclass(frozen=True)
class Rows:
    """[1, P, width]: the same with the channels last; a pixel of k * width channels gives k rows."""

    maps: tuple[Map, ...]
    width: int


@dataclass(frozen=True)
class Grouped:
    """[1, G, C / G, H, W], or with both middle axes exchanged: half of a channel shuffle."""

    map: Map
    groups: int
    is_exchanged: bool = False


Value: TypeAlias = Map | Flat | Pixels | Columns | Rows | Grouped
