"""Proof of a model's preprocessing: every frame becomes an input tensor of its type."""

from edgemeta.model.graph import FloatModel, Preprocessing, channels_of
from edgemeta.model.layers import TensorType
from edgemeta.model.require import require, require_array, require_between, require_values, shown

LETTERS = "rgbya"
MAX_CHANNELS = 4
COLOURS = f"'gray' or 1 to {MAX_CHANNELS} of the letters r, g, b, y (gray), a (alpha)"
"""The values of `colour`, for error texts."""


def prove_preprocessing(preprocessing: Preprocessing, kind: TensorType) -> None:
    """Raise ModelError unless the preprocessing makes tensors of the input's type `kind`."""
    channels = kind.shape[2]
    prove_colour(preprocessing.colour, channels)
    prove_fill(preprocessing, channels)
    require_array(preprocessing.table, kind.dtype, ((1, 256), (channels, 256)), "the preprocessing table")
    require_values(preprocessing.table, kind.lo, kind.hi, "the preprocessing table")


def is_colour(text: str) -> bool:
    """Whether a text names what each channel of an input holds."""
    letters = channels_of(text)
    return 1 <= len(letters) <= MAX_CHANNELS and set(letters) <= set(LETTERS)


def prove_colour(colour: str, channels: int) -> None:
    """Raise ModelError unless a colour names what each channel of an input holds."""
    require(is_colour(colour), f"the preprocessing's colour is {shown(colour)}, expected {COLOURS}")
    count = len(channels_of(colour))
    require(channels == count, f"the input has {channels} channels, expected {count} for colour {colour!r}")


def prove_fill(preprocessing: Preprocessing | FloatModel, channels: int) -> None:
    """Raise ModelError unless only a letterbox has fill and align, the fill of 1 value 0 .. 255 or one per channel."""
    crop, fill, align = preprocessing.crop, preprocessing.fill, preprocessing.align
    require(
        crop == "letterbox" or (fill, align) == ((0,), "center"),
        f"the preprocessing has fill {shown(list(fill))} and align {align!r}, expected neither for crop {crop!r}",
    )
    require(
        len(fill) in (1, channels),
        f"the preprocessing's fill has {len(fill)} values, expected 1 or {channels}, one for each channel",
    )
    for value in fill:
        require_between(value, 0, 255, "a value of the preprocessing's fill")
