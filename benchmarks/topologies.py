"""Well-known networks as ONNX files with random weights, written node by node as exporters write them.

Each topology is that of its paper at the size that is common for it; weights are drawn so that activations keep their
size. So a file says nothing about pictures, but everything about operators, shapes and padding.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 13


class Network:
    """Writes nodes; each method returns the name of the new tensor. channels, side: of every map so far."""

    def __init__(self, name: str, side: int, seed: int, classes: int = 1000) -> None:
        self.name = name
        self.classes = classes
        self._rng = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self.channels = {"images": 3}
        self.side = {"images": side}

    def constant(self, values: NDArray[Any]) -> str:
        """A constant tensor."""
        name = f"constant{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(values, name))
        return name

    def node(self, op: str, *inputs: str, channels: int = 0, side: int = 0, outputs: int = 1, **attributes: Any) -> str:
        """Any node; channels and side of its result where they differ from the first input's."""
        name = f"{op.lower()}{len(self._nodes)}"
        names = [name, *(f"{name}.{i}" for i in range(1, outputs))]
        self._nodes.append(helper.make_node(op, list(inputs), names, name=name, **attributes))
        for each in names:
            self.channels[each] = channels or self.channels.get(inputs[0], 0)
            self.side[each] = side or self.side.get(inputs[0], 0)
        return name

    def conv(
        self,
        x: str,
        filters: int,
        kernel: int = 3,
        stride: int = 1,
        *,
        groups: int = 1,
        norm: bool = True,
        act: str = "Relu",
        pads: Sequence[int] | None = None,
    ) -> str:
        """Convolution, batch norm or bias, activation: "Relu", "Relu6", "Silu", "HardSwish", "LeakyRelu" or ""."""
        depth = self.channels[x] // groups
        spread = np.sqrt(2 / (depth * kernel * kernel))
        weight = self._rng.normal(0, spread, (filters, depth, kernel, kernel)).astype(np.float32)
        around = list(pads) if pads is not None else [kernel // 2] * 4
        side = (self.side[x] + around[0] + around[2] - kernel) // stride + 1
        inputs = [x, self.constant(weight)]
        if not norm:
            inputs.append(self.constant(self._rng.normal(0, 0.1, filters).astype(np.float32)))
        shape = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": around, "group": groups}
        y = self.node("Conv", *inputs, channels=filters, side=side, **shape)
        if norm:
            ranges = ((0.5, 1.5), (-0.2, 0.2), (-0.2, 0.2), (0.5, 1.5))
            numbers = [self.constant(self._rng.uniform(*each, filters).astype(np.float32)) for each in ranges]
            y = self.node("BatchNormalization", y, *numbers)
        return self.activation(y, act)

    def activation(self, x: str, act: str) -> str:
        """As exporters write it: swish as two nodes, ReLU6 as a clip."""
        if act == "Relu6":
            bounds = [self.constant(np.array(value, np.float32)) for value in (0, 6)]
            return self.node("Clip", x, *bounds)
        if act == "Silu":
            return self.node("Mul", x, self.node("Sigmoid", x))
        if act == "HardSwish":
            return self.node("Mul", x, self.node("HardSigmoid", x, alpha=1 / 6, beta=0.5))
        return self.node(act, x, **({"alpha": 0.1} if act == "LeakyRelu" else {})) if act else x

    def pool(self, x: str, kernel: int, stride: int, pad: int = 0, ceil: bool = False) -> str:
        """Max pool."""
        free = self.side[x] + 2 * pad - kernel
        side = (-(-free // stride) if ceil else free // stride) + 1
        shape = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4, "ceil_mode": int(ceil)}
        return self.node("MaxPool", x, side=side, **shape)

    def mean(self, x: str) -> str:
        """Global average."""
        return self.node("GlobalAveragePool", x, side=1)

    def flat(self, x: str) -> str:
        """Flatten."""
        count = self.channels[x] * self.side[x] ** 2
        return self.node("Flatten", x, channels=count, side=1, axis=1)

    def dense(self, x: str, outputs: int, act: str = "") -> str:
        """Gemm with transposed weights."""
        spread = np.sqrt(2 / self.channels[x])
        weight = self._rng.normal(0, spread, (outputs, self.channels[x])).astype(np.float32)
        bias = self._rng.normal(0, 0.1, outputs).astype(np.float32)
        y = self.node("Gemm", x, self.constant(weight), self.constant(bias), channels=outputs, transB=1)
        return self.activation(y, act)

    def join(self, *parts: str) -> str:
        """Concat of channels."""
        return self.node("Concat", *parts, channels=sum(self.channels[each] for each in parts), axis=1)

    def reshape(self, x: str, *shape: int) -> str:
        """Reshape to a constant shape."""
        return self.node("Reshape", x, self.constant(np.array(shape, np.int64)))

    def enlarged(self, x: str) -> str:
        """Twice the size, nearest neighbour."""
        scales = self.constant(np.array([1, 1, 2, 2], np.float32))
        places = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor", "mode": "nearest"}
        return self.node("Resize", x, "", scales, side=2 * self.side[x], **places)

    def gated(self, x: str, squeezed: int) -> str:
        """Squeeze and excite: a mean, two 1x1 convolutions, a hard sigmoid, a product."""
        y = self.conv(self.mean(x), squeezed, 1, norm=False)
        y = self.conv(y, self.channels[x], 1, norm=False, act="")
        return self.node("Mul", x, self.node("HardSigmoid", y, alpha=1 / 6, beta=0.5))

    def write(self, path: Path, *outputs: str) -> Path:
        """Write the file."""
        side = self.side["images"]
        images = helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, side, side])
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self._nodes, self.name, [images], results, self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        onnx.save(onnx.shape_inference.infer_shapes(model, strict_mode=True), str(path))
        return path


