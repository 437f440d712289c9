"""The operators of ONNX that can be imported, and the import of a whole file."""

from collections.abc import Mapping
from pathlib import Path

from edgemeta.toolchain.importer import elementwise, rearranging, reducing, sizing, taking, windows
from edgemeta.toolchain.importer.answers import without_answers
from edgemeta.toolchain.importer.builder import Imported, build_network
from edgemeta.toolchain.importer.elementwise import function
from edgemeta.toolchain.importer.network import Network
from edgemeta.toolchain.importer.onnx_file import read_onnx
from edgemeta.toolchain.importer.tokens import TOKENS, Convert, or_tokens

_MAPS: Mapping[str, Convert] = {
    "Abs": function("abs"),
    "Add": elementwise.add,
    "AveragePool": windows.average_pool,
    "BatchNormalization": elementwise.batch_norm,
    "Cast": rearranging.cast,
    "Celu": function("celu", 1.0),
    "Clip": elementwise.clip,
    "Concat": rearranging.concat,
    "Conv": windows.conv,
    "ConvTranspose": windows.conv_transpose,
    "DepthToSpace": rearranging.depth_to_space,
    "Div": elementwise.divide,
    "Dropout": rearranging.same,
    "Elu": function("elu", 1.0),
    "Exp": function("exp"),
    "Expand": sizing.expand,
    "Flatten": rearranging.reshape,
    "Gather": taking.gather,
    "Gemm": rearranging.gemm,
    "GlobalAveragePool": windows.global_average,
    "GlobalMaxPool": windows.global_max,
    "Gelu": elementwise.gelu,
    "HardSigmoid": function("hard_sigmoid", 0.2, 0.5),
    "HardSwish": function("hard_swish"),
    "Identity": rearranging.same,
    "LRN": reducing.local_response,
    "LeakyRelu": function("leaky_relu", 0.01),
    "Log": function("log"),
    "MatMul": rearranging.gemm,
    "Max": reducing.extreme("max"),
    "MaxPool": windows.max_pool,
    "Min": reducing.extreme("min"),
    "Mish": function("mish"),
    "Mul": elementwise.multiply,
    "Neg": elementwise.negate,
    "PRelu": elementwise.prelu,
    "Pad": sizing.pad,
    "Pow": elementwise.power,
    "Reciprocal": function("power", -1.0),
    "ReduceL2": reducing.reduce("norm"),
    "ReduceMax": reducing.reduce("max"),
    "ReduceMean": reducing.reduce("mean"),
    "ReduceMin": reducing.reduce("min"),
    "ReduceSum": reducing.reduce("sum"),
    "Relu": elementwise.relu,
    "Reshape": rearranging.reshape,
    "Resize": sizing.resize,
    "Selu": function("selu", 1.67326319217681884765625, 1.05070102214813232421875),
    "Sigmoid": function("sigmoid"),
    "Slice": rearranging.slice_of,
    "Softmax": rearranging.softmax,
    "Softplus": function("softplus"),
    "Softsign": function("softsign"),
    "SpaceToDepth": rearranging.space_to_depth,
    "Split": rearranging.split,
    "Sqrt": function("power", 0.5),
    "Squeeze": rearranging.reshape,
    "Sub": elementwise.subtract,
    "Sum": reducing.total,
    "Tanh": function("tanh"),
    "Tile": sizing.tile,
    "Transpose": rearranging.transpose,
    "Unsqueeze": rearranging.reshape,
    "Upsample": sizing.resize,
}

OPERATORS: Mapping[str, Convert] = {
    **_MAPS,
    **{name: or_tokens(_MAPS.get(name), convert) for name, convert in TOKENS.items()},
}
"""By ONNX's name; what each takes is in docs/import.md."""


def import_onnx(path: Path, size: tuple[int, int] | None = None) -> tuple[Network, Imported]:
    """The network of a file, and its float layers. Raises ImportedFileError that names every unsupported node."""
    network, _ = without_answers(read_onnx(path, size))
    return network, build_network(network, OPERATORS, path)
