"""Integer Winograd convolution, 3x3 with stride 1, equal to direct convolution bit for bit.

A tile of m x m outputs is Y = A^T [ sum over channels of (G g G^T) . (B^T d B) ] A, d the (m+2) x (m+2) input patch and
g the kernel (Lavin and Gray, arXiv:1509.09308). The fractions of G are cleared by scaling its rows, so that every step
is an exact integer and Y a known multiple of the convolution y:

- F(2x2): G is held times 2, Y = 4 y (Terakura et al.).
- F(4x4): G's rows are held times 24, the infinity row times 6, and the infinity column of A^T times 4 to match:
  Y = 576 y.

The int32 arithmetic may wrap. With the multiple written as 2**s * odd, Y >> s is odd * y modulo 2**(32-s); times the
inverse of odd modulo 2**(32-s), sign-extended from 32-s bits, it is y, exact for -2**(31-s) <= y < 2**(31-s). F(2x2)
has s = 2 and odd = 1, F(4x4) has s = 6 and odd = 9.

Bounds, for input of magnitude D and weights of magnitude W: transformed inputs 4 D and 100 D, transformed weights 9 W
and 144 W (the greatest row sums of B^T and G, squared). For int8 both are int16. `most_channels` keeps y in range.
"""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Transform:
    """One tile size, all int32: at = A^T [m, m+2], g = G [m+2, 3], bt = B^T [m+2, m+2]; Y = 2**shift * odd * y."""

    at: NDArray[np.int32]
    g: NDArray[np.int32]
    bt: NDArray[np.int32]
    shift: int
    odd: int

    @property
    def tile(self) -> int:
        """Side m of the output tile."""
        return len(self.at)


F2 = Transform(
    at=np.array([[1, 1, 1, 0], [0, 1, -1, -1]], np.int32),
    g=np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.int32),
    bt=np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], np.int32),
    shift=2,
    odd=1,
)
"""F(2x2, 3x3)."""

F4 = Transform(
    at=np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 4]], np.int32),
    g=np.array([[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 6]], np.int32),
    bt=np.array(
        [
            [4, 0, -5, 0, 1, 0],
            [0, -4, -4, 1, 1, 0],
            [0, 4, -4, -1, 1, 0],
            [0, -2, -1, 2, 1, 0],
            [0, 2, -1, -2, 1, 0],
            [0, 4, 0, -5, 0, 1],
        ],
        np.int32,
    ),
    shift=6,
    odd=9,
)
"""F(4x4, 3x3), interpolated at 0, 1, -1, 2, -2 and infinity."""


def most_channels(transform: Transform, greatest_input: int, greatest_weight: int) -> int:
    """Input channels C up to which every y is in range, 9 C D W < 2**(31-s).

    F(4x4) on int8: 227, or 229 where no weight is -128.
    """
    return ((1 << (31 - transform.shift)) - 1) // (9 * greatest_input * greatest_weight)


def transform_weights(weights: NDArray[np.int32], transform: Transform) -> NDArray[np.int32]:
    """G g G^T of every kernel: int32 [O, 3, 3, C] to [O, C, m+2, m+2]."""
    kernels = weights.transpose(0, 3, 1, 2)
    return transform.g @ kernels @ transform.g.T


def transform_patches(x: NDArray[np.int32], transform: Transform) -> NDArray[np.int32]:
    """B^T d B of every patch of padded input [H, W, C]: int32 [rows, columns, C, m+2, m+2], patches m apart."""
    m = transform.tile
    patches = sliding_window_view(x, (m + 2, m + 2), axis=(0, 1))[::m, ::m]
    return transform.bt @ patches @ transform.bt.T


def convolve(x: NDArray[np.int32], weights: NDArray[np.int32], transform: Transform) -> NDArray[np.int32]:
    """Convolve centred input [H, W, C] with [O, 3, 3, C], zero padding 1 on all sides: int32 [H, W, O].

    Exact where every output lies in -2**(31-s) .. 2**(31-s)-1.
    """
    height, width, _ = x.shape
    m = transform.tile
    padded = np.pad(x, ((1, 1 + -height % m), (1, 1 + -width % m), (0, 0)))
    products = np.einsum(
        "ijcuv,ocuv->ijouv", transform_patches(padded, transform), transform_weights(weights, transform)
    )
    tiles = transform.at @ products @ transform.at.T
    outputs = _divide(tiles, transform).transpose(0, 3, 1, 4, 2)
    return outputs.reshape(outputs.shape[0] * m, outputs.shape[2] * m, -1)[:height, :width]


def _divide(tiles: NDArray[np.int32], transform: Transform) -> NDArray[np.int32]:
    """Outputs y of transformed tiles Y, by the module's formula."""
    inverse = np.int32(pow(transform.odd, -1, 1 << (32 - transform.shift)))
    return ((tiles >> transform.shift) * inverse) << transform.shift >> transform.shift
