"""What a device has to do for one model, as plain data: buffers, constants and kernel launches.

A plan is made without a GPU (`lowering.lower`). Three executors read it: the PyCUDA session (plugins/cuda), the CPU
emulation (tests/emulation) and the cost report. All shapes are compile-time constants of the kernels, so every launch
has its own compiled variant of its kernel's source; equal variants are compiled once.

An activation tensor of type (H, W, C) lies in its buffer as int8 or uint8 [N, H + top + bottom, W + left + right, Cp],
Cp = C rounded up to a multiple of 4. The ring of padding holds the tensor's zero point: `Buffer.fill` writes it once,
kernels write the inside only. A tap in the ring then adds w * zx, which the bias takes back: acc = bias' + sum of
w * x, bias' = bias - zx * sum of w, exact modulo 2**32 and within int32 by the model's proofs. Channels C .. Cp-1 meet
weights of 0, so their content is free.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.layers import Padding, Shape, TensorType


class UnsupportedError(EdgemetaError):
    """A model that no kernel here runs; the sentence names the layer and why."""


@dataclass(frozen=True)
class FloatType:
    """Shape (H, W, C) of a float32 tensor: the network that is not quantized uses the same buffers and launches."""

    shape: Shape

    @property
    def dtype(self) -> type[np.float32]:
        """The NumPy type that stores it."""
        return np.float32

    @property
    def zero_point(self) -> int:
        """What padding holds: 0, whose bytes are 0, too."""
        return 0


@dataclass(frozen=True, eq=False)
class Buffer:
    """One activation tensor on the device.

    kind: its type. ring: rows above, columns left, rows below, columns right of padding around the inside. packed: the
    tight layout [N, H, W, C] of the model's input and output, without ring or channel padding.
    """

    name: str
    kind: TensorType | FloatType
    ring: Padding = (0, 0, 0, 0)
    packed: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and channels of one image as it lies in memory."""
        height, width, channels = self.kind.shape
        if self.packed:
            return height, width, channels
        top, left, bottom, right = self.ring
        return height + top + bottom, width + left + right, -(-channels // 4) * 4

    @property
    def image_bytes(self) -> int:
        """Bytes of one image."""
        return int(np.prod(self.shape)) * np.dtype(self.kind.dtype).itemsize

    @property
    def fill(self) -> int:
        """The byte that the whole buffer is set to before the first run."""
        return self.kind.zero_point & 0xFF


@dataclass(frozen=True, eq=False)
class Constant:
    """Weights, biases, multipliers or tables, in the order that a kernel reads them; data is C-contiguous."""

    name: str
    data: NDArray[Any]

    def __post_init__(self) -> None:
        assert self.data.flags.c_contiguous, f"{self.name}: a device is given memory as it lies"


Defines: TypeAlias = tuple[tuple[str, int], ...]
"""Preprocessor names and their integers."""


@dataclass(frozen=True)
class Source:
    """One compiled variant of a kernel.

    path: the .cu file, relative to kernels/cuda, such as "direct/kernel.cu". entry: its `extern "C"` function.
    defines: preprocessor names and integers that make the variant.
    """

    path: str
    entry: str
    defines: Defines

    @property
    def key(self) -> str:
        """Short digest that tells variants apart, for file names and caches; the text of the source is not in it."""
        text = json.dumps([self.path, self.entry, self.defines])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


Argument: TypeAlias = Buffer | Constant
"""A pointer argument of a kernel."""


@dataclass(frozen=True, eq=False)
class Launch:
    """One kernel launch.

    layers: names of the model's layers that it does. source: the compiled variant. grid: blocks in x and y for one
    image; image n is blockIdx.z. block: threads in x, y, z. shared_bytes: dynamic shared memory. arguments: pointers,
    in the order of the kernel's parameters; a Buffer's is the address of image 0. tile: the choice that
    was made among a kernel's candidates, for reports and the tuning cache. loops: trip counts of the loops that
    stay loops in the compiled code (`#pragma unroll 1`), in the order of the source; everything else is unrolled.
    """

    layers: tuple[str, ...]
    source: Source
    grid: tuple[int, int]
    block: tuple[int, int, int]
    arguments: tuple[Argument, ...]
    shared_bytes: int = 0
    tile: Mapping[str, int] = field(default_factory=dict)
    loops: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class LaunchPlan:
    """A whole network for one architecture. Launches run in order; each sees all that the earlier ones wrote.

    input, output: the packed buffers that the host writes and reads.
    """

    architecture: Architecture
    launches: tuple[Launch, ...]
    input: Buffer
    output: Buffer

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Every buffer, once, in the order of first use."""
        used = [a for launch in self.launches for a in launch.arguments if isinstance(a, Buffer)]
        return tuple(dict.fromkeys([self.input, *used]))

    @property
    def constants(self) -> tuple[Constant, ...]:
        """Every constant, once, in the order of first use."""
        return tuple(dict.fromkeys(a for launch in self.launches for a in launch.arguments if isinstance(a, Constant)))

    @property
    def sources(self) -> tuple[Source, ...]:
        """Every compiled variant, once."""
        return tuple(dict.fromkeys(launch.source for launch in self.launches))
