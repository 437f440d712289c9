"""Writes networks of timm as ONNX files with random weights. Needs timm, PyTorch and onnx, nothing of edgemeta.

    python benchmarks/timm_export.py FOLDER NAME...

Parameters that begin as one small number (zero biases, heads, scales of branches) are drawn, too, so that no part of a
network is without effect. A file that is there is kept.
"""

import sys
from pathlib import Path

import timm
import torch

SMALL = 0.1
"""Greatest number, and deviation, of parameters that are drawn."""


def main() -> None:
    """Export each network that has no file yet."""
    folder = Path(sys.argv[1])
    timm.layers.set_fused_attn(False)
    for name in sys.argv[2:]:
        path, part = folder / f"{name}.onnx", folder / f"{name}.part"
        if path.exists():
            continue
        torch.manual_seed(0)
        network = timm.create_model(name, pretrained=False).eval()
        draw(network)
        image = torch.zeros(1, *network.default_cfg["input_size"])
        torch.onnx.export(network, (image,), str(part), input_names=["image"], opset_version=17, dynamo=False)
        part.rename(path)
        print(name, flush=True)


def draw(network: torch.nn.Module) -> None:
    """Draw parameters that are all one small number."""
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.std(correction=0) == 0 and parameter.abs().max() <= SMALL:
                parameter.normal_(0, SMALL)


if __name__ == "__main__":
    main()
