"""The operators of TFLite that can be imported, and the import of a whole file."""

from collections.abc import Callable, Mapping
from pathlib import Path

from edgemeta.model.layers import AveragePool, MaxPool
from edgemeta.toolchain.importer import elementwise, rearranging, reducing, sizing, taking
from edgemeta.toolchain.importer import tflite_operators as tflite
from edgemeta.toolchain.importer.answers import without_answers
from edgemeta.toolchain.importer.builder import Builder, Imported, build_network
from edgemeta.toolchain.importer.elementwise import function
from edgemeta.toolchain.importer.network import Network, Node
from edgemeta.toolchain.importer.tflite_file import read_tflite
from edgemeta.toolchain.importer.tflite_operators import activated, activation
from edgemeta.toolchain.importer.tflite_tokens import TFLITE_TOKENS
from edgemeta.toolchain.importer.tokens import or_tokens
from edgemeta.toolchain.importer.values import Value

_MAPS: Mapping[str, Callable[[Builder, Node], Value | tuple[Value, ...]]] = {
    "ABS": function("abs"),
    "ADD": activated(elementwise.add),
    "ADD_N": reducing.total,
    "AVERAGE_POOL_2D": activated(tflite.pool(AveragePool)),
    "BROADCAST_TO": sizing.expand,
    "CONCATENATION": activated(rearranging.concat),
    "CONV_2D": activated(tflite.conv),
    "CUSTOM Convolution2DTransposeBias": tflite.transpose_conv_bias,
    "DEPTH_TO_SPACE": tflite.depth_to_space,
    "DEPTHWISE_CONV_2D": activated(tflite.depthwise_conv),
    "DEQUANTIZE": elementwise.place_of,
    "DIV": activated(elementwise.divide),
    "ELU": function("elu", 1.0),
    "EXP": function("exp"),
    "EXPAND_DIMS": rearranging.reshape,
    "FULLY_CONNECTED": activated(tflite.fully_connected),
    "GATHER": taking.gather,
    "GELU": tflite.gelu,
    "HARD_SWISH": function("hard_swish"),
    "L2_NORMALIZATION": activated(reducing.to_length_one),
    "LEAKY_RELU": function("leaky_relu"),
    "LOCAL_RESPONSE_NORMALIZATION": tflite.local_response,
    "LOG": function("log"),
    "LOGISTIC": function("sigmoid"),
    "MAXIMUM": reducing.extreme("max"),
    "MAX_POOL_2D": activated(tflite.pool(MaxPool)),
    "MEAN": reducing.reduce("mean"),
    "MINIMUM": reducing.extreme("min"),
    "MIRROR_PAD": tflite.pad,
    "MUL": activated(elementwise.multiply),
    "NEG": elementwise.negate,
    "PAD": tflite.pad,
    "PADV2": tflite.pad,
    "POW": elementwise.power,
    "PRELU": elementwise.prelu,
    "QUANTIZE": elementwise.place_of,
    "REDUCE_MAX": reducing.reduce("max"),
    "REDUCE_MIN": reducing.reduce("min"),
    "RELU": activation("RELU"),
    "RELU6": activation("RELU6"),
    "RELU_N1_TO_1": activation("RELU_N1_TO_1"),
    "RESHAPE": rearranging.reshape,
    "RESIZE_BILINEAR": tflite.resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": tflite.resize_nearest,
    "SLICE": tflite.slice_of,
    "SOFTMAX": rearranging.softmax,
    "SPACE_TO_DEPTH": tflite.space_to_depth,
    "RSQRT": function("power", -0.5),
    "SPLIT": tflite.split,
    "SPLIT_V": tflite.split_v,
    "SQRT": function("power", 0.5),
    "SQUARE": function("power", 2.0),
    "SQUEEZE": rearranging.reshape,
    "STRIDED_SLICE": tflite.strided_slice,
    "SUB": activated(elementwise.subtract),
    "SUM": reducing.reduce("sum"),
    "TANH": activation("TANH"),
    "TILE": sizing.tile,
    "TRANSPOSE": tflite.transpose,
    "TRANSPOSE_CONV": activated(tflite.transpose_conv),
}
TFLITE_OPERATORS: Mapping[str, Callable[[Builder, Node], Value | tuple[Value, ...]]] = {
    **_MAPS,
    **{name: or_tokens(_MAPS.get(name), convert) for name, convert in TFLITE_TOKENS.items()},
}
"""By TFLite's name; what each takes is in docs/import.md."""


def import_tflite(path: Path, size: tuple[int, int] | None = None) -> tuple[Network, Imported]:
    """The network of a file, and its float layers. Raises ImportedFileError that names every unsupported node."""
    network, _ = without_answers(read_tflite(path, size))
    return network, build_network(network, TFLITE_OPERATORS, path)
