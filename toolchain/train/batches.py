"""Converts uint8 pixels to network input, and measures a network on a data set."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


def network_input(pixels: NDArray[np.uint8]) -> Tensor:
    """uint8 [B, 3, H, W] to float32 [B, 3, H, W] (channels last in memory): (pixel - 128) / 128, exact."""
    x = torch.from_numpy(pixels).to(torch.float32, memory_format=torch.channels_last)
    return x.sub_(128.0).div_(128.0)


def mixed_precision(device: str = "cpu") -> torch.autocast:
    """Autocast context for the networks: bfloat16 if the device, or the processor, supports it, else float32.

    An x86-64 processor without AVX512-BF16 or AMX emulates bfloat16, ten times slower than float32.
    """
    if device != "cpu":
        return torch.autocast(device, torch.bfloat16, enabled=torch.cuda.is_bf16_supported())
    features = torch.cpu.get_capabilities()
    native = any(features.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))  # the last is Arm
    return torch.autocast("cpu", torch.bfloat16, enabled=native)


def logits_of(network: nn.Module, pixels: NDArray[np.uint8], batch: int = 500) -> Tensor:
    """float32 logits [N, classes] in evaluation mode (`mixed_precision`) of uint8 [N, 3, H, W]."""
    network.eval()
    out = []
    with torch.no_grad(), mixed_precision():
        for start in range(0, len(pixels), batch):
            out.append(network(network_input(pixels[start : start + batch])).float())
    return torch.cat(out)


def accuracy_percent(network: nn.Module, x: NDArray[np.uint8], y: NDArray[np.integer], batch: int = 500) -> float:
    """Top-1 accuracy in percent on x uint8 [N, H, W, 3], y uint8 [N].

    An estimate during training (`mixed_precision`); the published figure is measured on the exported float32 model.
    """
    pixels = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    guess = logits_of(network, pixels, batch).argmax(1).numpy()
    return round(100.0 * float((guess == y).mean()), 3)
