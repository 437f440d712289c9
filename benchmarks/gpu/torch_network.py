"""The shipped float network as the PyTorch module used in its training, for the peers and as an oracle."""

import numpy as np
import torch
from torch import Tensor

from edgemeta.toolchain.float_model.graph import BatchNorm, Conv, Dense, FloatModel
from edgemeta.toolchain.train.networks import ResNet8


def torch_resnet8(model: FloatModel) -> ResNet8:
    """ResNet-8 in evaluation mode with a float model's weights; images [N, 3, 32, 32] to logits [N, labels].

    Raises RuntimeError if the model's layers are not ResNet-8's.
    """
    state: dict[str, Tensor] = {}
    for layer in model.layers:
        if isinstance(layer, Conv):
            state[f"{layer.name}.weight"] = _tensor(layer.weight.transpose(0, 3, 1, 2))
        elif isinstance(layer, BatchNorm):
            parts = {
                "weight": layer.gamma,
                "bias": layer.beta,
                "running_mean": layer.mean,
                "running_var": layer.variance,
            }
            state |= {f"{layer.name}.{part}": _tensor(array) for part, array in parts.items()}
            state[f"{layer.name}.num_batches_tracked"] = torch.tensor(0)
        elif isinstance(layer, Dense) and layer.bias is not None:
            state |= {"fc.weight": _tensor(layer.weight), "fc.bias": _tensor(layer.bias)}
    network = ResNet8(len(model.labels))
    network.load_state_dict(state)
    return network.eval()


def _tensor(array: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
