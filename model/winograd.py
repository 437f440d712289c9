"""Integer Winograd convolution, 3x3 with stride 1 or 2, equal to direct convolution bit for bit.

A tile of m x m outputs is Y = A^T [ sum over channels of (G g G^T) . (B^T d B) ] A, d the input patch, (m+2) x (m+2) at
stride 1, and g the kernel (Lavin and Gray, arXiv:1509.09308). Scaling the rows of G removes its fractions, so that
every step is an exact integer and Y a known multiple of the convolution y:

- F(2x2): G is multiplied by 2, Y = 4 y (Terakura et al.).
- F(4x4): the rows of G are multiplied by 24, the infinity row by 6, and the infinity column of A^T by 4 to match:
  Y = 576 y.
- F(2x2) at stride 2: the even entries of a line of 5 are multiplied by two of the three taps, an F(2, 2) of three
  products at 0, 1 and infinity; the odd ones by the middle tap directly. That is 5 products per line for 2 outputs, 25
  per tile where direct convolution has 36. All entries are integers: Y = y.

The int32 arithmetic may wrap. With the multiple written as 2**s * odd, Y >> s is odd * y modulo 2**(32-s); times the
inverse of odd modulo 2**(32-s), sign-extended from 32-s bits, it is y, exact for -2**(31-s) <= y < 2**(31-s). F(2x2)
has s = 2 and odd = 1, F(4x4) has s = 6 and odd = 9, F(2x2) at stride 2 has s = 0 and odd = 1.

Bounds, for input of magnitude D and weights of magnitude W: transformed inputs 4 D, 100 D and 4 D, transformed weights
9 W, 144 W and 4 W (the greatest row sums of B^T and G, squared). For int8 all are int16. `most_channels` keeps y in
range.
"""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Transform:
    """One tile size, all int32: at = A^T [m, n], g = G [n, 3], bt = B^T [n, n]; Y = 2**shift * odd * y.

    n, the side of a patch, is m + 2 at stride 1 and 2 m + 1 at stride 2.
    """

    at: NDArray[np.int32]
    g: NDArray[np.int32]
    bt: NDArray[np.int32]
    shift: int
    odd: int
    stride: int = 1

    @property
    def tile(self) -> int:
        """Side m of the output tile."""
        return len(self.at)

    @property
    def edge(self) -> int:
        """Side n of the input patch."""
        return len(self.bt)


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

F2_STRIDED = Transform(
    at=np.array([[1, 1, 0, 1, 0], [0, 1, 1, 0, 1]], np.int32),
    g=np.array([[1, 0, 0], [1, 0, 1], [0, 0, 1], [0, 1, 0], [0, 1, 0]], np.int32),
    bt=np.array([[1, 0, -1, 0, 0], [0, 0, 1, 0, 0], [0, 0, -1, 0, 1], [0, 1, 0, 0, 0], [0, 0, 0, 1, 0]], np.int32),
    shift=0,
    odd=1,
    stride=2,
)
"""F(2x2, 3x3) at stride 2."""


def most_channels(transform: Transform, greatest_input: int, greatest_weight: int) -> int:
    """Input channels C up to which every y is in range, 9 C D W < 2**(31-s).

    F(4x4) on int8: 227, or 229 where no weight is -128.
    """
    return ((1 << (31 - transform.shift)) - 1) // (9 * greatest_input * greatest_weight)


def transform_weights(weights: NDArray[np.int32], transform: Transform) -> NDArray[np.int32]:
    """G g G^T of every kernel: int32 [O, 3, 3, C] to [O, C, n, n]."""
    kernels = weights.transpose(0, 3, 1, 2)
    return transform.g @ kernels @ transform.g.T


def transform_patches(x: NDArray[np.int32], transform: Transform) -> NDArray[np.int32]:
    """B^T d B of every patch of padded input [H, W, C]: int32 [rows, columns, C, n, n], patches m * stride apart."""
    edge, step = transform.edge, transform.tile * transform.stride
    patches = sliding_window_view(x, (edge, edge), axis=(0, 1))[::step, ::step]
    return transform.bt @ patches @ transform.bt.T


def convolve(x: NDArray[np.int32], weights: NDArray[np.int32], transform: Transform) -> NDArray[np.int32]:
    """Convolve centred input [H, W, C] with [O, 3, 3, C], zero padding 1 on all sides: int32 [H', W', O].

    H' and W' are the sides divided by the stride, rounded up. Exact where every output is in -2**(31-s) .. 2**(31-s)-1.
    """
    height, width = (-(-side // transform.stride) for side in x.shape[:2])
    padded = np.pad(x, (_padding(x.shape[0], transform), _padding(x.shape[1], transform), (0, 0)))
    products = np.einsum(
        "ijcuv,ocuv->ijouv", transform_patches(padded, transform), transform_weights(weights, transform)
    )
    tiles = transform.at @ products @ transform.at.T
    outputs = _divide(tiles, transform).transpose(0, 3, 1, 4, 2)
    m = transform.tile
    return outputs.reshape(outputs.shape[0] * m, outputs.shape[2] * m, -1)[:height, :width]


def _padding(side: int, transform: Transform) -> tuple[int, int]:
    """Zeros before and after a side: 1, and as many as complete patches need."""
    step = transform.tile * transform.stride
    return 1, (-(-side // step) - 1) * step + transform.edge - side - 1


def _divide(tiles: NDArray[np.int32], transform: Transform) -> NDArray[np.int32]:
    """Outputs y of transformed tiles Y, by the formula in the module's docstring."""
    inverse = np.int32(pow(transform.odd, -1, 1 << (32 - transform.shift)))
    return ((tiles >> transform.shift) * inverse) << transform.shift >> transform.shift
