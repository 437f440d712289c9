"""Network input is exact; accuracy counts right."""

from typing import Any

import numpy as np
import pytest
import torch

from edgemeta.toolchain.train.batches import accuracy_percent, logits_of, mixed_precision, network_input


def test_input_is_exact(pixels: Any) -> None:
    chw = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    x = network_input(chw)
    assert x.is_contiguous(memory_format=torch.channels_last)
    assert (x.numpy() * 128 + 128 == chw).all()
    assert (x.bfloat16().float() == x).all()


class Brightest(torch.nn.Module):
    """Logits are the mean of each colour."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3))


def test_accuracy(pixels: Any) -> None:
    y = pixels.mean((1, 2)).argmax(1).astype(np.uint8)
    assert accuracy_percent(Brightest(), pixels, y, batch=7) >= 95.0
    assert accuracy_percent(Brightest(), pixels, (y + 1) % 3, batch=7) <= 5.0
    assert logits_of(Brightest(), np.zeros((3, 3, 4, 4), np.uint8)).tolist() == [[-1.0] * 3] * 3


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({"avx2": True, "avx512_bf16": False, "amx_bf16": False}, torch.float32),
        ({"avx2": True, "avx512_bf16": True, "amx_bf16": False}, torch.bfloat16),
        ({"neon": True, "bf16": True}, torch.bfloat16),
        ({"neon": True}, torch.float32),
    ],
)
def test_bfloat16_is_used_only_if_the_processor_supports_it(
    features: dict[str, bool], expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: features)
    with mixed_precision():
        assert torch.nn.Linear(2, 2)(torch.zeros(1, 2)).dtype == expected
