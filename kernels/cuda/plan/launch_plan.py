"""Launch plans: buffers, constants and kernel launches of one model, as plain data.

A plan is made without a GPU (`lowering.lower`). Three executors use it: the PyCUDA session (plugins/cuda), the CPU
emulation (tests/emulation) and the cost report. All shapes are compile-time constants of the kernels, so every launch
has its own compiled variant of its kernel's source; equal variants are compiled once.

The buffer of an activation tensor of type (H, W, C) is int8 or uint8 [N, H + top + bottom, W + left + right, Cp], where
Cp is C rounded up to a multiple of 4. The padding around the tensor, its ring, holds the zero point: it is written once
(`Buffer.fill`), kernels write only the inside. A tap in the ring then adds w * zx, which the bias compensates:
acc = bias' + sum of w * x, bias' = bias - zx * sum of w, exact modulo 2**32 and within int32 by the model's proof.
Channels C .. Cp-1 are multiplied by weights of 0, so they may hold anything. A tensor of 4 bits may have two channels
to a byte (`Buffer.nibbles`), if all kernels that access it support that.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.model.layers import Padding, Shape, TensorType


@dataclass(frozen=True)
class FloatType:
    """Shape (H, W, C) of a float32 tensor: the float32 baseline uses the same buffers and launches."""

    shape: Shape

    @property
    def dtype(self) -> type[np.float32]:
        """The NumPy type that stores it."""
        return np.float32

    @property
    def zero_point(self) -> int:
        """Value of the padding: 0, whose bytes are also 0."""
        return 0


@dataclass(frozen=True, eq=False)
class Buffer:
    """One activation tensor on the device.

    kind: its type. ring: rows above, columns left, rows below, columns right of padding around the tensor. packed: the
    contiguous layout [N, H, W, C] of the model's input and output, without ring and channel padding. nibbles: a byte
    has two channels of 4 bits. Of channels 8 k .. 8 k + 7, byte c of word k has c in its lower nibble and c + 4 in its
    upper one.
    """

    name: str
    kind: TensorType | FloatType
    ring: Padding = (0, 0, 0, 0)
    packed: bool = False
    nibbles: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and elements of a pixel of one image in memory: channels, or bytes of two."""
        height, width, channels = self.kind.shape
        if self.packed:
            return height, width, channels
        top, left, bottom, right = self.ring
        elements = channels // 2 if self.nibbles else -(-channels // 4) * 4
        return height + top + bottom, width + left + right, elements

    @property
    def image_bytes(self) -> int:
        """Bytes of one image."""
        return int(np.prod(self.shape)) * np.dtype(self.kind.dtype).itemsize

    @property
    def fill(self) -> int:
        """The byte that fills the whole buffer before the first run."""
        return (self.kind.zero_point & 0xF) * 0x11 if self.nibbles else self.kind.zero_point & 0xFF


@dataclass(frozen=True, eq=False)
class Constant:
    """Weights, biases, multipliers or tables in the order in which a kernel reads them; data is C-contiguous."""

    name: str
    data: NDArray[Any]

    def __post_init__(self) -> None:
        assert self.data.flags.c_contiguous, f"{self.name}: not C-contiguous"


@dataclass(frozen=True)
class Counter:
    """A 32-bit word that is 0 before the first launch; its kernel keeps it consistent from launch to launch.

    Equal by name: kernels that run one after the other may share it.
    """

    name: str


Defines: TypeAlias = tuple[tuple[str, int], ...]
"""Preprocessor names and their integers."""


@dataclass(frozen=True)
class Source:
    """One compiled variant of a kernel.

    path: the .cu file, relative to kernels/cuda, such as "direct/kernel.cu". entry: its `extern "C"` function.
    defines: preprocessor names and integers of the variant. text: of a generated kernel, which has no file.
    """

    path: str
    entry: str
    defines: Defines
    text: str = ""

    @property
    def key(self) -> str:
        """Short digest that identifies the variant in file names and caches; the source's text is not included."""
        text = json.dumps([self.path, self.entry, self.defines, *([self.text] if self.text else [])])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


Argument: TypeAlias = Buffer | Constant | Counter
"""A pointer argument of a kernel."""


@dataclass(frozen=True, eq=False)
class Launch:
    """One kernel launch.

    layers: names of the model's layers that it computes. source: the compiled variant. grid: blocks in x and y for one
    image; image n is blockIdx.z. block: threads in x, y, z. shared_bytes: dynamic shared memory. arguments: pointers,
    in the order of the kernel's parameters; for a Buffer the address of image 0. tile: parameters of the chosen
    candidate, for reports and the tuning cache. loops: trip counts of the loops that remain in the compiled code
    (`#pragma unroll 1`), in source order; all others are unrolled. joins: the launches that a persistent one computes;
    input: the tensor that none of these writes.
    """

    layers: tuple[str, ...]
    source: Source
    grid: tuple[int, int]
    block: tuple[int, int, int]
    arguments: tuple[Argument, ...]
    shared_bytes: int = 0
    tile: Mapping[str, int] = field(default_factory=dict)
    loops: tuple[int, ...] = ()
    joins: tuple["Launch", ...] = ()
    input: Buffer | None = None

    @property
    def is_persistent(self) -> bool:
        """Whether the grid is the same for any number of images, which is one more parameter, an int after pointers.

        Its blocks must be resident at once (one_launch/plan.py).
        """
        return bool(self.joins)

    def grid_of(self, images: int) -> tuple[int, int, int]:
        """Blocks of the launch for that many images."""
        return (*self.grid, 1 if self.is_persistent else images)


@dataclass(frozen=True, eq=False)
class LaunchPlan:
    """A complete network for one architecture. Launches run in order; each sees the results of all earlier ones.

    input, outputs: the packed buffers that the host writes and reads.
    """

    architecture: Architecture
    launches: tuple[Launch, ...]
    input: Buffer
    outputs: tuple[Buffer, ...]

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
    def counters(self) -> tuple[Counter, ...]:
        """Every counter, once."""
        return tuple(dict.fromkeys(a for launch in self.launches for a in launch.arguments if isinstance(a, Counter)))

    @property
    def sources(self) -> tuple[Source, ...]:
        """Every compiled variant, once."""
        return tuple(dict.fromkeys(launch.source for launch in self.launches))


def form_of(launch: Launch) -> str:
    """The kernel, and what else its products depend on."""
    kernel, tile = launch.source.path.rpartition("/")[0], launch.tile
    if kernel == "popc":
        return f"popc, {tile['bases']} planes of weights x {tile['bits']} of activations"
    if "fields" in tile:
        return f"{kernel}, {tile['fields']} fields"
    if kernel == "tensor":
        return f"{kernel}, int{tile['bits']}"
    return kernel


def forms_of(launches: tuple[Launch, ...]) -> dict[str, str]:
    """By the names of the steps; those of a joined launch one by one."""
    apart = [each for launch in launches for each in (launch.joins or (launch,))]
    return {"+".join(each.layers): form_of(each) for each in apart}