def alexnet(net: Network) -> list[str]:
    """Krizhevsky 2012, as one column."""
    x = net.conv("images", 64, 11, 4, norm=False, pads=[2] * 4)
    x = net.conv(net.pool(x, 3, 2), 192, 5, norm=False)
    x = net.conv(net.pool(x, 3, 2), 384, norm=False)
    x = net.conv(net.conv(x, 256, norm=False), 256, norm=False)
    x = net.flat(net.pool(x, 3, 2))
    return [net.dense(net.dense(net.dense(x, 4096, "Relu"), 4096, "Relu"), net.classes)]


def vgg16(net: Network) -> list[str]:
    """Simonyan and Zisserman 2015."""
    x = "images"
    for filters, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            x = net.conv(x, filters, norm=False)
        x = net.pool(x, 2, 2)
    return [net.dense(net.dense(net.dense(net.flat(x), 4096, "Relu"), 4096, "Relu"), net.classes)]


def vgg16_cifar(net: Network) -> list[str]:
    """VGG16 for images of 32 x 32, with one hidden layer of 512."""
    x = "images"
    for filters, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            x = net.conv(x, filters)
        x = net.pool(x, 2, 2)
    return [net.dense(net.dense(net.flat(x), 512, "Relu"), net.classes)]


def residual(net: Network, x: str, filters: int, stride: int) -> str:
    """Two convolutions and a shortcut, which is a convolution where the size changes."""
    y = net.conv(net.conv(x, filters, stride=stride), filters, act="")
    shortcut = net.conv(x, filters, 1, stride, act="") if stride == 2 else x
    return net.activation(net.node("Add", y, shortcut), "Relu")


def resnet18(net: Network) -> list[str]:
    """He et al. 2016."""
    x = net.pool(net.conv("images", 64, 7, 2), 3, 2, 1)
    for filters, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        x = residual(net, x, filters, stride)
    return [net.dense(net.flat(net.mean(x)), net.classes)]


def resnet_cifar(net: Network, blocks: int) -> list[str]:
    """He et al. 2016 for CIFAR-10: three stages of some blocks, 16, 32 and 64 channels."""
    x = net.conv("images", 16)
    for filters in (16, 32, 64):
        for number in range(blocks):
            x = residual(net, x, filters, 2 if filters > 16 and number == 0 else 1)
    return [net.dense(net.flat(net.mean(x)), net.classes)]


def resnet8(net: Network) -> list[str]:
    """ResNet-8, as in MLPerf Tiny."""
    return resnet_cifar(net, 1)


def resnet20(net: Network) -> list[str]:
    """ResNet-20."""
    return resnet_cifar(net, 3)


def squeezenet(net: Network) -> list[str]:
    """SqueezeNet 1.1: fire modules, pools with ceil_mode, a softmax at the end."""
    x = net.pool(net.conv("images", 64, 3, 2, norm=False, pads=[0] * 4), 3, 2, ceil=True)
    for number, squeezed in enumerate((16, 16, 32, 32, 48, 48, 64, 64)):
        narrow = net.conv(x, squeezed, 1, norm=False)
        x = net.join(*(net.conv(narrow, 4 * squeezed, kernel, norm=False) for kernel in (1, 3)))
        if number in (1, 3):
            x = net.pool(x, 3, 2, ceil=True)
    x = net.mean(net.conv(x, net.classes, 1, norm=False))
    return [net.node("Softmax", net.flat(x), axis=1)]


def mobilenet_v2(net: Network) -> list[str]:
    """Sandler et al. 2018, width 1."""
    x = net.conv("images", 32, 3, 2, act="Relu6")
    for expand, filters, count, first in (
        *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
        *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
    ):
        for number in range(count):
            x = inverted(net, x, expand, filters, first if number == 0 else 1, "Relu6")
    return [net.dense(net.flat(net.mean(net.conv(x, 1280, 1, act="Relu6"))), net.classes)]


