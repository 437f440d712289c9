"""Memory layout of buffers as preprocessor definitions for kernels."""

from edgemeta.kernels.cuda.plan.launch_plan import Buffer, Defines
from edgemeta.model.layers import TensorType


def integer_type(buffer: Buffer) -> TensorType:
    """Type of an integer buffer; float buffers never reach integer kernels."""
    assert isinstance(buffer.kind, TensorType), f"{buffer.name} holds floats"
    return buffer.kind


def tensor_defines(prefix: str, buffer: Buffer, most_words: int = 4) -> Defines:
    """Defines for TENSOR (tensor.cuh), in elements.

    PREFIX_IMAGE, _ROW, _PIXEL: strides. _START: first element inside the ring. _WORDS: 4-byte words per access, 4, 2 or
    1 up to `most_words`, or 0 if only single elements are aligned. _CHANNELS: in memory. _SIGNED, _NIBBLES: 1 or 0.
    """
    height, width, elements = buffer.shape
    top, left, _, _ = buffer.ring
    row = width * elements
    values = {
        "IMAGE": height * row,
        "ROW": row,
        "PIXEL": elements,
        "START": top * row + left * elements,
        "WORDS": next((words for words in (4, 2, 1) if words <= most_words and elements % (4 * words) == 0), 0),
        "CHANNELS": elements * (2 if buffer.nibbles else 1),
        "SIGNED": int(integer_type(buffer).signed),
        "NIBBLES": int(buffer.nibbles),
    }
    return tuple((f"{prefix}_{key}", value) for key, value in values.items())
