"""How a buffer lies in memory, as the defines that kernels read."""

from edgemeta.kernels.cuda.plan.launch_plan import Buffer, Defines
from edgemeta.model.layers import TensorType


def integer_type(buffer: Buffer) -> TensorType:
    """Type of a buffer of integers, the only ones that reach integer kernels."""
    assert isinstance(buffer.kind, TensorType), f"{buffer.name} holds floats"
    return buffer.kind


def tensor_defines(prefix: str, buffer: Buffer, most_words: int = 4) -> Defines:
    """Defines for TENSOR (tensor.cuh), in elements.

    PREFIX_IMAGE, _ROW, _PIXEL: strides. _START: the inside's first element. _WORDS: 4-byte words that one access may
    take, 4, 2 or 1 up to `most_words`, or 0 where only single elements are aligned. _CHANNELS in memory. _SIGNED.
    """
    height, width, channels = buffer.shape
    top, left, _, _ = buffer.ring
    row = width * channels
    values = {
        "IMAGE": height * row,
        "ROW": row,
        "PIXEL": channels,
        "START": top * row + left * channels,
        "WORDS": next((words for words in (4, 2, 1) if words <= most_words and channels % (4 * words) == 0), 0),
        "CHANNELS": channels,
        "SIGNED": int(integer_type(buffer).signed),
    }
    return tuple((f"{prefix}_{key}", value) for key, value in values.items())
