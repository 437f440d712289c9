"""The operators of networks; they define the exact integer result of every layer, and the real one.

Each is one record in one file of this folder: its fields, its rule of shape, its proof and its integers. Padding of a
kernel is smaller than the (dilated) kernel on every side. ReLU is a clamp from below at the zero point; ReLU6 also
clamps from above at the integer of 6.0. Sigmoid, swish and every other function of one element is a Lookup. A
transposed convolution is a Pad with spacing and a Conv.
"""

from typing import TypeAlias

from edgemeta.model.layers.activations import BatchNorm, Function, PRelu, Relu
from edgemeta.model.layers.attention import MatMul, Softmax
from edgemeta.model.layers.elementwise import Add, Clamp, Lookup, Product, Rescale
from edgemeta.model.layers.moving import (
    ChannelShuffle,
    Concat,
    Constant,
    DepthToSpace,
    Pad,
    Rearrange,
    Slice,
    Take,
    Upsample,
)
from edgemeta.model.layers.normalize import LayerNorm, Normalize
from edgemeta.model.layers.operator import MAX_SIDE, Homogeneous, Joining, Moving, Operator, Summing, Windowed, slide
from edgemeta.model.layers.pools import AveragePool, GlobalAverage, MaxPool, Mean, Pool
from edgemeta.model.layers.products import Affine, Conv, Dense, Weighted
from edgemeta.model.layers.resize import ResizeBilinear
from edgemeta.model.layers.table_recipe import TableRecipe
from edgemeta.model.layers.types import (
    REAL,
    Coordinates,
    Float32,
    Multiplier,
    Padding,
    Pair,
    Requantize,
    Shape,
    ShiftTable,
    TensorType,
    real,
)

_Both: TypeAlias = (
    Add
    | MaxPool
    | AveragePool
    | Product
    | Concat
    | Upsample
    | Pad
    | Slice
    | ChannelShuffle
    | DepthToSpace
    | Rearrange
    | Take
    | ResizeBilinear
    | Constant
    | MatMul
    | Softmax
)

Layer: TypeAlias = Conv | Dense | Affine | Clamp | Lookup | Normalize | Rescale | _Both
"""The layers of integer networks."""

FloatLayer: TypeAlias = (
    Conv[Float32] | Dense[Float32] | BatchNorm | Function | GlobalAverage | LayerNorm | PRelu | Relu | _Both
)
"""The layers of float networks."""

__all__ = [
    "MAX_SIDE",
    "REAL",
    "Add",
    "Affine",
    "AveragePool",
    "BatchNorm",
    "ChannelShuffle",
    "Clamp",
    "Concat",
    "Constant",
    "Conv",
    "Coordinates",
    "Dense",
    "DepthToSpace",
    "Float32",
    "FloatLayer",
    "Function",
    "GlobalAverage",
    "Homogeneous",
    "Joining",
    "Layer",
    "LayerNorm",
    "Lookup",
    "MatMul",
    "MaxPool",
    "Mean",
    "Moving",
    "Multiplier",
    "Normalize",
    "Operator",
    "PRelu",
    "Pad",
    "Padding",
    "Pair",
    "Pool",
    "Product",
    "Rearrange",
    "Relu",
    "Requantize",
    "Rescale",
    "ResizeBilinear",
    "Shape",
    "ShiftTable",
    "Slice",
    "Softmax",
    "Summing",
    "TableRecipe",
    "Take",
    "TensorType",
    "Upsample",
    "Weighted",
    "Windowed",
    "real",
    "slide",
]
