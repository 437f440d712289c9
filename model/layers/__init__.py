"""The operators of the quantized graph; they define the exact integer result of every layer.

Each is one record in one file of this folder: its fields, its rule of shape, its proof and its integers. Padding of a
kernel is smaller than the (dilated) kernel on every side. ReLU is a clamp from below at the zero point; ReLU6 also
clamps from above at the integer of 6.0. Sigmoid, swish and every other function of one element is a Lookup. A
transposed convolution is a Pad with spacing and a Conv.
"""

from typing import TypeAlias

from edgemeta.model.layers.elementwise import Add, Clamp, Lookup, Product, Rescale
from edgemeta.model.layers.moving import ChannelShuffle, Concat, Pad, Slice, Upsample
from edgemeta.model.layers.operator import MAX_SIDE, Homogeneous, Moving, Operator, Windowed, slide
from edgemeta.model.layers.pools import AveragePool, MaxPool, Pool
from edgemeta.model.layers.products import Conv, Dense, Weighted
from edgemeta.model.layers.resize import ResizeBilinear
from edgemeta.model.layers.types import (
    Coordinates,
    Multiplier,
    Padding,
    Pair,
    Requantize,
    Shape,
    ShiftTable,
    TensorType,
)

Layer: TypeAlias = (
    Conv
    | Dense
    | Add
    | Clamp
    | Rescale
    | MaxPool
    | AveragePool
    | Concat
    | Upsample
    | Lookup
    | Product
    | Pad
    | Slice
    | ChannelShuffle
    | ResizeBilinear
)

__all__ = [
    "MAX_SIDE",
    "Add",
    "AveragePool",
    "ChannelShuffle",
    "Clamp",
    "Concat",
    "Conv",
    "Coordinates",
    "Dense",
    "Homogeneous",
    "Layer",
    "Lookup",
    "MaxPool",
    "Moving",
    "Multiplier",
    "Operator",
    "Pad",
    "Padding",
    "Pair",
    "Pool",
    "Product",
    "Requantize",
    "Rescale",
    "ResizeBilinear",
    "Shape",
    "ShiftTable",
    "Slice",
    "TensorType",
    "Upsample",
    "Weighted",
    "Windowed",
    "slide",
]
