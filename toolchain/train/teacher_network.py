"""The PyTorch network of the teachers: wider than the student, and quickly trained."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


class Teacher(nn.Module):
    """A wider network that trains fast: two convolutions per block, early pooling, global maximum.

    The first 2x2 convolution is set once to the whitening transform of the training patches (`whiten`) and is not
    trained. Batch norms have a trained shift but no trained scale. Widths 64, 128, 256 take about 65 million
    multiply-accumulates per image.
    """

    def __init__(self, widths: Sequence[int] = (64, 128, 256), classes: int = 10) -> None:
        super().__init__()
        self.whitening = nn.Conv2d(3, 24, 2)
        self.whitening.weight.requires_grad_(False)
        layers: list[nn.Module] = []
        cin = 24
        for width in widths:
            layers += [
                nn.GELU(),
                nn.Conv2d(cin, width, 3, padding=1, bias=False),
                nn.MaxPool2d(2),
                _shift_only_norm(width),
                nn.GELU(),
                nn.Conv2d(width, width, 3, padding=1, bias=False),
                _shift_only_norm(width),
            ]
            cin = width
        self.blocks = nn.Sequential(*layers, nn.GELU(), nn.AdaptiveMaxPool2d(1))
        for module in self.blocks:
            if isinstance(module, nn.Conv2d):  # identity on the first channels, small noise beyond
                nn.init.kaiming_uniform_(module.weight, nonlinearity="linear")
                nn.init.dirac_(module.weight[: module.in_channels].data)
        self.head = nn.Linear(cin, classes, bias=False)

    def whiten(self, x: Tensor, eps: float = 5e-4) -> None:
        """Set the first convolution from images x [B, 3, H, W].

        Its filters are the eigenvectors of the covariance of all 2x2 patches, divided by the root of their eigenvalues
        + eps, and their negatives.
        """
        patches = functional.unfold(x, 2).transpose(1, 2).reshape(-1, 12)
        values, vectors = torch.linalg.eigh((patches.T @ patches) / len(patches))
        scaled = (vectors / torch.sqrt(values + eps)).T.reshape(12, 3, 2, 2)
        self.whitening.weight.data.copy_(torch.cat([scaled, -scaled]))

    def forward(self, x: Tensor) -> Tensor:
        """Logits [B, classes] of x [B, 3, 32, 32]; scaled by 1/9 for a stable start of the training."""
        out: Tensor = self.head(self.blocks(self.whitening(x)).flatten(1)) / 9.0
        return out


def _shift_only_norm(width: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(width, momentum=0.4)
    norm.weight.requires_grad_(False)
    return norm
