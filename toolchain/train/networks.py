"""The networks that can be trained, exported and shipped: residual networks, MobileNetV2, VGG16, AlexNet.

All take float [B, 3, S, S] (channels first) holding (pixel - 128) / 128 and give logits [B, classes]. The depth of a
residual network, the width and the number of classes are free; the input's side S decides only where the network halves
its grid, so that weights learnt at one size load at any other.
"""

from collections.abc import Callable

from edgemeta.model.graph import FloatModel
from edgemeta.toolchain.torch_network import TorchNetwork, load_weights
from edgemeta.toolchain.train.designs import Design, Family
from edgemeta.toolchain.train.network_builder import NetworkBuilder

_GRID = 6
"""The last grid of a network has at least this many rows."""

#: Convolutions, by stage, of MobileNetV2: factor of expansion, channels, blocks, whether the first block may halve.
_MOBILENET_STAGES = (
    (1, 16, 1, False),
    (6, 24, 2, True),
    (6, 32, 3, True),
    (6, 64, 4, True),
    (6, 96, 3, False),
    (6, 160, 3, True),
    (6, 320, 1, False),
)


#: Channels of VGG16's convolutions, by stage; each stage ends with a max-pooling.
_VGG_STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


def build(design: Design) -> TorchNetwork:
    """The network of a design, with random weights from PyTorch's generator; its labels are numbers."""
    return TorchNetwork(_BUILDERS[design.family](design))


def network_of(design: Design | None, start: FloatModel | None, source: str) -> TorchNetwork:
    """The network of a design, with the weights of `start` if there is one; without a design, `start` itself.

    Raises ModelError with `source` for a float model of other layers.
    """
    if design is None:
        assert start is not None
        return TorchNetwork(start)
    network = build(design)
    if start is not None:
        load_weights(network, start, source)
    return network


def halvings(size: int) -> int:
    """How often a network for inputs of this side halves its grid: as often as the last grid keeps six rows."""
    count = 0
    while size >= _GRID << (count + 1):
        count += 1
    return count


def _resnet(design: Design) -> FloatModel:
    """ResNet: a convolution, three stages of residual blocks of two convolutions, global average, one dense layer.

    Stages 2 and 3 halve the grid; a larger input is halved before by the first convolution, then by max-pooling.
    ReLU after every convolution and addition, but not between a block's second batch norm and its addition.
    """
    widths = [max(1, round(base * design.width)) for base in (16, 32, 64)]
    count = halvings(design.size)
    net = NetworkBuilder(design.size)
    x = net.relu(net.convolution("input", 3, widths[0], 3, 2 if count > 2 else 1))
    if count > 3:
        x = net.max_pool("pool0", x)
    cin = widths[0]
    for stage, width in enumerate(widths):
        for block in range((design.depth - 2) // 6):
            stride = 2 if stage and not block else 1
            side = x if stride == 1 else net.convolution(x, cin, width, 1, stride)
            inner = net.relu(net.convolution(x, cin, width, 3, stride))
            x = net.relu(net.join(side, net.convolution(inner, width, width, 3, 1)))
            cin = width
    return net.classifier(design.name, x, cin, design.classes)


def _mobilenet(design: Design) -> FloatModel:
    """MobileNetV2 (Sandler et al. 2018): expansion, depthwise convolution, linear projection; ReLU6.

    The grid is halved at the last of the five places of the published network that the size has use for. Channels are
    multiples of 8.
    """
    places = 5 - halvings(design.size)  # places, from the front, that do not halve
    net = NetworkBuilder(design.size)
    cin = _multiple_of_8(32 * design.width)
    x = net.relu_to_6(net.convolution("input", 3, cin, 3, 1 if places > 0 else 2))
    places -= 1
    for expansion, channels, blocks, halves in _MOBILENET_STAGES:
        width = _multiple_of_8(channels * design.width)
        for block in range(blocks):
            stride = 1
            if halves and block == 0:
                stride, places = 1 if places > 0 else 2, places - 1
            inner = x if expansion == 1 else net.relu_to_6(net.convolution(x, cin, cin * expansion, 1, 1))
            wide = cin * expansion
            inner = net.relu_to_6(net.convolution(inner, wide, wide, 3, stride, groups=wide))
            out = net.convolution(inner, wide, width, 1, 1)
            x = net.join(x, out) if stride == 1 and cin == width else out
            cin = width
    last = _multiple_of_8(1280 * max(1.0, design.width))
    x = net.relu_to_6(net.convolution(x, cin, last, 1, 1))
    return net.classifier(design.name, x, last, design.classes)


def _vgg(design: Design) -> FloatModel:
    """VGG16 with batch norm (Simonyan and Zisserman 2014): 13 convolutions of 3x3, each with a ReLU, in five stages.

    As usual for CIFAR, one dense layer follows the global average. A stage halves its grid while two rows remain.
    """
    net = NetworkBuilder(design.size)
    x, cin, rows = "input", 3, design.size
    for stage, widths in enumerate(_VGG_STAGES):
        for base in widths:
            width = max(1, round(base * design.width))
            x = net.relu(net.convolution(x, cin, width, 3, 1))
            cin = width
        if rows > 1:
            x, rows = net.max_pool(f"pool{stage}", x), rows // 2
    return net.classifier(design.name, x, cin, design.classes)


def _alexnet(design: Design) -> FloatModel:
    """AlexNet (Krizhevsky, Sutskever and Hinton 2012): five convolutions, three dense layers, with batch norm.

    Filters and neurons are those of its one-column form (Krizhevsky 2014). The first two convolutions are 5x5; the
    first, the second and the last one are followed by a max-pooling of 2x2. The first has stride 2 or 4 for larger
    inputs. The dense layers read the global average, so that the weights fit every size.
    """
    widths = [max(1, round(base * design.width)) for base in (64, 192, 384, 256, 256)]
    count = halvings(design.size)
    net = NetworkBuilder(design.size)
    x, cin = "input", 3
    for number, width in enumerate(widths):
        stride = 1 << max(0, count - 3) if number == 0 else 1
        x = net.relu(net.convolution(x, cin, width, 5 if number < 2 else 3, stride))
        if number in (0, 1, 4):
            x = net.max_pool(f"pool{number}", x)
        cin = width
    return net.classifier(design.name, x, cin, design.classes, hidden=[max(1, round(4096 * design.width))] * 2)


def _multiple_of_8(channels: float) -> int:
    """The nearest multiple of 8, at least 8 and at least nine tenths of `channels`, as the published networks have."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


_BUILDERS: dict[Family, Callable[[Design], FloatModel]] = {
    "resnet": _resnet,
    "mobilenetv2": _mobilenet,
    "vgg16": _vgg,
    "alexnet": _alexnet,
}
