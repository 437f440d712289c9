"""The shipped float network as the PyTorch module used in its training, for the peers and as an oracle."""

from edgemeta.model.graph import FloatModel
from edgemeta.toolchain.torch_network import TorchNetwork, load_weights
from edgemeta.toolchain.train.designs import Design
from edgemeta.toolchain.train.networks import build


def torch_resnet8(model: FloatModel) -> TorchNetwork:
    """ResNet-8 in evaluation mode with a float model's weights; images [N, 3, 32, 32] to logits [N, labels].

    Raises ModelError if the model's layers are not ResNet-8's.
    """
    network = build(Design(len(model.labels)))
    load_weights(network, model, model.name)
    return network.eval()
