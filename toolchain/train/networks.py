"""The PyTorch networks of the training: the student, which is shipped, and the teacher.

Both take float [B, 3, 32, 32] (channels first) holding (pixel - 128) / 128 and give logits [B, 10].
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

#: (in, out, kernel, stride) of conv0..conv8, as in the integer Winograd paper (S1).
RESNET8_CONVS: tuple[tuple[int, int, int, int], ...] = (
    (3, 16, 3, 1),
    (16, 16, 3, 1),
    (16, 16, 3, 1),
    (16, 32, 1, 2),
    (16, 32, 3, 2),
    (32, 32, 3, 1),
    (32, 64, 1, 2),
    (32, 64, 3, 2),
    (64, 64, 3, 1),
)


class ResNet8(nn.Module):
    """ResNet-8 for 32x32 images: nine convolutions, each followed by batch norm; 78 k parameters.

    ReLU after conv0, conv1, conv4, conv7 and after each of the three additions; nothing between a
    residual's second batch norm and the addition. Global average, then one dense layer.
    """

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        for number, (cin, cout, kernel, stride) in enumerate(RESNET8_CONVS):
            conv = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, bias=False)
            nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
            self.add_module(f"conv{number}", conv)
            self.add_module(f"bn{number}", nn.BatchNorm2d(cout))
        self.fc = nn.Linear(64, classes)

    def _block(self, number: int, x: Tensor) -> Tensor:
        conv = self.get_submodule(f"conv{number}")
        norm = self.get_submodule(f"bn{number}")
        out: Tensor = norm(conv(x))
        return out

    def forward(self, x: Tensor) -> Tensor:
        """Logits [B, classes] of x [B, 3, 32, 32]."""
        x = functional.relu(self._block(0, x))
        x = functional.relu(x + self._block(2, functional.relu(self._block(1, x))))
        x = functional.relu(self._block(3, x) + self._block(5, functional.relu(self._block(4, x))))
        x = functional.relu(self._block(6, x) + self._block(8, functional.relu(self._block(7, x))))
        out: Tensor = self.fc(x.mean((2, 3)))
        return out


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
