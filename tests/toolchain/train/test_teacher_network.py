"""The teacher: shapes, whitening."""

import torch

from edgemeta.toolchain.train.teacher_network import Teacher


def test_teacher_gives_logits() -> None:
    assert Teacher((8, 16, 16), 7)(torch.zeros(2, 3, 32, 32)).shape == (2, 7)


def test_whitening_makes_patches_uncorrelated() -> None:
    torch.manual_seed(0)
    coarse = torch.randn(64, 3, 8, 8)
    x = torch.nn.functional.interpolate(coarse, scale_factor=4, mode="bilinear") + 0.1 * torch.randn(64, 3, 32, 32)
    teacher = Teacher((8,))
    teacher.whiten(x)
    with torch.no_grad():
        out = torch.nn.functional.conv2d(x, teacher.whitening.weight).transpose(0, 1).reshape(24, -1)[:12]
    covariance = (out @ out.T) / out.shape[1]
    assert (covariance - torch.eye(12)).abs().max() < 0.1
