"""Products of two tensors that a network computes itself, as layers that rules are for.

An attention that multiplies queries and keys by `self.scores(q, k.mT)`, with `self.scores = MatMul()`, is under rules:
`scores.left` and `scores.right` are rounded as activations, and the gradient of `scores` as that of a layer.
"""

from torch import Tensor, nn


class Operand(nn.Identity):
    """One factor of a product. axis: the one that the product sums over, counted from the last."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis


class MatMul(nn.Module):
    """`left @ right`, each rounded in the activation's format of the rules for it."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = Operand(-1), Operand(-2)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """The matrix product [..., M, N] of [..., M, K] and [..., K, N]."""
        product: Tensor = self.left(left) @ self.right(right)
        return product
