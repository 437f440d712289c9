"""Files of a float ONNX network for peers that have a format of their own: ncnn, and ExecuTorch with XNNPACK.

    python -m benchmarks.peer_files ncnn|executorch FILE.onnx OUT

A program of its own: what these packages need (pnnx; executorch and torchao) is not installed with edgemeta. ncnn's
wheel has no program that quantizes, so its file is float, as pnnx converts it. ExecuTorch's is int8, per channel, with
the ranges of random pixels: for times, not for labels.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

NEEDED = {"ncnn": ("ncnn", "pnnx"), "executorch": ("executorch", "torchao")}
"""Modules by runtime."""


def installed(runtime: str) -> bool:
    """Whether the packages of a runtime are there."""
    return all(find_spec(name) is not None for name in NEEDED[runtime])


def write(runtime: str, file: Path, out: Path) -> Path | None:
    """Write OUT in a process of its own; None where the runtime's converter does not take the network."""
    command = [sys.executable, "-m", "benchmarks.peer_files", runtime, str(file), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent.parent)
    if done.returncode != 0:
        reason = (done.stderr.strip() or f"ended with {done.returncode}").splitlines()[-1]
        print(f"left out: {runtime} for {file.name}: {reason}", file=sys.stderr)
        return None
    return out


def ncnn(file: Path, out: Path) -> None:
    """OUT is the text of the layers; beside it lie the weights (.bin) and the sides of the input (.json)."""
    import ncnn as runtime
    import onnx
    from pnnx import EXEC_PATH

    source = onnx.load(file, load_external_data=False).graph.input[0]
    sides = [side.dim_value for side in source.type.tensor_type.shape.dim[1:]]
    out.with_suffix(".json").write_text(json.dumps(sides))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)  # pnnx writes seven files beside the one that it reads
        shutil.copy(file, folder / "network.onnx")
        subprocess.run([EXEC_PATH, "network.onnx"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        shutil.move(folder / "network.ncnn.param", out)
        shutil.move(folder / "network.ncnn.bin", out.with_suffix(".bin"))
    if runtime.Net().load_param(str(out)) != 0:
        raise SystemExit("ncnn lacks a layer that pnnx has written")


def executorch(file: Path, out: Path) -> None:
    """A program of XNNPACK's operators."""
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from executorch.exir import to_edge_transform_and_lower
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from edgemeta.model.graph import FloatModel
    from edgemeta.toolchain.importer.import_network import import_network
    from edgemeta.toolchain.importer.pixels import Pixels
    from edgemeta.toolchain.torch_network import TorchNetwork

    model = import_network(file, out.with_name(f"{out.name}-float.safetensors"), Pixels(deviation=(255.0,))).model
    assert isinstance(model, FloatModel)

    class Network(torch.nn.Module):
        """The network's own input and outputs; a dense layer of one pixel is a convolution, as XNNPACK wants it."""

        def __init__(self) -> None:
            super().__init__()
            self.network = TorchNetwork(model)
            for name, module in list(self.network.named_children()):
                if isinstance(module, torch.nn.Linear):
                    made = torch.nn.Conv2d(module.in_features, module.out_features, 1)
                    made.weight.data = module.weight.data[:, :, None, None]
                    made.bias.data = module.bias.data  # type: ignore[union-attr]
                    setattr(self.network, name, made)
            for weights in self.parameters():  # XNNPACK's pass takes those that lie as ours for its own
                weights.data = weights.data.clone(memory_format=torch.contiguous_format)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return self.network.values(x, self.network.outputs)

    height, width, channels = model.input_shape
    pixels = np.random.default_rng(0).uniform(0, 255, (1, channels, height, width)).astype(np.float32)
    sample = (torch.from_numpy(pixels),)
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(torch.export.export(Network().eval(), sample).module(), quantizer)
    with torch.no_grad():
        prepared(*sample)
    exported = torch.export.export(convert_pt2e(prepared), sample)
    program = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()
    out.write_bytes(program.buffer)


if __name__ == "__main__":
    {"ncnn": ncnn, "executorch": executorch}[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
