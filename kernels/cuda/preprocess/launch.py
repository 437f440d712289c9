"""The launch that makes a model's input of camera frames."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Argument, Buffer, Constant, Launch, LaunchPlan, Source
from edgemeta.kernels.cuda.preprocess.geometry import FrameLayout, Tables, tables_of
from edgemeta.model.graph import channels_of
from edgemeta.model.layers import TensorType
from edgemeta.model.preprocess import ImageInput, Rectangle

PREPROCESSING = ("preprocessing",)
"""What a launch has in place of layers."""

FRAME_SHAPE = 480, 640, 3
"""Of the frames for which times are predicted: rows, columns, channels."""

_THREADS = 128
_FEW_MULTIPROCESSORS, _SMALL = 2, 64
_COLOURS = "bgrya"
_SUMS_BYTES, _PIXEL_BYTES = 16 * (1536 // 4 + 2), 4 * 3  # of `Scratch` in body.cuh
_FILL, _TABLE_ROW = 256, 260


def preprocessing_source(model: ImageInput, architecture: Architecture) -> Source:
    """The kernel for a model's input; it does not depend on the frames."""
    height, width, channels = model.input.shape
    codes = [_COLOURS.index(letter) for letter in channels_of(model.preprocessing.colour)]
    defines = {
        "THREADS": _THREADS,
        "HEIGHT": height,
        "WIDTH": width,
        "CHANNELS": channels,
        "PIXELS": _pixels(width, architecture),
        "COLOURS": sum(code << 4 * c for c, code in enumerate(codes)),
    }
    return Source("preprocess/kernel.cu", "preprocess", tuple(defines.items()))


def preprocessing_table(model: ImageInput) -> Constant:
    """uint8 [C, 260]: the entries' bytes; the fill's, at column 256; three that are not used."""
    preprocessing, (_, _, channels) = model.preprocessing, model.input.shape
    entries: NDArray[np.uint8] = np.ascontiguousarray(np.broadcast_to(preprocessing.table, (channels, 256))).view(
        np.uint8
    )
    table = np.zeros((channels, _TABLE_ROW), np.uint8)
    table[:, :_FILL] = entries
    table[:, _FILL] = entries[np.arange(channels), np.array(preprocessing.fill, np.uint8)]
    return Constant("preprocessing.table", table)


def preprocessing_launch(model: ImageInput, architecture: Architecture, tables: Tables, output: Buffer) -> Launch:
    """The launch for images of the tables. Arguments: frames, geometries, spans, table, output.

    The frames are a buffer of `tables.nbytes`, of one image. output: the packed buffer that the network reads.
    """
    height, width, _ = model.input.shape
    pixels = _pixels(width, architecture)
    arguments: tuple[Argument, ...] = (
        Buffer("frames", TensorType((1, 1, tables.nbytes), signed=False), packed=True),
        Constant("preprocessing.geometries", tables.geometries),
        Constant("preprocessing.spans", tables.spans),
        preprocessing_table(model),
        output,
    )
    return Launch(
        PREPROCESSING,
        preprocessing_source(model, architecture),
        (height, -(-width // pixels)),
        (_THREADS, 1, 1),
        arguments,
        shared_bytes=_SUMS_BYTES + _PIXEL_BYTES * pixels,
    )


def with_preprocessing(plan: LaunchPlan, model: ImageInput, frame_shape: tuple[int, int, int]) -> LaunchPlan:
    """A network's plan that begins with the preprocessing of a whole frame of a shape; its input is the frame.

    The code is the same for all frames: for others an executor gives the preprocessing's first three arguments other
    memory. Raises FrameError for a frame that is too large.
    """
    tables = tables_of([FrameLayout(model, frame_shape, [Rectangle(0, 0, *frame_shape[:2])])])
    launch = preprocessing_launch(model, plan.architecture, tables, plan.input)
    frames = launch.arguments[0]
    assert isinstance(frames, Buffer)
    return replace(plan, launches=(launch, *plan.launches), input=frames)


def _pixels(width: int, architecture: Architecture) -> int:
    """Pixels of a row that a block makes: fewer where many multiprocessors share the image."""
    few, many = (32, 128) if architecture.multiprocessors <= _FEW_MULTIPROCESSORS else (8, 32)
    return few if width <= _SMALL else many