def inverted(net: Network, x: str, expand: int, filters: int, stride: int, act: str, kernel: int = 3) -> str:
    """An inverted residual block."""
    wide = net.channels[x] * expand
    y = net.conv(x, wide, 1, act=act) if expand > 1 else x
    y = net.conv(net.conv(y, wide, kernel, stride, groups=wide, act=act), filters, 1, act="")
    return net.node("Add", y, x) if stride == 1 and net.channels[x] == filters else y


def efficientnet_lite0(net: Network) -> list[str]:
    """Without squeeze and excite, with ReLU6."""
    x = net.conv("images", 32, 3, 2, act="Relu6")
    for expand, filters, count, first, kernel in (
        *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3)),
        *((6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)),
    ):
        for number in range(count):
            x = inverted(net, x, expand, filters, first if number == 0 else 1, "Relu6", kernel)
    return [net.dense(net.flat(net.mean(net.conv(x, 1280, 1, act="Relu6"))), net.classes)]


def mobilenet_v3_small(net: Network) -> list[str]:
    """Howard et al. 2019: squeeze and excite, hard swish."""
    x = net.conv("images", 16, 3, 2, act="HardSwish")
    for kernel, wide, filters, gate, act, stride in (
        *((3, 16, 16, True, "Relu", 2), (3, 72, 24, False, "Relu", 2), (3, 88, 24, False, "Relu", 1)),
        *((5, 96, 40, True, "HardSwish", 2), (5, 240, 40, True, "HardSwish", 1), (5, 240, 40, True, "HardSwish", 1)),
        *((5, 120, 48, True, "HardSwish", 1), (5, 144, 48, True, "HardSwish", 1)),
        *((5, 288, 96, True, "HardSwish", 2), (5, 576, 96, True, "HardSwish", 1), (5, 576, 96, True, "HardSwish", 1)),
    ):
        y = net.conv(x, wide, 1, act=act) if wide != net.channels[x] else x
        y = net.conv(y, wide, kernel, stride, groups=wide, act=act)
        y = net.conv(net.gated(y, max(8, wide // 4)) if gate else y, filters, 1, act="")
        x = net.node("Add", y, x) if stride == 1 and net.channels[x] == filters else y
    x = net.flat(net.mean(net.conv(x, 576, 1, act="HardSwish")))
    return [net.dense(net.dense(x, 1024, "HardSwish"), net.classes)]


def shufflenet_v2(net: Network) -> list[str]:
    """Ma et al. 2018, width 1: splits and shuffled channels."""
    x = net.pool(net.conv("images", 24, 3, 2), 3, 2, 1)
    for filters, count in ((116, 4), (232, 8), (464, 4)):
        half = filters // 2
        for number in range(count):
            stride = 2 if number == 0 else 1
            left = right = x
            if stride == 1:
                left = net.node("Split", x, outputs=2, channels=half, axis=1)
                right = f"{left}.1"
            else:
                wide = net.channels[left]
                left = net.conv(net.conv(left, wide, 3, 2, groups=wide, act=""), half, 1)
            right = net.conv(right, half, 1)
            right = net.conv(net.conv(right, half, 3, stride, groups=half, act=""), half, 1)
            x, side = net.join(left, right), net.side[right]
            grouped = net.node("Transpose", net.reshape(x, 1, 2, half, side, side), perm=[0, 2, 1, 3, 4])
            x = net.reshape(grouped, 1, filters, side, side)
            net.channels[x] = filters
    return [net.dense(net.flat(net.mean(net.conv(x, 1024, 1))), net.classes)]


def yolo_v3_tiny(net: Network) -> list[str]:
    """Redmon and Farhadi 2018: two maps of 3 anchors by 85 numbers; a pool of stride 1 with one-sided padding."""
    x = "images"
    for filters in (16, 32, 64, 128):
        x = net.pool(net.conv(x, filters, act="LeakyRelu"), 2, 2)
    fine = net.conv(x, 256, act="LeakyRelu")
    x = net.conv(net.pool(fine, 2, 2), 512, act="LeakyRelu")
    padded = net.node("Pad", x, net.constant(np.array([0, 0, 0, 0, 0, 0, 1, 1], np.int64)), side=net.side[x] + 1)
    x = net.conv(net.pool(padded, 2, 1), 1024, act="LeakyRelu")
    x = net.conv(x, 256, 1, act="LeakyRelu")
    coarse = net.conv(net.conv(x, 512, act="LeakyRelu"), 255, 1, norm=False, act="")
    x = net.join(net.enlarged(net.conv(x, 128, 1, act="LeakyRelu")), fine)
    return [coarse, net.conv(net.conv(x, 256, act="LeakyRelu"), 255, 1, norm=False, act="")]


def yolo_v8n(net: Network) -> list[str]:
    """In the manner of YOLOv8n: split-and-join blocks, a pyramid, three heads of 64 box bins and 80 classes."""
    act = {"act": "Silu"}

    def block(x: str, filters: int, count: int, is_residual: bool) -> str:
        half = filters // 2
        left = net.node("Split", net.conv(x, filters, 1, **act), outputs=2, channels=half, axis=1)
        parts = [left, f"{left}.1"]
        for _ in range(count):
            y = net.conv(net.conv(parts[-1], half, **act), half, **act)
            parts.append(net.node("Add", parts[-1], y) if is_residual else y)
        return net.conv(net.join(*parts), filters, 1, **act)

    x = net.conv(net.conv("images", 16, 3, 2, **act), 32, 3, 2, **act)
    x = net.conv(block(x, 32, 1, True), 64, 3, 2, **act)
    p3 = block(x, 64, 2, True)
    p4 = block(net.conv(p3, 128, 3, 2, **act), 128, 2, True)
    x = net.conv(block(net.conv(p4, 256, 3, 2, **act), 256, 1, True), 128, 1, **act)
    pools = [x]
    for _ in range(3):
        pools.append(net.pool(pools[-1], 5, 1, 2))
    p5 = net.conv(net.join(*pools), 256, 1, **act)
    n4 = block(net.join(net.enlarged(p5), p4), 128, 1, False)
    n3 = block(net.join(net.enlarged(n4), p3), 64, 1, False)
    n4 = block(net.join(net.conv(n3, 64, 3, 2, **act), n4), 128, 1, False)
    n5 = block(net.join(net.conv(n4, 128, 3, 2, **act), p5), 256, 1, False)
    heads = []
    for x in (n3, n4, n5):
        boxes = net.conv(net.conv(net.conv(x, 64, **act), 64, **act), 64, 1, norm=False, act="")
        classes = net.conv(net.conv(net.conv(x, 80, **act), 80, **act), 80, 1, norm=False, act="")
        y = net.join(boxes, net.node("Sigmoid", classes))
        heads.append(net.reshape(y, 1, 144, net.side[x] ** 2))
    return [net.node("Concat", *heads, axis=2)]


def ssd_mobilenet(net: Network) -> list[str]:
    """MobileNetV1 with six maps, 6 boxes each (3 on the first): rows of 4 numbers, and of 21 classes."""
    x = net.conv("images", 32, 3, 2, act="Relu6")
    maps = []
    for filters, stride in (
        *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1), (512, 1), (512, 1)),
        *((1024, 2), (1024, 1)),
    ):
        if filters == 1024 and stride == 2:
            maps.append(x)
        x = net.conv(x, net.channels[x], 3, stride, groups=net.channels[x], act="Relu6")
        x = net.conv(x, filters, 1, act="Relu6")
    maps.append(x)
    for filters in (512, 256, 256, 128):
        maps.append(x := net.conv(net.conv(x, filters // 2, 1, act="Relu6"), filters, 3, 2, act="Relu6"))
    outputs = []
    for width in (4, 21):
        rows = []
        for number, each in enumerate(maps):
            y = net.conv(each, (3 if number == 0 else 6) * width, norm=False, act="")
            rows.append(net.reshape(net.node("Transpose", y, perm=[0, 2, 3, 1]), 1, -1, width))
        outputs.append(net.node("Concat", *rows, axis=1))
    return outputs


TOPOLOGIES: Mapping[str, tuple[Callable[[Network], list[str]], int]] = {
    "alexnet": (alexnet, 224),
    "efficientnet_lite0": (efficientnet_lite0, 224),
    "mobilenet_v2": (mobilenet_v2, 224),
    "mobilenet_v3_small": (mobilenet_v3_small, 224),
    "resnet18": (resnet18, 224),
    "resnet20": (resnet20, 32),
    "resnet8": (resnet8, 32),
    "shufflenet_v2": (shufflenet_v2, 224),
    "squeezenet": (squeezenet, 224),
    "ssd_mobilenet": (ssd_mobilenet, 300),
    "vgg16": (vgg16, 224),
    "vgg16_cifar": (vgg16_cifar, 32),
    "yolo_v3_tiny": (yolo_v3_tiny, 416),
    "yolo_v8n": (yolo_v8n, 640),
}
"""By name, with the usual side of the image."""


def write_topology(name: str, folder: Path, side: int | None = None, classes: int = 1000) -> Path:
    """Write FOLDER/NAME.onnx. side: of the image; None is the usual one. classes: of a classification."""
    make, usual = TOPOLOGIES[name]
    net = Network(name, side or usual, sum(name.encode()), classes)
    outputs = make(net)
    return net.write(folder / f"{name}.onnx", *outputs)
