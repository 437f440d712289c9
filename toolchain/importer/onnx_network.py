"""The operators of ONNX that can be imported, and the import of a whole file."""

from collections.abc import Callable, Mapping
from pathlib import Path

from edgemeta.toolchain.importer import elementwise, rearranging, windows
from edgemeta.toolchain.importer.builder import Builder, Imported, build_network
from edgemeta.toolchain.importer.elementwise import function
from edgemeta.toolchain.importer.network import Network, Node
from edgemeta.toolchain.importer.onnx_file import read_onnx
from edgemeta.toolchain.importer.values import Value

OPERATORS: Mapping[str, Callable[[Builder, Node], Value | tuple[Value, ...]]] = {
    "Add": elementwise.add,
    "AveragePool": windows.average_pool,
    "BatchNormalization": elementwise.batch_norm,
    "Cast": rearranging.same,
    "Clip": elementwise.clip,
    "Concat": rearranging.concat,
    "Conv": windows.conv,
    "ConvTranspose": windows.conv_transpose,
    "DepthToSpace": rearranging.depth_to_space,
    "Div": elementwise.divide,
    "Dropout": rearranging.same,
    "Elu": function("elu", 1.0),
    "Flatten": rearranging.reshape,
    "Gemm": rearranging.gemm,
    "GlobalAveragePool": windows.global_average,
    "GlobalMaxPool": windows.global_max,
    "HardSigmoid": function("hard_sigmoid", 0.2, 0.5),
    "HardSwish": function("hard_swish"),
    "Identity": rearranging.same,
    "LeakyRelu": function("leaky_relu", 0.01),
    "MatMul": rearranging.gemm,
    "MaxPool": windows.max_pool,
    "Mish": function("mish"),
    "Mul": elementwise.multiply,
    "PRelu": elementwise.prelu,
    "Pad": rearranging.pad,
    "ReduceMean": rearranging.reduce_mean,
    "Relu": elementwise.relu,
    "Reshape": rearranging.reshape,
    "Resize": rearranging.resize,
    "Sigmoid": function("sigmoid"),
    "Slice": rearranging.slice_of,
    "Softmax": rearranging.softmax,
    "Softplus": function("softplus"),
    "SpaceToDepth": rearranging.space_to_depth,
    "Split": rearranging.split,
    "Squeeze": rearranging.reshape,
    "Sub": elementwise.subtract,
    "Tanh": function("tanh"),
    "Transpose": rearranging.transpose,
    "Unsqueeze": rearranging.reshape,
    "Upsample": rearranging.resize,
}
"""By ONNX's name; what each takes is in docs/import.md."""


def import_onnx(path: Path, size: tuple[int, int] | None = None) -> tuple[Network, Imported]:
    """The network of a file, and its float layers. Raises ImportedFileError that names every unsupported node."""
    network = read_onnx(path, size)
    return network, build_network(network, OPERATORS, path)
